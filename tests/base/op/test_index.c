/* test_index.c - index.h: reading indices of every type, and finding the one that failed. */
#include "support.h"

#include "base/op/index.h"
#include "base/op/op_params.h"

static void reading(void **state) {
    int64_t v;
    assert_true(kl_index_read((uint8_t[]){255}, KL_U8, &v) && v == 255);
    assert_true(kl_index_read((uint16_t[]){65535}, KL_U16, &v) && v == 65535);
    assert_true(kl_index_read((uint32_t[]){UINT32_MAX}, KL_U32, &v) && v == UINT32_MAX);
    /* The bits of UINT64_MAX. */
    assert_true(kl_index_read((uint64_t[]){UINT64_MAX}, KL_U64, &v) && v == -1);
    assert_true(kl_index_read((uint64_t[]){5}, KL_U64, &v) && v == 5);
    assert_true(kl_index_read((int8_t[]){-128}, KL_I8, &v) && v == -128);
    assert_true(kl_index_read((int16_t[]){-3}, KL_I16, &v) && v == -3);
    assert_true(kl_index_read((int32_t[]){INT32_MIN}, KL_I32, &v) && v == INT32_MIN);
    assert_true(kl_index_read((int64_t[]){INT64_MIN}, KL_I64, &v) && v == INT64_MIN);
    assert_false(kl_index_read((float[]){1}, KL_F32, &v));
    assert_false(kl_index_read((uint8_t[]){1}, KL_BOOL, &v));
    int64_t run[3];
    kl_index_read_run((uint64_t[]){UINT64_MAX, 5, UINT64_C(1) << 63}, KL_U64, 8, 3, run);
    assert_true(run[0] == INT64_MAX && run[1] == 5 && run[2] == INT64_MAX);
    kl_index_read_run((int16_t[]){1, 9, 2, 9, -3}, KL_I16, 4, 3, run);
    assert_true(run[0] == 1 && run[1] == 2 && run[2] == -3);
}

static void wrapping(void **state) {
    assert_int_equal(kl_index_wrap(0, 3, 1), 0);
    assert_int_equal(kl_index_wrap(2, 3, 1), 2);
    assert_int_equal(kl_index_wrap(3, 3, 1), -1);
    assert_int_equal(kl_index_wrap(-3, 3, 1), 0);
    assert_int_equal(kl_index_wrap(-4, 3, 1), -1);
    assert_int_equal(kl_index_wrap(1, 3, 2), 1);
    assert_int_equal(kl_index_wrap(2, 3, 2), -1);
    assert_int_equal(kl_index_wrap(-1, 3, 2), -1);
    assert_int_equal(kl_index_wrap(INT64_MAX, 3, 1), -1);
    assert_int_equal(kl_index_wrap(INT64_MIN, 3, 1), -1);
    assert_int_equal(kl_index_wrap(0, 0, 1), -1);
}

/* A tensor of int32 indices whose memory is `data`. */
struct fixture {
    struct kl_tensor source, updates, index[2], *in[4];
    const int32_t *data[4];
};

static struct kl_tensor tensor(enum kl_dtype dtype, int ndim, const int *dims,
                               const int64_t *strides, int64_t offset) {
    int64_t size;
    assert_true(kl_shape_size(ndim, dims, 4, &size));
    return (struct kl_tensor){.dtype = (uint8_t)dtype,
                              .ndim = ndim,
                              .size = size,
                              .offset = offset,
                              .dims = dims,
                              .strides = strides};
}

static bool read_int32(void *ctx, int input, int64_t offset, int64_t *value) {
    struct fixture *f = ctx;
    if (!f->data[input]) return false;
    *value = f->data[input][offset];
    return true;
}

static bool read_uint64(void *ctx, int input, int64_t offset, int64_t *value) {
    return kl_index_read((const uint64_t *)ctx + offset, KL_U64, value);
}

static void locating(void **state) {
    static const int source_dims[] = {3, 4}, index_dims[] = {2, 2};
    static const int64_t source_strides[] = {4, 1}, row[] = {2, 1}, backwards[] = {1, -2};
    /* First belongs to axis 1, second to axis 0. */
    static const int32_t first[] = {0, 1, 9, -3}, second[] = {1, 7, 0, -5};
    struct fixture f = {.source = tensor(KL_F32, 2, source_dims, source_strides, 0),
                        .index = {tensor(KL_I32, 2, index_dims, row, 0),
                                  tensor(KL_I32, 2, index_dims, backwards, 2)}};
    struct kl_fault_site site;
    struct {
        int n_axes, ndim, v[4];
    } gather = {2, 2, {1, 0, 1, 1}};
    f.in[0] = &f.source;
    f.in[1] = &f.index[0];
    f.in[2] = &f.index[1];
    f.data[1] = first;
    f.data[2] = second;
    /* The indices on (axis 1, axis 0) are (0, 0) at position 0, (1, 1) at position 1, (9, -5) at
     * position 2 and (-3, 7) at position 3. */
    assert_false(kl_fault_locate(KL_OP_GATHER, &gather, 3, f.in, 0, read_int32, &f, &site));
    assert_false(kl_fault_locate(KL_OP_GATHER, &gather, 3, f.in, 1, read_int32, &f, &site));
    assert_true(kl_fault_locate(KL_OP_GATHER, &gather, 3, f.in, 2, read_int32, &f, &site));
    assert_true(site.input == 2 && site.index == -5 && site.axis == 0 && site.axis_size == 3 &&
                site.extent == 1);
    assert_true(kl_fault_locate(KL_OP_GATHER, &gather, 3, f.in, 3, read_int32, &f, &site));
    assert_true(site.input == 2 && site.index == 7 && site.axis == 0);
    assert_false(kl_fault_locate(KL_OP_GATHER, &gather, 3, f.in, 4, read_int32, &f, &site));
    f.data[2] = NULL;
    assert_false(kl_fault_locate(KL_OP_GATHER, &gather, 3, f.in, 2, read_int32, &f, &site));
    /* With slices of four columns, only index 0 is in range. */
    gather.v[3] = 4;
    f.data[2] = (const int32_t[]){0, 0, 0, 0};
    assert_true(kl_fault_locate(KL_OP_GATHER, &gather, 3, f.in, 1, read_int32, &f, &site));
    assert_true(site.input == 1 && site.index == 1 && site.axis == 1 && site.axis_size == 4 &&
                site.extent == 4);

    /* Numbers above the largest int64 are out of range for every axis, and their value is known. */
    static const uint64_t large[] = {0, UINT64_C(1) << 63, UINT64_MAX, INT64_MAX};
    struct kl_tensor unsigned_index = tensor(KL_U64, 1, (int[]){4}, (int64_t[]){1}, 0),
                     *in[] = {&f.source, &unsigned_index};
    struct kl_axis_params first_axis = {0};
    for (int k = 0; k < 4; k++) {
        const bool wrong = kl_fault_locate(KL_OP_GATHER_AXIS, &first_axis, 2, in, k, read_uint64,
                                           (void *)large, &site);
        assert_int_equal(wrong, k > 0);
        if (k > 0) assert_true(site.index == INT64_MAX && site.above == (k < 3 ? large[k] : 0));
    }

    struct kl_axis_params axis = {1};
    assert_true(kl_fault_locate(KL_OP_GATHER_AXIS, &axis, 2, f.in, 2, read_int32, &f, &site));
    assert_true(site.input == 1 && site.index == 9 && site.axis == 1 && site.axis_size == 4);
    assert_false(kl_fault_locate(KL_OP_ADD, NULL, 2, f.in, 0, read_int32, &f, &site));

    static const int update_dims[] = {2, 2, 2, 4};
    static const int64_t update_strides[] = {16, 8, 4, 1};
    struct {
        enum kl_scatter_mode mode;
        int n_axes, axes[1];
    } scatter = {KL_SCATTER_ADD, 1, {0}};
    f.updates = tensor(KL_F32, 4, update_dims, update_strides, 0);
    f.in[1] = &f.updates;
    f.in[2] = &f.index[0];
    f.data[2] = (const int32_t[]){0, 1, 2, -1}; /* each update writes two rows */
    assert_false(kl_fault_locate(KL_OP_SCATTER, &scatter, 3, f.in, 1, read_int32, &f, &site));
    assert_true(kl_fault_locate(KL_OP_SCATTER, &scatter, 3, f.in, 2, read_int32, &f, &site));
    assert_true(site.input == 2 && site.index == 2 && site.axis == 0 && site.axis_size == 3 &&
                site.extent == 2);
    struct kl_scatter_axis_params put = {KL_SCATTER_ASSIGN, 0};
    assert_false(kl_fault_locate(KL_OP_SCATTER_AXIS, &put, 3, f.in, 3, read_int32, &f, &site));
    f.data[2] = (const int32_t[]){0, 1, 2, -4};
    assert_true(kl_fault_locate(KL_OP_SCATTER_AXIS, &put, 3, f.in, 3, read_int32, &f, &site));
    assert_true(site.input == 2 && site.index == -4 && site.axis == 0 && site.extent == 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(reading), cmocka_unit_test(wrapping),
                                       cmocka_unit_test(locating)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
