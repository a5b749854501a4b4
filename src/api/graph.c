/* graph.c - mlx/c/graph_utils.h: graphs as text. */
#include "api/handles/handles.h"
#include "transforms/picture.h"

mlx_node_namer mlx_node_namer_new(void) {
    struct kl_call c = {.func = __func__};
    struct kl_namer *n = kl_namer_new(&c.err);
    kl_call_end_plain(&c);
    return (mlx_node_namer){n};
}

int mlx_node_namer_free(mlx_node_namer namer) {
    kl_namer_free(namer.ctx);
    return 0;
}

static struct kl_namer *in_namer(struct kl_call *c, mlx_node_namer namer) {
    if (!namer.ctx) kl_fail(&c->err, KL_EARG, "namer is an empty handle");
    return namer.ctx;
}

int mlx_node_namer_set_name(mlx_node_namer namer, const mlx_array arr, const char *name) {
    struct kl_call c = {.func = __func__};
    struct kl_namer *n = in_namer(&c, namer);
    struct kl_array *a = kl_in(&c, arr, "arr");
    if (!c.err) kl_namer_set(n, a, name, &c.err);
    return kl_call_end_plain(&c);
}

int mlx_node_namer_get_name(const char **name, mlx_node_namer namer, const mlx_array arr) {
    struct kl_call c = kl_call_begin(__func__, name);
    struct kl_namer *n = in_namer(&c, namer);
    struct kl_array *a = kl_in(&c, arr, "arr");
    if (!c.err) kl_namer_get(n, a, name, &c.err);
    return kl_call_end_plain(&c);
}

static int picture(const char *func, FILE *os, mlx_node_namer namer, void *outputs, bool dot) {
    struct kl_call c = {.func = func};
    const struct kl_vec *v = kl_in_vec(&c, outputs, "outputs");
    kl_need(&c, os, "os");
    if (!c.err) kl_picture(os, namer.ctx, kl_vec_array_items(v), v->n, dot, &c.err);
    return kl_call_end_plain(&c);
}

int mlx_export_to_dot(FILE *os, const mlx_node_namer namer, const mlx_vector_array outputs) {
    return picture(__func__, os, namer, outputs.ctx, true);
}

int mlx_print_graph(FILE *os, const mlx_node_namer namer, const mlx_vector_array outputs) {
    return picture(__func__, os, namer, outputs.ctx, false);
}
