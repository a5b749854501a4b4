/* distributed.h - builders of what the processes of a group do together; the rules of ops.h hold.
 *
 * g: a group (backend/collective/group.h); NULL: that of all processes, which is made where it is
 * not yet. In a group of one the result is the input. KL_EGROUP, of a call or a value: the
 * processes cannot work together. */
#pragma once
#include "graph/array.h"

struct kl_group;
/* kl_group_init, after making ready what it needs. */
int kl_distributed_init(struct kl_group **out, bool strict, const char *backend,
                        struct kl_error **err);
/* Whether the backend of this name, or any (NULL), can join several processes here. */
bool kl_distributed_is_available(const char *backend);
typedef int kl_collective_fn(struct kl_array **out, struct kl_array *a, struct kl_group *g,
                             struct kl_stream *s, struct kl_error **err);
/* Shape and dtype of a are the same on all ranks. all_gather joins the arrays along the first axis,
 * numbers to an axis; sum_scatter gives part `rank` of the sum, cut along the first axis.
 * KL_ESHAPE: sum_scatter of an extent that is no multiple of the size of the group. */
kl_collective_fn kl_all_sum, kl_all_max, kl_all_min, kl_all_gather, kl_sum_scatter;
/* The result is a; the sending is done when it is evaluated. KL_EARG: no such rank, or a group of
 * one. */
int kl_send(struct kl_array **out, struct kl_array *a, int dst, struct kl_group *g,
            struct kl_stream *s, struct kl_error **err);
int kl_recv(struct kl_array **out, const int *shape, size_t shape_num, int dtype, int src,
            struct kl_group *g, struct kl_stream *s, struct kl_error **err);
int kl_recv_like(struct kl_array **out, struct kl_array *a, int src, struct kl_group *g,
                 struct kl_stream *s, struct kl_error **err);
