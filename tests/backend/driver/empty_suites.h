/* empty_suites.h - suites of a driver that supports nothing: each answer is an error by name, and
 * nothing crashes. */
#pragma once
#include "backend/driver/driver_support.h"

#define UNSUPPORTED(slot, ...) ILL(drv->ops->slot(drv, __VA_ARGS__, &err), KL_EUNSUPPORTED, #slot)

static void every_slot_is_unsupported(void **state) {
    char b[8] = {0};
    void *made = NULL;
    size_t bytes;
    struct kl_fault_words w = {0};
    struct kl_kernel_limits limits;
    const uint32_t one[3] = {1, 1, 1};
    UNSUPPORTED(alloc, 8, &made);
    UNSUPPORTED(read, b, 0, b, 8);
    UNSUPPORTED(write, b, 0, b, 8);
    UNSUPPORTED(queue_new, 0, &made);
    UNSUPPORTED(event_new, &made);
    UNSUPPORTED(words_new, &w);
    UNSUPPORTED(words_fetch, &w);
    UNSUPPORTED(share, b, 8, true);
    UNSUPPORTED(compile, "", "name", &made, &bytes);
    UNSUPPORTED(load, b, 8, &made);
    UNSUPPORTED(load_program, b, 8, "name", &made);
    UNSUPPORTED(find, NULL, "name", &made);
    UNSUPPORTED(limits, NULL, &limits);
    UNSUPPORTED(begin, NULL, NULL, 0);
    UNSUPPORTED(end, NULL, NULL, NULL);
    UNSUPPORTED(launch, NULL, NULL, 1, 1, NULL, 0);
    UNSUPPORTED(launch_3d, NULL, NULL, one, one, 0, NULL, 0);
    UNSUPPORTED(launch_program, NULL, NULL, one, one, 0, NULL, 0);
    UNSUPPORTED(copy, NULL, b, b, 8);
    ILL(drv->ops->enter(drv, &err), KL_EUNSUPPORTED, "enter");
    assert_int_equal(drv->ops->event_query(drv, NULL), KL_EUNSUPPORTED);
    assert_null(made);
}

static void slots_without_a_result_do_nothing(void **state) {
    char text[8] = "as is";
    void *e = NULL;
    struct kl_fault_words w = {0};
    drv->ops->free(drv, NULL, 8);
    drv->ops->event_free(drv, NULL);
    drv->ops->words_clear(drv, &w);
    drv->ops->why_lost(drv, text, sizeof text);
    assert_string_equal(text, "as is");
    drv->ops->wait_any(drv, &e, 1);
    drv->ops->wake(drv);
    drv->ops->unshare(drv, NULL, 8, true);
    drv->ops->leave(drv);
    assert_int_equal(drv->ops->abandon(drv, NULL), KL_OK);
    drv->ops->forked(drv);
}

/* The shared code, and the layer above, pass the answers on. */
static void answers_reach_the_callers(void **state) {
    struct kl_backend *b = NULL;
    struct kl_command c = {.kind = KL_CMD_LAUNCH, .op = KL_OP_COPY, .name = "copy"};
    struct kl_fault_words w = {0};
    struct kl_gpu_facts facts;
    struct kl_timeline t = {0};
    struct kl_queue *q = NULL;
    const char *why = "";
    void *ptr = NULL;
    size_t bytes;
    ILL(kl_driver_prepare(drv, &c, &bytes, &err), KL_EUNSUPPORTED, "enter");
    ILL(kl_driver_submit(drv, NULL, &c, 1, NULL, 0, &w, NULL, &err), KL_EUNSUPPORTED, "begin");
    assert_int_equal(empty_count(&why), 1);
    assert_null(why);
    empty_facts(0, &facts);
    assert_string_equal(facts.name, drv->name);
    WELL(empty_open(0, &b, &err));
    ILL(b->ops->queue_new(b, &t, &q, &err), KL_EUNSUPPORTED, "queue_new");
    ILL(b->memory->raw_alloc(b->memory, 8, &ptr, &err), KL_EUNSUPPORTED, "alloc");
    ILL(b->memory->read(b->memory, &w, 0, &t, 1, &err), KL_EUNSUPPORTED, "read");
    ILL(b->memory->write(b->memory, &w, 0, &t, 1, &err), KL_EUNSUPPORTED, "write");
}
