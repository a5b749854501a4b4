/* test_on_gpu_moves.c - operations composed of views and moves give the same bits on a device and
 * on the CPU. */
#include "ops/support/on_device.h"

#include "base/alloc.h"

static struct kl_array *numbers(void) {
    float v[24];
    for (int i = 0; i < 24; i++) v[i] = (float)(i * 5 % 24) - 7.5f;
    struct kl_array *a;
    OK(kl_array_new_data(&a, v, KL_F32, 3, (int[]){2, 3, 4}, &err));
    return a;
}

#define L(...) (int[]){__VA_ARGS__}, sizeof((int[]){__VA_ARGS__}) / sizeof(int)
#define CASES(X)                                                                            \
    X(as_strided, kl_as_strided(out, x, L(3, 4), (int64_t[]){-1, 3}, 2, 5, s, err))         \
    X(diagonal, kl_diagonal(out, x, 1, 1, 2, s, err))                                       \
    X(view_narrow, kl_view(out, x, KL_I16, s, err))                                         \
    X(view_wide, kl_view(out, x, KL_U64, s, err))                                           \
    X(pad, kl_pad(out, x, L(0, 2), L(1, 2), L(0, 1), one, "constant", s, err))              \
    X(reflect, kl_pad(out, x, L(1, 2), L(1, 2), L(0, 1), NULL, "reflect", s, err))          \
    X(tile, kl_tile(out, x, L(2, 1, 3), s, err))                                            \
    X(repeat, kl_repeat_axis(out, x, 3, 1, s, err))                                         \
    X(roll, kl_roll(out, x, L(7), s, err))                                                  \
    X(triu, kl_triu(out, x, 1, s, err))                                                     \
    X(eye, kl_eye(out, 4, 5, -1, KL_F16, s, err))                                           \
    X(trace, kl_diagonal_sum(out, x, 0, 0, 1, KL_F32, s, err))                              \
    X(joined, kl_slice_update_max(out, x, one, L(0, 0, 0), L(2, 3, 4), L(1, 2, 3), s, err)) \
    X(outer, kl_outer(out, x, x, s, err))

#define FUNCTION(name, call)                                                                \
    static int make_##name(struct kl_array **out, struct kl_array *x, struct kl_array *one, \
                           struct kl_stream *s, struct kl_error **err) {                    \
        return call;                                                                        \
    }
CASES(FUNCTION)
static const struct {
    const char *name;
    int (*make)(struct kl_array **out, struct kl_array *x, struct kl_array *one,
                struct kl_stream *s, struct kl_error **err);
} cases[] = {
#define ROW(name, call) {#name, make_##name},
    CASES(ROW)};

static void same_bits(void **state) {
    struct kl_array *a = numbers(), *one;
    OK(kl_array_new_scalar(&one, 1, KL_F32, &err));
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct kl_array *x[2], *made[2], *keep[2];
        const void *v[2];
        /* Once more with an operand that the stream itself has made. */
        for (int i = 0; i < 2; i++) {
            struct kl_stream *s = i ? gpu_stream : cpu_stream;
            OK(kl_add(&x[i], a, one, s, &err));
            OK(cases[k].make(&made[i], x[i], one, s, &err));
            v[i] = read_elements(made[i], s, &keep[i], cases[k].name);
        }
        assert_int_equal(made[0]->t.dtype, made[1]->t.dtype);
        assert_int_equal(made[0]->t.size, made[1]->t.size);
        if (memcmp(v[0], v[1], (size_t)made[0]->t.size * kl_dtype_size(made[0]->t.dtype)) != 0)
            fail_msg("%s: other bits", cases[k].name);
        for (int i = 0; i < 2; i++) {
            kl_array_release(x[i]);
            kl_array_release(made[i]);
            kl_array_release(keep[i]);
        }
    }
    kl_array_release(a);
    kl_array_release(one);
}

/* Element-wise operations write bits, which the next operations read with another dtype. */
static void view_in_a_chain(void **state) {
    struct kl_array *a = numbers(), *one, *sum, *bits, *next, *keep;
    OK(kl_array_new_scalar(&one, 1, KL_I32, &err));
    OK(kl_add(&sum, a, a, gpu_stream, &err));
    OK(kl_view(&bits, sum, KL_I32, gpu_stream, &err));
    kl_array_release(sum);
    OK(kl_add(&next, bits, one, gpu_stream, &err));
    kl_array_release(bits);
    const int32_t *v = read_elements(next, gpu_stream, &keep, "view");
    for (int i = 0; i < 24; i++) {
        float f = 2 * ((float)(i * 5 % 24) - 7.5f);
        int32_t want;
        memcpy(&want, &f, 4);
        assert_int_equal(v[i], want + 1);
    }
    kl_array_release(next);
    kl_array_release(keep);
    kl_array_release(a);
    kl_array_release(one);
}

/* The operation depends on a device, after work of the CPU, in place and as a copy; and with a
 * dependency that fails. */
static void depends(void **state) {
    struct kl_array *a = numbers(), *dep, *x, *t, *i, *bad, *keep;
    OK(kl_multiply(&dep, a, a, cpu_stream, &err));
    OK(kl_add(&x, a, a, gpu_stream, &err));
    OK(kl_transpose(&t, x, gpu_stream, &err));
    struct kl_array *in[2] = {x, t}, **outs;
    size_t n;
    OK(kl_depends(&outs, &n, in, 2, &dep, 1, gpu_stream, &err));
    kl_array_release(x);
    kl_array_release(t);
    const float *v = read_elements(outs[0], gpu_stream, &keep, "depends");
    for (int k = 0; k < 24; k++) assert_true(v[k] == 2 * ((float)(k * 5 % 24) - 7.5f));
    kl_array_release(keep);
    v = read_elements(outs[1], gpu_stream, &keep, "depends, transposed");
    for (int k = 0; k < 24; k++) {
        /* The element of a (4, 3, 2) view of a (2, 3, 4) array. */
        int at = k % 2 * 12 + k / 2 % 3 * 4 + k / 6;
        assert_true(v[k] == 2 * ((float)(at * 5 % 24) - 7.5f));
    }
    kl_array_release(keep);
    kl_array_release(outs[0]);
    kl_array_release(outs[1]);
    kl_free(outs);
    OK(kl_array_new_data(&i, (int32_t[]){99}, KL_I32, 1, (int[]){1}, &err));
    OK(kl_take(&bad, a, i, gpu_stream, &err));
    OK(kl_depends(&outs, &n, &a, 1, &bad, 1, gpu_stream, &err));
    struct kl_error *e = NULL;
    assert_int_equal(kl_eval(&outs[0], 1, &e), KL_EINDEX);
    assert_int_equal(e->index, 99);
    kl_error_release(e);
    kl_array_release(outs[0]);
    kl_free(outs);
    struct kl_array *used[] = {a, dep, i, bad};
    for (int k = 0; k < 4; k++) kl_array_release(used[k]);
}

/* Chains of element-wise operations over views without elements, with their axes in every order. No
 * address is read. */
static void nothing_in_a_chain(void **state) {
    static const int shapes[][2] = {{0, 3}, {3, 0}, {0, 0}};
    static const float none[1];
    for (int k = 0; k < 3; k++) {
        struct kl_array *a, *t, *c, *b, *x, *y, *z;
        OK(kl_array_new_data(&a, none, KL_F32, 2, shapes[k], &err));
        OK(kl_transpose(&t, a, gpu_stream, &err));
        OK(kl_copy(&c, t, gpu_stream, &err));
        OK(kl_transpose(&b, c, gpu_stream, &err));
        OK(kl_add(&x, a, b, gpu_stream, &err));
        OK(kl_exp(&y, x, gpu_stream, &err));
        OK(kl_multiply(&z, y, b, gpu_stream, &err));
        OK(kl_eval(&z, 1, &err));
        assert_int_equal(z->t.size, 0);
        struct kl_array *used[] = {a, t, c, b, x, y, z};
        for (int i = 0; i < 7; i++) kl_array_release(used[i]);
    }
}

/* Wrong indices of gathers and scatters whose slices have no elements are reported, for every dtype
 * of the index. Indices in range fail nothing. */
static void indices_of_nothing(void **state) {
    static const enum kl_dtype dtypes[] = {KL_U8, KL_U16, KL_U32, KL_U64,
                                           KL_I8, KL_I16, KL_I32, KL_I64};
    enum { N = 600, BAD = 517 };
    static const double none[1];
    struct kl_array *empty, *updates, *base;
    OK(kl_array_new_data(&empty, none, KL_F32, 2, (int[]){5, 0}, &err));
    OK(kl_array_new_data(&updates, none, KL_F32, 3, (int[]){N, 1, 0}, &err));
    OK(kl_zeros(&base, L(5, 4), KL_F32, cpu_stream, &err));
    OK(kl_eval(&base, 1, &err));
    for (int d = 0; d < 8; d++)
        for (int bad = 0; bad < 2; bad++) {
            int32_t v[N];
            for (int i = 0; i < N; i++) v[i] = i % 5;
            if (d >= 4) v[3] = -5;
            if (bad) v[BAD] = d == 7 ? -6 : 5;
            struct kl_array *wide, *index, *out[3];
            OK(kl_array_new_data(&wide, v, KL_I32, 1, (int[]){N}, &err));
            OK(kl_astype(&index, wide, (int)dtypes[d], cpu_stream, &err));
            OK(kl_eval(&index, 1, &err));
            OK(kl_take_axis(&out[0], empty, index, 0, gpu_stream, &err));
            OK(kl_scatter_single(&out[1], base, index, updates, 0, gpu_stream, &err));
            OK(kl_scatter_add_single(&out[2], empty, index, updates, 0, gpu_stream, &err));
            for (int k = 0; k < 3; k++) {
                struct kl_error *e = NULL;
                const int rc = kl_eval(&out[k], 1, &e);
                if (rc != (bad ? KL_EINDEX : KL_OK))
                    fail_msg("%s, %d: %d %s", kl_dtype_name(dtypes[d]), k, rc,
                             e ? e->message : "no message");
                if (bad) {
                    assert_int_equal(e->position, BAD);
                    assert_int_equal(e->index, v[BAD]);
                    assert_int_equal(e->axis_size, 5);
                }
                kl_error_release(e);
                kl_array_release(out[k]);
            }
            kl_array_release(wide);
            kl_array_release(index);
        }
    struct kl_array *used[] = {empty, updates, base};
    for (int k = 0; k < 3; k++) kl_array_release(used[k]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits), cmocka_unit_test(view_in_a_chain), cmocka_unit_test(depends),
        cmocka_unit_test(nothing_in_a_chain), cmocka_unit_test(indices_of_nothing)};
    return cmocka_run_group_tests(tests, open_streams, NULL);
}
