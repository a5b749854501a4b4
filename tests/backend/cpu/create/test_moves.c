/* test_moves.c - the kernels CONCATENATE and SLICE_UPDATE, beside element by element: rows of all
 * lengths, operands that are dense, cut out of larger ones, reversed or repeated, and updates that
 * leave places on any side. */
#include "backend/cpu/kernel_support.h"

static uint64_t seed = 7;
static int draw(int below) {
    return (int)((kl_test_random(&seed) >> 33) % (uint64_t)below);
}

static const enum kl_dtype dtypes[] = {KL_U8, KL_U16, KL_F32, KL_C64};
enum { ROOM = 1 << 24, AXES = 3 };
static uint64_t memory[ROOM / 8];
static unsigned char result[ROOM + 64], expected[ROOM + 64];

/* Operand k, whose axes are dense, apart, reversed or repeated. */
static struct operand *any_operand(struct operand *o, int k, int pass, enum kl_dtype dtype,
                                   const int *dims) {
    const int item = (int)kl_dtype_size(dtype);
    int64_t strides[AXES], step = 1, first = 0;
    const int kind = pass % 50 ? draw(4) : 0;
    for (int i = AXES - 1; i >= 0; i--) {
        const int way = kind == 0 ? 0 : draw(4);
        const int64_t each = step * (way == 1 ? 2 : 1);
        strides[i] = way == 3 ? 0 : way == 2 ? -each : each;
        if (way == 2 && dims[i] > 0) first += each * (dims[i] - 1);
        step = each * (dims[i] + (kind == 2));
    }
    assert_true((step + 4096) * item < ROOM);
    return strided_operand(o, (char *)memory + (1000 * k + first) * item, dtype, AXES, dims,
                           strides);
}

static int64_t place(const struct operand *o, const int *at) {
    int64_t offset = 0;
    for (int i = 0; i < AXES; i++) offset += at[i] * o->strides[i];
    return offset * (int64_t)kl_dtype_size(o->arg.dtype);
}

/* The next coordinates in dims. */
static bool next(int *at, const int *dims) {
    for (int i = AXES - 1; i >= 0; i--) {
        if (++at[i] < dims[i]) return true;
        at[i] = 0;
    }
    return false;
}

static void same(const struct operand *o, const char *what) {
    const size_t bytes = (size_t)o->arg.size * kl_dtype_size(o->arg.dtype);
    if (memcmp(result, expected, bytes) != 0)
        fail_msg("%s of (%d, %d, %d), items of %zu", what, o->dims[0], o->dims[1], o->dims[2],
                 kl_dtype_size(o->arg.dtype));
    for (size_t i = bytes; i < bytes + 64; i++) assert_int_equal(result[i], 0x5a);
}

static void fill_memory(void) {
    for (int i = 0; i < ROOM / 8; i++) memory[i] = kl_test_random(&seed);
}

static void concatenated(int pass) {
    const enum kl_dtype dtype = dtypes[draw(4)];
    const int item = (int)kl_dtype_size(dtype), axis = draw(AXES), n_in = 1 + draw(4);
    const bool equal = draw(2), cells = draw(3) == 0;
    int dims[AXES], along = 0;
    struct operand o[4], z;
    struct kl_axis_params p = {axis};
    for (int i = 0; i < AXES; i++)
        dims[i] = i < axis ? 1 + draw(pass % 50 ? 40
                                      : i == 0  ? 300
                                                : 40)
                  : cells  ? 1
                           : 1 + draw(6 << draw(3));
    const int each = cells ? 1 + draw(2) : draw(20);
    for (int k = 0; k < n_in; k++) {
        dims[axis] = equal ? each : draw(20);
        along += dims[axis];
        any_operand(&o[k], k, pass, dtype, dims);
    }
    dims[axis] = along;
    dense(&z, result, dtype, AXES, dims);
    memset(result, 0x5a, (size_t)(z.arg.size * item) + 64);
    for (int k = 0, begin = 0; k < n_in; begin += o[k++].dims[axis]) {
        int at[AXES] = {0};
        if (o[k].arg.size == 0) continue;
        do {
            int to[AXES] = {at[0], at[1], at[2]};
            to[axis] += begin;
            memcpy(expected + place(&z, to), (char *)o[k].arg.data + place(&o[k], at),
                   (size_t)item);
        } while (next(at, o[k].dims));
    }
    launch(KL_OP_CONCATENATE, &p, &z, n_in, (struct operand *[]){&o[0], &o[1], &o[2], &o[3]}, true,
           0, 0, draw(2));
    same(&z, "concatenate");
}

static void updated(int pass) {
    const enum kl_dtype dtype = dtypes[draw(4)];
    const int item = (int)kl_dtype_size(dtype);
    union {
        struct kl_slice_params p;
        int64_t room[2 * AXES + 1];
    } u;
    int dims[AXES], part[AXES], at[AXES] = {0};
    const bool steps = draw(4) == 0, in_place = draw(4) == 0;
    struct operand base, update, z;
    u.p.ndim = AXES;
    for (int i = 0; i < AXES; i++) {
        dims[i] = 1 + draw(pass % 50 ? 40 : i == 0 ? 4 : 400);
        const int step = steps ? 1 + draw(3) : 1;
        part[i] = 1 + draw((dims[i] + step - 1) / step);
        const int last = dims[i] - 1 - (part[i] - 1) * step;
        u.p.v[i] = draw(3) ? draw(last + 1) : 0;
        u.p.v[AXES + i] = step;
        if (steps && draw(2)) { /* from the last to the first */
            u.p.v[i] += (part[i] - 1) * step;
            u.p.v[AXES + i] = -step;
        }
    }
    dense(&z, result, dtype, AXES, dims);
    memset(result, 0x5a, (size_t)(z.arg.size * item) + 64);
    any_operand(&base, 0, pass, dtype, dims);
    any_operand(&update, 1, pass, dtype, part);
    do memcpy(expected + place(&z, at), (char *)base.arg.data + place(&base, at), (size_t)item);
    while (next(at, dims));
    if (in_place) {
        memcpy(result, expected, (size_t)(z.arg.size * item));
        base = z;
        base.arg.dims = base.dims;
        base.arg.strides = base.strides;
    }
    do {
        int to[AXES];
        for (int i = 0; i < AXES; i++) to[i] = u.p.v[i] + at[i] * u.p.v[AXES + i];
        memcpy(expected + place(&z, to), (char *)update.arg.data + place(&update, at),
               (size_t)item);
    } while (next(at, part));
    RUN(KL_OP_SLICE_UPDATE, &u.p, &z, IN(&base, &update), draw(2));
    same(&z, "slice_update");
}

static void concatenate(void **state) {
    for (int v = 0; v < kl_cpu_n_variants(); v++) {
        kl_cpu_use_variant(v);
        for (int pass = 0; pass < 500; pass++) concatenated(pass);
    }
    kl_cpu_use_variant(kl_cpu_n_variants() - 1);
}

static void slice_update(void **state) {
    for (int v = 0; v < kl_cpu_n_variants(); v++) {
        kl_cpu_use_variant(v);
        for (int pass = 0; pass < 250; pass++) updated(pass);
    }
    kl_cpu_use_variant(kl_cpu_n_variants() - 1);
}

int main(void) {
    fill_memory();
    const struct CMUnitTest tests[] = {cmocka_unit_test(concatenate),
                                       cmocka_unit_test(slice_update)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
