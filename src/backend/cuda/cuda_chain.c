/* cuda_chain.c - launches the kernels of a command buffer as graphs that are used repeatedly.
 *
 * On an H200's host cuLaunchKernel takes 2.5 to 3.5 microseconds of the processor, a new kernel and
 * arguments for a node of an instantiated graph 0.15, and the launch of a graph of 64 nodes 2; the
 * device needs 0.9 per node. So a queue keeps a few graphs, each a chain of kernels, and each use
 * changes all nodes, which does not affect earlier launches. When a graph cannot be made, or
 * refuses a kernel, the kernels are launched one by one, and those launches report the errors. */
#include <string.h>

#include "backend/cuda/cuda_internal.h"
#include "base/alloc.h"

/* From compute capability 9.0 on the groups of a kernel in a graph may start before the kernel
 * before it is complete, and wait in the kernel (BEGIN of the dialect): the device needs some 0.4
 * microseconds less per node, and a product can load its matrix meanwhile. */

enum {
    SHORTEST_LOG2 = 2, /* below 4 kernels a graph gains little, and the device starts it later */
    LONGEST_LOG2 = 6,
    LONGEST = 1 << LONGEST_LOG2,
    MAX_PARAMS = 2 * KL_MAX_KARGS,
    PARAMS = LONGEST * 32,       /* parameters of all waiting launches; a gather has 11 */
    VALUE_BYTES = LONGEST * 512, /* bytes of the values of these parameters */
    ALIGN = 16,                  /* largest alignment of a kernel's parameters */
    /* Consecutive refusals after which graphs are not tried any more. */
    MAX_REFUSED = 16,
    OVERLAP_ARCH = 90, /* from this on kernels of the dialect wait for those before them */
};

struct launch {
    void *kernel;
    uint32_t groups[3], local[3], shared_bytes;
    void **params;
};

struct graph { /* a chain of 1 << k kernels */
    void *graph, *exec;
    void *node[LONGEST];
};

/* The launches of one queue. Only the thread that submits to the queue uses it. */
struct kl_cuda_chain {
    struct graph graph[LONGEST_LOG2 + 1]; /* made when first used */
    bool open;                            /* launches wait until kl_cuda_chain_end */
    bool overlaps;   /* kernels of a graph may start before the one before is complete */
    int refused;     /* number of graphs refused one after another */
    int n, n_params; /* number of waiting launches, and of their parameters */
    size_t n_bytes;
    struct launch launch[LONGEST];
    void *params[PARAMS];
    _Alignas(ALIGN) char values[VALUE_BYTES];
};

int kl_cuda_chain_new(struct kl_cuda *d, struct kl_cuda_chain **chain, struct kl_error **err) {
    *chain = NULL;
    if (!d->api->graphs.GraphCreate) return KL_OK;
    if (!(*chain = kl_calloc(1, sizeof **chain))) return kl_fail_nomem(err);
    (*chain)->overlaps = d->api->edges.GraphAddDependencies && kl_nvrtc_arch(d->cc) >= OVERLAP_ARCH;
    return KL_OK;
}

static void empty(struct kl_cuda_chain *chain) {
    chain->n = chain->n_params = 0;
    chain->n_bytes = 0;
}

void kl_cuda_chain_begin(struct kl_cuda_chain *chain) {
    if (chain) chain->open = true;
}

static int launch_alone(struct kl_cuda *d, struct kl_cuda_queue *q, const struct launch *l,
                        struct kl_error **err) {
    return KL_CUDA(d, err, LaunchKernel,
                   (l->kernel, l->groups[0], l->groups[1], l->groups[2], l->local[0], l->local[1],
                    l->local[2], l->shared_bytes, q->stream, l->params, NULL));
}

/* ---- graphs ---- */

static struct kl_cuda_node node_of(const struct launch *l) {
    return (struct kl_cuda_node){.function = l->kernel,
                                 .grid = {l->groups[0], l->groups[1], l->groups[2]},
                                 .block = {l->local[0], l->local[1], l->local[2]},
                                 .shared_bytes = l->shared_bytes,
                                 .params = l->params};
}

static void forget(const struct kl_cuda_graph_api *api, struct graph *g) {
    if (g->exec) api->GraphExecDestroy(g->exec);
    if (g->graph) api->GraphDestroy(g->graph);
    *g = (struct graph){.exec = NULL};
}

static int make(const struct kl_cuda_api *cuda, struct graph *g, const struct launch *l, int n,
                bool overlaps) {
    static const struct kl_cuda_edge edge = {.from_port = KL_CU_EDGE_PORT_PROGRAMMATIC,
                                             .type = KL_CU_EDGE_PROGRAMMATIC};
    const struct kl_cuda_graph_api *api = &cuda->graphs;
    int rc = api->GraphCreate(&g->graph, 0);
    for (int i = 0; i < n && !rc; i++) {
        struct kl_cuda_node node = node_of(&l[i]);
        const bool plain = i > 0 && !overlaps;
        rc = api->GraphAddKernelNode(&g->node[i], g->graph, plain ? &g->node[i - 1] : NULL, plain,
                                     &node);
        if (!rc && i > 0 && overlaps)
            rc = cuda->edges.GraphAddDependencies(g->graph, &g->node[i - 1], &g->node[i], &edge, 1);
    }
    if (!rc) rc = api->GraphInstantiate(&g->exec, g->graph, 0);
    if (rc) forget(api, g);
    return rc;
}

static int set(const struct kl_cuda_graph_api *api, struct graph *g, const struct launch *l,
               int n) {
    int rc = 0;
    for (int i = 0; i < n && !rc; i++) {
        struct kl_cuda_node node = node_of(&l[i]);
        rc = api->GraphExecKernelNodeSetParams(g->exec, g->node[i], &node);
    }
    return rc;
}

/* Launches these 1 << k launches as one graph; false when that is not possible. */
static bool launch_graph(struct kl_cuda *d, struct kl_cuda_queue *q, int k,
                         const struct launch *l) {
    const struct kl_cuda_graph_api *api = &d->api->graphs;
    struct graph *g = &q->chain->graph[k];
    bool *overlaps = &q->chain->overlaps;
    int rc = g->exec ? set(api, g, l, 1 << k) : make(d->api, g, l, 1 << k, *overlaps);
    if (rc && rc != KL_CU_OUT_OF_MEMORY && !g->exec && *overlaps) {
        *overlaps = false; /* a driver that has the function, but not for such graphs */
        rc = make(d->api, g, l, 1 << k, false);
    }
    if (!rc) rc = api->GraphLaunch(g->exec, q->stream);
    q->chain->refused = rc ? q->chain->refused + 1 : 0;
    return !rc;
}

/* ---- waiting launches ---- */

int kl_cuda_chain_flush(struct kl_cuda *d, struct kl_cuda_queue *q, struct kl_error **err) {
    struct kl_cuda_chain *chain = q->chain;
    int n = chain ? chain->n : 0, rc = KL_OK, done = 0;
    if (n == 0) return KL_OK;
    for (int k = LONGEST_LOG2; k >= SHORTEST_LOG2; k--) {
        if (n - done < 1 << k || chain->refused >= MAX_REFUSED) continue;
        if (launch_graph(d, q, k, chain->launch + done)) {
            done += 1 << k;
        } else {
            for (int i = 0; i < 1 << k && !rc; i++)
                rc = launch_alone(d, q, &chain->launch[done++], err);
            if (rc) break;
        }
    }
    while (done < n && !rc) rc = launch_alone(d, q, &chain->launch[done++], err);
    empty(chain);
    return rc;
}

int kl_cuda_chain_end(struct kl_cuda *d, struct kl_cuda_queue *q, int rc, struct kl_error **err) {
    if (!q->chain) return rc;
    if (!rc) rc = kl_cuda_chain_flush(d, q, err);
    empty(q->chain);
    q->chain->open = false;
    return rc;
}

/* Copies the value of a parameter; the copy lives until the launches are handed over. */
static void *keep(struct kl_cuda_chain *chain, const void *value, size_t bytes) {
    void *p = memcpy(chain->values + chain->n_bytes, value, bytes);
    chain->n_bytes += (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    return p;
}

int kl_cuda_chain_add(struct kl_cuda *d, struct kl_cuda_queue *q, void *kernel,
                      const uint32_t *groups, const uint32_t *local, uint32_t shared_bytes,
                      const struct kl_karg *args, int n_args, struct kl_error **err) {
    /* The host can add to addresses of CUDA, so the address includes the offset, and this one is
     * 0. */
    static kl_cuda_address at = 0;
    struct launch l = {.kernel = kernel, .shared_bytes = shared_bytes};
    struct kl_cuda_chain *chain = q->chain;
    kl_cuda_address base[KL_MAX_KARGS];
    void *params[MAX_PARAMS];
    size_t bytes = 0;
    int n = 0;
    memcpy(l.groups, groups, sizeof l.groups);
    memcpy(l.local, local, sizeof l.local);
    for (int i = 0; i < n_args; i++) bytes += args[i].bytes + ALIGN;
    bool waits = chain && chain->open && bytes <= VALUE_BYTES;
    if (waits && (chain->n == LONGEST || chain->n_params + MAX_PARAMS > PARAMS ||
                  chain->n_bytes + bytes > VALUE_BYTES))
        KL_TRY(kl_cuda_chain_flush(d, q, err));
    l.params = waits ? chain->params + chain->n_params : params;
    for (int i = 0; i < n_args; i++) {
        if (args[i].bytes) {
            l.params[n++] =
                waits ? keep(chain, args[i].value, args[i].bytes) : (void *)args[i].value;
            continue;
        }
        base[i] = (uintptr_t)args[i].value;
        l.params[n++] = waits ? keep(chain, &base[i], sizeof base[i]) : &base[i];
        l.params[n++] = &at;
    }
    if (!waits) {
        KL_TRY(kl_cuda_chain_flush(d, q, err));
        return launch_alone(d, q, &l, err);
    }
    chain->n_params += n;
    chain->launch[chain->n++] = l;
    return KL_OK;
}
