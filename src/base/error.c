/* error.c - error objects. Each is one allocation: the struct, followed by its strings. */
#include "base/error.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/refs.h"

/* The static error of every code: reporting a failure must work when nothing can be allocated. */
static struct kl_error statics[] = {
#define KL_CODE(NAME, number, text) \
    [-(number)] = {.refs = 1, .is_static = true, .code = number, .message = text},
#include "base/error_list.def"
#undef KL_CODE
};
enum { N_STATICS = sizeof statics / sizeof statics[0] };

struct kl_error *kl_error_static(int code) {
    int i = -code;
    if (i <= 0 || i >= N_STATICS || !statics[i].message) i = -KL_EINTERNAL;
    return &statics[i];
}

static char *put(char **at, const char *s) {
    if (!s) return NULL;
    size_t n = strlen(s) + 1;
    char *p = memcpy(*at, s, n);
    *at += n;
    return p;
}

static size_t bytes_of(const char *s) {
    return s ? strlen(s) + 1 : 0;
}

static struct kl_error *error_build(const struct kl_error_info *info, const char *message) {
    size_t text =
        bytes_of(message) + bytes_of(info->op) + bytes_of(info->tensor) + bytes_of(info->file);
    struct kl_error *e = kl_malloc(sizeof *e + text);
    if (!e) return kl_error_static(info->code == KL_OK ? KL_EINTERNAL : info->code);
    char *at = (char *)(e + 1);
    atomic_init(&e->refs, 1);
    atomic_init(&e->seen, 0);
    e->is_static = false;
    e->code = info->code;
    e->has = info->has;
    e->message = put(&at, message);
    e->op = put(&at, info->op);
    e->tensor = put(&at, info->tensor);
    e->file = put(&at, info->file);
    e->byte_begin = info->byte_begin;
    e->byte_end = info->byte_end;
    e->index = info->index;
    e->axis = info->axis;
    e->axis_size = info->axis_size;
    e->position = info->position;
    e->stream = info->stream;
    return e;
}

static struct kl_error *error_vnew(const struct kl_error_info *info, const char *fmt,
                                   va_list args) {
    char local[512];
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(local, sizeof local, fmt, args);
    struct kl_error *e;
    if (n < 0) {
        e = error_build(info, kl_error_static(info->code)->message);
    } else if ((size_t)n < sizeof local) {
        e = error_build(info, local);
    } else { /* the message holds a long path or name, and must not be cut */
        char *text = kl_malloc((size_t)n + 1);
        if (text) vsnprintf(text, (size_t)n + 1, fmt, again);
        e = error_build(info, text ? text : local);
        kl_free(text);
    }
    va_end(again);
    return e;
}

struct kl_error *kl_error_new(const struct kl_error_info *info, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    struct kl_error *e = error_vnew(info, fmt, args);
    va_end(args);
    return e;
}

struct kl_error *kl_error_retain(struct kl_error *e) {
    if (e && !e->is_static) atomic_fetch_add_explicit(&e->refs, 1, memory_order_relaxed);
    return e;
}

void kl_error_release(struct kl_error *e) {
    if (!e || e->is_static) return;
    if (!kl_refs_drop(&e->refs)) return;
    kl_free(e);
}

struct kl_error *kl_error_named(struct kl_error *e, const char *op) {
    if (e->op || e->is_static) return e;
    struct kl_error_info info = {.code = e->code,
                                 .has = e->has,
                                 .op = op,
                                 .tensor = e->tensor,
                                 .file = e->file,
                                 .byte_begin = e->byte_begin,
                                 .byte_end = e->byte_end,
                                 .index = e->index,
                                 .axis = e->axis,
                                 .axis_size = e->axis_size,
                                 .position = e->position,
                                 .stream = e->stream};
    struct kl_error *named = kl_error_new(&info, "%s: %s", op, e->message);
    kl_error_release(e);
    return named;
}

int kl_fail_with(struct kl_error **err, struct kl_error *e) {
    int code = e->code;
    if (err && !*err)
        *err = e;
    else
        kl_error_release(e);
    return code;
}

int kl_fail(struct kl_error **err, int code, const char *fmt, ...) {
    if (!err || *err) return code;
    struct kl_error_info info = {.code = code};
    va_list args;
    va_start(args, fmt);
    *err = error_vnew(&info, fmt, args);
    va_end(args);
    return code;
}

int kl_fail_info(struct kl_error **err, const struct kl_error_info *info, const char *fmt, ...) {
    if (!err || *err) return info->code;
    va_list args;
    va_start(args, fmt);
    *err = error_vnew(info, fmt, args);
    va_end(args);
    return info->code;
}

int kl_fail_axis(struct kl_error **err, int axis, const char *fmt, ...) {
    if (!err || *err) return KL_EAXIS;
    struct kl_error_info info = {.code = KL_EAXIS, .has = KL_HAS_AXIS, .axis = axis};
    va_list args;
    va_start(args, fmt);
    *err = error_vnew(&info, fmt, args);
    va_end(args);
    return KL_EAXIS;
}

int kl_fail_nomem(struct kl_error **err) {
    if (err && !*err) *err = kl_error_static(KL_ENOMEM);
    return KL_ENOMEM;
}
