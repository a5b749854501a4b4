/* test_faults.c - what happens to groups when a process is lost, stands still, stays away, does
 * something else, or has no memory; and MPI that somebody else initialised. Each case is a launch
 * of its own (launcher.h), because it breaks the group of all ranks. A rank that has seen what it
 * must see leaves a file, since a launcher does not tell how each rank ended. */
#include "ops/support/ranks.h"

#include <sys/stat.h>
#include <time.h>

#include "backend/collective/mpi.h"
#include "backend/collective/mpi_abi.h"
#include "backend/sim/sim.h"
#include "runtime/block_pool.h"

enum { RANKS = 4 };

static struct kl_array *number_of(int x) {
    return scalar_of(KL_I32, x);
}

/* A collective of the group on a number of this rank. */
static struct kl_array *sum_of(int x, struct kl_group *g) {
    struct kl_array *a = number_of(x), *out;
    EXPECT_OK(kl_all_sum(&out, a, g, there(), &err));
    kl_array_release(a);
    return out;
}

static void expect_sum(struct kl_group *g, int x, int want) {
    EXPECT_I32(sum_of(x, g), SCALAR, want);
}

/* A group of the ranks but one; on that one, of itself. */
static struct kl_group *all_but(int one) {
    struct kl_group *g;
    EXPECT_OK(kl_group_split(world, rank == one, -1, &g, &err));
    return g;
}

/* Waits on rank `one` until all others are here. */
static void gather_at(int one) {
    for (int r = 0; r < n_ranks; r++) {
        struct kl_array *x = number_of(r), *out;
        if (r == one || (rank != one && rank != r)) {
            kl_array_release(x);
            continue;
        }
        if (rank == one)
            EXPECT_OK(kl_recv_like(&out, x, r, world, there(), &err));
        else
            EXPECT_OK(kl_send(&out, x, one, world, there(), &err));
        EXPECT_I32(out, SCALAR, r);
        kl_array_release(x);
    }
}

/* ---- lost ranks ---- */

/* The group that lost a rank fails at once and for good; others and plain work go on. */
static void expect_lost(struct kl_group *rest, struct kl_array *waiting, const char *text) {
    struct kl_array *x = number_of(1), *sent;
    expect_eval_fails(waiting, KL_EGROUP, text);
    expect_eval_fails(sum_of(1, world), KL_EGROUP, text);
    EXPECT_OK(kl_send(&sent, x, rank ? 0 : n_ranks - 1, world, there(), &err));
    expect_eval_fails(sent, KL_EGROUP, text);
    for (int i = 0; i < 20; i++) expect_sum(rest, i, 3 * i);
    struct kl_error *err = NULL;
    struct kl_group *none;
    assert_int_equal(kl_group_split(world, 0, 0, &none, &err), KL_EGROUP);
    kl_error_release(err);
    kl_array_release(x);
}

static void killed(void) {
    struct kl_group *rest = all_but(2);
    expect_sum(world, rank, 6);
    gather_at(2);
    if (rank == 2) {
        kl_array_release(sum_of(1, world)); /* never evaluated: it takes no number */
        raise(SIGKILL);
    }
    struct kl_array *waiting = sum_of(1, world), *after, *good;
    EXPECT_OK(kl_add(&after, waiting, waiting, cpu(), &err));
    good = sum_of(2, rest);
    EXPECT_OK(kl_async_eval((struct kl_array *[]){after, good}, 2, &err));
    EXPECT_I32(good, SCALAR, 6);
    expect_lost(rest, after, "rank 2 of the group was lost");
    kl_array_release(waiting);
    kl_group_release(rest);
}

/* The process is there, but does nothing any more: only the limit tells. */
static void stopped(void) {
    struct kl_group *rest = all_but(1);
    struct kl_array *mine = number_of((int)getpid()), *all;
    EXPECT_OK(kl_all_gather(&all, mine, world, there(), &err));
    int32_t *pids = values_of(all);
    gather_at(1);
    if (rank == 1) raise(SIGSTOP);
    expect_lost(rest, sum_of(1, world), "rank 1 of the group was lost: nothing was heard");
    expect_sum(rest, 0, 0); /* all others have seen it */
    if (rank == 0) kill(pids[1], SIGKILL);
    free(pids);
    kl_array_release(mine);
    kl_array_release(all);
    kl_group_release(rest);
}

/* ---- ranks that do not do the same ---- */

/* A rank that is alive and stays away: the limit ends the waiting, and its next value fails too. */
static void absent(void) {
    struct kl_group *rest = all_but(3);
    if (rank == 3) {
        struct kl_error *e = NULL;
        struct timespec t = {0, 50000000};
        for (int i = 0; !e; i++) { /* until the others have told that they gave up */
            struct kl_array *x = number_of(1), *sent;
            assert_true(i < 400);
            const int to = has_no_mpi() ? 0 : rank; /* which rank 0 never receives */
            EXPECT_OK(kl_send(&sent, x, to, world, there(), &err));
            (void)kl_eval(&sent, 1, &e);
            kl_array_release(sent);
            kl_array_release(x);
            nanosleep(&t, NULL);
        }
        assert_int_equal(e->code, KL_EGROUP);
        assert_non_null(strstr(e->message, "not all ranks took part"));
        kl_error_release(e);
    } else {
        expect_eval_fails(sum_of(1, world), KL_EGROUP, "not all ranks took part");
        expect_sum(rest, 1, 3);
    }
    kl_group_release(rest);
}

static bool checks(void) {
    const char *validates = getenv("KEEL_VALIDATE");
    return validates && strcmp(validates, "1") == 0;
}

/* In the debug mode a library that moves values between devices is not even called. */
static uint64_t n_begun(void) {
    return ranks_on() && checks() ? kl_sim_n_exchanges() : 0;
}

static void expect_unlike(struct kl_array *a, const char *one, const char *other) {
    struct kl_error *err = NULL;
    const uint64_t begun = n_begun();
    assert_int_equal(kl_eval(&a, 1, &err), KL_EGROUP);
    assert_int_equal(n_begun(), begun);
    if (!strstr(err->message, one) || !strstr(err->message, other))
        fail_msg("\"%s\" does not name %s and %s", err->message, one, other);
    kl_error_release(err);
    kl_array_release(a);
}

static void unlike_operations(void) {
    struct kl_array *x = number_of(1), *out;
    expect_sum(world, 1, n_ranks);
    EXPECT_OK((rank == 1 ? kl_all_max : kl_all_sum)(&out, x, world, there(), &err));
    expect_unlike(out, "all_sum of 1 elements of int32", "all_max of 1 elements of int32");
    kl_array_release(x);
}

static void unlike_sizes(void) {
    struct kl_array *x = count_up(SHAPE(rank == n_ranks - 1 ? 1000 : 10)), *out;
    EXPECT_OK(kl_all_gather(&out, x, world, there(), &err));
    expect_unlike(out, "all_gather of 10 elements of int32", "all_gather of 1000 elements");
    kl_array_release(x);
}

static void unlike_dtypes(void) {
    struct kl_array *x = scalar_of(rank ? KL_I32 : KL_F32, 1), *out;
    EXPECT_OK(kl_all_sum(&out, x, world, there(), &err));
    expect_unlike(out, "all_sum of 1 elements of float32", "all_sum of 1 elements of int32");
    kl_array_release(x);
}

static void unlike_messages(void) {
    struct kl_array *x = count_up(SHAPE(rank ? 7 : 3)), *out;
    if (rank == 0)
        EXPECT_OK(kl_send(&out, x, 1, world, there(), &err));
    else if (rank == 1)
        EXPECT_OK(kl_recv_like(&out, x, 0, world, there(), &err));
    else
        out = sum_of(1, world); /* fails with the group */
    /* MPI's sender hears nothing. On devices both ranks agree before they begin. */
    if (rank == 1 || (rank == 0 && ranks_on()))
        expect_unlike(out, "send of 3 elements of int32", "send of 7 elements of int32");
    else if (rank == 0 && ranks_on() && checks())
        expect_unlike(out, "send of 3 elements of int32", "send of 7 elements of int32");
    else if (rank == 0)
        EXPECT_I32(out, SHAPE(3), 0, 1, 2);
    else
        expect_unlike(out, "send of 3 elements", "rank ");
    kl_array_release(x);
}

/* ---- memory ---- */

/* Each allocation of an evaluation on one rank fails in turn. The evaluation fails before anything
 * is committed, and is done again, or the value fails on all ranks, or all is well. */
static void no_memory(void) {
    struct kl_array *x = count_up(SHAPE(1000)), *half, *out, *go_on;
    EXPECT_OK(kl_astype(&half, x, KL_F16, cpu(), &err));
    EXPECT_OK(kl_eval(&half, 1, &err));
    int n_failed = 0;
    bool fired = true;
    for (int n = 0; fired; n++) {
        struct kl_error *e = NULL;
        EXPECT_OK(kl_all_sum(&out, half, world, there(), &err));
        kl_memory_clear_cache(); /* else blocks are found there */
        if (rank == 1) kl_test_fail_alloc_at(n);
        int rc = kl_eval(&out, 1, &e);
        const bool committed = kl_array_settled(out);
        fired = rank == 1 && kl_test_alloc_failed();
        kl_test_fail_alloc_at(-1);
        if (!committed) { /* nothing has changed */
            assert_int_equal(rc, KL_ENOMEM);
            kl_error_release(e);
            e = NULL;
            rc = kl_eval(&out, 1, &e);
        }
        if (rc) {
            n_failed++;
            assert_int_equal(rc, KL_ENOMEM);
            if (rank != 1) assert_non_null(strstr(e->message, "rank 1: "));
            kl_error_release(e);
        }
        kl_array_release(out);
        EXPECT_OK(kl_all_sum(&go_on, x, world, there(), &err)); /* the group goes on */
        EXPECT_OK(kl_eval(&go_on, 1, &err));
        kl_array_release(go_on);
        go_on = sum_of(fired, world);
        int32_t *v = values_of(go_on);
        fired = v[0] > 0;
        free(v);
        kl_array_release(go_on);
    }
    assert_true(n_failed > 0);
    kl_array_release(half);
    kl_array_release(x);
}

/* Each allocation of building fails in turn: the call fails, and nothing is left. */
static void no_memory_to_build(void) {
    struct kl_array *x = count_up(SHAPE(1000)), *out = NULL;
    (void)there();
    for (int n = 0; !out; n++) {
        struct kl_error *err = NULL;
        kl_test_fail_alloc_at(n);
        int rc = kl_all_gather(&out, x, world, there(), &err);
        kl_test_fail_alloc_at(-1);
        assert_int_equal(rc, out ? KL_OK : KL_ENOMEM);
        kl_error_release(err);
        assert_true(n < 100);
    }
    EXPECT_OK(kl_eval(&out, 1, &err));
    kl_array_release(out);
    kl_array_release(x);
}

/* ---- MPI of somebody else ---- */

static void initialised_before(void) {
    int was = 1;
    const char *why;
    const struct kl_mpi *mpi = kl_mpi_library(&why);
    expect_sum(world, rank, 6);
    assert_int_equal(mpi->finalized(&was), 0);
    assert_false(was);
}

static void check_not_finalized(void) {
    int was = 1;
    const char *why;
    const struct kl_mpi *mpi = kl_mpi_library(&why);
    if (mpi->finalized(&was) || was) abort();
    (void)mpi->finalize();
}

/* ---- */

static const struct fault {
    const char *name;
    void (*run)(void);
    const char *limit; /* KEEL_DIST_TIMEOUT */
    bool checks;       /* in the validation mode too */
    /* No group is broken, so MPI is ended, and the launcher has nothing to say. */
    bool is_whole;
    int lost; /* the rank that leaves no file; -1: none */
} faults[] = {
    {"killed", killed, "30", true, false, 2},
    {"stopped", stopped, "2", false, false, 1},
    {"absent", absent, "2", true, false, -1},
    {"unlike_operations", unlike_operations, "30", true, false, -1},
    {"unlike_sizes", unlike_sizes, "30", true, false, -1},
    {"unlike_dtypes", unlike_dtypes, "30", true, false, -1},
    {"unlike_messages", unlike_messages, "30", true, false, -1},
    {"no_memory", no_memory, "30", true, true, -1},
    {"no_memory_to_build", no_memory_to_build, "30", false, true, -1},
    {"initialised_before", initialised_before, "30", false, true, -1},
};
enum { N_FAULTS = sizeof faults / sizeof *faults };

static const char *sign_of(int r) {
    static char path[4096];
    snprintf(path, sizeof path, "%s/rank%d", getenv("KEEL_TEST_SIGNS"), r);
    return path;
}

/* A launcher may end before the ranks do that are left. */
static bool has_sign(int r) {
    const struct timespec t = {0, 10000000};
    for (int i = 0; i < 3000 && access(sign_of(r), F_OK); i++) nanosleep(&t, NULL);
    return access(sign_of(r), F_OK) == 0;
}

static void one_fault(void **state) {
    for (int i = 0; i < N_FAULTS; i++)
        if (strcmp(faults[i].name, getenv("KEEL_TEST_FAULT")) == 0) faults[i].run();
    FILE *f = fopen(sign_of(rank), "w");
    assert_non_null(f);
    fclose(f);
}

static int join_fault(void **state) {
    const char *why;
    int level = 0;
    if (strcmp(getenv("KEEL_TEST_FAULT"), "initialised_before") == 0) {
        /* Registered before ours, so it runs after it. */
        if (atexit(check_not_finalized)) return 1;
        if (kl_mpi_library(&why)->init_thread(KL_MPI_THREAD_MULTIPLE, &level)) return 1;
    }
    return join_ranks(state);
}

static int run_fault(const struct fault *f, const char *validate, const struct launcher *l) {
    char signs[256];
    snprintf(signs, sizeof signs, "%s/%s%s", kl_test_dir(), f->name, validate);
    if (mkdir(signs, 0700)) return 1;
    setenv("KEEL_TEST_SIGNS", signs, 1);
    setenv("KEEL_TEST_FAULT", f->name, 1);
    setenv("KEEL_DIST_TIMEOUT", f->limit, 1);
    setenv("KEEL_VALIDATE", validate, 1);
    const int ranks = ranks_wanted(RANKS);
    int status = launch(l, ranks, !f->is_whole), bad = f->is_whole ? status : 0;
    for (int r = 0; r < ranks; r++) {
        if (r == f->lost || has_sign(r)) continue;
        fprintf(stderr, "%s: rank %d\n", f->name, r);
        bad = 1;
    }
    printf("%s%s: %s\n", f->name, *validate == '1' ? ", validating" : "", bad ? "FAILED" : "ok");
    return bad;
}

int main(void) {
    const char *name = getenv("KEEL_TEST_MPI"), *only = getenv("KEEL_TEST_FAULT");
    const struct CMUnitTest test[] = {cmocka_unit_test(one_fault)};
    int status = 0, bad = 0;
    if (is_a_rank()) return cmocka_run_group_tests(test, join_fault, NULL);
    if (!name) return 0; /* the cases need several ranks */
    const struct launcher *l = launcher_named(name, &status);
    for (int i = 0; i < N_FAULTS && l; i++) {
        const struct fault *f = &faults[i];
        char wanted[64];
        snprintf(wanted, sizeof wanted, "%s", only ? only : f->name);
        if (strcmp(wanted, f->name) != 0) continue;
        if (has_no_mpi() && f->run == initialised_before) continue;
        if (ranks_wanted(RANKS) != RANKS && strncmp(f->name, "unlike", 6) != 0) continue;
        bad |= run_fault(f, "0", l);
        if (f->checks) bad |= run_fault(f, "1", l);
        if (only) break;
        unsetenv("KEEL_TEST_FAULT");
    }
    return l ? bad != 0 : status;
}
