/* test_failures.c - every allocation of vjp, jvp, vmap, custom functions and checkpoints fails in
 * turn; and several threads transform the same functions at once. */
#include "ops/support/helpers.h"

#include <pthread.h>

#include "runtime/block_pool.h"
#include "transforms/custom.h"
#include "transforms/transforms.h"

/* ---- a function that uses most of the drivers ---- */

static struct kl_stream *on; /* made before memory runs out */

struct subject {
    struct kl_custom_function *custom, *checkpoint; /* of `body` */
    struct kl_array *constant, *index;
};

/* sin(x) x + constant, and the maximum over the last axis */
static int body(void *ctx, struct kl_array *const *in, size_t n, struct kl_arrays *outs,
                struct kl_error **e) {
    const struct subject *f = ctx;
    struct kl_array *s = NULL, *p = NULL;
    int rc = kl_sin(&s, in[0], on, e);
    if (!rc) rc = kl_multiply(&p, s, in[0], on, e);
    if (!rc) rc = kl_arrays_new(outs, 2, e);
    if (!rc) rc = kl_add(&outs->v[0], p, f->constant, on, e);
    if (!rc) rc = kl_max_axis(&outs->v[1], p, -1, false, on, e);
    if (rc) kl_arrays_free(outs);
    kl_array_release(p);
    kl_array_release(s);
    return rc;
}

/* The rules: the first cotangent, tangents times themselves, the arguments. */
static int rule_vjp(void *ctx, struct kl_custom_call *c, struct kl_arrays *outs,
                    struct kl_error **e) {
    KL_TRY(kl_arrays_new(outs, 1, e));
    int rc = kl_multiply(&outs->v[0], c->list[1][0], c->list[0][0], on, e);
    if (rc) kl_arrays_free(outs);
    return rc;
}

/* The checkpoint, the custom function, a gather and a sum. */
static int whole(void *ctx, struct kl_array *const *in, size_t n, struct kl_arrays *outs,
                 struct kl_error **e) {
    const struct subject *f = ctx;
    struct kl_arrays a = {0}, b = {0};
    struct kl_array *taken = NULL;
    int rc = kl_custom_function_call(f->checkpoint, in, n, &a, e);
    if (!rc) rc = kl_custom_function_call(f->custom, &a.v[0], 1, &b, e);
    if (!rc) rc = kl_take_axis(&taken, b.v[0], f->index, -1, on, e);
    if (!rc) rc = kl_arrays_new(outs, 2, e);
    if (!rc) rc = kl_sum(&outs->v[0], taken, false, on, e);
    if (!rc) outs->v[1] = kl_array_retain(a.v[1]);
    if (rc) kl_arrays_free(outs);
    kl_array_release(taken);
    kl_arrays_free(&a);
    kl_arrays_free(&b);
    return rc;
}

static void subject_init(struct subject *f) {
    const struct kl_function fn = {.call = body, .ctx = f};
    const struct kl_custom_rule rule = {.call = rule_vjp};
    on = cpu();
    f->constant = F32(SHAPE(3), 1, 2, 3);
    f->index = I32(SHAPE(2), 2, 0);
    EXPECT_OK(kl_custom_function_new(&f->custom, &fn, &rule, NULL, NULL, &err));
    EXPECT_OK(kl_checkpoint_new(&f->checkpoint, &fn, &err));
}

static void subject_free(struct subject *f) {
    kl_custom_function_release(f->custom);
    kl_custom_function_release(f->checkpoint);
    kl_array_release(f->constant);
    kl_array_release(f->index);
}

static int gradient(void *ctx, struct kl_array *const *in, size_t n, struct kl_arrays *outs,
                    struct kl_error **e) {
    const struct kl_function f = {.call = whole, .ctx = ctx};
    struct kl_arrays values = {0};
    const int number = 0;
    int rc = kl_value_and_grad(&f, &number, 1, in, n, &values, outs, e);
    kl_arrays_free(&values);
    return rc;
}

/* ---- the transforms, as one kind of function: x gives *out ---- */
typedef int transform_fn(struct subject *f, struct kl_array *x, struct kl_arrays *out,
                         struct kl_error **e);

static int of_gradient(struct subject *f, struct kl_array *x, struct kl_arrays *out,
                       struct kl_error **e) {
    return gradient(f, &x, 1, out, e);
}

/* A function of several outputs, with a cotangent for each. */
static int of_vjp(struct subject *f, struct kl_array *x, struct kl_arrays *out,
                  struct kl_error **e) {
    const struct kl_function fn = {.call = body, .ctx = f};
    struct kl_arrays values = {0};
    struct kl_array *cotangents[2] = {x, NULL};
    KL_TRY(kl_max_axis(&cotangents[1], x, -1, false, on, e));
    int rc = kl_vjp(&fn, &x, 1, cotangents, 2, &values, out, e);
    kl_arrays_free(&values);
    kl_array_release(cotangents[1]);
    return rc;
}

/* Forward over reverse. */
static int of_jvp(struct subject *f, struct kl_array *x, struct kl_arrays *out,
                  struct kl_error **e) {
    const struct kl_function fn = {.call = gradient, .ctx = f};
    struct kl_arrays values = {0};
    int rc = kl_jvp(&fn, &x, 1, &x, 1, &values, out, e);
    kl_arrays_free(&values);
    return rc;
}

/* vmap of the gradient; x has one lane more. */
static int of_vmap(struct subject *f, struct kl_array *x, struct kl_arrays *out,
                   struct kl_error **e) {
    const struct kl_function fn = {.call = gradient, .ctx = f};
    struct kl_array *lanes = NULL, *two[2] = {x, x};
    struct kl_arrays a = {0}, b = {0};
    const int axis = 0;
    int rc = kl_stack_axis(&lanes, two, 2, 0, on, e);
    if (!rc) rc = kl_vmap_trace(&fn, &lanes, 1, &axis, &a, &b, e);
    if (!rc) rc = kl_vmap_replace(&lanes, 1, a.v, b.v, b.n, &axis, &axis, out, e);
    kl_arrays_free(&b);
    kl_arrays_free(&a);
    kl_array_release(lanes);
    return rc;
}

static transform_fn *const transforms[] = {of_gradient, of_vjp, of_jvp, of_vmap};
static const char *const names[] = {"gradient", "vjp", "jvp of the gradient",
                                    "vmap of the gradient"};
enum { N_TRANSFORMS = 4 };

/* Without cached blocks, which are given back when memory runs out. */
static int64_t live_blocks(void) {
    kl_until_quiet();
    kl_memory_clear_cache();
    return kl_test_n_live();
}

static void no_memory(void **state) {
    struct subject f;
    subject_init(&f);
    for (int k = 0; k < N_TRANSFORMS; k++) {
        struct kl_array *x = F32(SHAPE(3), 1, -2, 3);
        int n = 0;
        for (;; n++) {
            struct kl_arrays out = {0};
            struct kl_error *e = NULL;
            const int64_t live = live_blocks();
            kl_test_fail_alloc_at(n);
            int rc = transforms[k](&f, x, &out, &e);
            bool failed = kl_test_alloc_failed();
            kl_test_fail_alloc_at(-1);
            if (!rc) { /* no allocation failed, or one of a block, which is tried again */
                EXPECT_OK(kl_eval(out.v, out.n, &err));
                kl_arrays_free(&out);
                if (!failed) break;
                continue;
            }
            if (rc != KL_ENOMEM || !e) fail_msg("%s, allocation %d: code %d", names[k], n, rc);
            assert_null(out.v);
            kl_error_release(e);
            const int64_t more = live_blocks() - live;
            if (more) fail_msg("%s, allocation %d: %lld leaked", names[k], n, (long long)more);
            assert_false(kl_array_is_tracer(x));
        }
        print_message("%s: %d allocations\n", names[k], n);
        assert_in_range(n, 20, 100000);
        kl_array_release(x);
    }
    subject_free(&f);
}

/* ---- threads ---- */

enum { THREADS = 4, TIMES = 30 };

struct worker {
    pthread_t thread;
    struct subject *f;
    struct kl_array *x;
    float want[N_TRANSFORMS][6];
    int wrong, failed;
};

static int first_floats(struct kl_arrays *out, float *v, struct kl_error **e) {
    void *data;
    KL_TRY(kl_array_host(out->v[0], &data, e));
    memcpy(v, data, (size_t)(out->v[0]->t.size < 6 ? out->v[0]->t.size : 6) * sizeof *v);
    return KL_OK;
}

static void *transform_often(void *arg) {
    struct worker *w = arg;
    for (int i = 0; i < TIMES; i++) {
        for (int k = 0; k < N_TRANSFORMS; k++) {
            struct kl_arrays out = {0};
            float v[6] = {0};
            int rc = transforms[k](w->f, w->x, &out, NULL);
            if (!rc) rc = first_floats(&out, v, NULL);
            w->failed += rc != KL_OK;
            w->wrong += memcmp(v, w->want[k], sizeof v) != 0;
            kl_arrays_free(&out);
        }
    }
    return NULL;
}

/* The threads share the functions, their constants, and an argument that is lazy at first. */
static void threads(void **state) {
    struct subject f;
    struct worker w[THREADS];
    subject_init(&f);
    struct kl_array *x = F32(SHAPE(3), 0.5, -2, 3), *zero = scalar_of(KL_F32, 0), *lazy;
    memset(w, 0, sizeof w);
    for (int k = 0; k < N_TRANSFORMS; k++) {
        struct kl_arrays out = {0};
        EXPECT_OK(transforms[k](&f, x, &out, &err));
        EXPECT_OK(first_floats(&out, w[0].want[k], &err));
        kl_arrays_free(&out);
    }
    EXPECT_OK(kl_add(&lazy, x, zero, on, &err));
    for (int i = 0; i < THREADS; i++) {
        memcpy(w[i].want, w[0].want, sizeof w[i].want);
        w[i].f = &f;
        w[i].x = lazy;
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&w[i].thread, NULL, transform_often, &w[i]), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(w[i].thread, NULL);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(w[i].failed, 0);
        assert_int_equal(w[i].wrong, 0);
    }
    kl_array_release(lazy);
    kl_array_release(zero);
    kl_array_release(x);
    subject_free(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_memory), cmocka_unit_test(threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
