/* test_arrange.c - small products of the same rows come together in the order of a commit, with
 * their views; what is not made yet, other rows, large products and the CPU's stay where they are;
 * single numbers are made early; producers come before consumers in every order that comes out. */
#include "ops/support/on_device.h"

#include "graph/arrange.h"
#include "graph/node.h"
#include "ops/ops.h"

enum { K = 64, MOST = 64 };

/* The arrays of a test that have a node, in the order in which a walk met their nodes. */
static struct kl_array *made[MOST];
static int n_made;

static struct kl_array *put(struct kl_array *a) {
    assert_true(n_made < MOST);
    assert_non_null(a->node);
    return made[n_made++] = a;
}

static struct kl_array *leaf(int rows, int columns) {
    static float values[K * 1024 * 2];
    struct kl_array *a;
    assert_true((size_t)rows * (size_t)columns <= sizeof values / sizeof *values);
    OK(kl_array_new_data(&a, values, KL_F32, 2, (int[]){rows, columns}, &err));
    return a; /* evaluated: it has no node */
}
static struct kl_array *times(struct kl_array *a, struct kl_array *b, struct kl_stream *s) {
    struct kl_array *out;
    OK(kl_matmul(&out, a, b, s, &err));
    return put(out);
}
static struct kl_array *exp_of(struct kl_array *a) {
    struct kl_array *out;
    OK(kl_exp(&out, a, gpu_stream, &err));
    return put(out);
}
static struct kl_array *turned(struct kl_array *a) {
    struct kl_array *out;
    OK(kl_transpose(&out, a, gpu_stream, &err));
    return put(out);
}

/* Arranges what was made, and compares the order with that of these numbers of `made`, from 0 on.
 * Releases everything. */
static void expect(const int *wanted) {
    struct kl_node *order[MOST];
    assert_true(n_made > 0);
    for (int i = 0; i < n_made; i++) order[i] = made[i]->node;
    kl_arrange(order, (size_t)n_made);
    for (int i = 0; i < n_made; i++) {
        int is = 0;
        while (made[is]->node != order[i]) is++;
        if (is != wanted[i]) fail_msg("place %d: number %d, not %d", i, is, wanted[i]);
        assert_int_equal(order[i]->index, i);
    }
    for (int i = 0; i < n_made; i++) kl_array_release(made[i]);
    n_made = 0;
}

/* Queries, keys and values: a walk meets the products of keys and values after what is made of the
 * one before. */
static void test_three_products(void **state) {
    struct kl_array *h0 = leaf(K, K), *w = leaf(K, K);
    struct kl_array *h = exp_of(h0);
    struct kl_array *q = exp_of(times(h, w, gpu_stream));
    struct kl_array *k = exp_of(times(h, w, gpu_stream));
    struct kl_array *v = times(h, w, gpu_stream);
    struct kl_array *sum;
    OK(kl_add(&sum, q, k, gpu_stream, &err));
    put(sum);
    times(sum, v, gpu_stream);
    kl_array_release(h0);
    /* 0 h, 1 2 q, 3 4 k, 5 v, 6 sum, 7 another product, of other rows */
    expect((const int[]){0, 1, 3, 5, 2, 4, 6, 7});
    kl_array_release(w);
}

/* A weight that is seen through a transposition moves with it; rows seen through views are the
 * same rows. */
static void test_views(void **state) {
    struct kl_array *h0 = leaf(K, K), *w0 = leaf(K, K);
    struct kl_array *h = exp_of(h0), *w = exp_of(w0);
    exp_of(times(h, w, gpu_stream)); /* 2, 3 */
    times(h, turned(w), gpu_stream); /* 4, 5 */
    exp_of(w);                       /* 6 */
    times(turned(h), w, gpu_stream); /* 7, 8 */
    expect((const int[]){0, 1, 2, 4, 5, 7, 8, 3, 6});
    kl_array_release(h0);
    kl_array_release(w0);
}

/* What a product needs is made later, or it depends on the first one. */
static void test_not_made_yet(void **state) {
    struct kl_array *h = leaf(K, K), *w = leaf(K, K);
    struct kl_array *first = times(h, w, gpu_stream);
    times(h, exp_of(w), gpu_stream);
    times(h, exp_of(first), gpu_stream);
    times(h, turned(first), gpu_stream); /* only views are between: it stays behind the first one */
    /* 0 first, 1 exp, 2 product, 3 exp, 4 product, 5 view, 6 product */
    expect((const int[]){0, 5, 6, 1, 2, 3, 4});
    kl_array_release(h);
    kl_array_release(w);
}

/* Products of other rows, of a CPU, of another stream, and large ones stay where they are. */
static void test_others(void **state) {
    struct kl_stream *second;
    OK(kl_stream_new(&second, KL_GPU, 0, &err));
    struct kl_array *h = leaf(K, K), *other = leaf(K, K), *w = leaf(K, K), *large = leaf(K, 2048);
    struct kl_array *rows = leaf(1024, K);
    exp_of(times(h, w, gpu_stream));
    times(other, w, gpu_stream);
    times(h, w, second);
    times(h, w, cpu_stream);
    expect((const int[]){0, 1, 2, 3, 4});
    times(h, w, cpu_stream);
    exp_of(w);
    times(h, w, cpu_stream);
    expect((const int[]){0, 1, 2});
    times(rows, large, gpu_stream); /* 2 M elements */
    exp_of(w);
    times(rows, large, gpu_stream);
    expect((const int[]){0, 1, 2});
    struct kl_array *all[] = {h, other, w, large, rows};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) kl_array_release(all[i]);
}

static struct kl_array *number(float value) {
    struct kl_array *a;
    OK(kl_array_new_data(&a, &value, KL_F32, 0, NULL, &err));
    return a;
}
static struct kl_array *add(struct kl_array *a, struct kl_array *b) {
    struct kl_array *out;
    OK(kl_add(&out, a, b, gpu_stream, &err));
    return put(out);
}
static struct kl_array *total(struct kl_array *a) {
    struct kl_array *out;
    OK(kl_sum(&out, a, false, gpu_stream, &err));
    return put(out);
}

static struct kl_array *row_of(struct kl_array *a) {
    struct kl_array *out;
    OK(kl_reshape(&out, a, (const int[]){1}, 1, gpu_stream, &err));
    return put(out);
}

/* The nodes of what was made and of the views between these, as a walk has them. */
enum { MOST_NODES = 4 * MOST };
static struct kl_node *nodes[MOST_NODES], *early[MOST_NODES];
static int n_nodes;

static void meet(struct kl_node *n) {
    for (int i = 0; i < n_nodes; i++)
        if (nodes[i] == n) return;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i]->node) meet(n->in[i]->node);
    assert_true(n_nodes < MOST_NODES);
    nodes[n_nodes++] = n;
}

/* Each node is there once, and producers come first. */
static void arrange_numbers(void) {
    int32_t places[MOST_NODES + 1];
    n_nodes = 0;
    for (int i = 0; i < n_made; i++) meet(made[i]->node);
    kl_scalars_early(nodes, (size_t)n_nodes, early, places);
    for (int i = 0; i < n_nodes; i++) early[i]->index = i;
    for (int i = 0; i < n_nodes; i++) {
        assert_ptr_equal(early[nodes[i]->index], nodes[i]);
        for (int k = 0; k < nodes[i]->n_in; k++) {
            const struct kl_node *maker = nodes[i]->in[k]->node;
            if (maker) assert_true(maker->index < nodes[i]->index);
        }
    }
}
static void release_made(void) {
    for (int i = 0; i < n_made; i++) kl_array_release(made[i]);
    n_made = 0;
}

/* The numbers of `made` in the order that kl_scalars_early gives. */
static void expect_early(const int *wanted) {
    arrange_numbers();
    for (int i = 0, at = 0; i < n_nodes; i++) {
        int is = 0;
        while (is < n_made && made[is]->node != early[i]) is++;
        if (is == n_made) continue; /* a view that was put between */
        if (is != wanted[at]) fail_msg("place %d: number %d, not %d", at, is, wanted[at]);
        at++;
    }
    release_made();
}

/* Operations on single numbers go to the front, in their order; those that need a sum go behind
 * it; what is larger, or no element-wise operation, stays in its order. */
static void test_numbers(void **state) {
    struct kl_array *h = leaf(K, K), *one = number(1);
    struct kl_array *a = exp_of(h);           /* 0 */
    struct kl_array *b = exp_of(one);         /* 1 */
    struct kl_array *c = exp_of(a);           /* 2 */
    struct kl_array *d = row_of(exp_of(b));   /* 3, 4: a view of one number */
    struct kl_array *sum = total(c);          /* 5 */
    struct kl_array *e = exp_of(c);           /* 6 */
    struct kl_array *f = exp_of(exp_of(sum)); /* 7, 8 */
    add(e, exp_of(d));                        /* 9 the number, 10 the sum of both */
    add(f, b);                                /* 11 */
    add(exp_of(h), f);                        /* 12, 13 */
    const int with_view[] = {1, 3, 4, 9, 0, 2, 5, 7, 8, 11, 6, 10, 12, 13};
    expect_early(with_view);
    kl_array_release(h);
    kl_array_release(one);
}

/* Random graphs of both sizes. */
static void test_random_numbers(void **state) {
    uint64_t x = 88172645463325252u;
    for (int round = 0; round < 300; round++) {
        struct kl_array *h = leaf(K, K), *one = number(1);
        for (int i = 0; i < MOST; i++) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            struct kl_array *a = n_made ? made[x % (unsigned)n_made] : h;
            struct kl_array *b = n_made && x & 256 ? made[(x >> 16) % (unsigned)n_made] : one;
            if ((x >> 40 & 3) == 0)
                total(a);
            else
                add(a, b);
        }
        arrange_numbers();
        release_made();
        kl_array_release(h);
        kl_array_release(one);
    }
}

/* Random graphs: a permutation in which producers come first. */
static void test_random(void **state) {
    uint64_t x = 88172645463325252u;
    for (int round = 0; round < 300; round++) {
        struct kl_array *w = leaf(K, K), *first = leaf(K, K);
        int index[MOST];
        for (int i = 0; i < 40; i++) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            struct kl_array *a = n_made ? made[x % (unsigned)n_made] : first;
            struct kl_array *b = n_made && x & 256 ? made[(x >> 16) % (unsigned)n_made] : w;
            switch (x >> 40 & 3) {
            case 0: exp_of(a); break;
            case 1:
                if (a->node) turned(a); /* else it is one that is made already */
                break;
            default: times(a, b, gpu_stream);
            }
        }
        struct kl_node *order[MOST];
        for (int i = 0; i < n_made; i++) order[i] = made[i]->node;
        kl_arrange(order, (size_t)n_made);
        for (int i = 0; i < n_made; i++) {
            int at = 0;
            while (order[at] != made[i]->node) at++; /* each is there */
            index[i] = at;
            assert_int_equal(made[i]->node->index, at);
        }
        for (int i = 0; i < n_made; i++)
            for (int k = 0; k < made[i]->node->n_in; k++) {
                const struct kl_node *maker = made[i]->node->in[k]->node;
                if (maker) assert_true(maker->index < index[i]);
            }
        for (int i = 0; i < n_made; i++) kl_array_release(made[i]);
        n_made = 0;
        kl_array_release(w);
        kl_array_release(first);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_three_products), cmocka_unit_test(test_views),
        cmocka_unit_test(test_not_made_yet),   cmocka_unit_test(test_others),
        cmocka_unit_test(test_random),         cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_random_numbers),
    };
    return cmocka_run_group_tests(tests, open_streams, NULL);
}
