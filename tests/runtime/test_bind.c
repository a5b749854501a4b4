/* test_bind.c - the memory that a result gets: the memory of an input that nothing else uses
 * (donation), otherwise fresh memory; and operands whose data is on another device. */
#include "graph/graph_support.h"

#include "ops/ops.h"
#include "runtime/block_pool.h"

enum { N = 300 };

static struct kl_stream *stream(const char *kind) {
    struct kl_stream *s;
    t_streams(kind, &s);
    return s;
}

static struct kl_array *numbers(enum kl_dtype dtype) {
    static int v[N];
    for (int i = 0; i < N; i++) v[i] = dtype == KL_I32 ? i : 0;
    struct kl_array *a = NULL;
    int n = N;
    assert_int_equal(kl_array_new_data(&a, v, dtype, 1, &n, NULL), 0);
    return a;
}

static void *address(struct kl_array *a) {
    return a->t.buffer->block->ptr;
}

static void eval_one(struct kl_array *a) {
    assert_int_equal(kl_eval(&a, 1, NULL), 0);
}

static void expect_values(struct kl_array *a, int first, int step) {
    void *data = NULL;
    assert_int_equal(kl_array_host(a, &data, NULL), 0);
    for (int i = 0; i < a->t.size; i++) assert_int_equal(((int *)data)[i], first + i * step);
}

/* An array whose value is settled on the side of stream s; no use of its memory is outstanding. */
static struct kl_array *settled_on(struct kl_stream *s) {
    struct kl_array *a = numbers(KL_I32), *b = NULL;
    assert_int_equal(kl_negative(&b, a, s, NULL), 0);
    kl_array_release(a);
    eval_one(b);
    assert_int_equal(kl_stream_synchronize(s, NULL), 0);
    return b;
}

static void memory_without_another_owner_is_donated(void **state) {
    for (int g = 0; g < 2; g++) {
        struct kl_stream *s = stream(g ? "g" : "c");
        struct kl_array *x = settled_on(s), *y = NULL, *z = NULL, *w = NULL;
        void *p = address(x);
        assert_int_equal(kl_negative(&y, x, s, NULL), 0);
        /* Both operands are the same array, so it has two references. */
        assert_int_equal(kl_add(&z, y, y, s, NULL), 0);
        assert_int_equal(kl_negative(&w, z, s, NULL), 0);
        kl_array_release(x);
        kl_array_release(y);
        kl_array_release(z);
        eval_one(w);
        assert_int_equal(kl_stream_synchronize(s, NULL), 0);
        /* The result -x takes the memory of x. The operand y of y + y has two references, so the
         * sum takes another block, and so does w. */
        assert_ptr_not_equal(address(w), p);
        expect_values(w, 0, -2);
        kl_array_release(w);
        x = settled_on(s);
        p = address(x);
        for (int i = 0; i < 5; i++) {
            assert_int_equal(kl_negative(&y, x, s, NULL), 0);
            kl_array_release(x);
            x = y;
        }
        size_t active = kl_memory_active();
        eval_one(x);
        /* Each operation of the chain takes the memory of the one before. */
        assert_ptr_equal(address(x), p);
        assert_int_equal(kl_stream_synchronize(s, NULL), 0);
        assert_int_equal(kl_memory_active(), active);
        expect_values(x, 0, 1);
        kl_array_release(x);
        kl_stream_release(s);
    }
}

static void the_second_input_is_donated(void **state) {
    struct kl_stream *s = stream("c");
    struct kl_array *x = settled_on(s), *y = settled_on(s), *z = NULL;
    void *p = address(y);
    assert_int_equal(kl_subtract(&z, x, y, s, NULL), 0);
    kl_array_release(y); /* x has a handle left, y has none */
    eval_one(z);
    assert_ptr_equal(address(z), p);
    expect_values(z, 0, 0);
    expect_values(x, 0, -1);
    kl_array_release(x);
    kl_array_release(z);
    kl_stream_release(s);
}

/* Computes z = -x, where something else keeps the memory of x from being overwritten. Releases x if
 * `release` is set. */
static void expect_kept(struct kl_stream *s, struct kl_array *x, void *p, bool release) {
    struct kl_array *z = NULL;
    assert_int_equal(kl_negative(&z, x, s, NULL), 0);
    if (release) kl_array_release(x);
    eval_one(z);
    assert_ptr_not_equal(address(z), p);
    kl_array_release(z);
}

static void another_handle(void **state) {
    struct kl_stream *s = stream("c");
    struct kl_array *x = settled_on(s);
    expect_kept(s, x, address(x), false);
    expect_values(x, 0, -1);
    void *p = NULL; /* a pointer that the host has while a handle lives */
    assert_int_equal(kl_array_host(x, &p, NULL), 0);
    struct kl_array *same = kl_array_retain(x);
    expect_kept(s, x, p, true);
    for (int i = 0; i < N; i++) assert_int_equal(((int *)p)[i], -i);
    kl_array_release(same);
    kl_stream_release(s);
}

static void another_operation_that_was_not_run(void **state) {
    struct kl_stream *s = stream("c");
    struct kl_array *x = settled_on(s), *later = NULL;
    assert_int_equal(kl_negative(&later, x, s, NULL), 0);
    expect_kept(s, x, address(x), true);
    expect_values(later, 0, 1);
    kl_array_release(later);
    kl_stream_release(s);
}

static void a_view(void **state) {
    struct kl_stream *s = stream("c");
    struct kl_array *x = settled_on(s), *v = NULL, *z = NULL;
    int start = 5, stop = 9, step = 1;
    assert_int_equal(kl_slice(&v, x, &start, 1, &stop, 1, &step, 1, s, NULL), 0);
    void *p = address(x);
    expect_kept(s, x, p, true);
    expect_values(v, -5, -1);
    /* A view of a part of a block does not give its block away, even when it is the last user of
     * the block. */
    assert_int_equal(kl_negative(&z, v, s, NULL), 0);
    kl_array_release(v);
    eval_one(z);
    assert_ptr_not_equal(address(z), p);
    expect_values(z, 5, 1);
    kl_array_release(z);
    /* Neither does a reversed view. */
    x = settled_on(s);
    p = address(x);
    start = N - 1, stop = -N - 1, step = -1;
    assert_int_equal(kl_slice(&v, x, &start, 1, &stop, 1, &step, 1, s, NULL), 0);
    kl_array_release(x);
    assert_int_equal(kl_negative(&z, v, s, NULL), 0);
    kl_array_release(v);
    eval_one(z);
    assert_ptr_not_equal(address(z), p);
    expect_values(z, N - 1, -1);
    kl_array_release(z);
    kl_stream_release(s);
}

static void count_dtor(void *n) {
    ++*(int *)n;
}

static void memory_of_the_user(void **state) {
    struct kl_stream *s = stream("c");
    static int data[N];
    int n_dtor = 0, n = N;
    for (int i = 0; i < N; i++) data[i] = i;
    struct kl_array *x = NULL;
    assert_int_equal(kl_array_new_user(&x, data, KL_I32, 1, &n, &n_dtor, count_dtor, NULL), 0);
    expect_kept(s, x, data, true);
    assert_int_equal(n_dtor, 1);
    for (int i = 0; i < N; i++) assert_int_equal(data[i], i);
    kl_stream_release(s);
}

static void another_size_or_shape(void **state) {
    struct kl_stream *s = stream("c");
    struct kl_array *x = settled_on(s), *z = NULL;
    void *p = address(x);
    /* The result has items of half the size. */
    assert_int_equal(kl_astype(&z, x, KL_F16, s, NULL), 0);
    kl_array_release(x);
    eval_one(z);
    assert_ptr_not_equal(address(z), p);
    kl_array_release(z);
    x = settled_on(s);
    p = address(x);
    /* The result has items of the same size, so it is computed in place. */
    assert_int_equal(kl_astype(&z, x, KL_F32, s, NULL), 0);
    kl_array_release(x);
    eval_one(z);
    assert_ptr_equal(address(z), p);
    assert_true(((float *)address(z))[7] == -7.0f);
    kl_array_release(z);
    struct kl_array *one = NULL, *sum = NULL;
    assert_int_equal(kl_array_new_scalar(&one, 1, KL_I32, NULL), 0);
    x = settled_on(s);
    p = address(one);
    /* The scalar is broadcast, so its block is too small for the result. */
    assert_int_equal(kl_add(&sum, one, x, s, NULL), 0);
    kl_array_release(one);
    eval_one(sum);
    assert_ptr_not_equal(address(sum), p);
    expect_values(sum, 1, -1);
    kl_array_release(sum);
    /* A sort reads elements other than those it writes. */
    assert_int_equal(kl_sort(&z, x, s, NULL), 0);
    p = address(x);
    kl_array_release(x);
    eval_one(z);
    assert_ptr_not_equal(address(z), p);
    kl_array_release(z);
    kl_stream_release(s);
}

static void an_unfinished_use_of_another_stream(void **state) {
    struct kl_stream *s[2];
    t_streams("gg", s);
    /* other: the reading stream is s[0] itself, or the other one. */
    for (int other = 0; other < 2; other++) {
        struct kl_array *x = settled_on(s[0]), *reading = NULL, *z = NULL;
        kl_sim_hold(0, true);
        assert_int_equal(kl_sum(&reading, x, false, s[other], NULL), 0);
        assert_int_equal(kl_async_eval(&reading, 1, NULL), 0);
        kl_timeline_block(reading->t.fate->timeline->handed, reading->t.fate->ticket);
        void *p = address(x);
        assert_int_equal(kl_negative(&z, x, s[0], NULL), 0);
        kl_array_release(x);
        assert_int_equal(kl_async_eval(&z, 1, NULL), 0);
        kl_timeline_block(z->t.fate->timeline->handed, z->t.fate->ticket);
        if (other)
            assert_ptr_not_equal(address(z), p);
        else
            assert_ptr_equal(address(z), p); /* s[0] runs the write after the read */
        kl_sim_hold(0, false);
        assert_int_equal(t_value(reading), -(N - 1) * N / 2);
        expect_values(z, 0, 1);
        kl_array_release(reading);
        kl_array_release(z);
    }
    t_streams_free(2, s);
}

static void copies_elsewhere(void **state) {
    if (kl_sim_shares()) skip();
    struct kl_stream *s[2];
    t_streams("cg", s);
    for (int g = 0; g < 2; g++) {
        struct kl_array *x = settled_on(s[g]), *sum = NULL, *z = NULL;
        void *p = address(x);
        assert_int_equal(kl_sum(&sum, x, false, s[!g], NULL), 0); /* the other side makes a copy */
        assert_int_equal(t_value(sum), -(N - 1) * N / 2);
        assert_non_null(atomic_load(&x->t.buffer->mirrors));
        struct kl_block *copy = atomic_load(&x->t.buffer->mirrors);
        struct kl_array *sum2 = NULL;
        /* The second use takes the same copy. */
        assert_int_equal(kl_sum(&sum2, x, false, s[!g], NULL), 0);
        assert_int_equal(t_value(sum2), -(N - 1) * N / 2);
        assert_ptr_equal(atomic_load(&x->t.buffer->mirrors), copy);
        assert_null(atomic_load(&copy->next_mirror));
        assert_int_equal(kl_negative(&z, x, s[g], NULL), 0);
        kl_array_release(x);
        eval_one(z);
        assert_ptr_not_equal(address(z), p); /* a write in place would not change the copy */
        expect_values(z, 0, 1);
        kl_array_release(z);
        kl_array_release(sum);
        kl_array_release(sum2);
    }
    t_streams_free(2, s);
}

static struct kl_array *updated(struct kl_stream *s, struct kl_array *base, int how) {
    struct kl_array *out = NULL, *update = NULL, *index = NULL;
    int start = 2, stop = 4, step = 1, value[2] = {71, 72}, where[2] = {2, 3}, two = 2,
        rows[2] = {2, 1};
    assert_int_equal(
        kl_array_new_data(&update, value, KL_I32, how ? 2 : 1, how ? rows : &two, NULL), 0);
    assert_int_equal(kl_array_new_data(&index, where, KL_I32, 1, &two, NULL), 0);
    if (how == 0)
        assert_int_equal(
            kl_slice_update(&out, base, update, &start, 1, &stop, 1, &step, 1, s, NULL), 0);
    else
        assert_int_equal(kl_scatter_single(&out, base, index, update, 0, s, NULL), 0);
    kl_array_release(update);
    kl_array_release(index);
    return out;
}

static void updates_in_place(void **state) {
    for (int g = 0; g < 2; g++) {
        struct kl_stream *s = stream(g ? "g" : "c");
        for (int how = 0; how < 2; how++) {
            for (int kept = 0; kept < 2; kept++) {
                struct kl_array *x = settled_on(s), *y = updated(s, x, how);
                void *p = address(x), *data = NULL;
                if (!kept) kl_array_release(x);
                eval_one(y);
                if (kept)
                    assert_ptr_not_equal(address(y), p);
                else
                    assert_ptr_equal(address(y), p);
                assert_int_equal(kl_array_host(y, &data, NULL), 0);
                for (int i = 0; i < N; i++)
                    assert_int_equal(((int *)data)[i], i == 2 ? 71 : i == 3 ? 72 : -i);
                kl_array_release(y);
                if (!kept) continue;
                expect_values(x, 0, -1);
                kl_array_release(x);
            }
        }
        kl_stream_release(s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_without_another_owner_is_donated),
        cmocka_unit_test(the_second_input_is_donated),
        cmocka_unit_test(another_handle),
        cmocka_unit_test(another_operation_that_was_not_run),
        cmocka_unit_test(a_view),
        cmocka_unit_test(memory_of_the_user),
        cmocka_unit_test(another_size_or_shape),
        cmocka_unit_test(an_unfinished_use_of_another_stream),
        cmocka_unit_test(copies_elsewhere),
        cmocka_unit_test(updates_in_place),
    };
    return cmocka_run_group_tests(tests, t_use_sim, NULL);
}
