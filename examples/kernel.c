/* kernel.c - a kernel of your own, on any GPU that is there. It computes square roots, times two,
 * and raises an error for the first negative number.
 *     KEEL_GPU=opencl build/release/examples/kernel */
#include <keel/error.h>
#include <keel/kernel.h>
#include <mlx/c/mlx.h>
#include <stdio.h>

static const char source[] = "i64 i = gid();\n"
                             "if (i >= y_size) return;\n"
                             "COMPUTE(T) v = LOAD(T, x, i);\n"
                             "if (v < 0) RAISE(NEGATIVE, i);\n"
                             "STORE(T, y, i, fn_sqrt(v) * SCALE);\n";

static int run(keel_kernel k, const float *values, mlx_stream s) {
    int shape[] = {5};
    mlx_array x = mlx_array_new_data(values, shape, 1, MLX_FLOAT32), y = mlx_array_new();
    mlx_vector_array in = mlx_vector_array_new_value(x), out = mlx_vector_array_new();
    keel_kernel_output output = {shape, 1, MLX_FLOAT32};
    keel_kernel_template arguments[] = {keel_kernel_dtype("T", MLX_FLOAT32),
                                        keel_kernel_int("SCALE", 2),
                                        keel_kernel_int("NEGATIVE", 7)};
    keel_kernel_config c = {.outputs = &output,
                            .n_outputs = 1,
                            .templates = arguments,
                            .n_templates = 3,
                            .grid = {5, 1, 1},
                            .group = {64, 1, 1}};
    int rc = keel_kernel_apply(&out, k, in, &c, s) || mlx_vector_array_get(&y, out, 0) ||
             mlx_array_eval(y);
    const float *v = rc ? NULL : mlx_array_data_float32(y);
    keel_error_info e = {.size = sizeof e};
    if (v)
        printf("%g %g %g %g %g\n", v[0], v[1], v[2], v[3], v[4]);
    else if (keel_last_error(&e) == 0)
        printf("%s\n", e.message);
    mlx_vector_array_free(in);
    mlx_vector_array_free(out);
    mlx_array_free(x);
    mlx_array_free(y);
    return rc;
}

int main(void) {
    const float good[] = {0, 1, 4, 9, 16}, bad[] = {0, 1, 4, -9, -16};
    const char *in_names[] = {"x"}, *out_names[] = {"y"};
    keel_errors_return();
    mlx_stream s = mlx_default_gpu_stream_new();
    keel_error_info e = {.size = sizeof e};
    if (!s.ctx) {
        keel_last_error(&e);
        printf("no GPU: %s\n", e.message);
        return 0;
    }
    keel_kernel k = keel_kernel_new("scaled_sqrt", in_names, 1, out_names, 1, source, NULL, 0);
    int rc = run(k, good, s); /* 0 2 4 6 8 */
    rc |= !run(k, bad, s);    /* kernel 'scaled_sqrt' raised 7 at position 3 */
    keel_kernel_free(k);
    mlx_stream_free(s);
    return rc;
}
