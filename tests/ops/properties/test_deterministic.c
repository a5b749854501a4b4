/* test_deterministic.c - with KEEL_DETERMINISTIC=1 scatters on a device (on_device.h) give the bits
 * of the CPU on every run: floats are summed in the order of positions, and of equal indices the
 * highest position wins. All types and all ways to combine, with many updates to a place; updates
 * of disjoint slices, which are sorted as slices, and of slices that may overlap, which are sorted
 * by elements. */
#include "ops/support/no_f64.h"
#include "ops/support/on_device.h"

#include "backend/gpu/driver.h"
#include "backend/opencl/opencl.h"
#include "base/number/half.h"
#include "base/op/deterministic.h"

static kl_scatter_fn *const scatter_fns[] = {kl_scatter, kl_scatter_add, kl_scatter_prod,
                                             kl_scatter_max, kl_scatter_min};
enum { ROWS = 40, COLS = 12, POSITIONS = 3000, INNER = 5, RUNS = 3, MANY = 1 << 18 };

static uint64_t rng = 1;
static uint32_t draw(void) {
    uint64_t z = rng += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (uint32_t)((z ^ (z >> 31)) >> 16);
}

/* Numbers near 1, so that sums are rounded and products stay in range. Integers have any size. */
static struct kl_array *random_array(enum kl_dtype t, int ndim, const int *dims) {
    size_t n = 1, item = kl_dtype_size(t);
    for (int i = 0; i < ndim; i++) n *= (size_t)dims[i];
    char *v = malloc(n * item);
    for (size_t i = 0; i < n; i++) {
        double x = 0.75 + (double)draw() / 0x1p33;
        float f[2] = {(float)(draw() % 2 ? x : -x), draw() % 2 ? 0.25f : -0.5f};
        uint64_t bits = (uint64_t)draw() << 32 | draw();
        if (t == KL_BOOL) bits %= 2;
        if (t == KL_F16) bits = kl_f16_store(f[0]);
        if (t == KL_BF16) bits = kl_bf16_store(f[0]);
        if (t == KL_F64) bits = kl_f64_bits(draw() % 2 ? x : -x);
        if (t == KL_F32 || t == KL_C64) memcpy(&bits, f, 8);
        memcpy(v + i * item, &bits, item);
    }
    struct kl_array *a;
    OK(kl_array_new_data(&a, v, t, ndim, dims, &err));
    free(v);
    return a;
}

static struct kl_array *random_indices(int ndim, const int *dims, int size) {
    static int v[MANY];
    int n = 1;
    for (int i = 0; i < ndim; i++) n *= dims[i];
    /* Half of the indices go to a few places. */
    for (int i = 0; i < n; i++) v[i] = (int)(draw() % (uint32_t)(draw() % 2 ? 2 : 2 * size)) - size;
    for (int i = 0; i < n; i++)
        if (draw() % 2) v[i] = v[i] < 0 ? v[i] + size : v[i];
    struct kl_array *a;
    OK(kl_array_new_data(&a, v, KL_I32, ndim, dims, &err));
    return a;
}

/* Both must have the same bits; takes both. */
static void same(struct kl_array *want, struct kl_array *got, const char *what) {
    struct kl_array *w, *g;
    enum kl_dtype t = want->t.dtype;
    if (refused_for_f64(got)) {
        kl_array_release(want);
        kl_array_release(got);
        return;
    }
    const char *p = read_elements(want, cpu_stream, &w, what),
               *q = read_elements(got, gpu_stream, &g, what);
    size_t item = kl_dtype_size(t);
    assert_int_equal(want->t.size, got->t.size);
    for (int64_t i = 0; i < want->t.size; i++)
        if (memcmp(p + (size_t)i * item, q + (size_t)i * item, item) != 0)
            fail_msg("%s of %s: element %lld differs from the CPU's", what, kl_dtype_name(t),
                     (long long)i);
    struct kl_array *release[] = {want, got, w, g};
    for (int i = 0; i < 4; i++) kl_array_release(release[i]);
}

static void scatters_are_the_cpus(void **state) {
    static const int dims[] = {ROWS, COLS}, shape[] = {POSITIONS, 1, INNER}, n = POSITIONS;
    for (int t = 0; t < KL_N_DTYPES; t++)
        for (int mode = 0; mode < 5; mode++) {
            if (!takes_case(3)) continue;
            struct kl_array *a = random_array((enum kl_dtype)t, 2, dims),
                            *u = random_array((enum kl_dtype)t, 3, shape),
                            *i = random_indices(1, &n, ROWS), *want, *got;
            for (int run = 0; run < RUNS; run++) {
                OK(scatters[mode](&want, a, i, u, 0, cpu_stream, &err));
                OK(scatters[mode](&got, a, i, u, 0, gpu_stream, &err));
                same(want, got, scatter_names[mode]);
            }
            kl_array_release(a);
            kl_array_release(u);
            kl_array_release(i);
        }
}

/* So many updates that even the threads of a CPU would add them in any order. */
static void many_updates(void **state) {
    static const int rows = ROWS, n = MANY, shape[] = {MANY, 1}, modes[] = {0, 1};
    for (int k = 0; k < 2; k++) {
        struct kl_array *a = random_array(KL_F32, 1, &rows), *u = random_array(KL_F32, 2, shape),
                        *i = random_indices(1, &n, ROWS), *want, *got;
        for (int run = 0; run < RUNS; run++) {
            OK(scatters[modes[k]](&want, a, i, u, 0, cpu_stream, &err));
            OK(scatters[modes[k]](&got, a, i, u, 0, gpu_stream, &err));
            same(want, got, scatter_names[modes[k]]);
        }
        kl_array_release(a);
        kl_array_release(u);
        kl_array_release(i);
    }
}

/* Two index arrays, updates that are not row-major, and slices that overlap each other. */
static void all_layouts(void **state) {
    static const int dims[] = {ROWS, COLS}, transposed[] = {2, 3, 60, 50};
    struct kl_array *a = random_array(KL_F32, 2, dims), *u = random_array(KL_F32, 4, transposed),
                    *v,
                    *i[2] = {random_indices(2, (int[]){50, 60}, ROWS - 2),
                             random_indices(2, (int[]){50, 60}, COLS - 1)},
                    *at[2], *want, *got, *size;
    OK(kl_transpose_axes(&v, u, (int[]){3, 2, 1, 0}, 4, cpu_stream, &err));
    /* Slices of 3 rows and 2 columns begin at index 0 or above. */
    for (int k = 0; k < 2; k++) {
        OK(kl_array_new_scalar(&size, 0, KL_I32, &err));
        OK(kl_maximum(&at[k], i[k], size, cpu_stream, &err));
        kl_array_release(size);
    }
    for (int run = 0; run < RUNS; run++) {
        OK(kl_scatter_add(&want, a, at, 2, v, (int[]){0, 1}, 2, cpu_stream, &err));
        OK(kl_scatter_add(&got, a, at, 2, v, (int[]){0, 1}, 2, gpu_stream, &err));
        same(want, got, "scatter_add by two indices");
    }
    struct kl_array *release[] = {a, u, v, i[0], i[1], at[0], at[1]};
    for (int k = 0; k < 7; k++) kl_array_release(release[k]);
}

/* Strided indices are copied into scratch memory, behind a table with one word for each place. With
 * an odd number of words, indices of 64 bits must still be aligned. */
static void strided_indices_of_64_bits(void **state) {
    static const uint16_t zeros[5];
    static const uint64_t wide_zeros[4 * 5];
    for (int places = 1; places <= 3; places++)
        for (int mode = 0; mode < 5; mode++) {
            int dims[] = {places, 1}, updates[] = {1, 5, 4, 1, 1}, in_order[] = {1, 5, 1},
                as_stored[] = {4, 5, 1};
            struct kl_array *a = random_array(KL_F32, 2, dims),
                            *u = random_array(KL_F32, 5, updates), *i[2], *stored, *want, *got;
            OK(kl_array_new_data(&i[0], zeros, KL_U16, 3, in_order, &err));
            OK(kl_array_new_data(&stored, wide_zeros, KL_U64, 3, as_stored, &err));
            OK(kl_transpose(&i[1], stored, cpu_stream, &err));
            for (int run = 0; run < RUNS; run++) {
                OK(scatter_fns[mode](&want, a, i, 2, u, (int[]){0, 1}, 2, cpu_stream, &err));
                OK(scatter_fns[mode](&got, a, i, 2, u, (int[]){0, 1}, 2, gpu_stream, &err));
                same(want, got, scatter_names[mode]);
            }
            struct kl_array *release[] = {a, u, i[0], i[1], stored};
            for (int k = 0; k < 5; k++) kl_array_release(release[k]);
        }
}

/* Sets how many positions a launch may have. */
static void launches_of(int64_t most) {
    if (strcmp(device_name(), "opencl") == 0) kl_opencl_driver(0)->max_positions = most;
    if (strcmp(device_name(), "sim") == 0) kl_sim_max_positions(0, most);
}

/* The slices of updates to (20, 30, 24) elements, or to the transpose of that array. */
static const struct shape {
    const char *what;
    int n_index, axes[3], extents[3];
    bool transposed;
} slices[] = {
    {"flat slices", 1, {0}, {1, 30, 24}, false},
    {"rows, two indices", 2, {0, 1}, {1, 1, 24}, false},
    {"rows, indices in another order", 2, {1, 0}, {1, 1, 17}, false},
    {"elements, three indices", 3, {2, 0, 1}, {1, 1, 1}, false},
    {"columns", 2, {1, 2}, {20, 1, 1}, false},
    {"slices with gaps", 1, {1}, {20, 1, 24}, false},
    {"parts of slices", 1, {0}, {1, 7, 5}, false},
    {"slices of a transposed base", 1, {1}, {20, 1, 5}, true},
    {"rows of a transposed base", 2, {0, 1}, {1, 1, 24}, true},
    {"the whole array once", 0, {0}, {20, 30, 24}, false},
    {"slices that overlap", 1, {1}, {5, 2, 3}, false},
    {"slices that overlap along one of two axes", 2, {0, 2}, {1, 4, 3}, false},
    {"slices that overlap in a transposed base", 1, {0}, {2, 3, 4}, true},
};
enum { N_SLICES = sizeof slices / sizeof *slices, PLACED = 700 };

static void check_slices(const struct shape *c, int mode, enum kl_dtype t, int64_t most) {
    static const int dims[] = {20, 30, 24}, transposed[] = {24, 30, 20}, n = PLACED;
    int shape[] = {PLACED, c->extents[0], c->extents[1], c->extents[2]}, lead = c->n_index ? 0 : 1;
    struct kl_array *a = random_array(t, 3, c->transposed ? transposed : dims),
                    *u = random_array(t, 4 - lead, shape + lead), *i[3], *want, *got;
    if (c->transposed) {
        struct kl_array *x = a;
        OK(kl_transpose(&a, x, cpu_stream, &err));
        kl_array_release(x);
    }
    for (int k = 0; k < c->n_index; k++) {
        int places = dims[c->axes[k]] - c->extents[c->axes[k]] + 1;
        struct kl_array *x = random_indices(1, &n, places), *least = NULL;
        i[k] = x;
        if (places == dims[c->axes[k]]) continue;
        /* Indices counted from the end would not fit. */
        OK(kl_array_new_scalar(&least, 0, KL_I32, &err));
        OK(kl_maximum(&i[k], x, least, cpu_stream, &err));
        kl_array_release(x);
        kl_array_release(least);
    }
    OK(scatter_fns[mode](&want, a, i, (size_t)c->n_index, u, c->axes, (size_t)c->n_index,
                         cpu_stream, &err));
    OK(kl_eval(&want, 1, &err));
    launches_of(most);
    OK(scatter_fns[mode](&got, a, i, (size_t)c->n_index, u, c->axes, (size_t)c->n_index, gpu_stream,
                         &err));
    kl_array_release(a); /* an array that is scattered into */
    same(want, got, c->what);
    launches_of(INT64_C(1) << 31);
    kl_array_release(u);
    for (int k = 0; k < c->n_index; k++) kl_array_release(i[k]);
}

static void all_slices(void **state) {
    static const enum kl_dtype types[] = {KL_F32, KL_F16, KL_U8, KL_I64, KL_C64};
    for (int k = 0; k < N_SLICES; k++)
        for (int mode = 0; mode < 5; mode++)
            if (takes_case(3))
                check_slices(&slices[k], mode, types[(k + mode) % 5], INT64_C(1) << 31);
}

/* Each launch sorts its own positions. */
static void split_launches(void **state) {
    static const int64_t most[] = {50, 699};
    for (int k = 0; k < N_SLICES; k++)
        for (int m = 0; m < 2; m++)
            if (takes_case(3)) check_slices(&slices[k], (k + m) % 2, KL_F32, most[m]);
}

/* More positions than a work-group sorts at once, and few places. */
static void many_rows(void **state) {
    static const int dims[] = {ROWS, 48}, n = 1 << 14, shape[] = {1 << 14, 1, 48};
    struct kl_array *a = random_array(KL_F32, 2, dims), *u = random_array(KL_F32, 3, shape),
                    *i = random_indices(1, &n, ROWS), *want, *got;
    for (int mode = 0; mode < 2; mode++)
        for (int run = 0; run < RUNS; run++) {
            OK(scatters[mode](&want, a, i, u, 0, cpu_stream, &err));
            OK(scatters[mode](&got, a, i, u, 0, gpu_stream, &err));
            same(want, got, "many rows");
        }
    struct kl_array *release[] = {a, u, i};
    for (int k = 0; k < 3; k++) kl_array_release(release[k]);
}

/* More places than one work-group handles. Two indices lead to each place, several times, and the
 * last update stays. */
static void many_places(void **state) {
    static const int dims[] = {60, 50, 7}, n = 1 << 14, shape[] = {1 << 14, 1, 1, 7};
    for (int t = 0; t < KL_N_DTYPES; t += 4) {
        struct kl_array *a = random_array((enum kl_dtype)t, 3, dims),
                        *u = random_array((enum kl_dtype)t, 4, shape),
                        *i[] = {random_indices(1, &n, 60), random_indices(1, &n, 50)}, *want, *got;
        for (int most = 0; most < 2; most++) {
            OK(kl_scatter(&want, a, i, 2, u, (int[]){0, 1}, 2, cpu_stream, &err));
            launches_of(most ? 3000 : INT64_C(1) << 31);
            OK(kl_scatter(&got, a, i, 2, u, (int[]){0, 1}, 2, gpu_stream, &err));
            same(want, got, "many places");
            launches_of(INT64_C(1) << 31);
        }
        struct kl_array *release[] = {a, u, i[0], i[1]};
        for (int k = 0; k < 4; k++) kl_array_release(release[k]);
    }
}

static void along_an_axis(void **state) {
    static const int dims[] = {ROWS, COLS}, tall[] = {POSITIONS, COLS}, row[] = {1, COLS};
    kl_scatter_single_fn *const fns[] = {kl_put_along_axis, kl_scatter_add_axis};
    for (int t = 0; t < KL_N_DTYPES; t += 3)
        for (int k = 0; k < 2; k++)
            for (int broadcast = 0; broadcast < 2; broadcast++) {
                struct kl_array *a = random_array((enum kl_dtype)t, 2, dims),
                                *v = random_array((enum kl_dtype)t, 2, broadcast ? row : tall),
                                *i = random_indices(2, (int[]){POSITIONS / 4, COLS}, ROWS), *want,
                                *got, *cut = NULL;
                int from[] = {0, 0}, to[] = {broadcast ? 1 : POSITIONS / 4, COLS}, one[] = {1, 1};
                OK(kl_slice(&cut, v, from, 2, to, 2, one, 2, cpu_stream, &err));
                OK(fns[k](&want, a, i, cut, 0, cpu_stream, &err));
                OK(fns[k](&got, a, i, cut, 0, gpu_stream, &err));
                same(want, got, k ? "scatter_add_axis" : "put_along_axis");
                struct kl_array *release[] = {a, v, i, cut};
                for (int r = 0; r < 4; r++) kl_array_release(release[r]);
            }
}

/* Some indices are out of range, some of them leading to the same places: the first one is
 * reported. Slices have `rows` rows of 3 elements. */
static void check_fault(kl_scatter_single_fn *scatter, int rows, int64_t most) {
    int n = 6, dims[] = {8, 3}, shape[] = {6, rows, 3}, index[] = {2, 1, 2, 99, 2, -50};
    struct kl_array *a = random_array(KL_F32, 2, dims), *u = random_array(KL_F32, 3, shape), *i,
                    *out;
    OK(kl_array_new_data(&i, index, KL_I32, 1, &n, &err));
    launches_of(most);
    OK(scatter(&out, a, i, u, 0, gpu_stream, &err));
    void *data;
    struct kl_error *e = NULL;
    assert_int_equal(kl_array_host(out, &data, &e), KL_EINDEX);
    launches_of(INT64_C(1) << 31);
    assert_int_equal(e->index, 99);
    assert_int_equal(e->position, 3);
    assert_non_null(strstr(e->message, "99"));
    kl_error_release(e);
    struct kl_array *release[] = {a, u, i, out};
    for (int r = 0; r < 4; r++) kl_array_release(release[r]);
}

static void a_wrong_index_is_reported(void **state) {
    for (int rows = 1; rows <= 2; rows++) {
        check_fault(kl_scatter_single, rows, INT64_C(1) << 31);
        check_fault(kl_scatter_add_single, rows, INT64_C(1) << 31);
        check_fault(kl_scatter_single, rows, 2);
        check_fault(kl_scatter_add_single, rows, 2);
    }
}

static int set_up(void **state) {
    setenv("KEEL_DETERMINISTIC", "1", 1);
    return kl_deterministic() ? open_streams(state) : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scatters_are_the_cpus),
        cmocka_unit_test(many_updates),
        cmocka_unit_test(all_layouts),
        cmocka_unit_test(strided_indices_of_64_bits),
        cmocka_unit_test(all_slices),
        cmocka_unit_test(split_launches),
        cmocka_unit_test(many_rows),
        cmocka_unit_test(many_places),
        cmocka_unit_test(along_an_axis),
        cmocka_unit_test(a_wrong_index_is_reported),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
