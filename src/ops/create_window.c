/* create_window.c - window functions for signals. They are computed in float64, are symmetric to
 * the bit, and are rounded once. The computation is on the CPU, since not every device has
 * float64; the result is copied to the device. */
#include <math.h>

#include "ops/build/terms.h"
#include "ops/ops.h"

#define PI 3.14159265358979323846

/* A window as a function of x, which goes from -1 to 1. */
typedef struct kl_array *window_fn(struct kl_terms *t, struct kl_array *x);

/* a + b * cos(c * PI * x) */
static struct kl_array *wave(struct kl_terms *t, struct kl_array *x, double a, double b, double c) {
    struct kl_array *w = kl_term(t, kl_cos, kl_term_by(t, kl_multiply, x, c * PI));
    return kl_term_by(t, kl_add, kl_term_by(t, kl_multiply, w, b), a);
}
static struct kl_array *hanning(struct kl_terms *t, struct kl_array *x) {
    return wave(t, x, 0.5, 0.5, 1);
}
static struct kl_array *hamming(struct kl_terms *t, struct kl_array *x) {
    return wave(t, x, 0.54, 0.46, 1);
}
static struct kl_array *blackman(struct kl_terms *t, struct kl_array *x) {
    struct kl_array *y = kl_term2(t, kl_add, wave(t, x, 0.42, 0.5, 1), wave(t, x, 0, 0.08, 2));
    return kl_term_by(t, kl_maximum, y, 0); /* 0 at both ends */
}
static struct kl_array *bartlett(struct kl_terms *t, struct kl_array *x) {
    return kl_term_by(t, kl_add, kl_term(t, kl_negative, kl_term(t, kl_abs, x)), 1);
}

static int window(struct kl_array **out, window_fn *fn, int n, struct kl_stream *s,
                  struct kl_error **err) {
    KL_TRY(kl_check_stream(s, err));
    if (n < 2) return kl_ones(out, (int[]){n > 0 ? n : 0}, 1, KL_F32, s, err);
    struct kl_stream *host;
    if (kl_stream_device_type(s) == KL_CPU)
        host = kl_stream_retain(s);
    else
        KL_TRY(kl_stream_default(&host, KL_CPU, 0, err));
    struct kl_terms t = kl_terms_begin(host, err);
    const double last = (double)n - 1;
    struct kl_array *x = KL_TERM(&t, kl_arange(&t.made, -last, last + 1, 2, KL_F64, host, err));
    struct kl_array *y = kl_term_cast(&t, fn(&t, kl_term_by(&t, kl_divide, x, last)), KL_F32);
    if (host != s) y = KL_TERM(&t, kl_copy(&t.made, y, s, err));
    const int rc = kl_terms_end(&t, y, out);
    kl_stream_release(host);
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
