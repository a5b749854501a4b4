/* test_trace.c - which arrays belong to a trace, what their operations keep, and what the end of a
 * trace does to arguments and placeholders. */
#include "barrier.h"
#include "graph/graph_support.h"
#include "graph/node.h"
#include "graph/trace.h"

static struct kl_error *err;

#define EXPECT_OK(call) assert_int_equal((call), KL_OK)

static void expect_trace_error(struct kl_array *a, const char *part) {
    struct kl_error *e = NULL;
    assert_int_equal(kl_eval(&a, 1, &e), KL_ETRACE);
    assert_non_null(strstr(e->message, part));
    kl_error_release(e);
}

/* An argument has the value of its array, and so has what is made from it: evaluation works, and
 * keeps the operations until the trace ends. */
static void arguments(void **state) {
    struct kl_trace *t;
    struct kl_array *x = t_const(NULL, 5), *a;
    EXPECT_OK(kl_trace_begin(&t, &err));
    EXPECT_OK(kl_trace_argument(&a, t, x, &err));
    struct kl_array *y = t_inc(NULL, a), *z = t_inc(NULL, x);
    assert_int_equal(a->node->task.op, KL_OP_ARGUMENT);
    assert_ptr_equal(a->node->in[0], x);
    assert_true(kl_trace_holds(t, a) && kl_trace_holds(t, y));
    assert_false(kl_trace_holds(t, x) || kl_trace_holds(t, z));
    assert_true(kl_array_is_tracer(y));
    assert_int_equal(t_value(y), 6);
    assert_int_equal(t_value(z), 6);
    assert_non_null(y->node);
    assert_ptr_equal(y->node->in[0], a);
    assert_null(z->node);
    kl_trace_end(t);
    assert_null(y->node);
    assert_null(a->node);
    assert_false(kl_array_is_tracer(y));
    assert_int_equal(t_value(y), 6);
    for (int i = 0; i < 4; i++) kl_array_release((struct kl_array *[]){x, a, y, z}[i]);
}

/* What an inner trace kept belongs to the trace around it when the inner one ends. */
static void nested(void **state) {
    struct kl_trace *outer, *inner;
    struct kl_array *x = t_const(NULL, 1), *a, *b;
    EXPECT_OK(kl_trace_begin(&outer, &err));
    EXPECT_OK(kl_trace_argument(&a, outer, x, &err));
    EXPECT_OK(kl_trace_begin(&inner, &err));
    EXPECT_OK(kl_trace_argument(&b, inner, a, &err));
    struct kl_array *y = t_add(NULL, a, b), *only_outer = t_inc(NULL, a);
    assert_true(kl_trace_holds(inner, y));
    assert_true(kl_trace_holds(outer, y));
    assert_false(kl_trace_holds(inner, only_outer));
    assert_int_equal(t_value(y), 2);
    kl_trace_end(inner);
    assert_non_null(y->node);
    struct kl_array *later = t_inc(NULL, y); /* belongs to the outer trace now */
    assert_true(kl_array_is_tracer(later));
    kl_trace_end(outer);
    assert_null(y->node);
    assert_int_equal(t_value(later), 3);
    struct kl_array *all[] = {x, a, b, y, only_outer, later};
    for (int i = 0; i < 6; i++) kl_array_release(all[i]);
}

/* A placeholder has a shape and a dtype, and nothing that depends on it has a value. */
static void placeholders(void **state) {
    struct kl_trace *t;
    struct kl_array *p;
    EXPECT_OK(kl_trace_begin(&t, &err));
    EXPECT_OK(kl_trace_placeholder(&p, t, KL_I32, 0, NULL, &err));
    assert_int_equal(p->node->task.op, KL_OP_PLACEHOLDER);
    assert_int_equal(p->t.dtype, KL_I32);
    assert_false(p->has_range);
    struct kl_array *y = t_inc(NULL, p), *free_of_it = t_const(NULL, 4);
    expect_trace_error(p, "has no value");
    expect_trace_error(y, "has no value");
    struct kl_array *both[] = {free_of_it, y};
    struct kl_error *e = NULL;
    assert_int_equal(kl_async_eval(both, 2, &e), KL_ETRACE);
    assert_non_null(strstr(e->message, "array 1"));
    kl_error_release(e);
    void *data = NULL;
    e = NULL;
    assert_int_equal(kl_array_host(y, &data, &e), KL_ETRACE);
    assert_null(data);
    kl_error_release(e);
    assert_int_equal(t_value(free_of_it), 4);
    kl_trace_end(t);
    expect_trace_error(p, "after the call");
    expect_trace_error(y, "after the call");
    struct kl_array *later = t_inc(NULL, y);
    expect_trace_error(later, "after the call");
    struct kl_array *all[] = {p, y, free_of_it, later};
    for (int i = 0; i < 4; i++) kl_array_release(all[i]);
}

/* An operation of several outputs is kept as a whole, also when one of them is gone. */
static void several_outputs(void **state) {
    struct kl_trace *t;
    struct kl_array *x = t_const(NULL, 5), *a, *out[2];
    EXPECT_OK(kl_trace_begin(&t, &err));
    EXPECT_OK(kl_trace_argument(&a, t, x, &err));
    t_pair(NULL, a, false, out);
    assert_int_equal(t_value(out[1]), 7);
    kl_array_release(out[1]);
    assert_int_equal(out[0]->node->n_out, 2);
    assert_int_equal(t_value(out[0]), 6);
    kl_trace_end(t);
    assert_null(out[0]->node);
    assert_int_equal(t_value(out[0]), 6);
    for (int i = 0; i < 3; i++) kl_array_release((struct kl_array *[]){x, a, out[0]}[i]);
}

/* Arrays of two traces that run at the same time on two threads do not meet in one operation. */
struct other {
    struct t_barrier meet;
    struct kl_array *x, *a;
    int rc;
};

static void *other_thread(void *arg) {
    struct other *o = arg;
    struct kl_trace *t;
    o->rc = kl_trace_begin(&t, NULL);
    if (!o->rc) o->rc = kl_trace_argument(&o->a, t, o->x, NULL);
    t_barrier_wait(&o->meet);
    t_barrier_wait(&o->meet);
    kl_trace_end(t);
    return NULL;
}

static void two_threads(void **state) {
    struct kl_trace *t;
    struct kl_array *a, *sum;
    struct other o = {.x = t_const(NULL, 1)};
    pthread_t thread;
    t_barrier_init(&o.meet, 2);
    EXPECT_OK(kl_trace_begin(&t, &err));
    EXPECT_OK(kl_trace_argument(&a, t, o.x, &err));
    assert_int_equal(pthread_create(&thread, NULL, other_thread, &o), 0);
    t_barrier_wait(&o.meet);
    assert_int_equal(o.rc, KL_OK);
    struct kl_error *e = NULL;
    const struct kl_operation add = {
        .op = KL_OP_ADD, .in = (struct kl_array *[]){a, o.a}, .n_in = 2};
    assert_int_equal(kl_array_op1(&sum, &add, KL_I32, 0, NULL, &e), KL_ETRACE);
    assert_non_null(strstr(e->message, "different threads"));
    kl_error_release(e);
    t_barrier_wait(&o.meet);
    pthread_join(thread, NULL);
    t_barrier_destroy(&o.meet);
    kl_trace_end(t);
    kl_array_release(a);
    kl_array_release(o.a);
    kl_array_release(o.x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments),    cmocka_unit_test(nested),
        cmocka_unit_test(placeholders), cmocka_unit_test(several_outputs),
        cmocka_unit_test(two_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
