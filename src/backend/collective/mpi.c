/* mpi.c - see mpi.h.
 *
 * An exchange is a list of MPI's non-blocking calls, the words' first. MPI counts elements in an
 * int, so a longer exchange is several calls over pieces; one of gathers or scatters is then one
 * broadcast or reduction per rank and piece. */
#include "backend/collective/mpi.h"

#include <sched.h>
#include <signal.h>
#include <string.h>

#include "backend/collective/mpi_abi.h"
#include "base/alloc.h"
#include "base/platform/clock.h"
#include "base/thread.h"

struct mpi_comm {
    struct kl_comm base;
    kl_mpi_handle data; /* carries exchanges */
    kl_mpi_handle meta; /* carries splits */
};

/* The calls of one exchange; what kl_exchange.state is. */
struct calls {
    int n, room, n_done; /* calls made, room for them, and done from the front */
    kl_mpi_handle request[];
};

static const struct kl_mpi *mpi;
static bool is_ours; /* kl_mpi_open initialised MPI */
static int64_t largest_piece = INT32_MAX;

static int fail(struct kl_error **err, const char *call, int code) {
    char text[KL_MPI_TEXT_BYTES] = "";
    int bytes = 0;
    if (mpi->error_string(code, text, &bytes)) text[0] = 0;
    return kl_fail(err, KL_EGROUP, "%s failed: %.300s", call, text);
}

/* Returns from the caller when a call of MPI failed. */
#define MPI(call)                                                    \
    do {                                                             \
        int mpi_rc_ = mpi->call;                                     \
        if (mpi_rc_) return fail(err, "MPI's call " #call, mpi_rc_); \
    } while (0)

/* ---- which types ---- */

static bool reduces(enum kl_reduction r, enum kl_dtype dtype) {
    /* Open MPI's sums of 8 and 16 bits saturate where they use AVX. */
    if (kl_dtype_is_int(dtype)) return r != KL_REDUCE_SUM || kl_dtype_size(dtype) >= 4;
    /* MPI does not say what the larger of a number and NaN is. */
    return r == KL_REDUCE_SUM && (dtype == KL_F32 || dtype == KL_F64);
}

static enum kl_mpi_type reduced_type(enum kl_reduction r, enum kl_dtype dtype) {
    const bool sum = r == KL_REDUCE_SUM; /* that of signed integers wraps when it is unsigned */
    switch (dtype) {
    case KL_I8: return KL_MPI_I8;
    case KL_I16: return KL_MPI_I16;
    case KL_I32: return sum ? KL_MPI_U32 : KL_MPI_I32;
    case KL_I64: return sum ? KL_MPI_U64 : KL_MPI_I64;
    case KL_U16: return KL_MPI_U16;
    case KL_U32: return KL_MPI_U32;
    case KL_U64: return KL_MPI_U64;
    case KL_F32: return KL_MPI_F32;
    case KL_F64: return KL_MPI_F64;
    default: return KL_MPI_U8;
    }
}

static enum kl_mpi_type moved_type(enum kl_dtype dtype) {
    switch (kl_dtype_size(dtype)) {
    case 1: return KL_MPI_U8;
    case 2: return KL_MPI_U16;
    case 4: return KL_MPI_U32;
    default: return KL_MPI_U64;
    }
}

static enum kl_mpi_op op_of(enum kl_reduction r) {
    return r == KL_REDUCE_SUM ? KL_MPI_SUM : r == KL_REDUCE_MAX ? KL_MPI_MAX : KL_MPI_MIN;
}

/* ---- exchanges ---- */

static int64_t n_pieces(int64_t n) {
    return (n + largest_piece - 1) / largest_piece;
}

static void *reserve(struct kl_comm *c, enum kl_exchange_kind kind, int64_t n) {
    int64_t calls = n_pieces(n);
    if ((kind == KL_EXCHANGE_GATHER || kind == KL_EXCHANGE_SCATTER) && calls > 1) calls *= c->size;
    if (calls > 1 << 20) return NULL;
    struct calls *s = kl_malloc(sizeof *s + (size_t)(calls + 1) * sizeof s->request[0]);
    if (s) *s = (struct calls){.room = (int)calls + 1};
    return s;
}

static void drop(void *reserved) {
    kl_free(reserved);
}

static kl_mpi_handle *next_call(struct calls *s) {
    kl_assert(s->n < s->room);
    s->request[s->n] = mpi->no_request;
    return &s->request[s->n++];
}

enum { TAG_WORDS, TAG_DATA };

static int start_words(struct mpi_comm *c, struct kl_exchange *x, struct kl_error **err) {
    memcpy(x->mine, x->words, sizeof x->mine);
    x->words_done = false;
    kl_mpi_handle *r = next_call(x->state);
    if (x->kind == KL_EXCHANGE_SEND)
        MPI(isend(x->mine, KL_EXCHANGE_N_WORDS, KL_MPI_I64, x->peer, TAG_WORDS, c->data, r));
    else if (x->kind == KL_EXCHANGE_RECEIVE)
        MPI(irecv(x->words, KL_EXCHANGE_N_WORDS, KL_MPI_I64, x->peer, TAG_WORDS, c->data, r));
    else
        MPI(iallreduce(x->mine, x->words, KL_EXCHANGE_N_WORDS, KL_MPI_I64, KL_MPI_MIN, c->data, r));
    return KL_OK;
}

/* A piece of n elements at element `at` of an exchange whose ranks do the same to all elements. */
static int start_piece(struct mpi_comm *c, struct kl_exchange *x, int64_t at, int n,
                       struct kl_error **err) {
    const size_t offset = (size_t)at * kl_dtype_size(x->dtype);
    const char *from = x->from ? (const char *)x->from + offset : NULL;
    char *to = x->to ? (char *)x->to + offset : NULL;
    kl_mpi_handle *r = next_call(x->state);
    if (x->kind == KL_EXCHANGE_SEND)
        MPI(isend(from, n, moved_type(x->dtype), x->peer, TAG_DATA, c->data, r));
    else if (x->kind == KL_EXCHANGE_RECEIVE)
        MPI(irecv(to, n, moved_type(x->dtype), x->peer, TAG_DATA, c->data, r));
    else
        MPI(iallreduce(from == to ? mpi->in_place : from, to, n,
                       reduced_type(x->reduction, x->dtype), op_of(x->reduction), c->data, r));
    return KL_OK;
}

/* A gather or a scatter, whose parts lie one after another. */
static int start_parts(struct mpi_comm *c, struct kl_exchange *x, struct kl_error **err) {
    const bool gathers = x->kind == KL_EXCHANGE_GATHER;
    const size_t item = kl_dtype_size(x->dtype);
    const enum kl_mpi_type moved = moved_type(x->dtype),
                           type = reduced_type(x->reduction, x->dtype);
    const enum kl_mpi_op op = op_of(x->reduction);
    if (x->n <= largest_piece) {
        kl_mpi_handle *r = next_call(x->state);
        if (gathers)
            MPI(iallgather(x->from, x->to, (int)x->n, moved, c->data, r));
        else
            MPI(ireduce_scatter_block(x->from, x->to, (int)x->n, type, op, c->data, r));
        return KL_OK;
    }
    if (gathers)
        memcpy((char *)x->to + (size_t)(c->base.rank * x->n) * item, x->from, (size_t)x->n * item);
    for (int root = 0; root < c->base.size; root++)
        for (int64_t at = 0; at < x->n; at += largest_piece) {
            const int n = (int)(x->n - at < largest_piece ? x->n - at : largest_piece);
            const size_t offset = (size_t)(root * x->n + at) * item;
            kl_mpi_handle *r = next_call(x->state);
            if (gathers)
                MPI(ibcast((char *)x->to + offset, n, moved, root, c->data, r));
            else
                MPI(ireduce((const char *)x->from + offset, (char *)x->to + (size_t)at * item, n,
                            type, op, root, c->data, r));
        }
    return KL_OK;
}

static int start(struct kl_comm *base, struct kl_exchange *x, struct kl_error **err) {
    struct mpi_comm *c = (struct mpi_comm *)base;
    struct calls *s = x->state;
    s->n = s->n_done = 0;
    KL_TRY(start_words(c, x, err));
    if (x->kind == KL_EXCHANGE_WORDS || x->n == 0) return KL_OK;
    if (x->kind == KL_EXCHANGE_GATHER || x->kind == KL_EXCHANGE_SCATTER)
        return start_parts(c, x, err);
    for (int64_t at = 0; at < x->n; at += largest_piece)
        KL_TRY(start_piece(c, x, at, (int)(x->n - at < largest_piece ? x->n - at : largest_piece),
                           err));
    return KL_OK;
}

static int test_exchange(struct kl_comm *base, struct kl_exchange *x, bool *done,
                         struct kl_error **err) {
    struct calls *s = x->state;
    int rc = KL_OK;
    for (int i = s->n_done; i < s->n; i++) {
        int flag = s->request[i] == mpi->no_request;
        int code = flag ? 0 : mpi->test(&s->request[i], &flag);
        /* The words say more about what is wrong than the failure of the data does. */
        if (code && !rc) rc = fail(err, "MPI", code);
        if (!flag && !code) break;
        s->request[i] = mpi->no_request;
        if (i == 0) x->words_done = true;
        if (i == s->n_done) s->n_done++;
    }
    *done = s->n_done == s->n;
    return rc;
}

/* ---- communicators ---- */

static const struct kl_engine engine;

static int comm_of(struct mpi_comm **out, kl_mpi_handle data, kl_mpi_handle meta,
                   struct kl_error **err) {
    struct mpi_comm *c = kl_calloc(1, sizeof *c);
    if (!c) return kl_fail_nomem(err);
    *c = (struct mpi_comm){.base = {.engine = &engine}, .data = data, .meta = meta};
    int rc = mpi->comm_rank(data, &c->base.rank);
    if (!rc) rc = mpi->comm_size(data, &c->base.size);
    if (!rc) rc = mpi->comm_return_errors(data);
    if (!rc) rc = mpi->comm_return_errors(meta);
    if (rc) {
        kl_free(c);
        return fail(err, "MPI_Comm_rank", rc);
    }
    *out = c;
    return KL_OK;
}

/* A copy of a communicator, while its other ranks make one too. `made` must live on: it is written
 * by a request that may outlast the limit. */
static int copy_comm(kl_mpi_handle comm, kl_mpi_handle *made, int64_t limit_ns,
                     struct kl_error **err) {
    kl_mpi_handle r = mpi->no_request;
    const int64_t until = kl_clock_ns() + limit_ns;
    MPI(comm_idup(comm, made, &r));
    for (int done = 0; !done;) {
        MPI(test(&r, &done));
        if (done) break;
        if (kl_clock_ns() > until)
            return kl_fail(err, KL_EGROUP,
                           "not all processes called init within %lld s (KEEL_DIST_TIMEOUT)",
                           (long long)(limit_ns / 1000000000));
        sched_yield();
    }
    return KL_OK;
}

static int split(struct kl_comm *base, int color, int key, struct kl_comm **out,
                 struct kl_error **err) {
    struct mpi_comm *c = (struct mpi_comm *)base, *made = NULL;
    kl_mpi_handle data, meta;
    MPI(comm_split(c->meta, color, key, &data));
    MPI(comm_split(data, 0, 0, &meta));
    KL_TRY(comm_of(&made, data, meta, err));
    *out = &made->base;
    return KL_OK;
}

static void leave(struct kl_comm *base, bool lost) {
    struct mpi_comm *c = (struct mpi_comm *)base;
    if (lost) return;
    (void)mpi->comm_free(&c->data);
    (void)mpi->comm_free(&c->meta);
    kl_free(c);
}

static const struct kl_engine engine = {.name = "mpi",
                                        .reduces = reduces,
                                        .reserve = reserve,
                                        .drop = drop,
                                        .start = start,
                                        .test = test_exchange,
                                        .split = split,
                                        .leave = leave};

/* ---- the library ---- */

bool kl_mpi_available(const char **why) {
    return kl_mpi_library(why) != NULL;
}

/* When a process dies, the launcher of MPICH tells the others by a signal that would end them. A
 * program that wants that signal has a handler. */
static void keep_from_signal(void) {
    struct sigaction now;
    if (strcmp(mpi->abi, "MPICH") == 0 && !sigaction(SIGUSR1, NULL, &now) &&
        now.sa_handler == SIG_DFL)
        (void)signal(SIGUSR1, SIG_IGN);
}

bool kl_mpi_is_initialised(void) {
    const char *why;
    const struct kl_mpi *m = kl_mpi_library(&why);
    int is = 0, was = 0;
    return m && !m->initialized(&is) && is && !m->finalized(&was) && !was;
}

/* Initialises MPI, or uses it as it is. Any thread of ours calls it, one at a time. */
static int initialise(struct kl_error **err) {
    int is = 0, was = 0, level = 0;
    MPI(finalized(&was));
    if (was) return kl_fail(err, KL_EGROUP, "the process has ended MPI already (MPI_Finalize)");
    MPI(initialized(&is));
    if (is)
        MPI(query_thread(&level));
    else
        MPI(init_thread(KL_MPI_THREAD_MULTIPLE, &level));
    is_ours = !is;
    /* MPICH takes some errors of requests to the handler of these. A program that initialised MPI
     * has handlers of its own. */
    if (is_ours) {
        (void)mpi->comm_return_errors(mpi->world);
        (void)mpi->comm_return_errors(mpi->self);
        keep_from_signal();
    }
    if (level < KL_MPI_THREAD_SERIALIZED)
        return kl_fail(err, KL_EGROUP,
                       "MPI was initialised with support for threads of level %d; Keel calls it "
                       "from several threads, one at a time, and needs MPI_THREAD_SERIALIZED (%d)",
                       level, KL_MPI_THREAD_SERIALIZED);
    return KL_OK;
}

int kl_mpi_open(struct kl_comm **world, int64_t limit_ns, struct kl_error **err) {
    static kl_mpi_handle data, meta;
    struct mpi_comm *c;
    const char *why;
    if (!(mpi = kl_mpi_library(&why))) return kl_fail(err, KL_EGROUP, "%s", why);
    KL_TRY(initialise(err));
    KL_TRY(copy_comm(mpi->world, &data, limit_ns, err));
    KL_TRY(copy_comm(mpi->world, &meta, limit_ns, err));
    KL_TRY(comm_of(&c, data, meta, err));
    *world = &c->base;
    return KL_OK;
}

void kl_mpi_close(void) {
    int was = 0;
    if (is_ours && !mpi->finalized(&was) && !was) (void)mpi->finalize();
}

#ifdef KL_TEST_HOOKS
void kl_test_mpi_piece(int64_t elements) {
    largest_piece = elements;
}
#endif
