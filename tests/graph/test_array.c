/* test_array.c - building and freeing arrays: graphs a million deep and a million wide, operations
 * with several outputs, views, the user's memory, arrays that have failed from the start, and the
 * mark of tracers. */
#include "barrier.h"
#include "graph/graph_support.h"

#include "graph/node.h"
#include "graph/tracing.h"
#include "ops/ops.h"
#include "runtime/block_pool.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { MANY = 100000 };
#else
enum { MANY = 1000000 };
#endif

static struct kl_stream *streams[4];

static int k_next(void *ctx, struct kl_launch *l, struct kl_error **err) {
    *(unsigned *)l->out[0].data = *(const unsigned *)l->in[0].data + 1;
    return KL_OK;
}

static struct kl_array *
next(struct kl_stream *s,
     struct kl_array *x) { /* without the checks of t_inc, since it is called a million times */
    struct kl_call_params c = {.name = "next", .fn = k_next};
    struct kl_array *y = NULL;
    if (kl_array_op1(&y,
                     &(struct kl_operation){.op = KL_OP_CALL,
                                            .stream = s,
                                            .params = &c,
                                            .params_bytes = sizeof c,
                                            .in = &x,
                                            .n_in = 1},
                     KL_I32, 0, NULL, NULL))
        abort();
    return y;
}

static struct kl_array *chain(int n, int n_streams) {
    struct kl_array *x = t_const(streams[0], 0);
    for (int i = 0; i < n; i++) {
        struct kl_array *y = next(streams[i / 1000 % n_streams], x);
        kl_array_release(x);
        x = y;
    }
    return x;
}

static void settle_all(void) {
    for (int i = 0; i < 4; i++) assert_int_equal(kl_stream_synchronize(streams[i], NULL), 0);
    kl_sim_until_empty(0);
}

static void a_chain_of_a_million(void **state) {
    struct kl_array *x = chain(MANY, 1);
    assert_int_equal(t_value(x), MANY);
    kl_array_release(x);
    x = chain(MANY / 10, 4); /* the chain goes over CPU and device streams in turn */
    assert_int_equal(t_value(x), MANY / 10);
    kl_array_release(x);
}

static void freed_without_evaluation(void **state) {
    settle_all();
    int64_t live = kl_test_n_live();
    kl_array_release(chain(MANY / 2, 4));
    assert_int_equal(kl_test_n_live(), live);
    struct kl_array *x = t_const(streams[0], 1); /* a view of a view, and so on */
    int64_t stride = 1;
    for (int i = 0; i < MANY / 4; i++) {
        struct kl_array *y = NULL;
        int one = 1;
        if (kl_array_view(&y, KL_OP_RESHAPE, NULL, 0, x, 1, &one, &stride, 0, NULL)) abort();
        kl_array_release(x);
        x = y;
    }
    struct kl_array *y = kl_array_retain(x);
    kl_array_release(x);
    assert_true(kl_test_n_live() > live);
    assert_int_equal(t_value(y), 1); /* the last view keeps its memory alive, however deep it is */
    kl_array_release(y);
    settle_all();
    assert_int_equal(kl_test_n_live(), live);
}

static void a_value_with_a_million_consumers(void **state) {
    struct kl_array **y = calloc(MANY, sizeof *y), *x = t_const(streams[0], 5);
    settle_all();
    int64_t live = kl_test_n_live();
    for (int i = 0; i < MANY; i++) y[i] = next(streams[i < MANY / 2 ? 0 : i % 4], x);
    assert_int_equal(kl_eval(y, MANY / 2, NULL), 0);
    for (int i = 0; i < MANY; i++) {
        if (i < MANY / 2 && *(int *)y[i]->t.buffer->block->ptr != 6) fail_msg("consumer %d", i);
        kl_array_release(y[i]); /* the second half of the operations was never evaluated */
    }
    settle_all();
    assert_int_equal(atomic_load(&x->refs), 1);
    kl_array_release(x);
    free(y);
    kl_memory_clear_cache();
    /* X was live before; the list of the walk through the graph stays. */
    assert_true(kl_test_n_live() <= live + 1);
}

/* ---- several outputs ---- */

static void one_output_dropped(void **state) {
    FOR_EACH_PLACEMENT(a, b) {
        struct kl_array *x = t_const(a, 1), *p[2];
        assert_int_equal(t_value(x), 1);
        settle_all();
        int64_t live = kl_test_n_live();
        for (int when = 0; when < 4; when++) {
            for (int which = 0; which < 2; which++) {
                t_pair(a, x, false, p);
                if (when == 0) kl_array_release(p[which]); /* when 0: before the evaluation */
                /* When 1: after the commit, perhaps while it runs. */
                if (when == 1) {
                    assert_int_equal(kl_async_eval(&p[!which], 1, NULL), 0);
                    kl_array_release(p[which]);
                }
                if (when == 2) { /* when 2: after the evaluation */
                    assert_int_equal(t_value(p[!which]), 2 + !which);
                    assert_true(kl_array_settled(p[which]));
                    kl_array_release(p[which]);
                }
                if (when == 3) { /* when 3: only a consumer holds the output */
                    struct kl_array *y = t_inc(b, p[which]);
                    kl_array_release(p[which]);
                    assert_int_equal(t_value(y), 3 + which);
                    kl_array_release(y);
                }
                assert_int_equal(t_value(p[!which]), 2 + !which);
                kl_array_release(p[!which]);
                assert_int_equal(kl_stream_synchronize(a, NULL), 0);
                assert_int_equal(kl_stream_synchronize(b, NULL), 0);
            }
        }
        /* One output, then the other, and none is evaluated. */
        for (int which = 0; which < 2; which++) {
            t_pair(a, x, false, p);
            kl_array_release(p[which]);
            kl_array_release(p[!which]);
        }
        assert_int_equal(atomic_load(&x->refs), 1);
        kl_memory_clear_cache();
        /* A device releases its records some time after the ticket, when its settler gets to it.
         * Sanitizer builds check those records. */
        if (kl_stream_device_type(a) == KL_CPU && kl_stream_device_type(b) == KL_CPU)
            assert_true(kl_test_n_live() <= live);
        kl_array_release(x);
    }
}

struct half {
    struct t_barrier *start;
    struct kl_array *mine;
    int how, expected;
    bool good;
};

static void *use_half(void *arg) {
    struct half *h = arg;
    t_barrier_wait(h->start);
    if (h->how == 1) h->good = kl_async_eval(&h->mine, 1, NULL) == 0;
    if (h->how == 2) h->good = t_value(h->mine) == h->expected;
    kl_array_release(h->mine);
    return NULL;
}

static void outputs_in_several_threads(void **state) {
    FOR_EACH_PLACEMENT(a, b) {
        for (int round = 0; round < 90;
             /* Each of the two outputs is dropped, handed over or read, in all combinations. */
             round++) {
            struct kl_array *x = t_const(a, 1), *p[2];
            struct t_barrier start;
            pthread_t thread[2];
            struct half h[2];
            t_barrier_init(&start, 2);
            t_pair(b, x, false, p);
            for (int i = 0; i < 2; i++) {
                h[i] = (struct half){&start, p[i], i ? round / 3 % 3 : round % 3, 2 + i, true};
                assert_int_equal(pthread_create(&thread[i], NULL, use_half, &h[i]), 0);
            }
            for (int i = 0; i < 2; i++) {
                pthread_join(thread[i], NULL);
                assert_true(h[i].good);
            }
            t_barrier_destroy(&start);
            assert_int_equal(kl_stream_synchronize(b, NULL), 0);
            assert_int_equal(t_value(x), 1);
            kl_array_release(x);
        }
    }
}

/* ---- views ---- */

static void views_share_what_becomes_of_the_value(void **state) {
    FOR_EACH_PLACEMENT(a, b) {
        int start = 2, stop = -8, step = -1, two = 2;
        struct kl_array *x = t_vector(a, 6, 4), *v = NULL, *w = NULL;
        /* A view of a lazy value. */
        assert_int_equal(kl_slice(&v, x, &start, 1, &stop, 1, &step, 1, b, NULL), 0);
        assert_false(kl_array_settled(v));
        assert_int_equal(v->t.size, 3);
        assert_ptr_equal(v->t.fate, x->t.fate);
        assert_ptr_equal(v->t.buffer, x->t.buffer);
        assert_int_equal(t_value(v), 4);
        assert_true(kl_array_settled(x));
        start = 1, stop = 3, step = 1;
        /* A view of a value that is settled. */
        assert_int_equal(kl_slice(&w, x, &start, 1, &stop, 1, &step, 1, b, NULL), 0);
        assert_true(kl_array_settled(w));
        assert_null(w->node);
        kl_array_release(x);
        assert_int_equal(t_value(w), 4);
        kl_array_release(v);
        assert_int_equal(t_value(w), 4);
        kl_array_release(w);
        x = t_fail(a, NULL);
        /* A view of a value that will fail. */
        assert_int_equal(kl_reshape(&v, x, (int[]){1, 1}, 2, b, NULL), 0);
        t_expect_error(v, KL_EKERNEL);
        /* A view of a value that has failed. */
        assert_int_equal(kl_broadcast_to(&w, x, &two, 1, b, NULL), 0);
        t_expect_error(w, KL_EKERNEL);
        struct kl_error *ev = t_error(v), *ew = t_error(w), *ex = t_error(x);
        assert_ptr_equal(ev, ex);
        assert_ptr_equal(ew, ex);
        kl_error_release(ev);
        kl_error_release(ew);
        kl_error_release(ex);
        kl_array_release(x);
        kl_array_release(v);
        kl_array_release(w);
    }
}

/* ---- leaves ---- */

static void count_dtor(void *payload) {
    ++*(int *)payload;
}

static void user_memory_is_let_go_once(void **state) {
    FOR_EACH_PLACEMENT(a, b) {
        int data[3] = {7, 8, 9}, three = 3, n = 0, start = 1, stop = 3, step = 1;
        struct kl_array *x = NULL, *v = NULL;
        assert_int_equal(kl_array_new_user(&x, data, KL_I32, 1, &three, &n, count_dtor, NULL), 0);
        void *p = NULL;
        assert_int_equal(kl_array_host(x, &p, NULL), 0);
        assert_ptr_equal(p, data);
        assert_int_equal(kl_slice(&v, x, &start, 1, &stop, 1, &step, 1, a, NULL), 0);
        struct kl_array *y = t_inc(a, x), *z = t_inc(b, v);
        kl_array_release(x);
        kl_array_release(v);
        assert_int_equal(n, 0); /* lazy operations still need this leaf */
        assert_int_equal(t_value(y), 8);
        assert_int_equal(t_value(z), 9);
        assert_int_equal(kl_stream_synchronize(a, NULL), 0);
        assert_int_equal(kl_stream_synchronize(b, NULL), 0);
        assert_int_equal(n, 1);
        kl_array_release(y);
        kl_array_release(z);
        assert_int_equal(n, 1);
    }
    int data = 1, n = 0;
    struct kl_array *x = NULL;
    for (int k = 0;; k++) { /* a call that fails has not taken the memory */
        kl_test_fail_alloc_at(k);
        int rc = kl_array_new_user(&x, &data, KL_I32, 0, NULL, &n, count_dtor, NULL);
        kl_test_fail_alloc_at(-1);
        if (rc == KL_OK) break;
        assert_int_equal(rc, KL_ENOMEM);
        assert_int_equal(n, 0);
        assert_null(x);
    }
    kl_array_release(x);
    assert_int_equal(n, 1);
    int bad = -1;
    assert_int_equal(kl_array_new_user(&x, &data, KL_I32, 1, &bad, &n, count_dtor, NULL),
                     KL_ESHAPE);
    assert_int_equal(n, 1);
    /* The memory has no destructor. */
    assert_int_equal(kl_array_new_user(&x, &data, KL_I32, 0, NULL, NULL, NULL, NULL), 0);
    kl_array_release(x);
}

static void failed_from_the_start(void **state) {
    FOR_EACH_PLACEMENT(a, b) {
        struct kl_error_info info = {.code = KL_ETRUNCATED, .tensor = "w"};
        struct kl_error *e = kl_error_new(&info, "the file ends early");
        int dims[2] = {3, 4};
        struct kl_array *x = NULL;
        assert_int_equal(kl_array_new_failed(&x, KL_F32, 2, dims, e, NULL), 0);
        assert_int_equal(x->t.size, 12);
        assert_true(kl_array_settled(x));
        struct kl_array *y = t_inc(a, x), *good = t_const(a, 1), *z = t_add(b, good, y);
        struct kl_error *ez = t_error(z), *ex = t_error(x);
        assert_ptr_equal(ez, e);
        assert_ptr_equal(ex, e);
        kl_error_release(ez);
        kl_error_release(ex);
        kl_error_release(e);
        kl_array_release(x);
        kl_array_release(y);
        kl_array_release(z);
        kl_array_release(good);
    }
}

static void impossible_shapes(void **state) {
    struct kl_array *x = NULL;
    int negative[2] = {2, -1}, much[5] = {1 << 20, 1 << 20, 1 << 20, 1 << 20, 1};
    struct kl_error *e = NULL;
    assert_int_equal(kl_array_new_data(&x, NULL, KL_F32, 2, negative, &e), KL_ESHAPE);
    assert_non_null(strstr(e->message, "-1"));
    kl_error_release(e);
    assert_int_equal(kl_array_new_data(&x, NULL, KL_F32, 5, much, NULL), KL_ELIMIT);
    assert_int_equal(kl_array_new_data(&x, NULL, (enum kl_dtype)99, 0, NULL, NULL), KL_EDTYPE);
    assert_int_equal(kl_array_new_data(&x, NULL, KL_F32, -1, NULL, NULL), KL_ESHAPE);
    assert_int_equal(kl_array_new_data(&x, NULL, KL_F32, 1, NULL, NULL), KL_ESHAPE);
    assert_null(x);
    int none[3] = {2, 0, 3};
    void *data = NULL;
    /* An array without elements is allowed, and has an address. */
    assert_int_equal(kl_array_new_data(&x, NULL, KL_F32, 3, none, NULL), 0);
    assert_int_equal(kl_array_host(x, &data, NULL), 0);
    assert_non_null(data);
    kl_array_release(x);
}

/* ---- images ---- */

static bool within(const void *p, const void *memory, size_t bytes) {
    return (const char *)p >= (const char *)memory &&
           (const char *)p < (const char *)memory + bytes;
}

/* b is as a, and owns all its parts. */
static void expect_alike(struct kl_array *a, struct kl_array *b, size_t bytes) {
    const struct kl_node *m = a->node, *n = b->node;
    const void *own[] = {b->parts, b->t.dims, b->t.strides, b->t.fate,   b->t.buffer,   n,
                         n->in,    n->out,    n->task.in,   n->task.out, n->task.params};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) assert_true(within(own[i], b, bytes));
    assert_ptr_equal(b->parts->memory, b);
    assert_ptr_equal(b->parts->fate.parts, b->parts);
    assert_ptr_equal(b->parts->buffer.parts, b->parts);
    assert_ptr_equal(n->parts, b->parts);
    assert_ptr_equal(n->out[0], b);
    assert_ptr_equal(n->task.out[0], &b->t);
    assert_int_equal(a->parts->n, b->parts->n);
    assert_int_equal(a->parts->buffer.bytes, b->parts->buffer.bytes);
    assert_int_equal(a->refs, b->refs);
    assert_int_equal(a->out_index, b->out_index);
    assert_int_equal(a->has_range, b->has_range);
    assert_int_equal(a->lo, b->lo);
    assert_int_equal(a->hi, b->hi);
    assert_ptr_equal(a->trace, b->trace);
    assert_int_equal(a->t.dtype, b->t.dtype);
    assert_int_equal(a->t.layout, b->t.layout);
    assert_int_equal(a->t.ndim, b->t.ndim);
    assert_int_equal(a->t.size, b->t.size);
    assert_int_equal(a->t.offset, b->t.offset);
    assert_memory_equal(a->t.dims, b->t.dims, (size_t)a->t.ndim * sizeof(int));
    assert_memory_equal(a->t.strides, b->t.strides, (size_t)a->t.ndim * sizeof(int64_t));
    assert_int_equal(m->task.op, n->task.op);
    assert_int_equal(m->task.proved, n->task.proved);
    assert_int_equal(m->task.params_bytes, n->task.params_bytes);
    assert_memory_equal(m->task.params, n->task.params, m->task.params_bytes);
    assert_int_equal(m->may_be_kept, n->may_be_kept);
    assert_ptr_equal(m->stream, n->stream);
    assert_int_equal(m->n_in, n->n_in);
    assert_int_equal(m->n_out, n->n_out);
    for (int i = 0; i < m->n_in; i++) {
        assert_ptr_equal(m->in[i], n->in[i]);
        assert_ptr_equal(m->task.in[i], n->task.in[i]);
    }
}

/* A gather along an axis, which is checked unless the indices are proved to be good, and a maximum
 * of integers with a proved range; with and without a trace, and when the allocation fails. */
static void images_are_what_is_built(void **state) {
    for (int i = 0; i < 8; i++) {
        const bool gather = i & 1, ranges = i & 2, traced = i & 4;
        struct kl_array *in[2] = {t_vector(streams[0], 2, 3), t_vector(streams[0], 2, 1)}, *a, *b;
        const struct kl_axis_params axis = {0};
        const struct kl_operation o = {.op = gather ? KL_OP_GATHER_AXIS : KL_OP_MAXIMUM,
                                       .stream = streams[1],
                                       .params = &axis,
                                       .params_bytes = gather ? sizeof axis : 0,
                                       .in = in,
                                       .n_in = 2};
        const struct kl_out_spec spec = {KL_I32, 1, (int[]){2}};
        struct kl_trace *trace = NULL;
        struct kl_image *image;
        settle_all();
        for (int k = 0; ranges && k < 2; k++) kl_array_set_range(in[k], 0, k ? 1 : 3);
        if (traced) {
            assert_int_equal(kl_trace_begin(&trace, NULL), 0);
            in[0]->trace = kl_trace_retain(trace);
        }
        assert_int_equal(kl_image_new(&image, &o, &spec, NULL), 0);
        assert_int_equal(kl_array_op(&a, 1, &spec, &o, NULL), 0);
        kl_test_fail_alloc_at(0);
        assert_int_equal(kl_array_of_image(&b, image, in, streams[1], NULL), KL_ENOMEM);
        kl_test_fail_alloc_at(-1);
        for (int k = 0; k < 2; k++) kl_array_retain(in[k]); /* which b takes over */
        assert_int_equal(kl_array_of_image(&b, image, in, streams[1], NULL), 0);
        kl_free(image);
        assert_int_equal(a->node->task.proved, gather && ranges);
        assert_int_equal(a->has_range, !gather && ranges);
        assert_int_equal(a->node->may_be_kept, traced);
        expect_alike(a, b, (size_t)((char *)(b->node + 1) - (char *)b) + 128);
        void *data;
        assert_int_equal(kl_array_host(b, &data, NULL), 0);
        assert_int_equal(((const int *)data)[1], 3);
        if (trace) kl_trace_end(trace);
        kl_array_release(a);
        kl_array_release(b);
        settle_all();
        for (int k = 0; k < 2; k++) {
            assert_int_equal(atomic_load(&in[k]->refs), 1);
            kl_array_release(in[k]);
        }
    }
    struct kl_image *image = NULL;
    const struct kl_operation o = {.op = KL_OP_ADD};
    const struct kl_out_spec spec = {KL_I32, 0, NULL}, bad = {KL_I32, 1, (int[]){-1}};
    kl_test_fail_alloc_at(0);
    assert_int_equal(kl_image_new(&image, &o, &spec, NULL), KL_ENOMEM);
    kl_test_fail_alloc_at(-1);
    assert_int_equal(kl_image_new(&image, &o, &bad, NULL), KL_ESHAPE);
    assert_null(image);
}

/* ---- tracers ---- */

static void tracers_keep_their_inputs(void **state) {
    FOR_EACH_PLACEMENT(a, b) {
        for (int level = 0; level < 2; level++) {
            struct kl_array *x = t_const(a, 1), *r = NULL;
            assert_int_equal(t_value(x), 1);
            struct kl_trace *trace = NULL;
            if (level) {
                assert_int_equal(kl_trace_begin(&trace, NULL), 0);
                x->trace = kl_trace_retain(trace);
            }
            struct kl_array *y = t_inc(a, x), *z = t_inc(b, y);
            assert_int_equal(kl_reshape(&r, z, (int[]){1}, 1, b, NULL), 0);
            assert_ptr_equal(z->trace, trace);
            assert_ptr_equal(r->trace, trace);
            assert_int_equal(t_value(r), 3);
            assert_int_equal(kl_stream_synchronize(a, NULL), 0);
            assert_int_equal(kl_stream_synchronize(b, NULL), 0);
            if (level) { /* the graph can still be walked back to its leaf */
                assert_non_null(r->node);
                assert_ptr_equal(r->node->in[0], z);
                assert_ptr_equal(z->node->in[0], y);
                assert_ptr_equal(y->node->in[0], x);
                assert_int_equal(z->node->n_in, 1);
                kl_trace_end(trace);
            }
            assert_null(r->node);
            assert_null(z->node);
            assert_int_equal(atomic_load(&x->refs), 1);
            assert_int_equal(t_value(z), 3); /* the operation is not run again */
            struct kl_array *w = t_inc(b, z);
            assert_int_equal(t_value(w), 4);
            kl_array_release(x);
            kl_array_release(y);
            kl_array_release(z);
            kl_array_release(r);
            assert_int_equal(t_value(w), 4);
            kl_array_release(w);
        }
    }
}

static int make_streams(void **state) {
    t_use_sim(NULL);
    t_streams("ccgg", streams);
    struct kl_array *warm = chain(10000, 4); /* makes the threads, queues and default streams */
    assert_int_equal(t_value(warm), 10000);
    kl_array_release(warm);
    settle_all();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_of_a_million),
        cmocka_unit_test(freed_without_evaluation),
        cmocka_unit_test(a_value_with_a_million_consumers),
        cmocka_unit_test(one_output_dropped),
        cmocka_unit_test(outputs_in_several_threads),
        cmocka_unit_test(views_share_what_becomes_of_the_value),
        cmocka_unit_test(user_memory_is_let_go_once),
        cmocka_unit_test(failed_from_the_start),
        cmocka_unit_test(impossible_shapes),
        cmocka_unit_test(images_are_what_is_built),
        cmocka_unit_test(tracers_keep_their_inputs),
    };
    return cmocka_run_group_tests(tests, make_streams, NULL);
}
