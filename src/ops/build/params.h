/* params.h - twins of the structures of op_params.def that end in a list: kl_<owner>_buf has space
 * for the longest list, so that it can be put on the stack. kl_<owner>_params_bytes gives the bytes
 * that are used. */
#pragma once
#include <stddef.h>
#include <string.h>

#include "base/op/op_params.h"
#include "ops/build/check.h"

#define KL_PARAMS(owner) struct kl_##owner##_buf {
#define KL_FIELD(owner, type, name, doc) type name;
#define KL_FIELDS(owner, FIELDS) FIELDS(KL_PARAM_MEMBER, owner, )
#define KL_MEMBER(owner, type, name, FIELDS) type name;
#define KL_ARRAY(owner, type, name, n) type name[n];
#define KL_END(owner) \
    }                 \
    ;
#define KL_END_LIST(owner, type, name, count, most, doc)                                    \
    type name[most];                                                                        \
    KL_END(owner)                                                                           \
    _Static_assert(offsetof(struct kl_##owner##_buf, name) ==                               \
                       offsetof(struct kl_##owner##_params, name),                          \
                   "one layout");                                                           \
    static inline size_t kl_##owner##_params_bytes(const struct kl_##owner##_buf *p) {      \
        return offsetof(struct kl_##owner##_buf, name) + (size_t)(count) * sizeof *p->name; \
    }
/* defines kl_dims_params_bytes, kl_fft_params_bytes, kl_gather_params_bytes,
 * kl_reduce_params_bytes, kl_scatter_params_bytes, kl_slice_params_bytes, kl_strided_params_bytes,
 * kl_var_params_bytes */
#include "base/op/op_params.def"

/* Fills *p; returns the bytes that are used. */
static inline size_t kl_dims_params(struct kl_dims_buf *p, int n, const int *v) {
    p->n = n;
    if (n) memcpy(p->v, v, (size_t)n * sizeof *v);
    return kl_dims_params_bytes(p);
}
