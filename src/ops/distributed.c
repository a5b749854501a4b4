/* distributed.c - what the processes of a group do together. In a group of one the results are the
 * inputs. */
#include "backend/collective/group.h"
#include "base/op/op_params.h"
#include "ops/build/build.h"
#include "ops/build/check.h"
#include "ops/build/jvp.h"
#include "ops/build/terms.h"
#include "ops/build/vmap.h"
#include "ops/distributed.h"
#include "runtime/device.h"

/* ---- groups ---- */

/* The device on which this process computes, as kl_group_host.device has it: unless somebody has
 * chosen one, the GPU of its number among the processes of this host. */
static struct kl_backend *device_of(int rank_on_host, bool wanted) {
    enum kl_device_type type;
    int index;
    struct kl_backend *b = NULL;
    if (rank_on_host >= 0) kl_device_prefer(rank_on_host);
    kl_device_default(&type, &index);
    if (type == KL_GPU) return kl_device_backend(type, index, &b, NULL) ? NULL : b;
    if (!wanted) return NULL;
    if (rank_on_host > 0 && !kl_device_backend(KL_GPU, rank_on_host, &b, NULL)) return b;
    return kl_device_backend(KL_GPU, 0, &b, NULL) ? NULL : b;
}

/* Gives the groups what they need of the layers above them. */
static int ready(struct kl_error **err) {
    struct kl_backend *cpu;
    KL_TRY(kl_runtime_ready(err));
    KL_TRY(kl_device_backend(KL_CPU, 0, &cpu, err));
    kl_group_set_host(&(struct kl_group_host){.stream_new = kl_stream_new_of,
                                              .stream_release = kl_stream_release,
                                              .stream_backend = kl_stream_backend,
                                              .stream_timeline = kl_stream_timeline,
                                              .stream_promise = kl_stream_promise,
                                              .stream_settled = kl_stream_shared_settled,
                                              .device = device_of,
                                              .hand_over = kl_executor_hand_over,
                                              .memory = cpu->memory});
    return KL_OK;
}

int kl_distributed_init(struct kl_group **out, bool strict, const char *backend,
                        struct kl_error **err) {
    KL_TRY(ready(err));
    return kl_group_init(out, strict, backend, err);
}

bool kl_distributed_is_available(const char *backend) {
    return !ready(NULL) && kl_group_available(backend);
}

/* The group, retained; without one that of all processes. */
static int group_of(struct kl_group **out, struct kl_group *g, struct kl_error **err) {
    if (!g) return kl_distributed_init(out, false, NULL, err);
    *out = kl_group_retain(g);
    return KL_OK;
}

/* ---- building ---- */

/* An operation of a group of several processes. a: its input, or NULL. */
static int build(struct kl_array **out, enum kl_op_id op, struct kl_array *a, struct kl_group *g,
                 int peer, enum kl_dtype dtype, int ndim, const int *dims, struct kl_stream *s,
                 struct kl_error **err) {
    struct kl_collective_params p = {.group = g, .peer = peer};
    struct kl_array *rows = NULL;
    KL_TRY(kl_check_stream(s, err));
    if (a) KL_TRY(kl_row_contiguous(&rows, a, s, err));
    struct kl_operation o = {.op = op,
                             .stream = s,
                             .params = &p,
                             .params_bytes = sizeof p,
                             .in = a ? &rows : NULL,
                             .n_in = a != NULL};
    kl_group_retain(g);
    int rc = kl_array_op1(out, &o, dtype, ndim, dims, err);
    if (rc) kl_group_release(g);
    kl_array_release(rows);
    return rc;
}

/* The shape of the result: the ranks' arrays one after another, or a part of one. */
static int joined_shape(struct kl_shape *shape, enum kl_op_id op, const struct kl_array *a,
                        const struct kl_group *g, struct kl_error **err) {
    const int size = kl_group_size(g);
    *shape = kl_shape_of(a);
    if (op == KL_OP_SUM_SCATTER) {
        if (shape->ndim == 0 || shape->dims[0] % size)
            return kl_fail(err, KL_ESHAPE,
                           "the array has shape %s, but the extent of its first axis must be a "
                           "multiple of the %d processes of the group",
                           KL_SHAPE_TEXT_OF(a), size);
        shape->dims[0] /= size;
        return KL_OK;
    }
    if (shape->ndim == 0) shape->dims[shape->ndim++] = 1;
    if (shape->dims[0] > INT32_MAX / size)
        return kl_fail(err, KL_ELIMIT, "%d arrays of shape %s are too long for one axis", size,
                       KL_SHAPE_TEXT_OF(a));
    shape->dims[0] *= size;
    return KL_OK;
}

static int of_all(struct kl_array **out, enum kl_op_id op, struct kl_array *a, struct kl_group *g,
                  struct kl_stream *s, struct kl_error **err) {
    struct kl_group *of;
    struct kl_shape shape;
    KL_TRY(kl_check_array(a, "x", err));
    KL_TRY(group_of(&of, g, err));
    int rc = KL_OK;
    if (kl_group_size(of) == 1) {
        *out = kl_array_retain(a);
    } else {
        if (op == KL_OP_ALL_GATHER || op == KL_OP_SUM_SCATTER)
            rc = joined_shape(&shape, op, a, of, err);
        else
            shape = kl_shape_of(a);
        if (!rc)
            rc =
                build(out, op, a, of, 0, (enum kl_dtype)a->t.dtype, shape.ndim, shape.dims, s, err);
    }
    kl_group_release(of);
    return rc;
}

int kl_all_sum(struct kl_array **out, struct kl_array *a, struct kl_group *g, struct kl_stream *s,
               struct kl_error **err) {
    return of_all(out, KL_OP_ALL_SUM, a, g, s, err);
}
int kl_all_max(struct kl_array **out, struct kl_array *a, struct kl_group *g, struct kl_stream *s,
               struct kl_error **err) {
    return of_all(out, KL_OP_ALL_MAX, a, g, s, err);
}
int kl_all_min(struct kl_array **out, struct kl_array *a, struct kl_group *g, struct kl_stream *s,
               struct kl_error **err) {
    return of_all(out, KL_OP_ALL_MIN, a, g, s, err);
}
int kl_all_gather(struct kl_array **out, struct kl_array *a, struct kl_group *g,
                  struct kl_stream *s, struct kl_error **err) {
    return of_all(out, KL_OP_ALL_GATHER, a, g, s, err);
}
int kl_sum_scatter(struct kl_array **out, struct kl_array *a, struct kl_group *g,
                   struct kl_stream *s, struct kl_error **err) {
    return of_all(out, KL_OP_SUM_SCATTER, a, g, s, err);
}

/* The group in which this process and `peer` talk; retained. */
static int group_with(struct kl_group **out, struct kl_group *g, int peer, const char *what,
                      struct kl_error **err) {
    KL_TRY(group_of(out, g, err));
    const int size = kl_group_size(*out);
    int rc = KL_OK;
    if (size == 1)
        rc = kl_fail(err, KL_EARG, "the group has one process, and no other to talk to");
    else if (peer < 0 || peer >= size)
        rc = kl_fail(err, KL_EARG, "%s is %d, but the ranks of the group are 0 to %d", what, peer,
                     size - 1);
    if (rc) kl_group_release(*out);
    return rc;
}

int kl_send(struct kl_array **out, struct kl_array *a, int dst, struct kl_group *g,
            struct kl_stream *s, struct kl_error **err) {
    struct kl_group *of;
    KL_TRY(kl_check_array(a, "x", err));
    KL_TRY(group_with(&of, g, dst, "dst", err));
    int rc =
        build(out, KL_OP_SEND, a, of, dst, (enum kl_dtype)a->t.dtype, a->t.ndim, a->t.dims, s, err);
    kl_group_release(of);
    return rc;
}

int kl_recv(struct kl_array **out, const int *shape, size_t shape_num, int dtype, int src,
            struct kl_group *g, struct kl_stream *s, struct kl_error **err) {
    struct kl_group *of;
    struct kl_shape made;
    KL_TRY(kl_check_dtype(dtype, err));
    KL_TRY(kl_check_shape(&made, shape, shape_num, (enum kl_dtype)dtype, NULL, err));
    KL_TRY(group_with(&of, g, src, "src", err));
    int rc =
        build(out, KL_OP_RECV, NULL, of, src, (enum kl_dtype)dtype, made.ndim, made.dims, s, err);
    kl_group_release(of);
    return rc;
}

int kl_recv_like(struct kl_array **out, struct kl_array *a, int src, struct kl_group *g,
                 struct kl_stream *s, struct kl_error **err) {
    KL_TRY(kl_check_array(a, "x", err));
    return kl_recv(out, a->t.dims, (size_t)a->t.ndim, a->t.dtype, src, g, s, err);
}

/* ---- gradients ---- As in MLX, every rank's loss counts as the same one: so what each rank gives
 * back of a result that all have is the gradient itself, and is not summed. */
static struct kl_group *group_in(const void *params) {
    return ((const struct kl_collective_params *)params)->group;
}

int kl_vjp_all_reduce(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    if (v->wanted[0] && kl_has_gradient(v->in[0])) grad[0] = kl_array_retain(v->cotangent[0]);
    return KL_OK;
}

int kl_vjp_all_gather(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    const struct kl_array *x = v->in[0];
    struct kl_shape shape = kl_shape_of(v->cotangent[0]);
    struct kl_array *part;
    int start[KL_MAX_NDIM] = {0}, step[KL_MAX_NDIM];
    if (!v->wanted[0] || !kl_has_gradient(x)) return KL_OK;
    for (int i = 0; i < shape.ndim; i++) step[i] = 1;
    const int rows = x->t.ndim ? x->t.dims[0] : 1;
    start[0] = kl_group_rank(group_in(v->params)) * rows;
    shape.dims[0] = start[0] + rows;
    const size_t n = (size_t)shape.ndim;
    KL_TRY(kl_slice(&part, v->cotangent[0], start, n, shape.dims, n, step, n, v->s, err));
    int rc = x->t.ndim ? KL_OK : kl_squeeze_axis(&grad[0], part, 0, v->s, err);
    if (x->t.ndim)
        grad[0] = part;
    else
        kl_array_release(part);
    return rc;
}

int kl_vjp_sum_scatter(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    if (!v->wanted[0] || !kl_has_gradient(v->in[0])) return KL_OK;
    return kl_all_gather(grad, v->cotangent[0], group_in(v->params), v->s, err);
}

static struct kl_array *sum_of_all(struct kl_terms *t, struct kl_array *a, struct kl_group *g) {
    return KL_TERM(t, kl_all_sum(&t->made, a, g, t->s, t->err));
}

/* The tangent of the rank that has the largest element; of several the mean. */
static int jvp_extreme(const struct kl_jvp *j, struct kl_array **tangent, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(j->s, err);
    struct kl_group *g = group_in(j->params);
    struct kl_array *is =
        kl_term_cast(&t, kl_term2(&t, kl_equal, j->in[0], j->out), (enum kl_dtype)j->out->t.dtype);
    struct kl_array *sum = sum_of_all(&t, kl_term2(&t, kl_multiply, is, j->tangent[0]), g);
    struct kl_array *count = sum_of_all(&t, is, g);
    return kl_terms_end(&t, kl_term2(&t, kl_divide, sum, count), tangent);
}

int kl_jvp_collective(const struct kl_jvp *j, struct kl_array **tangent, struct kl_error **err) {
    if (!j->tangent[0] || !kl_has_gradient(j->out)) return KL_OK;
    if (j->op == KL_OP_ALL_MAX || j->op == KL_OP_ALL_MIN) return jvp_extreme(j, tangent, err);
    return of_all(tangent, j->op, j->tangent[0], group_in(j->params), j->s, err);
}

/* ---- made again ---- */
static int params_of(const struct kl_build *b, struct kl_collective_params *p,
                     struct kl_error **err) {
    return kl_build_params(b, p, sizeof *p, err);
}

int kl_rebuild_collective(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    struct kl_collective_params p;
    KL_TRY(params_of(b, &p, err));
    if (b->op == KL_OP_SEND) return kl_send(out, b->in[0], p.peer, p.group, b->s, err);
    return of_all(out, b->op, b->in[0], p.group, b->s, err);
}

int kl_rebuild_recv(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    struct kl_collective_params p;
    KL_TRY(params_of(b, &p, err));
    return kl_recv(out, b->dims, (size_t)b->ndim, b->dtype, p.peer, p.group, b->s, err);
}

/* ---- batches ---- */
int kl_vmap_all_reduce(const struct kl_vmap *v, struct kl_array **out, int *axis,
                       struct kl_error **err) {
    *axis = 0;
    return kl_vmap_build(v, out, v->params, v->params_bytes, v->in, err);
}

/* The axis along which ranks are joined, or the sum is cut, must be the first: the lanes come
 * second. */
int kl_vmap_gathers(const struct kl_vmap *v, struct kl_array **out, int *axis,
                    struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(v->s, err);
    struct kl_group *g = group_in(v->params);
    struct kl_array *x = v->in[0];
    const int one = 0;
    if (x->t.ndim == 1) /* a number of each lane */
        x = KL_TERM(&t, kl_expand_dims_axes(&t.made, x, &one, 1, v->s, err));
    else
        x = KL_TERM(&t, kl_moveaxis(&t.made, x, 0, 1, v->s, err));
    *axis = 1;
    return kl_terms_end(&t, KL_TERM(&t, of_all(&t.made, v->op, x, g, v->s, err)), out);
}
