/* world.c - the group of all processes: which engine joins them, and what says that there are
 * several. It is made once. An attempt that failed halfway is not repeated, because an engine
 * cannot be opened twice: later calls give the same error. */
#include <stdio.h>
#include <string.h>

#include "backend/collective/clock.h"
#include "backend/collective/collective.h"
#include "backend/collective/environment.h"
#include "backend/collective/mpi.h"
#include "base/alloc.h"

static struct {
    struct kl_mutex mu; /* held while the engine is opened; before all locks of this folder */
    struct kl_group *group;
    struct kl_error *failed; /* an engine was opened, and something failed after that */
} world = {.mu = KL_MUTEX_INIT};

static const char *const engine_names[] = {"any", "mpi", "nccl", "ring", "jaccl"};
enum { N_NAMES = sizeof engine_names / sizeof *engine_names };

void kl_group_set_host(const struct kl_group_host *host) {
    kl_mutex_lock(&world.mu);
    if (!kl_collective_host.memory) {
        kl_collective_host = *host;
        kl_collective_backend.memory = host->memory;
    }
    kl_mutex_unlock(&world.mu);
}

/* Whether the engine of this name can be used. false: *why says what is missing. */
static bool available(const char *name, const char **why) {
    if (strcmp(name, "any") == 0 || strcmp(name, "mpi") == 0) return kl_mpi_available(why);
    *why = strcmp(name, "nccl") == 0 ? "Keel has no engine over NCCL yet"
                                     : "Keel moves no values itself: it has mpi alone";
    return false;
}

int kl_group_rank_on_host(void) {
    kl_mutex_lock(&world.mu);
    const int rank =
        world.group && world.group->comm ? kl_control_rank_on_host(kl_group_control) : 0;
    kl_mutex_unlock(&world.mu);
    return rank;
}

bool kl_group_available(const char *backend) {
    const char *why;
    return available(backend ? backend : "any", &why);
}

static int check_name(const char *name, struct kl_error **err) {
    for (int i = 0; i < N_NAMES; i++)
        if (strcmp(name, engine_names[i]) == 0) return KL_OK;
    return kl_fail(
        err, KL_EARG,
        "the backend is '%.64s', but must be one of 'any', 'mpi', 'nccl', 'ring', 'jaccl'", name);
}

/* ---- several processes ---- */

struct gathering {
    struct kl_comm *comm;
    int64_t limit_ns;
};

/* Gathers bytes by an exchange of the engine, before anything else uses it. */
static int gather(void *arg, const void *from, void *to, size_t n, struct kl_error **err) {
    const struct gathering *g = arg;
    struct kl_comm *c = g->comm;
    struct kl_exchange x = {
        .kind = KL_EXCHANGE_GATHER, .dtype = KL_U8, .n = (int64_t)n, .from = from, .to = to};
    const int64_t until = kl_clock_ns() + g->limit_ns;
    bool done = false;
    x.state = c->engine->reserve(c, x.kind, x.n);
    if (!x.state) return kl_fail_nomem(err);
    int rc = c->engine->start(c, &x, err);
    while (!rc && !done) {
        rc = c->engine->test(c, &x, &done, err);
        if (!rc && !done && kl_clock_ns() > until)
            rc = kl_fail(err, KL_EGROUP,
                         "not all processes took part in init within %g s "
                         "(KEEL_DIST_TIMEOUT)",
                         (double)g->limit_ns / 1e9);
    }
    if (done) c->engine->drop(x.state); /* else the engine may still write to it */
    return rc;
}

static int check_size(const struct kl_environment *e, const struct kl_comm *c,
                      struct kl_error **err) {
    if (e->size < 2 || !e->by_mpi || c->size == e->size) return KL_OK;
    return kl_fail(err, KL_EGROUP,
                   "%s says that there are %d processes, but the library of MPI that is loaded "
                   "joins %d: it is not that of the launcher (MLX_MPI_LIBNAME names another)",
                   e->by, e->size, c->size);
}

static int open_world(const struct kl_environment *e, struct kl_error **err) {
    struct kl_comm *comm;
    kl_collective_limit_ns = e->limit_ns;
    KL_TRY(kl_mpi_open(&comm, e->limit_ns, err));
    KL_TRY(check_size(e, comm, err));
    if (comm->size == 1) return kl_group_new(&world.group, NULL, NULL, 0, err);
    KL_TRY(kl_control_open(&kl_group_control, comm->rank, comm->size, e->limit_ns, gather,
                           kl_group_on_message, kl_group_on_lost,
                           &(struct gathering){comm, e->limit_ns}, err));
    struct kl_group *g;
    KL_TRY(kl_group_new(&g, comm, NULL, 1, err));
    KL_TRY(kl_progress_start(kl_group_control, err));
    world.group = g;
    return KL_OK;
}

static int make_world(bool strict, const char *name, struct kl_error **err) {
    struct kl_environment e;
    const char *why = NULL;
    KL_TRY(kl_environment_read(&e, err));
    const bool is = available(name, &why), several = e.size > 1;
    if (!is && (strict || several))
        return kl_fail(err, KL_EGROUP, "the backend %s cannot be used: %s%s%s", name, why,
                       several ? "; several processes were started together, says " : "",
                       several ? e.by : "");
    if (several && !e.by_mpi)
        return kl_fail(err, KL_EGROUP,
                       "several processes were started together, says %s, but no launcher of MPI "
                       "(mpirun, mpiexec) did it, and there is no other backend than mpi",
                       e.by);
    /* A program that has initialised MPI may have been started in a way that no variable tells. */
    if (several || (is && kl_mpi_is_initialised())) {
        struct kl_error *e2 = NULL;
        int rc = open_world(&e, &e2);
        if (!rc) return KL_OK;
        world.failed = e2 ? e2 : kl_error_static(rc);
        return kl_fail_with(err, kl_error_retain(world.failed));
    }
    return kl_group_new(&world.group, NULL, NULL, 0, err);
}

int kl_group_init(struct kl_group **out, bool strict, const char *backend, struct kl_error **err) {
    const char *name = backend ? backend : "any", *why;
    int rc = KL_OK;
    KL_TRY(check_name(name, err));
    kl_mutex_lock(&world.mu);
    if (world.failed)
        rc = kl_fail_with(err, kl_error_retain(world.failed));
    else if (!world.group)
        rc = make_world(strict, name, err);
    else if ((strict || world.group->comm) && !available(name, &why))
        rc = kl_fail(err, KL_EGROUP, "the backend %s cannot be used: %s", name, why);
    if (!rc) *out = kl_group_retain(world.group);
    kl_mutex_unlock(&world.mu);
    return rc;
}
