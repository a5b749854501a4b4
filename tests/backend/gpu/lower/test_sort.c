/* test_sort.c - SORT, ARGSORT, PARTITION, ARGPARTITION and TOPK on a device against the
 * CPU's: the same bits, the same positions. A device that is a processor sorts long rows in groups
 * of one work-item; what other devices run is tested there too. */
#include "lower_support.h"

/* What else operands hold, beside enum values. */
enum fill { AS_DRAWN, RANDOM_BITS, ALL_NAN, ALL_EQUAL, RISING, FALLING, N_FILLS };

static void put_bits(char *p, size_t item, uint64_t bits) {
    memcpy(p, &bits, item); /* little-endian, as all that Keel runs on */
}

static void fill(struct operand *o, enum fill how) {
    size_t item = kl_dtype_size(o->arg.dtype), n = o->bytes / item;
    bool f32 = o->arg.dtype == KL_F32;
    if (how == AS_DRAWN) return;
    for (size_t i = 0; i < n; i++) {
        uint64_t at = how == FALLING ? n - i : i;
        uint64_t bits = how == RANDOM_BITS ? ls_draw() : how == ALL_EQUAL ? 7 : at;
        /* NaN of both signs, with different bits in the fraction */
        if (how == ALL_NAN && f32) bits = (i & 1) << 31 | 0x7f800001u | (i & 0xffff) << 3;
        put_bits(o->block + i * item, item, bits);
    }
    kh_write(o->device, o->block, o->bytes);
}

static int what_is(char *what, size_t room, enum kl_op_id op, enum kl_dtype dtype, int ndim,
                   const int *dims, int axis, int k, int layout) {
    int len = snprintf(what, room, "%s of %s, layout %d, axis %d, k %d, of", kl_op_name(op),
                       kl_dtype_name(dtype), layout, axis, k);
    for (int i = 0; i < ndim; i++) len += snprintf(what + len, room - (size_t)len, " %d", dims[i]);
    return len;
}

/* k: of TOPK, and the kth of a partition. */
static void check_as(enum kl_op_id op, enum kl_dtype dtype, int ndim, const int *dims, int axis,
                     int k, enum layout layout, enum values v, enum fill how) {
    if (!kl_test_takes("device", 2)) return;
    struct kl_partition_params p = {axis, k};
    bool places = op == KL_OP_ARGSORT || op == KL_OP_ARGPARTITION;
    int out_dims[LS_DIMS];
    struct operand in, out;
    char what[200];
    what_is(what, sizeof what, op, dtype, ndim, dims, axis, k, layout);
    memcpy(out_dims, dims, (size_t)ndim * sizeof *dims);
    if (op == KL_OP_TOPK) out_dims[axis] = k;
    ls_make(&in, dtype, ndim, dims, layout, v);
    fill(&in, how);
    ls_make_out(&out, places ? KL_U32 : dtype, ndim, out_dims);
    void *got = ls_run(op, &p, 1, &in, &out);
    if (op == KL_OP_PARTITION || op == KL_OP_ARGPARTITION) { /* the CPU sorts less */
        struct kl_axis_params sorted = {axis};
        free(ls_run(places ? KL_OP_ARGSORT : KL_OP_SORT, &sorted, 1, &in, &out));
    }
    if (how == RANDOM_BITS || how == ALL_NAN) /* each NaN keeps its bits, and they their order */
        for (int64_t i = 0; i < out.arg.size; i++) {
            size_t item = kl_dtype_size(out.arg.dtype), at = (size_t)i * item;
            if (memcmp(out.block + at, (char *)got + at, item) != 0)
                fail_msg("%s: element %lld has other bits", what, (long long)i);
        }
    ls_same(&out, got, what);
    free(got);
    ls_drop(&in);
    ls_drop(&out);
}

static void check(enum kl_op_id op, enum kl_dtype dtype, int ndim, const int *dims, int axis,
                  enum layout layout, enum values v) {
    check_as(op, dtype, ndim, dims, axis, 0, layout, v, AS_DRAWN);
}

static void both(enum kl_dtype dtype, int ndim, const int *dims, int axis, enum layout layout,
                 enum values v) {
    check(KL_OP_SORT, dtype, ndim, dims, axis, layout, v);
    check(KL_OP_ARGSORT, dtype, ndim, dims, axis, layout, v);
}

static void topk(enum kl_dtype dtype, int ndim, const int *dims, int axis, int k,
                 enum layout layout, enum values v) {
    check_as(KL_OP_TOPK, dtype, ndim, dims, axis, k, layout, v, AS_DRAWN);
}

/* Runs the tests as the device is, and on a processor also as other devices are. */
static void each_way(void (*test)(void)) {
    bool on_processor = kh.driver->on_processor;
    test();
    if (!on_processor) return;
    kh.driver->on_processor = false;
    test();
    kh.driver->on_processor = true;
}

static void every_dtype(void **state) {
    for (int d = 0; d < KL_N_DTYPES; d++)
        for (int v = PLAIN; v <= FEW; v++) {
            both((enum kl_dtype)d, 1, (int[]){1000}, 0, DENSE, (enum values)v);
            both((enum kl_dtype)d, 2, (int[]){5, 40}, 1, (enum layout)(d % N_LAYOUTS),
                 (enum values)v);
            both((enum kl_dtype)d, 3, (int[]){4, 33, 6}, 1, (enum layout)((d + 3) % N_LAYOUTS),
                 (enum values)v);
            both((enum kl_dtype)d, 1, (int[]){5000}, 0, DENSE, (enum values)v);
        }
}

static void layouts(void **state) {
    for (int layout = DENSE; layout < N_LAYOUTS; layout++)
        for (int v = PLAIN; v <= FEW; v++) {
            enum layout l = (enum layout)layout;
            both(KL_F32, 2, (int[]){70, 9}, 1, l, (enum values)v);
            both(KL_F32, 2, (int[]){70, 9}, 0, l, (enum values)v);
            both(KL_F32, 3, (int[]){3, 4, 5}, 1, l, (enum values)v);
            both(KL_F32, 2, (int[]){3, 2500}, 1, l, (enum values)v);
            both(KL_F32, 2, (int[]){2500, 3}, 0, l, (enum values)v);
        }
}

static void lengths(void **state) {
    static const int n[] = {1, 2, 3, 127, 128, 129, 2047, 2048, 2049, 4096, 4097, 10000};
    for (size_t i = 0; i < sizeof n / sizeof *n; i++)
        both(KL_I32, 2, (int[]){3, n[i]}, 1, DENSE, FEW);
    both(KL_F32, 1, (int[]){100001}, 0, DENSE, SPECIAL);
    both(KL_F16, 1, (int[]){100001}, 0, REVERSED, SPECIAL);
    both(KL_I64, 1, (int[]){50001}, 0, DENSE, FEW);
}

static void unusual_shapes(void **state) {
    static const int dims[] = {2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2};
    both(KL_F32, 2, (int[]){0, 5}, 1, DENSE, PLAIN);
    both(KL_F32, 2, (int[]){5, 0}, 1, DENSE, PLAIN);
    both(KL_F32, 3, (int[]){1, 1, 1}, 1, DENSE, PLAIN);
    for (int axis = 0; axis < 11; axis += 3) {
        both(KL_F32, 11, dims, axis, TRANSPOSED, FEW);
        both(KL_F32, 11, dims, axis, REVERSED, SPECIAL);
        topk(KL_F32, 11, dims, axis, 1, REVERSED, SPECIAL);
    }
}

/* ---- rows that are sorted by digits ---- */

static void long_rows_now(void) {
    static const int around[] = {8193, 12287, 12288, 12289, 16385};
    for (int d = 0; d < KL_N_DTYPES; d++) {
        if (d != KL_F32 && !kl_test_takes("kernels", 4)) continue;
        int n = kl_dtype_size((enum kl_dtype)d) == 8 ? 33001 : 9001;
        both((enum kl_dtype)d, 1, (int[]){n}, 0, DENSE, (enum values)(d % 3));
        both((enum kl_dtype)d, 2, (int[]){3, n}, 1, (enum layout)(d % N_LAYOUTS), SPECIAL);
        check_as(KL_OP_SORT, (enum kl_dtype)d, 1, &n, 0, 0, DENSE, PLAIN,
                 d == KL_BOOL ? ALL_EQUAL : RANDOM_BITS);
        check_as(KL_OP_ARGSORT, (enum kl_dtype)d, 1, &n, 0, 0, DENSE, PLAIN,
                 d == KL_BOOL ? ALL_EQUAL : RANDOM_BITS);
    }
    for (int i = 0; i < 5; i++)
        if (kl_test_takes("kernels", 1)) both(KL_F32, 2, (int[]){2, around[i]}, 1, DENSE, SPECIAL);
    for (int i = 2047; i < 2050; i++) both(KL_U8, 2, (int[]){3, i}, 1, DENSE, PLAIN);
    for (int i = 4095; i < 4098; i++) both(KL_BF16, 2, (int[]){3, i}, 1, DENSE, SPECIAL);
    for (int how = ALL_NAN; how < N_FILLS; how++) {
        if (!kl_test_takes("kernels", 1)) continue;
        check_as(KL_OP_SORT, KL_F32, 1, (int[]){20000}, 0, 0, DENSE, PLAIN, (enum fill)how);
        check_as(KL_OP_ARGSORT, KL_F32, 1, (int[]){20000}, 0, 0, DENSE, PLAIN, (enum fill)how);
        check_as(KL_OP_ARGSORT, KL_I64, 1, (int[]){40000}, 0, 0, DENSE, PLAIN, (enum fill)how);
    }
    for (int layout = DENSE; layout < N_LAYOUTS; layout++) {
        if (!kl_test_takes("kernels", 1)) continue;
        both(KL_F32, 2, (int[]){9001, 3}, 0, (enum layout)layout, SPECIAL);
        both(KL_I16, 3, (int[]){2, 5001, 2}, 1, (enum layout)layout, FEW);
    }
    if (kl_test_takes("kernels", 1))
        both(KL_F32, 2, (int[]){130, 8200}, 1, DENSE, SPECIAL); /* many rows at once */
    if (kl_test_takes("kernels", 1)) both(KL_F32, 1, (int[]){300001}, 0, SHIFTED, SPECIAL);
    for (int axis = 0; axis < 10; axis += 9) { /* nine other axes, which do not merge: too many */
        int dims[] = {2, 2, 2, 2, 2, 2, 2, 2, 2, 2};
        dims[axis] = axis ? 300 : 2100;
        if (axis == 0 && !kl_test_takes("kernels", 1)) continue; /* a million elements */
        both(KL_U8, 10, dims, axis, TRANSPOSED, FEW);
        topk(KL_U8, 10, dims, axis, 3, TRANSPOSED, FEW);
    }
}
static void long_rows(void **state) {
    each_way(long_rows_now);
}

/* ---- the k largest ---- */

static void topk_now(void) {
    static const int k[] = {0, 1, 2, 63, 64, 65, 1000, 2047, 2048, 2049, 9999, 10000};
    for (size_t i = 0; i < sizeof k / sizeof *k; i++)
        for (int v = PLAIN; v <= FEW; v++) {
            topk(KL_F32, 2, (int[]){3, 10000}, 1, k[i], DENSE, (enum values)v);
            topk(KL_I32, 2, (int[]){10000, 2}, 0, k[i], DENSE, (enum values)v);
        }
    for (int n = 0; n <= 5; n++)
        for (int kept = 0; kept <= n; kept++)
            topk(KL_F32, 2, (int[]){40, n}, 1, kept, DENSE, SPECIAL);
    for (int d = 0; d < KL_N_DTYPES; d++)
        for (int v = PLAIN; v <= FEW; v++) {
            enum layout layout = (enum layout)((d + v) % N_LAYOUTS);
            if (d != KL_F32 && !kl_test_takes("kernels", 4)) continue;
            topk((enum kl_dtype)d, 2, (int[]){3, 2049}, 1, 100, layout, (enum values)v);
            topk((enum kl_dtype)d, 2, (int[]){5001, 3}, 0, 33, layout, (enum values)v);
            topk((enum kl_dtype)d, 2, (int[]){4, 700}, 1, 20, layout, (enum values)v);
            check_as(KL_OP_TOPK, (enum kl_dtype)d, 1, (int[]){20001}, 0, 1500, DENSE, PLAIN,
                     d == KL_BOOL ? ALL_EQUAL : RANDOM_BITS);
        }
    for (int how = ALL_NAN; how < N_FILLS; how++) { /* equal keys: the last places count */
        check_as(KL_OP_TOPK, KL_F32, 2, (int[]){2, 3000}, 1, 257, DENSE, PLAIN, (enum fill)how);
        check_as(KL_OP_TOPK, KL_F32, 1, (int[]){100000}, 0, 500, DENSE, PLAIN, (enum fill)how);
        check_as(KL_OP_TOPK, KL_U64, 1, (int[]){70000}, 0, 64, DENSE, PLAIN, (enum fill)how);
    }
    for (int layout = DENSE; layout < N_LAYOUTS; layout++)
        topk(KL_F16, 3, (int[]){2, 9000, 2}, 1, 40, (enum layout)layout, SPECIAL);
}
static void largest(void **state) {
    each_way(topk_now);
}

static void partitions(void **state) {
    static const enum kl_op_id ops[] = {KL_OP_PARTITION, KL_OP_ARGPARTITION};
    for (int i = 0; i < 2; i++)
        for (int layout = DENSE; layout < N_LAYOUTS; layout++) {
            check_as(ops[i], KL_F32, 2, (int[]){5, 50}, 1, 20, (enum layout)layout, SPECIAL,
                     AS_DRAWN);
            check_as(ops[i], KL_I64, 2, (int[]){50, 5}, 0, 0, (enum layout)layout, FEW, AS_DRAWN);
            check_as(ops[i], KL_F16, 1, (int[]){9000}, 0, 8999, (enum layout)layout, SPECIAL,
                     AS_DRAWN);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dtype),    cmocka_unit_test(layouts),   cmocka_unit_test(lengths),
        cmocka_unit_test(unusual_shapes), cmocka_unit_test(long_rows), cmocka_unit_test(largest),
        cmocka_unit_test(partitions),
    };
    return cmocka_run_group_tests(tests, kh_setup, NULL);
}
