/* fake_cusolver.c - a cuSOLVER, and the triangular systems of a cuBLAS, for tests, used with
 * fake_cuda.c: it computes nothing. What was called is kept as text for the test (fake_solver_*,
 * found with dlsym), and calls whose arguments the documentation does not allow fail. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { INVALID = 3, WORK_BYTES = 4096, HOST_BYTES = 64, ROOM = 4096 };

static struct {
    pthread_mutex_t mu;
    char calls[ROOM];
    const char *fail_call;
    int fail_code;
    int handle, params;
    int triangle; /* for which the size of a workspace was asked last */
} f = {.mu = PTHREAD_MUTEX_INITIALIZER};

/* The calls since the last question, one after the other. */
EXPORT void fake_solver_calls(char *out, size_t room) {
    pthread_mutex_lock(&f.mu);
    snprintf(out, room, "%s", f.calls);
    f.calls[0] = 0;
    pthread_mutex_unlock(&f.mu);
}
/* Makes every call of the named function fail, until another function or NULL is named. */
EXPORT void fake_solver_fail(const char *call, int code) {
    pthread_mutex_lock(&f.mu);
    f.fail_call = call;
    f.fail_code = code;
    pthread_mutex_unlock(&f.mu);
}

static int fails(const char *call) {
    pthread_mutex_lock(&f.mu);
    const int rc = f.fail_call && strcmp(f.fail_call, call) == 0 ? f.fail_code : 0;
    pthread_mutex_unlock(&f.mu);
    return rc;
}

static int note(const char *call, const char *text) {
    pthread_mutex_lock(&f.mu);
    const size_t used = strlen(f.calls);
    snprintf(f.calls + used, ROOM - used, "%s%s(%s)", used ? " " : "", call, text);
    pthread_mutex_unlock(&f.mu);
    return fails(call);
}
#define NOTE(call, ...)                             \
    do {                                            \
        char text_[200];                            \
        snprintf(text_, sizeof text_, __VA_ARGS__); \
        return note(call, text_);                   \
    } while (0)

/* Every call must have the handle, and its workspaces. */
#define CHECK(ok) \
    if (!(ok)) return INVALID
#define WORK work, size_t bytes, void *host, size_t host_bytes, int *info
#define HAS_WORK(p) \
    ((p) == &f.params && work && bytes >= WORK_BYTES && host && host_bytes >= HOST_BYTES && info)

EXPORT int cusolverDnCreate(void **handle) {
    *handle = &f.handle;
    return fails("Create");
}
EXPORT int cusolverDnSetStream(void *handle, void *stream) {
    CHECK(handle == &f.handle && stream);
    return fails("SetStream");
}
EXPORT int cusolverDnCreateParams(void **params) {
    *params = &f.params;
    return fails("CreateParams");
}
static int size(const char *call, void *handle, size_t *bytes, size_t *host_bytes) {
    CHECK(handle == &f.handle);
    *bytes = WORK_BYTES;
    *host_bytes = HOST_BYTES;
    return fails(call);
}
EXPORT int cusolverDnXpotrf_bufferSize(void *h, void *p, int triangle, int64_t n, int type,
                                       const void *a, int64_t ld, int compute, size_t *bytes,
                                       size_t *host_bytes) {
    f.triangle = triangle;
    return size("PotrfSize", h, bytes, host_bytes);
}
EXPORT int cusolverDnXpotrf(void *h, void *p, int triangle, int64_t n, int type, void *a,
                            int64_t ld, int compute, void *WORK) {
    CHECK(h == &f.handle && HAS_WORK(p) && ld >= n && type == compute && triangle == f.triangle);
    NOTE("potrf", "%s %d type %d", triangle ? "upper" : "lower", (int)n, type);
}
EXPORT int cusolverDnXgetrf_bufferSize(void *h, void *p, int64_t m, int64_t n, int type,
                                       const void *a, int64_t ld, int compute, size_t *bytes,
                                       size_t *host_bytes) {
    return size("GetrfSize", h, bytes, host_bytes);
}
EXPORT int cusolverDnXgetrf(void *h, void *p, int64_t m, int64_t n, int type, void *a, int64_t ld,
                            int64_t *exchanges, int compute, void *WORK) {
    CHECK(h == &f.handle && HAS_WORK(p) && ld >= m && exchanges && type == compute);
    NOTE("getrf", "%dx%d type %d", (int)m, (int)n, type);
}
EXPORT int cusolverDnXgeqrf_bufferSize(void *h, void *p, int64_t m, int64_t n, int type,
                                       const void *a, int64_t ld, int tau_type, const void *tau,
                                       int compute, size_t *bytes, size_t *host_bytes) {
    return size("GeqrfSize", h, bytes, host_bytes);
}
EXPORT int cusolverDnXgeqrf(void *h, void *p, int64_t m, int64_t n, int type, void *a, int64_t ld,
                            int tau_type, void *tau, int compute, void *WORK) {
    CHECK(h == &f.handle && HAS_WORK(p) && ld >= m && tau && type == compute && type == tau_type);
    NOTE("geqrf", "%dx%d type %d", (int)m, (int)n, type);
}
#define ORGQR(name, T)                                                                             \
    EXPORT int cusolverDn##name##_bufferSize(void *h, int m, int n, int k, const T *a, int ld,     \
                                             const T *tau, int *count) {                           \
        CHECK(h == &f.handle);                                                                     \
        *count = 2 * WORK_BYTES / (int)sizeof(T);                                                  \
        return fails(#name "Size");                                                                \
    }                                                                                              \
    EXPORT int cusolverDn##name(void *h, int m, int n, int k, T *a, int ld, const T *tau, T *work, \
                                int count, int *info) {                                            \
        CHECK(h == &f.handle && count >= 2 * WORK_BYTES / (int)sizeof(T) && work && info &&        \
              m >= n && n >= k && ld >= m);                                                        \
        NOTE(#name, "%dx%d of %d", m, n, k);                                                       \
    }
/* defines cusolverDnSorgqr_bufferSize, cusolverDnSorgqr */
ORGQR(Sorgqr, float)
/* defines cusolverDnDorgqr_bufferSize, cusolverDnDorgqr */
ORGQR(Dorgqr, double)
EXPORT int cusolverDnXsyevd_bufferSize(void *h, void *p, int vectors, int triangle, int64_t n,
                                       int type, const void *a, int64_t ld, int w_type,
                                       const void *w, int compute, size_t *bytes,
                                       size_t *host_bytes) {
    return size("SyevdSize", h, bytes, host_bytes);
}
EXPORT int cusolverDnXsyevd(void *h, void *p, int vectors, int triangle, int64_t n, int type,
                            void *a, int64_t ld, int w_type, void *w, int compute, void *WORK) {
    CHECK(h == &f.handle && HAS_WORK(p) && ld >= n && w && type == compute);
    NOTE("syevd", "%s%s %d types %d %d", vectors ? "vectors " : "", triangle ? "upper" : "lower",
         (int)n, type, w_type);
}
EXPORT int cusolverDnXgesvd_bufferSize(void *h, void *p, signed char u_job, signed char vt_job,
                                       int64_t m, int64_t n, int type, const void *a, int64_t ld,
                                       int s_type, const void *s, int u_type, const void *u,
                                       int64_t u_ld, int vt_type, const void *vt, int64_t vt_ld,
                                       int compute, size_t *bytes, size_t *host_bytes) {
    CHECK(m >= n);
    return size("GesvdSize", h, bytes, host_bytes);
}
EXPORT int cusolverDnXgesvd(void *h, void *p, signed char u_job, signed char vt_job, int64_t m,
                            int64_t n, int type, void *a, int64_t ld, int s_type, void *s,
                            int u_type, void *u, int64_t u_ld, int vt_type, void *vt, int64_t vt_ld,
                            int compute, void *WORK) {
    CHECK(h == &f.handle && HAS_WORK(p) && m >= n && ld >= m && s && type == compute);
    CHECK(u_job == 'N' || (u && vt && u_ld >= m && vt_ld >= n));
    NOTE("gesvd", "%c%c %dx%d types %d %d", u_job, vt_job, (int)m, (int)n, type, s_type);
}

EXPORT int cublasCreate_v2(void **handle) {
    *handle = &f.handle;
    return fails("BlasCreate");
}
EXPORT int cublasSetStream_v2(void *handle, void *stream) {
    CHECK(handle == &f.handle && stream);
    return fails("BlasSetStream");
}
#define TRSM(name, T)                                                                             \
    EXPORT int cublas##name##_v2(void *h, int side, int triangle, int op, int unit, int m, int n, \
                                 const T *alpha, const T *a, int ld, T *b, int b_ld) {            \
        CHECK(h == &f.handle && *alpha == 1 && ld >= (side ? n : m) && b_ld >= m);                \
        NOTE(#name, "%s%s%s %s %d by %d", unit ? "unit " : "", op ? "transposed " : "",           \
             triangle ? "upper" : "lower", side ? "right" : "left", m, n);                        \
    }
/* defines cublasStrsm_v2 */
TRSM(Strsm, float)
/* defines cublasDtrsm_v2 */
TRSM(Dtrsm, double)
