/* test_on_gpu_index.c - copies, arrays made from parameters, gathers and scatters on a real device
 * against the CPU (ops/support/against_cpu.h); a bad index is reported as the CPU reports it. */
#include "ops/support/against_cpu.h"

static void copies(void **state) {
    static const int shapes[][2] = {{1, 1}, {3, 5}, {64, 64}, {33, 70}, {100, 17}};
    for (size_t d = 0; d < 14; d += 3)
        for (size_t s = 0; s < 5; s++)
            for (int layout = 0; layout < 4; layout++) {
                struct kl_array *x = laid_out(all_dtypes[d], layout, shapes[s][0], shapes[s][1]),
                                *a, *b;
                OK(kl_copy(&a, x, cpu_stream, &err));
                OK(kl_copy(&b, x, gpu_stream, &err));
                same(a, b, 0, 0, "copy");
                kl_array_release(x);
            }
    /* An array of many axes, no two of which can be merged. */
    int dims[10] = {2, 3, 2, 2, 2, 3, 2, 2, 2, 3}, perm[10] = {9, 0, 8, 1, 7, 2, 6, 3, 5, 4};
    struct kl_array *x = random_array(KL_I32, 10, dims), *t, *a, *b;
    OK(kl_transpose_axes(&t, x, perm, 10, cpu_stream, &err));
    OK(kl_copy(&a, t, cpu_stream, &err));
    OK(kl_copy(&b, t, gpu_stream, &err));
    same(a, b, 0, 0, "copy of ten axes");
    OK(kl_add(&a, t, t, cpu_stream, &err));
    OK(kl_add(&b, t, t, gpu_stream, &err));
    same(a, b, 0, 0, "add of ten axes");
    kl_array_release(x);
    kl_array_release(t);
}

/* In large arrays each work-item computes several elements. The elements behind the last whole
 * group are computed one by one. */
static void large_arrays(void **state) {
    for (int with_tail = 0; with_tail < 2; with_tail++) {
        int n = (1 << 22) + (1 << 20) + (with_tail ? 7 : 0), rows = 40000, cols = 128,
            dims[2] = {rows, cols};
        struct kl_array *x, *y, *a[3], *b[3];
        OK(kl_arange(&x, 0, n, 1, KL_F32, cpu_stream, &err));
        OK(kl_arange(&y, 5, n + 5, 1, KL_F32, cpu_stream, &err));
        for (int dev = 0; dev < 2; dev++) {
            struct kl_stream *s = dev ? gpu_stream : cpu_stream;
            struct kl_array **r = dev ? b : a, *t;
            OK(kl_add(&r[0], x, y, s, &err));
            OK(kl_copy(&r[1], x, s, &err));
            OK(kl_multiply(&t, x, y, s, &err));
            OK(kl_subtract(&r[2], t, x, s, &err));
            kl_array_release(t);
        }
        for (int k = 0; k < 3; k++) same(a[k], b[k], 0, 0, "large");
        kl_array_release(x);
        kl_array_release(y);
        struct kl_array *from = random_array(KL_F32, 2, dims), *at, *u, *r[4];
        int many = 40000 + with_tail, shape[3] = {many, 1, cols};
        at = indices(KL_I32, 1, &many, rows, false);
        OK(kl_take_axis(&r[0], from, at, 0, cpu_stream, &err));
        OK(kl_take_axis(&r[1], from, at, 0, gpu_stream, &err));
        kl_array_release(at);
        same(r[0], r[1], 0, 0, "large gather");
        many = rows - with_tail;
        shape[0] = many;
        u = random_array(KL_F32, 3, shape);
        /* 7 and 40,000 have no common divisor, so no index occurs twice. */
        at = indices(KL_I32, 1, &many, rows, true);
        OK(kl_scatter_single(&r[2], from, at, u, 0, cpu_stream, &err));
        OK(kl_scatter_single(&r[3], from, at, u, 0, gpu_stream, &err));
        same(r[2], r[3], 0, 0, "large scatter");
        kl_array_release(at);
        kl_array_release(u);
        kl_array_release(from);
    }
}

static void made_from_parameters(void **state) {
    for (size_t d = 1; d < 13; d++) {
        struct kl_array *a, *b;
        OK(kl_arange(&a, -3, 120, 1.5, all_dtypes[d], cpu_stream, &err));
        OK(kl_arange(&b, -3, 120, 1.5, all_dtypes[d], gpu_stream, &err));
        same(a, b, 0, 0, "arange");
    }
    struct kl_array *key;
    OK(kl_random_key(&key, 42, &err));
    static const int shapes[][2] = {{1, 1}, {3, 7}, {64, 33}, {1, 1000}};
    for (int w = 1; w <= 4; w *= 2)
        for (int s = 0; s < 4; s++) {
            struct kl_array *a, *b;
            OK(kl_random_bits(&a, shapes[s], 2, w, key, cpu_stream, &err));
            OK(kl_random_bits(&b, shapes[s], 2, w, key, gpu_stream, &err));
            same(a, b, 0, 0, "bits");
        }
    static const enum kl_dtype floats[] = {KL_F16, KL_F32, KL_BF16};
    for (int f = 0; f < 3; f++) {
        struct kl_array *a, *b, *lo, *hi;
        OK(kl_array_new_scalar(&lo, 0, KL_F32, &err));
        OK(kl_array_new_scalar(&hi, 3, KL_F32, &err));
        OK(kl_random_uniform(&a, lo, hi, shapes[2], 2, floats[f], key, cpu_stream, &err));
        OK(kl_random_uniform(&b, lo, hi, shapes[2], 2, floats[f], key, gpu_stream, &err));
        same(a, b, 0, 0, "uniform");
        OK(kl_random_normal(&a, shapes[2], 2, floats[f], 0, 1, key, cpu_stream, &err));
        OK(kl_random_normal(&b, shapes[2], 2, floats[f], 0, 1, key, gpu_stream, &err));
        same(a, b, 4, 0.1, "normal");
        kl_array_release(lo);
        kl_array_release(hi);
    }
    kl_array_release(key);
}

static void parts(void **state) {
    for (size_t d = 0; d < 14; d += 2) {
        struct kl_array *x = laid_out(all_dtypes[d], (int)(d / 2 % 4), 12, 30),
                        *u = laid_out(all_dtypes[d], (int)(d / 2 + 1) % 4, 4, 10), *a, *b;
        int start[2] = {1, 29}, stop[2] = {9, -31}, step[2] = {2, -3};
        OK(kl_slice_update(&a, x, u, start, 2, stop, 2, step, 2, cpu_stream, &err));
        OK(kl_slice_update(&b, x, u, start, 2, stop, 2, step, 2, gpu_stream, &err));
        same(a, b, 0, 0, "slice_update");
        struct kl_array *both[2] = {x, x};
        for (int axis = 0; axis < 2; axis++) {
            OK(kl_concatenate_axis(&a, both, 2, axis, cpu_stream, &err));
            OK(kl_concatenate_axis(&b, both, 2, axis, gpu_stream, &err));
            same(a, b, 0, 0, "concatenate");
        }
        kl_array_release(x);
        kl_array_release(u);
    }
}

/* ---- indexed ---- */

static const enum kl_dtype index_types[] = {KL_U8, KL_U16, KL_U32, KL_U64,
                                            KL_I8, KL_I16, KL_I32, KL_I64};

static void gathers(void **state) {
    for (size_t d = 0; d < 14; d++)
        for (int layout = 0; layout < 4; layout++) {
            if (skipped(d + 3 * (size_t)layout, 4)) continue;
            enum kl_dtype it = index_types[(d + (size_t)layout) % 8];
            int n[2] = {6, 9}, along[2] = {13, 16};
            struct kl_array *x = laid_out(all_dtypes[d], layout, 13, 40),
                            *i = indices(it, 2, n, 13, false),
                            *j = indices(KL_I32, 1, n + 1, 40, false),
                            *k = indices(it, 2, along, 40, false), *a, *b;
            for (int axis = 0; axis < 2; axis++) {
                OK(kl_take_axis(&a, x, axis ? j : i, axis, cpu_stream, &err));
                OK(kl_take_axis(&b, x, axis ? j : i, axis, gpu_stream, &err));
                same(a, b, 0, 0, "take");
            }
            struct kl_array *two[2] = {i, j};
            int axes[2] = {0, 1}, sizes[2] = {1, 1};
            OK(kl_gather(&a, x, two, 2, axes, 2, sizes, 2, cpu_stream, &err));
            OK(kl_gather(&b, x, two, 2, axes, 2, sizes, 2, gpu_stream, &err));
            same(a, b, 0, 0, "gather");
            int only[1] = {0}, part[2] = {1, 8};
            OK(kl_gather(&a, x, two, 1, only, 1, part, 2, cpu_stream, &err));
            OK(kl_gather(&b, x, two, 1, only, 1, part, 2, gpu_stream, &err));
            same(a, b, 0, 0, "gather of parts");
            OK(kl_take_along_axis(&a, x, k, 1, cpu_stream, &err));
            OK(kl_take_along_axis(&b, x, k, 1, gpu_stream, &err));
            same(a, b, 0, 0, "take_along_axis");
            struct kl_array *all[] = {x, i, j, k};
            for (int m = 0; m < 4; m++) kl_array_release(all[m]);
        }
}

static void all_scatters(void **state) {
    for (size_t d = 0; d < 14; d++)
        for (int mode = 0; mode < 5; mode++) {
            if (skipped(d + (size_t)mode, 4)) continue;
            enum kl_dtype t = all_dtypes[d];
            int n = mode == 0 ? 13 : 50, u[3] = {n, 1, 20};
            struct kl_array *x = laid_out(t, mode % 4, 13, 20),
                            *i = indices(index_types[d % 8], 1, &n, 13, mode == 0),
                            *v = random_array(t, 3, u), *a, *b;
            if (kl_dtype_is_float(t) ||
                /* Sums and products have another order, so the numbers are small integers. */
                t == KL_C64) {
                struct kl_array *w = laid_out(KL_I8, 0, n, 20), *y, *small, *three;
                OK(kl_array_new_scalar(&three, 3, KL_I8, &err));
                OK(kl_minimum(&small, w, three, cpu_stream, &err));
                OK(kl_negative(&y, three, cpu_stream, &err));
                struct kl_array *floor3, *flat;
                OK(kl_maximum(&floor3, small, y, cpu_stream, &err));
                OK(kl_reshape(&flat, floor3, u, 3, cpu_stream, &err));
                struct kl_array *drop[] = {w, y, small, three, floor3};
                if (mode == 1 || mode == 2) {
                    kl_array_release(v);
                    OK(kl_astype(&v, flat, t, cpu_stream, &err));
                    kl_array_release(x);
                    x = plain(t, 0, 13, 20);
                }
                kl_array_release(flat);
                for (int m = 0; m < 5; m++) kl_array_release(drop[m]);
            }
            OK(scatters[mode](&a, x, i, v, 0, cpu_stream, &err));
            OK(scatters[mode](&b, x, i, v, 0, gpu_stream, &err));
            bool moves = mode == 0 || mode > 2 || !(kl_dtype_is_float(t) || t == KL_C64);
            same(a, b, moves ? 0 : 64, moves ? 0 : 8, "scatter");
            kl_array_release(x);
            kl_array_release(i);
            kl_array_release(v);
            int along[2] = {13, 4};
            x = laid_out(t, mode % 4, 13, 20);
            i = indices(KL_I64, 2, along, 20, true);
            v = random_array(t, 2, along);
            OK(kl_put_along_axis(&a, x, i, v, 1, cpu_stream, &err));
            OK(kl_put_along_axis(&b, x, i, v, 1, gpu_stream, &err));
            same(a, b, 0, 0, "put_along_axis");
            kl_array_release(x);
            kl_array_release(i);
            kl_array_release(v);
        }
}

/* ---- faults: the same report as the CPU's ---- */

static void faults(void **state) {
    for (int round = 0; round < 30; round++) {
        int n = 1 + (int)(draw() % 3000), bad = (int)(draw() % (unsigned)n), dims[2] = {20, 8};
        int *v = malloc((size_t)n * sizeof *v);
        for (int i = 0; i < n; i++) v[i] = (int)(draw() % 40) - 20;
        v[bad] = draw() % 2 ? 20 + (int)(draw() % 100) : -21 - (int)(draw() % 100);
        for (int i = bad + 1; i < n; i += 1 + (int)(draw() % 50)) v[i] = 500;
        struct kl_array *x = random_array(KL_F32, 2, dims), *i, *u, *r[2], *after[2];
        OK(kl_array_new_data(&i, v, KL_I32, 1, &n, &err));
        int shape[3] = {n, 1, 8};
        u = random_array(KL_F32, 3, shape);
        struct kl_error *e[2] = {NULL, NULL};
        for (int dev = 0; dev < 2; dev++) {
            struct kl_stream *s = dev ? gpu_stream : cpu_stream;
            if (round % 3 == 0)
                OK(kl_take_axis(&r[dev], x, i, 0, s, &err));
            else if (round % 3 == 1)
                OK(kl_scatter_add_single(&r[dev], x, i, u, 0, s, &err));
            else
                OK(kl_scatter_single(&r[dev], x, i, u, 0, s, &err));
            OK(kl_negative(&after[dev], r[dev], s, &err));
            assert_int_equal(kl_eval(&after[dev], 1, &e[dev]), KL_EINDEX);
        }
        assert_int_equal(e[0]->position, bad);
        assert_int_equal(e[1]->position, bad);
        assert_int_equal(e[1]->index, v[bad]);
        assert_int_equal(e[1]->axis, 0);
        assert_int_equal(e[1]->axis_size, 20);
        for (int dev = 0; dev < 2; dev++) {
            kl_error_release(e[dev]);
            kl_array_release(r[dev]);
            kl_array_release(after[dev]);
        }
        struct kl_array *good; /* other operations are not affected */
        OK(kl_negative(&good, x, gpu_stream, &err));
        OK(kl_eval(&good, 1, &err));
        kl_array_release(good);
        kl_array_release(x);
        kl_array_release(i);
        kl_array_release(u);
        free(v);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies),
        cmocka_unit_test(large_arrays),
        cmocka_unit_test(made_from_parameters),
        cmocka_unit_test(parts),
        cmocka_unit_test(gathers),
        cmocka_unit_test(all_scatters),
        cmocka_unit_test(faults),
    };
    choose_tests();
    return with_programs(cmocka_run_group_tests(tests, open_device, NULL));
}
