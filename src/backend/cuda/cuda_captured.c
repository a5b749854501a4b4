/* cuda_captured.c - what a library launches, captured once, so that graphs of kernels can contain
 * it. To call NCCL takes 13 microseconds of the processor on an H200's host, and its kernel as a
 * node of a graph nearly none.
 *
 * The kernel is copied from the captured graph with its attributes. The order among such kernels is
 * that of the stream, so NCCL's waits are left out; its records of events are not, because NCCL
 * waits for these when a communicator is ended. */
#include "backend/cuda/cuda_internal.h"

enum { MOST_NODES = 8 };

static _Atomic(uint64_t) last_id;

bool kl_cuda_capture_begin(struct kl_cuda *d, void *stream) {
    const struct kl_cuda_capture_api *api = &d->api->capture;
    return api->StreamBeginCapture && d->api->graphs.GraphCreate &&
           api->StreamBeginCapture(stream, KL_CU_CAPTURE_OF_THREAD) == KL_CU_SUCCESS;
}

static int take_node(const struct kl_cuda_capture_api *api, struct kl_cuda_captured *x,
                     void *node) {
    int type = -1, rc = api->GraphNodeGetType(node, &type);
    if (rc || type == KL_CU_NODE_WAIT) return rc;
    if (type == KL_CU_NODE_RECORD) {
        if (x->n_events == KL_CAPTURED_EVENTS) return -1;
        return api->GraphEventRecordNodeGetEvent(node, &x->event[x->n_events++]);
    }
    if (type != KL_CU_NODE_KERNEL || x->node) return -1;
    x->node = node;
    return api->GraphKernelNodeGetParams(node, &x->launch);
}

bool kl_cuda_capture_end(struct kl_cuda *d, void *stream, struct kl_cuda_captured *x) {
    const struct kl_cuda_capture_api *api = &d->api->capture;
    void *nodes[MOST_NODES];
    size_t n = 0;
    *x = (struct kl_cuda_captured){.id = atomic_fetch_add(&last_id, 1) + 1};
    int rc = api->StreamEndCapture(stream, &x->graph);
    if (!rc && !x->graph) return false;
    if (!rc) rc = api->GraphGetNodes(x->graph, NULL, &n);
    if (!rc && n > MOST_NODES) rc = -1;
    if (!rc) rc = api->GraphGetNodes(x->graph, nodes, &n);
    for (size_t i = 0; i < n && !rc; i++) rc = take_node(api, x, nodes[i]);
    if (!rc && x->node) return true;
    kl_cuda_captured_end(d, x);
    return false;
}

int kl_cuda_captured_add(const struct kl_cuda_api *cuda, const struct kl_cuda_captured *x,
                         void *graph, void *after, void **node) {
    void *record;
    int rc = cuda->graphs.GraphAddKernelNode(node, graph, after ? &after : NULL, after != NULL,
                                             &x->launch);
    if (!rc) rc = cuda->capture.GraphKernelNodeCopyAttributes(*node, x->node);
    for (int i = 0; i < x->n_events && !rc; i++)
        rc = cuda->capture.GraphAddEventRecordNode(&record, graph, node, 1, x->event[i]);
    return rc;
}

void kl_cuda_captured_end(struct kl_cuda *d, struct kl_cuda_captured *x) {
    if (x->graph) d->api->graphs.GraphDestroy(x->graph);
    x->graph = NULL;
}
