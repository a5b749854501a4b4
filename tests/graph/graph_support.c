/* graph_support.c - see graph_support.h. */
#include "graph/graph_support.h"

#include <sched.h>

const char *const t_placements[4] = {"cc", "gg", "cg", "gc"};

void gate_init(struct gate *g) {
    pthread_mutex_init(&g->mu, NULL);
    pthread_cond_init(&g->changed, NULL);
    g->open = false;
    g->n_inside = 0;
}

void gate_open(struct gate *g) {
    pthread_mutex_lock(&g->mu);
    g->open = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->mu);
}

void gate_wait_arrived(struct gate *g, int n) {
    pthread_mutex_lock(&g->mu);
    while (g->n_inside < n) pthread_cond_wait(&g->changed, &g->mu);
    pthread_mutex_unlock(&g->mu);
}

void gate_pass(struct gate *g) {
    pthread_mutex_lock(&g->mu);
    g->n_inside++;
    pthread_cond_broadcast(&g->changed);
    while (!g->open) pthread_cond_wait(&g->changed, &g->mu);
    pthread_mutex_unlock(&g->mu);
}

static int in_int(struct kl_launch *l, int i) {
    return i < l->n_in ? *(const int *)l->in[i].data : 0;
}

static int k_const(void *ctx, struct kl_launch *l, struct kl_error **err) {
    int *p = l->out[0].data;
    for (int64_t i = 0; i < l->out[0].size; i++) p[i] = (int)(intptr_t)ctx;
    return KL_OK;
}

/* The sum is unsigned: on a device this kernel also runs on the output of a failed kernel, which
 * may be any bits. */
static int k_sum(void *ctx, struct kl_launch *l, struct kl_error **err) {
    for (int o = 0; o < l->n_out; o++) {
        unsigned v = (unsigned)(intptr_t)ctx + (unsigned)o;
        for (int i = 0; i < l->n_in; i++) v += (unsigned)in_int(l, i);
        *(unsigned *)l->out[o].data = v;
    }
    return KL_OK;
}

static int k_fail(void *ctx, struct kl_launch *l, struct kl_error **err) {
    return kl_fail(err, KL_EKERNEL, "fail: this kernel always fails");
}

static int k_gate(void *ctx, struct kl_launch *l, struct kl_error **err) {
    gate_pass(ctx);
    return k_sum(NULL, l, err);
}

static int k_gate_fail(void *ctx, struct kl_launch *l, struct kl_error **err) {
    gate_pass(ctx);
    return k_fail(NULL, l, err);
}

static struct kl_stream *or_default(struct kl_stream *s) {
    if (s) return s;
    assert_int_equal(kl_stream_default(&s, KL_CPU, 0, NULL), 0);
    kl_stream_release(s); /* the thread that runs the stream holds a reference of its own */
    return s;
}

struct kl_array *t_call(struct kl_stream *s, const struct kl_call_params *p,
                        struct kl_array *const *in, int n_in, enum kl_dtype dtype, int ndim,
                        const int *dims) {
    struct kl_array *out = NULL;
    int rc = kl_array_op1(&out,
                          &(struct kl_operation){.op = KL_OP_CALL,
                                                 .stream = or_default(s),
                                                 .params = p,
                                                 .params_bytes = sizeof *p,
                                                 .in = in,
                                                 .n_in = n_in},
                          dtype, ndim, dims, NULL);
    assert_int_equal(rc, 0);
    return out;
}

static struct kl_array *call(struct kl_stream *s, const char *name,
                             int (*fn)(void *, struct kl_launch *, struct kl_error **), void *ctx,
                             struct kl_array *a, struct kl_array *b) {
    struct kl_call_params p = {.name = name, .fn = fn, .ctx = ctx};
    struct kl_array *in[2] = {a, b};
    return t_call(s, &p, in, (a != NULL) + (b != NULL), KL_I32, 0, NULL);
}

struct kl_array *t_const(struct kl_stream *s, int value) {
    return call(s, "const", k_const, (void *)(intptr_t)value, NULL, NULL);
}

struct kl_array *t_vector(struct kl_stream *s, int n, int value) {
    struct kl_call_params p = {.name = "vector", .fn = k_const, .ctx = (void *)(intptr_t)value};
    return t_call(s, &p, NULL, 0, KL_I32, 1, &n);
}

struct kl_array *t_inc(struct kl_stream *s, struct kl_array *a) {
    return call(s, "inc", k_sum, (void *)(intptr_t)1, a, NULL);
}

struct kl_array *t_add(struct kl_stream *s, struct kl_array *a, struct kl_array *b) {
    return call(s, "sum", k_sum, NULL, a, b);
}

struct kl_array *t_fail(struct kl_stream *s, struct kl_array *a) {
    return call(s, "fail", k_fail, NULL, a, NULL);
}

struct kl_array *t_gated(struct kl_stream *s, struct kl_array *a, struct gate *g, bool fail) {
    return call(s, fail ? "gated_fail" : "gated", fail ? k_gate_fail : k_gate, g, a, NULL);
}

void t_pair(struct kl_stream *s, struct kl_array *a, bool fail, struct kl_array *out[2]) {
    struct kl_call_params p = {.name = fail ? "pair_fail" : "pair",
                               .fn = fail ? k_fail : k_sum,
                               .ctx = (void *)(intptr_t)1};
    struct kl_out_spec specs[2] = {{KL_I32, 0, NULL}, {KL_I32, 0, NULL}};
    assert_int_equal(kl_array_op(out, 2, specs,
                                 &(struct kl_operation){.op = KL_OP_CALL,
                                                        .stream = or_default(s),
                                                        .params = &p,
                                                        .params_bytes = sizeof p,
                                                        .in = &a,
                                                        .n_in = 1},
                                 NULL),
                     0);
}

int t_value(struct kl_array *a) {
    void *data = NULL;
    struct kl_error *e = NULL;
    int rc = kl_array_host(a, &data, &e);
    if (rc) fail_msg("unexpected error %d: %s", rc, e ? e->message : "none");
    return *(const int *)data;
}

struct kl_error *t_error(struct kl_array *a) {
    void *data = NULL;
    struct kl_error *e = NULL;
    int rc = kl_array_host(a, &data, &e);
    assert_int_not_equal(rc, 0);
    assert_non_null(e);
    assert_int_equal(rc, e->code);
    return e;
}

void t_expect_error(struct kl_array *a, int code) {
    struct kl_error *e = t_error(a);
    if (e->code != code) fail_msg("error %d (%s), expected %d", e->code, e->message, code);
    kl_error_release(e);
}

void t_settle(struct kl_array *a) {
    assert_int_equal(kl_async_eval(&a, 1, NULL), 0);
    assert_int_equal(kl_wait_fate(a->t.fate, NULL), 0);
}

void t_streams(const char *kinds, struct kl_stream **out) {
    for (int i = 0; kinds[i]; i++)
        assert_int_equal(kl_stream_new(&out[i], kinds[i] == 'g' ? KL_GPU : KL_CPU, 0, NULL), 0);
}

void t_streams_free(int n, struct kl_stream **s) {
    for (int i = 0; i < n; i++) kl_stream_release(s[i]);
}

int t_use_sim(void **state) {
    return setenv("KEEL_GPU", "sim", 1);
}
