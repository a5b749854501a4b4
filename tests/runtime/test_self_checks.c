/* test_self_checks.c - the consistency checks of debug builds: each check finds the structure that
 * the test has damaged. */
#include "support.h"

#include "graph/array.h"
#include "graph/node.h"
#include "ops/ops.h"
#include "runtime/block_pool.h"
#include "runtime/device.h"
#include "runtime/executor.h"

static void streams(void **state) {
    struct kl_stream *s;
    assert_int_equal(kl_stream_new(&s, KL_CPU, 0, NULL), KL_OK);
    kl_mutex_lock(s->mu);
    assert_true(kl_stream_is_valid(s));
    s->role = KL_PARKED; /* parked without a task that it waits for */
    assert_false(kl_stream_is_valid(s));
    s->role = KL_QUEUED; /* queued, but in no queue */
    assert_false(kl_stream_is_valid(s));
    s->role = KL_IDLE;
    struct kl_link task;
    kl_list_push(&s->local, &task); /* a task of an idle stream: no thread would ever run it */
    assert_false(kl_stream_is_valid(s));
    kl_list_remove(&task);
    assert_true(kl_stream_is_valid(s));
    kl_mutex_unlock(s->mu);
    kl_stream_release(s);
}

static void blocks(void **state) {
    struct kl_backend *cpu;
    struct kl_block *b;
    struct kl_timeline one, two;
    assert_int_equal(kl_device_backend(KL_CPU, 0, &cpu, NULL), KL_OK);
    assert_int_equal(kl_block_alloc(cpu->memory, 1000, NULL, &b, NULL), KL_OK);
    assert_true(kl_block_is_valid(b));
    void *ptr = b->ptr;
    b->ptr = (char *)b->raw + b->raw_bytes;
    assert_false(kl_block_is_valid(b));
    b->ptr = ptr;
    kl_timeline_init(&one);
    kl_timeline_init(&two);
    atomic_store(&b->use[1].timeline, &one); /* an empty entry before it */
    assert_false(kl_block_is_valid(b));
    atomic_store(&b->use[0].timeline, &one); /* two entries of the same stream */
    assert_false(kl_block_is_valid(b));
    atomic_store(&b->use[1].timeline, &two);
    assert_true(kl_block_is_valid(b));
    atomic_store(&b->use[0].timeline, NULL);
    atomic_store(&b->use[1].timeline, NULL);
    b->memory->give_back(b->memory, b);
}

static void nodes(void **state) {
    struct kl_stream *s;
    struct kl_array *x, *y, *z;
    assert_int_equal(kl_stream_default(&s, KL_CPU, 0, NULL), KL_OK);
    assert_int_equal(kl_array_new_scalar(&x, 2, KL_F32, NULL), KL_OK);
    assert_int_equal(kl_square(&y, x, s, NULL), KL_OK);
    assert_int_equal(kl_square(&z, y, s, NULL), KL_OK);
    assert_true(kl_node_is_valid(y->node));
    assert_false(kl_node_is_valid(z->node)); /* the operand of the node is not claimed yet */
    y->node->out[0] = x;
    assert_false(kl_node_is_valid(y->node));
    y->node->out[0] = y;
    assert_int_equal(kl_eval(&z, 1, NULL), KL_OK);
    kl_array_release(x);
    kl_array_release(y);
    kl_array_release(z);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(streams), cmocka_unit_test(blocks),
                                       cmocka_unit_test(nodes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
