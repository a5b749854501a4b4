/* test_linalg.c - factorisations of matrices on a device against the CPU's: matrices of small
 * condition are within some roundings of the largest element, rows are exchanged as on the CPU, and
 * of matrices that fail the smallest position is left. */
#include "lower_support.h"

enum { MOST_AXES = 11, MOST = 64, TAIL = 2 /* words */ };

/* Which element of a column is large. */
enum kind { ON_DIAGONAL, OFF_DIAGONAL, RANDOM };

struct problem {
    enum kl_op_id op;
    enum kl_dtype dtype;
    int ndim;
    const int *dims;
    int right; /* columns of right-hand sides, for the operations that have them */
    bool upper;
    enum layout layout, right_layout;
    bool one_batch; /* the first axis of the matrices has stride 0 */
    enum kind kind;
    int64_t cut; /* where a second launch begins; 0: there is one */
};

static bool has_right(enum kl_op_id op) {
    return op == KL_OP_SOLVE || op == KL_OP_SOLVE_TRIANGULAR;
}

static bool can_fail(enum kl_op_id op) {
    return op != KL_OP_LU && op != KL_OP_QR;
}

static int64_t batch_of(const struct problem *q) {
    int64_t n = 1;
    for (int i = 0; i < q->ndim - 2; i++) n *= q->dims[i];
    return n;
}

/* The element (i, j) of a matrix of the batch. */
static char *element(struct operand *o, int64_t matrix, int i, int j) {
    const struct kl_arg *a = &o->arg;
    int64_t at = i * a->strides[a->ndim - 2] + j * a->strides[a->ndim - 1];
    for (int d = a->ndim - 3; d >= 0; d--) {
        at += matrix % a->dims[d] * a->strides[d];
        matrix /= a->dims[d];
    }
    return (char *)a->data + at * (int64_t)kl_dtype_size(a->dtype);
}

static void set(struct operand *o, int64_t matrix, int i, int j, double x) {
    char *at = element(o, matrix, i, j);
    if (o->arg.dtype == KL_F64)
        *(double *)(void *)at = x;
    else
        *(float *)(void *)at = (float)x;
}

static void send(struct operand *o) {
    kh_write(o->device, o->block, o->bytes);
}

/* With the kind's large elements no matrix is nearly singular. */
static void make_matrices(const struct problem *q, struct operand *a) {
    const int m = q->dims[q->ndim - 2], n = q->dims[q->ndim - 1], k = m < n ? m : n;
    ls_make(a, q->dtype, q->ndim, q->dims, q->layout, PLAIN);
    if (q->one_batch) {
        a->strides[0] = 0;
        a->arg.layout = kl_layout_of(q->ndim, a->dims, a->strides);
    }
    for (int64_t b = 0; b < batch_of(q) && q->kind != RANDOM; b++)
        for (int j = 0; j < k; j++)
            set(a, b, q->kind == ON_DIAGONAL ? j : (m - 1 - j + 3) % m, j, 8.0 * (m + n));
    send(a);
}

static void make_result(const struct problem *q, struct operand *out) {
    const int m = q->dims[q->ndim - 2], n = q->dims[q->ndim - 1], k = m < n ? m : n;
    int dims[MOST_AXES], ndim = q->ndim;
    memcpy(dims, q->dims, (size_t)ndim * sizeof *dims);
    if (has_right(q->op)) dims[ndim - 1] = q->right;
    if (!can_fail(q->op)) dims[--ndim - 1] = q->op == KL_OP_LU ? m * n + k + m : m * k + k * n;
    ls_make_out(out, q->dtype, ndim, dims);
}

/* The first fault of both sides, for the positions from begin to end; they must be the same. */
static void launch(const struct problem *q, struct operand *in, struct operand *out, int64_t begin,
                   int64_t end, const char *what) {
    const struct kl_matrix_params p = {.upper = q->upper};
    const int n_in = 1 + has_right(q->op);
    struct kl_arg host[3], device[3];
    struct kl_error *err = NULL;
    uint32_t clear[KL_WORDS + TAIL], got[KL_WORDS + TAIL];
    struct kl_fault_words words = {.device = kh_new(sizeof clear)};
    memset(clear, 0xff, sizeof clear);
    kh_write(words.device, clear, sizeof clear);
    for (int i = 0; i <= n_in; i++) {
        struct operand *o = i < n_in ? &in[i] : out;
        host[i] = device[i] = o->arg;
        device[i].data = (char *)o->device + (size_t)o->first * kl_dtype_size(o->arg.dtype);
    }
    const bool checked = can_fail(q->op);
    struct kl_launch l = {.op = q->op,
                          .params = &p,
                          .n_in = n_in,
                          .n_out = 1,
                          .in = host,
                          .out = &host[n_in],
                          .checked = checked,
                          .pos_begin = begin,
                          .pos_end = end,
                          .fault = KL_NO_FAULT,
                          .err = &err};
    assert_int_equal(kl_cpu_kernel(q->op)(&l), KL_OK);
    struct kl_command c = {.kind = KL_CMD_LAUNCH,
                           .op = q->op,
                           .name = kl_op_name(q->op),
                           .params = &p,
                           .params_bytes = sizeof p,
                           .n_in = n_in,
                           .n_out = 1,
                           .args = device,
                           .checked = checked,
                           .pos_begin = begin,
                           .pos_end = end,
                           .word = {checked ? &words : NULL, 1}};
    if (kh_lower(&c, &err)) fail_msg("%s: %s", what, err->message);
    kh_read(got, words.device, sizeof got);
    const uint32_t want = l.fault == KL_NO_FAULT ? UINT32_MAX : (uint32_t)(l.fault - begin);
    if (got[1] != want || got[0] != (want == UINT32_MAX ? UINT32_MAX : 1))
        fail_msg("%s: fault at %u, not at %u (summary %u)", what, got[1], want, got[0]);
    kh_free(words.device, sizeof clear);
}

/* `bad` matrices have a column of zeros, or a diagonal element that is not positive. */
static void spoil(const struct problem *q, struct operand *a, int64_t bad) {
    const int n = q->dims[q->ndim - 1], at = n / 2;
    if (q->op == KL_OP_CHOLESKY) set(a, bad, at, at, -1);
    if (q->op == KL_OP_SOLVE_TRIANGULAR) set(a, bad, at, at, 0);
    for (int i = 0; i < n && (q->op == KL_OP_SOLVE || q->op == KL_OP_INV); i++)
        set(a, bad, i, at, 0);
}

static void check_bad(const struct problem *q, const int64_t *bad, int n_bad) {
    struct operand in[2], out;
    if (q->dtype == KL_F64 && !kh.driver->has_f64) return; /* `refusals` looks at that */
    const int n = q->dims[q->ndim - 1];
    char what[200];
    int len = snprintf(what, sizeof what, "%s %s layouts %d %d kind %d right %d bad %d of",
                       kl_op_name(q->op), q->upper ? "upper" : "", q->layout, q->right_layout,
                       q->kind, q->right, n_bad);
    for (int i = 0; i < q->ndim; i++)
        len += snprintf(what + len, sizeof what - (size_t)len, " %d", q->dims[i]);
    make_matrices(q, &in[0]);
    for (int i = 0; i < n_bad; i++) spoil(q, &in[0], bad[i]);
    send(&in[0]);
    if (has_right(q->op)) {
        int dims[MOST_AXES];
        memcpy(dims, q->dims, (size_t)q->ndim * sizeof *dims);
        dims[q->ndim - 1] = q->right;
        ls_make(&in[1], q->dtype, q->ndim, dims, q->right_layout, PLAIN);
    }
    make_result(q, &out);
    const int64_t all = can_fail(q->op) ? KL_MATRIX_POSITIONS * batch_of(q) : INT64_MAX;
    launch(q, in, &out, 0, q->cut ? q->cut : all, what);
    if (q->cut) launch(q, in, &out, q->cut, all, what);
    char *got = malloc(out.bytes);
    kh_read(got, out.device, out.bytes);
    double largest = 0;
    for (int64_t i = 0; i < out.arg.size; i++) {
        const double x = fabs(ls_get(out.block, q->dtype, i));
        if (isfinite(x)) largest = fmax(largest, x);
    }
    double *scale = malloc(((size_t)out.arg.size + 1) * sizeof *scale);
    for (int64_t i = 0; i < out.arg.size; i++) scale[i] = largest;
    ls_near(&out, got, scale, kl_test_epsilon(q->dtype) * (q->kind == RANDOM ? 2500 : 4) * (n + 4),
            what);
    for (size_t i = (size_t)out.arg.size * kl_dtype_size(q->dtype); i < out.bytes; i++)
        assert_int_equal((unsigned char)got[i], 0xA5);
    free(scale);
    free(got);
    for (int i = 0; i <= has_right(q->op); i++) ls_drop(&in[i]);
    ls_drop(&out);
}

static void check(const struct problem *q) {
    check_bad(q, NULL, 0);
}

static const enum kl_op_id square_ops[] = {KL_OP_CHOLESKY, KL_OP_SOLVE_TRIANGULAR, KL_OP_SOLVE,
                                           KL_OP_INV};
static const enum kl_dtype dtypes[] = {KL_F32, KL_F64};
enum { N_SQUARE = 4, N_TYPES = 2 };

static enum kind kind_of(enum kl_op_id op) {
    return op == KL_OP_SOLVE || op == KL_OP_INV || op == KL_OP_LU || op == KL_OP_QR ? OFF_DIAGONAL
                                                                                    : ON_DIAGONAL;
}

/* Extents around those for which kernels are compiled. */
static void extents(void **state) {
    static const int n[] = {1, 2, 3, 5, 16, 31, 32, 33, 47, 63, 64};
    for (size_t i = 0; i < sizeof n / sizeof *n; i++)
        for (int t = 0; t < N_TYPES; t++)
            for (int o = 0; o < N_SQUARE; o++)
                for (int upper = 0; upper < 1 + (o < 2); upper++) {
                    struct problem q = {.op = square_ops[o],
                                        .dtype = dtypes[t],
                                        .ndim = 3,
                                        .dims = (int[]){3, n[i], n[i]},
                                        .right = (int)i + 1,
                                        .upper = upper,
                                        .kind = kind_of(square_ops[o])};
                    check(&q);
                }
}

/* Of which some have more rows, others more columns. */
static void rectangles(void **state) {
    static const int dims[][3] = {{2, 1, 1},   {3, 1, 7},   {3, 7, 1},   {2, 5, 5},   {2, 40, 33},
                                  {2, 33, 40}, {2, 64, 20}, {2, 20, 64}, {1, 64, 64}, {2, 31, 32},
                                  {5, 32, 32}, {1, 2, 64},  {0, 3, 3},   {2, 3, 0},   {2, 0, 3}};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        for (int t = 0; t < N_TYPES; t++)
            for (int o = 0; o < 2; o++) {
                struct problem q = {.op = o ? KL_OP_QR : KL_OP_LU,
                                    .dtype = dtypes[t],
                                    .ndim = 3,
                                    .dims = dims[i],
                                    .kind = dims[i][1] && dims[i][2] ? OFF_DIAGONAL : RANDOM};
                check(&q);
                if (dims[i][1] <= 5 || dims[i][2] <= 5) continue;
                q.kind = RANDOM; /* rows are exchanged as on the CPU */
                if (!o) check(&q);
            }
}

/* More columns than one tile, or than one group has. */
static void many_columns(void **state) {
    static const struct {
        int dims[3], right;
    } cases[] = {{{2, 9, 9}, 33},    {{1, 4, 4}, 1000},  {{3, 33, 33}, 17},  {{2, 64, 64}, 200},
                 {{700, 3, 3}, 100}, {{1100, 2, 2}, 40}, {{1, 1, 1}, 70000}, {{2, 3, 3}, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int o = 1; o <= 2; o++) {
            struct problem q = {.op = square_ops[o],
                                .dtype = dtypes[i % 2],
                                .ndim = 3,
                                .dims = cases[i].dims,
                                .right = cases[i].right,
                                .kind = kind_of(square_ops[o])};
            check(&q);
        }
}

static void layouts(void **state) {
    static const int many[] = {2, 1, 2, 2, 1, 2, 2, 2, 2, 3, 3};
    static const enum layout all[] = {DENSE, TRANSPOSED, REVERSED, GAPPED, SHIFTED};
    static const enum kl_op_id ops[] = {
        KL_OP_CHOLESKY, KL_OP_SOLVE_TRIANGULAR, KL_OP_SOLVE, KL_OP_INV, KL_OP_LU, KL_OP_QR};
    for (int l = 0; l < 5; l++)
        for (int o = 0; o < 6; o++) {
            struct problem q = {.op = ops[o],
                                .dtype = dtypes[(l + o) % 2],
                                .ndim = 4,
                                .dims = (int[]){2, 3, 7, 7},
                                .right = 5,
                                .upper = o < 2 && l % 2,
                                .layout = all[l],
                                .right_layout = all[(l + o) % 5],
                                .kind = kind_of(ops[o])};
            check(&q);
            q.one_batch = true;
            q.right_layout = BROADCAST;
            check(&q);
            q.one_batch = false;
            q.ndim = 11; /* more than a kernel walks */
            q.dims = many;
            check(&q);
        }
}

/* The smallest matrix that fails is left, and all that fail are zeros; also in two launches, of
 * which the second has the first position inside a matrix. */
static void faults(void **state) {
    for (int o = 0; o < N_SQUARE; o++)
        for (int t = 0; t < N_TYPES; t++)
            for (int cut = 0; cut < 3; cut++) {
                struct problem q = {.op = square_ops[o],
                                    .dtype = dtypes[t],
                                    .ndim = 4,
                                    .dims = (int[]){3, 4, 6, 6},
                                    .right = 70,
                                    .upper = cut % 2,
                                    .kind = kind_of(square_ops[o]),
                                    .cut = cut ? 6 + cut : 0};
                check_bad(&q, (int64_t[]){11}, 1);
                check_bad(&q, (int64_t[]){0, 3, 4}, 3);
                check_bad(&q, (int64_t[]){9, 5, 10}, 3);
            }
}

/* A pivot is never outside of the matrix, whatever is NaN, and is the CPU's. */
static void special_values(void **state) {
    static const double special[] = {NAN, INFINITY, 0, -0.0};
    const int dims[] = {7, 7};
    for (int v = 0; v < 4; v++)
        for (int column = 0; column < 7; column += 3)
            for (int rows = 1; rows <= 7; rows += 6)
                for (int t = 0; t < N_TYPES; t++) {
                    struct problem q = {
                        .op = KL_OP_LU, .dtype = dtypes[t], .ndim = 2, .dims = dims};
                    struct operand in, out;
                    if (q.dtype == KL_F64 && !kh.driver->has_f64) continue;
                    ls_make(&in, q.dtype, 2, dims, DENSE, PLAIN);
                    for (int i = 0; i < rows; i++) set(&in, 0, 6 - i, column, special[v]);
                    send(&in);
                    make_result(&q, &out);
                    launch(&q, &in, &out, 0, INT64_MAX, "lu of special values");
                    char *got = malloc(out.bytes);
                    kh_read(got, out.device, out.bytes);
                    for (int i = 49; i < 49 + 14; i++)
                        if (ls_get(got, q.dtype, i) != ls_get(out.block, q.dtype, i))
                            fail_msg("%g in column %d: pivot or place %d is %g, not %g", special[v],
                                     column, i - 49, ls_get(got, q.dtype, i),
                                     ls_get(out.block, q.dtype, i));
                    free(got);
                    ls_drop(&in);
                    ls_drop(&out);
                }
}

/* Sums of squares of very large numbers do not overflow, those of very small ones do not vanish. */
static void scales(void **state) {
    static const double powers[] = {0x1p126, 0x1p-126, 0x1p100, 0x1p-100};
    const int dims[] = {1, 6, 4};
    for (int s = 0; s < 4; s++) {
        struct problem q = {
            .op = KL_OP_QR, .dtype = KL_F32, .ndim = 3, .dims = dims, .kind = RANDOM};
        struct operand in, out;
        ls_make(&in, KL_F32, 3, dims, DENSE, PLAIN);
        for (int i = 0; i < 24; i++)
            set(&in, 0, i / 4, i % 4, (ls_unit() - 0.5) * powers[s] * (i % 4 == 2 ? 0x1p-60 : 1));
        send(&in);
        make_result(&q, &out);
        launch(&q, &in, &out, 0, INT64_MAX, "qr of very large or small numbers");
        char *got = malloc(out.bytes);
        kh_read(got, out.device, out.bytes);
        double scale[24 + 16];
        for (int i = 0; i < 40; i++) scale[i] = i < 24 ? 1 : powers[s];
        ls_near(&out, got, scale, 0x1p-16, "qr of very large or small numbers");
        free(got);
        ls_drop(&in);
        ls_drop(&out);
    }
}

static void expect_refusal(const struct problem *q, const char *text) {
    const struct kl_matrix_params p = {0};
    struct operand in[2], out;
    struct kl_error *err = NULL;
    make_matrices(q, &in[0]);
    make_result(q, &out);
    struct kl_arg args[] = {in[0].arg, out.arg};
    struct kl_command c = {.kind = KL_CMD_LAUNCH,
                           .op = q->op,
                           .name = kl_op_name(q->op),
                           .params = &p,
                           .params_bytes = sizeof p,
                           .n_in = 1,
                           .n_out = 1,
                           .args = args,
                           .pos_end = INT64_MAX};
    assert_int_equal(kh_lower(&c, &err), KL_EUNSUPPORTED);
    if (!strstr(err->message, text)) fail_msg("\"%s\" has no \"%s\"", err->message, text);
    kl_error_release(err);
    ls_drop(&in[0]);
    ls_drop(&out);
}

/* What a device has no kernel for names the way out. */
static void refusals(void **state) {
    struct problem q = {.op = KL_OP_INV, .dtype = KL_F32, .ndim = 2, .dims = (int[]){65, 65}};
    expect_refusal(&q, "inv of matrices of 65 rows and 65 columns cannot run on this device, which "
                       "takes up to 64 of each; a stream of the CPU runs it");
    q = (struct problem){.op = KL_OP_LU, .dtype = KL_F32, .ndim = 2, .dims = (int[]){65, 2}};
    expect_refusal(&q, "lu of matrices of 65 rows and 2 columns");
    q = (struct problem){.op = KL_OP_PINV, .dtype = KL_F32, .ndim = 2, .dims = (int[]){3, 3}};
    expect_refusal(&q, "pinv cannot run on this device; a stream of the CPU runs it");
    const size_t local_bytes = kh.driver->local_bytes;
    const bool has_f64 = kh.driver->has_f64;
    kh.driver->local_bytes = 16 << 10;
    q = (struct problem){.op = KL_OP_CHOLESKY, .dtype = KL_F64, .ndim = 2, .dims = (int[]){50, 50}};
    expect_refusal(&q, "cholesky of matrices of 50 rows and 50 columns of float64 needs 46592 "
                       "bytes of shared memory, and this device has 16384; a stream of the CPU");
    kh.driver->local_bytes = local_bytes;
    kh.driver->has_f64 = false;
    q = (struct problem){.op = KL_OP_QR, .dtype = KL_F64, .ndim = 2, .dims = (int[]){4, 4}};
    expect_refusal(&q, "qr: this device has no float64");
    kh.driver->has_f64 = has_f64;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(extents), cmocka_unit_test(rectangles), cmocka_unit_test(many_columns),
        cmocka_unit_test(layouts), cmocka_unit_test(faults),     cmocka_unit_test(special_values),
        cmocka_unit_test(scales),  cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, kh_setup, NULL);
}
