/* test_distributed.c - a storm of several ranks (launcher.h): random graphs with operations of
 * groups, in which inputs fail on some ranks, and once a rank is killed. Every rank knows from a
 * model what each value must be on it. Lost, false and misplaced errors, wrong values and hangs
 * fail the test. KEEL_STORM_GRAPHS says how many graphs there are; KEEL_TEST_SEED draws others. */
#include "ops/support/ranks.h"

#include <sys/stat.h>

enum { MOST_RANKS = 8, NODES = 40, NEVER = INT32_MAX };

/* A value, as each rank has it. */
struct node {
    struct kl_array *a;
    uint32_t value[MOST_RANKS];
    int bad[MOST_RANKS];         /* 0: good; else the index that names the failed input */
    bool needs_lost[MOST_RANKS]; /* the rank that is killed: right, or failed with its group */
};

static uint64_t shared; /* the state of the numbers that all ranks draw alike */
static uint64_t own;    /* and of those of this rank */
static int killed_rank, killed_at;
static struct kl_group *half;
static struct { int values, failed, lost, wrong; } n;

/* Another device than the CPU. */
static struct kl_stream *device(void) {
    return ranks_on() ? there() : sim();
}

static int draw(int below) {
    return (int)(kl_test_random(&shared) >> 33) % below;
}

/* Of an operation of a group: any device that can do it. */
static struct kl_stream *of_group(void) {
    const bool on_host = draw(2) && !has_no_mpi();
    return on_host ? cpu() : device();
}

static void set_good(struct node *x, int r, uint32_t v) {
    x->value[r] = v;
    x->bad[r] = 0;
    x->needs_lost[r] = false;
}

/* ---- nodes; each is built here and modelled for all ranks ---- */

static void leaf(struct node *x, int number) {
    const int which = draw(4) ? 0 : draw((1 << n_ranks) - 1) + 1; /* on which ranks it fails */
    struct kl_array *from = count_up(SHAPE(50)), *at;
    for (int r = 0; r < n_ranks; r++) {
        set_good(x, r, (uint32_t)((number * 7 + r * 3) % 50));
        if (which >> r & 1) x->bad[r] = 1000 + number * n_ranks + r;
    }
    at = scalar_of(KL_I32, x->bad[rank] ? x->bad[rank] : (int)x->value[rank]);
    EXPECT_OK(kl_take_axis(&x->a, from, at, 0, draw(2) ? cpu() : device(), &err));
    kl_array_release(from);
    kl_array_release(at);
}

static void sum_of_two(struct node *x, const struct node *a, const struct node *b) {
    EXPECT_OK(kl_add(&x->a, a->a, b->a, draw(2) ? cpu() : device(), &err));
    for (int r = 0; r < n_ranks; r++) {
        set_good(x, r, a->value[r] + b->value[r]);
        x->bad[r] = a->bad[r] ? a->bad[r] : b->bad[r];
        x->needs_lost[r] = a->needs_lost[r] || b->needs_lost[r];
    }
}

/* What the ranks of one group get: from first in steps. */
static void model_group(struct node *x, const struct node *a, int op, int first, int step,
                        bool lost) {
    struct node got = *x;
    set_good(&got, first, a->value[first]);
    got.needs_lost[first] = false;
    for (int r = first; r < n_ranks; r += step) {
        const int32_t v = (int32_t)a->value[r], best = (int32_t)got.value[first];
        if (r != first && op == 0) got.value[first] += a->value[r];
        if (r != first && op == 1) got.value[first] = (uint32_t)(v > best ? v : best);
        if (r != first && op == 2) got.value[first] = (uint32_t)(v < best ? v : best);
        if (!got.bad[first]) got.bad[first] = a->bad[r];
        got.needs_lost[first] = got.needs_lost[first] || a->needs_lost[r];
        if (lost && r == killed_rank) got.needs_lost[first] = true;
    }
    for (int r = first; r < n_ranks; r += step) {
        x->value[r] = got.value[first];
        x->bad[r] = got.bad[first];
        x->needs_lost[r] = got.needs_lost[first];
    }
}

static void of_all(struct node *x, const struct node *a, bool lost) {
    kl_collective_fn *const fns[] = {kl_all_sum, kl_all_max, kl_all_min};
    const int op = draw(3);
    const bool of_half = draw(2);
    EXPECT_OK(fns[op](&x->a, a->a, of_half ? half : world, of_group(), &err));
    if (!of_half) model_group(x, a, op, 0, 1, lost);
    for (int first = 0; of_half && first < 2; first++) model_group(x, a, op, first, 2, lost);
}

/* From one rank to another; on the others it is a number. */
static void message(struct node *x, const struct node *a, bool lost) {
    const int from = draw(n_ranks), to = (from + 1 + draw(n_ranks - 1)) % n_ranks;
    for (int r = 0; r < n_ranks; r++) set_good(x, r, 5);
    for (int k = 0; k < 2; k++) {
        const int r = k ? to : from;
        x->value[r] = a->value[from];
        x->bad[r] = a->bad[from];
        /* All messages of a broken group fail, whoever is lost. */
        x->needs_lost[r] = a->needs_lost[from] || lost;
    }
    if (rank == from) {
        EXPECT_OK(kl_send(&x->a, a->a, to, world, there(), &err));
    } else if (rank == to) {
        EXPECT_OK(kl_recv(&x->a, NULL, 0, KL_I32, from, world, there(), &err));
    } else {
        x->a = scalar_of(KL_I32, 5);
    }
}

static void build(struct node *x, int i, bool lost) {
    const int kind = i < 3 ? 0 : draw(10);
    if (kind < 2)
        leaf(&x[i], i);
    else if (kind < 5)
        sum_of_two(&x[i], &x[draw(i)], &x[draw(i)]);
    else if (kind < 9)
        of_all(&x[i], &x[draw(i)], lost);
    else
        message(&x[i], &x[draw(i)], lost);
}

/* ---- a graph ---- */

/* Begins the evaluation of the nodes from..to-1, in an order of this rank's own. */
static void begin(struct node *x, int from, int to) {
    struct kl_array *a[NODES];
    const int count = to - from;
    for (int i = 0; i < count; i++) a[i] = x[from + i].a;
    for (int i = count - 1; i > 0; i--) {
        const int k = (int)(kl_test_random(&own) >> 33) % (i + 1);
        struct kl_array *t = a[i];
        a[i] = a[k];
        a[k] = t;
    }
    EXPECT_OK(kl_async_eval(a, (size_t)count, &err));
}

static void check(struct node *x, int graph, int i) {
    struct kl_error *e = NULL;
    char name[32];
    int rc = kl_eval(&x->a, 1, &e);
    n.values++;
    snprintf(name, sizeof name, "index %d ", x->bad[rank]);
    if (x->needs_lost[rank] && (rc == KL_EGROUP || (rc == KL_EINDEX && x->bad[rank]))) {
        n.lost++; /* or, where the lowest rank cannot say why it failed, why another one did */
    } else if (x->bad[rank] && rc == KL_EINDEX && strstr(e->message, name)) {
        n.failed++;
    } else if (x->bad[rank] || rc) {
        fail_msg("rank %d, graph %d, node %d: %s, not %s", rank, graph, i,
                 e ? e->message : "no error", x->bad[rank] ? name : "a value");
    } else {
        int32_t *v = values_of(x->a);
        if ((uint32_t)*v != x->value[rank])
            fail_msg("rank %d, graph %d, node %d: %d, not %d", rank, graph, i, *v,
                     (int)x->value[rank]);
        free(v);
    }
    kl_error_release(e);
}

static void one_graph(int graph) {
    struct node x[NODES];
    const bool lost = graph >= killed_at;
    const int size = 5 + draw(NODES - 5), cut = 1 + draw(size - 1);
    for (int i = 0; i < size; i++) build(x, i, lost);
    begin(x, 0, cut);
    if (graph == killed_at && rank == killed_rank) raise(SIGKILL);
    begin(x, cut, size);
    for (int i = 0; i < size; i++) check(&x[i], graph, i);
    for (int i = 0; i < size; i++) kl_array_release(x[i].a);
}

static void storm(void **state) {
    const char *graphs = getenv("KEEL_STORM_GRAPHS"), *seed = getenv("KEEL_TEST_SEED");
    const int count = graphs ? atoi(graphs) : 60;
    const bool kills = getenv("KEEL_TEST_KILL") != NULL;
    shared = seed ? strtoull(seed, NULL, 10) : 1;
    own = shared + 100 + (uint64_t)rank;
    killed_rank = kills ? draw(n_ranks) : -1;
    killed_at = kills ? count / 2 : NEVER;
    EXPECT_OK(kl_group_split(world, rank % 2, -1, &half, &err));
    for (int i = 0; i < count; i++) one_graph(i);
    if (rank == 0 || (rank == 1 && killed_rank == 0))
        printf("rank %d: %d values, %d failed inputs, %d of a lost rank; lost, false, wrong: 0\n",
               rank, n.values, n.failed, n.lost);
    assert_true(n.failed > 0 && (!kills || n.lost > 0));
    kl_group_release(half);
    if (!kills) return;
    char path[4096];
    snprintf(path, sizeof path, "%s/rank%d", getenv("KEEL_TEST_SIGNS"), rank);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
}

/* Waits for the ranks that are left to say that all was as it must be. */
static int await_signs(const char *signs, int ranks) {
    const struct timespec t = {0, 10000000};
    int found = 0;
    for (int i = 0; i < 6000 && found < ranks - 1; i++) {
        char path[4096];
        found = 0;
        for (int r = 0; r < ranks; r++) {
            snprintf(path, sizeof path, "%s/rank%d", signs, r);
            found += access(path, F_OK) == 0;
        }
        nanosleep(&t, NULL);
    }
    return found == ranks - 1 ? 0 : 1;
}

int main(void) {
    const struct CMUnitTest test[] = {cmocka_unit_test(storm)};
    const char *name = getenv("KEEL_TEST_MPI");
    const int ranks = ranks_wanted(4);
    int status = 0;
    if (is_a_rank()) return cmocka_run_group_tests(test, join_ranks, NULL);
    if (!name) return 0; /* a storm needs several ranks */
    const struct launcher *l = launcher_named(name, &status);
    if (!l) return status;
    status = launch(l, ranks, false);
    setenv("KEEL_TEST_KILL", "1", 1);
    setenv("KEEL_TEST_SIGNS", kl_test_dir(), 1);
    (void)launch(l, ranks, true);
    if (await_signs(kl_test_dir(), ranks)) {
        fprintf(stderr, "not all ranks that are left came to the end\n");
        status = 1;
    }
    return status;
}
