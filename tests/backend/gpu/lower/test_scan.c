/* test_scan.c - the cumulative operations on a device against the CPU's: integers, max and
 * min bit for bit, sums within log2(n) + 16 roundings of the largest of them (and one for each 512
 * elements, since the CPU joins groups one after another), products and logarithms within 4 n and n
 * roundings of the value. */
#include "lower_support.h"

static const char *const op_names[] = {"cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"};

struct shape {
    int ndim, dims[LS_DIMS], axis;
};

/* The magnitudes that rounding errors are measured by, for each element of the output. */
static double *scale_of(const struct operand *out, enum kl_op_id op, const struct shape *sh) {
    const double n = sh->dims[sh->axis];
    const enum kl_dtype dtype = out->arg.dtype;
    const int parts = ls_parts(dtype);
    double *scale = calloc((size_t)out->arg.size + 1, sizeof *scale), top = 4;
    for (int64_t i = 0; i < out->arg.size; i++) {
        for (int k = 0; k < parts; k++) scale[i] += fabs(ls_get(out->block, dtype, i * parts + k));
        if (isfinite(scale[i])) top = fmax(top, scale[i]);
    }
    for (int64_t i = 0; i < out->arg.size; i++)
        scale[i] = op == KL_OP_CUMSUM    ? (top + 4) * (log2(n) + 16 + n / 512)
                   : op == KL_OP_CUMPROD ? scale[i] * 4 * n
                                         : (1 + scale[i]) * n;
    /* Complex terms, of at most exp(4) each, may cancel in a logarithm. */
    for (int64_t i = 0; i < out->arg.size && op == KL_OP_LOGCUMSUMEXP && parts == 2; i++)
        scale[i] += n * n * exp(4 - ls_get(out->block, dtype, 2 * i));
    return scale;
}

static void check_one(enum kl_op_id op, enum kl_dtype dtype, const struct shape *sh,
                      enum layout layout, enum values v, bool reverse, bool inclusive) {
    struct kl_scan_params p = {sh->axis, reverse, inclusive};
    struct operand in, out;
    char what[200];
    int len =
        snprintf(what, sizeof what, "%s%s%s, layout %d, axis %d of", op_names[op - KL_OP_CUMSUM],
                 reverse ? " reversed" : "", inclusive ? "" : " exclusive", layout, sh->axis);
    for (int i = 0; i < sh->ndim; i++)
        len += snprintf(what + len, sizeof what - (size_t)len, " %d", sh->dims[i]);
    enum kl_dtype to = op == KL_OP_CUMSUM && dtype == KL_BOOL ? KL_I32 : dtype;
    ls_make(&in, dtype, sh->ndim, sh->dims, layout, v);
    ls_make_out(&out, to, sh->ndim, sh->dims);
    void *got = ls_run(op, &p, 1, &in, &out);
    if (!ls_inexact(to) || op == KL_OP_CUMMAX || op == KL_OP_CUMMIN) {
        ls_same(&out, got, what);
    } else {
        double *scale = scale_of(&out, op, sh);
        ls_near(&out, got, scale, to == KL_F64 ? 0x1p-53 : 0x1p-24, what);
        free(scale);
    }
    free(got);
    ls_drop(&in);
    ls_drop(&out);
}

static void check(enum kl_op_id op, enum kl_dtype dtype, const struct shape *sh, enum layout layout,
                  enum values v) {
    for (int way = 0; way < 4; way++) check_one(op, dtype, sh, layout, v, way & 1, way >> 1);
}

static bool takes(enum kl_op_id op, enum kl_dtype dtype) {
    return op != KL_OP_LOGCUMSUMEXP || ls_inexact(dtype);
}

/* Each case compiles a program of its own. */
static void every_dtype(void **state) {
    static const struct shape shapes[] = {
        {2, {5, 300}, 1}, {2, {300, 7}, 0}, {3, {3, 33, 5}, 1}, {2, {70, 9}, 1}};
    for (int op = KL_OP_CUMSUM; op <= KL_OP_LOGCUMSUMEXP; op++)
        for (int dtype = 0; dtype < KL_N_DTYPES; dtype++) {
            if (!takes((enum kl_op_id)op, (enum kl_dtype)dtype)) continue;
            if (dtype != KL_F32 && !kl_test_takes("kernels", 5)) continue;
            for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
                for (int layout = DENSE; layout < N_LAYOUTS; layout++) {
                    /* Products that overflow do so in different places. */
                    bool few = op == KL_OP_CUMPROD && ls_inexact((enum kl_dtype)dtype);
                    if (few && (layout == BROADCAST || dtype == KL_C64) &&
                        shapes[i].dims[shapes[i].axis] == 300)
                        continue;
                    check((enum kl_op_id)op, (enum kl_dtype)dtype, &shapes[i], (enum layout)layout,
                          few ? FEW : PLAIN);
                }
        }
}

static void special_values(void **state) {
    static const struct shape shapes[] = {{2, {9, 33}, 1}, {2, {33, 9}, 0}};
    static const enum kl_op_id ops[] = {KL_OP_CUMSUM, KL_OP_CUMMAX, KL_OP_CUMMIN,
                                        KL_OP_LOGCUMSUMEXP};
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++)
        for (int i = 0; i < 2; i++)
            for (int layout = DENSE; layout < N_LAYOUTS; layout++)
                check(ops[o], KL_F32, &shapes[i], (enum layout)layout, SPECIAL);
}

static void lengths(void **state) {
    static const int n[] = {1, 2, 3, 4, 15, 16, 17, 31, 32, 33, 127, 1000, 1024, 4095, 4096, 4097};
    for (size_t i = 0; i < sizeof n / sizeof *n; i++) {
        struct shape rows = {2, {3, n[i]}, 1}, columns = {2, {n[i], 3}, 0};
        check(KL_OP_CUMSUM, KL_F32, &rows, DENSE, PLAIN);
        check(KL_OP_CUMSUM, KL_F32, &columns, DENSE, PLAIN);
        check(KL_OP_CUMSUM, KL_F32, &rows, SHIFTED, PLAIN);
    }
}

/* Rows that are cut into segments. */
static void long_rows(void **state) {
    static const struct shape shapes[] = {{1, {200000}, 0},
                                          {2, {2, 40000}, 1},
                                          {2, {40000, 2}, 0},
                                          {2, {3, 40001}, 1},
                                          {3, {2, 9999, 3}, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check(KL_OP_CUMSUM, KL_F32, &shapes[i], DENSE, PLAIN);
        check(KL_OP_CUMSUM, KL_F32, &shapes[i], TRANSPOSED, PLAIN);
        check(KL_OP_CUMMAX, KL_F32, &shapes[i], GAPPED, PLAIN);
    }
}

static void unusual_shapes(void **state) {
    static const struct shape shapes[] = {{1, {0}, 0},
                                          {2, {0, 4}, 1},
                                          {2, {4, 0}, 1},
                                          {11, {2, 1, 3, 2, 2, 3, 2, 2, 3, 2, 2}, 4},
                                          {12, {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}, 0},
                                          {12, {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}, 11}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int layout = DENSE; layout < N_LAYOUTS; layout++)
            check(KL_OP_CUMSUM, KL_F32, &shapes[i], (enum layout)layout, PLAIN);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dtype), cmocka_unit_test(special_values), cmocka_unit_test(lengths),
        cmocka_unit_test(long_rows),   cmocka_unit_test(unusual_shapes),
    };
    return cmocka_run_group_tests(tests, kh_setup, NULL);
}
