/* fake_cufft.c - a cuFFT for tests, used with fake_cuda.c: plans in the advanced layout, whose
 * transforms are host functions in the stream, computed by their definition in double. It rejects
 * what the documentation of cuFFT does not allow, and overwrites the input of transforms to real
 * numbers. The arguments of calls are kept for the test (fake_fft_*, found with dlsym). */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define SHIFT ((uint64_t)1 << 52) /* the value in fake_cuda.c */

enum { INVALID_PLAN = 1, ALLOC_FAILED = 2, INVALID_VALUE = 4, NO_WORKSPACE = 13 };
enum { R2C = 0x2a, C2R = 0x2c, C2C = 0x29, MOST_PLANS = 2048, MOST_RANK = 3 };

/* test_cuda_fft.c has the same struct. */
struct asked {
    int n_plans, n_live, n_executed, rank, type;
    long long n[MOST_RANK], in_stride, in_distance, out_stride, out_distance, batch;
};
struct plan {
    bool live, made, manual; /* manual: the workspace is the caller's */
    struct asked is;
    long long in_dims[MOST_RANK], out_dims[MOST_RANK];
    void *work, *stream;
};
static struct {
    pthread_mutex_t mu;
    struct asked asked;
    const char *fail_call;
    int fail_in, fail_code;
    size_t workspace;
    struct plan plans[MOST_PLANS];
} f = {.mu = PTHREAD_MUTEX_INITIALIZER, .workspace = 1 << 16};

EXPORT void fake_fft_asked(struct asked *out) {
    pthread_mutex_lock(&f.mu);
    *out = f.asked;
    pthread_mutex_unlock(&f.mu);
}
/* Makes the call of the named function fail that comes after `in` others. NULL cancels. Returns
 * whether an earlier request is still open. */
EXPORT bool fake_fft_fail(const char *call, int in, int code) {
    pthread_mutex_lock(&f.mu);
    bool open = f.fail_call != NULL;
    f.fail_call = call;
    f.fail_in = in;
    f.fail_code = code;
    pthread_mutex_unlock(&f.mu);
    return open;
}
EXPORT void fake_fft_workspace(size_t bytes) {
    f.workspace = bytes;
}

static int fails(const char *call) {
    int rc = 0;
    pthread_mutex_lock(&f.mu);
    if (f.fail_call && strcmp(f.fail_call, call) == 0 && f.fail_in-- == 0) {
        rc = f.fail_code;
        f.fail_call = NULL;
    }
    pthread_mutex_unlock(&f.mu);
    return rc;
}
static struct plan *plan_of(int plan) {
    struct plan *p = plan > 0 && plan < MOST_PLANS ? &f.plans[plan] : NULL;
    return p && p->live ? p : NULL;
}

EXPORT int cufftCreate(int *plan) {
    int rc = fails("Create");
    if (rc) return rc;
    pthread_mutex_lock(&f.mu);
    for (*plan = 1; *plan < MOST_PLANS && f.plans[*plan].live;) ++*plan;
    rc = *plan == MOST_PLANS ? ALLOC_FAILED : 0;
    if (!rc) {
        f.plans[*plan] = (struct plan){.live = true};
        f.asked.n_live++;
    }
    pthread_mutex_unlock(&f.mu);
    return rc;
}
EXPORT int cufftDestroy(int plan) {
    struct plan *p = plan_of(plan);
    if (!p) return INVALID_PLAN;
    pthread_mutex_lock(&f.mu);
    p->live = false;
    f.asked.n_live--;
    pthread_mutex_unlock(&f.mu);
    return 0;
}
EXPORT int cufftSetAutoAllocation(int plan, int on) {
    int rc = fails("SetAutoAllocation");
    struct plan *p = plan_of(plan);
    if (rc || !p || p->made) return rc ? rc : INVALID_PLAN;
    p->manual = !on;
    return 0;
}
EXPORT int cufftMakePlanMany64(int plan, int rank, long long *n, long long *in_dims,
                               long long in_stride, long long in_distance, long long *out_dims,
                               long long out_stride, long long out_distance, int type,
                               long long batch, size_t *bytes) {
    int rc = fails("MakePlan");
    struct plan *p = plan_of(plan);
    if (rc || !p || p->made) return rc ? rc : INVALID_PLAN;
    if (rank < 1 || rank > MOST_RANK || !p->manual || batch < 1 || in_stride < 1 || out_stride < 1)
        return INVALID_VALUE;
    p->made = true;
    p->is = (struct asked){.rank = rank,
                           .type = type,
                           .in_stride = in_stride,
                           .in_distance = in_distance,
                           .out_stride = out_stride,
                           .out_distance = out_distance,
                           .batch = batch};
    for (int i = 0; i < rank; i++) {
        const long long bins = i == rank - 1 ? n[i] / 2 + 1 : n[i];
        p->is.n[i] = n[i];
        p->in_dims[i] = in_dims[i];
        p->out_dims[i] = out_dims[i];
        if (in_dims[i] < (type == C2R ? bins : n[i]) || out_dims[i] < (type == R2C ? bins : n[i]))
            return INVALID_VALUE;
    }
    *bytes = f.workspace;
    pthread_mutex_lock(&f.mu);
    const int live = f.asked.n_live, made = f.asked.n_plans, executed = f.asked.n_executed;
    f.asked = p->is;
    f.asked.n_live = live;
    f.asked.n_plans = made + 1;
    f.asked.n_executed = executed;
    pthread_mutex_unlock(&f.mu);
    return 0;
}
EXPORT int cufftSetWorkArea(int plan, void *work) {
    int rc = fails("SetWorkArea");
    struct plan *p = plan_of(plan);
    if (rc || !p || !p->made) return rc ? rc : INVALID_PLAN;
    p->work = work;
    return 0;
}
EXPORT int cufftSetStream(int plan, void *stream) {
    int rc = fails("SetStream");
    struct plan *p = plan_of(plan);
    if (rc || !p) return rc ? rc : INVALID_PLAN;
    p->stream = stream; /* unguarded as in cuFFT, where threads must not share a plan at a time */
    return 0;
}

/* ---- running ---- */

struct call {
    struct plan plan;
    float *in, *out;
    int direction;
};

/* The transform of n numbers that are `apart` from each other. */
static void line(double *z, long long n, long long apart, int direction) {
    double *sum = malloc((size_t)n * 2 * sizeof *sum);
    for (long long k = 0; k < n; k++) {
        sum[2 * k] = sum[2 * k + 1] = 0;
        for (long long j = 0; j < n; j++) {
            const double angle = direction * 2 * M_PI * (double)(j * k % n) / (double)n;
            const double *v = z + 2 * j * apart, c = cos(angle), s = sin(angle);
            sum[2 * k] += v[0] * c - v[1] * s;
            sum[2 * k + 1] += v[0] * s + v[1] * c;
        }
    }
    for (long long k = 0; k < n; k++) {
        z[2 * k * apart] = sum[2 * k];
        z[2 * k * apart + 1] = sum[2 * k + 1];
    }
    free(sum);
}

/* The offset of position `at`, row-major over n, in an array of these dims; -1 where `at` is not
 * stored there. */
static long long place(const struct plan *p, const long long *dims, long long stride,
                       long long at) {
    long long coordinate[MOST_RANK], offset = 0;
    for (int i = p->is.rank - 1; i >= 0; at /= p->is.n[i--]) coordinate[i] = at % p->is.n[i];
    for (int i = 0; i < p->is.rank; i++) {
        if (coordinate[i] >= dims[i]) return -1;
        offset = offset * dims[i] + coordinate[i];
    }
    return offset * stride;
}

/* One transform of the batch. */
static void one(const struct call *c, long long size, double *z, const float *in, float *out) {
    const struct plan *p = &c->plan;
    const int rank = p->is.rank;
    const long long last = p->is.n[rank - 1];
    for (long long i = 0; i < size; i++) {
        const long long k = i % last;
        /* of a transform to real numbers, which has one axis here, half is stored */
        const bool mirrored = p->is.type == C2R && 2 * k > last;
        const long long at = place(p, p->in_dims, p->is.in_stride, mirrored ? last - k : i);
        z[2 * i] = in[p->is.type == R2C ? at : 2 * at];
        z[2 * i + 1] = p->is.type == R2C ? 0 : in[2 * at + 1] * (mirrored ? -1 : 1);
    }
    for (long long axis = rank - 1, apart = 1; axis >= 0; apart *= p->is.n[axis--])
        for (long long i = 0; i < size; i++)
            if (i / apart % p->is.n[axis] == 0) line(z + 2 * i, p->is.n[axis], apart, c->direction);
    for (long long i = 0; i < size; i++) {
        const long long at = place(p, p->out_dims, p->is.out_stride, i);
        if (at < 0) continue;
        if (p->is.type == C2R) {
            out[at] = (float)z[2 * i];
        } else {
            out[2 * at] = (float)z[2 * i];
            out[2 * at + 1] = (float)z[2 * i + 1];
        }
    }
}

__attribute__((no_sanitize_thread)) static void transform(void *arg) {
    struct call *c = arg;
    const struct plan *p = &c->plan;
    const int of_in = p->is.type == R2C ? 1 : 2, of_out = p->is.type == C2R ? 1 : 2;
    long long size = 1;
    for (int i = 0; i < p->is.rank; i++) size *= p->is.n[i];
    double *z = malloc((size_t)size * 2 * sizeof *z);
    for (long long b = 0; b < p->is.batch; b++)
        one(c, size, z, c->in + b * p->is.in_distance * of_in,
            c->out + b * p->is.out_distance * of_out);
    for (long long b = 0; b < p->is.batch && p->is.type == C2R; b++)
        c->in[b * p->is.in_distance * of_in] = (float)NAN;
    free(z);
    free(c);
}

static int launch(int plan, int type, void *in, void *out, int direction) {
    struct plan *p = plan_of(plan);
    if (!p || !p->made || p->is.type != type || in == out) return INVALID_PLAN;
    if (f.workspace && !p->work) return NO_WORKSPACE;
    pthread_mutex_lock(&f.mu);
    f.asked.n_executed++;
    pthread_mutex_unlock(&f.mu);
    void *cuda = dlopen(getenv("KEEL_CUDA_DRIVER"), RTLD_NOW);
    void *symbol = dlsym(cuda, "cuLaunchHostFunc");
    int (*launch_host)(void *, void (*)(void *), void *);
    memcpy(&launch_host, &symbol, sizeof symbol);
    struct call *c = malloc(sizeof *c);
    *c = (struct call){.plan = *p,
                       .in = (float *)((uintptr_t)in - SHIFT),
                       .out = (float *)((uintptr_t)out - SHIFT),
                       .direction = direction};
    const int rc = launch_host(p->stream, transform, c);
    if (rc) free(c);
    return rc ? INVALID_VALUE : 0;
}
EXPORT int cufftExecC2C(int plan, void *in, void *out, int direction) {
    int rc = fails("Exec");
    return rc ? rc : launch(plan, C2C, in, out, direction);
}
EXPORT int cufftExecR2C(int plan, void *in, void *out) {
    int rc = fails("Exec");
    return rc ? rc : launch(plan, R2C, in, out, -1);
}
EXPORT int cufftExecC2R(int plan, void *in, void *out) {
    int rc = fails("Exec");
    return rc ? rc : launch(plan, C2R, in, out, 1);
}
