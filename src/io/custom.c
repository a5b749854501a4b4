/* custom.c - the user's callbacks: one call at a time, and every failure is found.
 *
 * The callbacks of the MLX C API cannot return an error. Therefore good() is called before and
 * after each call, and errors that the callback raises are captured. A reader that is not good is
 * not called again; later reads fail with its first error. A callback that calls its own reader
 * gets KL_EDEADLOCK. */
#include "io/custom.h"

#include <stdatomic.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/value/capture.h"
#include "base/value/wait_hook.h"

struct kl_custom {
    bool has_codes; /* true: `at` is set; false: `ops` is set */
    struct kl_reader_ops ops;
    struct kl_read_at_ops at;
    void *desc;
    _Atomic(char *) label; /* set once */

    /* Whose turn it is to call. This is not a lock, because no lock of the library may be held
     * while the user's code runs. Guarded by the io lock. */
    bool busy;
    uint64_t owner;      /* number of the thread that calls; valid while busy */
    pid_t owner_process; /* valid while busy; after a fork no thread of the child ends that turn */
    /* of waiter.link; empty unless busy, because each turn is handed on to the next waiter */
    struct kl_list waiting;

    /* why the reader stopped being good; owned; belongs to the thread that has the turn */
    struct kl_error *first;
};

struct kl_custom *kl_custom_new(const struct kl_reader_ops *reader, const struct kl_read_at_ops *at,
                                void *desc) {
    struct kl_custom *c = kl_calloc(1, sizeof *c);
    if (!c) return NULL;
    if (reader) c->ops = *reader;
    if (at) {
        c->has_codes = true;
        c->at = *at;
        c->ops.label = at->label;
        c->ops.free = at->free;
    }
    c->desc = desc;
    kl_list_init(&c->waiting);
    return c;
}

void kl_custom_free(struct kl_custom *c) {
    if (c->ops.free) {
        struct kl_capture capture;
        kl_capture_begin(&capture);
        c->ops.free(c->desc);
        kl_error_release(kl_capture_end(&capture)); /* there is nobody left to tell */
    }
    kl_error_release(c->first);
    kl_free(atomic_load(&c->label));
    kl_free(c);
}

void *kl_custom_desc(const struct kl_custom *c) {
    return c->desc;
}

static const char *label_now(struct kl_custom *c) {
    const char *label = atomic_load_explicit(&c->label, memory_order_acquire);
    return label ? label : "custom reader";
}

struct waiter {
    struct kl_link link;
    uint64_t id; /* number of the waiting thread */
    struct kl_parker parker;
};

static void give_turn(struct kl_custom *c) {
    kl_io_lock();
    struct kl_link *first = kl_list_pop(&c->waiting);
    struct waiter *next = first ? kl_container(first, struct waiter, link) : NULL;
    c->busy = next != NULL;
    c->owner = next ? next->id : 0;
    kl_io_unlock();
    if (next) kl_parker_set(&next->parker);
}

/* The wait of w for its turn is over without it. */
static void leave(struct kl_custom *c, struct waiter *w) {
    kl_io_lock();
    bool waiting = kl_list_linked(&w->link);
    if (waiting) kl_list_remove(&w->link);
    kl_io_unlock();
    if (waiting) return;
    kl_parker_wait(&w->parker); /* the turn is on its way, and goes to the next one */
    give_turn(c);
}

static int take_turn(struct kl_custom *c, struct kl_error **err) {
    uint64_t self = kl_thread_id();
    if (!self) return kl_fail_nomem(err);
    struct waiter w = {.id = self};
    kl_parker_init(&w.parker);
    kl_io_lock();
    bool waits = c->busy, again = waits && c->owner == self;
    bool forked = waits && c->owner_process != getpid();
    if (!waits) {
        c->busy = true;
        c->owner = self;
        c->owner_process = getpid();
    } else if (!again && !forked) {
        kl_list_push(&c->waiting, &w.link);
    }
    kl_io_unlock();
    /* Not ended: give_turn has made us the owner. */
    bool ended = waits && !again && !forked && !kl_wait_parked(&w.parker);
    if (ended) leave(c, &w);
    kl_parker_deinit(&w.parker);
    if (ended) return kl_wait_fail(err);
    if (forked)
        return kl_fail(err, KL_EFORK, "load: %s: the reader was in use when the process forked",
                       label_now(c));
    if (again)
        return kl_fail(err, KL_EDEADLOCK,
                       "load: %s: a callback of this reader uses the reader itself", label_now(c));
    return KL_OK;
}

/* One use of the callbacks, with its arguments and results. */
struct call {
    void *data;
    const void *out;
    size_t n;
    uint64_t offset;
    uint64_t size; /* result of a call that measures the size */
    int code;      /* result of a callback that returns a code */
};
typedef void call_fn(struct kl_custom *c, struct call *call);

static void call_read_at(struct kl_custom *c, struct call *call) {
    c->ops.read_at_offset(c->desc, call->data, call->n, call->offset);
}
static void call_seek_read(struct kl_custom *c, struct call *call) {
    c->ops.seek(c->desc, (int64_t)call->offset, 0);
    c->ops.read(c->desc, call->data, call->n);
}
static void call_code_read(struct kl_custom *c, struct call *call) {
    call->code = c->at.read_at(c->desc, call->data, call->n, call->offset);
}
static void call_write(struct kl_custom *c, struct call *call) {
    c->ops.write(c->desc, call->out, call->n);
}
static void call_measure(struct kl_custom *c, struct call *call) {
    if (c->has_codes) {
        call->code = c->at.size(c->desc, &call->size);
    } else {
        c->ops.seek(c->desc, 0, 2);
        size_t end = c->ops.tell(c->desc);
        call->size = end > INT64_MAX ? KL_SIZE_UNKNOWN : end;
    }
}

static struct kl_error_info info_of(struct kl_custom *c, const struct kl_bytes_of *what,
                                    const char *op) {
    return (struct kl_error_info){.code = KL_EREADER,
                                  .has = what ? KL_HAS_BYTES : 0,
                                  .op = op,
                                  .tensor = what ? what->tensor : NULL,
                                  .file = label_now(c),
                                  .byte_begin = what ? (int64_t)what->begin : 0,
                                  .byte_end = what ? (int64_t)what->end : 0};
}

/* Runs fn while it has the turn, with good() before and after and with the capture. `doing` is the
 * verb for messages. */
static int framed(struct kl_custom *c, call_fn *fn, struct call *call, const char *op,
                  const char *doing, const struct kl_bytes_of *what, struct kl_error **err) {
    struct kl_error_info info = info_of(c, what, op);
    struct kl_capture capture;
    bool ran = false, good_after = true;
    kl_capture_begin(&capture);
    bool open = !c->ops.is_open || c->ops.is_open(c->desc);
    if (open && (!c->ops.good || c->ops.good(c->desc))) {
        ran = true;
        fn(c, call);
        good_after = !c->ops.good || c->ops.good(c->desc);
    }
    struct kl_error *raised = kl_capture_end(&capture);
    if (ran && good_after && !raised && !call->code) return KL_OK;

    struct kl_error *failure;
    char shown[KL_SHOWN];
    const char *quote = what && what->tensor ? "'" : "";
    const char *name = kl_show(shown, quote[0] ? what->tensor : "header");
    if (raised)
        failure = kl_error_new(&info, "%s: %s: %s of %s%s%s failed: %s", op, info.file, doing,
                               quote, name, quote, raised->message);
    else if (call->code)
        failure = kl_error_new(&info, "%s: %s: %s of %s%s%s failed: the reader returned code %d",
                               op, info.file, doing, quote, name, quote, call->code);
    else if (ran)
        failure = kl_error_new(&info, "%s: %s: %s of %s%s%s failed: good() became false", op,
                               info.file, doing, quote, name, quote);
    else if (!open)
        failure = kl_error_new(&info, "%s: %s: %s of %s%s%s was not tried: it is not open", op,
                               info.file, doing, quote, name, quote);
    else if (c->first)
        failure =
            kl_error_new(&info, "%s: %s: %s of %s%s%s was not tried, good() is false since: %s", op,
                         info.file, doing, quote, name, quote, c->first->message);
    else
        failure = kl_error_new(&info, "%s: %s: %s of %s%s%s was not tried: good() is false", op,
                               info.file, doing, quote, name, quote);
    if (ran && !good_after && !c->first) c->first = kl_error_retain(failure);
    kl_error_release(raised);
    return kl_fail_with(err, failure);
}

const char *kl_custom_label(struct kl_custom *c) {
    if (c->ops.label && !atomic_load_explicit(&c->label, memory_order_acquire) &&
        !take_turn(c, NULL)) {
        if (!atomic_load_explicit(&c->label, memory_order_acquire)) {
            struct kl_capture capture;
            kl_capture_begin(&capture);
            const char *text = c->ops.label(c->desc);
            char *copy = kl_strdup(text ? text : "custom reader");
            kl_error_release(kl_capture_end(&capture)); /* a label only serves messages */
            atomic_store_explicit(&c->label, copy, memory_order_release);
        }
        give_turn(c);
    }
    return label_now(c);
}

int kl_custom_measure(struct kl_custom *c, uint64_t *size, struct kl_error **err) {
    *size = KL_SIZE_UNKNOWN;
    kl_custom_label(c);
    KL_TRY(take_turn(c, err));
    int rc = KL_OK;
    struct call call = {.size = KL_SIZE_UNKNOWN};
    if (c->has_codes ? c->at.size != NULL : c->ops.seek && c->ops.tell)
        rc = framed(c, call_measure, &call, "load", "measuring", NULL, err);
    give_turn(c);
    if (!rc) *size = call.size;
    return rc;
}

int kl_custom_read(struct kl_custom *c, void *dst, size_t n, uint64_t offset, bool header,
                   const struct kl_bytes_of *what, struct kl_error **err) {
    bool by_seek = c->ops.seek && c->ops.read;
    call_fn *fn = c->has_codes && c->at.read_at                   ? call_code_read
                  : by_seek && (header || !c->ops.read_at_offset) ? call_seek_read
                  : c->ops.read_at_offset                         ? call_read_at
                                                                  : NULL;
    if (!fn) {
        struct kl_error_info info = info_of(c, what, "load");
        return kl_fail_info(err, &info,
                            "load: %s: the reader has neither read_at_offset nor seek and read",
                            info.file);
    }
    KL_TRY(take_turn(c, err));
    struct call call = {.data = dst, .n = n, .offset = offset};
    int rc = framed(c, fn, &call, "load", "reading", what, err);
    give_turn(c);
    return rc;
}

int kl_custom_write(struct kl_custom *c, const void *data, size_t n, const struct kl_bytes_of *what,
                    struct kl_error **err) {
    if (!c->ops.write) {
        struct kl_error_info info = info_of(c, what, "save");
        return kl_fail_info(err, &info, "save: %s: the writer has no write", info.file);
    }
    KL_TRY(take_turn(c, err));
    struct call call = {.out = data, .n = n};
    int rc = framed(c, call_write, &call, "save", "writing", what, err);
    give_turn(c);
    return rc;
}
