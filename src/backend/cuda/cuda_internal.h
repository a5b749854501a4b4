/* cuda_internal.h - the device as the files of backend/cuda/ see it.
 *
 * Locks: all leaves, and none is held while CUDA may call back. In the child of a fork none is taken: every slot looks at `forked` first. */
#pragma once
#include "backend/cuda/cuda_api.h"
#include "backend/gpu/lower.h"
#include "base/thread.h"

enum { STAGING_BYTES = 4 << 20, N_STAGING = 2, SLAB_WORDS = 64 /* chunks of fault words */ };

struct cuda_staging {
    void *host;  /* pinned; NULL until first use */
    void *event; /* the last transfer from or to it */
};

/* Of one command buffer. Taken from the device's list and given back to it, never destroyed: a notification may come late. */
struct cuda_event {
    void *cu;
    _Atomic(uint32_t) refs; /* the GPU layer, and an armed notification */
    _Atomic(bool) recorded;
    _Atomic(bool) done;
    _Atomic(bool) armed; /* CUDA will call when it is complete */
    void *notify; /* stream for that, of the queue it is recorded on; set before `recorded` */
    struct kl_cuda *dev;
    struct cuda_event *next; /* in the list of free ones; guarded by dev->mu */
};

struct cuda_chain;
struct cuda_queue {
    void *stream;
    void *
        notify; /* waits for events of `stream` and calls the host, so that `stream` goes on meanwhile */
    cu_address scratch;
    size_t scratch_bytes;
    struct cuda_chain *chain; /* NULL: this driver has no graphs that can be changed */
};

struct cuda_problem;
enum { BLAS_BUCKETS = 256 };
/* What is known of products; see cuda_blas.c. */
struct cuda_blas {
    struct kl_mutex mu;
    void *handle; /* NULL until first use; this and the rest guarded by mu */
    bool failed;  /* there will be no handle */
    struct cuda_problem *bucket[BLAS_BUCKETS];
    int n_problems;
};

struct kl_cuda {
    struct kl_driver driver; /* first */
    struct kl_port port;
    struct kl_lowering *lowering;
    struct kl_backend *backend;
    const struct kl_cuda_api *api;
    char name[16];
    int index, device, cc;
    bool managed;    /* blocks are the host's memory too */
    bool sees_pages; /* kernels may use any memory of the host */

    struct kl_mutex context_mu;
    void *_Atomic context; /* the primary one, NULL until first use */
    void *transfer,
        *bulk; /* streams: small copies of any thread, staged ones; set before `context` */

    struct kl_mutex staging_mu;
    struct cuda_staging staging[N_STAGING]; /* guarded by staging_mu */

    struct kl_mutex mu;
    pthread_cond_t
        changed; /* an event is done, the device is lost, or `woken`; with CLOCK_MONOTONIC */
    struct cuda_event *free_events; /* guarded by mu */
    bool woken;                     /* guarded by mu */
    cu_address words_device;        /* rest of the slab; guarded by mu */
    uint32_t *words_host;
    int words_left;

    struct cuda_blas blas;

    _Atomic(int) lost; /* the CUresult that ended the device, 0: none */
    _Atomic(bool) forked;
};

static inline struct kl_cuda *cuda_of(struct kl_driver *d) {
    return (struct kl_cuda *)d;
}
static inline struct kl_cuda *cuda_of_port(struct kl_port *p) {
    return (struct kl_cuda *)((char *)p - offsetof(struct kl_cuda, port));
}

/* Calls the driver: 0, or a code with a message that names the call and CUDA's error. */
#define KL_CUDA(d, err, call, args) kl_cuda_check(d, err, "cu" #call, (d)->api->call args)
int kl_cuda_check(struct kl_cuda *d, struct kl_error **err, const char *call, int result);
/* At the start of whatever uses CUDA: its context becomes the thread's. KL_EDEVICE after a fork, KL_EDEVICELOST. */
int kl_cuda_enter(struct kl_cuda *d, struct kl_error **err);
/* As cuMemAlloc and cuMemHostAlloc, but failures are injected, and messages say how much was wanted. */
int kl_cuda_alloc(struct kl_cuda *d, size_t bytes, cu_address *out, struct kl_error **err);
int kl_cuda_alloc_pinned(struct kl_cuda *d, size_t bytes, void **out, struct kl_error **err);
void kl_cuda_note_lost(struct kl_cuda *d, int result);

/* ---- cuda_memory.c ---- */
int kl_cuda_mem_alloc(struct kl_driver *d, size_t bytes, void **ptr, struct kl_error **err);
void kl_cuda_mem_free(struct kl_driver *d, void *ptr, size_t bytes);
int kl_cuda_mem_read(struct kl_driver *d, const void *ptr, size_t offset, void *dst, size_t n,
                     struct kl_error **err);
int kl_cuda_mem_write(struct kl_driver *d, void *ptr, size_t offset, const void *src, size_t n,
                      struct kl_error **err);
int kl_cuda_share(struct kl_driver *d, void *ptr, size_t bytes, bool mine, struct kl_error **err);
void kl_cuda_unshare(struct kl_driver *d, void *ptr, size_t bytes, bool mine);
int kl_cuda_words_new(struct kl_driver *d, struct kl_fault_words *w, struct kl_error **err);
int kl_cuda_words_fetch(struct kl_driver *d, struct kl_fault_words *w, struct kl_error **err);
void kl_cuda_words_clear(struct kl_driver *d, struct kl_fault_words *w);

/* ---- cuda_queue.c ---- */
int kl_cuda_queue_new(struct kl_driver *d, int stream_index, void **queue, struct kl_error **err);
int kl_cuda_event_new(struct kl_driver *d, void **event, struct kl_error **err);
void kl_cuda_event_free(struct kl_driver *d, void *event);
int kl_cuda_submit(struct kl_driver *d, void *queue, const struct kl_command *commands, int n,
                   void *const *waits, int n_waits, struct kl_fault_words *brings_back,
                   void *signal, struct kl_error **err);
int kl_cuda_event_query(struct kl_driver *d, void *event);
void kl_cuda_why_lost(struct kl_driver *d, char *text, size_t room);
void kl_cuda_wait_any(struct kl_driver *d, void *const *events, int n);
void kl_cuda_wake(struct kl_driver *d);

/* ---- cuda_chain.c: launches wait for each other between begin and end, and are handed over together ---- */
int kl_cuda_chain_new(struct kl_cuda *d, struct cuda_chain **chain, struct kl_error **err);
void kl_cuda_chain_begin(struct cuda_chain *chain);
/* Copies the arguments; launches at once where nothing is begun. At most KL_MAX_KARGS. */
int kl_cuda_chain_add(struct kl_cuda *d, struct cuda_queue *q, void *kernel, const uint32_t *groups,
                      const uint32_t *local, uint32_t shared_bytes, const struct kl_karg *args,
                      int n_args, struct kl_error **err);
/* Hands over what waits: before anything else goes to the stream. */
int kl_cuda_chain_flush(struct kl_cuda *d, struct cuda_queue *q, struct kl_error **err);
/* rc: what came of the launches; when they failed, what waits is dropped, and that is the result. */
int kl_cuda_chain_end(struct kl_cuda *d, struct cuda_queue *q, int rc, struct kl_error **err);

/* ---- cuda_port.c ---- */
extern const struct kl_port_ops kl_cuda_port_ops;

/* ---- cuda_blas.c ---- */
/* The slot `override` of the port. */
int kl_cuda_blas(struct kl_port *p, void *queue, const struct kl_command *c, bool dry,
                 struct kl_error **err);
