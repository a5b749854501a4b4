/* device.c - mlx/c/device.h and keel/device.h. A device handle is only a name: the device need
 * not exist. */
#include "api/handles/handles.h"

#include <keel/device.h>
#include <stdio.h>
#include <string.h>

#include "api/handles/device_box.h"
#include "base/alloc.h"
#include "runtime/device.h"

_Static_assert((int)MLX_CPU == (int)KL_CPU && (int)MLX_GPU == (int)KL_GPU, "public device types");

struct kl_device_box *kl_in_device(struct kl_call *c, mlx_device dev, const char *what) {
    if (!dev.ctx) kl_fail(&c->err, KL_EARG, "%s is an empty device handle", what);
    return dev.ctx;
}

int kl_call_end_device(struct kl_call *c, mlx_device *res, enum kl_device_type type, int index) {
    struct kl_device_box *box = c->err ? NULL : res->ctx;
    if (!c->err && !box) {
        box = res->ctx = kl_malloc(sizeof *box);
        if (!box) kl_fail_nomem(&c->err);
    }
    if (!c->err) *box = (struct kl_device_box){type, index};
    return kl_call_end_plain(c);
}

static void check_type(struct kl_call *c, mlx_device_type type) {
    if (type != MLX_CPU && type != MLX_GPU)
        kl_fail(&c->err, KL_EARG, "%d is no device type", (int)type);
}

mlx_device mlx_device_new(void) {
    return (mlx_device){NULL};
}

mlx_device mlx_device_new_type(mlx_device_type type, int index) {
    struct kl_call c = {.func = __func__};
    mlx_device made = {NULL};
    check_type(&c, type);
    if (index < 0) kl_fail(&c.err, KL_EARG, "the index of a device is not %d", index);
    kl_call_end_device(&c, &made, (enum kl_device_type)type, index);
    return made;
}

int mlx_device_free(mlx_device dev) {
    kl_free(dev.ctx);
    return 0;
}

int mlx_device_set(mlx_device *dev, const mlx_device src) {
    struct kl_call c = kl_call_begin(__func__, dev);
    const struct kl_device_box *d = kl_in_device(&c, src, "src");
    return kl_call_end_device(&c, dev, d ? d->type : KL_CPU, d ? d->index : 0);
}

int kl_device_text(char *text, size_t bytes, enum kl_device_type type, int index) {
    return snprintf(text, bytes, "Device(%s, %d)", type == KL_CPU ? "cpu" : "gpu", index);
}

int mlx_device_tostring(mlx_string *str, mlx_device dev) {
    struct kl_call c = kl_call_begin(__func__, str);
    const struct kl_device_box *d = kl_in_device(&c, dev, "dev");
    char text[64];
    if (!c.err) kl_device_text(text, sizeof text, d->type, d->index);
    return kl_call_end_text(&c, str, c.err ? NULL : kl_strdup(text));
}

bool mlx_device_equal(mlx_device lhs, mlx_device rhs) {
    const struct kl_device_box *a = lhs.ctx, *b = rhs.ctx;
    return a && b && a->type == b->type && a->index == b->index;
}

int mlx_device_get_index(int *index, mlx_device dev) {
    struct kl_call c = kl_call_begin(__func__, index);
    const struct kl_device_box *d = kl_in_device(&c, dev, "dev");
    if (!c.err) *index = d->index;
    return kl_call_end_plain(&c);
}

int mlx_device_get_type(mlx_device_type *type, mlx_device dev) {
    struct kl_call c = kl_call_begin(__func__, type);
    const struct kl_device_box *d = kl_in_device(&c, dev, "dev");
    if (!c.err) *type = (mlx_device_type)d->type;
    return kl_call_end_plain(&c);
}

int mlx_get_default_device(mlx_device *dev) {
    struct kl_call c = kl_call_begin(__func__, dev);
    enum kl_device_type type = KL_CPU;
    int index = 0;
    if (!c.err) kl_device_default(&type, &index);
    return kl_call_end_device(&c, dev, type, index);
}

int mlx_set_default_device(mlx_device dev) {
    struct kl_call c = {.func = __func__};
    const struct kl_device_box *d = kl_in_device(&c, dev, "dev");
    if (!c.err) kl_device_set_default(d->type, d->index, &c.err);
    return kl_call_end_plain(&c);
}

int mlx_device_is_available(bool *avail, mlx_device dev) {
    struct kl_call c = kl_call_begin(__func__, avail);
    const struct kl_device_box *d = kl_in_device(&c, dev, "dev");
    if (!c.err) *avail = kl_device_available(d->type, d->index);
    return kl_call_end_plain(&c);
}

int mlx_device_count(int *count, mlx_device_type type) {
    struct kl_call c = kl_call_begin(__func__, count);
    check_type(&c, type);
    if (!c.err) *count = kl_device_count((enum kl_device_type)type);
    return kl_call_end_plain(&c);
}

/* ---- facts ---- */
struct info_box {
    const struct kl_device_fact *facts; /* n facts; never freed */
    size_t n;
};

mlx_device_info mlx_device_info_new(void) {
    return (mlx_device_info){NULL};
}

int mlx_device_info_get(mlx_device_info *info, mlx_device dev) {
    struct kl_call c = kl_call_begin(__func__, info);
    const struct kl_device_box *d = kl_in_device(&c, dev, "dev");
    struct info_box got = {0};
    if (!c.err) kl_device_facts(d->type, d->index, &got.facts, &got.n, &c.err);
    if (!c.err && !info->ctx) {
        info->ctx = kl_malloc(sizeof got);
        if (!info->ctx) kl_fail_nomem(&c.err);
    }
    if (!c.err) *(struct info_box *)info->ctx = got;
    return kl_call_end_plain(&c);
}

int mlx_device_info_free(mlx_device_info info) {
    kl_free(info.ctx);
    return 0;
}

static const struct info_box *in_info(struct kl_call *c, mlx_device_info info) {
    if (!info.ctx) kl_fail(&c->err, KL_EARG, "info is an empty device_info handle");
    return info.ctx;
}

/* The fact with the given key. NULL when there is none, or with the error noted. */
static const struct kl_device_fact *find(struct kl_call *c, mlx_device_info info, const char *key) {
    const struct info_box *box = in_info(c, info);
    kl_need(c, key, "key");
    for (size_t i = 0; !c->err && i < box->n; i++)
        if (strcmp(box->facts[i].key, key) == 0) return &box->facts[i];
    return NULL;
}

int mlx_device_info_has_key(bool *exists, mlx_device_info info, const char *key) {
    struct kl_call c = kl_call_begin(__func__, exists);
    const struct kl_device_fact *f = find(&c, info, key);
    if (!c.err) *exists = f != NULL;
    return kl_call_end_plain(&c);
}

enum { NOT_FOUND = 2 }; /* not an error: the handler is not called */

int mlx_device_info_is_string(bool *is_string, mlx_device_info info, const char *key) {
    struct kl_call c = kl_call_begin(__func__, is_string);
    const struct kl_device_fact *f = find(&c, info, key);
    if (!c.err && !f) return NOT_FOUND;
    if (!c.err) *is_string = f->string != NULL;
    return kl_call_end_plain(&c);
}

int mlx_device_info_get_string(const char **value, mlx_device_info info, const char *key) {
    struct kl_call c = kl_call_begin(__func__, value);
    const struct kl_device_fact *f = find(&c, info, key);
    if (!c.err && (!f || !f->string)) return NOT_FOUND;
    if (!c.err) *value = f->string;
    return kl_call_end_plain(&c);
}

int mlx_device_info_get_size(size_t *value, mlx_device_info info, const char *key) {
    struct kl_call c = kl_call_begin(__func__, value);
    const struct kl_device_fact *f = find(&c, info, key);
    if (!c.err && (!f || f->string)) return NOT_FOUND;
    if (!c.err) *value = f->size;
    return kl_call_end_plain(&c);
}

int mlx_device_info_get_keys(mlx_vector_string *keys, mlx_device_info info) {
    struct kl_call c = kl_call_begin(__func__, keys);
    const struct info_box *box = in_info(&c, info);
    struct kl_vec made = {0};
    for (size_t i = 0; !c.err && i < box->n; i++)
        kl_vec_take(&kl_vec_of_strings, &made, &box->facts[i].key, 1, &c.err);
    if (!c.err && !keys->ctx) keys->ctx = kl_vec_new(&c.err);
    if (c.err)
        kl_vec_clear(&kl_vec_of_strings, &made);
    else
        kl_vec_move(&kl_vec_of_strings, keys->ctx, &made);
    return kl_call_end_plain(&c);
}

int keel_device_choose(bool *gpu) {
    struct kl_call c = kl_call_begin(__func__, gpu);
    if (!c.err) kl_device_choose(gpu, &c.err);
    return kl_call_end_plain(&c);
}
