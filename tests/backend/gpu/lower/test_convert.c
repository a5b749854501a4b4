/* test_convert.c - copies between layouts, on a device against loops on the host. */
#include "lower_support.h"

#include "backend/gpu/lower/lower.h"

enum { AXES = 3, MOST_BYTES = 1 << 17 };

static struct kl_error *err;

/* Strides of dims whose axes lie in memory in the given order, the last of it innermost, with a gap
 * after each of its lines. The number of elements that they span. */
static int64_t strides_of(const int *dims, const int *order, int gap, int64_t *strides) {
    int64_t each = 1;
    for (int k = AXES - 1; k >= 0; k--) {
        strides[order[k]] = each;
        each *= dims[order[k]];
        if (k == AXES - 1) each += gap;
    }
    return each;
}

static void copy(const int *dims, const int *to_order, const int *from_order, int gap,
                 size_t item) {
    static uint8_t from[MOST_BYTES], to[MOST_BYTES];
    int64_t to_strides[AXES], from_strides[AXES];
    const size_t to_bytes = (size_t)strides_of(dims, to_order, gap, to_strides) * item,
                 from_bytes = (size_t)strides_of(dims, from_order, gap, from_strides) * item;
    struct kl_emit e = {
        .lowering = kh.lowering, .driver = kh.driver, .queue = kh.queue, .err = &err};
    assert_true(to_bytes <= sizeof to && from_bytes <= sizeof from);
    for (size_t i = 0; i < from_bytes; i++) from[i] = (uint8_t)ls_draw();
    memset(to, 0x5A, to_bytes);
    void *src = kh_new(from_bytes), *dst = kh_new(to_bytes);
    kh_write(src, from, from_bytes);
    kh_write(dst, to, to_bytes);
    kh_begin();
    assert_int_equal(kl_emit_copy(&e, item, AXES, dims, dst, to_strides, src, from_strides), 0);
    kh_end();
    for (int a = 0; a < dims[0]; a++)
        for (int b = 0; b < dims[1]; b++)
            for (int c = 0; c < dims[2]; c++) {
                const int64_t t = a * to_strides[0] + b * to_strides[1] + c * to_strides[2],
                              f = a * from_strides[0] + b * from_strides[1] + c * from_strides[2];
                memcpy(to + (size_t)t * item, from + (size_t)f * item, item);
            }
    kh_read(from, dst, to_bytes);
    if (memcmp(from, to, to_bytes) != 0)
        fail_msg("%d x %d x %d, %zu bytes, order %d%d%d from %d%d%d, gap %d", dims[0], dims[1],
                 dims[2], item, to_order[0], to_order[1], to_order[2], from_order[0], from_order[1],
                 from_order[2], gap);
    kh_free(src, from_bytes);
    kh_free(dst, to_bytes);
}

/* Every order of axes to every other one, of extents that fill tiles and that do not. */
static void layouts(void **state) {
    static const int orders[][AXES] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                       {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    static const int shapes[][AXES] = {{1, 33, 40}, {5, 16, 64}, {17, 3, 70}, {20, 18, 15}};
    for (int s = 0; s < 4; s++)
        for (int t = 0; t < 6; t++)
            for (int f = 0; f < 6; f++)
                for (size_t item = 1; item <= 16; item *= 2)
                    copy(shapes[s], orders[t], orders[f], (t + f) % 2, item);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(layouts)};
    return cmocka_run_group_tests(tests, kh_setup, NULL);
}
