/* test_device_rotations.c - rotations of a few rows and writes into caches next to them, which a
 * device may do in one launch (on_device.h chooses the device): the same bits as one after the
 * other, how many launches are saved, and when rotated rows must be stored. */
#include "ops/support/on_device.h"

#include "backend/gpu/lower/lower.h"

enum { MOST = 80, CAPACITY = 9, N_RESULTS = 4 };

struct problem {
    enum kl_dtype dtype;
    int batch, heads, key_heads, rows, width, dims, at; /* at: the first row of the cache */
    bool traditional, offsets;                          /* offsets: each batch has one of its own */
    bool turned; /* rows of a head are apart, as after a projection */
    bool frequencies;
};

/* What a projection makes: values of batch, row, head, element; the result has heads before
 * rows. */
static struct kl_array *projected(const struct problem *p, int heads) {
    if (!p->turned) return drawn(p->dtype, 4, (int[]){p->batch, heads, p->rows, p->width});
    struct kl_array *a = drawn(p->dtype, 4, (int[]){p->batch, p->rows, heads, p->width}), *view;
    OK(kl_transpose_axes(&view, a, (int[]){0, 2, 1, 3}, 4, gpu_stream, &err));
    OK(kl_eval(&view, 1, &err));
    kl_array_release(a);
    return view;
}

struct inputs {
    struct kl_array *q, *k, *v, *cache[2], *offset, *freqs;
};
static struct inputs draw(const struct problem *p) {
    const int dims[] = {p->batch, p->key_heads, CAPACITY, p->width};
    int32_t at[MOST];
    struct inputs in = {.q = projected(p, p->heads),
                        .k = projected(p, p->key_heads),
                        .v = projected(p, p->key_heads),
                        .cache = {drawn(p->dtype, 4, dims), drawn(p->dtype, 4, dims)}};
    for (int i = 0; i < p->batch; i++) at[i] = p->at + 3 * i;
    OK(kl_array_new_data(&in.offset, at, KL_I32, p->offsets, &p->batch, &err));
    if (p->frequencies) in.freqs = drawn(KL_F32, 1, (int[]){p->dims / 2});
    return in;
}
static void drop(struct inputs *in) {
    struct kl_array *all[] = {in->q,        in->k,      in->v,    in->cache[0],
                              in->cache[1], in->offset, in->freqs};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]) kl_array_release(all[i]);
}

static struct kl_array *rotated(const struct problem *p, struct kl_array *x,
                                const struct inputs *in) {
    struct kl_array *out;
    OK(kl_rope(&out, x, p->dims, p->traditional, (struct kl_rope_base){!p->frequencies, 10000}, 1,
               in->offset, in->freqs, gpu_stream, &err));
    return out;
}

/* A cache with `rows` in place of some of its own. The cache is a value that nobody else needs, so
 * it is written in place. */
static struct kl_array *written(const struct problem *p, struct kl_array *cache,
                                struct kl_array *rows, bool step_by_step) {
    struct kl_array *own, *out;
    const int start[] = {0, 0, p->at, 0},
              stop[] = {p->batch, p->key_heads, p->at + p->rows, p->width}, one[] = {1, 1, 1, 1};
    OK(kl_negative(&own, cache, gpu_stream, &err));
    OK(kl_eval(&own, 1, &err));
    OK(kl_slice_update(&out, own, rows, start, 4, stop, 4, one, 4, gpu_stream, &err));
    kl_array_release(own);
    if (step_by_step) OK(kl_eval(&out, 1, &err));
    return out;
}

struct results {
    struct kl_array *of[N_RESULTS]; /* rotated queries, both caches, rotated keys or NULL */
    int saved;
};

/* keeps: the rotated keys are needed afterwards. */
static struct results run(const struct problem *p, const struct inputs *in, bool step_by_step,
                          bool keeps) {
    struct results r = {{NULL}, -kl_test_rotations()};
    struct kl_array *keys;
    r.of[0] = rotated(p, in->q, in);
    if (step_by_step) OK(kl_eval(&r.of[0], 1, &err));
    keys = rotated(p, in->k, in);
    if (step_by_step) OK(kl_eval(&keys, 1, &err));
    r.of[1] = written(p, in->cache[0], keys, step_by_step);
    r.of[2] = written(p, in->cache[1], in->v, step_by_step);
    r.of[3] = keeps ? keys : NULL;
    if (!keeps) kl_array_release(keys);
    OK(kl_eval(r.of, keeps ? 4 : 3, &err));
    r.saved += kl_test_rotations();
    for (int i = 0; i < N_RESULTS; i++) {
        struct kl_array *flat;
        if (!r.of[i]) continue;
        read_elements(r.of[i], gpu_stream, &flat, "a result");
        kl_array_release(r.of[i]);
        r.of[i] = flat;
    }
    return r;
}

static void compare(const struct problem *p, int saved, int saved_where_kept) {
    struct inputs in = draw(p);
    struct results first = run(p, &in, true, true);
    assert_int_equal(first.saved, 0);
    for (int keeps = 0; keeps < 2; keeps++) {
        struct results r = run(p, &in, false, keeps);
        for (int i = 0; i < N_RESULTS; i++) {
            void *a, *b;
            if (!r.of[i]) continue;
            OK(kl_array_host(r.of[i], &a, &err));
            OK(kl_array_host(first.of[i], &b, &err));
            if (memcmp(a, b, (size_t)r.of[i]->t.size * kl_dtype_size(p->dtype)) != 0)
                fail_msg("result %d, kept %d: other bits", i, keeps);
            kl_array_release(r.of[i]);
        }
        if (strcmp(device_name(), "sim") != 0)
            assert_int_equal(r.saved, keeps ? saved_where_kept : saved);
    }
    for (int i = 0; i < N_RESULTS; i++) kl_array_release(first.of[i]);
    drop(&in);
}

static void same_bits(void **state) {
    static const struct problem problems[] = {
        {KL_BF16, 1, 8, 2, 1, 64, 64, 5, false, false, true, false},
        {KL_F32, 1, 4, 4, 1, 32, 32, 0, true, false, false, false},
        {KL_F16, 2, 4, 2, 3, 48, 32, 4, false, true, true, false},
        {KL_F32, 3, 3, 1, 2, 20, 6, 7, true, true, true, false},
        {KL_BF16, 2, 2, 2, 4, 17, 16, 2, false, false, false, false},
        {KL_F16, 1, 2, 1, 1, 8, 8, 8, false, false, false, false},
        {KL_BF16, 2, 4, 2, 1, 64, 32, 3, false, true, true, true},
        {KL_F32, 1, 2, 1, 2, 160, 160, 3, true, false, false, true},
    };
    /* All four in one launch. Where the keys are kept, a write reads what the launch before has
     * stored: queries and keys are one launch. */
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) compare(&problems[i], 3, 1);
}

/* Many rows, and pairs whose angles are no argument of a kernel, go the other way. Where that
 * begins depends on the device; OpenCL's of these tests is a processor. */
static void larger(void **state) {
    const struct problem many = {KL_F32, 80, 16, 16, 2, 64, 64, 3, false, false, true, false},
                         wide = {KL_F32, 1, 2, 2, 1, 160, 160, 3, false, false, true, false},
                         between = {KL_BF16, 20, 8, 8, 2, 64, 64, 3, false, true, true, false};
    const bool is_processor = strcmp(device_name(), "opencl") == 0;
    compare(&many, 0, 0);
    compare(&wide, 0, 0);
    compare(&between, is_processor ? 0 : 3, is_processor ? 0 : 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits), cmocka_unit_test(larger)};
    return cmocka_run_group_tests(tests, open_streams, NULL);
}
