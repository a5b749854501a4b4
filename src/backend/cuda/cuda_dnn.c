/* cuda_dnn.c - CONVOLUTION by cuDNN where that is installed. The kernels of the dialect
 * (lower/convolution.c) do the convolutions that cuDNN is not asked for or refuses.
 *
 * Gradients are convolutions too: an input with zeros between its elements, or a filter that is
 * read as its transpose from the end, is a gradient of the input to cuDNN; operands whose first
 * axis is innermost are a gradient of the filter. The engine follows from cuDNN's heuristics, not
 * from measurements, and only engines that give the same bits on every run are taken. */
#include <string.h>

#include "backend/cuda/cuda_internal.h"
#include "base/alloc.h"
#include "base/number/dtype.h"
#include "base/op/op_params.h"

enum {
    /* Multiplications; below this number the calls of cuDNN are most of the time. */
    LEAST_WORK = 1 << 24,
    LEAST_IN_GROUP = 8,         /* channels; with fewer, our own kernels are as fast */
    MOST_TAPS = 1024,           /* elements of a filter per channel */
    WORKSPACE_MOST = 256 << 20, /* bytes */
    ALIGNMENT_MOST = 16,        /* bytes; of a vector load */
    MOST_KNOWN = 1024,          /* most convolutions that are remembered */
    MOST_CONFIGS = 96,          /* of an answer of the heuristics */
    MOST_NOTES = 16,
    MAX_AXES = KL_MAX_SPATIAL + 2,
};

enum role { INPUT, FILTER, OUTPUT, N_ROLES };
static const int kind_of_output[N_ROLES] = {KL_DNN_DATA_GRADIENT, KL_DNN_FILTER_GRADIENT,
                                            KL_DNN_FORWARD};

/* Everything that the choice of an engine may depend on. Compared as bytes, so it has no padding.
 * The tensors are those of the forward convolution, whichever of them is computed. */
struct key {
    int32_t wanted; /* the role of what is computed */
    int32_t dtype, n_axes;
    int32_t dims[N_ROLES][MAX_AXES]; /* batch (output channels of the filter), channels, space */
    int32_t alignment[N_ROLES];      /* bytes */
    int32_t stride[KL_MAX_SPATIAL], dilation[KL_MAX_SPATIAL];
    int32_t before[KL_MAX_SPATIAL], after[KL_MAX_SPATIAL]; /* padding */
};
_Static_assert(sizeof(struct key) == 33 * 4, "keys have no padding");

/* A command as cuDNN's convolution. */
struct task {
    struct key key;
    const struct kl_arg *arg[N_ROLES];
    int groups;
    bool turned; /* the command's filter has input channels in front, as in gradients */
    bool back;   /* the command's filter is read from its end, compared with cuDNN's */
};

enum { CONVOLUTION = N_ROLES, OPERATION, GRAPH, CONFIG, PLAN, N_DESCS };
/* A remembered convolution. Immutable except for `refused`. */
struct kl_cuda_convolution {
    struct kl_cuda_convolution *next; /* next in its bucket; guarded by the lock */
    struct key key;
    _Atomic(bool) refused; /* cuDNN cannot do it */
    _Atomic(bool) ran;
    void *desc[N_DESCS]; /* the tensors by role, then the others */
    size_t workspace_bytes;
};

static const int types[KL_N_DTYPES] = {
    [KL_F16] = KL_DNN_F16, [KL_BF16] = KL_DNN_BF16, [KL_F32] = KL_DNN_F32};

/* ---- from a command to a task ---- */

/* Whether x is row-major, or would be with its first and last axis exchanged. */
static bool is_dense(const struct kl_arg *x, bool exchanged) {
    int64_t each = 1;
    for (int i = x->ndim - 1; i >= 0; i--) {
        const int axis = !exchanged || (i > 0 && i < x->ndim - 1) ? i : x->ndim - 1 - i;
        if (x->dims[axis] != 1 && x->strides[axis] != each) return false;
        each *= x->dims[axis];
    }
    return true;
}

static int32_t alignment(const void *p) {
    uintptr_t low = (uintptr_t)p & -(uintptr_t)p;
    return low == 0 || low > ALIGNMENT_MOST ? ALIGNMENT_MOST : (int32_t)low;
}

static bool all_one(const int *v, int n) {
    for (int i = 0; i < n; i++)
        if (v[i] != 1) return false;
    return true;
}

/* Which convolution of cuDNN computes the command; false: none. */
static bool find_role(struct task *t, const struct kl_command *c) {
    const struct kl_convolution_params *p = c->params;
    const struct kl_arg *x = &c->args[0], *w = &c->args[1], *out = &c->args[2];
    const bool plain = is_dense(x, false), undilated = all_one(p->input_dilation, p->ndim);
    if (is_dense(x, true) && is_dense(w, true) && !(plain && is_dense(w, false)) && undilated &&
        p->groups == 1 && !p->flip) {
        t->key.wanted = FILTER;
        t->arg[INPUT] = x;
        t->arg[OUTPUT] = w;
        t->arg[FILTER] = out;
        return true;
    }
    t->arg[FILTER] = w;
    t->turned = !undilated || (p->flip && p->groups == 1 && is_dense(w, true));
    t->back = t->turned ? !p->flip : p->flip;
    t->key.wanted = t->turned ? INPUT : OUTPUT;
    t->arg[t->turned ? OUTPUT : INPUT] = x;
    t->arg[t->turned ? INPUT : OUTPUT] = out;
    return plain && (!t->turned || all_one(p->stride, p->ndim));
}

/* Finds padding after an axis with which a filter that reaches over `reach` elements has `out`
 * positions. The padding before the axis is preferred: more engines take equal ones. */
static bool pad(struct key *k, int i, int64_t in, int64_t out, int64_t reach, int64_t before) {
    const int64_t least = (out - 1) * k->stride[i] + reach - in - before,
                  most = least + k->stride[i] - 1;
    const int64_t after = before >= least && before <= most ? before : least > 0 ? least : 0;
    k->before[i] = (int32_t)before;
    k->after[i] = (int32_t)after;
    return before >= 0 && before <= INT32_MAX && after >= least && after <= most;
}

/* Fills in dims, strides, dilations and padding of spatial axis `i` of the key, which is axis
 * `from` of the command's. */
static bool take_axis(struct task *t, const struct kl_convolution_params *p, int i, int from) {
    struct key *k = &t->key;
    for (int r = 0; r < N_ROLES; r++) k->dims[r][2 + i] = t->arg[r]->dims[1 + from];
    const bool swapped = k->wanted == FILTER;
    k->stride[i] = t->turned ? p->input_dilation[from]
                   : swapped ? p->dilation[from]
                             : p->stride[from];
    k->dilation[i] = swapped ? p->stride[from] : p->dilation[from];
    const int64_t reach = ((int64_t)k->dims[FILTER][2 + i] - 1) * k->dilation[i] + 1;
    return reach <= INT32_MAX && pad(k, i, k->dims[INPUT][2 + i], k->dims[OUTPUT][2 + i], reach,
                                     t->turned ? reach - 1 - p->low[from] : p->low[from]);
}

/* Whether c is a convolution for cuDNN, and how. */
static bool describe(struct task *t, const struct kl_command *c) {
    const struct kl_convolution_params *p = c->params;
    const struct kl_arg *x = &c->args[0], *w = &c->args[1], *out = &c->args[2];
    memset(t, 0, sizeof *t);
    if (out->dtype != KL_F32 && out->dtype != KL_F16 && out->dtype != KL_BF16) return false;
    if (out->size == 0 || x->size == 0 || w->size == 0 || !find_role(t, c)) return false;
    if (x->size > INT32_MAX || w->size > INT32_MAX || out->size > INT32_MAX) return false;
    const int n = p->ndim, spatial = n == 1 ? 2 : n, last = n + 1;
    struct key *k = &t->key;
    k->dtype = out->dtype;
    k->n_axes = spatial;
    t->groups = p->groups;
    const struct kl_arg *const *arg = t->arg;
    const bool swapped = k->wanted == FILTER; /* batch and channels of all are exchanged */
    for (int r = 0; r < N_ROLES; r++) {
        k->dims[r][0] = arg[r]->dims[swapped ? last : 0];
        k->dims[r][1] = arg[r]->dims[swapped ? 0 : last];
        k->alignment[r] = r == FILTER ? ALIGNMENT_MOST : alignment(arg[r]->data);
    }
    k->dims[FILTER][0] = k->dims[OUTPUT][1];
    k->dims[FILTER][1] = k->dims[INPUT][1] / p->groups;
    if (n == 1) {
        for (int r = 0; r < N_ROLES; r++) k->dims[r][2] = 1;
        k->stride[0] = k->dilation[0] = 1;
    }
    double work = (double)k->dims[FILTER][1], taps = 1;
    for (int i = 0; i < n; i++) {
        if (!take_axis(t, p, spatial - n + i, i)) return false;
        taps *= out == arg[FILTER] ? 1 : w->dims[1 + i];
    }
    for (int i = 0; i < spatial; i++) work *= k->dims[FILTER][2 + i];
    work *= (double)t->arg[OUTPUT]->size;
    const int fewest = k->dims[INPUT][1] < k->dims[OUTPUT][1] ? k->dims[INPUT][1] / p->groups
                                                              : k->dims[OUTPUT][1] / p->groups;
    return work >= LEAST_WORK && taps <= MOST_TAPS && (p->groups == 1 || fewest >= LEAST_IN_GROUP);
}

/* ---- the filter: (output channels, space, input channels of a group) to cuDNN ---- */

struct view {
    int ndim, dims[KL_MAX_SPATIAL + 3];
    int64_t of_command[KL_MAX_SPATIAL + 3], of_dnn[KL_MAX_SPATIAL + 3]; /* strides */
    int64_t first; /* offset of the command's element that is cuDNN's first one */
};

/* The filter with its groups as the first axis. Returns whether both have the same layout. */
static bool view_filter(struct view *v, const struct task *t) {
    const struct kl_arg *w = t->arg[FILTER];
    const int last = w->ndim - 1, each_out = t->key.dims[FILTER][0] / t->groups,
              each_in = t->key.dims[FILTER][1];
    const bool exchanged = t->turned || t->key.wanted == FILTER;
    *v = (struct view){.ndim = w->ndim + 1};
    v->dims[0] = t->groups;
    v->dims[1] = each_out;
    v->dims[w->ndim] = each_in;
    v->of_command[0] = w->strides[0] * (exchanged ? each_in : each_out);
    v->of_command[1] = w->strides[exchanged ? last : 0];
    v->of_command[w->ndim] = w->strides[exchanged ? 0 : last];
    for (int i = 1; i < last; i++) {
        v->dims[1 + i] = w->dims[i];
        v->of_command[1 + i] = t->back ? -w->strides[i] : w->strides[i];
        if (t->back) v->first += (w->dims[i] - 1) * w->strides[i];
    }
    int64_t size = 1;
    bool same = true;
    for (int i = w->ndim; i >= 0; i--) {
        v->of_dnn[i] = size;
        same = same && (v->dims[i] == 1 || v->of_command[i] == size);
        size *= v->dims[i];
    }
    return same && (uintptr_t)w->data % ALIGNMENT_MOST == 0;
}

/* ---- the descriptors that cuDNN needs ---- */

static int set_numbers(const struct kl_dnn_api *api, void *desc, int attribute, const int32_t *v,
                       int n) {
    int64_t wide[KL_MAX_SPATIAL];
    for (int i = 0; i < n; i++) wide[i] = v[i];
    return api->DescSet(desc, attribute, KL_DNN_TYPE_INT64, n, wide);
}

static int set_desc(const struct kl_dnn_api *api, void *desc, int attribute, void *const *value) {
    return api->DescSet(desc, attribute, KL_DNN_TYPE_DESC, 1, value);
}

/* Describes a tensor with channels last in memory. Its number for cuDNN is its role. */
static int tensor(const struct kl_dnn_api *api, void **desc, const struct key *key, enum role r) {
    int64_t dims[MAX_AXES], strides[MAX_AXES], id = r, aligned = key->alignment[r], each;
    const int n = key->n_axes + 2;
    for (int i = 0; i < n; i++) dims[i] = key->dims[r][i];
    strides[1] = 1;
    each = dims[1];
    for (int i = n - 1; i > 1; i--) {
        strides[i] = each;
        each *= dims[i];
    }
    strides[0] = each;
    int rc = api->DescCreate(KL_DNN_TENSOR, desc);
    if (!rc)
        rc = api->DescSet(*desc, KL_DNN_TENSOR_TYPE, KL_DNN_TYPE_DATA_TYPE, 1, &types[key->dtype]);
    if (!rc) rc = api->DescSet(*desc, KL_DNN_TENSOR_DIMS, KL_DNN_TYPE_INT64, n, dims);
    if (!rc) rc = api->DescSet(*desc, KL_DNN_TENSOR_STRIDES, KL_DNN_TYPE_INT64, n, strides);
    if (!rc) rc = api->DescSet(*desc, KL_DNN_TENSOR_ID, KL_DNN_TYPE_INT64, 1, &id);
    if (!rc) rc = api->DescSet(*desc, KL_DNN_TENSOR_ALIGNMENT, KL_DNN_TYPE_INT64, 1, &aligned);
    return rc ? rc : api->DescFinish(*desc);
}

static int convolution(const struct kl_dnn_api *api, void **desc, const struct key *key) {
    const int n = key->n_axes, compute = KL_DNN_F32, mode = KL_DNN_CROSS_CORRELATION;
    const int64_t n_axes = n;
    int rc = api->DescCreate(KL_DNN_CONVOLUTION, desc);
    if (!rc)
        rc = api->DescSet(*desc, KL_DNN_CONVOLUTION_COMPUTE, KL_DNN_TYPE_DATA_TYPE, 1, &compute);
    if (!rc) rc = api->DescSet(*desc, KL_DNN_CONVOLUTION_MODE, KL_DNN_TYPE_MODE, 1, &mode);
    if (!rc) rc = api->DescSet(*desc, KL_DNN_CONVOLUTION_N_AXES, KL_DNN_TYPE_INT64, 1, &n_axes);
    if (!rc) rc = set_numbers(api, *desc, KL_DNN_CONVOLUTION_STRIDES, key->stride, n);
    if (!rc) rc = set_numbers(api, *desc, KL_DNN_CONVOLUTION_DILATIONS, key->dilation, n);
    if (!rc) rc = set_numbers(api, *desc, KL_DNN_CONVOLUTION_PRE_PADDINGS, key->before, n);
    if (!rc) rc = set_numbers(api, *desc, KL_DNN_CONVOLUTION_POST_PADDINGS, key->after, n);
    return rc ? rc : api->DescFinish(*desc);
}

/* The attributes of the three operations; the numbers are those of cudnn_graph_v9.h. */
static const struct operation {
    int alpha, beta, convolution, tensor[N_ROLES];
} operations[N_ROLES] = {
    [OUTPUT] = {700, 701, 702, {[FILTER] = 703, [INPUT] = 704, [OUTPUT] = 705}},
    [INPUT] = {706, 707, 708, {[FILTER] = 709, [INPUT] = 710, [OUTPUT] = 711}},
    [FILTER] = {712, 713, 714, {[FILTER] = 715, [INPUT] = 716, [OUTPUT] = 717}},
};

static int operation(const struct kl_dnn_api *api, void **desc, const struct key *key) {
    const struct operation *o = &operations[key->wanted];
    const float one = 1, zero = 0;
    void **made = &desc[OPERATION];
    int rc = api->DescCreate(kind_of_output[key->wanted], made);
    for (int r = 0; r < N_ROLES && !rc; r++) rc = set_desc(api, *made, o->tensor[r], &desc[r]);
    if (!rc) rc = set_desc(api, *made, o->convolution, &desc[CONVOLUTION]);
    if (!rc) rc = api->DescSet(*made, o->alpha, KL_DNN_TYPE_FLOAT, 1, &one);
    if (!rc) rc = api->DescSet(*made, o->beta, KL_DNN_TYPE_FLOAT, 1, &zero);
    return rc ? rc : api->DescFinish(*made);
}

static int graph(const struct kl_dnn_api *api, void *handle, void **desc) {
    int rc = api->DescCreate(KL_DNN_GRAPH, &desc[GRAPH]);
    if (!rc) rc = api->DescSet(desc[GRAPH], KL_DNN_GRAPH_HANDLE, KL_DNN_TYPE_HANDLE, 1, &handle);
    if (!rc) rc = set_desc(api, desc[GRAPH], KL_DNN_GRAPH_OPERATIONS, &desc[OPERATION]);
    return rc ? rc : api->DescFinish(desc[GRAPH]);
}

/* ---- the choice of an engine ---- */

/* Whether the numbers of an engine with such a note are what is promised. Products of transformed
 * inputs (FFT, Winograd) turn one infinity into NaN of its neighbours. */
static bool allows(int note, int dtype) {
    switch (note) {
    case KL_DNN_NOTE_DOWN_CONVERTS:
    case KL_DNN_NOTE_REDUCED_PRECISION:
    case KL_DNN_NOTE_FFT:
    case KL_DNN_NOTE_NONDETERMINISTIC: return false;
    case KL_DNN_NOTE_TENSOR_CORE: return dtype != KL_F32;
    default: return note < KL_DNN_NOTE_WINOGRAD || note > KL_DNN_NOTE_WINOGRAD_LAST;
    }
}

/* Reads the notes of one kind. Returns their number, or -1. */
static int64_t notes_of(const struct kl_dnn_api *api, void *engine, int attribute, int type,
                        int *notes) {
    int64_t n = 0;
    if (api->DescGet(engine, attribute, type, MOST_NOTES, &n, notes)) return -1;
    return n < MOST_NOTES ? n : MOST_NOTES;
}

/* Whether the engine of a configuration may be used, and whether it is compiled at run time. */
static bool is_allowed(const struct kl_dnn_api *api, void *config, int dtype, bool *compiles) {
    int notes[MOST_NOTES], behaviours[MOST_NOTES];
    void *engine = NULL;
    int64_t n = 0, n_notes = -1, n_behaviours = -1;
    if (api->DescCreate(KL_DNN_ENGINE, &engine)) return false;
    if (!api->DescGet(config, KL_DNN_CONFIG_ENGINE, KL_DNN_TYPE_DESC, 1, &n, &engine) && n == 1) {
        n_notes = notes_of(api, engine, KL_DNN_ENGINE_NOTES, KL_DNN_TYPE_NOTE, notes);
        n_behaviours =
            notes_of(api, engine, KL_DNN_ENGINE_BEHAVIOURS, KL_DNN_TYPE_BEHAVIOUR, behaviours);
    }
    api->DescDestroy(engine);
    bool ok = n_notes >= 0 && n_behaviours >= 0;
    *compiles = false;
    for (int64_t i = 0; i < n_notes; i++) ok = ok && allows(notes[i], dtype);
    for (int64_t i = 0; i < n_behaviours; i++)
        *compiles = *compiles || behaviours[i] == KL_DNN_BEHAVIOUR_COMPILES;
    return ok;
}

/* Makes the plan of a configuration. false: cuDNN cannot, or it needs too much memory. */
static bool plan(const struct kl_dnn_api *api, void *handle, void *config, void **made,
                 size_t *workspace_bytes) {
    int64_t n = 0, bytes = 0;
    *made = NULL;
    int rc = api->DescCreate(KL_DNN_PLAN, made);
    if (!rc) rc = api->DescSet(*made, KL_DNN_PLAN_HANDLE, KL_DNN_TYPE_HANDLE, 1, &handle);
    if (!rc) rc = set_desc(api, *made, KL_DNN_PLAN_CONFIG, &config);
    if (!rc) rc = api->DescFinish(*made);
    if (!rc) rc = api->DescGet(*made, KL_DNN_PLAN_WORKSPACE, KL_DNN_TYPE_INT64, 1, &n, &bytes);
    if (!rc && n == 1 && bytes >= 0 && bytes <= WORKSPACE_MOST) {
        *workspace_bytes = (size_t)bytes;
        return true;
    }
    if (*made) api->DescDestroy(*made);
    *made = NULL;
    return false;
}

/* Takes the first configuration that will do. One that needs a compiler at run time, which takes
 * seconds, only where there is no other. */
static void take_first(const struct kl_dnn_api *api, void *handle, struct kl_cuda_convolution *k,
                       void **config, int64_t n) {
    for (int late = 0; late < 2 && !k->desc[PLAN]; late++)
        for (int64_t i = 0; i < n && !k->desc[PLAN]; i++) {
            bool compiles;
            if (!is_allowed(api, config[i], k->key.dtype, &compiles) || compiles != (late == 1) ||
                !plan(api, handle, config[i], &k->desc[PLAN], &k->workspace_bytes))
                continue;
            k->desc[CONFIG] = config[i];
            config[i] = NULL;
        }
}

/* Asks the heuristics. Leaves the plan NULL when nothing will do. */
static void choose(const struct kl_dnn_api *api, void *handle, struct kl_cuda_convolution *k,
                   int mode) {
    void *heuristic = NULL, *config[MOST_CONFIGS] = {NULL};
    int64_t n = 0;
    int rc = api->DescCreate(KL_DNN_HEURISTIC, &heuristic);
    if (!rc) rc = set_desc(api, heuristic, KL_DNN_HEURISTIC_GRAPH, &k->desc[GRAPH]);
    if (!rc) rc = api->DescSet(heuristic, KL_DNN_HEURISTIC_MODE, KL_DNN_TYPE_HEURISTIC, 1, &mode);
    if (!rc) rc = api->DescFinish(heuristic);
    for (int i = 0; i < MOST_CONFIGS && !rc; i++) rc = api->DescCreate(KL_DNN_CONFIG, &config[i]);
    if (!rc)
        rc = api->DescGet(heuristic, KL_DNN_HEURISTIC_RESULTS, KL_DNN_TYPE_DESC, MOST_CONFIGS, &n,
                          config);
    if (!rc) take_first(api, handle, k, config, n < MOST_CONFIGS ? n : MOST_CONFIGS);
    for (int i = 0; i < MOST_CONFIGS; i++)
        if (config[i]) api->DescDestroy(config[i]);
    if (heuristic) api->DescDestroy(heuristic);
}

static void fill(const struct kl_dnn_api *api, void *handle, struct kl_cuda_convolution *k) {
    int rc = 0;
    for (int r = 0; r < N_ROLES && !rc; r++) rc = tensor(api, &k->desc[r], &k->key, (enum role)r);
    if (!rc) rc = convolution(api, &k->desc[CONVOLUTION], &k->key);
    if (!rc) rc = operation(api, k->desc, &k->key);
    if (!rc) rc = graph(api, handle, k->desc);
    if (!rc) choose(api, handle, k, KL_DNN_HEURISTIC_B);
    if (!rc && !k->desc[PLAN]) choose(api, handle, k, KL_DNN_HEURISTIC_FALLBACK);
    if (k->desc[PLAN]) return;
    atomic_store(&k->refused, true);
    for (int i = 0; i < N_DESCS; i++) {
        if (k->desc[i]) api->DescDestroy(k->desc[i]);
        k->desc[i] = NULL;
    }
}

/* ---- remembered convolutions; the lock is held ---- */

static void *handle_of(struct kl_cuda_convolutions *all, const struct kl_dnn_api *api) {
    if (all->handle || all->failed) return all->handle;
    const bool begun = kl_driver_stall_begin();
    all->failed = api->Create(&all->handle) != 0;
    kl_driver_stall_end(begun);
    if (all->failed) all->handle = NULL;
    return all->handle;
}

static struct kl_cuda_convolution **bucket_of(struct kl_cuda_convolutions *all,
                                              const struct key *key) {
    const unsigned char *s = (const unsigned char *)key;
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < sizeof *key; i++) h = (h ^ s[i]) * 1099511628211u;
    return &all->bucket[(h ^ h >> 32) % KL_DNN_BUCKETS];
}

/* Finds or makes a convolution; NULL when there are too many. One that cuDNN cannot do, for
 * whatever reason, is remembered as refused, so that the launch does what the dry run has asked
 * for. KL_ENOMEM. */
static int find_or_make(struct kl_cuda_convolutions *all, const struct kl_dnn_api *api,
                        const struct key *key, struct kl_cuda_convolution **out,
                        struct kl_error **err) {
    struct kl_cuda_convolution **bucket = bucket_of(all, key), *k = *bucket;
    while (k && memcmp(&k->key, key, sizeof *key) != 0) k = k->next;
    if ((*out = k) || all->n_known == MOST_KNOWN) return KL_OK;
    if (!(k = kl_calloc(1, sizeof *k))) return kl_fail_nomem(err);
    k->key = *key;
    fill(api, all->handle, k);
    k->next = *bucket;
    *bucket = k;
    all->n_known++;
    *out = k;
    return KL_OK;
}

/* ---- running ---- */

/* The memory that a launch hands to cuDNN, in parts of the command's workspace where copies are
 * needed. */
struct memory {
    void *data[N_ROLES], *workspace;
    struct view view;
    bool copied; /* the filter is a copy */
};

static int take_memory(struct kl_emit *e, const struct task *t, const struct kl_cuda_convolution *k,
                       struct memory *m) {
    const struct kl_arg *w = t->arg[FILTER];
    for (int r = 0; r < N_ROLES; r++) m->data[r] = t->arg[r]->data;
    m->copied = !view_filter(&m->view, t);
    if (m->copied)
        KL_TRY(kl_emit_workspace(e, (size_t)w->size * kl_dtype_size(w->dtype), &m->data[FILTER]));
    return kl_emit_workspace(e, k->workspace_bytes, &m->workspace);
}

static int copy_filter(struct kl_emit *e, const struct task *t, const struct memory *m) {
    const struct kl_arg *w = t->arg[FILTER];
    const struct view *v = &m->view;
    const size_t item = kl_dtype_size(w->dtype);
    char *of_command = (char *)w->data + v->first * (int64_t)item;
    if (!m->copied) return KL_OK;
    return t->key.wanted == FILTER ? kl_emit_copy(e, item, v->ndim, v->dims, of_command,
                                                  v->of_command, m->data[FILTER], v->of_dnn)
                                   : kl_emit_copy(e, item, v->ndim, v->dims, m->data[FILTER],
                                                  v->of_dnn, of_command, v->of_command);
}

/* Puts the plan's kernels into the stream; a status of cuDNN. */
static int execute(struct kl_cuda *d, const struct kl_dnn_api *api, void *stream,
                   struct kl_cuda_convolution *k, const struct memory *m) {
    static const int64_t ids[N_ROLES] = {INPUT, FILTER, OUTPUT};
    struct kl_cuda_convolutions *all = &d->dnn;
    void *pack = NULL;
    int rc = api->DescCreate(KL_DNN_PACK, &pack);
    if (!rc) rc = api->DescSet(pack, KL_DNN_PACK_IDS, KL_DNN_TYPE_INT64, N_ROLES, ids);
    if (!rc) rc = api->DescSet(pack, KL_DNN_PACK_POINTERS, KL_DNN_TYPE_POINTER, N_ROLES, m->data);
    if (!rc) rc = api->DescSet(pack, KL_DNN_PACK_WORKSPACE, KL_DNN_TYPE_POINTER, 1, &m->workspace);
    if (!rc) rc = api->DescFinish(pack);
    if (!rc) {
        kl_mutex_lock(&all->mu);
        if (all->stream != stream && !(rc = api->SetStream(all->handle, stream)))
            all->stream = stream;
        const bool begun = kl_cuda_first_call(&k->ran);
        if (!rc) rc = api->Execute(all->handle, k->desc[PLAN], pack);
        kl_driver_stall_end(begun);
        kl_mutex_unlock(&all->mu);
    }
    if (pack) api->DescDestroy(pack);
    return rc;
}

/* Returns 1, or 0 when cuDNN fails; then our own kernel writes what it may have begun to write. */
static int run(struct kl_emit *e, const struct kl_dnn_api *api, const struct task *t,
               struct kl_cuda_convolution *k) {
    struct kl_cuda *d = kl_cuda_of(e->driver);
    struct kl_cuda_queue *q = e->queue;
    const bool gives = t->key.wanted == FILTER;
    const size_t used = e->used;
    struct memory m;
    KL_TRY(take_memory(e, t, k, &m));
    if (!gives) KL_TRY(copy_filter(e, t, &m));
    KL_TRY(kl_cuda_chain_flush(d, q, e->err));
    int status = execute(d, api, q->stream, k, &m);
    if (!status) {
        if (gives) KL_TRY(copy_filter(e, t, &m));
        return 1;
    }
    if (status != KL_DNN_ALLOC_FAILED && status != KL_DNN_DEVICE_ALLOC_FAILED)
        atomic_store(&k->refused, true);
    e->used = used;
    return 0;
}

/* Compiles the copy and asks for the workspace, which is also that of our own kernels: those take
 * cuDNN's place where it fails at the launch. */
static int ask(struct kl_emit *e, const struct task *t, const struct kl_cuda_convolution *k,
               const struct kl_command *c) {
    struct kl_emit own = *e;
    struct memory m;
    own.sizes_only = true;
    KL_TRY(kl_lower_convolution(&own, c));
    KL_TRY(take_memory(e, t, k, &m));
    KL_TRY(copy_filter(e, t, &m));
    if (e->used < own.used) e->used = own.used;
    return 1;
}

int kl_cuda_dnn(struct kl_emit *e, const struct kl_command *c) {
    struct kl_cuda *d = kl_cuda_of(e->driver);
    struct task t;
    if (!describe(&t, c) || kl_convolution_folds(c)) return 0;
    const struct kl_dnn_api *api = kl_dnn_api(NULL);
    if (!api) return 0;
    struct kl_cuda_convolution *k = NULL;
    KL_TRY(kl_cuda_enter(d, e->err));
    kl_mutex_lock(&d->dnn.mu);
    int rc = handle_of(&d->dnn, api) ? find_or_make(&d->dnn, api, &t.key, &k, e->err) : KL_OK;
    kl_mutex_unlock(&d->dnn.mu);
    if (rc || !k || atomic_load(&k->refused)) return rc;
    return e->dry ? ask(e, &t, k, c) : run(e, api, &t, k);
}
