/* fake_cudnn.c - a cuDNN for tests, used with fake_cuda.c: convolutions of float32 and their
 * gradients as host functions in the stream, computed from what the descriptors say, channels last.
 * It rejects what the documentation of cuDNN does not allow. The heuristics answer with the engines
 * that the test names. The arguments of calls are kept for the test (fake_dnn_*, found with
 * dlsym). */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define SHIFT ((uint64_t)1 << 52) /* the value in fake_cuda.c */

enum { BAD = 2000, UNSUPPORTED = 3000, EXECUTION_FAILED = 5000 };
enum {
    CONVOLUTION = 1,
    ENGINE,
    CONFIG,
    HEURISTIC,
    PLAN,
    FORWARD = 10,
    DW,
    DX,
    GRAPH = 15,
    PACK,
    TENSOR
};
enum { MAX_ATTRIBUTES = 12, MAX_VALUES = 5, MAX_ENGINES = 8, MAX_NOTES = 4, DESC = 15 };

struct attribute {
    int name, type;
    int64_t n, value[MAX_VALUES];
};
struct desc {
    int kind, n;
    bool finished;
    struct attribute a[MAX_ATTRIBUTES];
    int engine; /* of engines, configurations and plans: the number in the test's list */
    const struct desc *graph; /* of configurations and plans */
};

/* test_cuda_dnn.c has the same two structs. */
struct engine {
    int n_notes, notes[MAX_NOTES], n_behaviours, behaviours[MAX_NOTES];
    int64_t workspace;
    bool unsupported; /* no plan can be made */
};
struct asked {
    int n_handles, n_heuristics, n_executed, n_live, n_streams, mode, kind, engine;
    int64_t dims[3][5], alignment[3]; /* input, filter, output; of the last plan */
    int64_t type, compute;
    bool has_workspace; /* the last execution had one */
};
static struct {
    pthread_mutex_t mu;
    struct asked asked;
    const char *fail_call;
    int fail_code, fail_in;
    struct engine engines[MAX_ENGINES];
    int n_engines;
    void *stream;
} f = {.mu = PTHREAD_MUTEX_INITIALIZER, .n_engines = 1};

EXPORT void fake_dnn_asked(struct asked *out) {
    pthread_mutex_lock(&f.mu);
    *out = f.asked;
    pthread_mutex_unlock(&f.mu);
}
/* Makes the call of the named function fail that comes after `in` others; -1: every call. NULL
 * cancels. Returns whether an earlier request of one call is still open. */
EXPORT bool fake_dnn_fail(const char *call, int in, int code) {
    pthread_mutex_lock(&f.mu);
    bool open = f.fail_call && f.fail_in >= 0;
    f.fail_call = call;
    f.fail_in = in;
    f.fail_code = code;
    pthread_mutex_unlock(&f.mu);
    return open;
}
EXPORT void fake_dnn_engines(const struct engine *engines, int n) {
    pthread_mutex_lock(&f.mu);
    memcpy(f.engines, engines, (size_t)n * sizeof *engines);
    f.n_engines = n;
    pthread_mutex_unlock(&f.mu);
}

static int fails(const char *call) {
    pthread_mutex_lock(&f.mu);
    int rc = f.fail_call && strcmp(f.fail_call, call) == 0 && f.fail_in <= 0 ? f.fail_code : 0;
    if (f.fail_call && strcmp(f.fail_call, call) == 0 && f.fail_in >= 0 && f.fail_in-- == 0)
        f.fail_call = NULL;
    pthread_mutex_unlock(&f.mu);
    return rc;
}
static void live(int by) {
    pthread_mutex_lock(&f.mu);
    f.asked.n_live += by;
    pthread_mutex_unlock(&f.mu);
}

EXPORT int cudnnGetProperty(int which, int *value) {
    const char *version = getenv("FAKE_CUDNN_MAJOR");
    *value = version ? atoi(version) : 9;
    return which == 0 ? 0 : BAD;
}
EXPORT int cudnnCreate(void **handle) {
    int rc = fails("Create");
    if (rc) return rc;
    pthread_mutex_lock(&f.mu);
    f.asked.n_handles++;
    pthread_mutex_unlock(&f.mu);
    *handle = &f;
    return 0;
}
EXPORT int cudnnSetStream(void *handle, void *stream) {
    int rc = fails("SetStream");
    if (rc) return rc;
    f.stream = stream; /* unguarded as in cuDNN, where threads must not share a handle at a time */
    f.asked.n_streams++;
    return handle == &f ? 0 : BAD;
}

/* ---- descriptors ---- */

EXPORT int cudnnBackendCreateDescriptor(int kind, void **desc) {
    int rc = fails("DescCreate");
    if (rc) return rc;
    struct desc *d = calloc(1, sizeof *d);
    d->kind = kind;
    live(1);
    *desc = d;
    return 0;
}
EXPORT int cudnnBackendDestroyDescriptor(void *desc) {
    ((struct desc *)desc)->kind = -1;
    free(desc);
    live(-1);
    return 0;
}

static size_t size_of(int type) {
    static const size_t sizes[] = {8, 4, 1, 8, 4, 8, 8, 4, 4, 4, 4, 4, 4, 4, 4, 8};
    return type >= 0 && type <= DESC ? sizes[type] : 0;
}
EXPORT int cudnnBackendSetAttribute(void *desc, int name, int type, int64_t n, const void *values) {
    struct desc *d = desc;
    int rc = fails("DescSet");
    if (rc) return rc;
    if (d->finished || d->n == MAX_ATTRIBUTES || n < 1 || n > MAX_VALUES || !size_of(type))
        return BAD;
    struct attribute *a = &d->a[d->n++];
    *a = (struct attribute){.name = name, .type = type, .n = n};
    for (int64_t i = 0; i < n; i++)
        memcpy(&a->value[i], (const char *)values + (size_t)i * size_of(type), size_of(type));
    for (int64_t i = 0; i < n && type == DESC; i++)
        if (!((struct desc *)(intptr_t)a->value[i])->finished) return BAD;
    return 0;
}

static const struct attribute *get(const struct desc *d, int name, int type, int64_t n) {
    for (int i = 0; i < d->n; i++)
        if (d->a[i].name == name) return d->a[i].type == type && d->a[i].n == n ? &d->a[i] : NULL;
    return NULL;
}
static struct desc *desc_of(const struct desc *d, int name, int kind) {
    const struct attribute *a = get(d, name, DESC, 1);
    struct desc *found = a ? (struct desc *)(intptr_t)a->value[0] : NULL;
    return found && found->kind == kind ? found : NULL;
}
static float float_of(const struct desc *d, int name) {
    const struct attribute *a = get(d, name, 4, 1);
    float v = -1;
    if (a) memcpy(&v, &a->value[0], sizeof v);
    return v;
}

/* ---- a convolution, from its descriptors ---- */

enum { INPUT, FILTER, OUTPUT };
struct convolution {
    int kind, n; /* n: spatial axes */
    int64_t dims[3][5], id[3], alignment[3], type, compute;
    int64_t stride[3], dilation[3], before[3], after[3];
    float *data[3];
};

static bool read_tensor(struct convolution *c, int role, const struct desc *t) {
    const int n = c->n + 2;
    const struct attribute *type = get(t, 901, 1, 1), *dims = get(t, 902, 3, n),
                           *strides = get(t, 903, 3, n), *id = get(t, 906, 3, 1),
                           *alignment = get(t, 900, 3, 1);
    if (!type || !dims || !strides || !id || !alignment) return false;
    memcpy(c->dims[role], dims->value, sizeof dims->value);
    c->id[role] = id->value[0];
    c->alignment[role] = alignment->value[0];
    c->type = type->value[0];
    int64_t each = dims->value[1]; /* channels last, without gaps */
    for (int i = n - 1; i > 1; each *= dims->value[i--])
        if (strides->value[i] != each) return false;
    return strides->value[1] == 1 && strides->value[0] == each;
}

static bool read_numbers(int64_t *to, const struct desc *d, int name, int n) {
    const struct attribute *a = get(d, name, 3, n);
    if (a) memcpy(to, a->value, (size_t)n * sizeof *to);
    return a;
}

/* Reads a finished operation. false: the tensors do not fit each other. */
static bool read_operation(struct convolution *c, const struct desc *o) {
    static const int first[] = {[FORWARD] = 700, [DX] = 706, [DW] = 712};
    static const int at[][3] = {
        [FORWARD] = {704, 703, 705}, [DX] = {710, 709, 711}, [DW] = {716, 715, 717}};
    *c = (struct convolution){.kind = o->kind};
    const int alpha = first[o->kind];
    const struct desc *conv = desc_of(o, alpha + 2, CONVOLUTION);
    if (!conv || float_of(o, alpha) != 1 || float_of(o, alpha + 1) != 0) return false;
    const struct attribute *n = get(conv, 106, 3, 1), *compute = get(conv, 100, 1, 1),
                           *mode = get(conv, 101, 7, 1);
    if (!n || n->value[0] < 2 || n->value[0] > 3 || !compute || !mode || mode->value[0] != 1)
        return false;
    c->n = (int)n->value[0];
    c->compute = compute->value[0];
    if (!read_numbers(c->dilation, conv, 102, c->n) || !read_numbers(c->stride, conv, 103, c->n) ||
        !read_numbers(c->after, conv, 104, c->n) || !read_numbers(c->before, conv, 105, c->n))
        return false;
    for (int r = 0; r < 3; r++) {
        const struct desc *t = desc_of(o, at[o->kind][r], TENSOR);
        if (!t || !read_tensor(c, r, t)) return false;
    }
    const int64_t *x = c->dims[INPUT], *w = c->dims[FILTER], *y = c->dims[OUTPUT];
    for (int i = 0; i < c->n; i++) {
        const int64_t there = x[2 + i] + c->before[i] + c->after[i],
                      reach = (w[2 + i] - 1) * c->dilation[i] + 1;
        if (c->before[i] < 0 || c->after[i] < 0 || there < reach ||
            (there - reach) / c->stride[i] + 1 != y[2 + i])
            return false;
    }
    return x[0] == y[0] && w[0] == y[1] && x[1] % w[1] == 0 && w[0] % (x[1] / w[1]) == 0;
}

EXPORT int cudnnBackendFinalize(void *desc) {
    struct desc *d = desc;
    struct convolution c;
    int rc = fails("DescFinish");
    if (rc) return rc;
    if (d->finished) return BAD;
    if ((d->kind == FORWARD || d->kind == DW || d->kind == DX) && !read_operation(&c, d))
        return BAD;
    if (d->kind == GRAPH && (!get(d, 800, 0, 1) || !get(d, 801, DESC, 1))) return BAD;
    if (d->kind == HEURISTIC && (!desc_of(d, 201, GRAPH) || !get(d, 200, 8, 1))) return BAD;
    if (d->kind == PLAN) {
        const struct desc *config = desc_of(d, 401, CONFIG);
        if (!config || !get(d, 400, 0, 1)) return BAD;
        d->engine = config->engine;
        d->graph = config->graph;
        if (f.engines[d->engine].unsupported) return UNSUPPORTED;
        const struct attribute *o = get(d->graph, 801, DESC, 1);
        if (!o || !read_operation(&c, (struct desc *)(intptr_t)o->value[0])) return BAD;
        pthread_mutex_lock(&f.mu);
        f.asked.kind = c.kind;
        f.asked.engine = d->engine;
        f.asked.type = c.type;
        f.asked.compute = c.compute;
        memcpy(f.asked.dims, c.dims, sizeof c.dims);
        memcpy(f.asked.alignment, c.alignment, sizeof c.alignment);
        pthread_mutex_unlock(&f.mu);
    }
    d->finished = true;
    return 0;
}

EXPORT int cudnnBackendGetAttribute(void *desc, int name, int type, int64_t room, int64_t *n,
                                    void *values) {
    struct desc *d = desc;
    int rc = fails("DescGet");
    if (rc || !d->finished) return rc ? rc : BAD;
    const struct engine *e = &f.engines[d->engine];
    if (d->kind == HEURISTIC && name == 202 && type == DESC) {
        struct desc **config = values;
        pthread_mutex_lock(&f.mu);
        f.asked.n_heuristics++;
        f.asked.mode = (int)get(d, 200, 8, 1)->value[0];
        pthread_mutex_unlock(&f.mu);
        *n = f.n_engines;
        for (int i = 0; i < f.n_engines && i < room; i++) {
            if (config[i]->kind != CONFIG) return BAD;
            config[i]->engine = i;
            config[i]->graph = desc_of(d, 201, GRAPH);
            config[i]->finished = true;
        }
        return 0;
    }
    if (d->kind == CONFIG && name == 300 && type == DESC) {
        struct desc *engine = *(struct desc **)values;
        engine->engine = d->engine;
        engine->finished = true;
        *n = 1;
        return engine->kind == ENGINE ? 0 : BAD;
    }
    if (d->kind == ENGINE && name == 1303 && type == 11) {
        memcpy(values, e->notes, (size_t)e->n_notes * sizeof(int));
        *n = e->n_notes;
        return 0;
    }
    if (d->kind == ENGINE && name == 1305 && type == 19) {
        memcpy(values, e->behaviours, (size_t)e->n_behaviours * sizeof(int));
        *n = e->n_behaviours;
        return 0;
    }
    if (d->kind == PLAN && name == 402 && type == 3) {
        *(int64_t *)values = e->workspace;
        *n = 1;
        return 0;
    }
    return BAD;
}

/* ---- running ---- */

#define LIKE_A_DEVICE __attribute__((no_sanitize("address", "thread", "undefined")))

/* Adds up the products for what is wanted: the result, or one of the gradients. Sanitizers see no
 * more of it than of a device's kernels, and the test does not take minutes. */
LIKE_A_DEVICE static void add_products(struct convolution *c) {
    const int64_t *x = c->dims[INPUT], *w = c->dims[FILTER], *y = c->dims[OUTPUT];
    const int wanted = c->kind == FORWARD ? OUTPUT : c->kind == DX ? INPUT : FILTER;
    int64_t size = 1, in_z = 1, w_z = 1, out_z = 1, sz = 1, dz = 1, pz = 0;
    int64_t *step = c->stride, *dilation = c->dilation, *before = c->before;
    for (int i = 0; i < c->n + 2; i++) size *= c->dims[wanted][i];
    memset(c->data[wanted], 0, (size_t)size * sizeof(float));
    const int a = c->n; /* the axes y and x are a and a + 1 of dims */
    if (c->n == 3) {
        in_z = x[2];
        w_z = w[2];
        out_z = y[2];
        sz = *step++;
        dz = *dilation++;
        pz = *before++;
    }
    const int64_t groups = x[1] / w[1], each = y[1] / groups;
    for (int64_t n = 0; n < y[0]; n++)
        for (int64_t oz = 0; oz < out_z; oz++)
            for (int64_t oy = 0; oy < y[a]; oy++)
                for (int64_t ox = 0; ox < y[a + 1]; ox++)
                    for (int64_t kz = 0; kz < w_z; kz++)
                        for (int64_t ky = 0; ky < w[a]; ky++)
                            for (int64_t kx = 0; kx < w[a + 1]; kx++) {
                                const int64_t iz = oz * sz + kz * dz - pz,
                                              iy = oy * step[0] + ky * dilation[0] - before[0],
                                              ix = ox * step[1] + kx * dilation[1] - before[1];
                                if (iz < 0 || iz >= in_z || iy < 0 || iy >= x[a] || ix < 0 ||
                                    ix >= x[a + 1])
                                    continue;
                                float *px = c->data[INPUT] +
                                            (((n * in_z + iz) * x[a] + iy) * x[a + 1] + ix) * x[1];
                                float *py = c->data[OUTPUT] +
                                            (((n * out_z + oz) * y[a] + oy) * y[a + 1] + ox) * y[1];
                                for (int64_t o = 0; o < y[1]; o++) {
                                    float *pw =
                                        c->data[FILTER] +
                                        (((o * w_z + kz) * w[a] + ky) * w[a + 1] + kx) * w[1];
                                    float *in = px + o / each * w[1];
                                    for (int64_t i = 0; i < w[1]; i++)
                                        if (wanted == OUTPUT)
                                            py[o] += in[i] * pw[i];
                                        else if (wanted == INPUT)
                                            in[i] += py[o] * pw[i];
                                        else
                                            pw[i] += py[o] * in[i];
                                }
                            }
}

/* The address sanitizer sees here that each array is as large as its description says. */
__attribute__((no_sanitize_thread)) static void convolve(void *arg) {
    struct convolution *c = arg;
    volatile float seen;
    for (int r = 0; r < 3; r++) {
        int64_t size = 1;
        for (int i = 0; i < c->n + 2; i++) size *= c->dims[r][i];
        for (int64_t i = 0; i < size; i++) seen = c->data[r][i];
    }
    (void)seen;
    add_products(c);
    free(c);
}

EXPORT int cudnnBackendExecute(void *handle, void *plan, void *pack) {
    const struct desc *p = plan, *v = pack;
    struct convolution c;
    int rc = fails("Execute");
    if (rc) return rc;
    if (handle != &f || p->kind != PLAN || !p->finished || v->kind != PACK || !v->finished)
        return BAD;
    const struct attribute *ids = get(v, 1000, 3, 3), *at = get(v, 1001, 6, 3),
                           *space = get(v, 1003, 6, 1), *operation = get(p->graph, 801, DESC, 1);
    const struct engine *e = &f.engines[p->engine];
    if (!ids || !at || !space || (e->workspace > 0 && !space->value[0]) || !operation) return BAD;
    if (!read_operation(&c, (struct desc *)(intptr_t)operation->value[0])) return BAD;
    for (int r = 0; r < 3; r++)
        for (int i = 0; i < 3; i++)
            if (ids->value[i] == c.id[r]) c.data[r] = (float *)(at->value[i] - (int64_t)SHIFT);
    pthread_mutex_lock(&f.mu);
    f.asked.n_executed++;
    f.asked.has_workspace = space->value[0] != 0;
    pthread_mutex_unlock(&f.mu);
    if (!c.data[0] || !c.data[1] || !c.data[2]) return BAD;
    if (c.type != 0) return UNSUPPORTED; /* such a convolution is only described, not computed */
    void *cuda = dlopen(getenv("KEEL_CUDA_DRIVER"), RTLD_NOW);
    void *symbol = dlsym(cuda, "cuLaunchHostFunc");
    int (*launch)(void *, void (*)(void *), void *);
    memcpy(&launch, &symbol, sizeof symbol);
    struct convolution *own = malloc(sizeof *own);
    *own = c;
    if ((rc = launch(f.stream, convolve, own))) free(own);
    return rc ? EXECUTION_FAILED : 0;
}
