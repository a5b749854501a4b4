/* stream.c - mlx/c/stream.h. */
#include <stdio.h>

#include "api/handles/device_box.h"
#include "base/alloc.h"
#include "runtime/device.h"

/* Assigns `made` (taken) and ends the call. */
static int end_stream(struct kl_call *c, mlx_stream *res, struct kl_stream *made) {
    struct kl_stream_box *box = c->err ? NULL : res->ctx;
    if (box) {
        struct kl_stream *old = box->stream;
        box->stream = made;
        kl_stream_release(old);
        return 0;
    }
    void *ctx = kl_call_end_new_stream(c, made);
    if (!ctx) return 1;
    res->ctx = ctx;
    return 0;
}

mlx_stream mlx_stream_new(void) {
    return (mlx_stream){NULL};
}

mlx_stream mlx_stream_new_device(mlx_device dev) {
    struct kl_call c = {.func = __func__};
    const struct kl_device_box *d = kl_in_device(&c, dev, "dev");
    struct kl_stream *made = NULL;
    if (!c.err) kl_stream_new(&made, d->type, d->index, &c.err);
    return (mlx_stream){kl_call_end_new_stream(&c, made)};
}

int mlx_stream_set(mlx_stream *stream, const mlx_stream src) {
    struct kl_call c = kl_call_begin(__func__, stream);
    struct kl_stream *s = kl_in_stream(&c, src);
    return end_stream(&c, stream, c.err ? NULL : kl_stream_retain(s));
}

int mlx_stream_free(mlx_stream stream) {
    struct kl_stream_box *box = stream.ctx;
    if (box) kl_stream_release(box->stream);
    kl_free(box);
    return 0;
}

int mlx_stream_tostring(mlx_string *str, mlx_stream stream) {
    struct kl_call c = kl_call_begin(__func__, str);
    struct kl_stream *s = kl_in_stream(&c, stream);
    char device[64], text[128];
    if (!c.err) {
        kl_device_text(device, sizeof device, kl_stream_device_type(s), kl_stream_device_index(s));
        snprintf(text, sizeof text, "Stream(%s, %d)", device, kl_stream_index(s));
    }
    return kl_call_end_text(&c, str, c.err ? NULL : kl_strdup(text));
}

bool mlx_stream_equal(mlx_stream lhs, mlx_stream rhs) {
    const struct kl_stream_box *a = lhs.ctx, *b = rhs.ctx;
    return a && b && a->stream == b->stream;
}

int mlx_stream_get_device(mlx_device *dev, mlx_stream stream) {
    struct kl_call c = kl_call_begin(__func__, dev);
    struct kl_stream *s = kl_in_stream(&c, stream);
    return kl_call_end_device(&c, dev, s ? kl_stream_device_type(s) : KL_CPU,
                              s ? kl_stream_device_index(s) : 0);
}

int mlx_stream_get_index(int *index, mlx_stream stream) {
    struct kl_call c = kl_call_begin(__func__, index);
    struct kl_stream *s = kl_in_stream(&c, stream);
    if (!c.err) *index = kl_stream_index(s);
    return kl_call_end_plain(&c);
}

int mlx_synchronize(mlx_stream stream) {
    struct kl_call c = {.func = __func__};
    struct kl_stream *s = kl_in_stream(&c, stream);
    if (!c.err) kl_stream_synchronize(s, &c.err);
    return kl_call_end_plain(&c);
}

int mlx_get_default_stream(mlx_stream *stream, mlx_device dev) {
    struct kl_call c = kl_call_begin(__func__, stream);
    const struct kl_device_box *d = kl_in_device(&c, dev, "dev");
    struct kl_stream *s = NULL;
    if (!c.err) kl_stream_default(&s, d->type, d->index, &c.err);
    return end_stream(&c, stream, s);
}

int mlx_set_default_stream(mlx_stream stream) {
    struct kl_call c = {.func = __func__};
    struct kl_stream *s = kl_in_stream(&c, stream);
    if (!c.err) kl_stream_set_default(s, &c.err);
    return kl_call_end_plain(&c);
}

static mlx_stream default_of(const char *func, enum kl_device_type type) {
    struct kl_call c = {.func = func};
    struct kl_stream *s = NULL;
    kl_stream_default(&s, type, type == KL_GPU ? kl_device_own_gpu() : 0, &c.err);
    return (mlx_stream){kl_call_end_new_stream(&c, s)};
}

mlx_stream mlx_default_cpu_stream_new(void) {
    return default_of(__func__, KL_CPU);
}

mlx_stream mlx_default_gpu_stream_new(void) {
    return default_of(__func__, KL_GPU);
}
