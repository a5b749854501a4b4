/* test_tile.c - cursors: elements of operands whose rows repeat, piece by piece, from any place, in
 * place or in a tile that keeps what it holds. */
#include "backend/cpu/kernel_support.h"

#include "backend/cpu/operand/tile.h"

static uint64_t seed = 1;
static int draw(int below) {
    return (int)((kl_test_random(&seed) >> 33) % (uint64_t)below);
}

/* Element i of the bytes of an operand that counts up. */
static void expect_elements(const void *got, int item, int64_t n, int64_t pos, int row) {
    const unsigned char *bytes = got;
    for (int64_t i = 0; i < n; i++)
        for (int b = 0; b < item; b++) {
            const int want = (int)((pos + i) % row * item + b) % 251;
            if (bytes[i * item + b] != want)
                fail_msg("row of %d, items of %d: element %lld is %d, not %d", row, item,
                         (long long)(pos + i), bytes[i * item + b], want);
        }
}

static void repeated_rows(void **state) {
    static const int rows[] = {1, 2, 7, 16, 64, 100, 511, 512, 700, 768, 1024, 1500, 5000},
                     items[] = {1, 2, 4, 8};
    static unsigned char data[5000 * 8];
    for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)(i % 251);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (size_t k = 0; k < 4; k++)
            for (int pass = 0; pass < 6; pass++) {
                const int item = items[k], row = rows[r], times = 20000 / row + 3,
                          dims[] = {2, times, row};
                const int64_t strides[] = {0, 0, 1}, size = (int64_t)2 * times * row;
                /* A pass reads pieces of one length, as kernels do, or of any. */
                const int each = pass < 3 ? (int)(sizeof(union kl_tile) / (size_t)item) >> pass : 0;
                union kl_tile tile;
                struct kl_cursor c;
                memset(&tile, 0xee, sizeof tile);
                kl_cursor_init(&c, data, item, 3, dims, strides);
                for (int again = 0; again < 2; again++) {
                    union kl_tile other; /* after a seek the tile may be another one */
                    int64_t pos = again ? draw((int)size) : 0;
                    memset(&other, 0xee, sizeof other);
                    kl_cursor_seek(&c, pos);
                    while (pos < size) {
                        int64_t n = each ? each : 1 + draw((int)(sizeof tile / (size_t)item));
                        if (n > size - pos) n = size - pos;
                        expect_elements(kl_cursor_next(&c, n, again ? &other : &tile), item, n, pos,
                                        row);
                        pos += n;
                    }
                }
            }
}

/* Rows of which every second element is read, from any one on, up to the last one in memory. */
static void every_second_element(void **state) {
    enum { ROWS = 3, MOST = 300 };
    static const enum kl_dtype dtypes[] = {KL_U8, KL_U16, KL_F32, KL_C64};
    static unsigned char out[ROWS * MOST * 8];
    for (int v = 0; v < kl_cpu_n_variants(); v++) {
        kl_cpu_use_variant(v);
        for (size_t d = 0; d < 4; d++)
            for (int n = 0; n <= MOST; n += n < 140 ? 1 : 37) {
                const int item = (int)kl_dtype_size(dtypes[d]), first = n % 3, step = 2 * n + 5;
                const size_t bytes = (size_t)(first + (ROWS - 1) * step + 2 * n - 1) * (size_t)item;
                unsigned char *data = malloc(n ? bytes : 1);
                assert_non_null(data);
                for (size_t i = 0; n && i < bytes; i++) data[i] = (unsigned char)(i % 251);
                struct operand x, y;
                strided_operand(&x, data + (n ? first * item : 0), dtypes[d], DIMS(ROWS, n),
                                STRIDES(step, 2));
                dense(&y, out, dtypes[d], DIMS(ROWS, n));
                memset(out, 0xee, sizeof out);
                RUN(KL_OP_COPY, NULL, &y, IN(&x), false);
                for (int i = 0; i < ROWS * n; i++) {
                    const int from = first + i / n * step + i % n * 2;
                    if (memcmp(out + i * item, data + from * item, (size_t)item) != 0)
                        fail_msg("element %d of rows of %d, items of %d", i, n, item);
                }
                for (int i = ROWS * n * item; i < ROWS * n * item + 8 && i < (int)sizeof out; i++)
                    assert_int_equal(out[i], 0xee);
                free(data);
            }
    }
    kl_cpu_use_variant(-1);
}

/* Operations that go over an operand twice, each time with a tile of its own. */
static void a_repeated_element_is_partitioned(void **state) {
    enum { ROWS = 3, MOST = 5000 };
    static const enum kl_dtype dtypes[] = {KL_F32, KL_I64, KL_I16};
    static int64_t out[ROWS * MOST];
    for (size_t d = 0; d < 3; d++)
        for (int n = 700; n <= MOST; n += 1300) {
            int64_t seven = dtypes[d] == KL_F32 ? 0x40e00000 : 7;
            struct operand x, y;
            const struct kl_partition_params p = {.axis = 1, .kth = n / 2};
            strided_operand(&x, &seven, dtypes[d], DIMS(ROWS, n), STRIDES(0, 0));
            dense(&y, out, dtypes[d], DIMS(ROWS, n));
            memset(out, 0x55, sizeof out);
            for (int v = 0; v < kl_cpu_n_variants(); v++) {
                kl_cpu_use_variant(v);
                RUN(KL_OP_PARTITION, &p, &y, IN(&x), false);
                for (int i = 0; i < ROWS * n; i++) {
                    const size_t item = kl_dtype_size(dtypes[d]);
                    if (memcmp((char *)out + (size_t)i * item, &seven, item) != 0)
                        fail_msg("element %d of rows of %d", i, n);
                }
            }
            kl_cpu_use_variant(-1);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(repeated_rows),
                                       cmocka_unit_test(every_second_element),
                                       cmocka_unit_test(a_repeated_element_is_partitioned)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
