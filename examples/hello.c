#include <mlx/c/mlx.h>
#include <stdio.h>

int main(void) {
    mlx_stream cpu = mlx_default_cpu_stream_new();
    mlx_array a = mlx_array_new_data((float[]){1, 2, 3, 4}, (int[]){2, 2}, 2, MLX_FLOAT32);
    mlx_array b = mlx_array_new_float(10);
    mlx_array sum = mlx_array_new();
    mlx_string text = mlx_string_new();

    mlx_add(&sum, a, b, cpu);       /* lazy: nothing is computed yet */
    mlx_array_tostring(&text, sum); /* evaluates sum */
    printf("%s\n", mlx_string_data(text));

    mlx_string_free(text);
    mlx_array_free(sum);
    mlx_array_free(b);
    mlx_array_free(a);
    return mlx_stream_free(cpu);
}
