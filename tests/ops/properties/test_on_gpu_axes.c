/* test_on_gpu_axes.c - reductions, softmax and sorts on a real device against the CPU
 * (ops/support/against_cpu.h). */
#include "ops/support/against_cpu.h"

#include "base/op/op_params.h"
#include "ops/build/build.h"

static void reductions(void **state) {
    static const struct {
        int rows, cols;
    } shapes[] = {{1, 1}, {5, 300}, {300, 5}, {3, 5000}, {70, 70}};
    for (size_t d = 0; d < 14; d++)
        for (size_t s = 0; s < 5; s++)
            for (int how = 0; how < 3; how++) {
                if (skipped(d, 3)) continue;
                struct kl_array *x =
                    laid_out(all_dtypes[d], (int)(draw() % 4), shapes[s].rows, shapes[s].cols);
                int axis = how;
                for (int op = 0; op < 3; op++) {
                    struct kl_array *a, *b;
                    struct kl_error *e = NULL;
                    int axes[2] = {0, 1};
                    const int *on = how == 2 ? axes : &axis;
                    size_t n = how == 2 ? 2 : 1;
                    int rc = op == 0   ? kl_sum_axes(&a, x, on, n, false, cpu_stream, &e)
                             : op == 1 ? kl_max_axes(&a, x, on, n, true, cpu_stream, &e)
                                       : kl_min_axes(&a, x, on, n, false, cpu_stream, &e);
                    if (rc) {
                        kl_error_release(e);
                        continue;
                    }
                    OK(op == 0   ? kl_sum_axes(&b, x, on, n, false, gpu_stream, &err)
                       : op == 1 ? kl_max_axes(&b, x, on, n, true, gpu_stream, &err)
                                 : kl_min_axes(&b, x, on, n, false, gpu_stream, &err));
                    same(a, b, op ? 0 : 4, op ? 0 : 30.0 * shapes[s].cols, op ? "extreme" : "sum");
                }
                struct kl_array *a, *b;
                struct kl_error *e = NULL;
                if (how < 2 && !kl_argmax_axis(&a, x, axis, false, cpu_stream, &e)) {
                    OK(kl_argmax_axis(&b, x, axis, false, gpu_stream, &err));
                    same(a, b, 0, 0, "argmax");
                    OK(kl_argmin_axis(&a, x, axis, false, cpu_stream, &err));
                    OK(kl_argmin_axis(&b, x, axis, false, gpu_stream, &err));
                    same(a, b, 0, 0, "argmin");
                }
                kl_error_release(e);
                kl_array_release(x);
            }
}

/* Of magnitude 0.98 to 1.02, also as complex numbers. */
static struct kl_array *near_one(enum kl_dtype t, int layout, int rows, int cols) {
    struct kl_array *x = plain(KL_F32, layout, rows, cols), *small, *close, *y;
    struct kl_array *per = NULL, *one = NULL;
    OK(kl_array_new_scalar(&per, 0.01, KL_F32, &err));
    OK(kl_array_new_scalar(&one, 1, KL_F32, &err));
    OK(kl_multiply(&small, x, per, cpu_stream, &err)); /* plain numbers are below 2 */
    OK(kl_add(&close, small, one, cpu_stream, &err));
    OK(kl_astype(&y, close, t, cpu_stream, &err));
    struct kl_array *all[] = {x, small, close, per, one};
    for (int k = 0; k < 5; k++) kl_array_release(all[k]);
    return y;
}

/* Products, of numbers near 1; truth values; logarithms of sums; variances. */
static int var_1(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
                 bool keepdims, struct kl_stream *s, struct kl_error **err) {
    return kl_var_axes(out, a, axes, axes_num, keepdims, 1, s, err);
}
static int std_0(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
                 bool keepdims, struct kl_stream *s, struct kl_error **err) {
    return kl_std_axes(out, a, axes, axes_num, keepdims, 0, s, err);
}
static const struct {
    const char *name;
    kl_reduce_axes_fn *fn;
    double ulps, scale; /* as for `same` */
} folds[] = {{"all", kl_all_axes, 0, 0},   {"any", kl_any_axes, 0, 0},
             {"prod", kl_prod_axes, 0, 0}, /* see below */ {"logsumexp", kl_logsumexp_axes, 32, 1},
             {"var", var_1, 64, 0},        {"std", std_0, 64, 0}};

static void more_reductions(void **state) {
    static const struct {
        int rows, cols;
    } shapes[] = {{1, 1}, {5, 300}, {300, 5}, {3, 5000}, {70, 70}, {0, 3}};
    static const int both[2] = {0, 1};
    for (size_t d = 0; d < 14; d++)
        for (size_t k = 0; k < sizeof folds / sizeof *folds; k++) {
            if (skipped(d + k, 3)) continue;
            for (size_t s = 0; s < 6; s++)
                for (int how = 0; how < 3; how++) {
                    enum kl_dtype t = all_dtypes[d];
                    int layout = (int)(draw() % 4);
                    /* of equal elements the CPU's mean may be off by a rounding, a device's not */
                    if (layout == 2 && (folds[k].fn == var_1 || folds[k].fn == std_0)) layout = 0;
                    struct kl_array *a, *b,
                        *x = laid_out(t, layout, shapes[s].rows, shapes[s].cols);
                    /* in some order infinite, in another not */
                    bool wide = kl_dtype_is_float(t) || t == KL_C64;
                    if (wide && folds[k].fn == kl_prod_axes) {
                        kl_array_release(x);
                        x = near_one(t, layout, shapes[s].rows, shapes[s].cols);
                    }
                    const int *on = how == 2 ? both : both + how;
                    const size_t n = how == 2 ? 2 : 1;
                    OK(folds[k].fn(&a, x, on, n, how == 1, cpu_stream, &err));
                    OK(folds[k].fn(&b, x, on, n, how == 1, gpu_stream, &err));
                    /* the CPU's exponentials of 16-bit floats are shorter; a complex sum may be
                     * smaller than its terms */
                    double ulps = folds[k].ulps, scale = folds[k].scale;
                    if (t == KL_C64 && folds[k].fn == kl_logsumexp_axes) ulps = 4096;
                    if (folds[k].fn == kl_prod_axes)
                        ulps = wide ? 4 + (double)(shapes[s].rows * shapes[s].cols) / 2 : 0;
                    same(a, b, ulps, scale, folds[k].name);
                    kl_array_release(x);
                }
        }
    /* What is made of them. */
    struct kl_array *x = laid_out(KL_F32, 0, 40, 50), *y = laid_out(KL_F32, 1, 40, 50), *a, *b;
    OK(kl_allclose(&a, x, x, 1e-5, 1e-8, true, cpu_stream, &err));
    OK(kl_allclose(&b, x, x, 1e-5, 1e-8, true, gpu_stream, &err));
    same(a, b, 0, 0, "allclose");
    OK(kl_array_equal(&a, x, y, true, cpu_stream, &err));
    OK(kl_array_equal(&b, x, y, true, gpu_stream, &err));
    same(a, b, 0, 0, "array_equal");
    kl_array_release(x);
    kl_array_release(y);
}

static int log_softmax(struct kl_array **out, struct kl_array *x, int axis, struct kl_stream *s,
                       struct kl_error **e) {
    return kl_op_make(out, KL_OP_LOG_SOFTMAX, KL_PARAMS_OF(axis, axis), &x, 1, s, e);
}

static void softmaxes(void **state) {
    static const enum kl_dtype floats[] = {KL_F16, KL_F32, KL_F64, KL_BF16};
    static const int cols[] = {1, 5, 300, 5000, 40000};
    ulps_per_log = 1;
    for (int f = 0; f < 4; f++)
        for (int c = 0; c < 5; c++)
            for (int axis = 0; axis < 2; axis++) {
                if (axis == 0 && c > 2) continue;
                struct kl_array *x = laid_out(floats[f], c % 4, 6, cols[c]), *a, *b;
                OK(kl_softmax_axis(&a, x, axis, false, cpu_stream, &err));
                OK(kl_softmax_axis(&b, x, axis, false, gpu_stream, &err));
                same(a, b, 16, 0, "softmax");
                OK(log_softmax(&a, x, axis, cpu_stream, &err));
                OK(log_softmax(&b, x, axis, gpu_stream, &err));
                same(a, b, 16, 1, "log_softmax");
                kl_array_release(x);
            }
    ulps_per_log = 0;
}

static void sorts(void **state) {
    static const int cols[] = {1, 2, 33, 1000, 5000};
    for (size_t d = 0; d < 14; d++)
        for (int c = 0; c < 5; c++)
            for (int axis = 0; axis < 2; axis++) {
                if ((axis == 0 && c > 3) || skipped(d, 3)) continue;
                struct kl_array *x = laid_out(all_dtypes[d], (c + axis) % 4, 4, cols[c]), *a, *b;
                struct kl_error *e = NULL;
                if (kl_sort_axis(&a, x, axis, cpu_stream, &e)) {
                    kl_error_release(e);
                    kl_array_release(x);
                    continue;
                }
                OK(kl_sort_axis(&b, x, axis, gpu_stream, &err));
                same(a, b, 0, 0, "sort");
                OK(kl_argsort_axis(&a, x, axis, cpu_stream, &err));
                OK(kl_argsort_axis(&b, x, axis, gpu_stream, &err));
                same(a, b, 0, 0, "argsort");
                int n = axis ? cols[c] : 4, k = n / 3;
                OK(kl_topk_axis(&a, x, k, axis, cpu_stream, &err));
                OK(kl_topk_axis(&b, x, k, axis, gpu_stream, &err));
                same(a, b, 0, 0, "topk");
                OK(kl_sort_axis(&a, x, axis, cpu_stream, &err)); /* a device sorts it all */
                OK(kl_partition_axis(&b, x, k, axis, gpu_stream, &err));
                same(a, b, 0, 0, "partition");
                OK(kl_argsort_axis(&a, x, axis, cpu_stream, &err));
                OK(kl_argpartition_axis(&b, x, k, axis, gpu_stream, &err));
                same(a, b, 0, 0, "argpartition");
                kl_array_release(x);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reductions),
        cmocka_unit_test(more_reductions),
        cmocka_unit_test(softmaxes),
        cmocka_unit_test(sorts),
    };
    choose_tests();
    return with_programs(cmocka_run_group_tests(tests, open_device, NULL));
}
