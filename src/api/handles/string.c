/* string.c - mlx/c/string.h and version.h. */
#include "api/handles/handles.h"

#include "base/alloc.h"

mlx_string mlx_string_new(void) {
    return (mlx_string){NULL};
}

mlx_string mlx_string_new_data(const char *str) {
    struct kl_call c = {.func = __func__};
    mlx_string made = {NULL};
    kl_need(&c, str, "str");
    kl_call_end_text(&c, &made, c.err ? NULL : kl_strdup(str));
    return made;
}

static const char *text_of(struct kl_call *c, mlx_string str, const char *what) {
    const struct kl_string_box *box = str.ctx;
    if (box) return box->text;
    kl_fail(&c->err, KL_EARG, "%s is an empty string handle", what);
    return NULL;
}

int mlx_string_set(mlx_string *str, const mlx_string src) {
    struct kl_call c = kl_call_begin(__func__, str);
    const char *text = text_of(&c, src, "src");
    return kl_call_end_text(&c, str, c.err ? NULL : kl_strdup(text));
}

const char *mlx_string_data(mlx_string str) {
    struct kl_call c = {.func = __func__};
    const char *text = text_of(&c, str, "str");
    kl_call_end_plain(&c);
    return text;
}

int mlx_string_free(mlx_string str) {
    struct kl_string_box *box = str.ctx;
    if (box) kl_free(box->text);
    kl_free(box);
    return 0;
}

int mlx_version(mlx_string *str_) {
    struct kl_call c = kl_call_begin(__func__, str_);
    return kl_call_end_text(&c, str_, c.err ? NULL : kl_strdup("0.32.0+keel.0.1.0"));
}
