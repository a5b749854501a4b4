/* error.h - the error object: what failed, why, and where it applies.
 *
 * An error is immutable, reference-counted and shared: every value that depends on a failed value
 * holds the same object. Functions return a code (0 or a negative KL_E*) and explain it through
 * `struct kl_error **err`, which may be NULL. The first error stays in *err; the caller owns it.
 * Reporting never fails: when an error object cannot be allocated, a static object of the same code
 * takes its place. */
#pragma once
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum kl_code {
    KL_OK = 0,
#define KL_CODE(NAME, number, text) KL_##NAME = number,
#include "base/error_list.def"
#undef KL_CODE
};

/* Which optional fields of an error are set. */
enum {
    KL_HAS_BYTES = 1,     /* byte_begin, byte_end */
    KL_HAS_INDEX = 2,     /* index */
    KL_HAS_AXIS = 4,      /* axis */
    KL_HAS_SIZE = 8,      /* axis_size */
    KL_HAS_POSITION = 16, /* position */
    KL_HAS_STREAM = 32,   /* stream */
};

struct kl_error {
    _Atomic(uint32_t) refs;
    _Atomic(uint32_t) seen;       /* whether it was delivered (values: failures.c) */
    bool is_static;               /* never freed */
    int code;                     /* KL_E* */
    unsigned has;                 /* KL_HAS_* */
    const char *op;               /* operation, NULL when none; lives in this object or is static */
    const char *message;          /* never NULL */
    const char *tensor;           /* name in its file, or NULL */
    const char *file;             /* path or reader label, or NULL */
    int64_t byte_begin, byte_end; /* range in the file, [begin, end) */
    /* the invalid index as given, before wrapping, and INT64_MAX where it is larger; for a custom
     * kernel: the value that it raised */
    int64_t index;
    int64_t axis, axis_size;
    int64_t position; /* flat row-major position in the index array */
    int64_t stream;   /* index of the stream that ran the operation */
};

/* The fields of a new error. Strings are copied. A field without a value is NULL or 0. */
struct kl_error_info {
    int code;
    unsigned has;
    const char *op, *tensor, *file;
    int64_t byte_begin, byte_end, index, axis, axis_size, position, stream;
};

/* Never NULL. The caller owns one reference. */
struct kl_error *kl_error_new(const struct kl_error_info *info, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
struct kl_error *kl_error_static(int code); /* the fallback object of a code; needs no release */
struct kl_error *kl_error_retain(struct kl_error *e);
void kl_error_release(struct kl_error *e); /* NULL is fine */

/* A copy of *e with `op` as its operation and the prefix "op: " in its message; e itself if e names
 * an operation already. Takes e. */
struct kl_error *kl_error_named(struct kl_error *e, const char *op);

/* Sets *err (unless err is NULL or already holds an error) and returns code. */
int kl_fail(struct kl_error **err, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Like kl_fail, with every field of the error given by info. Returns info->code. */
int kl_fail_info(struct kl_error **err, const struct kl_error_info *info, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Fails with KL_EAXIS and the axis as the caller gave it. */
int kl_fail_axis(struct kl_error **err, int axis, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Moves e (taken) into *err, or drops it when err is NULL or already holds one. Returns e's
 * code. */
int kl_fail_with(struct kl_error **err, struct kl_error *e);
int kl_fail_nomem(struct kl_error **err); /* allocates nothing */

#define KL_TRY(call)                       \
    do {                                   \
        int kl_try_rc_ = (call);           \
        if (kl_try_rc_) return kl_try_rc_; \
    } while (0)
