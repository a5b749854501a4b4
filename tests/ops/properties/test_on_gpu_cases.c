/* test_on_gpu_cases.c - every call of ops/support/cases.h on a real device against the CPU, with
 * each of its dtypes: a row that has a lowering is tested on devices by its case alone. Larger
 * shapes and other layouts are for the tests of families. */
#include "ops/support/against_cpu.h"
#include "ops/support/cases.h"

static const bool has_lowering[KL_N_OPS] = {
#define KL_OP(ID, name, n_in, flags, kernel, lowering, indices, range, vjp, jvp, vmap, build, \
              params)                                                                         \
    [KL_OP_##ID] = sizeof #lowering > sizeof "0",
#include "base/op/op_list.def"
};

/* The largest magnitude of a real float array; the parts of a complex one count for themselves. */
static double largest(struct kl_array *a /* evaluated, contiguous */) {
    void *p;
    double most = 0;
    enum kl_dtype t = a->t.dtype, part = t == KL_C64 ? KL_F32 : t;
    if (!kl_dtype_is_float(part)) return 0;
    OK(kl_array_host(a, &p, &err));
    for (int64_t i = 0; i < a->t.size * (t == KL_C64 ? 2 : 1); i++) {
        double x = fabs(as_double(part, (char *)p + i * (int64_t)kl_dtype_size(part)));
        if (x < INFINITY && x > most) most = x;
    }
    return most;
}

/* The result of a case on a stream, not evaluated. */
static struct kl_array *result_on(struct kl_stream *s, const struct op_case *c,
                                  struct kl_array *const *in) {
    struct kl_array *out = NULL;
    calls_on = s;
    OK(build_case(&out, c, in, &err));
    calls_on = NULL;
    return out;
}

static void one_case(const struct op_case *c, enum kl_dtype dtype, uint32_t seed) {
    enum { ULPS = 64 };
    struct kl_array *in[MOST_INPUTS], *made, *want;
    char what[100];
    for (int i = 0; i < c->n_in; i++) in[i] = make_input(&c->in[i], dtype, -1, &seed);
    snprintf(what, sizeof what, "%s of %s", c->name, kl_dtype_name(dtype));
    made = result_on(cpu_stream, c, in);
    OK(kl_contiguous(&want, made, false, cpu_stream, &err));
    OK(kl_eval(&want, 1, &err));
    kl_array_release(made);
    double scale = largest(want);
    same(want, result_on(gpu_stream, c, in), ULPS, scale, what);
    for (int i = 0; i < c->n_in; i++) kl_array_release(in[i]);
}

/* In any order, but for one element. test_on_gpu_axes.c has them too. */
static bool order_is_open(enum kl_op_id op) {
    return op == KL_OP_PARTITION || op == KL_OP_ARGPARTITION;
}

/* One call of each row always runs, of float32 where there is one; the others where the sample
 * takes them. Rows of element-wise kind, which test_on_gpu_elementwise.c has, are left out. */
static void cases(void **state) {
    bool done[KL_N_OPS] = {false};
    int n = 0;
    for (int k = 0; k < N_OP_CASES; k++) {
        const struct op_case c = case_number(k);
        if (!has_lowering[c.op] || order_is_open(c.op)) continue;
        for (int d = 0; d < KL_N_DTYPES; d++) {
            if (!(c.dtypes & BIT(d))) continue;
            bool must = !done[c.op] && (d == KL_F32 || !(c.dtypes & BIT(KL_F32)));
            if (!must && !kl_test_takes("kernels", 5)) continue;
            done[c.op] |= must;
            one_case(&c, (enum kl_dtype)d, (uint32_t)(k * 131 + d));
            n++;
        }
    }
    print_message("%d calls\n", n);
    assert_true(n >= 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cases)};
    /* Of several numbers for one place the last one stays, as on the CPU. */
    setenv("KEEL_DETERMINISTIC", "1", 1);
    choose_tests();
    return with_programs(cmocka_run_group_tests(tests, open_device, NULL));
}
