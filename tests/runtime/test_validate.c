/* test_validate.c - KEEL_VALIDATE, which proves that no buffer is reused in flight: an operation
 * that writes outside of its block, or gets memory that is still in use, is reported every time,
 * and no other operation is ever reported. */
#include "graph/graph_support.h"

#include "base/op/validate.h"
#include "ops/ops.h"
#include "runtime/block_pool.h"
#include "runtime/device.h"

enum { N = 37, TIMES = 100 };

static int k_outside(void *ctx, struct kl_launch *l,
                     /* Writes its output, and one element at index `ctx`. */
                     struct kl_error **err) {
    int *p = l->out[0].data;
    for (int64_t i = 0; i < l->out[0].size; i++) p[i] = 1;
    p[(intptr_t)ctx] = 12345;
    return KL_OK;
}

static int k_input_outside(void *ctx, struct kl_launch *l, struct kl_error **err) {
    int *p = l->out[0].data;
    for (int64_t i = 0; i < l->out[0].size; i++) p[i] = 1;
    ((int *)l->in[1].data)[(intptr_t)ctx] = 12345;
    return KL_OK;
}

static struct kl_array *vector_call(struct kl_stream *s, const char *name,
                                    int (*fn)(void *, struct kl_launch *, struct kl_error **),
                                    intptr_t at, struct kl_array *const *in, int n_in) {
    struct kl_call_params c = {.name = name, .fn = fn, .ctx = (void *)at};
    int n = N;
    return t_call(s, &c, in, n_in, KL_I32, 1, &n);
}

static void expect_finding(struct kl_array *x, const char *kernel, const char *operand,
                           const char *where) {
    struct kl_error *e = t_error(x);
    assert_int_equal(e->code, KL_EVALIDATE);
    assert_string_equal(e->op, kernel);
    assert_non_null(strstr(e->message, kernel));
    assert_non_null(strstr(e->message, operand));
    assert_non_null(strstr(e->message, where));
    kl_error_release(e);
}

static void written_outside(const char *kind) {
    struct kl_stream *s;
    t_streams(kind, &s);
    for (int i = 0; i < TIMES; i++) {
        /* The first and the last byte of each guard; one of each is next to the block. */
        static const intptr_t before[] = {-1, -16}, behind[] = {N, N + 15};
        struct kl_array *x = vector_call(s, "low_writer", k_outside, before[i % 2], NULL, 0);
        struct kl_array *y = vector_call(s, "high_writer", k_outside, behind[i % 2], NULL, 0);
        struct kl_array *good = vector_call(s, "good_writer", k_outside, N - 1, NULL, 0);
        expect_finding(x, "low_writer", "output 0", "in front of its first byte");
        expect_finding(y, "high_writer", "output 0", "after its last byte");
        assert_int_equal(t_value(good), 1);
        struct kl_array *in[2] = {good, good},
                        *z = vector_call(s, "input_writer", k_input_outside, i % 2 ? -1 : N, in, 2);
        expect_finding(z, "input_writer", "input", i % 2 ? "in front of" : "after");
        kl_array_release(x);
        kl_array_release(y);
        kl_array_release(z);
        kl_array_release(good);
    }
    kl_stream_release(s);
}

static void a_cpu_kernel_that_writes_outside(void **state) {
    written_outside("c");
}

static void a_device_kernel_that_writes_outside(void **state) {
    written_outside("g");
}

static void the_second_input_is_named(void **state) {
    struct kl_stream *s[2];
    t_streams("cg", s);
    for (int k = 0; k < 2; k++) {
        struct kl_array *in[2] = {vector_call(s[k], "first", k_outside, 0, NULL, 0),
                                  vector_call(s[k], "second", k_outside, 0, NULL, 0)};
        struct kl_array *z = vector_call(s[k], "input_writer", k_input_outside, N, in, 2);
        expect_finding(z, "input_writer", "input 1", "after its last byte");
        kl_array_release(in[0]);
        kl_array_release(in[1]);
        kl_array_release(z);
    }
    t_streams_free(2, s);
}

/* The host frees a block of the device. A kernel that reads the block is not known to have
 * ended. */
static void handed_to_another_stream_in_flight(void **state) {
    struct kl_stream *s[2];
    t_streams("gg", s);
    for (int skip = 0; skip < 2; skip++) {
        for (int i = 0; i < TIMES; i++) {
            struct kl_array *x = vector_call(s[0], "source", k_outside, 0, NULL, 0), *y = NULL,
                            *z = NULL;
            t_settle(x);
            kl_sim_hold(0, true);
            struct kl_call_params c = {.name = "user", .fn = k_outside};
            int one = 1;
            y = t_call(s[0], &c, &x, 1, KL_I32, 1, &one);
            kl_array_release(x);
            assert_int_equal(kl_async_eval(&y, 1, NULL), 0);
            /* And the buffer of x has no owner any more. */
            kl_timeline_block(y->t.fate->timeline->handed, y->t.fate->ticket);
            /* The one block that is left is the block in flight. */
            kl_memory_clear_cache();
            kl_test_skip_handover_check(skip);
            z = vector_call(s[1], "intruder", k_outside, 0, NULL, 0);
            if (skip) {
                struct kl_error *e = t_error(z);
                assert_int_equal(e->code, KL_EVALIDATE);
                assert_non_null(strstr(e->message, "'user'"));
                assert_non_null(strstr(e->message, "handed over"));
                kl_error_release(e);
            } else {
                assert_int_equal(kl_async_eval(&z, 1, NULL), 0);
            }
            kl_test_skip_handover_check(false);
            kl_sim_hold(0, false);
            assert_int_equal(t_value(y), 12345);
            if (!skip) assert_int_equal(t_value(z), 12345);
            kl_array_release(y);
            kl_array_release(z);
        }
    }
    t_streams_free(2, s);
}

static uint32_t draw(uint64_t *rng) {
    kl_test_random(rng);
    return (uint32_t)(*rng >> 33);
}

static void correct_programs_are_not_reported(void **state) {
    enum { KEPT = 8, SIZE = 12 };
    struct kl_stream *s[4];
    t_streams("ccgg", s);
    uint64_t rng = 7;
    struct kl_array *x[KEPT];
    int model[KEPT][SIZE], n = SIZE, index[SIZE];
    for (int k = 0; k < KEPT; k++) {
        for (int i = 0; i < SIZE; i++) model[k][i] = k + i;
        assert_int_equal(kl_array_new_data(&x[k], model[k], KL_I32, 1, &n, NULL), 0);
    }
    for (int step = 0; step < 600; step++) {
        struct kl_stream *on = s[draw(&rng) % 4];
        int a = (int)(draw(&rng) % KEPT), b = (int)(draw(&rng) % KEPT),
            to = (int)(draw(&rng) % KEPT), value[SIZE];
        struct kl_array *y = NULL, *i = NULL, *updates = NULL;
        int shape[2] = {SIZE, 1};
        for (int k = 0; k < SIZE; k++) index[k] = (int)(draw(&rng) % SIZE);
        assert_int_equal(kl_array_new_data(&i, index, KL_I32, 1, &n, NULL), 0);
        switch (draw(&rng) % 5) {
        case 0:
            assert_int_equal(kl_add(&y, x[a], x[b], on, NULL), 0);
            for (int k = 0; k < SIZE; k++)
                value[k] = (int)((uint32_t)model[a][k] + (uint32_t)model[b][k]);
            break;
        case 1:
            assert_int_equal(kl_negative(&y, x[a], on, NULL), 0);
            for (int k = 0; k < SIZE; k++) value[k] = (int)(0u - (uint32_t)model[a][k]);
            break;
        case 2:
            assert_int_equal(kl_take_axis(&y, x[a], i, 0, on, NULL), 0);
            for (int k = 0; k < SIZE; k++) value[k] = model[a][index[k]];
            break;
        case 3:
            assert_int_equal(kl_reshape(&updates, x[b], shape, 2, on, NULL), 0);
            assert_int_equal(kl_scatter_add_single(&y, x[a], i, updates, 0, on, NULL), 0);
            memcpy(value, model[a], sizeof value);
            for (int k = 0; k < SIZE; k++)
                value[index[k]] = (int)((uint32_t)value[index[k]] + (uint32_t)model[b][k]);
            break;
        default:
            assert_int_equal(kl_sort(&y, x[a], on, NULL), 0);
            memcpy(value, model[a], sizeof value);
            for (int k = 1; k < SIZE; k++)
                for (int m = k; m > 0 && value[m] < value[m - 1]; m--) {
                    int low = value[m];
                    value[m] = value[m - 1];
                    value[m - 1] = low;
                }
        }
        kl_array_release(i);
        kl_array_release(updates);
        kl_array_release(x[to]);
        x[to] = y;
        memcpy(model[to], value, sizeof value);
        if (draw(&rng) % 3 == 0) assert_int_equal(kl_async_eval(&y, 1, NULL), 0);
        if (step % 50 == 49)
            for (int k = 0; k < KEPT; k++) {
                void *data = NULL;
                struct kl_error *e = NULL;
                if (kl_array_host(x[k], &data, &e)) fail_msg("%s", e->message);
                assert_memory_equal(data, model[k], sizeof model[k]);
            }
    }
    for (int k = 0; k < KEPT; k++) kl_array_release(x[k]);
    t_streams_free(4, s);
}

static void blocks_have_the_exact_size(void **state) {
    struct kl_backend *cpu;
    assert_int_equal(kl_device_backend(KL_CPU, 0, &cpu, NULL), 0);
    struct kl_memory *m = cpu->memory;
    static const size_t sizes[] = {1, 63, 64, 65, 1000, 1025, 2000001};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t active = kl_memory_active();
        struct kl_block *b = NULL;
        assert_int_equal(kl_block_alloc(m, sizes[i], NULL, &b, NULL), 0);
        /* The guard begins directly behind the requested size. */
        assert_int_equal(b->bytes, sizes[i]);
        assert_int_equal(b->raw_bytes, sizes[i] + 2 * KL_GUARD_BYTES);
        assert_int_equal(kl_memory_active(), active + b->raw_bytes);
        assert_int_equal(kl_guard_check(b->ptr, b->bytes, b->tenant), KL_GUARD_INTACT);
        memset(b->ptr, 7, b->bytes);
        uint64_t tenant = b->tenant;
        m->give_back(m, b);
        struct kl_block *again = NULL;
        assert_int_equal(kl_block_alloc(m, sizes[i], NULL, &again, NULL), 0);
        assert_ptr_equal(again, b);
        for (size_t k = 0; k < b->bytes; k++) /* Freed memory is filled with this byte. */
            assert_int_equal(((unsigned char *)b->ptr)[k], 0xDB);
        assert_int_equal(kl_guard_check(b->ptr, b->bytes, tenant), KL_GUARD_OTHER_TENANT);
        assert_int_equal(kl_guard_check(b->ptr, b->bytes, b->tenant), KL_GUARD_INTACT);
        m->give_back(m, b);
    }
}

int main(void) {
    kl_test_set_validating(true);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cpu_kernel_that_writes_outside),
        cmocka_unit_test(a_device_kernel_that_writes_outside),
        cmocka_unit_test(the_second_input_is_named),
        cmocka_unit_test(handed_to_another_stream_in_flight),
        cmocka_unit_test(correct_programs_are_not_reported),
        cmocka_unit_test(blocks_have_the_exact_size),
    };
    return cmocka_run_group_tests(tests, t_use_sim, NULL);
}
