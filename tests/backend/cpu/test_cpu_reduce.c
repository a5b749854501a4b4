/* Reductions: the same bits for any order of chunks; long ones are shared by segments; no memory is
 * an error. */
#include "kernel_support.h"

static struct { int n_axes, axes[2]; } last = {1, {1}}, first = {1, {0}};

static void fill(float *v, int n) {
    uint32_t seed = 7;
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525 + 1013904223;
        v[i] = (float)(int32_t)seed * 0x1p-20f;
    }
}

static void shared_segments(void **state) {
    enum { N = (1 << 18) + 12345 };
    float *v = malloc(2 * N * sizeof *v), serial[2], shared[2], columns[2];
    fill(v, 2 * N);
    struct operand x, y, z;
    dense(&x, v, KL_F32, DIMS(2, N));
    RUN(KL_OP_SUM, &last, dense(&z, serial, KL_F32, DIMS(2, 1)), IN(&x), false);
    n_shared = 0;
    RUN(KL_OP_SUM, &last, dense(&z, shared, KL_F32, DIMS(2, 1)), IN(&x), true);
    assert_true(n_shared > 4);
    assert_memory_equal(serial, shared, sizeof serial);
    /* The same numbers side by side. */
    float *t = malloc(2 * N * sizeof *t);
    for (int i = 0; i < N; i++) {
        t[2 * i] = v[i];
        t[2 * i + 1] = v[N + i];
    }
    dense(&y, t, KL_F32, DIMS(N, 2));
    RUN(KL_OP_SUM, &first, dense(&z, columns, KL_F32, DIMS(1, 2)), IN(&y), true);
    assert_memory_equal(serial, columns, sizeof serial);
    /* Elements that lie two apart. */
    strided_operand(&y, t, KL_F32, DIMS(2, N), STRIDES(1, 2));
    RUN(KL_OP_SUM, &last, dense(&z, columns, KL_F32, DIMS(2, 1)), IN(&y), true);
    assert_memory_equal(serial, columns, sizeof serial);
    for (int op = 0; op < 2; op++) {
        float want = v[0];
        for (int i = 1; i < N; i++) want = op ? fminf(want, v[i]) : fmaxf(want, v[i]);
        RUN(op ? KL_OP_MIN : KL_OP_MAX, &last, dense(&z, columns, KL_F32, DIMS(2, 1)), IN(&x),
            true);
        assert_true(columns[0] == want);
    }
    free(v);
    free(t);
}

static void wider_output(void **state) {
    uint16_t *h = malloc(70000 * sizeof *h);
    float out[1];
    struct operand x, z;
    for (int i = 0; i < 70000; i++) h[i] = 0x3c00; /* 1 in float16 */
    RUN(KL_OP_SUM, &last, dense(&z, out, KL_F32, DIMS(1, 1)),
        IN(dense(&x, h, KL_F16, DIMS(1, 70000))), false);
    assert_true(out[0] == 70000);
    free(h);
}

static void broadcast_input(void **state) {
    float one = 1, out[3];
    struct operand x, z;
    strided_operand(&x, &one, KL_F32, DIMS(3, 1000), STRIDES(0, 0));
    RUN(KL_OP_SUM, &last, dense(&z, out, KL_F32, DIMS(3, 1)), IN(&x), false);
    assert_true(out[0] == 1000 && out[2] == 1000);
}

static void no_memory(void **state) {
    enum { N = 1 << 17 };
    float *v = calloc(N, sizeof *v), out;
    struct operand x, z;
    struct kl_error *err = NULL;
    dense(&x, v, KL_F32, DIMS(1, N));
    dense(&z, &out, KL_F32, DIMS(1, 1));
    struct kl_launch l = {.op = KL_OP_SUM,
                          .params = &last,
                          .n_in = 1,
                          .n_out = 1,
                          .in = &x.arg,
                          .out = &z.arg,
                          .err = &err};
    kl_test_fail_alloc_at(0);
    assert_int_equal(kl_cpu_reduce(&l), KL_ENOMEM);
    kl_test_fail_alloc_at(-1);
    kl_error_release(err);
    err = NULL;
    struct kl_axis_params axis = {1};
    int32_t order[4];
    dense(&x, v, KL_F32, DIMS(1, 4));
    dense(&z, order, KL_U32, DIMS(1, 4));
    l.op = KL_OP_ARGSORT;
    l.params = &axis;
    kl_test_fail_alloc_at(0);
    assert_int_equal(kl_cpu_sort(&l), KL_ENOMEM);
    kl_test_fail_alloc_at(-1);
    kl_error_release(err);
    free(v);
}

/* The extreme is found at every place of rows of every length around the sets of lanes; NaN wins at every place; of zeros the sign counts. */
static void extremes(void **state) {
    enum { MOST = 300 };
    struct {
        int n_axes, axes[1];
    } p = {1, {0}};
    static const int lengths[] = {1,  7,  8,   9,   15,  16,  17,  63,
                                  64, 65, 127, 129, 255, 256, 257, MOST};
    struct operand x, z;
    float f[MOST], most_f;
    double d[MOST], most_d;
    int8_t b[MOST], most_b;
    for (int v = 0; v < kl_cpu_n_variants(); v++) {
        kl_cpu_use_variant(v);
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
            for (int at = 0, n = lengths[l]; at < n; at++)
                for (int sign = -1; sign <= 1; sign += 2) {
                    enum kl_op_id op = sign > 0 ? KL_OP_MAX : KL_OP_MIN;
                    for (int i = 0; i < n; i++) {
                        f[i] = (float)(-sign * (i == at ? 1 : 2 + i % 50));
                        d[i] = (double)f[i];
                        b[i] = (int8_t)f[i];
                    }
                    RUN(op, &p, dense(&z, &most_f, KL_F32, 0, NULL),
                        IN(dense(&x, f, KL_F32, DIMS(n))), false);
                    RUN(op, &p, dense(&z, &most_d, KL_F64, 0, NULL),
                        IN(dense(&x, d, KL_F64, DIMS(n))), false);
                    RUN(op, &p, dense(&z, &most_b, KL_I8, 0, NULL),
                        IN(dense(&x, b, KL_I8, DIMS(n))), false);
                    assert_true(most_f == -sign && most_d == -sign && most_b == -sign);
                    f[at] = NAN;
                    RUN(op, &p, dense(&z, &most_f, KL_F32, 0, NULL),
                        IN(dense(&x, f, KL_F32, DIMS(n))), false);
                    assert_true(isnan(most_f));
                    for (int i = 0; i < n; i++) f[i] = i == at ? sign * 0.0f : -sign * 0.0f;
                    RUN(op, &p, dense(&z, &most_f, KL_F32, 0, NULL),
                        IN(dense(&x, f, KL_F32, DIMS(n))), false);
                    assert_true(most_f == 0 && !signbit(most_f) == (sign > 0));
                }
    }
    kl_cpu_use_variant(kl_cpu_n_variants() - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(extremes), cmocka_unit_test(shared_segments),
        cmocka_unit_test(wider_output), cmocka_unit_test(broadcast_input),
        cmocka_unit_test(no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
