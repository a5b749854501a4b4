/* cuda_fft.c - FFT by cuFFT where that is installed. The kernels of the dialect (lower/fft.c) do
 * the transforms that cuFFT is not asked for or refuses.
 *
 * The transformed axes are a block of neighbours, at most three, in row-major arrays: an operand in
 * another layout is copied first. A transform to real numbers along several axes is a complex one
 * along the others and then one to real numbers, so that the imaginary parts that count as 0 are
 * those between the two; cuFFT overwrites its input there. */
#include <string.h>

#include "backend/cuda/cuda_internal.h"
#include "base/alloc.h"
#include "base/number/dtype.h"
#include "base/op/op_params.h"

enum {
    LEAST_SIZE = 1 << 14, /* numbers; below it a launch among others is faster than a call */
    MOST_RANK = 3,
    MOST_CALLS = 16,   /* for axes outside and inside those that are transformed */
    MOST_KNOWN = 1024, /* most plans that are remembered */
    MOST_STEPS = 2,
    ALIGNMENT = 16, /* bytes; of complex numbers it would be 8, and of vectors of them 16 */
};

/* Everything that a plan depends on. Compared as bytes, so it has no padding. in_dims, out_dims: of
 * the block in memory. */
struct key {
    long long n[MOST_RANK], in_dims[MOST_RANK], out_dims[MOST_RANK];
    long long in_stride, in_distance, out_stride, out_distance, batch;
    int32_t rank, type;
};
_Static_assert(sizeof(struct key) == 14 * 8 + 2 * 4, "keys have no padding");

/* A remembered plan. Immutable except for `refused`; cuFFT's plan itself is guarded by the lock,
 * since its stream and its work area are set for each call. */
struct kl_cuda_transform {
    struct kl_cuda_transform *next; /* next in its bucket; guarded by the lock */
    struct key key;
    _Atomic(bool) refused; /* cuFFT cannot do it */
    _Atomic(bool) ran;
    int plan;
    size_t workspace_bytes;
};

/* Calls of one plan. */
struct step {
    struct key key;
    int direction;
    int64_t calls, in_apart, out_apart; /* bytes from call to call */
    struct kl_cuda_transform *known;
};

/* A command as steps. */
struct task {
    const struct kl_fft_params *p;
    const struct kl_arg *in, *out;
    struct step step[MOST_STEPS];
    int n_steps;
    bool widened;       /* the input is real where cuFFT takes complex numbers */
    bool copied;        /* the input is copied: its layout does not fit, or it is overwritten */
    int64_t lines;      /* of a transform to real numbers, each of `bins` */
    int64_t bins, edge; /* edge: 0, or another bin whose imaginary part counts as 0 */
};

/* ---- from a command to a task ---- */

static int64_t product(const int *dims, int from, int to) {
    int64_t n = 1;
    for (int i = from; i < to; i++) n *= dims[i];
    return n;
}

/* Describes transforms along the axes `first` to `last` of arrays of these dims; the complex side
 * and the real side differ in the last of them. */
static bool describe_step(struct step *s, int type, int direction, int ndim, const int *in_dims,
                          const int *out_dims, int first, int last) {
    const int rank = last - first + 1;
    const int64_t outer = product(in_dims, 0, first), inner = product(in_dims, last + 1, ndim);
    const int64_t in_size = product(in_dims, first, last + 1),
                  out_size = product(out_dims, first, last + 1);
    const int in_item = type == KL_CUFFT_R2C ? 4 : 8, out_item = type == KL_CUFFT_C2R ? 4 : 8;
    memset(s, 0, sizeof *s);
    if (rank > MOST_RANK) return false;
    struct key *k = &s->key;
    k->rank = rank;
    k->type = type;
    for (int i = 0; i < rank; i++) {
        k->in_dims[i] = in_dims[first + i];
        k->out_dims[i] = out_dims[first + i];
        k->n[i] = type == KL_CUFFT_C2R ? k->out_dims[i] : k->in_dims[i];
    }
    const bool innermost = inner == 1;
    k->in_stride = k->out_stride = inner;
    k->in_distance = innermost ? in_size : 1;
    k->out_distance = innermost ? out_size : 1;
    k->batch = innermost ? outer : inner;
    s->direction = direction;
    s->calls = innermost ? 1 : outer;
    s->in_apart = in_size * inner * in_item;
    s->out_apart = out_size * inner * out_item;
    return s->calls == 1 || (s->calls <= MOST_CALLS && s->in_apart % ALIGNMENT == 0 &&
                             s->out_apart % ALIGNMENT == 0);
}

/* Whether the axes of p are a block of neighbours: sets the first and the last of it. A real axis
 * must be the last one. */
static bool find_block(const struct kl_fft_params *p, int *first, int *last) {
    *first = *last = p->axes[0];
    for (int k = 1; k < p->n_axes; k++) {
        if (p->axes[k] < *first) *first = p->axes[k];
        if (p->axes[k] > *last) *last = p->axes[k];
    }
    return *last - *first + 1 == p->n_axes &&
           (p->kind < KL_FFT_FROM_REAL || p->axes[p->n_axes - 1] == *last);
}

static bool is_plain(const struct kl_arg *a) {
    return a->layout & KL_ROW_CONTIGUOUS && (uintptr_t)a->data % ALIGNMENT == 0;
}

/* Whether c is for cuFFT, and how. */
static bool describe(struct task *t, const struct kl_command *c) {
    const struct kl_fft_params *p = c->params;
    const struct kl_arg *in = &c->args[0], *out = &c->args[1];
    int first, last;
    *t = (struct task){.p = p, .in = in, .out = out, .n_steps = 1};
    if ((in->dtype != KL_F32 && in->dtype != KL_C64) || out->size == 0 || in->size < LEAST_SIZE ||
        !is_plain(out) || !find_block(p, &first, &last))
        return false;
    t->widened = in->dtype == KL_F32 && p->kind != KL_FFT_FROM_REAL;
    t->copied = !is_plain(in);
    const int n = in->ndim;
    struct step *s = t->step;
    switch (p->kind) {
    case KL_FFT_FORWARD:
        return describe_step(s, KL_CUFFT_C2C, KL_CUFFT_FORWARD, n, in->dims, out->dims, first,
                             last);
    case KL_FFT_INVERSE:
        return describe_step(s, KL_CUFFT_C2C, KL_CUFFT_INVERSE, n, in->dims, out->dims, first,
                             last);
    case KL_FFT_FROM_REAL:
        return describe_step(s, KL_CUFFT_R2C, 0, n, in->dims, out->dims, first, last);
    case KL_FFT_TO_REAL: break;
    }
    /* The bins that become real are looked for in lines along the last axis. */
    if (last != n - 1) return false;
    t->bins = in->dims[last];
    t->lines = in->size / t->bins;
    t->edge = p->n % 2 ? 0 : p->n / 2;
    if (first < last) {
        t->n_steps = 2;
        if (!describe_step(s++, KL_CUFFT_C2C, KL_CUFFT_INVERSE, n, in->dims, in->dims, first,
                           last - 1))
            return false;
    } else {
        t->copied |= !t->widened;
    }
    return describe_step(s, KL_CUFFT_C2R, 0, n, in->dims, out->dims, last, last);
}

/* ---- remembered plans; the lock is held ---- */

static struct kl_cuda_transform **bucket_of(struct kl_cuda_transforms *all, const struct key *key) {
    const unsigned char *s = (const unsigned char *)key;
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < sizeof *key; i++) h = (h ^ s[i]) * 1099511628211u;
    return &all->bucket[(h ^ h >> 32) % KL_CUFFT_BUCKETS];
}

static void make_plan(const struct kl_cufft_api *api, struct kl_cuda_transform *k) {
    struct key key = k->key; /* cuFFT takes addresses of numbers that it does not promise to keep */
    if (api->Create(&k->plan)) {
        atomic_store(&k->refused, true);
        return;
    }
    int rc = api->SetAutoAllocation(k->plan, 0);
    if (!rc)
        rc = api->MakePlan(k->plan, key.rank, key.n, key.in_dims, key.in_stride, key.in_distance,
                           key.out_dims, key.out_stride, key.out_distance, key.type, key.batch,
                           &k->workspace_bytes);
    if (!rc) return;
    api->Destroy(k->plan);
    atomic_store(&k->refused, true);
}

/* Finds or makes a plan; NULL when there are too many. One that cuFFT cannot make, for whatever
 * reason, is remembered as refused, so that the launch does what the dry run has asked for.
 * KL_ENOMEM. */
static int find_or_make(struct kl_cuda_transforms *all, const struct kl_cufft_api *api,
                        const struct key *key, struct kl_cuda_transform **out,
                        struct kl_error **err) {
    struct kl_cuda_transform **bucket = bucket_of(all, key), *k = *bucket;
    while (k && memcmp(&k->key, key, sizeof *key) != 0) k = k->next;
    if ((*out = k) || all->n_known == MOST_KNOWN) return KL_OK;
    if (!(k = kl_calloc(1, sizeof *k))) return kl_fail_nomem(err);
    k->key = *key;
    const bool begun = kl_driver_stall_begin();
    make_plan(api, k);
    kl_driver_stall_end(begun);
    k->next = *bucket;
    *bucket = k;
    all->n_known++;
    *out = k;
    return KL_OK;
}

/* Finds the plans of all steps. *all_known: cuFFT can do each of them. */
static int find_plans(struct kl_cuda *d, const struct kl_cufft_api *api, struct task *t,
                      bool *all_known, struct kl_error **err) {
    int rc = KL_OK;
    *all_known = true;
    kl_mutex_lock(&d->fft.mu);
    for (int i = 0; i < t->n_steps && !rc && *all_known; i++) {
        rc = find_or_make(&d->fft, api, &t->step[i].key, &t->step[i].known, err);
        *all_known = !rc && t->step[i].known && !atomic_load(&t->step[i].known->refused);
    }
    kl_mutex_unlock(&d->fft.mu);
    return rc;
}

/* ---- running ---- */

/* The memory of a launch: where each step reads, and cuFFT's workspace. */
struct memory {
    void *copy, *wide, *between, *work;
};

static int take_memory(struct kl_emit *e, const struct task *t, struct memory *m) {
    const size_t bytes = (size_t)t->in->size * kl_dtype_size((enum kl_dtype)t->in->dtype),
                 wide = (size_t)t->in->size * kl_dtype_size(KL_C64);
    size_t work = 0;
    for (int i = 0; i < t->n_steps; i++)
        if (t->step[i].known->workspace_bytes > work) work = t->step[i].known->workspace_bytes;
    KL_TRY(kl_emit_workspace(e, t->copied ? bytes : 0, &m->copy));
    KL_TRY(kl_emit_workspace(e, t->widened ? wide : 0, &m->wide));
    KL_TRY(kl_emit_workspace(e, t->n_steps > 1 ? wide : 0, &m->between));
    return kl_emit_workspace(e, work, &m->work);
}

/* Where cuFFT reads the command's input. */
static void *input_of(const struct task *t, const struct memory *m) {
    return t->widened ? m->wide : t->copied ? m->copy : t->in->data;
}

static int make_input(struct kl_emit *e, const struct task *t, const struct memory *m) {
    const struct kl_arg *in = t->in;
    enum { MOST_AXES = 64 };
    int64_t dense[MOST_AXES];
    if (t->copied && in->ndim > MOST_AXES)
        return kl_fail(e->err, KL_EUNSUPPORTED, "fft: %d axes; %d are possible", in->ndim,
                       MOST_AXES);
    if (t->copied) {
        kl_strides_row_major(in->ndim, in->dims, dense);
        KL_TRY(kl_emit_copy(e, kl_dtype_size((enum kl_dtype)in->dtype), in->ndim, in->dims, m->copy,
                            dense, in->data, in->strides));
    }
    if (!t->widened) return KL_OK;
    return kl_emit_fft_widen(e, t->copied ? m->copy : in->data, m->wide, in->size);
}

static int make_edges_real(struct kl_emit *e, const struct task *t, const struct memory *m) {
    if (t->p->kind != KL_FFT_TO_REAL) return KL_OK;
    return kl_emit_fft_edges(e, t->n_steps > 1 ? m->between : input_of(t, m), t->lines, t->bins,
                             t->edge);
}

static int scale(struct kl_emit *e, const struct task *t) {
    if (t->p->scale == 1) return KL_OK;
    const int parts = t->out->dtype == KL_C64 ? 2 : 1;
    return kl_emit_fft_scale(e, t->out->data, (float)t->p->scale, parts * t->out->size);
}

/* Puts the kernels of a step into the stream; a status of cuFFT. */
static int execute(struct kl_cuda *d, const struct kl_cufft_api *api, void *stream,
                   const struct step *s, const void *in, void *out, void *work) {
    const int plan = s->known->plan;
    kl_mutex_lock(&d->fft.mu);
    const bool begun = kl_cuda_first_call(&s->known->ran);
    int rc = api->SetStream(plan, stream);
    if (!rc && work) rc = api->SetWorkArea(plan, work);
    for (int64_t i = 0; i < s->calls && !rc; i++) {
        void *from = (char *)in + i * s->in_apart, *to = (char *)out + i * s->out_apart;
        rc = s->key.type == KL_CUFFT_C2C   ? api->ExecC2C(plan, from, to, s->direction)
             : s->key.type == KL_CUFFT_R2C ? api->ExecR2C(plan, from, to)
                                           : api->ExecC2R(plan, from, to);
    }
    kl_driver_stall_end(begun);
    kl_mutex_unlock(&d->fft.mu);
    return rc;
}

/* Returns 1, or 0 when cuFFT fails; then our own kernels write what it may have begun to write. */
static int run(struct kl_emit *e, const struct kl_cufft_api *api, const struct task *t) {
    struct kl_cuda *d = kl_cuda_of(e->driver);
    struct kl_cuda_queue *q = e->queue;
    const size_t used = e->used;
    struct memory m;
    KL_TRY(take_memory(e, t, &m));
    KL_TRY(make_input(e, t, &m));
    for (int i = 0; i < t->n_steps; i++) {
        const bool last = i == t->n_steps - 1;
        const void *in = i ? m.between : input_of(t, &m);
        if (last) KL_TRY(make_edges_real(e, t, &m));
        KL_TRY(kl_cuda_chain_flush(d, q, e->err));
        if (execute(d, api, q->stream, &t->step[i], in, last ? t->out->data : m.between, m.work)) {
            atomic_store(&t->step[i].known->refused, true);
            e->used = used;
            return 0;
        }
    }
    KL_TRY(scale(e, t));
    return 1;
}

/* Compiles what goes with cuFFT and asks for the workspace, which is also that of our own kernels:
 * those take cuFFT's place where it fails at the launch, unless the length is too long for them. */
static int ask(struct kl_emit *e, const struct task *t, const struct kl_command *c) {
    struct kl_emit own = *e;
    struct memory m;
    own.sizes_only = true;
    own.err = NULL;
    if (kl_lower_fft(&own, c)) own.used = 0;
    KL_TRY(take_memory(e, t, &m));
    KL_TRY(make_input(e, t, &m));
    KL_TRY(make_edges_real(e, t, &m));
    KL_TRY(scale(e, t));
    if (e->used < own.used) e->used = own.used;
    return 1;
}

int kl_cuda_fft(struct kl_emit *e, const struct kl_command *c) {
    struct task t;
    bool all_known;
    if (!describe(&t, c)) return 0;
    const struct kl_cufft_api *api = kl_cufft_api(NULL);
    if (!api) return 0;
    KL_TRY(kl_cuda_enter(kl_cuda_of(e->driver), e->err));
    KL_TRY(find_plans(kl_cuda_of(e->driver), api, &t, &all_known, e->err));
    if (!all_known) return 0;
    return e->dry ? ask(e, &t, c) : run(e, api, &t);
}
