/* test_out_of_range.c - with KEEL_OUT_OF_RANGE=zero an index out of range gives 0 where it reads
 * and nothing where it writes, in every operation that takes indices, on the CPU and on a device
 * (on_device.h). What is expected comes from an axis that is one longer: the bad indices lead to
 * its last place, which holds zeros, or is left out of the result. Other failures stay failures.
 * CTest runs it with KEEL_VALIDATE=1 too, under which memory that is not written is never 0. */
#include "ops/support/helpers.h"
#include "ops/support/on_device.h"

#include <sys/wait.h>
#include <unistd.h>

#include "backend/gpu/driver.h"
#include "backend/opencl/opencl.h"
#include "base/value/out_of_range.h"
#include "graph/graph_support.h"
#include "ops/build/vjp.h"
#include "ops/quantized.h"

#define FOR_BOTH(s)                                                                        \
    for (struct kl_stream **s_ = (struct kl_stream *[]){cpu_stream, gpu_stream, NULL}, *s; \
         (s = *s_); s_++)

/* ---- pairs of a case and what stands for it ---- */

enum { N0 = 6, N1 = 5, N2 = 4, FEW = 9, MANY = 3000, MOST = 70000 };

/* Indices of an axis of n elements of which every third is bad; *good: the same of the axis that is
 * one longer. */
static struct kl_array *bad_indices(int ndim, const int *dims, int n, struct kl_array **good) {
    static int v[MOST], w[MOST];
    const int bad[] = {n, -n - 1, INT32_MAX, n + 7, INT32_MIN};
    int size = 1;
    for (int i = 0; i < ndim; i++) size *= dims[i];
    for (int i = 0; i < size; i++) {
        const int at = (int)((unsigned)i * 7 % (unsigned)(2 * n)) - n;
        v[i] = i % 3 == 1 ? bad[i / 3 % 5] : at;
        w[i] = i % 3 == 1 ? n : at < 0 ? at + n : at;
    }
    *good = array_of(KL_I32, ndim, dims, w);
    return array_of(KL_I32, ndim, dims, v);
}

/* 1, 2, 3, ... up to 100, and so on, as dtype. */
static struct kl_array *numbers(enum kl_dtype dtype, int ndim, const int *dims) {
    struct kl_array *x, *y, *z;
    x = count_up(ndim, dims);
    struct kl_array *hundred = scalar_of(KL_I32, 100), *one = scalar_of(KL_I32, 1);
    OK(kl_remainder(&y, x, hundred, cpu_stream, &err));
    OK(kl_add(&z, y, one, cpu_stream, &err));
    kl_array_release(x);
    kl_array_release(y);
    OK(kl_astype(&x, z, dtype, cpu_stream, &err));
    OK(kl_eval(&x, 1, &err));
    struct kl_array *release[] = {z, hundred, one};
    for (int i = 0; i < 3; i++) kl_array_release(release[i]);
    return x;
}

/* a with one place of zeros more on each of the axes. */
static struct kl_array *longer(struct kl_array *a, const int *axes, int n) {
    const int none[3] = {0, 0, 0}, one[3] = {1, 1, 1};
    struct kl_array *zero = scalar_of((enum kl_dtype)a->t.dtype, 0), *out;
    OK(kl_pad(&out, a, axes, (size_t)n, none, (size_t)n, one, (size_t)n, zero, "constant",
              cpu_stream, &err));
    kl_array_release(zero);
    return out;
}

/* a without its last place on each of the axes; takes a. */
static struct kl_array *shorter(struct kl_array *a, const int *axes, int n) {
    int from[3] = {0, 0, 0}, to[3], step[3] = {1, 1, 1};
    struct kl_array *out;
    for (int i = 0; i < 3; i++) to[i] = a->t.dims[i];
    for (int i = 0; i < n; i++) to[axes[i]]--;
    OK(kl_slice(&out, a, from, 3, to, 3, step, 3, cpu_stream, &err));
    kl_array_release(a);
    return out;
}

/* Both have the same bytes, and `met` operations met a bad index on the way to `got`. Takes
 * both. */
static void same(struct kl_array *got, struct kl_array *want, uint64_t met, const char *what) {
    struct kl_array *x, *y;
    OK(kl_eval(&want, 1, &err));
    const uint64_t before = kl_out_of_range_n();
    const void *g = read_elements(got, cpu_stream, &x, what);
    if (kl_out_of_range_n() - before != met)
        fail_msg("%s: %llu operations were counted, not %llu", what,
                 (unsigned long long)(kl_out_of_range_n() - before), (unsigned long long)met);
    const void *w = read_elements(want, cpu_stream, &y, what);
    assert_int_equal(got->t.size, want->t.size);
    if (memcmp(g, w, (size_t)want->t.size * kl_dtype_size(want->t.dtype)))
        fail_msg("%s: other values", what);
    kl_array_release(x);
    kl_array_release(y);
    kl_array_release(got);
    kl_array_release(want);
}

static const enum kl_dtype dtypes[] = {KL_F32, KL_U8, KL_F16, KL_C64};
enum { N_DTYPES = 4 };

/* ---- gathers ---- */

static void takes(enum kl_dtype dtype, int n, struct kl_stream *s) {
    const int dims[] = {N0, N1, N2};
    struct kl_array *a = numbers(dtype, 3, dims), *b = strided(kl_array_retain(a));
    for (int axis = 0; axis < 3; axis++) {
        struct kl_array *wide = longer(a, &axis, 1), *good, *got, *want,
                        *bad = bad_indices(1, &n, dims[axis], &good);
        for (int k = 0; k < 2; k++) {
            OK(kl_take_axis(&got, k ? b : a, bad, axis, s, &err));
            OK(kl_take_axis(&want, wide, good, axis, cpu_stream, &err));
            same(got, want, 1, "take");
        }
        kl_array_release(wide);
        kl_array_release(good);
        kl_array_release(bad);
    }
    struct kl_array *wide = longer(a, (int[]){0, 1}, 2), *i[2], *j[2], *got, *want;
    i[0] = bad_indices(1, &n, N0, &j[0]);
    i[1] = bad_indices(1, &n, N1, &j[1]);
    for (int inner = 1; inner <= N2; inner += N2 - 1) {
        const int sizes[] = {1, 1, inner};
        OK(kl_gather(&got, a, i, 2, (int[]){0, 1}, 2, sizes, 3, s, &err));
        OK(kl_gather(&want, wide, j, 2, (int[]){0, 1}, 2, sizes, 3, cpu_stream, &err));
        same(got, want, 1, "gather of two indices");
    }
    struct kl_array *release[] = {a, b, wide, i[0], i[1], j[0], j[1]};
    for (int k = 0; k < 7; k++) kl_array_release(release[k]);
}

static void reads_give_0(void **state) {
    FOR_BOTH(s)
    for (int d = 0; d < N_DTYPES; d++)
        for (int n = FEW; n <= MANY; n += MANY - FEW)
            if (d == 0 || n == FEW || s == cpu_stream) takes(dtypes[d], n, s);
}

static void reads_along_an_axis_give_0(void **state) {
    const int dims[] = {N0, N1, N2};
    FOR_BOTH(s)
    for (int d = 0; d < N_DTYPES; d++)
        for (int axis = 0; axis < 3; axis++) {
            struct kl_array *a = numbers(dtypes[d], 3, dims), *wide = longer(a, &axis, 1), *good,
                            *got, *want, *bad = bad_indices(3, dims, dims[axis], &good);
            OK(kl_take_along_axis(&got, a, bad, axis, s, &err));
            OK(kl_take_along_axis(&want, wide, good, axis, cpu_stream, &err));
            same(got, want, 1, "take_along_axis");
            struct kl_array *release[] = {a, wide, good, bad};
            for (int k = 0; k < 4; k++) kl_array_release(release[k]);
        }
}

/* That nothing can be read from an axis without elements is known from its shape, before values
 * are; along an axis it is found like any other index. */
static void nothing_to_read(void **state) {
    FOR_BOTH(s) {
        const int none[] = {0, 3};
        struct kl_array *a, *i = I32(SHAPE(2, 3), 0, -1, 1, 0, 0, 0), *got,
                            *one = scalar_of(KL_F32, 1);
        struct kl_error *e = NULL;
        OK(kl_zeros(&a, none, 2, KL_F32, s, &err));
        assert_int_equal(kl_take_axis(&got, a, i, 0, s, &e), KL_ESHAPE);
        kl_error_release(e);
        OK(kl_take_along_axis(&got, a, i, 0, s, &err));
        same(got, F32(SHAPE(2, 3), 0, 0, 0, 0, 0, 0), 1, "take_along_axis of nothing");
        OK(kl_put_along_axis(&got, a, i, one, 0, s, &err));
        same(got, kl_array_retain(a), 1, "put_along_axis into nothing");
        struct kl_array *release[] = {a, i, one};
        for (int k = 0; k < 3; k++) kl_array_release(release[k]);
    }
}

static void uint64_indices(void **state) {
    const uint64_t at[] = {1, UINT64_MAX, UINT64_C(1) << 63, 0};
    FOR_BOTH(s) {
        const int n = 4;
        struct kl_array *a = F32(SHAPE(2), 5, 6), *i = array_of(KL_U64, 1, &n, at), *got;
        OK(kl_take_axis(&got, a, i, 0, s, &err));
        same(got, F32(SHAPE(4), 6, 0, 0, 5), 1, "take by uint64");
        kl_array_release(a);
        kl_array_release(i);
    }
}

/* A slice of which any part would lie outside is 0 as a whole; so is an update dropped. */
static void slices_with_array_starts(void **state) {
    static const int starts[][2] = {{1, 1}, {2, 0}, {0, 3}, {-1, 0}, {1, -4}, {INT32_MAX, 0}};
    static const bool fits[] = {true, false, false, false, true, false};
    FOR_BOTH(s)
    for (int k = 0; k < 6; k++) {
        const int size[] = {2, 2}, axes[] = {0, 1}, two = 2;
        int32_t all[12], part[4] = {0}, row = starts[k][0], col = (starts[k][1] + 4) % 4;
        struct kl_array *a = count_up(SHAPE(3, 4)), *u = I32(SHAPE(2, 2), 50, 51, 52, 53), *got,
                        *at = array_of(KL_I32, 1, &two, starts[k]);
        for (int i = 0; i < 12; i++) all[i] = i;
        for (int i = 0; i < 4 && fits[k]; i++) {
            int32_t *to = &all[(row + i / 2) * 4 + col + i % 2];
            part[i] = *to;
            *to = 50 + i;
        }
        OK(kl_slice_dynamic(&got, a, at, axes, 2, size, 2, s, &err));
        same(got, array_of(KL_I32, 2, size, part), !fits[k], "slice with array starts");
        OK(kl_slice_update_dynamic(&got, a, u, at, axes, 2, s, &err));
        same(got, array_of(KL_I32, SHAPE(3, 4), all), !fits[k], "update with array starts");
        struct kl_array *release[] = {a, u, at};
        for (int i = 0; i < 3; i++) kl_array_release(release[i]);
    }
}

/* ---- scatters ---- */

/* Updates of which many meet: of an assignment all have one value, since on a GPU any of them may
 * be the last, and products stay small. */
static struct kl_array *updates(int mode, enum kl_dtype dtype, int ndim, const int *dims) {
    if (mode != KL_SCATTER_ASSIGN && mode != KL_SCATTER_PROD) return numbers(dtype, ndim, dims);
    struct kl_array *out, *one = scalar_of(dtype, mode == KL_SCATTER_PROD ? 1 : 77);
    OK(kl_broadcast_to(&out, one, dims, (size_t)ndim, cpu_stream, &err));
    kl_array_release(one);
    return out;
}

static void writes(enum kl_dtype dtype, int mode, int n, struct kl_stream *s) {
    const int dims[] = {N0, N1, N2};
    for (int axis = 0; axis < 3; axis++) {
        int shape[] = {n, N0, N1, N2};
        shape[1 + axis] = 1;
        struct kl_array *a = numbers(dtype, 3, dims), *wide = longer(a, &axis, 1), *good, *got,
                        *want, *bad = bad_indices(1, &n, dims[axis], &good),
                        *u = updates(mode, dtype, 4, shape);
        OK(scatters[mode](&got, a, bad, u, axis, s, &err));
        OK(scatters[mode](&want, wide, good, u, axis, cpu_stream, &err));
        same(got, shorter(want, &axis, 1), 1, scatter_names[mode]);
        struct kl_array *release[] = {a, wide, good, bad, u};
        for (int k = 0; k < 5; k++) kl_array_release(release[k]);
    }
}

static void writes_are_dropped(void **state) {
    FOR_BOTH(s)
    for (int mode = 0; mode < 5; mode++)
        for (int d = 0; d < N_DTYPES; d++) {
            const bool is_device = s == gpu_stream;
            /* Each compiles a kernel; a sample has two dtypes of each mode. */
            if (is_device && (mode + d) % 2 && d > 1) continue;
            if (is_device && d && d != 1 + mode % 3 && !takes_case(1)) continue;
            writes(dtypes[d], mode, FEW, s);
            if (d == 0 && !is_device) writes(KL_I32, mode, MANY, s);
        }
}

/* So many that the CPU sorts them by place first, and that a device finds the last update of a
 * place before it moves any. */
static void many_writes(void **state) {
    static const int dims[] = {40000, 2}, n = MOST, shape[] = {MOST, 1, 2};
    FOR_BOTH(s)
    for (int inner = 0; inner < 2; inner++)
        for (int mode = 0; mode < 2; mode++) {
            const int flat = dims[0] * 2, one_shape[] = {MOST, 1};
            struct kl_array *good, *bad = bad_indices(1, &n, inner ? dims[0] : flat, &good), *got,
                                   *want, *a, *wide, *u, *part;
            a = inner ? numbers(KL_I32, 2, dims) : numbers(KL_I32, 1, &flat);
            u = updates(mode, KL_I32, inner ? 3 : 2, inner ? shape : one_shape);
            wide = longer(a, (int[]){0}, 1);
            OK(scatters[mode](&got, a, bad, u, 0, s, &err));
            OK(scatters[mode](&want, wide, good, u, 0, s, &err));
            OK(kl_eval(&want, 1, &err));
            const int from[] = {0, 0}, to[] = {inner ? dims[0] : flat, 2}, step[] = {1, 1};
            const size_t k = inner ? 2 : 1;
            OK(kl_slice(&part, want, from, k, to, k, step, k, cpu_stream, &err));
            same(got, part, 1, inner ? "many rows" : "many elements");
            struct kl_array *release[] = {good, bad, a, wide, u, want};
            for (int i = 0; i < 6; i++) kl_array_release(release[i]);
        }
}

static void writes_along_an_axis_are_dropped(void **state) {
    const int dims[] = {N0, N1, N2};
    FOR_BOTH(s)
    for (int d = 0; d < 2; d++)
        for (int axis = 0; axis < 3; axis++)
            for (int adds = 0; adds < 2; adds++) {
                struct kl_array *a = numbers(dtypes[d], 3, dims), *wide = longer(a, &axis, 1),
                                *good, *got, *want, *bad = bad_indices(3, dims, dims[axis], &good),
                                *u = adds ? numbers(dtypes[d], 3, dims) : scalar_of(dtypes[d], 77);
                if (adds) {
                    OK(kl_scatter_add_axis(&got, a, bad, u, axis, s, &err));
                    OK(kl_scatter_add_axis(&want, wide, good, u, axis, cpu_stream, &err));
                } else {
                    OK(kl_put_along_axis(&got, a, bad, u, axis, s, &err));
                    OK(kl_put_along_axis(&want, wide, good, u, axis, cpu_stream, &err));
                }
                same(got, shorter(want, &axis, 1), 1, "a write along an axis");
                struct kl_array *release[] = {a, wide, good, bad, u};
                for (int k = 0; k < 5; k++) kl_array_release(release[k]);
            }
}

static void masked_scatter_without_enough(void **state) {
    FOR_BOTH(s)
    for (int n = 0; n <= 2; n += 2) {
        const bool where[] = {true, false, true, true};
        const int four = 4;
        const float some[] = {7, 8};
        struct kl_array *a = F32(SHAPE(4), 1, 2, 3, 4), *mask = array_of(KL_BOOL, 1, &four, where),
                        *src = array_of(KL_F32, 1, &n, some), *got;
        OK(kl_masked_scatter(&got, a, mask, src, s, &err));
        same(got, n ? F32(SHAPE(4), 7, 2, 8, 0) : F32(SHAPE(4), 0, 2, 0, 0), 1, "masked_scatter");
        struct kl_array *release[] = {a, mask, src};
        for (int k = 0; k < 3; k++) kl_array_release(release[k]);
    }
}

/* ---- products by indices ---- */

static void gather_mm(void **state) {
    FOR_BOTH(s) {
        const int a_dims[] = {N0, 2, 3}, b_dims[] = {N1, 3, 2}, n = FEW, first = 0;
        struct kl_array *a = numbers(KL_F32, 3, a_dims), *b = numbers(KL_F32, 3, b_dims), *good[2],
                        *bad[2], *wide[2] = {longer(a, &first, 1), longer(b, &first, 1)}, *got,
                        *want;
        bad[0] = bad_indices(1, &n, N0, &good[0]);
        bad[1] = bad_indices(1, &n, N1, &good[1]);
        OK(kl_gather_mm(&got, a, b, bad[0], bad[1], s, &err));
        OK(kl_gather_mm(&want, wide[0], wide[1], good[0], good[1], cpu_stream, &err));
        same(got, want, 2, "gather_mm");
        struct kl_array *release[] = {a, b, wide[0], wide[1], good[0], good[1], bad[0], bad[1]};
        for (int i = 0; i < 8; i++) kl_array_release(release[i]);
    }
}

/* A vector has no axis in the result, and one list of indices may be missing. */
static void gather_mm_of_vectors(void **state) {
    FOR_BOTH(s) {
        struct kl_array *a = F32(SHAPE(2), 1, 2), *b = F32(SHAPE(2, 2, 1), 1, 2, 3, 4), *got,
                        *at = I32(SHAPE(2, 2), 1, 2, -3, -2);
        OK(kl_gather_mm(&got, a, b, NULL, at, s, &err));
        same(got, F32(SHAPE(2, 2, 1), 11, 0, 0, 5), 1, "gather_mm of a vector");
        struct kl_array *release[] = {a, b, at};
        for (int i = 0; i < 3; i++) kl_array_release(release[i]);
    }
}

static void gather_qmm(void **state) {
    const struct kl_quant_format formats[] = {{KL_QUANT_AFFINE, 32, 8}, {KL_QUANT_MXFP8, 32, 8}};
    FOR_BOTH(s)
    for (int f = 0; f < 2; f++) {
        const int x_dims[] = {N0, 2, 32}, w_dims[] = {N1, 8, 32}, n = FEW, first = 0;
        struct kl_array *x = numbers(KL_F32, 3, x_dims), *w = numbers(KL_F32, 3, w_dims),
                        *q[3] = {NULL}, *wide[3] = {NULL}, *wide_x = longer(x, &first, 1), *bad[2],
                        *good[2], *got, *want;
        int parts;
        OK(kl_quantize(q, &parts, w, &formats[f], NULL, cpu_stream, &err));
        for (int i = 0; i < parts; i++) wide[i] = longer(q[i], &first, 1);
        bad[0] = bad_indices(1, &n, N0, &good[0]);
        bad[1] = bad_indices(1, &n, N1, &good[1]);
        OK(kl_gather_qmm(&got, x, q[0], q[1], q[2], bad[0], bad[1], true, &formats[f], s, &err));
        OK(kl_gather_qmm(&want, wide_x, wide[0], wide[1], wide[2], good[0], good[1], true,
                         &formats[f], s, &err));
        same(got, want, 2, "gather_qmm");
        struct kl_array *release[] = {x,       w,      q[0],    q[1],    q[2],   wide[0], wide[1],
                                      wide[2], wide_x, good[0], good[1], bad[0], bad[1]};
        for (int i = 0; i < 13; i++) kl_array_release(release[i]);
    }
}

static void segmented_mm(void **state) {
    FOR_BOTH(s) {
        struct kl_array *a = F32(SHAPE(1, 4), 1, 2, 3, 4), *b = F32(SHAPE(4, 1), 1, 1, 1, 1), *got,
                        *at = I32(SHAPE(5, 2), 0, 4, -1, 2, 1, 5, 1, 3, 9, 9);
        OK(kl_segmented_mm(&got, a, b, at, s, &err));
        same(got, F32(SHAPE(5, 1, 1), 10, 0, 0, 5, 0), 1, "segmented_mm");
        struct kl_array *release[] = {a, b, at};
        for (int i = 0; i < 3; i++) kl_array_release(release[i]);
    }
}

/* ---- what depends on such a value ---- */

/* Element-wise operations, which are fused, another gather, a scatter, and a reduction. */
static void consumers_run(void **state) {
    FOR_BOTH(s) {
        struct kl_array *a = F32(SHAPE(3), 1, 2, 3), *i = I32(SHAPE(4), 2, 5, 0, -9),
                        *one = scalar_of(KL_F32, 1), *x[5];
        OK(kl_take_axis(&x[0], a, i, 0, s, &err));
        OK(kl_add(&x[1], x[0], one, s, &err));
        OK(kl_multiply(&x[2], x[1], x[1], s, &err));
        OK(kl_take_axis(&x[3], x[2], i, 0, s, &err));
        OK(kl_sum(&x[4], x[2], false, s, &err));
        same(kl_array_retain(x[2]), F32(SHAPE(4), 16, 1, 4, 1), 1, "element-wise");
        same(kl_array_retain(x[3]), F32(SHAPE(4), 4, 0, 16, 0), 1, "a second take");
        same(kl_array_retain(x[4]), F32(SCALAR, 22), 0, "a sum");
        struct kl_array *release[] = {a, i, one, x[0], x[1], x[2], x[3], x[4]};
        for (int k = 0; k < 8; k++) kl_array_release(release[k]);
    }
}

static int double_it(void *ctx, struct kl_launch *l, struct kl_error **err) {
    *(int32_t *)l->out[0].data = 2 * *(const int32_t *)l->in[0].data + 1;
    return KL_OK;
}

/* Operations that a device skips when an input has failed. Only the simulated device runs a
 * function of the test. */
static void guarded_consumers_run(void **state) {
    const struct kl_call_params guarded = {.name = "double", .fn = double_it, .guarded = true};
    FOR_BOTH(s) {
        if (s == gpu_stream && strcmp(device_name(), "sim")) continue;
        struct kl_array *a = I32(SHAPE(2), 8, 9), *i = scalar_of(KL_I32, 2), *x, *y, *z;
        OK(kl_take_axis(&x, a, i, 0, s, &err));
        y = t_call(s, &guarded, &x, 1, KL_I32, 0, NULL);
        z = t_fail(s, x);
        assert_int_equal(t_value(y), 1);
        t_expect_error(z, KL_EKERNEL); /* another failure is one */
        struct kl_array *release[] = {a, i, x, y, z};
        for (int k = 0; k < 5; k++) kl_array_release(release[k]);
    }
}

/* More fault words than one value may depend on, which are merged; and several words of one
 * operation, whose launch is split: it counts once. */
static void many_words(void **state) {
    enum { PARTS = 40 };
    FOR_BOTH(s) {
        struct kl_array *a = count_up(SHAPE(4)), *part[PARTS], *all, *good,
                        *bad = bad_indices(SHAPE(30), 4, &good), *got, *want, *wide;
        int32_t values[PARTS];
        for (int k = 0; k < PARTS; k++) {
            struct kl_array *i = I32(SHAPE(1), k % 6);
            OK(kl_take_axis(&part[k], a, i, 0, s, &err));
            kl_array_release(i);
            values[k] = k % 6 < 4 ? k % 6 : 0;
        }
        OK(kl_concatenate_axis(&all, part, PARTS, 0, s, &err));
        same(all, array_of(KL_I32, SHAPE(PARTS), values), 12, "many takes");
        for (int k = 0; k < PARTS; k++) kl_array_release(part[k]);
        if (strcmp(device_name(), "opencl") == 0) kl_opencl_driver(0)->max_positions = 7;
        if (strcmp(device_name(), "sim") == 0) kl_sim_max_positions(0, 7);
        wide = longer(a, (int[]){0}, 1);
        OK(kl_take_axis(&got, a, bad, 0, s, &err));
        OK(kl_take_axis(&want, wide, good, 0, cpu_stream, &err));
        same(got, want, 1, "a take in several launches");
        if (strcmp(device_name(), "opencl") == 0)
            kl_opencl_driver(0)->max_positions = INT64_C(1) << 31;
        if (strcmp(device_name(), "sim") == 0) kl_sim_max_positions(0, INT64_C(1) << 31);
        struct kl_array *release[] = {a, good, bad, wide};
        for (int k = 0; k < 4; k++) kl_array_release(release[k]);
    }
}

/* ---- the exit of the process, and the messages ---- */

/* Runs this program again with KEEL_OUT_OF_RANGE set to `value`; returns what it wrote to
 * stderr. */
static const char *run_self(const char *what, const char *value) {
    static char text[4096];
    int fd[2], status;
    size_t n = 0;
    ssize_t got;
    assert_int_equal(pipe(fd), 0);
    setenv("KEEL_OUT_OF_RANGE", value, 1);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fd[1], 2);
        close(fd[0]);
        close(fd[1]);
        /* after a fork the leak checker waits for threads that the child does not have */
        if (strcmp(what, "fork") == 0) setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
        kl_test_run_again((const char *[]){what, NULL});
    }
    setenv("KEEL_OUT_OF_RANGE", "zero", 1);
    close(fd[1]);
    while (n + 1 < sizeof text && (got = read(fd[0], text + n, sizeof text - 1 - n)) > 0)
        n += (size_t)got;
    text[n] = 0;
    close(fd[0]);
    waitpid(pid, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status)) fail_msg("%s %s: %s", what, value, text);
    return text;
}

/* A child process: n takes, or scatters, with a bad index. It writes their errors to stderr. */
static int child_meets(int n, bool writes) {
    struct kl_stream *s = cpu();
    struct kl_array *a = F32(SHAPE(4), 1, 2, 3, 4), *i = I32(SHAPE(2), 0, 9),
                    *u = F32(SHAPE(2, 1), 5, 6), *x;
    for (int k = 0; k < n; k++) {
        struct kl_error *e = NULL;
        void *data;
        if (writes ? kl_scatter_single(&x, a, i, u, 0, s, NULL)
                   : kl_take_axis(&x, a, i, 0, s, NULL))
            return 1;
        if (kl_array_host(x, &data, &e)) fprintf(stderr, "%s\n", e->message);
        kl_error_release(e);
        kl_array_release(x);
    }
    struct kl_array *release[] = {a, i, u};
    for (int k = 0; k < 3; k++) kl_array_release(release[k]);
    return 0;
}

static void exit_says_how_many(void **state) {
    const char first[] = "take: index 9 is out of range for axis 0 of size 4 (at position 1)";
    char text[256];
    assert_string_equal(run_self("0", "zero"), "");
    snprintf(text, sizeof text,
             "keel: 1 operation met an index out of range and went on (KEEL_OUT_OF_RANGE=zero); "
             "the first: %s\n",
             first);
    assert_string_equal(run_self("1", "zero"), text);
    /* the child of a fork tells of its own, and the parent of its own */
    assert_string_equal(run_self("fork", "zero"), text);
    snprintf(text, sizeof text,
             "keel: 3 operations met an index out of range and went on (KEEL_OUT_OF_RANGE=zero); "
             "the first: %s\n",
             first);
    assert_string_equal(run_self("3", "zero"), text);
}

static void an_error_says_how_to_go_on(void **state) {
    const char read[] = "take: index 9 is out of range for axis 0 of size 4 (at position 1)";
    const char write[] = "scatter: index 9 is out of range for axis 0 of size 4 (at position 1)";
    char text[256];
    snprintf(text, sizeof text,
             "%s; to go on all the same: take with mode \"clip\", \"wrap\" or \"fill\", or "
             "KEEL_OUT_OF_RANGE=zero\n",
             read);
    assert_string_equal(run_self("1", "error"), text);
    assert_string_equal(run_self("1", ""), text);
    snprintf(text, sizeof text, "%s; to go on all the same: KEEL_OUT_OF_RANGE=zero\n", write);
    assert_string_equal(run_self("write", "error"), text);
    snprintf(text, sizeof text, "%s; KEEL_OUT_OF_RANGE=null is neither error nor zero\n", read);
    assert_string_equal(run_self("1", "null"), text);
}

static int child(const char *what) {
    if (strcmp(what, "write") == 0) return child_meets(1, true);
    if (strcmp(what, "fork")) return child_meets(atoi(what), false);
    int status;
    if (child_meets(1, false)) return 1;
    pid_t pid = fork();
    if (pid == 0) exit(0);
    waitpid(pid, &status, 0);
    return WEXITSTATUS(status);
}

static int set_up(void **state) {
    setenv("KEEL_OUT_OF_RANGE", "zero", 1);
    return kl_out_of_range_zero() ? open_streams(state) : -1;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exit_says_how_many),
        cmocka_unit_test(an_error_says_how_to_go_on),
        cmocka_unit_test(reads_give_0),
        cmocka_unit_test(reads_along_an_axis_give_0),
        cmocka_unit_test(nothing_to_read),
        cmocka_unit_test(uint64_indices),
        cmocka_unit_test(slices_with_array_starts),
        cmocka_unit_test(writes_are_dropped),
        cmocka_unit_test(many_writes),
        cmocka_unit_test(writes_along_an_axis_are_dropped),
        cmocka_unit_test(masked_scatter_without_enough),
        cmocka_unit_test(gather_mm),
        cmocka_unit_test(gather_mm_of_vectors),
        cmocka_unit_test(gather_qmm),
        cmocka_unit_test(segmented_mm),
        cmocka_unit_test(consumers_run),
        cmocka_unit_test(guarded_consumers_run),
        cmocka_unit_test(many_words),
    };
    if (argc == 2) return child(argv[1]);
    return cmocka_run_group_tests(tests, set_up, NULL);
}
