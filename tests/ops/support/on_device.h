/* on_device.h - the streams for tests that compare a device with known results. The device is the
 * simulated one, or the one that KEEL_TEST_GPU names (opencl, cuda). CTest runs each of these tests
 * a second time with opencl, which is PoCL where there is no other OpenCL device. */
#pragma once
#include "support.h"

#include "backend/sim/sim.h"
#include "graph/array.h"
#include "ops/ops.h"
#include "ops/support/ok.h"
#include "runtime/stream.h"

static struct kl_stream *cpu_stream, *gpu_stream;

static inline const char *device_name(void) {
    const char *want = getenv("KEEL_TEST_GPU");
    return want && *want ? want : "sim";
}

static inline int open_streams(void **state) {
    setenv("KEEL_GPU", device_name(), 1);
    struct kl_error *e = NULL;
    if (kl_stream_new(&gpu_stream, KL_GPU, 0, &e)) {
        print_error("%s: %s\n", device_name(), e ? e->message : "no device");
        return -1;
    }
    return kl_stream_new(&cpu_stream, KL_CPU, 0, NULL);
}

/* The elements in row-major order. Evaluates the array, and keeps them in *keep, which the caller
 * releases. */
static inline const void *read_elements(struct kl_array *a, struct kl_stream *s,
                                        struct kl_array **keep, const char *what) {
    void *data = NULL;
    struct kl_error *e = NULL;
    OK(kl_contiguous(keep, a, false, s, &err));
    if (kl_array_host(*keep, &data, &e)) fail_msg("%s: %s", what, e ? e->message : "no message");
    return data;
}

/* Numbers between -1 and 1 in the device's memory, others each time. */
static inline struct kl_array *drawn(enum kl_dtype dtype, int ndim, const int *dims) {
    static uint64_t state = 7;
    int64_t n = 1;
    for (int i = 0; i < ndim; i++) n *= dims[i];
    float *v = malloc((size_t)n * sizeof *v);
    for (int64_t i = 0; i < n; i++)
        v[i] = (float)(int32_t)(kl_test_random(&state) >> 33) * 0x1p-30f - 1;
    struct kl_array *host, *there, *a;
    OK(kl_array_new_data(&host, v, KL_F32, ndim, dims, &err));
    OK(kl_copy(&there, host, gpu_stream, &err));
    OK(kl_astype(&a, there, dtype, gpu_stream, &err));
    OK(kl_eval(&a, 1, &err));
    kl_array_release(host);
    kl_array_release(there);
    free(v);
    return a;
}

/* Whether a case runs that compiles kernels of its own. The simulated device compiles none, so
 * there every case runs. */
static inline bool takes_case(unsigned one_in) {
    return strcmp(device_name(), "sim") == 0 || kl_test_takes("kernels", one_in);
}

/* Whether float sums in global memory flush denormals on this device: see docs/numerics.md. */
static inline bool device_sums_flush(void) {
    return strcmp(device_name(), "cuda") == 0;
}

/* Indexed by enum kl_scatter_mode. */
static kl_scatter_single_fn *const scatters[] = {kl_scatter_single, kl_scatter_add_single,
                                                 kl_scatter_prod_single, kl_scatter_max_single,
                                                 kl_scatter_min_single};
static const char *const scatter_names[] = {"scatter", "scatter_add", "scatter_prod", "scatter_max",
                                            "scatter_min"};
