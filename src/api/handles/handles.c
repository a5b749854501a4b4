/* handles.c - see handles.h: reading arguments, and ending calls. */
#include "api/handles/handles.h"

#include <string.h>

#include "base/alloc.h"

/* ---- arguments ---- */
void kl_need(struct kl_call *c, const void *p, const char *what) {
    if (!p) kl_fail(&c->err, KL_EARG, "%s is NULL", what);
}

void kl_need_size(struct kl_call *c, size_t size, size_t least, const char *type) {
    if (size < least && !c->err)
        kl_fail(&c->err, KL_EARG, "size is %zu; set it to sizeof(%s) before the call", size, type);
}

void kl_fill(void *to, const void *from, size_t n) {
    const size_t *size = to;
    memcpy((char *)to + sizeof *size, (const char *)from + sizeof *size,
           (*size < n ? *size : n) - sizeof *size);
}

struct kl_call kl_call_begin(const char *func, const void *res) {
    struct kl_call c = {.func = func};
    kl_need(&c, res, "the result");
    return c;
}

struct kl_array *kl_in(struct kl_call *c, mlx_array a, const char *what) {
    const struct kl_array_box *box = a.ctx;
    if (box) return box->array;
    kl_fail(&c->err, KL_EARG, "%s is an empty array handle", what);
    return NULL;
}

struct kl_array *kl_in_optional(mlx_array a) {
    const struct kl_array_box *box = a.ctx;
    return box ? box->array : NULL;
}

struct kl_stream *kl_in_stream(struct kl_call *c, mlx_stream s) {
    const struct kl_stream_box *box = s.ctx;
    if (box) return box->stream;
    kl_fail(&c->err, KL_EARG, "the stream is an empty handle");
    return NULL;
}

struct kl_vec *kl_in_vec(struct kl_call *c, void *ctx, const char *what) {
    if (!ctx) kl_fail(&c->err, KL_EARG, "%s is an empty vector handle", what);
    return ctx;
}

struct kl_map *kl_in_map(struct kl_call *c, void *ctx, const char *what) {
    if (!ctx) kl_fail(&c->err, KL_EARG, "%s is an empty map handle", what);
    return ctx;
}

/* ---- boxes ---- */
struct kl_array_box *kl_array_box_new(struct kl_array *a, struct kl_error **err) {
    struct kl_array_box *b = kl_malloc(sizeof *b);
    if (b) {
        b->array = a;
    } else {
        kl_fail_nomem(err);
        kl_array_release(a);
    }
    return b;
}

void kl_array_box_free(struct kl_array_box *b) {
    if (!b) return;
    kl_array_release(b->array);
    kl_free(b);
}

void kl_array_box_put(struct kl_array_box *b, struct kl_array *a) {
    struct kl_array *old = b->array;
    b->array = a;
    kl_array_release(old);
}

/* ---- ends ---- */
int kl_call_end_plain(struct kl_call *c) {
    return c->err ? kl_api_raise(c->func, c->err) : 0;
}

/* A builder that reports no error and gives no result would otherwise look like success. */
static void need_result(struct kl_call *c, const void *out) {
    if (!c->err && !out) kl_fail(&c->err, KL_EINTERNAL, "the operation gave no result");
}

void *kl_call_end_new_array(struct kl_call *c, struct kl_array *out) {
    need_result(c, out);
    struct kl_array_box *box = NULL;
    if (c->err)
        kl_array_release(out);
    else
        box = kl_array_box_new(out, &c->err);
    if (c->err) kl_api_raise(c->func, c->err);
    return box;
}

int kl_call_end(struct kl_call *c, mlx_array *res, struct kl_array *out) {
    need_result(c, out);
    if (c->err)
        kl_array_release(out);
    else if (res->ctx)
        kl_array_box_put(res->ctx, out);
    else
        res->ctx = kl_array_box_new(out, &c->err);
    return kl_call_end_plain(c);
}

int kl_call_end_pair(struct kl_call *c, mlx_array *res_0, mlx_array *res_1, struct kl_array *out_0,
                     struct kl_array *out_1) {
    need_result(c, out_0);
    need_result(c, out_1);
    struct kl_array_box *box_0 = NULL;
    if (!c->err && !res_0->ctx) {
        box_0 = kl_array_box_new(out_0, &c->err);
        if (!box_0) out_0 = NULL;
    }
    if (!c->err && !res_1->ctx) {
        res_1->ctx = kl_array_box_new(out_1, &c->err);
        out_1 = NULL;
    }
    if (c->err) {
        if (box_0)
            kl_array_box_free(box_0);
        else
            kl_array_release(out_0);
        kl_array_release(out_1);
        return kl_api_raise(c->func, c->err);
    }
    if (box_0)
        res_0->ctx = box_0;
    else
        kl_array_box_put(res_0->ctx, out_0);
    if (out_1) kl_array_box_put(res_1->ctx, out_1);
    return 0;
}

int kl_call_end_list(struct kl_call *c, mlx_vector_array *res, struct kl_array **outs, size_t n) {
    struct kl_vec made = {.items = outs, .n = n, .cap = n};
    if (!c->err && !res->ctx) res->ctx = kl_vec_new(&c->err);
    if (c->err)
        kl_vec_clear(&kl_vec_of_arrays, &made);
    else
        kl_vec_move(&kl_vec_of_arrays, res->ctx, &made);
    return kl_call_end_plain(c);
}

int kl_call_end_text(struct kl_call *c, mlx_string *res, char *text) {
    if (!c->err && !text) kl_fail_nomem(&c->err);
    struct kl_string_box *box = c->err ? NULL : res->ctx;
    if (!c->err && !box) {
        box = kl_calloc(1, sizeof *box);
        if (box)
            res->ctx = box;
        else
            kl_fail_nomem(&c->err);
    }
    if (c->err) {
        kl_free(text);
        return kl_api_raise(c->func, c->err);
    }
    kl_free(box->text);
    box->text = text;
    return 0;
}

void *kl_call_end_new_stream(struct kl_call *c, struct kl_stream *out) {
    need_result(c, out);
    struct kl_stream_box *box = c->err ? NULL : kl_malloc(sizeof *box);
    if (box) {
        box->stream = out;
        return box;
    }
    if (!c->err) kl_fail_nomem(&c->err);
    kl_stream_release(out);
    kl_api_raise(c->func, c->err);
    return NULL;
}
