/* cuda_internal.h - the structures of the CUDA driver. Only files of backend/cuda/ and its
 * tests include it.
 *
 * Locks: all are leaves, and none is held while CUDA may call back. In the child of a fork no lock
 * is taken: every slot first checks `forked`. */
#pragma once
#include "backend/cuda/cuda_api.h"
#include "backend/gpu/lower/lower.h"
#include "base/thread.h"

/* KL_SLAB_WORDS: chunks of fault words per slab */
enum { KL_STAGING_BYTES = 4 << 20, KL_N_STAGING = 2, KL_SLAB_WORDS = 64 };

/* Small writes that the host does not wait for; see cuda_memory.c. */
enum { KL_POSTED_BYTES = 64 << 10, KL_POSTED_MOST = 8 << 10 };
struct kl_cuda_posted {
    struct kl_mutex mu;
    char *ring;        /* page-locked, KL_POSTED_BYTES; NULL until first use; guarded by mu */
    void *half[2];     /* completes with the writes from that half of the ring; guarded by mu */
    void *event;       /* completes with the first `recorded` writes; guarded by mu */
    int side;          /* which half is filled; guarded by mu */
    size_t used;       /* bytes of it; guarded by mu */
    uint64_t recorded; /* guarded by mu */
    _Atomic(uint64_t) n;
};

struct kl_cuda_staging {
    void *host;  /* page-locked; NULL until first use */
    void *event; /* completes with the last transfer from or to `host` */
};

/* The event of one command buffer. Events are taken from the device's list and given back to it,
 * but never destroyed, because a notification may come late. */
struct kl_cuda_event {
    void *cu;
    _Atomic(uint32_t) refs; /* held by the GPU layer and by an armed notification */
    _Atomic(bool) recorded;
    _Atomic(bool) done;
    _Atomic(bool) armed; /* CUDA will call the host when the event is complete */
    /* The notification stream of the queue on which the event is recorded; set before
     * `recorded`. */
    void *notify;
    struct kl_cuda *dev;
    struct kl_cuda_event *next; /* next in the list of free events; guarded by dev->mu */
};

struct kl_cuda_chain;
struct kl_cuda_queue {
    void *stream;
    /* A second stream: it waits for events of `stream` and then calls the host, so that `stream`
     * itself does not wait for the host. */
    void *notify;
    struct kl_cuda_chain *chain; /* NULL: this driver has no graphs whose nodes can be changed */
    uint64_t posted;             /* the number of posted writes before what is in `stream` */
    kl_cuda_address counters;    /* KL_COUNTERS words */
    /* Handles of cuSOLVER and cuBLAS for this stream; NULL until first use. Only the thread that
     * submits to the queue uses them. */
    void *solver, *triangles;
};

struct kl_cuda_problem;
enum { KL_BLAS_BUCKETS = 256 };
/* Remembered problems of products; see cuda_blas.c. */
struct kl_cuda_products {
    struct kl_mutex mu;
    void *handle; /* NULL until first use; guarded by mu, as are the fields below */
    bool failed;  /* making a handle failed; it is not tried again */
    struct kl_cuda_problem *bucket[KL_BLAS_BUCKETS];
    int n_problems;
};

struct kl_cuda_convolution;
enum { KL_DNN_BUCKETS = 64 };
/* Remembered plans of convolutions; see cuda_dnn.c. */
struct kl_cuda_convolutions {
    struct kl_mutex mu;
    void *handle; /* NULL until first use; guarded by mu, as are the fields below */
    bool failed;  /* making a handle failed; it is not tried again */
    void *stream; /* the stream of the handle */
    struct kl_cuda_convolution *bucket[KL_DNN_BUCKETS];
    int n_known;
};

/* Questions to cuSOLVER about workspaces; see cuda_solver.c. */
struct kl_cuda_solver {
    struct kl_mutex mu;
    void *handle, *params; /* NULL until first use; guarded by mu, but params may be read after */
};

struct kl_cuda_transform;
enum { KL_CUFFT_BUCKETS = 64 };
/* Remembered plans of Fourier transforms; see cuda_fft.c. */
struct kl_cuda_transforms {
    struct kl_mutex mu;
    struct kl_cuda_transform *bucket[KL_CUFFT_BUCKETS]; /* guarded by mu, as is n_known */
    int n_known;
};

struct kl_cuda {
    struct kl_driver driver; /* first */
    struct kl_backend *backend;
    const struct kl_cuda_api *api;
    char name[16];
    int index, device, cc;
    bool managed;    /* blocks of the device are memory of the host too */
    bool sees_pages; /* kernels may use any memory of the host */

    struct kl_mutex context_mu;
    void *_Atomic context; /* the primary context; NULL until first use */
    /* Streams for small copies of any thread, and for staged copies; set before `context`. */
    void *transfer, *bulk;

    struct kl_cuda_posted posted;

    struct kl_mutex staging_mu;
    uint64_t bulk_posted; /* as kl_cuda_queue.posted, of `bulk`; guarded by staging_mu */
    struct kl_cuda_staging staging[KL_N_STAGING]; /* guarded by staging_mu */

    struct kl_mutex mu;
    /* Signalled when an event is done, the device is lost, or `woken` is set. Uses
     * kl_clock_ns. */
    pthread_cond_t changed;
    struct kl_cuda_event *free_events; /* guarded by mu */
    bool woken;                        /* guarded by mu */
    kl_cuda_address words_device;      /* the unused rest of the slab; guarded by mu */
    uint32_t *words_host;
    int words_left;

    struct kl_cuda_products blas;
    struct kl_cuda_convolutions dnn;
    struct kl_cuda_transforms fft;
    struct kl_cuda_solver solver;

    _Atomic(int) lost; /* the CUresult that ended the device; 0: not lost */
    _Atomic(bool) forked;
};

static inline struct kl_cuda *kl_cuda_of(struct kl_driver *d) {
    return (struct kl_cuda *)d;
}

/* Calls the CUDA driver. Returns 0, or a code with a message that names the call and CUDA's
 * error. */
#define KL_CUDA(d, err, call, args) kl_cuda_check(d, err, "cu" #call, (d)->api->call args)
int kl_cuda_check(struct kl_cuda *d, struct kl_error **err, const char *call, int result);
/* Must be called before a thread uses CUDA: makes the device's context current. KL_EDEVICE after a
 * fork, KL_EDEVICELOST. */
int kl_cuda_enter(struct kl_cuda *d, struct kl_error **err);
/* As cuMemAlloc and cuMemHostAlloc. Tests can inject failures, and messages say how many bytes were
 * wanted. */
int kl_cuda_alloc(struct kl_cuda *d, size_t bytes, kl_cuda_address *out, struct kl_error **err);
int kl_cuda_alloc_pinned(struct kl_cuda *d, size_t bytes, void **out, struct kl_error **err);
void kl_cuda_note_lost(struct kl_cuda *d, int result);

/* ---- cuda_memory.c ---- */
int kl_cuda_mem_alloc(struct kl_driver *d, size_t bytes, void **ptr, struct kl_error **err);
void kl_cuda_mem_free(struct kl_driver *d, void *ptr, size_t bytes);
int kl_cuda_mem_read(struct kl_driver *d, const void *ptr, size_t offset, void *dst, size_t n,
                     struct kl_error **err);
int kl_cuda_mem_write(struct kl_driver *d, void *ptr, size_t offset, const void *src, size_t n,
                      struct kl_error **err);
/* Lets what comes into the stream from now on wait for all posted writes; *seen: how many it waits
 * for already. */
int kl_cuda_after_posted(struct kl_cuda *d, void *stream, uint64_t *seen, struct kl_error **err);
int kl_cuda_share(struct kl_driver *d, void *ptr, size_t bytes, bool mine, struct kl_error **err);
void kl_cuda_unshare(struct kl_driver *d, void *ptr, size_t bytes, bool mine);
int kl_cuda_words_new(struct kl_driver *d, struct kl_fault_words *w, struct kl_error **err);
int kl_cuda_words_fetch(struct kl_driver *d, struct kl_fault_words *w, struct kl_error **err);
void kl_cuda_words_clear(struct kl_driver *d, struct kl_fault_words *w);

/* ---- cuda_queue.c ---- */
int kl_cuda_queue_new(struct kl_driver *d, int stream_index, void **queue, struct kl_error **err);
void *kl_cuda_counters(void *queue);
int kl_cuda_event_new(struct kl_driver *d, void **event, struct kl_error **err);
void kl_cuda_event_free(struct kl_driver *d, void *event);
int kl_cuda_begin(struct kl_driver *d, void *queue, void *const *waits, int n_waits,
                  struct kl_error **err);
int kl_cuda_end(struct kl_driver *d, void *queue, struct kl_fault_words *brings_back, void *signal,
                struct kl_error **err);
int kl_cuda_abandon(struct kl_driver *d, void *queue);
int kl_cuda_event_query(struct kl_driver *d, void *event);
void kl_cuda_why_lost(struct kl_driver *d, char *text, size_t room);
void kl_cuda_wait_any(struct kl_driver *d, void *const *events, int n);
void kl_cuda_wake(struct kl_driver *d);

/* ---- cuda_captured.c: calls of NCCL that come again, as nodes of graphs ---- */
enum { KL_CAPTURED_EVENTS = 4 };
struct kl_cuda_captured {
    uint64_t id; /* no other one ever has it; not 0 */
    void *graph; /* NCCL keeps what its kernel needs as long as this lives; NULL: it ended */
    void *node;  /* the kernel in it; `launch` says what it launches */
    struct kl_cuda_node launch;
    /* NCCL waits for these before it frees what its kernels use. */
    void *event[KL_CAPTURED_EVENTS];
    int n_events;
    void *owner; /* of cuda_nccl.c */
};
/* Captures what comes into the stream between the two, which is one kernel: false: it is not, or
 * this driver cannot. Only this thread may use the stream. */
bool kl_cuda_capture_begin(struct kl_cuda *d, void *stream);
bool kl_cuda_capture_end(struct kl_cuda *d, void *stream, struct kl_cuda_captured *x);
/* Adds it to a graph, after that node (NULL: it is the first). Returns CUDA's result. */
int kl_cuda_captured_add(const struct kl_cuda_api *cuda, const struct kl_cuda_captured *x,
                         void *graph, void *after, void **node);
void kl_cuda_captured_end(struct kl_cuda *d, struct kl_cuda_captured *x);

/* ---- cuda_chain.c: launches wait between begin and end, and are handed over together ---- */
int kl_cuda_chain_new(struct kl_cuda *d, struct kl_cuda_chain **chain, struct kl_error **err);
void kl_cuda_chain_begin(struct kl_cuda_chain *chain);
/* Copies the arguments (at most KL_MAX_KARGS). Launches at once when there was no begin. alone: the
 * kernel does not wait itself for those before it, so it is launched at once, after them. */
int kl_cuda_chain_add(struct kl_cuda *d, struct kl_cuda_queue *q, void *kernel,
                      const uint32_t *groups, const uint32_t *local, uint32_t shared_bytes,
                      const struct kl_karg *args, int n_args, bool alone, struct kl_error **err);
/* Whether a captured call may wait among the launches: there was a begin, and graphs take it. */
bool kl_cuda_chain_takes_captured(const struct kl_cuda_chain *chain);
/* x waits from now on; kl_nccl_left is called when it is handed over or dropped. */
int kl_cuda_chain_add_captured(struct kl_cuda *d, struct kl_cuda_queue *q,
                               const struct kl_cuda_captured *x, struct kl_error **err);
/* Hands over the waiting launches. Must be called before anything else goes to the stream. */
int kl_cuda_chain_flush(struct kl_cuda *d, struct kl_cuda_queue *q, struct kl_error **err);
/* rc: the result of the launches. When they failed, the waiting ones are dropped and rc is
 * returned. */
int kl_cuda_chain_end(struct kl_cuda *d, struct kl_cuda_queue *q, int rc, struct kl_error **err);

/* ---- cuda_program.c: programs that the user compiled ---- */
int kl_cuda_load_program(struct kl_driver *p, const void *program, size_t bytes, const char *name,
                         void **module, struct kl_error **err);

/* ---- cuda_launch.c ---- */
/* Loads an image, of which CUDA takes no length. what: for the message of KL_ECOMPILE, that the
 * driver does not take it. */
int kl_cuda_module(struct kl_cuda *d, const char *what, const void *image, void **module,
                   struct kl_error **err);
bool kl_cuda_helper_begin(struct kl_driver *driver);
void kl_cuda_helper_end(struct kl_driver *driver);
int kl_cuda_compile(struct kl_driver *driver, const char *source, const char *name, void **binary,
                    size_t *bytes, struct kl_error **err);
int kl_cuda_load(struct kl_driver *driver, const void *binary, size_t bytes, void **module,
                 struct kl_error **err);
int kl_cuda_find(struct kl_driver *driver, void *module, const char *entry, void **kernel,
                 struct kl_error **err);
int kl_cuda_limits(struct kl_driver *driver, void *kernel, struct kl_kernel_limits *limits,
                   struct kl_error **err);
int kl_cuda_launch(struct kl_driver *driver, void *queue, void *kernel, uint32_t groups,
                   uint32_t local, const struct kl_karg *args, int n_args, struct kl_error **err);
int kl_cuda_launch_3d(struct kl_driver *driver, void *queue, void *kernel, const uint32_t *groups,
                      const uint32_t *local, size_t shared_bytes, const struct kl_karg *args,
                      int n_args, struct kl_error **err);
int kl_cuda_launch_program(struct kl_driver *driver, void *queue, void *kernel,
                           const uint32_t *groups, const uint32_t *local, size_t shared_bytes,
                           const struct kl_karg *args, int n_args, struct kl_error **err);
int kl_cuda_copy(struct kl_driver *driver, void *queue, void *dst, const void *src, size_t bytes,
                 struct kl_error **err);
int kl_cuda_override(struct kl_emit *e, const struct kl_command *c);

/* ---- for the slot `override`: 1 when the command was run, 0 when it was not ---- */
extern const struct kl_family kl_family_attention_sm90; /* not in kl_families */
/* cuda_attention.c: ATTENTION of 16-bit floats on devices of compute capability 9.0. */
int kl_cuda_attention(struct kl_emit *e, const struct kl_command *c);
/* cuda_blas.c: MATMUL. */
int kl_cuda_blas(struct kl_emit *e, const struct kl_command *c);
/* cuda_dnn.c: CONVOLUTION. */
int kl_cuda_dnn(struct kl_emit *e, const struct kl_command *c);
/* cuda_fft.c: FFT. */
int kl_cuda_fft(struct kl_emit *e, const struct kl_command *c);
/* cuda_solver.c: operations on matrices that the dialect has no kernels for. */
int kl_cuda_solver(struct kl_emit *e, const struct kl_command *c);

/* ---- cuda_nccl.c: communicators ---- */
const char *kl_cuda_comm_missing(struct kl_driver *d);
int64_t kl_cuda_comm_device(struct kl_driver *d);
int kl_cuda_comm_id(struct kl_driver *d, char id[KL_COMM_ID_BYTES], struct kl_error **err);
int kl_cuda_comm_new(struct kl_driver *d, const char *id, int rank, int size, void **comm,
                     struct kl_error **err);
int kl_cuda_comm_state(struct kl_driver *d, void *comm, struct kl_error **err);
/* Begins a call of a library that loads kernels the first time for the problem that *ran belongs
 * to; kl_driver_stall_end follows. */
static inline bool kl_cuda_first_call(_Atomic(bool) *ran) {
    return !atomic_load(ran) && !atomic_exchange(ran, true) && kl_driver_stall_begin();
}

bool kl_cuda_comm_end(struct kl_driver *d, void *comm, bool abort);
int kl_cuda_comm_flag(struct kl_driver *d, _Atomic(int64_t) **host, void **device,
                      struct kl_error **err);
int kl_cuda_exchange(struct kl_driver *d, void *queue, void *comm, const struct kl_transfer *t,
                     struct kl_error **err);
/* Does what was captured by a call of NCCL. */
int kl_nccl_call(const struct kl_cuda_captured *x, void *stream, struct kl_error **err);
/* It no longer waits among launches. */
void kl_nccl_left(const struct kl_cuda_captured *x);
