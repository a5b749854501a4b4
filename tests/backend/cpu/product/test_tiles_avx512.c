/* test_tiles_avx512.c - products of bfloat16 by vdpbf16ps: the tile alone, and MATMUL in the
 * variant bf16, which on ARM has BFMMLA (test_tiles_neon_bf16.c), and BFDOT for few rows. Left out
 * where the CPU has no such instruction. */
#include "backend/cpu/kernel_support.h"

#include "backend/cpu/product/dots_neon_bf16.h"
#include "backend/cpu/product/tiles_avx512.h"
#include "base/number/half.h"

enum { LINES = 16, ROWS = KL_AMX_ROWS, DEPTH = KL_AMX_DEPTH, TILE = LINES * DEPTH };

/* The number of the variant bf16; -1: it does not run here. */
static int variant(void) {
    for (int v = 0; v < kl_cpu_n_variants(); v++)
        if (strcmp(kl_cpu_variant_name(v), "bf16") == 0) return v;
    print_message("no vdpbf16ps or BFMMLA here\n");
    return -1;
}

/* Between -2 and 2, with all the digits that bfloat16 has. */
static uint16_t some(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return kl_f32_to_bf16((float)((int)(*seed >> 20) - 2048) / 1024);
}

/* Every length along k up to several steps, left operands packed and in place, with sums before and
 * without. Each element must be the sum of its own products. */
static void squares(void **state) {
    enum { MOST = 9, PITCH = 37, FAR = MOST * DEPTH + 64 };
    if (!kl_bf16_there()) return;
    static _Alignas(64) uint16_t in_place[ROWS * FAR], packed[ROWS * MOST * DEPTH],
        b[ROWS * MOST * DEPTH];
    float before[ROWS * PITCH], sums[2][ROWS * PITCH];
    uint32_t seed = 3;
    for (int i = 0; i < ROWS * FAR; i++) in_place[i] = some(&seed);
    for (int i = 0; i < ROWS * MOST * DEPTH; i++) b[i] = some(&seed);
    for (int i = 0; i < ROWS * PITCH; i++) before[i] = (float)(i % 23) - 11;
    for (int n = 1; n <= MOST; n++)
        for (int with = 0; with < 2; with++) {
            const struct kl_amx_left lefts[2] = {{in_place, FAR, DEPTH, LINES * FAR},
                                                 {packed, DEPTH, TILE, n * TILE}};
            for (int i = 0; i < ROWS; i++)
                for (int k = 0; k < n * DEPTH; k++)
                    packed[i / LINES * n * TILE + k / DEPTH * TILE + i % LINES * DEPTH +
                           k % DEPTH] = in_place[i * FAR + k];
            for (int way = 0; way < 2; way++) {
                const struct kl_amx_place from = {before, PITCH}, to = {sums[way], PITCH};
                for (int i = 0; i < ROWS * PITCH; i++) sums[way][i] = 1e9F;
                kl_bf16_square(n, &lefts[way], b, with ? &from : NULL, &to);
            }
            assert_memory_equal(sums[0], sums[1], sizeof sums[0]);
            for (int i = 0; i < ROWS; i++)
                for (int c = 0; c < PITCH; c++) {
                    double want = with ? before[i * PITCH + c] : 0, size = 1;
                    for (int k = 0; k < n * DEPTH && c < ROWS; k++) {
                        const int step = k / DEPTH, pair = k % DEPTH / 2;
                        const double x = kl_bf16_to_f32(in_place[i * FAR + k]) *
                                         kl_bf16_to_f32(b[(2 * step + c / LINES) * TILE +
                                                          pair * DEPTH + c % LINES * 2 + k % 2]);
                        want += x;
                        size += fabs(x);
                    }
                    const double got = sums[0][i * PITCH + c];
                    if (c >= ROWS ? got != 1e9 : !(fabs(got - want) <= 1e-6 * size))
                        fail_msg("%d steps: %g at %d, %d, not %g", n, got, i, c, want);
                }
        }
}

/* Products with odd sizes and any layout: near the exact product, and with the same bits in every
 * layout, for any order of tasks, and for one product alone and in a batch. */
static void products(void **state) {
    static const int sizes[][3] = {{48, 1, 48},     {49, 33, 65},    {64, 100, 50}, {97, 1030, 70},
                                   {300, 701, 301}, {256, 512, 320}, {1, 300, 333}, {1, 529, 4096},
                                   {2, 31, 1003},   {3, 65, 66},     {4, 1031, 70}, {5, 64, 1300},
                                   {7, 1, 100},     {90, 1500, 1},   {70, 77, 6},   {8, 3000, 13},
                                   {1, 2, 90},      {15, 700, 130}};
    const int bf16 = variant();
    if (bf16 < 0) return;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const int m = sizes[s][0], k = sizes[s][1], n = sizes[s][2];
        const size_t a_size = (size_t)m * k, b_size = (size_t)k * n, c_size = (size_t)m * n;
        uint16_t *a = malloc(2 * a_size * 2), *b = malloc(2 * b_size * 2);
        uint16_t *across[2] = {malloc(a_size * 2), malloc(b_size * 2)};
        uint16_t *c = malloc(c_size * 2), *first = malloc(2 * c_size * 2);
        uint32_t seed = (uint32_t)s;
        for (size_t i = 0; i < 2 * a_size; i++) a[i] = some(&seed);
        for (size_t i = 0; i < 2 * b_size; i++) b[i] = some(&seed);
        for (size_t i = 0; i < a_size; i++) across[0][i % k * m + i / k] = a[i];
        for (size_t i = 0; i < b_size; i++) across[1][i % n * k + i / n] = b[i];
        struct operand x, y, z;
        kl_cpu_use_variant(bf16);
        dense(&x, a, KL_BF16, DIMS(2, m, k));
        dense(&y, b, KL_BF16, DIMS(2, k, n));
        RUN(KL_OP_MATMUL, NULL, dense(&z, first, KL_BF16, DIMS(2, m, n)), IN(&x, &y), true);
        for (int way = 0; way < 5; way++) {
            strided_operand(&x, way & 1 ? across[0] : a, KL_BF16, DIMS(m, k),
                            way & 1 ? STRIDES(1, m) : STRIDES(k, 1));
            strided_operand(&y, way & 2 ? across[1] : b, KL_BF16, DIMS(k, n),
                            way & 2 ? STRIDES(1, k) : STRIDES(n, 1));
            memset(c, 0xAB, c_size * 2);
            RUN(KL_OP_MATMUL, NULL, dense(&z, c, KL_BF16, DIMS(m, n)), IN(&x, &y), way != 4);
            if (memcmp(c, first, c_size * 2) != 0)
                fail_msg("%d x %d x %d: other bits in way %d", m, k, n, way);
        }
        for (size_t i = 0; i < c_size; i++) {
            double want = 0, size = 0;
            for (int e = 0; e < k; e++) {
                const double one =
                    kl_bf16_to_f32(a[i / n * k + e]) * kl_bf16_to_f32(b[(size_t)e * n + i % n]);
                want += one;
                size += fabs(one);
            }
            if (!(fabs(kl_bf16_to_f32(c[i]) - want) <= 4e-3 * fabs(want) + 1e-6 * size))
                fail_msg("%d x %d x %d: %g at %d, not %g", m, k, n, (double)kl_bf16_to_f32(c[i]),
                         (int)i, want);
        }
        void *all[] = {a, b, across[0], across[1], c, first};
        for (int i = 0; i < 6; i++) free(all[i]);
    }
    kl_cpu_use_variant(-1);
}

/* Denormal numbers count as 0, unlike in vectors of float32: so the test knows what computed.
 * Infinities and NaN spread as in float32. */
static void special_values(void **state) {
    enum { N = 80 };
    const int bf16 = variant();
    if (bf16 < 0) return;
    static uint16_t a[N * N], b[N * N], c[N * N];
    for (int i = 0; i < N * N; i++) a[i] = b[i] = i / N == i % N ? 0x3f80 : 0; /* ones */
    a[0] = 0x007f;                                                             /* denormal */
    a[N + 1] = 0x7f80;                                                         /* infinity */
    a[2 * N + 2] = 0x7fc0;                                                     /* NaN */
    a[3 * N + 3] = 0x0080; /* the smallest that is not denormal */
    struct operand x, y, z;
    dense(&x, a, KL_BF16, DIMS(N, N));
    dense(&y, b, KL_BF16, DIMS(N, N));
    kl_cpu_use_variant(bf16);
    RUN(KL_OP_MATMUL, NULL, dense(&z, c, KL_BF16, DIMS(N, N)), IN(&x, &y), true);
    kl_cpu_use_variant(-1);
    assert_int_equal(c[0], 0);
    assert_int_equal(c[N + 1], 0x7f80);
    for (int i = 0; i < N; i++) {
        if (i != 1) assert_true(isnan(kl_bf16_to_f32(c[N + i]))); /* infinity times 0 */
        assert_true(isnan(kl_bf16_to_f32(c[2 * N + i])));
    }
    assert_int_equal(c[3 * N + 3], 0x0080);
    assert_int_equal(c[4 * N + 4], 0x3f80);
    kl_cpu_use_variant(bf16 - 1);
    RUN(KL_OP_MATMUL, NULL, dense(&z, c, KL_BF16, DIMS(N, N)), IN(&x, &y), true);
    kl_cpu_use_variant(-1);
    assert_int_equal(c[0], 0x007f);
}

/* The same for few rows by BFDOT, whose sums of products also lose denormal numbers. */
static void special_values_in_few_rows(void **state) {
    enum { M = 4, N = 80 };
    const int bf16 = variant();
    if (bf16 < 0 || !kl_bfdot_there()) return;
    static uint16_t a[M * N], b[N * N], c[M * N];
    for (int i = 0; i < N * N; i++) b[i] = i / N == i % N ? 0x3f80 : 0;
    a[0] = 0x007f;
    a[N + 1] = 0x7f80;
    a[2 * N + 2] = 0x7fc0;
    a[3 * N + 3] = 0x0080;
    kl_cpu_use_variant(bf16);
    for (int across = 0; across < 2; across++) {
        struct operand x, y, z;
        dense(&x, a, KL_BF16, DIMS(M, N));
        strided_operand(&y, b, KL_BF16, DIMS(N, N), across ? STRIDES(1, N) : STRIDES(N, 1));
        RUN(KL_OP_MATMUL, NULL, dense(&z, c, KL_BF16, DIMS(M, N)), IN(&x, &y), true);
        assert_int_equal(c[0], 0);
        assert_int_equal(c[N + 1], 0x7f80);
        for (int i = 0; i < N; i++) {
            if (i != 1) assert_true(isnan(kl_bf16_to_f32(c[N + i])));
            assert_true(isnan(kl_bf16_to_f32(c[2 * N + i])));
            assert_int_equal(c[3 * N + i], i == 3 ? 0x0080 : 0);
        }
    }
    kl_cpu_use_variant(-1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(squares), cmocka_unit_test(products),
                                       cmocka_unit_test(special_values),
                                       cmocka_unit_test(special_values_in_few_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
