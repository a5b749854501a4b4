/* kernel_host.h - device memory and a queue for tests of the lowering, without the GPU layer: on
 * the driver of OpenCL, or of Metal where KEEL_TEST_GPU names it. KEEL_TEST_MAX_LOCAL makes the
 * device's work-groups smaller. */
#pragma once
#include "support.h"

#include "backend/gpu/gpu_internal.h"
#include "backend/gpu/lower/lower.h"
#include "backend/metal/metal.h"
#include "backend/opencl/opencl.h"

static struct {
    struct kl_driver *driver;
    struct kl_lowering *lowering;
    void *queue;
} kh;

/* Launches stand between these two. */
static inline void kh_begin(void) {
    struct kl_error *err = NULL;
    if (kh.driver->ops->begin(kh.driver, kh.queue, NULL, 0, &err)) fail_msg("%s", err->message);
}
/* Waits until what was launched is complete. */
static inline void kh_end(void) {
    void *event;
    struct kl_error *err = NULL;
    assert_int_equal(kh.driver->ops->event_new(kh.driver, &event, NULL), KL_OK);
    if (kh.driver->ops->end(kh.driver, kh.queue, NULL, event, &err)) fail_msg("%s", err->message);
    int rc;
    while ((rc = kh.driver->ops->event_query(kh.driver, event)) == 0)
        kh.driver->ops->wait_any(kh.driver, &event, 1);
    assert_int_equal(rc, 1);
    kh.driver->ops->event_free(kh.driver, event);
}

static inline void kh_write(void *to, const void *from, size_t bytes) {
    if (bytes) assert_int_equal(kh.driver->ops->write(kh.driver, to, 0, from, bytes, NULL), KL_OK);
}
static inline void kh_read(void *to, const void *from, size_t bytes) {
    if (bytes) assert_int_equal(kh.driver->ops->read(kh.driver, from, 0, to, bytes, NULL), KL_OK);
}
/* All bytes are 0xA5 at first, so that elements which a kernel leaves out are noticed. */
static inline void *kh_new(size_t bytes) {
    void *p = NULL, *fill = malloc(bytes + 1);
    assert_int_equal(kh.driver->ops->alloc(kh.driver, bytes ? bytes : 1, &p, NULL), KL_OK);
    memset(fill, 0xA5, bytes + 1);
    kh_write(p, fill, bytes);
    free(fill);
    return p;
}
static inline void kh_free(void *p, size_t bytes) {
    kh.driver->ops->free(kh.driver, p, bytes ? bytes : 1);
}

/* Lowers n commands and waits for them. */
static inline int kh_launch(const struct kl_command *c, int n, struct kl_error **err) {
    kh_begin();
    const int rc = kl_lower(kh.lowering, kh.queue, c, n, err);
    if (rc)
        kh.driver->ops->abandon(kh.driver, kh.queue);
    else
        kh_end();
    return rc;
}

/* Runs c as the GPU layer does: prepares it, gives it its workspace, and lowers it. Around the
 * workspace nothing may be written. */
static inline int kh_lower(const struct kl_command *c, struct kl_error **err) {
    enum { AROUND = 256 };
    size_t bytes = 0;
    KL_TRY(kl_lower_prepare(kh.lowering, c, &bytes, err));
    struct kl_command real = *c;
    const size_t all = bytes + 2 * AROUND;
    char *block = bytes ? kh_new(all) : NULL;
    real.workspace = bytes ? block + AROUND : NULL;
    real.workspace_bytes = bytes;
    const int rc = kh_launch(&real, 1, err);
    if (!bytes) return rc;
    unsigned char *seen = malloc(all);
    kh_read(seen, block, all);
    for (size_t i = 0; i < AROUND; i++)
        if (seen[i] != 0xA5 || seen[all - 1 - i] != 0xA5)
            fail_msg("%s wrote outside its workspace of %zu bytes", kl_op_name(c->op), bytes);
    free(seen);
    kh_free(block, all);
    return rc;
}

/* Opens the first device; without a device the test fails. */
static inline int kh_setup(void **state) {
    struct kl_backend *b;
    struct kl_error *err = NULL;
    const char *most = getenv("KEEL_TEST_MAX_LOCAL"), *gpu = getenv("KEEL_TEST_GPU");
    const bool on_metal = gpu && strcmp(gpu, "metal") == 0;
    if (on_metal) kl_metal_count(NULL);
    if (on_metal ? kl_metal_open(0, &b, &err) : kl_opencl_open(0, &b, &err)) {
        print_error("%s\n", err->message);
        return -1;
    }
    kh.driver = on_metal ? kl_gpu_device_of(b)->driver : kl_opencl_driver(0);
    if (most) kh.driver->max_local = (uint32_t)atoi(most);
    kh.lowering = kl_lowering_new(kh.driver, NULL);
    return kh.lowering ? kh.driver->ops->queue_new(kh.driver, 1 << 20, &kh.queue, NULL) : -1;
}
