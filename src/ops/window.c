/* window.c - window functions for signals. They are short and depend on a length alone, so they are computed in double when built,
 * symmetric to the bit, and rounded once. */
#include <math.h>

#include "base/alloc.h"
#include "ops/check.h"
#include "ops/ops.h"

#define PI 3.14159265358979323846

/* x: from -1 to 1. */
static double hanning(double x) {
    return 0.5 + 0.5 * cos(PI * x);
}
static double hamming(double x) {
    return 0.54 + 0.46 * cos(PI * x);
}
static double blackman(double x) {
    return fmax(0.42 + 0.5 * cos(PI * x) + 0.08 * cos(2 * PI * x), 0); /* 0 at the ends */
}
static double bartlett(double x) {
    return 1 - fabs(x);
}

static int window(struct kl_array **out, double (*fn)(double), int n, struct kl_stream *s,
                  struct kl_error **err) {
    int size = n > 0 ? n : 0;
    KL_TRY(kl_check_stream(s, err));
    float *v = kl_malloc(((size_t)size + 1) * sizeof *v);
    if (!v) return kl_fail_nomem(err);
    for (int64_t i = 0; i < size; i++)
        v[i] = size == 1 ? 1.0f : (float)fn((double)(2 * i - (size - 1)) / (size - 1));
    int rc = kl_array_new_data(out, v, KL_F32, 1, &size, err);
    kl_free(v);
    return rc;
}

int kl_hanning(struct kl_array **out, int n, struct kl_stream *s, struct kl_error **err) {
    return window(out, hanning, n, s, err);
}
int kl_hamming(struct kl_array **out, int n, struct kl_stream *s, struct kl_error **err) {
    return window(out, hamming, n, s, err);
}
int kl_blackman(struct kl_array **out, int n, struct kl_stream *s, struct kl_error **err) {
    return window(out, blackman, n, s, err);
}
int kl_bartlett(struct kl_array **out, int n, struct kl_stream *s, struct kl_error **err) {
    return window(out, bartlett, n, s, err);
}
