/* world.c - the group of all processes: which engine joins them, and what says that there are
 * several. It is made once. An attempt that failed halfway is not repeated, because an engine
 * cannot be opened twice: later calls give the same error. */
#include <stdio.h>
#include <string.h>

#include "backend/collective/collective.h"
#include "backend/collective/control_connect.h"
#include "backend/collective/device.h"
#include "backend/collective/environment.h"
#include "backend/collective/gate.h"
#include "backend/collective/mpi.h"
#include "backend/collective/rendezvous.h"
#include "backend/gpu/gpu.h"
#include "base/alloc.h"
#include "base/platform/clock.h"

static struct {
    struct kl_mutex mu; /* held while the engine is opened; before all locks of this folder */
    struct kl_group *group;
    struct kl_error *failed; /* an engine was opened, and something failed after that */
    char no_device[160];     /* why the devices of several processes do not work together */
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

/* Whether devices can move values themselves. */
static bool nccl_available(const char **why) {
    struct kl_backend *b = kl_collective_host.device(-1, true);
    *why = b ? kl_gpu_comm_missing(b) : "there is no GPU";
    return !*why;
}

/* Whether the engine of this name can be used. false: *why says what is missing. */
static bool available(const char *name, const char **why) {
    if (strcmp(name, "mpi") == 0) return kl_mpi_available(why);
    if (strcmp(name, "nccl") == 0) return nccl_available(why);
    if (strcmp(name, "any") == 0) return kl_mpi_available(why) || nccl_available(why);
    *why = "Keel moves no values itself: it has mpi and nccl";
    return false;
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

/* Gathers bytes by an exchange of the engine, before anything else uses it. */
static int gather_by_mpi(const struct kl_gathering *g, const void *from, void *to, size_t n,
                         struct kl_error **err) {
    struct kl_comm *c = g->state;
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

/* A process tells the others this of its device. */
struct offer {
    char host[KL_HOST_BYTES];
    int64_t device;
    int64_t joins;             /* it has a device that can join others */
    char gates[KL_GATES_NAME]; /* rank 0: the file of gates */
};

/* Whether all processes have devices that can join each other: then *device is this one's. wanted:
 * nothing else can join them. */
static int agree(const char *name, int rank, int size, bool wanted, const struct kl_gathering *by,
                 struct kl_backend **device, struct kl_error **err) {
    const int on_host = kl_control_rank_on_host(kl_group_control);
    struct kl_backend *b = kl_collective_host.device(on_host, wanted);
    struct offer *all = kl_calloc((size_t)size + 1, sizeof *all);
    if (!all) return kl_fail_nomem(err);
    struct offer *mine = &all[size];
    kl_host_name(mine->host);
    mine->joins = b && strcmp(name, "mpi") != 0 && !kl_gpu_comm_missing(b);
    if (mine->joins) mine->device = kl_gpu_comm_device(b);
    if (mine->joins && rank == 0) kl_gates_make(mine->gates, size);
    int rc = by->gather(by, mine, all, sizeof *mine, err);
    bool joins = true, here = true; /* here: all are on this host */
    for (int i = 0; i < size && !rc && joins; i++) {
        here = here && strcmp(all[i].host, mine->host) == 0;
        joins = all[i].joins != 0;
        if (!joins)
            snprintf(world.no_device, sizeof world.no_device,
                     "rank %d has no GPU as default device, no NCCL, or asked for mpi", i);
        for (int k = 0; k < i && joins; k++) {
            joins = all[i].device != all[k].device || strcmp(all[i].host, all[k].host) != 0;
            if (!joins)
                snprintf(world.no_device, sizeof world.no_device,
                         "ranks %d and %d have the same GPU as default device", k, i);
        }
    }
    if (joins && here && !rc) kl_gates_map(all[0].gates, rank, size);
    kl_free(all);
    *device = joins && !rc ? b : NULL;
    return rc;
}

/* A process tells the others this at the end. */
struct outcome {
    int64_t code;
    int64_t has_gates;
    char text[160];
};

/* Whether all processes have come so far; rc and *err are what this one has come to. all: memory of
 * one more than there are. From here on every process has the group, and can be told by it. */
static int share_outcome(int rc, int size, struct outcome *all, const struct kl_gathering *by,
                         struct kl_error **err) {
    struct outcome *mine = &all[size];
    bool have_gates = true;
    mine->code = rc;
    mine->has_gates = kl_gates_are_shared();
    if (rc) snprintf(mine->text, sizeof mine->text, "%s", *err ? (*err)->message : "no memory");
    const int got = by->gather(by, mine, all, sizeof *mine, rc ? NULL : err);
    if (rc || got) return rc ? rc : got;
    for (int i = 0; i < size; i++) have_gates = have_gates && all[i].has_gates;
    kl_gates_agree(have_gates);
    for (int i = 0; i < size; i++)
        if (all[i].code)
            return kl_fail(err, KL_EGROUP, "rank %d could not join: %s", i, all[i].text);
    return KL_OK;
}

/* Makes the group of all processes, once they can gather. */
static int make_group(const char *name, int rank, int size, struct kl_comm *comm,
                      const struct kl_gathering *by, struct outcome *all, struct kl_error **err) {
    struct kl_backend *device = NULL;
    struct kl_group *g;
    KL_TRY(kl_control_open(&kl_group_control, rank, size, by, kl_group_on_message, kl_group_on_lost,
                           err));
    const bool wanted = !comm || strcmp(name, "nccl") == 0;
    KL_TRY(agree(name, rank, size, wanted, by, &device, err));
    if (!device && wanted)
        return kl_fail(err, KL_EGROUP, "the backend nccl cannot be used: %s", world.no_device);
    int rc = kl_group_new(&g, rank, size, comm, device, NULL, 1, err);
    if (!rc) rc = kl_progress_start(kl_group_control, err);
    KL_TRY(share_outcome(rc, size, all, by, err));
    KL_TRY(kl_device_connect(g, err));
    world.group = g;
    return KL_OK;
}

static int join_world(const char *name, int rank, int size, struct kl_comm *comm,
                      const struct kl_gathering *by, struct kl_error **err) {
    struct outcome *all = kl_calloc((size_t)size + 1, sizeof *all);
    if (!all) return kl_fail_nomem(err);
    int rc = make_group(name, rank, size, comm, by, all, err);
    if (rc) kl_gates_agree(false);
    kl_free(all);
    return rc;
}

static int open_by_mpi(const struct kl_environment *e, const char *name, struct kl_error **err) {
    struct kl_comm *comm;
    KL_TRY(kl_mpi_open(&comm, e->limit_ns, err));
    KL_TRY(check_size(e, comm, err));
    if (comm->size == 1) return kl_group_new(&world.group, 0, 1, NULL, NULL, NULL, 0, err);
    const struct kl_gathering by = {
        .gather = gather_by_mpi, .state = comm, .limit_ns = e->limit_ns};
    return join_world(name, comm->rank, comm->size, comm, &by, err);
}

static int open_by_meeting(const struct kl_environment *e, const char *name,
                           struct kl_error **err) {
    struct kl_rendezvous *r;
    KL_TRY(kl_rendezvous_open(&r, e->host, e->port, e->rank, e->size, e->limit_ns, err));
    const struct kl_gathering by = {.gather = kl_rendezvous_gather,
                                    .all_here = kl_rendezvous_all_here,
                                    .state = r,
                                    .limit_ns = e->limit_ns};
    int rc = join_world(name, e->rank, e->size, NULL, &by, err);
    kl_rendezvous_close(r);
    return rc;
}

/* Why several processes cannot be joined; *by_meeting: they can, without MPI. */
static int check_way(const struct kl_environment *e, const char *name, bool *by_meeting,
                     struct kl_error **err) {
    const char *why;
    *by_meeting = !e->by_mpi && e->host && strcmp(name, "mpi") != 0;
    if (e->by_mpi) return KL_OK;
    if (!*by_meeting)
        return kl_fail(err, KL_EGROUP,
                       "several processes were started together, says %s, but no launcher of MPI "
                       "(mpirun, mpiexec) did it; for the backend nccl MLX_RANK, MLX_WORLD_SIZE, "
                       "NCCL_HOST_IP and NCCL_PORT must be set",
                       e->by);
    if (nccl_available(&why)) return KL_OK;
    return kl_fail(err, KL_EGROUP, "the backend nccl cannot be used: %s", why);
}

static int make_world(bool strict, const char *name, struct kl_error **err) {
    struct kl_environment e;
    const char *why = NULL, *why_not_mpi;
    bool by_meeting = false;
    KL_TRY(kl_environment_read(&e, err));
    const bool is = available(name, &why), several = e.size > 1;
    if (!is && (strict || several))
        return kl_fail(err, KL_EGROUP, "the backend %s cannot be used: %s%s%s", name, why,
                       several ? "; several processes were started together, says " : "",
                       several ? e.by : "");
    if (several) KL_TRY(check_way(&e, name, &by_meeting, err));
    if (e.by_mpi && several && !kl_mpi_available(&why_not_mpi))
        return kl_fail(err, KL_EGROUP, "the processes that %s tells of cannot be joined: %s", e.by,
                       why_not_mpi);
    /* A program that has initialised MPI may have been started in a way that no variable tells. */
    if (several || (is && kl_mpi_is_initialised())) {
        struct kl_error *e2 = NULL;
        kl_collective_limit_ns = e.limit_ns;
        int rc = by_meeting ? open_by_meeting(&e, name, &e2) : open_by_mpi(&e, name, &e2);
        if (!rc) return KL_OK;
        world.failed = e2 ? e2 : kl_error_static(rc);
        return kl_fail_with(err, kl_error_retain(world.failed));
    }
    return kl_group_new(&world.group, 0, 1, NULL, NULL, NULL, 0, err);
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
    else if ((strict || world.group->size > 1) && !available(name, &why))
        rc = kl_fail(err, KL_EGROUP, "the backend %s cannot be used: %s", name, why);
    else if (world.group->size > 1 && !world.group->device && strcmp(name, "nccl") == 0)
        rc = kl_fail(err, KL_EGROUP, "the backend nccl cannot be used: %s", world.no_device);
    if (!rc) *out = kl_group_retain(world.group);
    kl_mutex_unlock(&world.mu);
    return rc;
}
