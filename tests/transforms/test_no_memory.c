/* test_no_memory.c - every allocation fails in turn through the rules of every operation that has a
 * gradient: its gradient, jvp and vmap, and a compiled call of its gradient. */
#include "runtime/block_pool.h"
#include "transforms/compile.h"
#include "transforms/subject.h"

typedef int transform_fn(struct subject *f, struct kl_array *const *args, struct kl_arrays *out,
                         struct kl_error **e);

static int of_gradient(struct subject *f, struct kl_array *const *args, struct kl_arrays *out,
                       struct kl_error **e) {
    return call_gradient(f, args, (size_t)f->n, out, e);
}

static int of_jvp(struct subject *f, struct kl_array *const *args, struct kl_arrays *out,
                  struct kl_error **e) {
    const struct kl_function fn = {.call = call_case, .ctx = f};
    struct kl_arrays values = {0};
    int rc = kl_jvp(&fn, args, (size_t)f->n, args, (size_t)f->n, &values, out, e);
    kl_arrays_free(&values);
    return rc;
}

/* All lanes of an argument are the argument. */
static int of_vmap(struct subject *f, struct kl_array *const *args, struct kl_arrays *out,
                   struct kl_error **e) {
    const struct kl_function fn = {.call = call_case, .ctx = f};
    const int axes[MOST_INPUTS] = {0};
    struct kl_array *lanes[MOST_INPUTS] = {NULL};
    struct kl_arrays in = {0}, outs = {0};
    int rc = KL_OK;
    for (int k = 0; k < f->n && !rc; k++)
        rc = kl_stack_axis(&lanes[k], (struct kl_array *[]){args[k], args[k]}, 2, 0, cpu(), e);
    if (!rc) rc = kl_vmap_trace(&fn, lanes, (size_t)f->n, axes, &in, &outs, e);
    if (!rc) rc = kl_vmap_replace(lanes, (size_t)f->n, in.v, outs.v, outs.n, axes, axes, out, e);
    kl_arrays_free(&outs);
    kl_arrays_free(&in);
    release_each(lanes, f->n);
    return rc;
}

/* Traced by the first call, replayed by the second. */
static int of_compiled(struct subject *f, struct kl_array *const *args, struct kl_arrays *out,
                       struct kl_error **e) {
    const struct kl_function fn = {.call = call_gradient, .ctx = f};
    struct kl_function c;
    KL_TRY(kl_compile(&c, &fn, 0, false, NULL, 0, e));
    int rc = kl_function_call(&c, args, (size_t)f->n, out, e);
    kl_arrays_free(out);
    if (!rc) rc = kl_function_call(&c, args, (size_t)f->n, out, e);
    kl_function_release(&c);
    return rc;
}

static transform_fn *const transforms[] = {of_gradient, of_jvp, of_vmap, of_compiled};
static const char *const names[] = {"gradient", "jvp", "vmap", "compile"};
enum { N_TRANSFORMS = 4 };

static int64_t live_blocks(void) {
    kl_until_quiet();
    kl_memory_clear_cache();
    return kl_test_n_live();
}

/* The number of allocations that failed; 0: the operation refuses the transform. */
static int each_allocation(struct subject *f, int k) {
    struct kl_array *args[MOST_INPUTS];
    struct kl_arrays out = {0};
    struct kl_error *e = NULL;
    arguments_of(f, args);
    int rc = transforms[k](f, args, &out, &e);
    kl_arrays_free(&out);
    kl_error_release(e);
    if (rc == KL_EUNSUPPORTED) return 0;
    assert_int_equal(rc, KL_OK);
    for (int n = 0;; n++) {
        const int64_t live = live_blocks();
        e = NULL;
        kl_test_fail_alloc_at(n);
        rc = transforms[k](f, args, &out, &e);
        const bool fired = kl_test_alloc_failed();
        kl_test_fail_alloc_at(-1);
        if (rc && (rc != KL_ENOMEM || !e))
            fail_msg("%s of %s, allocation %d: code %d", names[k], f->c.name, n, rc);
        kl_error_release(e);
        if (rc && out.v) fail_msg("%s of %s: a result of a failure", names[k], f->c.name);
        kl_arrays_free(&out);
        const int64_t more = live_blocks() - live;
        if (more > 0)
            fail_msg("%s of %s, allocation %d: %lld blocks lost", names[k], f->c.name, n,
                     (long long)more);
        if (!fired) return n;
    }
}

static void rules(void **state) {
    for (int k = 0; k < N_TRANSFORMS; k++) {
        int operations = 0, failures = 0;
        for (int i = 0; i < N_CASES; i++) {
            struct subject f;
            if (subject_of(&f, i, KL_F32) && give_weights(&f)) {
                for (int j = 0; j < f.n; j++) EXPECT_OK(kl_eval(&f.in[f.which[j]], 1, &err));
                const int n = each_allocation(&f, k);
                operations += n > 0;
                failures += n;
            }
            subject_free(&f);
        }
        print_message("%s: %d operations, %d allocations\n", names[k], operations, failures);
        assert_in_range(operations, 80, N_CASES);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rules)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
