/* test_replay.c - what a replay must keep of plain code: layouts, marks, errors and who gets them;
 * what a plan merges and what it never merges; and every allocation that fails. */
#include "ops/build/terms.h"
#include "transforms/compile.h"
#include "transforms/custom.h"
#include "transforms/export.h"
#include "transforms/picture.h"
#include "transforms/plan.h"
#include "transforms/subject.h"

/* ---- functions ---- */

typedef int call_fn(void *, struct kl_array *const *, size_t, struct kl_arrays *,
                    struct kl_error **);

#define ONE_RESULT(name, ...)                                                                   \
    static int name(void *ctx, struct kl_array *const *in, size_t n_in, struct kl_arrays *outs, \
                    struct kl_error **e) {                                                      \
        KL_TRY(kl_arrays_new(outs, 1, e));                                                      \
        struct kl_terms t = kl_terms_begin(cpu(), e);                                           \
        struct kl_array *r = NULL;                                                              \
        __VA_ARGS__;                                                                            \
        int rc = kl_terms_end(&t, r, &outs->v[0]);                                              \
        if (rc) kl_arrays_free(outs);                                                           \
        return rc;                                                                              \
    }

static struct kl_function compiled(call_fn *f, bool shapeless) {
    struct kl_function plain = {.call = f}, c;
    EXPECT_OK(kl_compile(&c, &plain, 0, shapeless, NULL, 0, &err));
    return c;
}

/* The only result of c, which must succeed. */
static struct kl_array *call1(const struct kl_function *c, struct kl_array *const *in, size_t n) {
    struct kl_arrays outs = {0};
    EXPECT_OK(kl_function_call(c, in, n, &outs, &err));
    assert_int_equal(outs.n, 1);
    struct kl_array *a = kl_array_retain(outs.v[0]);
    kl_arrays_free(&outs);
    return a;
}

/* The steps of the plan of f for float32 arguments of shape (4). */
static int steps_of(call_fn *call, size_t n_args, bool simplify) {
    struct kl_function f = {.call = call};
    struct kl_plan *p;
    int four = 4;
    struct kl_plan_spec specs[3] = {{KL_F32, 1, &four}, {KL_F32, 1, &four}, {KL_F32, 1, &four}};
    EXPECT_OK(kl_plan_trace(&p, &f, specs, n_args, simplify, false, &err));
    int n = p->n_steps;
    kl_plan_release(p);
    return n;
}

static struct kl_array *four(float a, float b, float c, float d) {
    return array_of(KL_F32, SHAPE(4), (float[]){a, b, c, d});
}

/* ---- what an array is besides its values ---- */

ONE_RESULT(stop, {
    struct kl_array *x = kl_term(&t, kl_exp, in[0]);
    r = KL_TERM(&t, kl_stop_gradient(&t.made, x, cpu(), e));
})

/* An output that stop_gradient made takes no cotangent, also of a replay. */
static void stopped_outputs(void **state) {
    struct kl_function c = compiled(stop, false);
    struct kl_array *x = four(1, 2, 3, 4);
    for (int round = 0; round < 2; round++) {
        struct kl_arrays outs = {0}, grads = {0};
        EXPECT_OK(kl_vjp(&c, &x, 1, NULL, 0, &outs, &grads, &err));
        EXPECT_F32(kl_array_retain(grads.v[0]), SHAPE(4), 0, 0, 0, 0);
        kl_arrays_free(&outs);
        kl_arrays_free(&grads);
    }
    kl_function_release(&c);
    kl_array_release(x);
}

ONE_RESULT(dense, { r = KL_TERM(&t, kl_contiguous(&t.made, in[0], false, cpu(), e)); })

static struct kl_array *transposed(void) {
    struct kl_array *x = F32(SHAPE(2, 3), 1, 2, 3, 4, 5, 6), *y;
    EXPECT_OK(kl_transpose(&y, x, cpu(), &err));
    EXPECT_OK(kl_eval(&y, 1, &err));
    kl_array_release(x);
    return y;
}

/* Placeholders are row-contiguous, and the arguments of a replay need not be. */
static void contiguous_results(void **state) {
    struct kl_function c = compiled(dense, false);
    struct kl_array *rows = F32(SHAPE(3, 2), 1, 2, 3, 4, 5, 6), *x = transposed();
    for (int round = 0; round < 3; round++) {
        struct kl_array *y = call1(&c, round == 1 ? &x : &rows, 1);
        assert_true(y->t.layout & KL_ROW_CONTIGUOUS);
        kl_array_release(y);
    }
    kl_function_release(&c);
    kl_array_release(rows);
    kl_array_release(x);
}

static struct kl_kernel_desc *desc;

/* A custom kernel that takes row-contiguous inputs only, as its builder makes it. */
static int kernel(void *ctx, struct kl_array *const *in, size_t n_in, struct kl_arrays *outs,
                  struct kl_error **e) {
    struct kl_kernel_params p = {kl_kernel_desc_retain(desc)};
    struct kl_operation o = {.op = KL_OP_KERNEL,
                             .stream = sim(),
                             .params = &p,
                             .params_bytes = sizeof p,
                             .in = in,
                             .n_in = 1};
    int rc = kl_arrays_new(outs, 1, e);
    if (!rc) rc = kl_array_op1(&outs->v[0], &o, KL_F32, 2, (int[]){3, 2}, e);
    if (!rc) return KL_OK;
    kl_kernel_desc_release(desc);
    kl_arrays_free(outs);
    return rc;
}

static void kernels(void **state) {
    struct kl_kernel_desc d = {.name = "own",
                               .entry = "own",
                               .source = "",
                               .row_contiguous = true,
                               .grid = {1, 1, 1},
                               .group = {1, 1, 1}};
    desc = kl_kernel_desc_new(&d);
    struct kl_array *rows = F32(SHAPE(3, 2), 1, 2, 3, 4, 5, 6), *x = transposed(), *y;
    struct kl_function c = compiled(kernel, false);
    y = call1(&c, &rows, 1);
    assert_ptr_equal(y->node->in[0], rows);
    kl_array_release(y);
    y = call1(&c, &x, 1);
    assert_true(y->node->in[0]->t.layout & KL_ROW_CONTIGUOUS);
    kl_array_release(y);
    kl_function_release(&c);
    /* What it computes for other shapes is not known, so it is traced for these. */
    c = compiled(kernel, true);
    struct kl_array *more = array_of(KL_F32, SHAPE(5, 2), NULL);
    struct kl_arrays outs = {0};
    kl_array_release(call1(&c, &rows, 1));
    EXPECT_OK(kl_function_call(&c, &more, 1, &outs, &err));
    assert_ptr_equal(outs.v[0]->node->in[0], more);
    kl_arrays_free(&outs);
    kl_function_release(&c);
    kl_array_release(more);
    kl_array_release(rows);
    kl_array_release(x);
    kl_kernel_desc_release(desc);
}

/* ---- simplification ---- */

ONE_RESULT(twice_the_same, {
    struct kl_array *a = kl_term(&t, kl_exp, kl_term2(&t, kl_add, in[0], in[1]));
    struct kl_array *b = kl_term(&t, kl_exp, kl_term2(&t, kl_add, in[0], in[1]));
    struct kl_array *other = kl_term(&t, kl_exp, kl_term2(&t, kl_add, in[1], in[0]));
    r = kl_term2(&t, kl_multiply, kl_term2(&t, kl_multiply, a, b), other);
    kl_term(&t, kl_log, r); /* nobody needs it */
})

/* Parameters with other bytes between their fields. */
static struct kl_array *scan_with(struct kl_terms *t, struct kl_array *x, int bytes) {
    struct kl_scan_params p;
    memset(&p, bytes, sizeof p);
    p.axis = 0;
    p.reverse = false;
    p.inclusive = true;
    struct kl_operation o = {.op = KL_OP_CUMSUM,
                             .stream = cpu(),
                             .params = &p,
                             .params_bytes = sizeof p,
                             .in = &x,
                             .n_in = 1};
    return KL_TERM(t, kl_array_op1(&t->made, &o, KL_F32, 1, x->t.dims, t->err));
}
static struct kl_array *slice_with(struct kl_terms *t, struct kl_array *x, int bytes) {
    union {
        struct kl_slice_params p;
        char room[64];
    } u;
    memset(&u, bytes, sizeof u);
    u.p.ndim = 1;
    u.p.v[0] = 1;
    u.p.v[1] = 2;
    return KL_TERM(t, kl_array_view(&t->made, KL_OP_SLICE, &u, sizeof u.p + 16, x, 1, (int[]){2},
                                    (int64_t[]){2}, 1, t->err));
}
ONE_RESULT(padding, {
    struct kl_array *a = kl_term2(&t, kl_add, scan_with(&t, in[0], 0), scan_with(&t, in[0], 0xa5));
    r = kl_term2(&t, kl_add, slice_with(&t, a, 0x5a), slice_with(&t, a, 0xff));
})

ONE_RESULT(other_parameters, {
    struct kl_array *a = KL_TERM(&t, kl_cumsum(&t.made, in[0], 0, false, true, cpu(), e));
    struct kl_array *b = KL_TERM(&t, kl_cumsum(&t.made, in[0], 0, true, true, cpu(), e));
    r = kl_term2(&t, kl_add, a, b);
})

/* exp of x, and exp of x that is computed after it: the same numbers, and no merge. */
ONE_RESULT(behind_depends, {
    struct kl_array *a = kl_term(&t, kl_exp, in[0]), **after = NULL;
    size_t n = 0;
    if (!t.rc) t.rc = kl_depends(&after, &n, in, 1, &a, 1, cpu(), e);
    r = kl_term2(&t, kl_add, a, kl_term(&t, kl_exp, n ? after[0] : NULL));
    for (size_t i = 0; i < n; i++) kl_array_release(after[i]);
    kl_free(after);
})

static void merges(void **state) {
    assert_int_equal(steps_of(twice_the_same, 2, true), 2 + 2 + 2);
    assert_int_equal(steps_of(twice_the_same, 2, false), 3 + 3 + 2);
    assert_int_equal(steps_of(padding, 1, true), 2 + 2);
    assert_int_equal(steps_of(padding, 1, false), 3 + 3);
    assert_int_equal(steps_of(other_parameters, 1, true), 3);
    assert_int_equal(steps_of(behind_depends, 1, true), 5); /* the gate is one */
}

/* ---- custom functions and checkpoints in plans ---- */

static struct kl_custom_function *custom;

ONE_RESULT(exponential, { r = kl_term(&t, kl_exp, in[0]); })

/* exp(x) twice through `custom`, and once outside. */
static int uses_custom(void *ctx, struct kl_array *const *in, size_t n_in, struct kl_arrays *outs,
                       struct kl_error **e) {
    struct kl_arrays made[2] = {{0}, {0}};
    int rc = kl_arrays_new(outs, 1, e);
    for (int i = 0; i < 2 && !rc; i++) rc = kl_custom_function_call(custom, in, 1, &made[i], e);
    struct kl_terms t = kl_terms_begin(cpu(), e);
    t.rc = rc;
    struct kl_array *both = rc ? NULL : kl_term2(&t, kl_add, made[0].v[0], made[1].v[0]);
    struct kl_array *r = kl_term2(&t, kl_add, both, kl_term(&t, kl_exp, in[0]));
    rc = kl_terms_end(&t, r, outs->v);
    for (int i = 0; i < 2; i++) kl_arrays_free(&made[i]);
    if (rc) kl_arrays_free(outs);
    return rc;
}

/* The operations of each call of a custom function stay apart: three times exp, two times ARGUMENT
 * and CUSTOM, and two additions. */
static void custom_functions_stay_apart(void **state) {
    struct kl_function f = {.call = exponential};
    EXPECT_OK(kl_checkpoint_new(&custom, &f, &err));
    assert_int_equal(steps_of(uses_custom, 1, true), 3 + 4 + 2);
    kl_custom_function_release(custom);
}

static int two_results(void *ctx, struct kl_array *const *in, size_t n_in, struct kl_arrays *outs,
                       struct kl_error **e) {
    int rc = kl_arrays_new(outs, 2, e);
    if (!rc) rc = kl_exp(&outs->v[0], in[0], cpu(), e);
    if (!rc) rc = kl_sin(&outs->v[1], in[0], cpu(), e);
    if (rc) kl_arrays_free(outs);
    return rc;
}

ONE_RESULT(of_two, { r = kl_term2(&t, kl_multiply, kl_term(&t, kl_sin, in[0]), in[1]); })

static struct kl_custom_function *pair, *product;

/* A checkpoint whose arguments are both results of another one, in the other order; and x, which
 * is an argument here and one of there. */
static int chained(void *ctx, struct kl_array *const *in, size_t n_in, struct kl_arrays *outs,
                   struct kl_error **e) {
    struct kl_arrays first = {0}, second = {0};
    int rc = kl_custom_function_call(pair, in, 1, &first, e);
    if (!rc)
        rc = kl_custom_function_call(product, (struct kl_array *[]){first.v[1], first.v[0]}, 2,
                                     &second, e);
    if (!rc) rc = kl_arrays_new(outs, 1, e);
    if (!rc) rc = kl_sum(&outs->v[0], second.v[0], false, cpu(), e);
    if (rc) kl_arrays_free(outs);
    kl_arrays_free(&first);
    kl_arrays_free(&second);
    return rc;
}

static struct kl_array *gradient(const struct kl_function *f, struct kl_array *x) {
    struct kl_arrays values = {0}, grads = {0};
    EXPECT_OK(kl_value_and_grad(f, (int[]){0}, 1, &x, 1, &values, &grads, &err));
    struct kl_array *g = kl_array_retain(grads.v[0]);
    kl_arrays_free(&values);
    kl_arrays_free(&grads);
    return g;
}

/* The gradient of a replay that has checkpoints is that of plain code. */
static void checkpoints(void **state) {
    struct kl_function f = {.call = chained}, two = {.call = two_results}, one = {.call = of_two};
    EXPECT_OK(kl_checkpoint_new(&pair, &two, &err));
    EXPECT_OK(kl_checkpoint_new(&product, &one, &err));
    struct kl_function c = compiled(chained, false);
    struct kl_array *x = four(0.25f, 0.5f, -1, 2), *want = gradient(&f, x);
    float *w = values_of(want);
    for (int round = 0; round < 2; round++) expect_f32(gradient(&c, x), 1, (int[]){4}, w);
    free(w);
    kl_array_release(want);
    kl_array_release(x);
    kl_function_release(&c);
    kl_custom_function_release(pair);
    kl_custom_function_release(product);
}

/* ---- errors ---- */

/* out 0: x[i] + y[j]; out 1: exp(y[j]); out 2: x * 2 */
static int several(void *ctx, struct kl_array *const *in, size_t n_in, struct kl_arrays *outs,
                   struct kl_error **e) {
    struct kl_array *a = NULL, *b = NULL;
    int rc = kl_arrays_new(outs, 3, e);
    if (!rc) rc = kl_take_axis(&a, in[0], in[2], 0, cpu(), e);
    if (!rc) rc = kl_take_axis(&b, in[1], in[3], 0, cpu(), e);
    if (!rc) rc = kl_add(&outs->v[0], a, b, cpu(), e);
    if (!rc) rc = kl_exp(&outs->v[1], b, cpu(), e);
    if (!rc) rc = kl_add(&outs->v[2], in[0], in[0], cpu(), e);
    kl_array_release(a);
    kl_array_release(b);
    if (rc) kl_arrays_free(outs);
    return rc;
}

/* Each output has its own fate, the first failed input decides, and plain code says the same. */
static void errors_of_replays(void **state) {
    struct kl_function f = {.call = several}, c = compiled(several, false);
    struct kl_error *broken = NULL;
    kl_fail(&broken, KL_EFILE, "the file is gone");
    struct kl_array *lost, *x = four(1, 2, 3, 4), *good = I32(SHAPE(2), 0, 3),
                           *bad = I32(SHAPE(2), 1, 7), *worse = I32(SHAPE(2), -9, 0);
    EXPECT_OK(kl_array_new_failed(&lost, KL_F32, 1, (int[]){4}, broken, &err));
    struct kl_array *const calls[][4] = {
        {x, x, good, good},    {x, x, bad, good},    {x, x, good, worse},   {x, x, bad, worse},
        {lost, x, good, good}, {x, lost, bad, good}, {lost, x, bad, worse}, {x, x, good, good}};
    for (size_t k = 0; k < sizeof calls / sizeof *calls; k++) {
        struct kl_arrays want = {0}, got = {0};
        EXPECT_OK(kl_function_call(&f, calls[k], 4, &want, &err));
        EXPECT_OK(kl_function_call(&c, calls[k], 4, &got, &err));
        for (int i = 0; i < 3; i++) {
            struct kl_error *a = NULL, *b = NULL;
            assert_int_equal(kl_eval(&want.v[i], 1, &a), kl_eval(&got.v[i], 1, &b));
            if (a) {
                assert_string_equal(a->message, b->message);
                assert_string_equal(a->op ? a->op : "", b->op ? b->op : "");
                assert_int_equal(a->has, b->has);
                assert_int_equal(a->index, b->index);
                assert_int_equal(a->position, b->position);
            }
            bool fails = i == 0   ? k > 0 && k < 7
                         : i == 1 ? k == 2 || k == 3 || k == 5 || k == 6
                                  : k == 4 || k == 6;
            assert_int_equal(a != NULL, fails);
            kl_error_release(a);
            kl_error_release(b);
        }
        kl_arrays_free(&want);
        kl_arrays_free(&got);
    }
    kl_function_release(&c);
    kl_error_release(broken);
    release_each((struct kl_array *[]){lost, x, good, bad, worse}, 5);
}

/* ---- every allocation fails in turn ---- */

static struct kl_array *args[2];
static const char *file;

/* Calls step, with allocation 0, 1, ... failing, until none does. */
static void each_allocation(int (*step)(struct kl_error **e)) {
    for (int i = 0; i < 2; i++) EXPECT_OK(step(&err)); /* what exists once is made now */
    for (int n = 0;; n++) {
        struct kl_error *e = NULL;
        kl_until_quiet();
        int64_t before = kl_test_n_live();
        kl_test_fail_alloc_at(n);
        int rc = step(&e);
        bool fired = kl_test_alloc_failed();
        kl_test_fail_alloc_at(-1);
        if (rc) {
            assert_int_equal(rc, KL_ENOMEM);
            assert_non_null(e);
            assert_int_equal(e->code, KL_ENOMEM);
        }
        kl_error_release(e);
        kl_until_quiet();
        if (kl_test_n_live() > before)
            fail_msg("allocation %d: %d blocks lost", n, (int)(kl_test_n_live() - before));
        if (!fired) {
            assert_true(n > 3);
            return;
        }
    }
}

/* x * 2 + y, exp of it, and a constant that is computed when it is first needed. */
ONE_RESULT(small, {
    struct kl_array *x = kl_term_by(&t, kl_multiply, in[0], 2);
    struct kl_array *own = kl_term(&t, kl_exp, args[1]);
    x = kl_term(&t, kl_exp, kl_term2(&t, kl_add, x, in[1]));
    r = kl_term2(&t, kl_subtract, x, own);
})
static const struct kl_function small_function = {.call = small};

static int call_and_eval(const struct kl_function *c, struct kl_error **e) {
    struct kl_arrays outs = {0};
    int rc = kl_function_call(c, args, 2, &outs, e);
    if (!rc) rc = kl_eval(outs.v, outs.n, e);
    kl_arrays_free(&outs);
    return rc;
}

static int compile_step(struct kl_error **e) {
    struct kl_function c;
    KL_TRY(kl_compile(&c, &small_function, 0, false, NULL, 0, e));
    int rc = call_and_eval(&c, e);
    if (!rc) rc = call_and_eval(&c, e);
    kl_function_release(&c);
    return rc;
}

/* In a cache that stays: a call that fails leaves nothing in it that a later one would find. */
static int cached_step(struct kl_error **e) {
    struct kl_function c;
    KL_TRY(kl_compile(&c, &small_function, 77, true, (uint64_t[]){5}, 1, e));
    int rc = call_and_eval(&c, e);
    kl_function_release(&c);
    if (!rc || kl_test_alloc_failed()) kl_compile_erase(77);
    return rc;
}

static int custom_step(struct kl_error **e) {
    struct kl_function one = {.call = exponential}, f = {.call = uses_custom}, c;
    KL_TRY(kl_checkpoint_new(&custom, &one, e));
    int rc = kl_compile(&c, &f, 0, false, NULL, 0, e);
    if (!rc) {
        rc = call_and_eval(&c, e);
        kl_function_release(&c);
    }
    kl_custom_function_release(custom);
    return rc;
}

static unsigned char *contents(size_t *n) {
    FILE *f = fopen(file, "rb");
    unsigned char *p = malloc(1 << 16);
    assert_non_null(f);
    *n = fread(p, 1, 1 << 16, f);
    fclose(f);
    return p;
}

static int export_step(struct kl_error **e) {
    struct kl_exporter *x;
    static unsigned char *old;
    static size_t n_old;
    KL_TRY(kl_exporter_new(&x, file, false, e));
    int rc = kl_exporter_add(x, &small_function, args, 2,
                             (struct kl_names){(const char *[]){"y"}, 1}, e);
    if (rc)
        kl_exporter_abort(x);
    else
        rc = kl_exporter_finish(x, e);
    if (!old) old = contents(&n_old);
    if (rc) {
        size_t n;
        unsigned char *now = contents(&n);
        assert_int_equal(n, n_old);
        assert_memory_equal(now, old, n);
        free(now);
    }
    return rc;
}

static int import_step(struct kl_error **e) {
    struct kl_imported *m;
    struct kl_arrays outs = {0};
    KL_TRY(kl_import(&m, file, e));
    int rc = kl_imported_call(m, args, 2, (struct kl_names){(const char *[]){"y"}, 1}, &outs, e);
    if (!rc) rc = kl_eval(outs.v, outs.n, e);
    kl_arrays_free(&outs);
    kl_imported_release(m);
    return rc;
}

static int picture_step(struct kl_error **e) {
    static FILE *to;
    struct kl_arrays outs = {0};
    struct kl_namer *names = kl_namer_new(e);
    if (!names) return KL_ENOMEM;
    if (!to) to = fopen("/dev/null", "w");
    int rc = kl_namer_set(names, args[0], "input", e);
    if (!rc) rc = kl_function_call(&small_function, args, 2, &outs, e);
    for (int dot = 0; dot < 2 && !rc; dot++)
        rc = kl_picture(to, dot ? names : NULL, outs.v, outs.n, dot, e);
    kl_arrays_free(&outs);
    kl_namer_free(names);
    return rc;
}

static void allocations(void **state) {
    args[0] = four(1, 2, 3, 4);
    args[1] = four(5, 6, 7, 8);
    EXPECT_OK(kl_eval(args, 2, &err));
    file = kl_test_path("small");
    each_allocation(compile_step);
    each_allocation(cached_step);
    each_allocation(custom_step);
    each_allocation(export_step);
    each_allocation(import_step);
    each_allocation(picture_step);
    release_each(args, 2);
}

/* After a failure at any point, a cache holds a plan that is whole, or none. */
static void after_a_failure(void **state) {
    args[0] = four(1, 2, 3, 4);
    args[1] = four(5, 6, 7, 8);
    struct kl_array *want = call1(&small_function, args, 2);
    float *w = values_of(want);
    for (int n = 0;; n++) {
        struct kl_function c = compiled(small, false);
        kl_test_fail_alloc_at(n);
        int rc = call_and_eval(&c, NULL);
        bool fired = kl_test_alloc_failed();
        kl_test_fail_alloc_at(-1);
        if (rc) assert_int_equal(rc, KL_ENOMEM);
        for (int round = 0; round < 2; round++) expect_f32(call1(&c, args, 2), 1, (int[]){4}, w);
        kl_function_release(&c);
        if (!fired) break;
    }
    free(w);
    kl_array_release(want);
    release_each(args, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stopped_outputs),
        cmocka_unit_test(contiguous_results),
        cmocka_unit_test(kernels),
        cmocka_unit_test(merges),
        cmocka_unit_test(custom_functions_stay_apart),
        cmocka_unit_test(checkpoints),
        cmocka_unit_test(errors_of_replays),
        cmocka_unit_test(allocations),
        cmocka_unit_test(after_a_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
