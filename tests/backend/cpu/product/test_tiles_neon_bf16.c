/* test_tiles_neon_bf16.c - products of bfloat16 by BFMMLA: the tile alone. Left out where the CPU
 * has no such instruction; MATMUL in the variant bf16 is in test_tiles_avx512.c. */
#include "backend/cpu/kernel_support.h"

#include "backend/cpu/product/tiles_neon_bf16.h"
#include "base/number/half.h"

enum { LINES = KL_BFMMLA_LINES, DEPTH = KL_BFMMLA_DEPTH, STEP = LINES * DEPTH, PITCH = 11 };

/* Element k of a line in a packed operand. */
static double element(const uint16_t *packed, int line, int k) {
    return kl_bf16_to_f32(packed[k / DEPTH * STEP + line * DEPTH + k % DEPTH]);
}

/* Every number of steps up to some, with sums before and without. Each element must be the sum of
 * its own products, and nothing else is written. */
static void tiles(void **state) {
    enum { MOST = 9 };
    if (!kl_bfmmla_there()) {
        print_message("no BFMMLA here\n");
        return;
    }
    uint16_t a[MOST * STEP], b[MOST * STEP];
    uint64_t random = 5;
    for (int i = 0; i < MOST * STEP; i++) {
        a[i] = kl_f32_to_bf16((float)(kl_test_random(&random) >> 52) / 1024 - 2);
        b[i] = kl_f32_to_bf16((float)(kl_test_random(&random) >> 52) / 1024 - 2);
    }
    for (int n = 0; n <= MOST; n++)
        for (int add = 0; add < 2; add++) {
            float c[LINES * PITCH];
            for (int i = 0; i < LINES * PITCH; i++) c[i] = (float)(i % 23) - 11;
            kl_bfmmla_tile(n, a, b, c, PITCH, add);
            for (int i = 0; i < LINES * PITCH; i++) {
                const int row = i / PITCH, col = i % PITCH;
                const double before = i % 23 - 11;
                double want = add || col >= LINES ? before : 0, size = 1;
                for (int k = 0; k < n * DEPTH && col < LINES; k++) {
                    const double x = element(a, row, k) * element(b, col, k);
                    want += x;
                    size += fabs(x);
                }
                if (!(fabs((double)c[i] - want) <= 1e-6 * size))
                    fail_msg("%d steps: %g in row %d, column %d, not %g", n, (double)c[i], row, col,
                             want);
            }
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(tiles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
