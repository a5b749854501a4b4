/* cuda_chain.c - launches the kernels of a command buffer as graphs that are used repeatedly.
 *
 * A queue keeps graphs, each a chain of kernels. To change a node of one does not affect earlier
 * launches. A chain that was seen before gets a graph of its own, in which the nodes are changed
 * whose arguments are not those of the last time; other chains go through a few graphs in which
 * every node is changed. When a graph cannot be made, or refuses a kernel, the kernels are launched
 * one by one, and those launches report the errors. */
#include <string.h>

#include "backend/cuda/cuda_internal.h"
#include "base/alloc.h"

/* On an H200's host cuLaunchKernel takes 2.5 to 4 microseconds of the processor, and to change a
 * node 0.15 to 1.7. To launch a graph took 24, when all of its 19 nodes (on average) were changed,
 * and takes 8, when 16 of 55 are.
 *
 * From compute capability 9.0 on the groups of a kernel in a graph may start before the kernel
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
    KEPT = 64,         /* graphs of chains that were seen before */
    KEPT_ALIKE = 16,   /* most of these of one sequence of kernels */
    SEEN_SETS = 128,   /* sets of sequences that are remembered */
    SEEN_IN_SET = 4,   /* sequences of a set, the latest first */
    /* A kept graph may be replaced when it was not used for this number of chains. */
    STALE = 4 * KEPT,
};

struct launch {
    void *kernel;
    const struct kl_cuda_captured *captured; /* a call of NCCL in the place of a kernel */
    uint64_t captured_id;                    /* its number, or 0 */
    uint32_t groups[3], local[3], shared_bytes;
    void **params;
    size_t at, bytes; /* where the values of the parameters are */
};

struct graph { /* a chain of kernels */
    void *graph, *exec;
    void *node[LONGEST];
};

/* The graph of a chain, with what its nodes launch. */
struct kept {
    struct graph graph;
    int n;
    uint64_t sequence, used; /* used: the number of the last chain that was launched through it */
    struct launch launch[LONGEST]; /* params is not used */
    char values[];
};

/* The launches of one queue. Only the thread that submits to the queue uses it. */
struct kl_cuda_chain {
    struct graph graph[LONGEST_LOG2 + 1]; /* of 1 << k kernels; made when first used */
    struct kept *kept[KEPT];
    int last_kept;                         /* the place of the one that was used last */
    uint64_t seen[SEEN_SETS][SEEN_IN_SET]; /* hashes of sequences */
    uint64_t n_chains;
    bool open;             /* launches wait until kl_cuda_chain_end */
    bool overlaps;         /* kernels of a graph may start before the one before is complete */
    int refused;           /* number of graphs refused one after another */
    bool refuses_captured; /* no graph was made of a chain with a call of NCCL */
    int n, n_params;       /* number of waiting launches, and of their parameters */
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
    for (int i = 0; i < chain->n; i++)
        if (chain->launch[i].captured) kl_nccl_left(chain->launch[i].captured);
    chain->n = chain->n_params = 0;
    chain->n_bytes = 0;
}

void kl_cuda_chain_begin(struct kl_cuda_chain *chain) {
    if (chain) chain->open = true;
}

static int launch_alone(struct kl_cuda *d, struct kl_cuda_queue *q, const struct launch *l,
                        struct kl_error **err) {
    if (l->captured) return kl_nccl_call(l->captured, q->stream, err);
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

/* Adds launch l, which comes after node `last` (NULL: it is the first). A call of NCCL does not
 * wait itself for the kernel before it. */
static int add_node(const struct kl_cuda_api *cuda, const struct graph *g, const struct launch *l,
                    void *last, bool overlaps, void **node) {
    static const struct kl_cuda_edge edge = {.from_port = KL_CU_EDGE_PORT_PROGRAMMATIC,
                                             .type = KL_CU_EDGE_PROGRAMMATIC};
    if (l->captured) return kl_cuda_captured_add(cuda, l->captured, g->graph, last, node);
    struct kl_cuda_node what = node_of(l);
    const bool plain = last && !overlaps;
    int rc = cuda->graphs.GraphAddKernelNode(node, g->graph, plain ? &last : NULL, plain, &what);
    if (!rc && last && overlaps)
        rc = cuda->edges.GraphAddDependencies(g->graph, &last, node, &edge, 1);
    return rc;
}

static int make(const struct kl_cuda_api *cuda, struct graph *g, const struct launch *l, int n,
                bool overlaps) {
    const struct kl_cuda_graph_api *api = &cuda->graphs;
    int rc = api->GraphCreate(&g->graph, 0);
    for (int i = 0; i < n && !rc; i++)
        rc = add_node(cuda, g, &l[i], i > 0 ? g->node[i - 1] : NULL,
                      overlaps && !(i > 0 && l[i - 1].captured), &g->node[i]);
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

/* ---- graphs of chains that come again ---- */

/* A hash of the kernels of a chain, not of their arguments. */
static uint64_t sequence_of(const struct launch *l, int n) {
    uint64_t h = (uint64_t)n;
    for (int i = 0; i < n; i++) {
        const uint64_t what = l[i].captured ? l[i].captured_id : (uintptr_t)l[i].kernel;
        h = (h ^ what) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 29;
    }
    return h | 1;
}

static bool same_launch(const struct kept *k, const struct kl_cuda_chain *chain, int i) {
    const struct launch *a = &k->launch[i], *b = &chain->launch[i];
    if (a->captured_id || b->captured_id) return a->captured_id == b->captured_id;
    return a->kernel == b->kernel && a->bytes == b->bytes && a->shared_bytes == b->shared_bytes &&
           memcmp(a->groups, b->groups, sizeof a->groups) == 0 &&
           memcmp(a->local, b->local, sizeof a->local) == 0 &&
           memcmp(k->values + a->at, chain->values + b->at, a->bytes) == 0;
}

static int alike(const struct kept *k, const struct kl_cuda_chain *chain) {
    int n = 0;
    for (int i = 0; i < k->n; i++) n += same_launch(k, chain, i);
    return n;
}

/* The place of the kept graph most like the waiting chain, or -1; *n_alike: how many nodes are
 * alike, *n_same: how many graphs of this sequence there are. Programs repeat their chains in the
 * same order, so the search begins after the last one, and ends when most nodes are alike. */
static int find_kept(const struct kl_cuda_chain *chain, uint64_t sequence, int *n_alike,
                     int *n_same) {
    int best = -1;
    *n_alike = -1;
    *n_same = 0;
    for (int j = 0; j < KEPT; j++) {
        const int at = (chain->last_kept + 1 + j) % KEPT;
        const struct kept *k = chain->kept[at];
        if (!k || k->sequence != sequence || k->n != chain->n) continue;
        const int n = alike(k, chain);
        ++*n_same;
        if (n > *n_alike) {
            best = at;
            *n_alike = n;
        }
        if (n * 2 > chain->n) break;
    }
    return best;
}

/* Whether the sequence came before; from now on it did. */
static bool seen_before(struct kl_cuda_chain *chain, uint64_t sequence) {
    uint64_t *set = chain->seen[(sequence >> 32) % SEEN_SETS];
    int at = 0;
    while (at < SEEN_IN_SET - 1 && set[at] != sequence) at++;
    const bool seen = set[at] == sequence;
    memmove(set + 1, set, (size_t)at * sizeof *set);
    set[0] = sequence;
    return seen;
}

/* A place for one more graph: a free one, or that of one that was not used for long. -1: none. */
static int place_of_kept(const struct kl_cuda_chain *chain) {
    int oldest = -1;
    for (int i = 0; i < KEPT; i++) {
        if (!chain->kept[i]) return i;
        if (oldest < 0 || chain->kept[i]->used < chain->kept[oldest]->used) oldest = i;
    }
    return chain->n_chains - chain->kept[oldest]->used > STALE ? oldest : -1;
}

static void drop_kept(const struct kl_cuda_graph_api *api, struct kept **k) {
    if (!*k) return;
    forget(api, &(*k)->graph);
    kl_free(*k);
    *k = NULL;
}

/* A graph of the waiting chain in that place; false when it cannot be made. */
static bool make_kept(struct kl_cuda *d, struct kl_cuda_chain *chain, int place,
                      uint64_t sequence) {
    drop_kept(&d->api->graphs, &chain->kept[place]);
    struct kept *k = kl_calloc(1, sizeof *k + chain->n_bytes);
    if (!k) return false;
    k->n = chain->n;
    k->sequence = sequence;
    memcpy(k->launch, chain->launch, (size_t)chain->n * sizeof *k->launch);
    memcpy(k->values, chain->values, chain->n_bytes);
    if (make(d->api, &k->graph, chain->launch, chain->n, chain->overlaps)) {
        for (int i = 0; i < chain->n; i++)
            if (chain->launch[i].captured) chain->refuses_captured = true;
        kl_free(k);
        return false;
    }
    chain->kept[place] = k;
    return true;
}

/* Gives the waiting launches to those nodes that launch something else. */
static int renew(const struct kl_cuda_graph_api *api, struct kept *k,
                 const struct kl_cuda_chain *chain) {
    for (int i = 0; i < k->n; i++) {
        const struct launch *l = &chain->launch[i];
        if (same_launch(k, chain, i)) continue;
        if (l->captured || k->launch[i].captured_id) return -1; /* not the same sequence */
        struct kl_cuda_node node = node_of(l);
        const size_t at = k->launch[i].at;
        if (l->bytes != k->launch[i].bytes) return -1; /* not the same kernel */
        const int rc = api->GraphExecKernelNodeSetParams(k->graph.exec, k->graph.node[i], &node);
        if (rc) return rc;
        k->launch[i] = *l;
        k->launch[i].at = at;
        memcpy(k->values + at, chain->values + l->at, l->bytes);
    }
    return 0;
}

/* Launches the waiting chain through a graph of its own; false when it has none and gets none. */
static bool launch_kept(struct kl_cuda *d, struct kl_cuda_queue *q) {
    struct kl_cuda_chain *chain = q->chain;
    const struct kl_cuda_graph_api *api = &d->api->graphs;
    const uint64_t sequence = sequence_of(chain->launch, chain->n);
    int n_alike, n_same, at = find_kept(chain, sequence, &n_alike, &n_same);
    chain->n_chains++;
    const bool seen = seen_before(chain, sequence);
    if (n_alike * 2 <= chain->n && n_same < KEPT_ALIKE && seen) {
        const int place = place_of_kept(chain);
        if (place >= 0 && make_kept(d, chain, place, sequence)) at = place;
    }
    if (at < 0) return false;
    struct kept *k = chain->kept[at];
    if (renew(api, k, chain) || api->GraphLaunch(k->graph.exec, q->stream)) {
        drop_kept(api, &chain->kept[at]);
        return false;
    }
    k->used = chain->n_chains;
    chain->last_kept = at;
    return true;
}

/* ---- waiting launches ---- */

/* Launches these n through graphs that all chains use, and the rest of them one by one. */
static int launch_run(struct kl_cuda *d, struct kl_cuda_queue *q, const struct launch *l, int n,
                      struct kl_error **err) {
    struct kl_cuda_chain *chain = q->chain;
    int rc = KL_OK, done = 0;
    for (int k = LONGEST_LOG2; k >= SHORTEST_LOG2; k--) {
        if (n - done < 1 << k || chain->refused >= MAX_REFUSED) continue;
        if (launch_graph(d, q, k, l + done)) {
            done += 1 << k;
        } else {
            for (int i = 0; i < 1 << k && !rc; i++) rc = launch_alone(d, q, &l[done++], err);
            if (rc) break;
        }
    }
    while (done < n && !rc) rc = launch_alone(d, q, &l[done++], err);
    return rc;
}

int kl_cuda_chain_flush(struct kl_cuda *d, struct kl_cuda_queue *q, struct kl_error **err) {
    struct kl_cuda_chain *chain = q->chain;
    const int n = chain ? chain->n : 0;
    int rc = KL_OK, done = 0;
    if (n == 0) return KL_OK;
    if (n >= 1 << SHORTEST_LOG2 && chain->refused < MAX_REFUSED && launch_kept(d, q)) done = n;
    while (done < n && !rc) {
        int end = done;
        while (end < n && !chain->launch[end].captured) end++;
        rc = launch_run(d, q, chain->launch + done, end - done, err);
        if (!rc && end < n) rc = launch_alone(d, q, &chain->launch[end], err);
        done = end + 1;
    }
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

/* Copies the value of a parameter; the copy lives until the launches are handed over. The bytes
 * up to the next value are 0, since values are compared together. */
static void *keep(struct kl_cuda_chain *chain, const void *value, size_t bytes) {
    const size_t room = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    char *p = chain->values + chain->n_bytes;
    memset(p + room - ALIGN, 0, ALIGN);
    memcpy(p, value, bytes);
    chain->n_bytes += room;
    return p;
}

bool kl_cuda_chain_takes_captured(const struct kl_cuda_chain *chain) {
    return chain && chain->open && !chain->refuses_captured && chain->refused < MAX_REFUSED;
}

int kl_cuda_chain_add_captured(struct kl_cuda *d, struct kl_cuda_queue *q,
                               const struct kl_cuda_captured *x, struct kl_error **err) {
    struct kl_cuda_chain *chain = q->chain;
    if (chain->n == LONGEST) KL_TRY(kl_cuda_chain_flush(d, q, err));
    chain->launch[chain->n++] =
        (struct launch){.captured = x, .captured_id = x->id, .at = chain->n_bytes};
    return KL_OK;
}

int kl_cuda_chain_add(struct kl_cuda *d, struct kl_cuda_queue *q, void *kernel,
                      const uint32_t *groups, const uint32_t *local, uint32_t shared_bytes,
                      const struct kl_karg *args, int n_args, bool alone, struct kl_error **err) {
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
    bool waits = chain && chain->open && !alone && bytes <= VALUE_BYTES;
    if (waits && (chain->n == LONGEST || chain->n_params + MAX_PARAMS > PARAMS ||
                  chain->n_bytes + bytes > VALUE_BYTES))
        KL_TRY(kl_cuda_chain_flush(d, q, err));
    l.params = waits ? chain->params + chain->n_params : params;
    l.at = waits ? chain->n_bytes : 0;
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
    l.bytes = chain->n_bytes - l.at;
    chain->n_params += n;
    chain->launch[chain->n++] = l;
    return KL_OK;
}
