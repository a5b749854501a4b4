/* cuda_launch.c - programs and launches. The slot `begin` has made the device's context current on
 * the thread that launches. */
#include "backend/cuda/cuda_internal.h"
#include "base/alloc.h"

int kl_cuda_compile(struct kl_driver *driver, const char *source, const char *name, void **binary,
                    size_t *bytes, struct kl_error **err) {
    return kl_nvrtc_compile(kl_cuda_of(driver)->cc, source, name, binary, bytes, err);
}

bool kl_cuda_helper_begin(struct kl_driver *driver) {
    return kl_nvrtc_helper_begin();
}

void kl_cuda_helper_end(struct kl_driver *driver) {
    kl_nvrtc_helper_end();
}

int kl_cuda_module(struct kl_cuda *d, const char *what, const void *image, void **module,
                   struct kl_error **err) {
    KL_TRY(kl_cuda_enter(d, err));
    int result = d->api->ModuleLoadData(module, image);
    if (result == KL_CU_OUT_OF_MEMORY || kl_cuda_is_fatal(result))
        return kl_cuda_check(d, err, "cuModuleLoadData", result);
    char text[64];
    return result ? kl_fail(err, KL_ECOMPILE,
                            "device '%s' does not take %s: cuModuleLoadData failed with %s",
                            d->name, what, kl_cuda_error_name(result, text, sizeof text))
                  : KL_OK;
}

int kl_cuda_load(struct kl_driver *driver, const void *binary, size_t bytes, void **module,
                 struct kl_error **err) {
    /* The kernel cache makes sure that a stored program is complete. */
    return kl_cuda_module(kl_cuda_of(driver), "a compiled program", binary, module, err);
}

/* With more, including what the kernel declares, the kernel must ask for it. */
enum { SHARED_FOR_ALL = 48 << 10 };

/* Launches reach CUDA later than they are made, and others of the same kernel come between, from
 * several threads, so a kernel asks once for as much as there is: a limit for one of them would
 * refuse others. */
static int allow_shared(struct kl_cuda *d, void *kernel, struct kl_error **err) {
    int declared = 0;
    KL_TRY(KL_CUDA(d, err, FuncGetAttribute, (&declared, KL_CU_FUNC_SHARED_BYTES, kernel)));
    const int most = (int)d->driver.dynamic_bytes - declared;
    if (most <= 0 || d->driver.dynamic_bytes <= SHARED_FOR_ALL) return KL_OK;
    return KL_CUDA(d, err, FuncSetAttribute, (kernel, KL_CU_FUNC_MAX_DYNAMIC_SHARED_BYTES, most));
}

int kl_cuda_find(struct kl_driver *driver, void *module, const char *entry, void **kernel,
                 struct kl_error **err) {
    struct kl_cuda *d = kl_cuda_of(driver);
    KL_TRY(kl_cuda_enter(d, err));
    int result = d->api->ModuleGetFunction(kernel, module, entry);
    if (result == KL_CU_NOT_FOUND)
        return kl_fail(err, KL_ECOMPILE, "the program has no kernel '%s'", entry);
    KL_TRY(kl_cuda_check(d, err, "cuModuleGetFunction", result));
    return allow_shared(d, *kernel, err);
}

int kl_cuda_limits(struct kl_driver *driver, void *kernel, struct kl_kernel_limits *limits,
                   struct kl_error **err) {
    struct kl_cuda *d = kl_cuda_of(driver);
    int most = 0, shared = 0;
    KL_TRY(kl_cuda_enter(d, err));
    KL_TRY(KL_CUDA(d, err, FuncGetAttribute, (&most, KL_CU_FUNC_MAX_THREADS_PER_BLOCK, kernel)));
    KL_TRY(KL_CUDA(d, err, FuncGetAttribute, (&shared, KL_CU_FUNC_SHARED_BYTES, kernel)));
    *limits = (struct kl_kernel_limits){(uint32_t)most, (size_t)shared};
    return KL_OK;
}

static int launch(struct kl_driver *driver, void *queue, void *kernel, const uint32_t *groups,
                  const uint32_t *local, size_t shared_bytes, const struct kl_karg *args,
                  int n_args, bool alone, struct kl_error **err) {
    struct kl_cuda *d = kl_cuda_of(driver);
    if (n_args > KL_MAX_KARGS)
        return kl_fail(err, KL_EINTERNAL, "a kernel with %d arguments", n_args);
    return kl_cuda_chain_add(d, queue, kernel, groups, local, (uint32_t)shared_bytes, args, n_args,
                             alone, err);
}

int kl_cuda_launch_3d(struct kl_driver *driver, void *queue, void *kernel, const uint32_t *groups,
                      const uint32_t *local, size_t shared_bytes, const struct kl_karg *args,
                      int n_args, struct kl_error **err) {
    return launch(driver, queue, kernel, groups, local, shared_bytes, args, n_args, false, err);
}

int kl_cuda_launch_program(struct kl_driver *driver, void *queue, void *kernel,
                           const uint32_t *groups, const uint32_t *local, size_t shared_bytes,
                           const struct kl_karg *args, int n_args, struct kl_error **err) {
    return launch(driver, queue, kernel, groups, local, shared_bytes, args, n_args, true, err);
}

int kl_cuda_launch(struct kl_driver *driver, void *queue, void *kernel, uint32_t groups,
                   uint32_t local, const struct kl_karg *args, int n_args, struct kl_error **err) {
    return launch(driver, queue, kernel, (const uint32_t[]){groups, 1, 1},
                  (const uint32_t[]){local, 1, 1}, 0, args, n_args, false, err);
}

int kl_cuda_copy(struct kl_driver *driver, void *queue, void *dst, const void *src, size_t bytes,
                 struct kl_error **err) {
    struct kl_cuda *d = kl_cuda_of(driver);
    struct kl_cuda_queue *q = queue;
    if (bytes == 0) return KL_OK;
    KL_TRY(kl_cuda_chain_flush(d, q, err));
    return KL_CUDA(d, err, MemcpyDtoDAsync, ((uintptr_t)dst, (uintptr_t)src, bytes, q->stream));
}

/* The ways in which CUDA runs commands better than kernels of the dialect do. */
int kl_cuda_override(struct kl_emit *e, const struct kl_command *c) {
    if (c->op == KL_OP_MATMUL) return kl_cuda_blas(e, c);
    if (c->op == KL_OP_CONVOLUTION) return kl_cuda_dnn(e, c);
    if (c->op == KL_OP_FFT) return kl_cuda_fft(e, c);
    if (c->op == KL_OP_ATTENTION) return kl_cuda_attention(e, c);
    return kl_cuda_solver(e, c);
}
