/* request.c - one operation of a group: prepared when it is built, launched when its inputs are
 * settled, moved on by the passes of progress.c, and settled. */
#include <stdio.h>
#include <string.h>

#include "backend/collective/collective.h"
#include "backend/collective/device.h"
#include "base/alloc.h"
#include "base/platform/clock.h"
#include "base/refs.h"
#include "base/value/failures.h"

static const struct kind {
    enum kl_exchange_kind kind;
    enum kl_reduction reduction;
} kinds[KL_N_OPS] = {
    [KL_OP_ALL_SUM] = {KL_EXCHANGE_REDUCE, KL_REDUCE_SUM},
    [KL_OP_ALL_MAX] = {KL_EXCHANGE_REDUCE, KL_REDUCE_MAX},
    [KL_OP_ALL_MIN] = {KL_EXCHANGE_REDUCE, KL_REDUCE_MIN},
    [KL_OP_ALL_GATHER] = {KL_EXCHANGE_GATHER, 0},
    [KL_OP_SUM_SCATTER] = {KL_EXCHANGE_SCATTER, KL_REDUCE_SUM},
    [KL_OP_SEND] = {KL_EXCHANGE_SEND, 0},
    [KL_OP_RECV] = {KL_EXCHANGE_RECEIVE, 0},
};

/* ---- what an exchange is, in a word ---- */
enum { SIZE_BITS = 48, DTYPE_BITS = 6 };

static int64_t what_of(enum kl_op_id op, enum kl_dtype dtype, int64_t n) {
    /* A receipt is what the sender sends. */
    const int64_t what = (int64_t)(op == KL_OP_RECV ? KL_OP_SEND : op) - KL_OP_ALL_SUM;
    return what << (SIZE_BITS + DTYPE_BITS) | (int64_t)dtype << SIZE_BITS |
           (n & (((int64_t)1 << SIZE_BITS) - 1));
}

struct what_text {
    char s[96];
};

static struct what_text what_text(int64_t what) {
    struct what_text t;
    const int64_t op = (what >> (SIZE_BITS + DTYPE_BITS)) + KL_OP_ALL_SUM;
    const int dtype = (int)(what >> SIZE_BITS & ((1 << DTYPE_BITS) - 1));
    const bool known = op >= KL_OP_ALL_SUM && op < KL_N_OPS && kl_dtype_valid(dtype);
    if (known)
        snprintf(t.s, sizeof t.s, "%s of %lld elements of %s", kl_op_name((enum kl_op_id)op),
                 (long long)(what & (((int64_t)1 << SIZE_BITS) - 1)),
                 kl_dtype_name((enum kl_dtype)dtype));
    else
        strcpy(t.s, "something else");
    return t;
}

static void set_words(struct kl_request *r) {
    int64_t *w = r->x.words;
    w[KL_WORD_FAILED] = r->own ? r->group->rank : r->group->size;
    w[KL_WORD_WHAT] = what_of(r->op, r->dtype, r->x.n);
    w[KL_WORD_NOT_WHAT] = -w[KL_WORD_WHAT];
    w[KL_WORD_NUMBER] = r->number;
    w[KL_WORD_NOT_NUMBER] = -r->number;
    w[KL_EXCHANGE_N_WORDS - 1] = 0;
}

struct kl_error *kl_unlike_error(enum kl_op_id op, int64_t a, int64_t b, int64_t i, int64_t k) {
    struct kl_error_info info = {.code = KL_EGROUP, .op = kl_op_name(op)};
    if (a != b)
        return kl_error_new(&info,
                            "%s: ranks of the group do not do the same: one has %s as number %lld, "
                            "another has %s",
                            kl_op_name(op), what_text(a).s, (long long)i, what_text(b).s);
    return kl_error_new(&info,
                        "%s: ranks of the group do not do the same: one is at number %lld, another "
                        "at number %lld",
                        kl_op_name(op), (long long)i, (long long)k);
}

/* Whether the words say that the ranks do not do the same; then *e, owned, says what they do. */
static bool mismatch(const struct kl_request *r, const int64_t *w, struct kl_error **e) {
    int64_t a = w[KL_WORD_WHAT], b = -w[KL_WORD_NOT_WHAT];
    int64_t i = w[KL_WORD_NUMBER], k = -w[KL_WORD_NOT_NUMBER];
    if (r->op == KL_OP_RECV) { /* the words are the sender's */
        b = what_of(r->op, r->dtype, r->x.n);
        k = r->number;
    }
    if (a == b && i == k) return false;
    *e = kl_unlike_error(r->op, a, b, i, k);
    return true;
}

/* ---- building ---- */

static _Atomic(uint64_t) last_serial;
static __thread uint64_t next_serial; /* 0: a new one */

uint64_t kl_collective_serials(uint64_t n) {
    return atomic_fetch_add(&last_serial, n) + 1;
}

void kl_collective_next_serial(uint64_t serial) {
    next_serial = serial;
}

static void reserve_release(struct kl_reserve *v) {
    if (!v || !kl_refs_drop(&v->refs)) return;
    kl_free(v->zeros);
    kl_free(v->sink);
    kl_free(v);
}

/* The group's reserve, retained, at least that large. A larger one takes the place of the present
 * one, which lives on while requests have it. */
static struct kl_reserve *reserve_get(struct kl_group *g, size_t zeros, size_t sink) {
    kl_mutex_lock(&g->mu);
    struct kl_reserve *v = g->reserve;
    if (!v || v->zeros_bytes < zeros || v->sink_bytes < sink) {
        if (v && v->zeros_bytes > zeros) zeros = v->zeros_bytes;
        if (v && v->sink_bytes > sink) sink = v->sink_bytes;
        struct kl_reserve *more = kl_malloc(sizeof *more);
        if (more) {
            *more = (struct kl_reserve){.zeros_bytes = zeros, .sink_bytes = sink};
            atomic_init(&more->refs, 1);
            more->zeros = kl_calloc(1, zeros ? zeros : 1);
            more->sink = kl_malloc(sink ? sink : 1);
            if (!more->zeros || !more->sink) {
                reserve_release(more);
                more = NULL;
            }
        }
        if (more) {
            reserve_release(v);
            g->reserve = more;
        }
        v = more;
    }
    if (v) atomic_fetch_add(&v->refs, 1);
    kl_mutex_unlock(&g->mu);
    return v;
}

int kl_lane_of(enum kl_op_id op, int peer) {
    if (op == KL_OP_SEND) return kl_lane_send(peer);
    return op == KL_OP_RECV ? kl_lane_receive(peer) : KL_LANE_ALL;
}

static int stream_of(struct kl_group *g, int lane, struct kl_stream **out, struct kl_error **err) {
    struct kl_lane *l = &g->lanes[lane];
    struct kl_stream *s = atomic_load_explicit(&l->stream, memory_order_acquire);
    int rc = KL_OK;
    if (!s) {
        kl_mutex_lock(&g->mu);
        if (!(s = atomic_load(&l->stream)) &&
            !(rc = kl_collective_host.stream_new(&s, &kl_collective_backend, false, err)))
            atomic_store_explicit(&l->stream, s, memory_order_release);
        kl_mutex_unlock(&g->mu);
    }
    *out = s;
    return rc;
}

/* The exchange of a request, but for its addresses, and what it needs without a value. */
static void describe(struct kl_request *r, const struct kl_task *t, int peer, size_t *zeros,
                     size_t *sink) {
    const struct kind *k = &kinds[t->op];
    const struct kl_tensor *in = t->n_in ? t->in[0] : NULL, *out = t->out[0];
    enum kl_reduction by = k->reduction;
    enum kl_dtype as;
    r->passage = kl_passage_of(r->group->comm->engine, k->kind, r->dtype, &by, &as);
    const int64_t wide = r->passage == KL_PASS_PAIRS ? 2 : 1;
    const bool by_out = k->kind == KL_EXCHANGE_SCATTER || k->kind == KL_EXCHANGE_RECEIVE;
    r->x = (struct kl_exchange){.kind = k->kind,
                                .reduction = by,
                                .dtype = as,
                                .peer = peer,
                                .n = wide * (by_out ? out->size : in->size)};
    *zeros = in ? (size_t)(wide * in->size) * kl_dtype_size(as) : 0;
    *sink = t->op == KL_OP_SEND ? 0 : (size_t)(wide * out->size) * kl_dtype_size(as);
}

void kl_describe_for_device(struct kl_device_part *p, const struct kl_task *t) {
    const struct kind *k = &kinds[t->op];
    const struct kl_tensor *in = t->n_in ? t->in[0] : NULL, *out = t->out[0];
    const bool by_out = k->kind == KL_EXCHANGE_SCATTER || k->kind == KL_EXCHANGE_RECEIVE;
    const int64_t n = by_out ? out->size : in->size;
    p->kind = k->kind;
    p->reduction = k->reduction;
    p->passage = kl_device_passage_of(k->kind, (enum kl_dtype)out->dtype, &p->reduction, &p->as);
    p->n = p->passage == KL_PASS_PAIRS ? 2 * n : n;
    p->what = what_of(t->op, (enum kl_dtype)out->dtype, p->n);
}

static int no_host(const struct kl_group *g, struct kl_error **err) {
    return kl_fail(err, KL_EGROUP,
                   "the group moves values of %s by the backend nccl, and no others: the stream is "
                   "of another device, and the processes were not started by a launcher of MPI",
                   g->device ? g->device->backend->name : "no device");
}

/* Where other ranks have given streams of the devices that they joined with, these would wait for
 * this rank for ever. */
static int other_device(const struct kl_group *g, const struct kl_backend *b,
                        struct kl_error **err) {
    return kl_fail(err, KL_EGROUP,
                   "the stream is of device %s, but this process joined the group with device %s: "
                   "give a stream of that one, which is the default device after init",
                   b->name, g->device->backend->name);
}

int kl_collective_prepare(struct kl_task *t, struct kl_stream *user, int64_t user_index,
                          struct kl_error **err) {
    /* The parameters are the task's own copy, and nobody else has seen them yet. */
    struct kl_collective_params *p = (struct kl_collective_params *)(uintptr_t)t->params;
    struct kl_group *g = p->group;
    size_t zeros, sink;
    p->serial = next_serial ? next_serial : kl_collective_serials(1);
    next_serial = 0;
    p->request = NULL;
    p->part = NULL;
    const bool to_itself = kl_lane_of(t->op, p->peer) != KL_LANE_ALL && p->peer == g->rank;
    const struct kl_backend *b = kl_collective_host.stream_backend(user);
    const bool on_device = g->device && b == g->device->backend;
    if (g->device && !on_device && b->ops == g->device->backend->ops)
        return other_device(g, b, err);
    if (on_device && !to_itself) return kl_device_prepare(t, g, user, user_index, err);
    if (!g->comm && to_itself)
        return kl_fail(err, KL_EGROUP, "the backend nccl sends nothing to the rank itself");
    if (!g->comm) return no_host(g, err);
    struct kl_request *r = kl_calloc(1, sizeof *r);
    if (!r) return kl_fail_nomem(err);
    r->op = t->op;
    r->dtype = (enum kl_dtype)t->out[0]->dtype;
    r->group = kl_group_retain(g);
    r->lane = kl_lane_of(t->op, p->peer);
    r->user = user;
    r->user_index = user_index;
    describe(r, t, p->peer, &zeros, &sink);
    const struct kl_engine *e = g->comm->engine;
    int rc = stream_of(g, r->lane, &r->stream, err);
    if (!rc) {
        r->reserve = reserve_get(g, zeros, sink);
        r->x.state = e->reserve(g->comm, r->x.kind, r->x.n);
        if (g->checks) r->check.state = e->reserve(g->comm, KL_EXCHANGE_WORDS, 0);
        if (!r->reserve || !r->x.state || (g->checks && !r->check.state)) rc = kl_fail_nomem(err);
    }
    if (rc)
        kl_request_free(r);
    else
        p->request = r;
    return rc;
}

void kl_collective_drop(const struct kl_task *t) {
    const struct kl_collective_params *p = t->params;
    if (p->request) kl_request_free(p->request);
    if (p->part) p->part->ops->drop(p->part);
    kl_group_release(p->group);
}

struct kl_stream *kl_collective_stream(const struct kl_task *t) {
    const struct kl_collective_params *p = t->params;
    return p->part ? kl_device_stream(p->part) : p->request->stream;
}

void kl_collective_committed(const struct kl_task *t, struct kl_timeline *timeline,
                             uint64_t ticket) {
    const struct kl_collective_params *p = t->params;
    if (p->part) kl_device_committed(p->part, timeline, ticket);
}

bool kl_collective_waits(const struct kl_task *t, struct kl_wait *w) {
    const struct kl_collective_params *p = t->params;
    return p->part && kl_device_waits(p->part, w);
}

uint64_t kl_collective_serial(const struct kl_task *t) {
    return ((const struct kl_collective_params *)t->params)->serial;
}

void kl_request_free(struct kl_request *r) {
    const struct kl_engine *e = r->group->comm->engine;
    if (!r->gives_up) {
        e->drop(r->x.state);
        e->drop(r->check.state);
        reserve_release(r->reserve);
        kl_group_release(r->group);
    }
    kl_error_release(r->own);
    kl_error_release(r->error);
    if (!r->gives_up) kl_free(r);
}

/* ---- launching ---- */

static char *address_of(const struct kl_tensor *t) {
    struct kl_block *b = kl_buffer_block_on(t->buffer, kl_collective_host.memory);
    return b ? (char *)b->ptr + t->offset * (int64_t)kl_dtype_size(t->dtype) : NULL;
}

/* Puts the input into the form in which the engine takes it. */
static int pass_in(struct kl_request *r, const char *in, char *out, int64_t n_in,
                   struct kl_error **err) {
    struct kl_memory *m = kl_collective_host.memory;
    const size_t item = kl_dtype_size(r->dtype);
    const bool scatters = r->x.kind == KL_EXCHANGE_SCATTER;
    r->x.from = in;
    r->x.to = out;
    if (r->x.kind == KL_EXCHANGE_SEND && in != out && n_in) memcpy(out, in, (size_t)n_in * item);
    if (r->passage == KL_PASS_SAME || r->passage == KL_PASS_PAIRS || !n_in) return KL_OK;
    if (r->passage == KL_PASS_WIDE || scatters) {
        const size_t wide = kl_dtype_size(r->x.dtype);
        const size_t bytes = (size_t)n_in * wide + (scatters ? (size_t)r->n_result * wide : 0);
        KL_TRY(m->take(m, bytes, r->fate->timeline, &r->temp, err));
        if (kl_block_note_use(r->temp, r->fate->timeline, r->ticket)) return kl_fail_nomem(err);
        r->x.from = r->temp->ptr;
        r->x.to = (char *)r->temp->ptr + (scatters ? (size_t)n_in * wide : 0);
    } else {
        r->x.from = r->x.to = out;
    }
    if (r->passage == KL_PASS_WIDE)
        kl_numbers_widen((void *)(uintptr_t)r->x.from, in, r->dtype, n_in);
    else
        kl_numbers_order((void *)(uintptr_t)r->x.from, in, r->dtype,
                         r->x.reduction == KL_REDUCE_MAX, n_in);
    return KL_OK;
}

static void begin(struct kl_request *r, int64_t now) {
    struct kl_error *e = NULL;
    struct kl_comm *c = r->group->comm;
    r->state = KL_REQUEST_RUNS;
    r->since = now;
    if (c->engine->start(c, &r->x, &e)) kl_group_break(r->group, e);
}

static void begin_check(struct kl_request *r, int64_t now) {
    struct kl_error *e = NULL;
    struct kl_comm *c = r->group->comm;
    r->state = KL_REQUEST_CHECKS;
    r->since = now;
    r->check.kind = KL_EXCHANGE_WORDS;
    memcpy(r->check.words, r->x.words, sizeof r->check.words);
    if (c->engine->start(c, &r->check, &e)) kl_group_break(r->group, e);
}

/* Keeps what the request needs of its task, which ends with the launch. */
static void keep_operands(struct kl_request *r, struct kl_task *t) {
    r->ticket = t->ticket;
    r->submitter = t->submitter;
    r->fate = kl_fate_retain(t->out[0]->fate);
    r->out = kl_buffer_retain(t->out[0]->buffer);
    r->in = t->n_in ? kl_buffer_retain(t->in[0]->buffer) : NULL;
    r->n_result = t->out[0]->size;
}

int kl_collective_launch(struct kl_backend *b, struct kl_queue *q, struct kl_task *t,
                         struct kl_error **err) {
    struct kl_collective_params *p = (struct kl_collective_params *)(uintptr_t)t->params;
    struct kl_request *r = p->request;
    p->request = NULL;
    keep_operands(r, t);
    r->own = *err;
    *err = NULL;
    if (!r->own) {
        r->result = address_of(t->out[0]);
        if (pass_in(r, t->n_in ? address_of(t->in[0]) : NULL, r->result,
                    t->n_in ? t->in[0]->size : 0, &r->own) &&
            !r->own)
            r->own = kl_error_static(KL_ENOMEM);
    }
    if (r->own) {
        r->x.from = r->reserve->zeros;
        r->x.to = r->reserve->sink;
    }
    kl_progress_lock();
    struct kl_group *g = r->group;
    kl_progress_add(q, r);
    r->since = kl_clock_ns();
    if (g->broken) {
        kl_request_fail(r, r->own ? r->own : g->broken);
    } else {
        r->number = g->lanes[r->lane].number++;
        set_words(r);
        if (r->own) kl_group_tell_cause(KL_NAME_OF(r), r->own);
        if (g->checks && r->lane == KL_LANE_ALL)
            r->state = KL_REQUEST_WAITS;
        else
            begin(r, r->since);
    }
    kl_progress_unlock();
    return KL_LAUNCH_PENDING;
}

/* ---- moving on ---- */

void kl_request_fail(struct kl_request *r, struct kl_error *e) {
    if (r->state == KL_REQUEST_DONE) return;
    if (r->state == KL_REQUEST_CHECKS || r->state == KL_REQUEST_RUNS)
        r->gives_up = r->group->lost_exchange = true;
    r->state = KL_REQUEST_DONE;
    r->error = kl_error_retain(e);
}

/* The exchange is done. The failure of the lowest rank is everybody's. */
static void conclude(struct kl_request *r, int64_t now) {
    struct kl_group *g = r->group;
    int64_t failed = r->x.words[KL_WORD_FAILED];
    if (r->op == KL_OP_RECV && failed < g->size) failed = r->x.peer;
    r->state = KL_REQUEST_ASKS; /* nothing of it is under way */
    if (r->own && (failed == g->rank || r->op == KL_OP_RECV)) {
        kl_request_fail(r, r->own);
    } else if (failed < g->size) {
        struct kl_error *e = kl_group_cause(KL_NAME_OF(r), (int)failed);
        if (e) kl_request_fail(r, e);
        kl_error_release(e);
    } else {
        r->state = KL_REQUEST_DONE;
    }
}

struct kl_error *kl_late_error(enum kl_op_id op, int64_t number) {
    struct kl_error_info info = {.code = KL_EGROUP, .op = kl_op_name(op)};
    return kl_error_new(&info,
                        "%s: number %lld of the group was not done within %g s "
                        "(KEEL_DIST_TIMEOUT): not all ranks took part",
                        kl_op_name(op), (long long)number, (double)kl_collective_limit_ns / 1e9);
}

static void check_limit(struct kl_request *r, int64_t now) {
    if (now - r->since > kl_collective_limit_ns)
        kl_group_break(r->group, kl_late_error(r->op, r->number));
}

/* Asks the engine about x. true: it is done, and the ranks do the same. */
static bool is_over(struct kl_request *r, struct kl_exchange *x) {
    struct kl_comm *c = r->group->comm;
    struct kl_error *e = NULL, *unlike = NULL;
    const bool knew = x->words_done;
    bool done = false;
    int rc = c->engine->test(c, x, &done, &e);
    if (x->words_done && !knew && mismatch(r, x->words, &unlike)) {
        kl_error_release(e);
        e = unlike;
    }
    if (!rc && !e) return done;
    if (done) r->state = KL_REQUEST_ASKS; /* nothing of it is under way */
    kl_group_break(r->group, e ? e : kl_error_static(rc));
    return false;
}

void kl_request_advance(struct kl_request *r, bool is_first, int64_t now) {
    if (r->state == KL_REQUEST_WAITS && is_first) begin_check(r, now);
    if (r->state == KL_REQUEST_CHECKS && is_over(r, &r->check)) begin(r, now);
    if (r->state == KL_REQUEST_RUNS && is_over(r, &r->x)) conclude(r, now);
    if (r->state == KL_REQUEST_ASKS) conclude(r, now);
    if (r->state != KL_REQUEST_DONE && r->state != KL_REQUEST_WAITS) check_limit(r, now);
}

/* ---- settling ---- */

/* Puts the result of the engine into the form of the output. */
static void pass_out(struct kl_request *r) {
    if (r->error || !r->n_result) return;
    if (r->passage == KL_PASS_WIDE) {
        kl_numbers_narrow(r->result, r->x.to, r->dtype, r->n_result);
    } else if (r->passage == KL_PASS_ORDERED) {
        if (r->x.to != r->result)
            memcpy(r->result, r->x.to, (size_t)r->n_result * kl_dtype_size(r->dtype));
        kl_numbers_unorder(r->result, r->dtype, r->n_result);
    }
}

void kl_request_settle(struct kl_request *r) {
    pass_out(r);
    /* Memory that the engine may still read or write is never given back. */
    if (!r->gives_up) {
        if (r->temp) r->temp->memory->give_back(r->temp->memory, r->temp);
        kl_buffer_release(r->in);
        kl_buffer_release(r->out);
    }
    struct kl_fate *f = r->fate;
    if (r->error) {
        kl_failures_note(r->user_index, r->error, r->submitter);
        kl_fate_set_failed(f, r->error);
    } else {
        kl_fate_set_ready(f);
    }
    kl_collective_host.stream_settled(r->user);
    kl_request_free(r);
    kl_fate_release(f);
}
