/* test_device_row_feeds.c - element-wise operations that a device computes in the kernel of the
 * norm that reads their result, which stores it where others need it too (on_device.h chooses the
 * device): the same bits as when the result is made first, and the cases in which it must be. */
#include "ops/support/on_device.h"

#include "backend/gpu/lower/lower.h"

struct operands {
    struct kl_array *x, *y, *row, *column, *turned, *weight, *bias; /* turned: stored by columns */
};

static struct kl_array *rows_of(enum kl_dtype dtype, int rows, int columns, bool turned) {
    struct kl_array *a = drawn(dtype, 2, (int[]){turned ? columns : rows, turned ? rows : columns}),
                    *view;
    if (!turned) return a;
    OK(kl_transpose(&view, a, gpu_stream, &err));
    OK(kl_eval(&view, 1, &err));
    kl_array_release(a);
    return view;
}

static struct kl_array *one_row(enum kl_dtype dtype, int columns) {
    struct kl_array *a = rows_of(dtype, 1, columns, false), *flat;
    OK(kl_reshape(&flat, a, &columns, 1, gpu_stream, &err));
    OK(kl_eval(&flat, 1, &err));
    kl_array_release(a);
    return flat;
}

static struct operands draw(enum kl_dtype dtype, int rows, int columns) {
    return (struct operands){rows_of(dtype, rows, columns, false),
                             rows_of(dtype, rows, columns, false),
                             rows_of(dtype, 1, columns, false),
                             rows_of(dtype, rows, 1, false),
                             rows_of(dtype, rows, columns, true),
                             one_row(dtype, columns),
                             one_row(dtype, columns)};
}
static void drop(struct operands *o) {
    struct kl_array *all[] = {o->x, o->y, o->row, o->column, o->turned, o->weight, o->bias};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) kl_array_release(all[i]);
}

/* ---- what is computed first ---- */

typedef struct kl_array *group_fn(const struct operands *o);

static struct kl_array *sum(const struct operands *o) {
    struct kl_array *h;
    OK(kl_add(&h, o->x, o->y, gpu_stream, &err));
    return h;
}
static struct kl_array *scaled_sum(const struct operands *o) {
    struct kl_array *t, *h;
    OK(kl_multiply(&t, o->x, o->row, gpu_stream, &err));
    OK(kl_add(&h, t, o->column, gpu_stream, &err));
    kl_array_release(t);
    return h;
}
static struct kl_array *turned_sum(const struct operands *o) {
    struct kl_array *h;
    OK(kl_add(&h, o->turned, o->y, gpu_stream, &err));
    return h;
}
/* From another type: packs of two widths. */
static struct kl_array *converted(const struct operands *o) {
    struct kl_array *t, *h;
    const enum kl_dtype other = o->x->t.dtype == KL_F32 ? KL_F16 : KL_F32;
    OK(kl_astype(&t, o->x, other, gpu_stream, &err));
    OK(kl_astype(&h, t, o->x->t.dtype, gpu_stream, &err));
    kl_array_release(t);
    return h;
}

/* ---- what reads it ---- */

typedef struct kl_array *norm_fn(struct kl_array *h, const struct operands *o);

static struct kl_array *rms(struct kl_array *h, const struct operands *o) {
    struct kl_array *n;
    OK(kl_rms_norm(&n, h, o->weight, 1e-5f, gpu_stream, &err));
    return n;
}
static struct kl_array *plain_rms(struct kl_array *h, const struct operands *o) {
    struct kl_array *n;
    OK(kl_rms_norm(&n, h, NULL, 1e-5f, gpu_stream, &err));
    return n;
}
static struct kl_array *layer(struct kl_array *h, const struct operands *o) {
    struct kl_array *n;
    OK(kl_layer_norm(&n, h, o->weight, o->bias, 1e-5f, gpu_stream, &err));
    return n;
}

/* ---- the comparison ---- */

enum use {
    MADE_FIRST, /* the group's result is evaluated before the norm is called */
    NORM_ALONE, /* only the norm needs it */
    NEEDED_TOO, /* the program keeps it */
    READ_LATER, /* another operation reads it after the norm */
    N_USES
};

struct results {
    struct kl_array *norm, *other; /* row-major, evaluated; other: of NORM_ALONE, NULL */
};

static struct kl_array *row_major(struct kl_array *a) {
    struct kl_array *flat;
    read_elements(a, gpu_stream, &flat, "a result");
    kl_array_release(a);
    return flat;
}

static struct results run(group_fn *group, norm_fn *norm, const struct operands *o, enum use use,
                          int *feeds) {
    struct results r = {NULL, NULL};
    struct kl_array *h = group(o), *both[2], *doubled;
    const int before = kl_test_feeds();
    if (use == MADE_FIRST) OK(kl_eval(&h, 1, &err));
    r.norm = norm(h, o);
    if (use == READ_LATER) {
        OK(kl_add(&doubled, h, r.norm, gpu_stream, &err));
        OK(kl_subtract(&both[1], doubled, r.norm, gpu_stream, &err));
        kl_array_release(doubled);
        doubled = both[1];
        OK(kl_eval((struct kl_array *[]){r.norm, doubled}, 2, &err));
        kl_array_release(row_major(doubled));
        r.other = row_major(h);
    } else if (use == NORM_ALONE) {
        kl_array_release(h);
        OK(kl_eval(&r.norm, 1, &err));
    } else {
        OK(kl_eval(&r.norm, 1, &err));
        r.other = row_major(h);
    }
    r.norm = row_major(r.norm);
    *feeds = kl_test_feeds() - before;
    return r;
}

static void equal(struct kl_array *a, struct kl_array *b, const char *what) {
    void *x, *y;
    OK(kl_array_host(a, &x, &err));
    OK(kl_array_host(b, &y, &err));
    assert_int_equal(a->t.size, b->t.size);
    if (memcmp(x, y, (size_t)a->t.size * kl_dtype_size(a->t.dtype)) != 0)
        fail_msg("%s: other bits", what);
}

static void drop_results(struct results *r) {
    kl_array_release(r->norm);
    if (r->other) kl_array_release(r->other);
}

static void compare(const char *name, group_fn *group, norm_fn *norm, const struct operands *o,
                    bool fed) {
    int feeds;
    struct results first = run(group, norm, o, MADE_FIRST, &feeds);
    assert_int_equal(feeds, 0);
    for (int use = NORM_ALONE; use < N_USES; use++) {
        struct results r = run(group, norm, o, (enum use)use, &feeds);
        equal(r.norm, first.norm, name);
        if (r.other) equal(r.other, first.other, name);
        if (feeds != (fed && strcmp(device_name(), "sim") != 0))
            fail_msg("%s, use %d: %d feeds", name, use, feeds);
        drop_results(&r);
    }
    drop_results(&first);
}

#define PAIR(group, norm) \
    { #group " " #norm, group, norm }
static const struct {
    const char *name;
    group_fn *group;
    norm_fn *norm;
} pairs[] = {
    PAIR(sum, rms),        PAIR(sum, plain_rms), PAIR(sum, layer),       PAIR(scaled_sum, rms),
    PAIR(turned_sum, rms), PAIR(converted, rms), PAIR(converted, layer), PAIR(turned_sum, layer),
};

static void same_bits(void **state) {
    static const struct {
        enum kl_dtype dtype;
        int rows, columns;
    } shapes[] = {{KL_BF16, 1, 4096}, {KL_F32, 3, 640},  {KL_F16, 5, 71},    {KL_BF16, 70, 48},
                  {KL_F32, 1, 1},     {KL_F32, 2, 6144}, {KL_BF16, 40, 2048}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        struct operands o = draw(shapes[s].dtype, shapes[s].rows, shapes[s].columns);
        for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
            if (takes_case(s == 0 && i == 0 ? 1 : 4))
                compare(pairs[i].name, pairs[i].group, pairs[i].norm, &o, true);
        drop(&o);
    }
}

/* Rows that no group keeps in registers are read several times. */
static void long_rows(void **state) {
    struct operands o = draw(KL_BF16, 2, 20000);
    compare("long rows", sum, rms, &o, false);
    drop(&o);
}

/* A first operand that nobody else needs: the sum and the norm may be stored in its memory. */
static void in_place(void **state) {
    struct operands o = draw(KL_F32, 4, 256);
    struct kl_array *made[2][2], *h, *x;
    for (int fed = 0; fed < 2; fed++)
        for (int kept = 0; kept < 2; kept++) {
            const int before = kl_test_feeds();
            OK(kl_multiply(&x, o.x, o.y, gpu_stream, &err));
            OK(kl_eval(&x, 1, &err));
            OK(kl_add(&h, x, o.y, gpu_stream, &err));
            kl_array_release(x);
            if (!fed) OK(kl_eval(&h, 1, &err));
            made[fed][kept] = rms(h, &o);
            if (!kept) kl_array_release(h);
            OK(kl_eval(&made[fed][kept], 1, &err));
            if (kept) {
                struct kl_array *again, *sum_of_both = row_major(h);
                OK(kl_multiply(&x, o.x, o.y, gpu_stream, &err));
                OK(kl_add(&again, x, o.y, gpu_stream, &err));
                again = row_major(again);
                equal(sum_of_both, again, "a sum in place");
                kl_array_release(x);
                kl_array_release(again);
                kl_array_release(sum_of_both);
            }
            made[fed][kept] = row_major(made[fed][kept]);
            assert_int_equal(kl_test_feeds() - before, fed && strcmp(device_name(), "sim") != 0);
        }
    for (int kept = 0; kept < 2; kept++) {
        equal(made[0][kept], made[1][kept], "a norm in place");
        for (int fed = 0; fed < 2; fed++) kl_array_release(made[fed][kept]);
    }
    drop(&o);
}

/* The weight is a part of what the group makes, so other groups of work-items need it first. */
static struct kl_array *by_its_first_row(struct kl_array *h, const struct operands *o) {
    struct kl_array *n, *row, *weight;
    const int columns = h->t.dims[1];
    OK(kl_slice(&row, h, (int[]){0, 0}, 2, (int[]){1, columns}, 2, (int[]){1, 1}, 2, gpu_stream,
                &err));
    OK(kl_reshape(&weight, row, &columns, 1, gpu_stream, &err));
    OK(kl_rms_norm(&n, h, weight, 1e-5f, gpu_stream, &err));
    kl_array_release(row);
    kl_array_release(weight);
    return n;
}
/* More operations, and more operands, than are computed with the norm. */
static struct kl_array *many_operations(const struct operands *o) {
    struct kl_array *h = sum(o), *next;
    for (int i = 0; i < 8; i++) {
        OK(kl_multiply(&next, h, o->x, gpu_stream, &err));
        kl_array_release(h);
        h = next;
    }
    return h;
}
static struct kl_array *many_operands(const struct operands *o) {
    struct kl_array *h = scaled_sum(o), *next;
    OK(kl_add(&next, h, o->y, gpu_stream, &err));
    kl_array_release(h);
    return next;
}
static void made_first(void **state) {
    struct operands o = draw(KL_F32, 6, 128);
    compare("the weight is a row of the sum", sum, by_its_first_row, &o, false);
    compare("many operations", many_operations, rms, &o, false);
    compare("many operands", many_operands, layer, &o, false);
    drop(&o);
}

/* Two norms of one sum: the first stores it, the second reads it. */
static void two_norms(void **state) {
    struct operands o = draw(KL_BF16, 3, 512);
    struct kl_array *h, *both[2], *first[2];
    for (int fed = 0; fed < 2; fed++) {
        const int before = kl_test_feeds();
        h = sum(&o);
        if (!fed) OK(kl_eval(&h, 1, &err));
        both[0] = rms(h, &o);
        both[1] = layer(h, &o);
        kl_array_release(h);
        OK(kl_eval(both, 2, &err));
        for (int i = 0; i < 2; i++) {
            both[i] = row_major(both[i]);
            if (!fed) first[i] = both[i];
        }
        assert_int_equal(kl_test_feeds() - before, fed && strcmp(device_name(), "sim") != 0);
    }
    for (int i = 0; i < 2; i++) {
        equal(both[i], first[i], "two norms");
        kl_array_release(both[i]);
        kl_array_release(first[i]);
    }
    drop(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits), cmocka_unit_test(long_rows),
                                       cmocka_unit_test(in_place), cmocka_unit_test(made_first),
                                       cmocka_unit_test(two_norms)};
    return cmocka_run_group_tests(tests, open_streams, NULL);
}
