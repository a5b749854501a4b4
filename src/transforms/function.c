/* function.c - see function.h. */
#include "transforms/function.h"

#include <string.h>

#include "base/alloc.h"
#include "runtime/device.h"

int kl_arrays_new(struct kl_arrays *a, size_t n, struct kl_error **err) {
    a->n = 0;
    a->v = kl_malloc((n ? n : 1) * sizeof *a->v);
    if (!a->v) return kl_fail_nomem(err);
    memset(a->v, 0, n * sizeof *a->v);
    a->n = n;
    return KL_OK;
}

void kl_arrays_free(struct kl_arrays *a) {
    for (size_t i = 0; i < a->n; i++) kl_array_release(a->v[i]);
    kl_free(a->v);
    *a = (struct kl_arrays){NULL, 0};
}

struct kl_function kl_function_retain(const struct kl_function *f) {
    if (f->retain) f->retain(f->ctx);
    return *f;
}

void kl_function_release(struct kl_function *f) {
    if (f->release) f->release(f->ctx);
    *f = (struct kl_function){0};
}

static __thread int level;             /* how many functions of this thread are being called */
static __thread uintptr_t level_frame; /* the place on the stack of the outermost of them */

int kl_level_enter(int *before, struct kl_error **err) {
    /* Stacks grow downwards. A frame that is not below the outermost call is not within it: that
     * call was left by longjmp. */
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    if (here >= level_frame) level = 0;
    if (level == 0) level_frame = here;
    if (level == KL_MOST_LEVELS)
        return kl_fail(err, KL_ELIMIT, "functions are nested deeper than %d calls", KL_MOST_LEVELS);
    *before = level++;
    return KL_OK;
}

void kl_level_leave(int before) {
    level = before;
}

int kl_function_call(const struct kl_function *f, struct kl_array *const *in, size_t n_in,
                     struct kl_arrays *outs, struct kl_error **err) {
    int before;
    KL_TRY(kl_level_enter(&before, err));
    int rc = f->call(f->ctx, in, n_in, outs, err);
    kl_level_leave(before);
    if (rc) return rc;
    for (size_t i = 0; i < outs->n; i++) {
        if (outs->v[i]) continue;
        kl_arrays_free(outs);
        return kl_fail(err, KL_ECALLBACK, "result %zu of the function is empty", i);
    }
    return KL_OK;
}

int kl_transform_stream(struct kl_stream **out, struct kl_error **err) {
    enum kl_device_type type;
    int index;
    kl_device_default(&type, &index);
    KL_TRY(kl_stream_default(out, type, index, err));
    kl_stream_release(*out);
    return KL_OK;
}
