/* test_product.c - MATMUL on a device against the CPU's: each element within (k + 2) roundings
 * of the sum of the absolute products, bounded by k * 4 * 4 for these values. */
#include "lower_support.h"

/* Compares the products; the operands have the same leading axes as the result. */
static void check(enum kl_dtype dtype, int n_lead, const int *lead, int m, int k, int n,
                  enum layout a_layout, enum layout b_layout, enum values v) {
    if (!kl_test_takes("device", 1)) return;
    struct operand in[2], out;
    int dims[3][LS_DIMS];
    char what[200];
    int len = snprintf(what, sizeof what, "matmul %d %d %d, layouts %d %d, lead", m, k, n, a_layout,
                       b_layout);
    for (int i = 0; i < n_lead; i++) {
        dims[0][i] = dims[1][i] = dims[2][i] = lead[i];
        len += snprintf(what + len, sizeof what - (size_t)len, " %d", lead[i]);
    }
    memcpy(dims[0] + n_lead, (int[]){m, k}, 2 * sizeof(int));
    memcpy(dims[1] + n_lead, (int[]){k, n}, 2 * sizeof(int));
    memcpy(dims[2] + n_lead, (int[]){m, n}, 2 * sizeof(int));
    ls_make(&in[0], dtype, n_lead + 2, dims[0], a_layout, v);
    ls_make(&in[1], dtype, n_lead + 2, dims[1], b_layout, v);
    ls_make_out(&out, dtype, n_lead + 2, dims[2]);
    void *got = ls_run(KL_OP_MATMUL, NULL, 2, in, &out);
    double eps = dtype == KL_F64 ? 0x1p-53 : 0x1p-24;
    ls_near(&out, got, NULL, eps * (k + 2) * k * 16 * (dtype == KL_C64 ? 4 : 1), what);
    free(got);
    ls_drop(&in[0]);
    ls_drop(&in[1]);
    ls_drop(&out);
}

static void every_dtype_and_way(void **state) {
    static const enum kl_dtype dtypes[] = {KL_F32, KL_F16, KL_BF16, KL_F64, KL_C64};
    static const int sizes[][3] = {{33, 17, 35}, {2, 5, 3},    {64, 32, 64},
                                   {1, 100, 50}, {50, 100, 1}, {1, 300, 1}};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (int layout = DENSE; layout < N_LAYOUTS; layout++)
                check(dtypes[d], 1, (int[]){3}, sizes[s][0], sizes[s][1], sizes[s][2],
                      (enum layout)layout, (enum layout)((layout + s) % N_LAYOUTS), PLAIN);
}

/* Rows along k, read in 16-byte pieces, or not when they are not whole pieces. */
static void rows_and_a_vector(void **state) {
    static const enum kl_dtype dtypes[] = {KL_F32, KL_F16, KL_BF16};
    static const int depths[] = {8, 64, 1000, 1028, 4096, 9000}, rows[] = {1, 2, 5, 130, 1031};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (size_t k = 0; k < sizeof depths / sizeof *depths; k++)
            for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
                /* As kernels are not optimised, running the largest is what takes the time. */
                const bool long_run = rows[n] > 1000 && depths[k] > 4000;
                if (long_run && !kl_test_takes("kernels", 1)) continue;
                check(dtypes[d], 0, NULL, 1, depths[k], rows[n], DENSE, TRANSPOSED, PLAIN);
                check(dtypes[d], 0, NULL, rows[n], depths[k], 1, DENSE, DENSE, PLAIN);
            }
}

/* Enough tiles for each size of tile, with partial tiles at every edge; the first of them in any
 * sample. */
static void large(void **state) {
    static const struct {
        enum kl_dtype dtype;
        int lead, m, k, n;
        enum layout a, b;
    } tiled[] = {{KL_F32, 0, 700, 37, 900, DENSE, DENSE},
                 {KL_F32, 0, 1500, 19, 1460, DENSE, TRANSPOSED},
                 {KL_F32, 0, 1500, 16, 1460, TRANSPOSED, DENSE},
                 {KL_F32, 40, 250, 9, 200, DENSE, DENSE},
                 {KL_F16, 0, 1410, 24, 1290, DENSE, TRANSPOSED},
                 {KL_F64, 0, 700, 18, 800, TRANSPOSED, DENSE},
                 {KL_C64, 0, 700, 18, 800, DENSE, TRANSPOSED}};
    for (size_t i = 0; i < sizeof tiled / sizeof *tiled; i++)
        if (i == 0 || kl_test_takes("kernels", 1))
            check(tiled[i].dtype, tiled[i].lead > 0, &tiled[i].lead, tiled[i].m, tiled[i].k,
                  tiled[i].n, tiled[i].a, tiled[i].b, PLAIN);
    check(KL_F32, 0, NULL, 1, 3000, 700, DENSE, DENSE, PLAIN);
    check(KL_F32, 0, NULL, 700, 3000, 1, DENSE, DENSE, PLAIN);
    check(KL_F32, 0, NULL, 700, 3000, 1, TRANSPOSED, DENSE, PLAIN);
    check(KL_F32, 0, NULL, 1, 100000, 1, DENSE, DENSE, PLAIN);
    check(KL_F32, 0, NULL, 1, 40001, 5, DENSE, DENSE, PLAIN);
    check(KL_F32, 0, NULL, 5, 40001, 1, TRANSPOSED, DENSE, PLAIN);
    check(KL_BF16, 1, (int[]){3}, 1, 30001, 2, DENSE, TRANSPOSED, PLAIN);
}

static void ragged(void **state) {
    for (int m = 1; m < 70; m += 11)
        for (int n = 1; n < 70; n += 17)
            for (int k = 1; k < 40; k += 13) check(KL_F32, 0, NULL, m, k, n, DENSE, DENSE, PLAIN);
}

static void edges(void **state) {
    check(KL_F32, 0, NULL, 5, 0, 7, DENSE, DENSE, PLAIN);
    check(KL_F32, 0, NULL, 1, 0, 7, DENSE, DENSE, PLAIN);
    check(KL_C64, 1, (int[]){2}, 5, 0, 7, DENSE, DENSE, PLAIN);
    check(KL_F32, 0, NULL, 0, 4, 7, DENSE, DENSE, PLAIN);
    check(KL_F32, 1, (int[]){0}, 3, 4, 7, DENSE, DENSE, PLAIN);
    check(KL_F32, 3, (int[]){2, 1, 3}, 3, 4, 7, TRANSPOSED, REVERSED, PLAIN);
    check(KL_F32, 9, (int[]){2, 1, 2, 2, 3, 2, 2, 2, 1}, 3, 4, 5, TRANSPOSED, BROADCAST, PLAIN);
    check(KL_F32, 10, (int[]){2, 2, 2, 2, 3, 2, 2, 2, 2, 2}, 3, 4, 5, TRANSPOSED, BROADCAST, PLAIN);
    check(KL_F32, 1, (int[]){2}, 9, 4, 7, DENSE, DENSE, SPECIAL);
    check(KL_BF16, 1, (int[]){2}, 9, 4, 7, DENSE, DENSE, SPECIAL);
}

/* What a kernel may load before the kernels before it are complete: nothing that a command before
 * it, or a kernel of its own command, stores. */
static void unwritten(void **state) {
    static char memory[4096];
    static const int dims[] = {4, 8};
    static const int64_t rows[] = {8, 1}, back[] = {-8, 2}, none[] = {0, 0};
    struct kl_arg a = {.data = memory + 1024,
                       .dtype = KL_F32,
                       .layout = KL_ROW_CONTIGUOUS,
                       .ndim = 2,
                       .size = 32,
                       .dims = dims,
                       .strides = rows}; /* 1024 to 1152 */
    struct kl_arg out[2] = {a, a};
    struct kl_command before[2] = {{.kind = KL_CMD_LAUNCH, .n_in = 0, .n_out = 1, .args = &out[0]},
                                   {.kind = KL_CMD_LAUNCH, .n_in = 1, .n_out = 0, .args = &out[0]}};
    struct kl_emit e = {.before = before, .n_before = 2};
    const struct {
        int at;
        const int64_t *strides;
        bool unwritten;
    } cases[] = {{1024, rows, false},     {1151, rows, false}, {1152, rows, true},
                 {896, rows, true},       {897, rows, false},  {1152 + 92, back, false},
                 {1152 + 96, back, true}, {960, back, true},   {968, back, false},
                 {1020, none, true},      {1021, none, false}};
    assert_false(kl_emit_unwritten(&e, &a));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kl_arg *o = before[0].args == &out[0] ? &out[0] : NULL;
        o->data = memory + cases[i].at;
        o->strides = cases[i].strides;
        o->layout = o->strides == rows ? KL_ROW_CONTIGUOUS : 0;
        if (kl_emit_unwritten(&e, &a) != cases[i].unwritten) fail_msg("case %zu", i);
    }
    out[0].data = memory + 1024;
    e.n_before = 0; /* later commands do not count, */
    assert_true(kl_emit_unwritten(&e, &a));
    before[0].n_in = 1; /* nor inputs, */
    before[0].n_out = 0;
    e.n_before = 2;
    assert_true(kl_emit_unwritten(&e, &a));
    e.workspace = memory + 1100; /* but what the command itself makes */
    e.room = 100;
    assert_false(kl_emit_unwritten(&e, &a));
    e.workspace = NULL;
    e.room = 0;
    assert_true(kl_emit_unwritten(&e, &a));
    e.dry = true;
    assert_false(kl_emit_unwritten(&e, &a));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dtype_and_way),
        cmocka_unit_test(unwritten),
        cmocka_unit_test(rows_and_a_vector),
        cmocka_unit_test(large),
        cmocka_unit_test(ragged),
        cmocka_unit_test(edges),
    };
    return cmocka_run_group_tests(tests, kh_setup, NULL);
}
