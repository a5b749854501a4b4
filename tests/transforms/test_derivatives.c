/* test_derivatives.c - every operation with a gradient, as a function of its float64, float32 or
 * complex operands: vjp against jvp, the derivative of the gradient against differences of the
 * gradient, and vmap of the gradient against a loop. */
#include "transforms/subject.h"

/* That of the narrower dtype. */
static double tolerance(enum kl_dtype a, const struct kl_array *out) {
    double of_a = tolerance_of(a), of_out = tolerance_of((enum kl_dtype)out->t.dtype);
    return of_a > of_out ? of_a : of_out;
}

/* ---- the checks ---- */

/* For every cotangent c and tangent v: <c, J v> = <J' c, v>. */
static int check_products(struct subject *f, enum kl_dtype dtype) {
    struct kl_function fn = {.call = call_case, .ctx = f};
    struct kl_array *args[MOST_INPUTS], *v[MOST_INPUTS];
    struct kl_arrays outs = {0}, tangents = {0}, again = {0}, grads = {0};
    arguments_of(f, args);
    for (int k = 0; k < f->n; k++) v[k] = numbers_like(args[k], -1, 1);
    struct kl_error *refused = NULL;
    int done = 0, rc = kl_jvp(&fn, args, (size_t)f->n, v, (size_t)f->n, &outs, &tangents, &refused);
    if (rc && !(rc == KL_EUNSUPPORTED && dtype == KL_C64)) /* docs/coverage.md has these */
        fail_msg("%s, %s: jvp: %s", f->c.name, kl_dtype_name(dtype), refused->message);
    kl_error_release(refused);
    if (!rc && kl_has_gradient(outs.v[0])) {
        struct kl_array *c = numbers_like(outs.v[0], -1, 1);
        double most = 1e-6, left, right = 0;
        struct kl_error *why = NULL;
        if (kl_vjp(&fn, args, (size_t)f->n, &c, 1, &again, &grads, &why))
            fail_msg("%s, %s: vjp: %s", f->c.name, kl_dtype_name(dtype), why->message);
        assert_int_equal(tangents.v[0]->t.dtype, outs.v[0]->t.dtype);
        expect_shape(tangents.v[0], outs.v[0]->t.ndim, outs.v[0]->t.dims);
        left = dot(c, tangents.v[0], &most);
        for (int k = 0; k < f->n; k++) {
            assert_int_equal(grads.v[k]->t.dtype, args[k]->t.dtype);
            expect_shape(grads.v[k], args[k]->t.ndim, args[k]->t.dims);
            right += dot(grads.v[k], v[k], &most);
        }
        if (!(fabs(left - right) <= tolerance(dtype, outs.v[0]) * most) &&
            !(isnan(left) && isnan(right)))
            fail_msg("%s, %s: jvp gives %.12g, vjp %.12g", f->c.name, kl_dtype_name(dtype), left,
                     right);
        done = !isnan(left);
        kl_array_release(c);
    }
    release_each(v, f->n);
    kl_arrays_free(&grads);
    kl_arrays_free(&again);
    kl_arrays_free(&tangents);
    kl_arrays_free(&outs);
    return done;
}

static void vjp_against_jvp(void **state) {
    static const enum kl_dtype dtypes[] = {KL_F64, KL_F32, KL_C64, KL_F16, KL_BF16};
    int n = 0;
    for (int i = 0; i < N_CASES; i++) {
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
            struct subject f;
            if (subject_of(&f, i, dtypes[d])) n += check_products(&f, dtypes[d]);
            subject_free(&f);
        }
    }
    assert_in_range(n, 300, 100000); /* nearly all of them gave numbers */
}

/* sum(weights * f(x + h v)) - the same of x - h v, over 2h. */
static double difference_of_sums(struct subject *f, struct kl_array *const *args,
                                 struct kl_array *const *v, double h) {
    double side[2];
    for (int k = 0; k < 2; k++) {
        struct kl_array *moved[MOST_INPUTS], *step, *by;
        struct kl_arrays made = {0};
        for (int i = 0; i < f->n; i++) {
            by = scalar_of(args[i]->t.dtype == KL_F64 ? KL_F64 : KL_F32, k ? h : -h);
            EXPECT_OK(kl_multiply(&step, v[i], by, cpu(), &err));
            EXPECT_OK(kl_add(&moved[i], args[i], step, cpu(), &err));
            kl_array_release(step);
            kl_array_release(by);
        }
        EXPECT_OK(call_sum(f, moved, (size_t)f->n, &made, &err));
        double *x = doubles_of(made.v[0]);
        side[k] = x[0];
        free(x);
        kl_arrays_free(&made);
        release_each(moved, f->n);
    }
    return (side[1] - side[0]) / (2 * h);
}

/* The gradient along a random direction against central differences with two steps; where these
 * differ, the function is not smooth there. */
static int check_first(struct subject *f, enum kl_dtype dtype) {
    struct kl_array *args[MOST_INPUTS], *v[MOST_INPUTS];
    struct kl_arrays g = {0};
    const double h = dtype == KL_F64 ? 1e-5 : 1e-2, allowed = dtype == KL_F64 ? 1e-6 : 2e-2;
    double most = 1e-3, along = 0;
    int done = 0;
    if (!give_weights(f)) return 0;
    /* Steps so small vanish when the result is rounded to fewer bits. */
    if (dtype == KL_F64 && f->weights->t.dtype != KL_F64) return 0;
    arguments_of(f, args);
    struct kl_error *why = NULL;
    int rc = call_gradient(f, args, (size_t)f->n, &g, &why);
    if (rc && !(rc == KL_EUNSUPPORTED && dtype == KL_C64))
        fail_msg("%s: %s", f->c.name, why->message);
    kl_error_release(why);
    if (rc) return 0;
    for (int k = 0; k < f->n; k++) v[k] = numbers_like(args[k], -1, 1);
    for (int k = 0; k < f->n; k++) along += dot(g.v[k], v[k], &most);
    double fine = difference_of_sums(f, args, v, h), coarse = difference_of_sums(f, args, v, 2 * h);
    if (isfinite(fine) && fabs(fine - coarse) <= allowed * most) {
        done = 1;
        if (!(fabs(along - fine) <= 2 * allowed * most))
            fail_msg("%s, %s: gradient %.9g, differences %.9g", f->c.name, kl_dtype_name(dtype),
                     along, fine);
    }
    release_each(v, f->n);
    kl_arrays_free(&g);
    return done;
}

/* Where several values are assigned to one place each of them gets the gradient of the place
 * (ops/index_scatter.c), although only the last one counts: not what differences say. */
static bool assigns_twice(const struct subject *f) {
    return strcmp(f->c.name, "do_scatter") == 0 || strcmp(f->c.name, "do_scatter_two") == 0 ||
           strcmp(f->c.name, "do_put_along_axis") == 0;
}

/* Rounding to 16 bits makes steps, between which differences are 0. */
static bool makes_steps(const struct subject *f) {
    return strcmp(f->c.name, "do_cast_f16") == 0;
}

static void gradients_against_differences(void **state) {
    static const enum kl_dtype dtypes[] = {KL_F64, KL_C64};
    for (int d = 0; d < 2; d++) {
        int n = 0;
        for (int i = 0; i < N_CASES; i++) {
            struct subject f;
            if (subject_of(&f, i, dtypes[d]) && !assigns_twice(&f) && !makes_steps(&f))
                n += check_first(&f, dtypes[d]);
            subject_free(&f);
        }
        assert_in_range(n, d ? 40 : 90, 100000);
    }
}

/* <g(x + h v) - g(x - h v), u> / 2h, for the gradient g; false where it is not a number. */
static bool difference(struct subject *f, struct kl_array *const *args, struct kl_array *const *v,
                       struct kl_array *const *u, double h, double *out) {
    double side[2] = {0, 0}, most;
    for (int k = 0; k < 2; k++) {
        struct kl_array *moved[MOST_INPUTS], *step, *by = scalar_of(KL_F64, k ? h : -h);
        struct kl_arrays g = {0};
        for (int i = 0; i < f->n; i++) {
            EXPECT_OK(kl_multiply(&step, v[i], by, cpu(), &err));
            EXPECT_OK(kl_add(&moved[i], args[i], step, cpu(), &err));
            kl_array_release(step);
        }
        EXPECT_OK(call_gradient(f, moved, (size_t)f->n, &g, &err));
        for (int i = 0; i < f->n; i++) side[k] += dot(g.v[i], u[i], &most);
        release_each(moved, f->n);
        kl_array_release(by);
        kl_arrays_free(&g);
    }
    *out = (side[1] - side[0]) / (2 * h);
    return isfinite(*out);
}

/* Where the arguments are special: rules treat equal operands and zeros apart. */
enum point { ANYWHERE, ALL_EQUAL, FIRST_ZERO, SECOND_ZERO, N_POINTS };

static bool alike(const struct kl_array *a, const struct kl_array *b) {
    return a->t.dtype == b->t.dtype && a->t.ndim == b->t.ndim &&
           memcmp(a->t.dims, b->t.dims, (size_t)a->t.ndim * sizeof *a->t.dims) == 0;
}

static void move_to(struct subject *f, enum point point) {
    for (int k = 0; k < f->n; k++) {
        struct kl_array **x = &f->in[f->which[k]], *first = f->in[f->which[0]], *moved;
        /* Zeros have no inverse, and their factors no gradient. */
        if (kl_op_flags(f->c.op) & KL_OPF_OF_MATRICES || f->c.op == KL_OP_LU || f->c.op == KL_OP_QR)
            continue;
        if (point == ALL_EQUAL && k > 0 && alike(*x, first))
            moved = kl_array_retain(first);
        else if (k == (point == SECOND_ZERO) && point >= FIRST_ZERO)
            EXPECT_OK(kl_zeros_like(&moved, *x, cpu(), &err));
        else
            continue;
        kl_array_release(*x);
        *x = moved;
    }
}

/* Forward over reverse and reverse over reverse against central differences of the gradient. Where
 * two steps give different differences the function is not smooth there. */
static int check_second(struct subject *f) {
    struct kl_function g = {.call = call_gradient, .ctx = f};
    struct kl_array *args[MOST_INPUTS], *v[MOST_INPUTS], *u[MOST_INPUTS];
    struct kl_arrays outs = {0}, forward = {0}, again = {0}, reverse = {0};
    double fine, coarse, a = 0, b = 0, most = 1e-3;
    int done = 0;
    if (!give_weights(f)) return 0;
    arguments_of(f, args);
    for (int k = 0; k < f->n; k++) v[k] = numbers_like(args[k], -1, 1);
    for (int k = 0; k < f->n; k++) u[k] = numbers_like(args[k], -1, 1);
    struct kl_error *why = NULL;
    if (kl_jvp(&g, args, (size_t)f->n, v, (size_t)f->n, &outs, &forward, &why) ||
        kl_vjp(&g, args, (size_t)f->n, u, (size_t)f->n, &again, &reverse, &why))
        fail_msg("%s: %s", f->c.name, why->message);
    for (int k = 0; k < f->n; k++) a += dot(forward.v[k], u[k], &most);
    for (int k = 0; k < f->n; k++) b += dot(reverse.v[k], v[k], &most);
    double of_gradient = 0;
    for (int k = 0; k < f->n; k++) dot(outs.v[k], outs.v[k], &of_gradient);
    if (isfinite(of_gradient) && difference(f, args, v, u, 1e-4, &fine) &&
        difference(f, args, v, u, 3e-4, &coarse) && fabs(fine - coarse) <= 1e-5 * most) {
        if (!(fabs(a - fine) <= 1e-4 * most) || !(fabs(b - fine) <= 1e-4 * most))
            print_message(
                "FAIL %s: forward over reverse %.9g, reverse over reverse %.9g, differences %.9g",
                f->c.name, a, b, fine);
        done = 1;
    }
    release_each(u, f->n);
    release_each(v, f->n);
    kl_arrays_free(&reverse);
    kl_arrays_free(&again);
    kl_arrays_free(&forward);
    kl_arrays_free(&outs);
    return done;
}

static void derivatives_of_gradients(void **state) {
    for (enum point point = 0; point < N_POINTS; point++) {
        int n = 0;
        for (int i = 0; i < N_CASES; i++) {
            struct subject f;
            if (subject_of(&f, i, KL_F64)) {
                move_to(&f, point);
                n += check_second(&f);
            }
            subject_free(&f);
        }
        print_message("%d second derivatives\n", n);
        assert_in_range(n, 30, 100000);
    }
}

/* vmap of the gradient over three lanes of every argument against a loop. */
static int check_lanes(struct subject *f) {
    enum { LANES = 3 };
    struct kl_function g = {.call = call_gradient, .ctx = f};
    struct kl_array *args[MOST_INPUTS], *lanes[MOST_INPUTS];
    struct kl_arrays in = {0}, out = {0}, all = {0};
    const int axes[MOST_INPUTS] = {0};
    if (!give_weights(f)) return 0;
    arguments_of(f, args);
    double from = -3, to = 3;
    row_interval(f->c.op, &from, &to);
    for (int k = 0; k < f->n; k++) {
        struct kl_array *one[LANES];
        for (int l = 0; l < LANES; l++) one[l] = numbers_like(args[k], from, to);
        EXPECT_OK(kl_stack_axis(&lanes[k], one, LANES, 0, cpu(), &err));
        release_each(one, LANES);
    }
    struct kl_error *why = NULL;
    if (kl_vmap_trace(&g, lanes, (size_t)f->n, axes, &in, &out, &why) ||
        kl_vmap_replace(lanes, (size_t)f->n, in.v, out.v, out.n, axes, axes, &all, &why))
        fail_msg("%s: vmap of the gradient: %s", f->c.name, why->message);
    for (int l = 0; l < LANES; l++) {
        struct kl_array *at = scalar_of(KL_I32, l), *lane[MOST_INPUTS];
        struct kl_arrays want = {0};
        for (int k = 0; k < f->n; k++)
            EXPECT_OK(kl_take_axis(&lane[k], lanes[k], at, 0, cpu(), &err));
        EXPECT_OK(call_gradient(f, lane, (size_t)f->n, &want, &err));
        for (int k = 0; k < f->n; k++) {
            struct kl_array *part;
            EXPECT_OK(kl_take_axis(&part, all.v[k], at, 0, cpu(), &err));
            double *x = doubles_of(part), *y = doubles_of(want.v[k]);
            for (int64_t i = 0; i < part->t.size; i++)
                if (!(fabs(x[i] - y[i]) <= 1e-9 * (1 + fabs(y[i]))) &&
                    !(isnan(x[i]) && isnan(y[i])))
                    fail_msg("%s: lane %d, argument %d, element %lld: %.17g, in a loop %.17g",
                             f->c.name, l, k, (long long)i, x[i], y[i]);
            free(x);
            free(y);
            kl_array_release(part);
        }
        release_each(lane, f->n);
        kl_array_release(at);
        kl_arrays_free(&want);
    }
    release_each(lanes, f->n);
    kl_arrays_free(&all);
    kl_arrays_free(&out);
    kl_arrays_free(&in);
    return 1;
}

static void vmap_of_gradients(void **state) {
    int n = 0;
    for (int i = 0; i < N_CASES; i++) {
        struct subject f;
        if (subject_of(&f, i, KL_F64) && f.c.in[f.which[0]].values != SQUARES) n += check_lanes(&f);
        subject_free(&f);
    }
    assert_in_range(n, 80, 100000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vjp_against_jvp),
        cmocka_unit_test(gradients_against_differences),
        cmocka_unit_test(derivatives_of_gradients),
        cmocka_unit_test(vmap_of_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
