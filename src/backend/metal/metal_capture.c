/* metal_capture.c - recordings of what the device does, which Xcode opens. */
#include "backend/metal/metal_internal.h"

static _Atomic(bool) recording;

static int start(kl_metal_id device, const char *path, struct kl_error **err) {
    kl_metal_id manager_class = kl_metal_class("MTLCaptureManager"),
                descriptor_class = kl_metal_class("MTLCaptureDescriptor"), error = NULL;
    if (!manager_class || !descriptor_class)
        return kl_fail(err, KL_EUNSUPPORTED, "this system has no MTLCaptureManager");
    kl_metal_id manager = kl_metal_capture_manager(manager_class),
                descriptor = kl_metal_init(kl_metal_alloc_object(descriptor_class)),
                text = kl_metal_string_with(kl_metal_class("NSString"), path);
    if (!manager || !descriptor || !text) return kl_fail_nomem(err);
    kl_metal_set_capture_object(descriptor, device);
    kl_metal_set_destination(descriptor, KL_METAL_CAPTURE_TO_FILE);
    kl_metal_set_output(descriptor, kl_metal_url_of_path(kl_metal_class("NSURL"), text));
    const bool well = kl_metal_start_capture(manager, descriptor, &error);
    char words[256] = "Metal gave no reason";
    kl_metal_error_text(error, words, sizeof words);
    kl_metal_release(descriptor);
    if (well) return KL_OK;
    return kl_fail(err, KL_EUNSUPPORTED,
                   "the recording into %.200s does not start: %s (the process must be started with "
                   "METAL_CAPTURE_ENABLED=1, and the file must not exist)",
                   path, words);
}

int kl_metal_capture_start(const char *path, struct kl_error **err) {
    void *pool = kl_metal_pool_push();
    int rc = pool ? start(kl_metal_device(0), path, err) : kl_fail_nomem(err);
    kl_metal_pool_pop(pool);
    if (!rc) atomic_store(&recording, true);
    return rc;
}

int kl_metal_capture_stop(struct kl_error **err) {
    if (!atomic_exchange(&recording, false))
        return kl_fail(err, KL_EUNSUPPORTED, "no recording was started");
    void *pool = kl_metal_pool_push();
    kl_metal_stop_capture(kl_metal_capture_manager(kl_metal_class("MTLCaptureManager")));
    kl_metal_pool_pop(pool);
    return KL_OK;
}
