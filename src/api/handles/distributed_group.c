/* distributed_group.c - mlx/c/distributed_group.h. */
#include "api/handles/handles.h"
#include "backend/collective/group.h"
#include "base/alloc.h"
#include "ops/distributed.h"

/* Assigns `made` (taken) and ends the call. */
static int end_group(struct kl_call *c, mlx_distributed_group *res, struct kl_group *made) {
    struct kl_group_box *box = c->err ? NULL : res->ctx;
    if (!c->err && !box) {
        box = kl_calloc(1, sizeof *box);
        if (!box)
            kl_fail_nomem(&c->err);
        else
            res->ctx = box;
    }
    struct kl_group *old = made;
    if (!c->err) {
        old = box->group;
        box->group = made;
    }
    kl_group_release(old);
    return kl_call_end_plain(c);
}

struct kl_group *kl_in_optional_group(mlx_distributed_group group) {
    const struct kl_group_box *box = group.ctx;
    return box ? box->group : NULL;
}

static struct kl_group *in_group(struct kl_call *c, mlx_distributed_group group) {
    struct kl_group *g = kl_in_optional_group(group);
    if (!g) kl_fail(&c->err, KL_EARG, "group is an empty group handle");
    return g;
}

mlx_distributed_group mlx_distributed_group_new(void) {
    return (mlx_distributed_group){NULL};
}

int mlx_distributed_group_free(mlx_distributed_group group) {
    struct kl_group_box *box = group.ctx;
    if (box) kl_group_release(box->group);
    kl_free(box);
    return 0;
}

int mlx_distributed_init(mlx_distributed_group *res, bool strict, const char *bk) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_group *g = NULL;
    if (!c.err) kl_distributed_init(&g, strict, bk, &c.err);
    return end_group(&c, res, g);
}

int mlx_distributed_group_rank(mlx_distributed_group group) {
    struct kl_call c = {.func = __func__};
    struct kl_group *g = in_group(&c, group);
    const int rank = g ? kl_group_rank(g) : 0;
    (void)kl_call_end_plain(&c);
    return rank;
}

int mlx_distributed_group_size(mlx_distributed_group group) {
    struct kl_call c = {.func = __func__};
    struct kl_group *g = in_group(&c, group);
    const int size = g ? kl_group_size(g) : 0;
    (void)kl_call_end_plain(&c);
    return size;
}

int mlx_distributed_group_split(mlx_distributed_group *res, mlx_distributed_group group, int color,
                                int key) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_group *g = in_group(&c, group), *made = NULL;
    if (!c.err) kl_group_split(g, color, key, &made, &c.err);
    return end_group(&c, res, made);
}

bool mlx_distributed_is_available(const char *bk) {
    return kl_distributed_is_available(bk);
}
