/* error.c - raising errors: the handler, the thread's last error, and the functions of
 * keel/error.h for both.
 *
 * The handler gets the message from a buffer on the stack of kl_api_raise. So a failing call inside
 * the handler replaces the thread's last error while the text stays valid, and a handler that
 * longjmps leaks nothing. */
#include <keel/error.h>
#include <mlx/c/error.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/handles/handles.h"
#include "base/alloc.h"
#include "base/fork_locks.h"
#include "base/thread.h"
#include "base/value/capture.h"
#include "base/value/failures.h"

/* ---- the public codes equal the internal ones ---- */
#define KL_CODE(NAME, number, text) _Static_assert((int)KEEL_##NAME == (number), "keel/error.h");
#include "base/error_list.def"
#undef KL_CODE
_Static_assert((int)KEEL_HAS_BYTES == KL_HAS_BYTES, "keel/error.h");
_Static_assert((int)KEEL_HAS_INDEX == KL_HAS_INDEX, "keel/error.h");
_Static_assert((int)KEEL_HAS_AXIS == KL_HAS_AXIS, "keel/error.h");
_Static_assert((int)KEEL_HAS_SIZE == KL_HAS_SIZE, "keel/error.h");
_Static_assert((int)KEEL_HAS_POSITION == KL_HAS_POSITION, "keel/error.h");
_Static_assert((int)KEEL_HAS_STREAM == KL_HAS_STREAM, "keel/error.h");

const char *keel_code_name(int code) {
    switch (code) {
    case KL_OK: return "OK";
#define KL_CODE(NAME, number, text) \
    case number:                    \
        return #NAME;
#include "base/error_list.def"
#undef KL_CODE
    default: return "unknown";
    }
}

/* ---- the handler ---- */
struct handler {
    mlx_error_handler_func fn; /* NULL: errors are return codes only */
    void *data;
    void (*dtor)(void *);
};

static void print_and_exit(const char *msg, void *data) {
    printf("MLX error: %s\n", msg);
    exit(-1);
}

/* a leaf lock: no other lock is taken while it is held */
static struct kl_mutex handler_mu = KL_MUTEX_INIT;
static struct handler handler = {.fn = print_and_exit}; /* guarded by handler_mu */

__attribute__((constructor)) static void watch_fork(void) {
    kl_fork_lock_add(&handler_mu);
}

static void handler_replace(struct handler with) {
    kl_mutex_lock(&handler_mu);
    struct handler old = handler;
    handler = with;
    kl_mutex_unlock(&handler_mu);
    if (old.dtor) old.dtor(old.data);
}

void mlx_set_error_handler(mlx_error_handler_func fn, void *data, void (*dtor)(void *)) {
    handler_replace((struct handler){fn ? fn : print_and_exit, data, dtor});
}

void keel_errors_return(void) {
    handler_replace((struct handler){0});
}

/* ---- the thread's last error ---- */
static _Thread_local struct {
    struct kl_error *error; /* owned */
    const char *func;       /* the API function, for an error that names no operation itself */
    bool released_at_exit;
} last;

static void last_release(void *unused) {
    kl_error_release(last.error);
    last.error = NULL;
}

static void last_set(struct kl_error *e /* taken */, const char *func) {
    if (!last.released_at_exit) last.released_at_exit = kl_thread_at_exit(last_release, NULL) == 0;
    kl_error_release(last.error);
    last.error = e;
    last.func = func;
}

void kl_api_forget_error(void) {
    last_release(NULL);
}

/* Whether the message already begins with the name of the operation. */
static bool says_op(const struct kl_error *e) {
    size_t n = strlen(e->op);
    return strncmp(e->message, e->op, n) == 0 && e->message[n] == ':';
}

int kl_api_raise(const char *func, struct kl_error *e) {
    kl_failures_delivered(e);
    if (!e->op && !e->is_static) {
        e = kl_error_named(e, func);
        if (!e->is_static) atomic_store(&e->seen, 1);
    }
    char text[2048];
    if (!e->op)
        snprintf(text, sizeof text, "%s: %s", func, e->message);
    else if (says_op(e))
        snprintf(text, sizeof text, "%s", e->message);
    else
        snprintf(text, sizeof text, "%s: %s", e->op, e->message);

    if (kl_capture_active()) {
        kl_capture_store(kl_error_retain(e));
        last_set(e, func);
        return 1;
    }
    last_set(e, func);
    kl_mutex_lock(&handler_mu);
    struct handler h = handler;
    kl_mutex_unlock(&handler_mu);
    if (h.fn) h.fn(text, h.data);
    return 1;
}

void _mlx_error(const char *file, const int line, const char *fmt, ...) {
    char text[1536];
    va_list args;
    va_start(args, fmt);
    if (!fmt || vsnprintf(text, sizeof text, fmt, args) < 0)
        snprintf(text, sizeof text, "error without a message");
    va_end(args);
    struct kl_error_info info = {.code = kl_capture_active() ? KL_EREADER : KL_ECALLBACK,
                                 .op = "mlx_error"};
    kl_api_raise("mlx_error", file ? kl_error_new(&info, "%s at %s:%d", text, file, line)
                                   : kl_error_new(&info, "%s", text));
}

/* ---- keel/error.h ---- */
/* Whether *out has at least the fields up to `message`. */
static bool info_fits(const keel_error_info *out) {
    return out && out->size >= offsetof(keel_error_info, tensor);
}

static void info_fill(keel_error_info *out, const struct kl_error *e, const char *func) {
    const keel_error_info info = {
        .code = e->code,
        .has = e->has,
        .operation = e->op ? e->op : func,
        .message = e->message,
        .tensor = e->tensor,
        .file = e->file,
        .byte_begin = e->byte_begin,
        .byte_end = e->byte_end,
        .index = e->index,
        .axis = e->axis,
        .axis_size = e->axis_size,
        .position = e->position,
        .stream = e->stream,
    };
    kl_fill(out, &info, sizeof info);
}

static void info_none(keel_error_info *out) {
    const keel_error_info info = {.code = KEEL_OK, .message = ""};
    kl_fill(out, &info, sizeof info);
}

int keel_last_error(keel_error_info *out) {
    if (!info_fits(out)) return 1;
    if (!last.error) {
        info_none(out);
        return 2;
    }
    info_fill(out, last.error, last.func);
    return 0;
}

int keel_array_error(keel_error_info *out, const mlx_array a) {
    if (!info_fits(out) || !a.ctx) return 1;
    const struct kl_array_box *box = a.ctx;
    struct kl_error *e = kl_fate_error(box->array->t.fate);
    if (!e) {
        info_none(out);
        return 2;
    }
    kl_failures_delivered(e);
    info_fill(out, e, NULL);
    return 0;
}
