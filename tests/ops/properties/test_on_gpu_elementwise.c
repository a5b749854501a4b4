/* test_on_gpu_elementwise.c - element-wise operations and conversions on a real device against the
 * CPU (ops/support/against_cpu.h), alone and as chains that become one kernel. */
#include "ops/support/against_cpu.h"

typedef int unary_fn(struct kl_array **, struct kl_array *, struct kl_stream *, struct kl_error **);
typedef int binary_fn(struct kl_array **, struct kl_array *, struct kl_array *, struct kl_stream *,
                      struct kl_error **);

static int round_whole(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                       struct kl_error **err) {
    return kl_round(out, a, 0, s, err);
}
static int round_to_2(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                      struct kl_error **err) {
    return kl_round(out, a, 2, s, err);
}
static int round_to_tens(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                         struct kl_error **err) {
    return kl_round(out, a, -1, s, err);
}
static int from_fp8(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                    struct kl_error **err) {
    return kl_from_fp8(out, a, KL_BF16, s, err);
}
static int nan_to_num(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                      struct kl_error **err) {
    return kl_nan_to_num(out, a, 1, NULL, NULL, s, err);
}
static int close_to(struct kl_array **out, struct kl_array *a, struct kl_array *b,
                    struct kl_stream *s, struct kl_error **err) {
    return kl_isclose(out, a, b, 0.5, 1, true, s, err);
}

static const struct {
    const char *name;
    unary_fn *fn;
    double ulps;
} unaries[] = {{"negative", kl_negative, 0},
               {"abs", kl_abs, 0},
               {"square", kl_square, 0},
               {"sqrt", kl_sqrt, 0},
               {"exp", kl_exp, 4},
               {"log", kl_log, 4},
               {"logical_not", kl_logical_not, 0}};
/* Every element-wise function: the rows of op_list.def with their errors on devices, and the
 * composed functions. ulps holds for float32; the error of complex64 is set below. */
static const struct {
    const char *name;
    unary_fn *fn;
    double ulps;
} functions[] = {
#define KL_OP(...)
#define KL_BINARY(...)
#define KL_UNARY(ID, name, builder, function, takes, computes, gives, ulp, device, ...) \
    {#name, builder, device},
#include "base/op/op_list.def"
    {"reciprocal", kl_reciprocal, 1}, {"degrees", kl_degrees, 0},   {"radians", kl_radians, 0},
    {"round", round_whole, 0},        {"round 2", round_to_2, 0},   {"round -1", round_to_tens, 0},
    {"from_fp8", from_fp8, 0},        {"isnan", kl_isnan, 0},       {"isinf", kl_isinf, 0},
    {"isfinite", kl_isfinite, 0},     {"isposinf", kl_isposinf, 0}, {"isneginf", kl_isneginf, 0},
    {"nan_to_num", nan_to_num, 0}};
static const struct {
    const char *name;
    binary_fn *fn;
    double ulps;
} functions_of_two[] = {
#define KL_OP(...)
#define KL_UNARY(...)
#define KL_BINARY(ID, name, builder, function, takes, computes, gives, ulp, device, ...) \
    {#name, builder, device},
#include "base/op/op_list.def"
    {"silu_mul", kl_silu_mul, 8}, {"isclose", close_to, 0}};
/* Functions that are exact for real numbers but round more than once for complex64. */
static bool rounds_complex(const char *name) {
    static const char *const names[] = {"abs", "square", "sqrt", "divide"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}
static const struct {
    const char *name;
    binary_fn *fn;
    double ulps;
} binaries[] = {{"add", kl_add, 0},
                {"subtract", kl_subtract, 0},
                {"multiply", kl_multiply, 0},
                {"divide", kl_divide, 0},
                {"maximum", kl_maximum, 0},
                {"minimum", kl_minimum, 0},
                {"equal", kl_equal, 0},
                {"not_equal", kl_not_equal, 0},
                {"less", kl_less, 0},
                {"less_equal", kl_less_equal, 0},
                {"greater", kl_greater, 0},
                {"greater_equal", kl_greater_equal, 0},
                {"logical_and", kl_logical_and, 0},
                {"logical_or", kl_logical_or, 0}};
enum { N_UNARY = sizeof unaries / sizeof *unaries, N_BINARY = sizeof binaries / sizeof *binaries };

static void unary_operations(void **state) {
    for (size_t d = 0; d < 14; d++)
        for (int layout = 0; layout < 4; layout++) {
            if (skipped(d + (size_t)layout, 4)) continue;
            struct kl_array *x = laid_out(all_dtypes[d], layout, 7, 37), *a, *b;
            for (int k = 0; k < N_UNARY; k++) {
                struct kl_error *e = NULL;
                /* The function does not take this dtype. */
                if (unaries[k].fn(&a, x, cpu_stream, &e)) {
                    kl_error_release(e);
                    continue;
                }
                OK(unaries[k].fn(&b, x, gpu_stream, &err));
                double ulps = unaries[k].ulps;
                if (all_dtypes[d] == KL_C64 && ulps == 0 && (k == 1 || k == 3)) ulps = 4;
                if (all_dtypes[d] == KL_C64 && k == 2) ulps = 2;
                compare(a, b, ulps, all_dtypes[d] == KL_C64 ? 1 : 0, unaries[k].name);
            }
            compare_now();
            kl_array_release(x);
        }
}

/* Whether a case runs. The simulated Metal runs fewer, of the same lowering: clang is started for
 * each of their programs. */
static bool takes_program(void) {
    const char *device = getenv("KEEL_TEST_GPU");
    return kl_test_takes("kernels", device && strcmp(device, "metal") == 0 ? 9 : 3);
}

static void binary_operations(void **state) {
    for (size_t d = 0; d < 14; d++) {
        int l0 = (int)(d % 4), l1 = (int)(d / 2 % 4);
        struct kl_array *x = laid_out(all_dtypes[d], l0, 9, 29),
                        *y = laid_out(all_dtypes[d], l1, 9, 29), *a, *b;
        for (int k = 0; k < N_BINARY; k++) {
            if (!takes_program()) continue;
            struct kl_error *e = NULL;
            if (binaries[k].fn(&a, x, y, cpu_stream, &e)) {
                kl_error_release(e);
                continue;
            }
            OK(binaries[k].fn(&b, x, y, gpu_stream, &err));
            compare(a, b, all_dtypes[d] == KL_C64 && k == 3 ? 2 : 0, 0, binaries[k].name);
        }
        compare_now();
        kl_array_release(x);
        kl_array_release(y);
    }
}

/* Complex numbers of moderate size. At infinities the CPU's functions follow C, while a device's
 * follow the formulas. */
static struct kl_array *moderate(struct kl_array *x) {
    struct kl_array *zero, *finite, *y;
    OK(kl_array_new_scalar(&zero, 0.5, KL_C64, &err));
    OK(kl_isfinite(&finite, x, cpu_stream, &err));
    OK(kl_where(&y, finite, x, zero, cpu_stream, &err));
    OK(kl_eval(&y, 1, &err));
    kl_array_release(zero);
    kl_array_release(finite);
    kl_array_release(x);
    return y;
}

static void more_functions(void **state) {
    enum {
        N_ONE = sizeof functions / sizeof *functions,
        N_TWO = sizeof functions_of_two / sizeof *functions_of_two
    };
    for (size_t d = 0; d < 14; d++) {
        enum kl_dtype t = all_dtypes[d];
        bool sample = t == KL_U8 || t == KL_I32 || t == KL_F16 || t == KL_F32 || t == KL_C64;
        if (!sample && skipped(1, 2)) continue;
        struct kl_array *x = laid_out(t, (int)(d % 4), 7, 37),
                        *y = laid_out(t, (int)(d / 2 % 4), 7, 37), *a, *b;
        if (t == KL_C64) {
            x = moderate(x);
            y = moderate(y);
        }
        for (int k = 0; k < N_ONE + N_TWO; k++) {
            if (!takes_program()) continue;
            bool one = k < N_ONE;
            struct kl_error *e = NULL;
            const char *name = one ? functions[k].name : functions_of_two[k - N_ONE].name;
            double ulps = one ? functions[k].ulps : functions_of_two[k - N_ONE].ulps;
            if (one ? functions[k].fn(&a, x, cpu_stream, &e)
                    : functions_of_two[k - N_ONE].fn(&a, x, y, cpu_stream, &e)) {
                kl_error_release(e);
                continue;
            }
            if (one)
                OK(functions[k].fn(&b, x, gpu_stream, &err));
            else
                OK(functions_of_two[k - N_ONE].fn(&b, x, y, gpu_stream, &err));
            if (t == KL_C64 && rounds_complex(name)) ulps = 4;
            if (t == KL_C64 && a->t.dtype == KL_C64 && ulps > 0) ulps = 16;
            if (kl_dtype_is_int(a->t.dtype)) ulps = 0;
            /* The result of logaddexp near 0 is a small difference of its operands, so its error is
             * that of the operands. */
            bool small = strcmp(name, "logaddexp") == 0 || a->t.dtype == KL_C64;
            compare(a, b, ulps, small ? 1 : 0, name);
        }
        compare_now();
        kl_array_release(x);
        kl_array_release(y);
    }
}

static void choices(void **state) {
    for (size_t d = 0; d < 14; d++) {
        if (skipped(d, 2)) continue;
        struct kl_array *c = laid_out(KL_BOOL, (int)(d % 4), 5, 33),
                        *x = laid_out(all_dtypes[d], (int)((d + 1) % 4), 5, 33),
                        *y = laid_out(all_dtypes[d], (int)((d + 2) % 4), 5, 33), *a, *b;
        OK(kl_where(&a, c, x, y, cpu_stream, &err));
        OK(kl_where(&b, c, x, y, gpu_stream, &err));
        same(a, b, 0, 0, "where");
        kl_array_release(c);
        kl_array_release(x);
        kl_array_release(y);
    }
}

static void casts(void **state) {
    for (size_t from = 0; from < 14; from++) {
        struct kl_array *x = laid_out(all_dtypes[from], 0, 8, 64);
        for (size_t to = 0; to < 14; to++) {
            /* Any sample converts from each dtype, and to each. */
            if (to != (from + 3) % 14 && !takes_program()) continue;
            struct kl_array *a, *b;
            OK(kl_astype(&a, x, all_dtypes[to], cpu_stream, &err));
            OK(kl_astype(&b, x, all_dtypes[to], gpu_stream, &err));
            compare(a, b, 0, 0, kl_dtype_name(all_dtypes[from]));
        }
        compare_now();
        kl_array_release(x);
    }
}

/* A chain becomes one kernel. Its values must equal those of the steps run one by one. */
static void fused_chains(void **state) {
    for (int round = 0; round < (skipped(1, 2) ? 9 : 60); round++) {
        enum kl_dtype t = round % 3 == 0 ? KL_F16 : round % 3 == 1 ? KL_F32 : KL_I32;
        struct kl_array *x[2][6];
        for (int k = 0; k < 3; k++) {
            x[0][k] = laid_out(t, (round + k) % 4, 11, 24);
            x[1][k] = kl_array_retain(x[0][k]);
        }
        struct kl_array *out[2];
        uint64_t start = rng;
        for (int dev = 0; dev < 2; dev++) {
            struct kl_stream *s = dev ? gpu_stream : cpu_stream;
            rng = start;
            struct kl_array *v = kl_array_retain(x[dev][0]), *kept = NULL;
            for (int step = 0; step < 8; step++) {
                struct kl_array *next;
                struct kl_array *other = draw() % 3 == 0 && kept ? kept : x[dev][draw() % 3];
                switch (draw() % 8) {
                case 6: OK(kl_remainder(&next, v, other, s, &err)); break;
                case 7: OK(kl_floor_divide(&next, other, v, s, &err)); break;
                case 0: OK(kl_add(&next, v, other, s, &err)); break;
                case 1: OK(kl_subtract(&next, other, v, s, &err)); break;
                case 2: OK(kl_multiply(&next, v, other, s, &err)); break;
                case 3: OK(kl_maximum(&next, v, other, s, &err)); break;
                case 4: OK(kl_negative(&next, v, s, &err)); break;
                default: {
                    struct kl_array *c;
                    OK(kl_less(&c, v, other, s, &err));
                    OK(kl_where(&next, c, v, other, s, &err));
                    kl_array_release(c);
                }
                }
                if (draw() % 4 == 0) { /* has another owner, so it must be stored */
                    kl_array_release(kept);
                    kept = kl_array_retain(next);
                }
                kl_array_release(v);
                v = next;
            }
            if (kept) {
                OK(kl_add(&out[dev], v, kept, s, &err));
                kl_array_release(kept);
                kl_array_release(v);
            } else {
                out[dev] = v;
            }
        }
        same(out[0], out[1], 0, 0, "chain");
        for (int k = 0; k < 3; k++) {
            kl_array_release(x[0][k]);
            kl_array_release(x[1][k]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unary_operations),
        cmocka_unit_test(binary_operations),
        cmocka_unit_test(more_functions),
        cmocka_unit_test(choices),
        cmocka_unit_test(casts),
        cmocka_unit_test(fused_chains),
    };
    choose_tests();
    return with_programs(cmocka_run_group_tests(tests, open_device, NULL));
}
