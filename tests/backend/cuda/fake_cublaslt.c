/* fake_cublaslt.c - a cuBLASLt for tests, used with fake_cuda.c: products of float32 as host
 * functions in the stream, column-major as the documentation of cuBLASLt says. It rejects what that
 * documentation does not allow. The arguments of calls are kept for the test (fake_blas_*, found
 * with dlsym). */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define SHIFT ((uint64_t)1 << 52) /* the value in fake_cuda.c */

enum { INVALID = 7, NOT_SUPPORTED = 15 };
enum { MAX_ALIGNMENTS = 4 };

struct layout {
    int type;
    uint64_t rows, cols;
    int64_t ld, batch_stride;
    int32_t batches;
};
struct desc {
    int compute, scale;
    int32_t transposed[2];
};
struct pref {
    uint64_t workspace;
    uint32_t reductions, alignments[MAX_ALIGNMENTS];
};
struct algo {
    uint64_t data[8];
};
struct choice {
    struct algo algo;
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};

/* The arguments of calls, for the test. test_cuda_blas.c has the same struct. */
struct asked {
    int n_handles, n_heuristics, n_products, n_live; /* n_live: live descriptors */
    int compute, scale, type;
    uint32_t reductions, alignments[MAX_ALIGNMENTS];
    uint64_t most_workspace;
    size_t workspace; /* bytes of workspace that a product got */
};
static struct {
    pthread_mutex_t mu;
    struct asked asked;
    const char *fail_call;
    int fail_code;
    size_t wants_workspace;
} f = {.mu = PTHREAD_MUTEX_INITIALIZER};

EXPORT void fake_blas_asked(struct asked *out) {
    pthread_mutex_lock(&f.mu);
    *out = f.asked;
    pthread_mutex_unlock(&f.mu);
}
/* Makes every call of the named function fail, until another function or NULL is named. */
EXPORT void fake_blas_fail(const char *call, int code) {
    pthread_mutex_lock(&f.mu);
    f.fail_call = call;
    f.fail_code = code;
    pthread_mutex_unlock(&f.mu);
}
EXPORT void fake_blas_wants(size_t workspace) {
    pthread_mutex_lock(&f.mu);
    f.wants_workspace = workspace;
    pthread_mutex_unlock(&f.mu);
}

static int fails(const char *call) {
    pthread_mutex_lock(&f.mu);
    int rc = f.fail_call && strcmp(f.fail_call, call) == 0 ? f.fail_code : 0;
    pthread_mutex_unlock(&f.mu);
    return rc;
}
static void live(int by) {
    pthread_mutex_lock(&f.mu);
    f.asked.n_live += by;
    pthread_mutex_unlock(&f.mu);
}
static int make(void **out, const void *from, size_t bytes) {
    void *p = malloc(bytes);
    memcpy(p, from, bytes);
    live(1);
    *out = p;
    return 0;
}
static int destroy(void *p) {
    live(-1);
    free(p);
    return 0;
}

EXPORT int cublasLtCreate(void **handle) {
    int rc = fails("Create");
    if (rc) return rc;
    pthread_mutex_lock(&f.mu);
    f.asked.n_handles++;
    pthread_mutex_unlock(&f.mu);
    *handle = &f;
    return 0;
}
EXPORT int cublasLtMatmulDescCreate(void **d, int compute, int scale) {
    int rc = fails("DescCreate");
    return rc ? rc
              : make(d, &(struct desc){.compute = compute, .scale = scale}, sizeof(struct desc));
}
EXPORT int cublasLtMatmulDescDestroy(void *d) {
    return destroy(d);
}
EXPORT int cublasLtMatmulDescSetAttribute(void *d, int which, const void *v, size_t bytes) {
    if ((which != 3 && which != 4) || bytes != 4) return INVALID;
    memcpy(&((struct desc *)d)->transposed[which - 3], v, 4);
    return fails("DescSet");
}
EXPORT int cublasLtMatrixLayoutCreate(void **l, int type, uint64_t rows, uint64_t cols,
                                      int64_t ld) {
    int rc = fails("LayoutCreate");
    if (rc || ld < (int64_t)rows) return rc ? rc : INVALID;
    return make(l, &(struct layout){type, rows, cols, ld, 0, 1}, sizeof(struct layout));
}
EXPORT int cublasLtMatrixLayoutDestroy(void *l) {
    return destroy(l);
}
EXPORT int cublasLtMatrixLayoutSetAttribute(void *layout, int which, const void *v, size_t bytes) {
    struct layout *l = layout;
    if (which == 5 && bytes == 4)
        memcpy(&l->batches, v, 4);
    else if (which == 6 && bytes == 8)
        memcpy(&l->batch_stride, v, 8);
    else
        return INVALID;
    return fails("LayoutSet");
}
EXPORT int cublasLtMatmulPreferenceCreate(void **p) {
    int rc = fails("PrefCreate");
    struct pref fresh = {.reductions = 7, .alignments = {256, 256, 256, 256}};
    return rc ? rc : make(p, &fresh, sizeof fresh);
}
EXPORT int cublasLtMatmulPreferenceDestroy(void *p) {
    return destroy(p);
}
EXPORT int cublasLtMatmulPreferenceSetAttribute(void *pref, int which, const void *v,
                                                size_t bytes) {
    struct pref *p = pref;
    if (which == 1 && bytes == 8)
        memcpy(&p->workspace, v, 8);
    else if (which == 3 && bytes == 4)
        memcpy(&p->reductions, v, 4);
    else if (which >= 5 && which < 9 && bytes == 4)
        memcpy(&p->alignments[which - 5], v, 4);
    else
        return INVALID;
    return fails("PrefSet");
}

/* Whether D = op(A) op(B) is well formed. */
static int fits(const struct desc *d, const struct layout *a, const struct layout *b,
                const struct layout *o) {
    uint64_t ar = d->transposed[0] ? a->cols : a->rows, ac = d->transposed[0] ? a->rows : a->cols,
             br = d->transposed[1] ? b->cols : b->rows, bc = d->transposed[1] ? b->rows : b->cols;
    return ar == o->rows && ac == br && bc == o->cols && a->batches == o->batches &&
           b->batches == o->batches && a->type == o->type && b->type == o->type;
}

EXPORT int cublasLtMatmulAlgoGetHeuristic(void *handle, void *desc, void *a, void *b, void *c,
                                          void *d, void *pref, int n, struct choice *out,
                                          int *n_found) {
    const struct pref *p = pref;
    int rc = fails("Heuristic");
    pthread_mutex_lock(&f.mu);
    f.asked.n_heuristics++;
    f.asked.compute = ((struct desc *)desc)->compute;
    f.asked.scale = ((struct desc *)desc)->scale;
    f.asked.type = ((struct layout *)d)->type;
    f.asked.reductions = p->reductions;
    memcpy(f.asked.alignments, p->alignments, sizeof p->alignments);
    f.asked.most_workspace = p->workspace;
    size_t wants = f.wants_workspace;
    pthread_mutex_unlock(&f.mu);
    if (rc == -1) { /* -1 selects the other way of rejecting: no algorithm is returned */
        *n_found = 0;
        return 0;
    }
    if (rc || handle != &f || n < 1 || !fits(desc, a, b, d)) return rc ? rc : INVALID;
    *out = (struct choice){.algo = {{77}}, .workspace = wants};
    *n_found = 1;
    return 0;
}

struct product {
    struct desc desc;
    struct layout a, b, d;
    const float *pa, *pb;
    float *pd;
};
/* The thread sanitizer sees no more of a product than of a device's kernels, and the test does not
 * take minutes. */
#define LIKE_A_DEVICE __attribute__((no_sanitize_thread))
LIKE_A_DEVICE static float element(const struct layout *l, const float *p, int transposed,
                                   uint64_t r, uint64_t c, int64_t batch) {
    return p[batch * l->batch_stride + (int64_t)(transposed ? c : r) +
             (int64_t)(transposed ? r : c) * l->ld];
}
LIKE_A_DEVICE static void multiply(void *arg) {
    struct product *p = arg;
    uint64_t depth = p->desc.transposed[0] ? p->a.rows : p->a.cols;
    for (int64_t i = 0; i < p->d.batches; i++)
        for (uint64_t r = 0; r < p->d.rows; r++)
            for (uint64_t c = 0; c < p->d.cols; c++) {
                float s = 0;
                for (uint64_t k = 0; k < depth; k++)
                    s += element(&p->a, p->pa, p->desc.transposed[0], r, k, i) *
                         element(&p->b, p->pb, p->desc.transposed[1], k, c, i);
                p->pd[i * p->d.batch_stride + (int64_t)r + (int64_t)c * p->d.ld] = s;
            }
    free(p);
}
static const float *host_of(const void *device) {
    return (const float *)((uintptr_t)device - SHIFT);
}

EXPORT int cublasLtMatmul(void *handle, void *desc, const void *alpha, const void *a, void *al,
                          const void *b, void *bl, const void *beta, const void *c, void *cl,
                          void *d, void *dl, const struct algo *algo, void *workspace, size_t bytes,
                          void *stream) {
    int rc = fails("Matmul");
    if (rc) return rc;
    struct product p = {*(struct desc *)desc, *(struct layout *)al, *(struct layout *)bl,
                        *(struct layout *)dl, host_of(a),           host_of(b),
                        (float *)host_of(d)};
    pthread_mutex_lock(&f.mu);
    int short_of = bytes < f.wants_workspace || (bytes > 0 && !workspace);
    f.asked.n_products++;
    f.asked.workspace = bytes;
    pthread_mutex_unlock(&f.mu);
    if (handle != &f || algo->data[0] != 77 || !fits(desc, al, bl, dl) || short_of) return INVALID;
    if (p.d.type != 0) return NOT_SUPPORTED; /* such a product is only described, not computed */
    if (*(const float *)alpha != 1 || *(const float *)beta != 0) return INVALID;
    void *cuda = dlopen(getenv("KEEL_CUDA_DRIVER"), RTLD_NOW);
    void *symbol = dlsym(cuda, "cuLaunchHostFunc");
    int (*launch)(void *, void (*)(void *), void *);
    memcpy(&launch, &symbol, sizeof symbol);
    struct product *own = malloc(sizeof *own);
    *own = p;
    if ((rc = launch(stream, multiply, own))) free(own);
    return rc ? 13 : 0;
}
