/* cpu_backend.c - see cpu_backend.h. */
#include "backend/cpu/cpu_backend.h"

#include <stdlib.h>
#include <sys/utsname.h>

#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/reduce/reduce_streamed.h"
#include "backend/fault.h"
#include "base/alloc.h"
#include "base/op/bounds.h"
#include "base/op/index.h"
#include "base/op/op_params.h"
#include "base/platform/memory.h"

/* ---- memory ---- */

static const size_t huge_page = (size_t)2 << 20;
static const size_t huge_from = (size_t)4
                                << 20; /* smaller mappings would waste most of a huge page */

static int raw_alloc(struct kl_memory *m, size_t bytes, void **ptr, struct kl_error **err) {
    void *p = NULL;
    bool huge = bytes >= huge_from;
    if (!kl_alloc_should_fail() && posix_memalign(&p, huge ? huge_page : 64, bytes)) p = NULL;
    if (!p) return kl_fail(err, KL_ENOMEM, "out of memory: %zu bytes wanted", bytes);
    /* Page faults take most of the time of a fresh large result: 34 ms for 64 MB in small pages
     * against 7 ms in huge ones. */
    if (huge) kl_memory_prefer_large_pages(p, bytes / huge_page * huge_page);
    *ptr = p;
    return KL_OK;
}

static void raw_free(struct kl_memory *m, void *ptr, size_t bytes) {
    free(ptr);
}

static struct kl_memory memory = {
    .name = "cpu", .is_host = true, .raw_alloc = raw_alloc, .raw_free = raw_free};

/* ---- launching ---- */

static kl_parallel_fn *parallel_for, *parallel_short;

static bool waits_for(struct kl_backend *b, struct kl_queue *q, struct kl_fate *f,
                      struct kl_wait *w) {
    *w = (struct kl_wait){f->timeline, f->ticket};
    return true;
}

static void resolve(struct kl_arg *arg, const struct kl_tensor *t) {
    struct kl_block *b = kl_buffer_block_on(t->buffer, &memory);
    arg->data = b ? (char *)b->ptr + t->offset * (int64_t)kl_dtype_size(t->dtype) : NULL;
    arg->dtype = t->dtype;
    arg->layout = t->layout;
    arg->ndim = t->ndim;
    arg->size = t->size;
    arg->dims = t->dims;
    arg->strides = t->strides;
}

struct fault_ctx {
    struct kl_task *t;
    const struct kl_arg *in;
};

static bool read_index(void *arg, int input, int64_t element_offset, int64_t *value) {
    struct fault_ctx *c = arg;
    const struct kl_tensor *t = c->t->in[input];
    size_t item = kl_dtype_size(t->dtype);
    const char *base = (const char *)c->in[input].data - t->offset * (int64_t)item;
    return kl_index_read(base + element_offset * (int64_t)item, t->dtype, value);
}

#ifdef KL_DEBUG
/* a proof of the index range that turns out wrong is a bug of this library */
enum { CHECK_PROVED = 1 };
#else
enum { CHECK_PROVED = 0 };
#endif
enum { FEW = 8 };

static int launch(struct kl_backend *b, struct kl_queue *q, struct kl_task *t,
                  struct kl_error **err) {
    struct kl_arg few[FEW], *args = few;
    int n = t->n_in + t->n_out + (t->workspace != NULL);
    if (n > FEW && !(args = kl_malloc((size_t)n * sizeof *args))) {
        kl_fail_nomem(err);
        return KL_LAUNCH_DONE;
    }
    for (int i = 0; i < t->n_in; i++) resolve(&args[i], t->in[i]);
    for (int i = 0; i < t->n_out; i++) resolve(&args[t->n_in + i], t->out[i]);
    static const int64_t one = 1;
    int bytes = 0;
    if (t->workspace) {
        bytes = t->workspace->bytes < INT32_MAX ? (int)t->workspace->bytes : INT32_MAX;
        args[n - 1] = (struct kl_arg){.data = t->workspace->block->ptr,
                                      .dtype = KL_U8,
                                      .layout = KL_ROW_CONTIGUOUS | KL_DENSE,
                                      .ndim = 1,
                                      .size = (int64_t)t->workspace->bytes,
                                      .dims = &bytes,
                                      .strides = &one};
    }
    struct kl_launch l = {.op = t->op,
                          .params = t->params,
                          .n_in = t->n_in,
                          .n_out = t->n_out + (t->workspace != NULL),
                          .in = args,
                          .out = args + t->n_in,
                          .checked = (CHECK_PROVED && kl_bounds_checked()) || !t->proved,
                          .pos_begin = 0,
                          .pos_end = INT64_MAX,
                          .fault = KL_NO_FAULT,
                          .err = err,
                          .scratch = memory.take ? &memory : NULL,
                          .parallel = parallel_for,
                          .parallel_short = parallel_short};
    struct kl_timeline *timeline = t->out[0]->fate->timeline;
    int rc;
    if (t->op == KL_OP_CALL) {
        const struct kl_call_params *call = t->params;
        rc = call->fn(call->ctx, &l, err);
    } else {
        if (kl_op_flags(t->op) & KL_OPF_CHECKED)
            l.pos_end = kl_fault_positions(t->op, t->n_in, t->in);
        rc = kl_cpu_kernel(t->op)(&l);
    }
    if (rc && err && !*err) kl_fail_with(err, kl_error_static(rc));
    kl_assert(l.fault == KL_NO_FAULT || !t->proved);
    if (!rc && l.fault != KL_NO_FAULT) {
        struct fault_ctx c = {t, args};
        kl_fault_fail(err, t->op, kl_task_name(t), t->origin, t->params, t->n_in, t->in, l.fault,
                      timeline->stream_index, read_index, &c);
    }
    if (args != few) kl_free(args);
    return KL_LAUNCH_DONE;
}

static bool joins(struct kl_backend *b, const struct kl_task *t) {
    return (kl_op_flags(t->op) & KL_OPF_ELEMENTWISE) && t->n_in <= KL_FUSION_OPERANDS;
}

static bool leads(struct kl_backend *b, const struct kl_task *t) {
    switch (t->op) {
    case KL_OP_SUM:
    case KL_OP_PROD:
    case KL_OP_MAX:
    case KL_OP_MIN:
    case KL_OP_ALL:
    case KL_OP_ANY: return t->in[0]->size > t->out[0]->size;
    default: return false;
    }
}

/* Whether rows of t are contiguous, or the same everywhere. */
static bool has_plain_rows(const struct kl_tensor *t) {
    int last = t->ndim - 1;
    while (last > 0 && t->dims[last] == 1) last--;
    return last < 0 || t->strides[last] == 0 || t->strides[last] == 1;
}

/* Sums over leading axes: each tile goes to sums that stay in a cache. Tiles of operands that are
 * stored transposed come in another order (operand/patch.h), so there may be none. */
static bool ends(struct kl_backend *b, const struct kl_fusion_step *steps, int n,
                 const struct kl_task *t) {
    if (t->op != KL_OP_SUM || !kl_row_sums_take(t->in[0], t->out[0], t->params)) return false;
    bool reads = false;
    for (int j = 0; j < n; j++) {
        const struct kl_task *step = steps[j].task;
        reads = reads || step->out[0] == t->in[0];
        if (!joins(b, step)) return false;
        for (int i = 0; i < step->n_in; i++)
            if (steps[j].from[i] < 0 && !has_plain_rows(step->in[i])) return false;
    }
    return reads;
}

static bool launch_fusion(struct kl_backend *b, const struct kl_fusion_step *steps, int n) {
    struct kl_arg in[KL_FUSION_STEPS][KL_FUSION_OPERANDS], out[KL_FUSION_STEPS];
    struct kl_cpu_step s[KL_FUSION_STEPS];
    for (int j = 0; j < n; j++) {
        struct kl_task *t = steps[j].task;
        s[j] = (struct kl_cpu_step){t->op,   t->n_in,      t->params,      in[j],
                                    &out[j], {-1, -1, -1}, steps[j].stored};
        for (int i = 0; i < t->n_in; i++) {
            resolve(&in[j][i], t->in[i]);
            s[j].from[i] = steps[j].from[i];
        }
        resolve(&out[j], t->out[0]);
    }
    return kl_cpu_run_fusion(s, n, parallel_for);
}

static const struct kl_backend_ops ops = {
    .fusion = {KL_FUSION_STEPS, KL_FUSION_INPUTS, KL_FUSION_INPUTS, 2},
    .waits_for = waits_for,
    .launch = launch,
    .joins = joins,
    .leads = leads,
    .ends = ends,
    .launch_fusion = launch_fusion};
static struct kl_backend backend = {.ops = &ops, .name = "cpu", .index = 0, .memory = &memory};

struct kl_backend *kl_cpu_backend(kl_parallel_fn *parallel, kl_parallel_fn *of_short_work) {
    parallel_for = parallel;
    parallel_short = of_short_work;
    return &backend;
}

const char *kl_cpu_architecture(void) {
    static struct utsname u;
    if (!u.machine[0] && uname(&u)) return "unknown";
    return u.machine;
}
