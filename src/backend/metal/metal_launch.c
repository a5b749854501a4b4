/* metal_launch.c - launches and copies of a submission. */
#include "backend/metal/metal_internal.h"

/* The encoder of the submission's launches, which run one after the other and see what those
 * before have stored. */
static int encoder_of(struct kl_metal *d, struct kl_metal_queue *q, struct kl_error **err) {
    if (q->encoder) return KL_OK;
    q->encoder = kl_metal_compute_encoder(q->buffer, KL_METAL_DISPATCH_SERIAL);
    if (!q->encoder)
        return kl_fail(err, KL_ESUBMIT,
                       "device '%s': computeCommandEncoderWithDispatchType gave nil", d->name);
    if (q->fenced) kl_metal_wait_fence(q->encoder, q->fence);
    q->fenced = false;
    return KL_OK;
}

void kl_metal_close_encoder(struct kl_metal_queue *q) {
    if (!q->encoder) return;
    kl_metal_end_encoding(q->encoder);
    q->encoder = NULL;
}

static int set_args(struct kl_metal *d, kl_metal_id encoder, const struct kl_karg *args, int n_args,
                    struct kl_error **err) {
    if (n_args > KL_METAL_MOST_BUFFERS)
        return kl_fail(err, KL_EKERNEL, "a kernel with %d arguments; Metal takes %d", n_args,
                       KL_METAL_MOST_BUFFERS);
    for (int i = 0; i < n_args; i++) {
        kl_metal_id buffer = d->nothing;
        size_t at = 0;
        if (args[i].bytes > KL_METAL_MOST_BYTES)
            return kl_fail(err, KL_EKERNEL, "argument %d has %zu bytes; setBytes takes %d", i,
                           args[i].bytes, KL_METAL_MOST_BYTES);
        if (args[i].bytes) {
            kl_metal_set_bytes(encoder, args[i].value, args[i].bytes, (kl_metal_uint)i);
            continue;
        }
        if (args[i].value) KL_TRY(kl_metal_place(d, args[i].value, &buffer, &at, err));
        kl_metal_set_buffer(encoder, buffer, at, (kl_metal_uint)i);
    }
    return KL_OK;
}

/* groups and local have three extents. */
static int run(struct kl_metal *d, struct kl_metal_queue *q, void *kernel, const uint32_t *groups,
               const uint32_t *local, size_t shared_bytes, const struct kl_karg *args, int n_args,
               struct kl_error **err) {
    KL_TRY(kl_metal_usable(d, err));
    KL_TRY(encoder_of(d, q, err));
    kl_metal_set_pipeline(q->encoder, kernel);
    KL_TRY(set_args(d, q->encoder, args, n_args, err));
    /* Metal takes multiples of 16 bytes. */
    if (shared_bytes) kl_metal_set_shared(q->encoder, (shared_bytes + 15) / 16 * 16, 0);
    kl_metal_dispatch(q->encoder, (struct kl_metal_size){groups[0], groups[1], groups[2]},
                      (struct kl_metal_size){local[0], local[1], local[2]});
    return KL_OK;
}

int kl_metal_launch(struct kl_driver *driver, void *queue, void *kernel, uint32_t groups,
                    uint32_t local, const struct kl_karg *args, int n_args, struct kl_error **err) {
    const uint32_t all[3] = {groups, 1, 1}, in_group[3] = {local, 1, 1};
    return run(kl_metal_of(driver), queue, kernel, all, in_group, 0, args, n_args, err);
}

int kl_metal_launch_3d(struct kl_driver *driver, void *queue, void *kernel, const uint32_t *groups,
                       const uint32_t *local, size_t shared_bytes, const struct kl_karg *args,
                       int n_args, struct kl_error **err) {
    return run(kl_metal_of(driver), queue, kernel, groups, local, shared_bytes, args, n_args, err);
}

/* An encoder of its own: a fence orders it after the launches before, and those after it. */
int kl_metal_copy(struct kl_driver *driver, void *queue, void *dst, const void *src, size_t bytes,
                  struct kl_error **err) {
    struct kl_metal *d = kl_metal_of(driver);
    struct kl_metal_queue *q = queue;
    kl_metal_id to, from, blit;
    size_t to_at, from_at;
    KL_TRY(kl_metal_usable(d, err));
    if (bytes == 0) return KL_OK;
    KL_TRY(kl_metal_place(d, dst, &to, &to_at, err));
    KL_TRY(kl_metal_place(d, src, &from, &from_at, err));
    if (q->encoder) kl_metal_update_fence(q->encoder, q->fence);
    q->fenced = q->fenced || q->encoder;
    kl_metal_close_encoder(q);
    if (!(blit = kl_metal_blit_encoder(q->buffer)))
        return kl_fail(err, KL_ESUBMIT, "device '%s': blitCommandEncoder gave nil", d->name);
    if (q->fenced) kl_metal_wait_fence(blit, q->fence);
    kl_metal_copy_buffer(blit, from, from_at, to, to_at, bytes);
    kl_metal_update_fence(blit, q->fence);
    kl_metal_end_encoding(blit);
    q->fenced = true;
    return KL_OK;
}
