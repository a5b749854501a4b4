/* test_rope_far.c - rope with frequencies from 1e-45 to 3e38, or none, at positions up to 2^31: the
 * CPU and a device rotate by the angle that numbers of any length give. */
#include "ops/support/no_f64.h"
#include "ops/support/on_device.h"

#include <math.h>

#include "base/number/turns.h"

enum { HALF = 16, WIDTH = 2 * HALF, LENGTH = 3 };
static const float freqs[HALF] = {1,      1e4F,   1e-3F,    1e-9F,  -3e-10F, 1e-12F,
                                  1e-20F, 1e-30F, 1e-38F,   1e-45F, 1e30F,   3.4e38F,
                                  0,      NAN,    INFINITY, -1e-6F};
static const int offsets[] = {0, 1, 3000, -70000, 1 << 24, 2147483644, -2147483647 - 1};
static const float scales[] = {1, 0.3F, -2.5F, 1e20F, 1e-20F};

/* Rotates pairs of (1, 0), whose result is the cosine and the sine. */
static struct kl_array *rotated(enum kl_dtype dtype, int offset, float scale, bool given,
                                struct kl_stream *s) {
    float x[LENGTH * WIDTH] = {0};
    for (int i = 0; i < LENGTH * WIDTH; i++) x[i] = i % WIDTH < HALF;
    struct kl_array *plain, *in, *at, *by = NULL, *out, *wide;
    OK(kl_array_new_data(&plain, x, KL_F32, 3, (int[]){1, LENGTH, WIDTH}, &err));
    OK(kl_astype(&in, plain, dtype, cpu_stream, &err));
    OK(kl_array_new_data(&at, &offset, KL_I32, 0, NULL, &err));
    if (given) OK(kl_array_new_data(&by, freqs, KL_F32, 1, (int[]){HALF}, &err));
    OK(kl_rope(&out, in, WIDTH, false, (struct kl_rope_base){!given, 10000}, scale, at, by, s,
               &err));
    OK(kl_astype(&wide, out, KL_F32, s, &err));
    struct kl_array *done[] = {plain, in, at, by, out};
    for (int i = 0; i < 5; i++) kl_array_release(done[i]);
    return wide;
}

static void check(enum kl_dtype dtype, int offset, float scale, bool given) {
    const struct kl_turns_scale by = kl_turns_scale(scale);
    struct kl_stream *streams[] = {cpu_stream, gpu_stream};
    for (int d = 0; d < 2; d++) {
        struct kl_array *out = rotated(dtype, offset, scale, given, streams[d]), *keep;
        const float *y = read_elements(out, streams[d], &keep, "rope");
        for (int i = 0; i < LENGTH * HALF; i++) {
            const int k = i % HALF;
            const int64_t position = offset + (int64_t)(i / HALF);
            const uint64_t one = given ? kl_turns_of_freq(&by, freqs[k])
                                       : kl_turns_of_rate(pow(10000, -k / (double)HALF), scale);
            const double angle = one == KL_NO_ANGLE
                                     ? NAN
                                     : (double)(int64_t)((uint64_t)position * one) * M_PI * 0x1p-63;
            const float want[] = {(float)cos(angle), (float)sin(angle)};
            for (int part = 0; part < 2; part++) {
                const float got = y[i / HALF * WIDTH + k + part * HALF];
                if (!(isnan(got)
                          ? isnan(want[part])
                          : fabsf(got - want[part]) <= (dtype == KL_F16 ? 0x1p-11F : 0x1p-22F)))
                    fail_msg("%s on %s, position %lld, scale %g, frequency %g (%d): %.9g, not %.9g",
                             kl_dtype_name(dtype), d ? device_name() : "cpu", (long long)position,
                             (double)scale, given ? (double)freqs[k] : 0, k, (double)got,
                             (double)want[part]);
            }
        }
        kl_array_release(keep);
        kl_array_release(out);
    }
}

static void angles(void **state) {
    (void)state;
    static const enum kl_dtype dtypes[] = {KL_F32, KL_F16, KL_F64};
    for (int t = 0; t < (device_lacks_f64() ? 2 : 3); t++)
        for (size_t o = 0; o < sizeof offsets / sizeof *offsets; o++)
            for (size_t s = 0; s < sizeof scales / sizeof *scales; s++)
                for (int given = 0; given < 2; given++)
                    check(dtypes[t], offsets[o], scales[s], given);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(angles)};
    return cmocka_run_group_tests(tests, open_streams, NULL);
}
