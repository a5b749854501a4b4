/* test_fusion.c - element-wise operations that run as one group give the bits that they give one by
 * one, for every pair of operations and for random graphs of every dtype; which results are stored;
 * failures. */
#include "graph/fusion_support.h"

#include "backend/cpu/cpu_kernels.h"
#include "graph/node.h"
#include "runtime/block_pool.h"

/* Operation `which` of a (and b). For an operation that takes other dtypes, the result is a itself,
 * retained. */
static struct kl_array *apply(int which, struct kl_array *a, struct kl_array *b) {
    struct kl_array *out = NULL;
    struct kl_error *err = NULL;
    int rc = operation_build(which, &out, a, b, &err);
    if (!rc) return out;
    assert_int_equal(rc, KL_EDTYPE);
    kl_error_release(err);
    return kl_array_retain(a);
}

/* ---- the same bits ---- */

/* Marks the operation of a, and those of its inputs. */
static void mark_operations(const struct kl_array *a, bool *seen) {
    if (!a->node) return;
    seen[a->node->task.op] = true;
    for (int i = 0; i < a->node->n_in; i++) mark_operations(a->node->in[i], seen);
}

/* An operation that is missing in the tables would not be tested by the tests below. */
static void the_tables_have_every_operation(void **state) {
    static const int dims[] = {2, 2};
    bool seen[KL_N_OPS] = {false};
    for (int d = 0; d < KL_N_DTYPES; d++) {
        struct kl_array *x = special_bits((enum kl_dtype)d, 2, dims, 1);
        for (int which = 0; which < N_OPERATIONS; which++) {
            struct kl_array *out = apply(which, x, x);
            mark_operations(out, seen);
            kl_array_release(out);
        }
        kl_array_release(x);
    }
    for (int op = 0; op < KL_N_OPS; op++)
        if ((kl_op_flags((enum kl_op_id)op) & KL_OPF_ELEMENTWISE) && !seen[op])
            fail_msg("%s is in no table", kl_op_name((enum kl_op_id)op));
}

/* Whether a is computed of `of`; some operations give the same for all elements of a dtype. */
static bool reads(const struct kl_array *a, const struct kl_array *of) {
    if (a == of) return true;
    for (int i = 0; a->node && i < a->node->n_in; i++)
        if (reads(a->node->in[i], of)) return true;
    return false;
}

/* Every operation followed by every other one, for every dtype. The second reads the result of the
 * first, and an operand of another layout where the dtype is the same. */
static void every_pair(void **state) {
    static const int dims[] = {3, 347}; /* the smallest group has 1,024 elements */
    uint64_t before = kl_fusion_count(), pairs = 0;
    for (int d = 0; d < KL_N_DTYPES; d++) {
        struct kl_array *x = special_bits((enum kl_dtype)d, 2, dims, 7);
        struct kl_array *y = strided(special_bits((enum kl_dtype)d, 2, dims, 11));
        for (int first = 0; first < N_OPERATIONS; first++) {
            if (!kl_test_takes("cpu", 6)) continue;
            struct kl_array *out[2][N_OPERATIONS];
            for (int way = 0; way < 2; way++) {
                kl_fusion_allow(way == 1);
                for (int second = 0; second < N_OPERATIONS; second++) {
                    struct kl_array *mid = apply(first, x, y);
                    out[way][second] = apply(second, mid, mid->t.dtype == y->t.dtype ? y : mid);
                    pairs += way == 1 && mid != x && out[way][second] != mid &&
                             reads(out[way][second], mid);
                    kl_array_release(mid);
                    EXPECT_OK(kl_eval(&out[way][second], 1, &err));
                }
            }
            for (int second = 0; second < N_OPERATIONS; second++) {
                if (!same_values(out[0][second], out[1][second]))
                    fail_msg("%s, then %s, of %s", operation_name(first), operation_name(second),
                             kl_dtype_name((enum kl_dtype)d));
                kl_array_release(out[0][second]);
                kl_array_release(out[1][second]);
            }
        }
        kl_array_release(x);
        kl_array_release(y);
    }
    kl_fusion_allow(true);
    uint64_t groups = kl_fusion_count() - before;
    /* All pairs, and groups within operations that are composed of several. */
    assert_true(groups >= pairs);
    printf("%llu pairs in one pass each\n", (unsigned long long)pairs);
}

/* Builds a graph of 30 operations over a few leaves, some of which have other layouts and dtypes.
 * Any node may be used again, and handles of the test keep some of them. */
static void grow(uint32_t seed, struct kl_array *const *leaves, int n_leaves,
                 struct kl_array **nodes, int n_nodes) {
    int n = 0;
    for (; n < n_leaves; n++) nodes[n] = kl_array_retain(leaves[n]);
    for (; n < n_nodes; n++) {
        uint32_t r = next_random(&seed);
        struct kl_array *a = nodes[r % (uint32_t)n], *b = nodes[next_random(&seed) % (uint32_t)n];
        uint32_t kind = next_random(&seed) % 10;
        if (kind == 0) {
            EXPECT_OK(
                kl_astype(&nodes[n], a, (int)(next_random(&seed) % KL_N_DTYPES), cpu(), &err));
        } else if (kind == 1) {
            struct kl_array *c = nodes[next_random(&seed) % (uint32_t)n];
            EXPECT_OK(kl_where(&nodes[n], c, a, b, cpu(), &err));
        } else {
            nodes[n] = apply((int)(next_random(&seed) % N_OPERATIONS), a, b);
        }
    }
}

static void random_graphs(void **state) {
    enum { LEAVES = 6, NODES = 36, GRAPHS = 150 };
    static const int dims[] = {5, 1, 613}, row[] = {613}, large[] = {301, 1, 1003}, wide[] = {1003};
    uint64_t before = kl_fusion_count();
    for (uint32_t g = 0; g < GRAPHS; g++) {
        uint32_t seed = 1000 + g;
        bool big = g % 50 == 0; /* some graphs are large enough for several threads */
        const int *shape = big ? large : dims, *last = big ? wide : row;
        struct kl_array *leaves[LEAVES], *nodes[2][NODES];
        for (int i = 0; i < LEAVES; i++) {
            enum kl_dtype d = (enum kl_dtype)(next_random(&seed) % KL_N_DTYPES);
            leaves[i] = i == 0   ? scalar_of(d, 1.5)
                        : i == 1 ? random_of(d, 1, last, &seed)
                                 : random_of(d, 3, shape, &seed);
            if (i == 2) leaves[i] = strided(leaves[i]);
        }
        for (int way = 0; way < 2; way++) {
            struct kl_array *kept[4];
            int n_kept = 0;
            kl_fusion_allow(way == 1);
            grow(g, leaves, LEAVES, nodes[way], NODES);
            /* The test keeps the last node and every ninth; the others have no other owner than the
             * graph. */
            for (int i = 0; i < NODES; i++) {
                if (i == NODES - 1 || (i >= LEAVES && i % 9 == 0)) {
                    kept[n_kept++] = nodes[way][i];
                } else {
                    kl_array_release(nodes[way][i]);
                    nodes[way][i] = NULL;
                }
            }
            EXPECT_OK(kl_eval(kept, (size_t)n_kept, &err));
        }
        for (int i = 0; i < NODES; i++) {
            if (!nodes[0][i]) continue;
            if (!same_values(nodes[0][i], nodes[1][i])) fail_msg("graph %u, node %d", g, i);
            kl_array_release(nodes[0][i]);
            kl_array_release(nodes[1][i]);
        }
        for (int i = 0; i < LEAVES; i++) kl_array_release(leaves[i]);
    }
    kl_fusion_allow(true);
    assert_in_range(kl_fusion_count() - before, GRAPHS, UINT32_MAX);
}

/* An operation of float32 that takes part in chains. */
static struct kl_array *link_of(uint32_t which, struct kl_array *a, struct kl_array *b) {
    struct kl_array *out = NULL;
    switch (which % 6) {
    case 0: EXPECT_OK(kl_add(&out, a, b, cpu(), &err)); break;
    case 1: EXPECT_OK(kl_subtract(&out, a, b, cpu(), &err)); break;
    case 2: EXPECT_OK(kl_multiply(&out, a, b, cpu(), &err)); break;
    case 3: EXPECT_OK(kl_divide(&out, a, b, cpu(), &err)); break;
    case 4: EXPECT_OK(kl_square(&out, a, cpu(), &err)); break;
    default: EXPECT_OK(kl_negative(&out, a, cpu(), &err)); break;
    }
    return out;
}

/* Values that only the next operation reads stay in registers: in every variant, for any length,
 * with results that are stored in between, which may take the memory of operands. */
static void chains(void **state) {
    enum { LEAVES = 4, NODES = 14, GRAPHS = 400 };
    for (uint32_t g = 0; g < GRAPHS; g++) {
        struct kl_array *nodes[2][NODES], *kept[2][NODES];
        int n_kept = 0;
        kl_cpu_use_variant((int)g % kl_cpu_n_variants());
        for (int way = 0; way < 2; way++) {
            uint32_t seed = 31 * g + 5;
            const int n = 1024 + (int)(next_random(&seed) % 700);
            kl_fusion_allow(way == 1);
            for (int i = 0; i < LEAVES; i++)
                nodes[way][i] = i == 0 ? scalar_of(KL_F32, 1.25) : random_of(KL_F32, 1, &n, &seed);
            for (int i = LEAVES; i < NODES; i++) {
                /* Most often the operand before, so that chains are long. */
                const uint32_t r = next_random(&seed), from = next_random(&seed) % (uint32_t)i;
                struct kl_array *last = nodes[way][i - 1], *other = nodes[way][from];
                nodes[way][i] = r % 2 ? link_of(r / 8, last, other) : link_of(r / 8, other, last);
            }
            n_kept = 0;
            for (int i = 0; i < NODES; i++) {
                if (i == NODES - 1 || (i >= LEAVES && next_random(&seed) % 4 == 0))
                    kept[way][n_kept++] = nodes[way][i];
                else
                    kl_array_release(nodes[way][i]);
            }
            EXPECT_OK(kl_eval(kept[way], (size_t)n_kept, &err));
        }
        for (int i = 0; i < n_kept; i++) {
            if (!same_values(kept[0][i], kept[1][i])) fail_msg("graph %u, result %d", g, i);
            kl_array_release(kept[0][i]);
            kl_array_release(kept[1][i]);
        }
    }
    kl_fusion_allow(true);
    kl_cpu_use_variant(-1);
}

/* -x is stored where x was, since nothing else owns that, before x * y goes into the sum. */
static void a_chain_reads_what_is_overwritten(void **state) {
    const int n = 1500;
    uint32_t seed = 3;
    struct kl_array *x = random_of(KL_F32, 1, &n, &seed), *y = random_of(KL_F32, 1, &n, &seed),
                    *product, *minus, *sum;
    float *px = values_of(x), *py = values_of(y);
    EXPECT_OK(kl_multiply(&product, x, y, cpu(), &err));
    EXPECT_OK(kl_negative(&minus, x, cpu(), &err));
    EXPECT_OK(kl_add(&sum, product, minus, cpu(), &err));
    kl_array_release(x);
    kl_array_release(y);
    kl_array_release(product);
    const uint64_t groups = kl_fusion_count();
    EXPECT_OK(kl_eval((struct kl_array *[]){sum, minus}, 2, &err));
    assert_int_equal(kl_fusion_count() - groups, 1);
    float *s = values_of(sum), *m = values_of(minus);
    for (int i = 0; i < n; i++) assert_true(m[i] == -px[i] && s[i] == px[i] * py[i] - px[i]);
    float *all[] = {px, py, s, m};
    for (int i = 0; i < 4; i++) free(all[i]);
    kl_array_release(minus);
    kl_array_release(sum);
}

/* ---- memory ---- */

/* The expression ((x * x + x) * x - x) needs memory for its result only. */
static void only_results_are_stored(void **state) {
    int n = 1 << 20;
    size_t bytes = (size_t)n * 4;
    struct kl_array *a = count_up(1, &n), *x;
    EXPECT_OK(kl_astype(&x, a, KL_F32, cpu(), &err));
    EXPECT_OK(kl_eval(&x, 1, &err));
    kl_array_release(a);
    for (int way = 0; way < 2; way++) {
        kl_fusion_allow(way == 1);
        struct kl_array *v[5];
        kl_memory_reset_peak();
        size_t before = kl_memory_active();
        EXPECT_OK(kl_multiply(&v[0], x, x, cpu(), &err));
        EXPECT_OK(kl_add(&v[1], v[0], x, cpu(), &err));
        /* V[0] is an operand of two operations. */
        EXPECT_OK(kl_multiply(&v[2], v[1], v[0], cpu(), &err));
        EXPECT_OK(kl_subtract(&v[3], v[2], x, cpu(), &err));
        for (int i = 0; i < 3; i++) kl_array_release(v[i]);
        uint64_t groups = kl_fusion_count();
        EXPECT_OK(kl_eval(&v[3], 1, &err));
        assert_int_equal(kl_fusion_count() - groups, way);
        size_t taken = kl_memory_peak() - before;
        if (way == 1) assert_in_range(taken, bytes, bytes + bytes / 2);
        if (way == 0) assert_in_range(taken, 2 * bytes, 4 * bytes);
        float *r = values_of(v[3]);
        for (int i = 0; i < n; i += 977) {
            float y = (float)i, q = y * y;
            assert_true(r[i] == (q + y) * q - y);
        }
        free(r);
        kl_array_release(v[3]);
    }
    /* A result that has another owner is stored. A result may take the block of an input that has
     * no other owner. */
    struct kl_array *known, *out;
    kl_memory_reset_peak();
    size_t before = kl_memory_active();
    EXPECT_OK(kl_square(&known, x, cpu(), &err));
    kl_array_release(x);
    EXPECT_OK(kl_negative(&out, known, cpu(), &err));
    EXPECT_OK(kl_eval(&out, 1, &err));
    /* The memory of one new block, not of two. */
    assert_in_range(kl_memory_peak() - before, bytes, bytes + bytes / 2);
    float *p = values_of(known), *q = values_of(out);
    for (int i = 0; i < n; i += 977) assert_true(p[i] == (float)i * (float)i && q[i] == -p[i]);
    free(p);
    free(q);
    kl_array_release(known);
    kl_array_release(out);
}

/* silu_mul(x, x) + x is one group, which stores its result only. */
static void a_gate_is_one_step(void **state) {
    static const int dims[] = {64, 64};
    struct kl_array *a = count_up(2, dims), *x, *gate, *out;
    EXPECT_OK(kl_astype(&x, a, KL_F32, cpu(), &err));
    EXPECT_OK(kl_eval(&x, 1, &err));
    EXPECT_OK(kl_silu_mul(&gate, x, x, cpu(), &err));
    EXPECT_OK(kl_add(&out, gate, x, cpu(), &err));
    kl_array_release(gate);
    uint64_t groups = kl_fusion_count();
    EXPECT_OK(kl_eval(&out, 1, &err));
    assert_int_equal(kl_fusion_count() - groups, 1);
    float *r = values_of(out);
    for (int i = 100; i < 64 * 64; i++) assert_true(r[i] == (float)i * (float)i + (float)i);
    assert_true(fabsf(r[1] - 1.7310586f) < 1e-6f && r[0] == 0);
    free(r);
    struct kl_array *all[] = {a, x, out};
    for (int i = 0; i < 3; i++) kl_array_release(all[i]);
}

/* A value that a later step reads through a view is stored before that step runs. */
static void views_end_a_group(void **state) {
    static const int dims[] = {64, 64};
    struct kl_array *a = count_up(2, dims), *b, *t, *out;
    EXPECT_OK(kl_negative(&b, a, cpu(), &err));
    EXPECT_OK(kl_transpose(&t, b, cpu(), &err));
    EXPECT_OK(kl_add(&out, b, t, cpu(), &err));
    kl_array_release(b);
    kl_array_release(t);
    int32_t *v = values_of(out);
    for (int i = 0; i < 64; i++)
        for (int j = 0; j < 64; j++) assert_int_equal(v[i * 64 + j], -(i * 64 + j) - (j * 64 + i));
    free(v);
    kl_array_release(out);
    kl_array_release(a);
}

/* The gate of a perceptron: abs(a @ b) * (c @ d) is two products and then one group, though only
 * the second operation needs the second product. */
static void products_come_first(void **state) {
    static const int dims[] = {64, 64};
    struct kl_array *a = count_up(2, dims), *x, *p[2], *v[2];
    EXPECT_OK(kl_astype(&x, a, KL_F32, cpu(), &err));
    EXPECT_OK(kl_eval(&x, 1, &err));
    for (int i = 0; i < 2; i++) EXPECT_OK(kl_matmul(&p[i], x, x, cpu(), &err));
    EXPECT_OK(kl_abs(&v[0], p[0], cpu(), &err));
    EXPECT_OK(kl_multiply(&v[1], v[0], p[1], cpu(), &err));
    struct kl_array *inner[] = {v[0], p[0], p[1]};
    for (int i = 0; i < 3; i++) kl_array_release(inner[i]);
    uint64_t groups = kl_fusion_count();
    EXPECT_OK(kl_eval(&v[1], 1, &err));
    assert_int_equal(kl_fusion_count() - groups, 1);
    float *r = values_of(v[1]), *y = values_of(x);
    for (int i = 0; i < 64; i += 7)
        for (int j = 0; j < 64; j += 5) {
            float sum = 0;
            for (int k = 0; k < 64; k++) sum += y[i * 64 + k] * y[k * 64 + j];
            assert_true(fabsf(r[i * 64 + j] - sum * sum) <= 1e-5f * sum * sum);
        }
    free(r);
    free(y);
    kl_array_release(v[1]);
    kl_array_release(x);
    kl_array_release(a);
}

/* A group reads transposed inputs in square tiles, and in strips at the edges. */
static void transposed_inputs(void **state) {
    static const int sides[][2] = {{128, 128}, {130, 257}, {300, 159}};
    for (size_t k = 0; k < sizeof sides / sizeof *sides; k++) {
        const int rows = sides[k][0], cols = sides[k][1];
        struct kl_array *a = count_up(2, (int[]){cols, rows}),
                        *b = count_up(2, (int[]){rows, cols}), *t, *half, *sum, *twice, *out;
        EXPECT_OK(kl_transpose(&t, a, cpu(), &err));
        EXPECT_OK(kl_astype(&half, t, KL_F32, cpu(), &err));
        EXPECT_OK(kl_add(&sum, half, b, cpu(), &err));
        EXPECT_OK(kl_multiply(&twice, sum, half, cpu(), &err));
        EXPECT_OK(kl_subtract(&out, twice, sum, cpu(), &err));
        EXPECT_OK(kl_eval((struct kl_array *[]){out, sum}, 2, &err));
        float *v = values_of(out), *w = values_of(sum);
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < cols; j++) {
                float x = (float)(j * rows + i), y = x + (float)(i * cols + j);
                if (w[i * cols + j] != y || v[i * cols + j] != y * x - y)
                    fail_msg("%d x %d: element %d, %d", rows, cols, i, j);
            }
        free(v);
        free(w);
        struct kl_array *all[] = {a, b, t, half, sum, twice, out};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) kl_array_release(all[i]);
    }
}

/* ---- failures ---- */

/* When an input fails, the values that depend on it fail, and no others. */
static void failures_stay_where_they_belong(void **state) {
    static const int n = 5000;
    struct kl_array *a = count_up(1, &n), *bad, *x, *good, *both, *out;
    int32_t index[1] = {5000};
    struct kl_array *i = array_of(KL_I32, 1, (int[]){1}, index);
    EXPECT_OK(kl_take(&bad, a, i, cpu(), &err));
    EXPECT_OK(kl_negative(&x, a, cpu(), &err));
    EXPECT_OK(kl_square(&good, x, cpu(), &err));
    EXPECT_OK(kl_add(&both, good, bad, cpu(), &err)); /* this operand is broadcast */
    EXPECT_OK(kl_negative(&out, both, cpu(), &err));
    struct kl_error *why = NULL;
    assert_int_equal(kl_eval((struct kl_array *[]){out, good}, 2, &why), KL_EINDEX);
    kl_error_release(why);
    EXPECT_OK(kl_eval(&good, 1, &err));
    int32_t *v = values_of(good);
    for (int k = 0; k < n; k++) assert_int_equal(v[k], k * k);
    free(v);
    struct kl_array *all[] = {a, bad, x, good, both, out, i};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) kl_array_release(all[k]);
}

/* Without memory for all results of a group, its operations run one by one, and some of them
 * fail. */
static void out_of_memory(void **state) {
    enum { N = 1 << 20, STEPS = 4 };
    int n = N;
    struct kl_array *a = count_up(1, &n), *v[STEPS];
    kl_memory_clear_cache();
    size_t room = kl_memory_active();
    v[0] = a;
    for (int i = 1; i < STEPS; i++) EXPECT_OK(kl_negative(&v[i], v[i - 1], cpu(), &err));
    /* Memory for two of the three results. */
    kl_test_memory_budget(room + (size_t)2 * N * 4 + (1 << 16));
    struct kl_error *err = NULL;
    int rc = kl_eval(v + 1, STEPS - 1, &err);
    kl_test_memory_budget((size_t)-1);
    assert_int_equal(rc, KL_ENOMEM);
    kl_error_release(err);
    int32_t *r = values_of(v[2]);
    assert_int_equal(r[N - 1], N - 1);
    free(r);
    err = NULL;
    assert_int_equal(kl_eval(&v[3], 1, &err), KL_ENOMEM);
    kl_error_release(err);
    for (int i = 0; i < STEPS; i++) kl_array_release(v[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tables_have_every_operation),
        cmocka_unit_test(every_pair),
        cmocka_unit_test(random_graphs),
        cmocka_unit_test(chains),
        cmocka_unit_test(a_chain_reads_what_is_overwritten),
        cmocka_unit_test(only_results_are_stored),
        cmocka_unit_test(a_gate_is_one_step),
        cmocka_unit_test(views_end_a_group),
        cmocka_unit_test(products_come_first),
        cmocka_unit_test(transposed_inputs),
        cmocka_unit_test(failures_stay_where_they_belong),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
