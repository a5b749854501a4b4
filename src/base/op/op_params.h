/* op_params.h - the parameters of operations, as builders write them and kernels read them.
 * Flat structs, copied with the node; arrays of varying length are flexible members. op_params.def
 * has their fields and says what these mean. VIEW and DEPENDS have no parameters, among others; the
 * output of DEPENDS is a copy of in[0]. */
#pragma once
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/op/kernel_desc.h"
#include "base/op/launch.h"
#include "base/op/quant_mode.h"

enum kl_scatter_mode {
    KL_SCATTER_ASSIGN,
    KL_SCATTER_ADD,
    KL_SCATTER_PROD,
    KL_SCATTER_MAX,
    KL_SCATTER_MIN,
    KL_SCATTER_ADD_DENORMAL /* ADD with denormals on every device: of float32 for bfloat16 */
};
static inline bool kl_scatter_adds(enum kl_scatter_mode mode) {
    return mode == KL_SCATTER_ADD || mode == KL_SCATTER_ADD_DENORMAL;
}
enum { KL_MAX_SPATIAL = 3 };
/* The meaning of an output of QUANTIZE. */
enum kl_quantize_part {
    KL_QUANTIZE_CODES,  /* uint32, packed */
    KL_QUANTIZE_SCALES, /* uint8; affine: those of w's dtype, (2, ...), scales and then biases */
    KL_QUANTIZE_VALUES, /* what codes and scales stand for, of the shape of w, in `dtype` */
};
/* Which numbers a Fourier transform takes and gives. */
enum kl_fft_kind {
    KL_FFT_FORWARD,   /* any numbers, complex ones */
    KL_FFT_INVERSE,   /* the same with the conjugate roots */
    KL_FFT_FROM_REAL, /* real numbers, of the last axis the first n / 2 + 1 results of n */
    KL_FFT_TO_REAL,   /* the inverse of these, n real numbers of n / 2 + 1 */
};

#define KL_PARAM_MEMBER(owner, at, type, name, doc) type name;
#define KL_STRUCT(name, FIELDS)         \
    struct kl_##name {                  \
        FIELDS(KL_PARAM_MEMBER, name, ) \
    };
#define KL_PARAMS(owner) struct kl_##owner##_params {
#define KL_FIELD(owner, type, name, doc) type name;
#define KL_FIELDS(owner, FIELDS) FIELDS(KL_PARAM_MEMBER, owner, )
#define KL_MEMBER(owner, type, name, FIELDS) type name;
#define KL_ARRAY(owner, type, name, n) type name[n];
#define KL_END(owner) \
    }                 \
    ;
#define KL_END_LIST(owner, type, name, count, most, doc) \
    type name[];                                         \
    KL_END(owner)
#define KL_END_LONG_LIST(owner, type, name, doc) \
    type name[];                                 \
    KL_END(owner)
#include "base/op/op_params.def"

/* Where products of queries of 16 bits are made without rounding scale * q, queries can be
 * multiplied by this power of two first, which is exact: the largest that is at most |scale| and 1.
 * Then no score overflows that does not when scale is multiplied into the queries. 1 for float16,
 * whose products fit float32, and whose range a power of two might leave. 0: neither is certain. */
static inline float kl_attention_power(enum kl_dtype dtype, float scale) {
    int exponent;
    const float size = fabsf(scale);
    if (!(size >= 0x1p-32f && size <= 0x1p32f)) return 0;
    if (dtype == KL_F16 || size >= 1) return 1;
    (void)frexpf(size, &exponent);
    return ldexpf(1, exponent - 1);
}

/* CALL: a C function with a context. It must write every output element or return an error. */
struct kl_call_params {
    const char *name; /* for messages; static or owned by ctx */
    int (*fn)(void *ctx, struct kl_launch *l, struct kl_error **err);
    void *ctx;                  /* one reference, owned by the params */
    void (*release)(void *ctx); /* may be NULL */
    /* Takes one more reference to ctx, for work in flight. Needed on devices when release is
     * set. */
    void (*retain)(void *ctx);
    /* Called when the node is freed or fails without having run, so that a loader can count the
     * node as settled. May be NULL. */
    void (*skipped)(void *ctx, struct kl_error *why);
    /* scratch memory for fn, which gets it as an extra uint8 output after the others */
    size_t workspace_bytes;
    /* on a device: fn must not run when the fault of an input is set, because it is not safe on
     * arbitrary data */
    bool guarded;
};

/* CUSTOM: a function with rules of its own. in = the n_out results of the function, then its n_args
 * arguments; the outputs are views of the results. The rules belong to transforms/, which gives the
 * function that drops the reference to them. */
struct kl_custom_params {
    struct kl_custom_function *custom; /* one reference, owned by the parameters */
    void (*release)(struct kl_custom_function *custom);
    int n_args;
};

/* KL_OPF_COLLECTIVE: what a group of processes does together (backend/collective/group.h). */
struct kl_collective_params {
    struct kl_group *group;      /* one reference, owned by the parameters */
    struct kl_request *request;  /* of the task, until it is launched; NULL as a builder gives it */
    struct kl_device_part *part; /* in place of a request, where a device does it */
    uint64_t serial;             /* in the order of building; set when the node is made */
    int peer;                    /* SEND, RECV: the other rank */
};

/* KERNEL: one reference to its description, owned by the parameters. */
struct kl_kernel_params {
    struct kl_kernel_desc *desc;
};
