/* io_support.h - what the tests of io/ share: files made from bytes, a reader over memory with a
 * gate and planned failures, and checks that name the tensor that failed and its error. */
#pragma once
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/value/capture.h"
#include "io/io.h"
#include "support.h"

/* ---- bytes ---- */
struct bytes {
    char *p;
    size_t n;
};

static inline void bytes_add(struct bytes *b, const void *data, size_t n) {
    if (!n) return;
    b->p = realloc(b->p, b->n + n);
    assert_non_null(b->p);
    memcpy(b->p + b->n, data, n);
    b->n += n;
}

/* A safetensors file with this header and n_data bytes 0, 1, 2, ... */
static inline struct bytes safetensors_bytes(const char *header, size_t n_data) {
    struct bytes b = {0};
    uint64_t n = strlen(header);
    bytes_add(&b, &n, 8);
    bytes_add(&b, header, n);
    for (size_t i = 0; i < n_data; i++) bytes_add(&b, &(char){(char)i}, 1);
    return b;
}

static inline const char *write_file(const char *name, struct bytes b) {
    const char *path = kl_test_path(name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(b.p ? b.p : "", 1, b.n, f), b.n);
    assert_int_equal(fclose(f), 0);
    return path;
}

static inline struct bytes read_whole(const char *path) {
    struct bytes b = {0};
    char part[4096];
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;) bytes_add(&b, part, n);
    fclose(f);
    return b;
}

/* ---- a gate: one thread waits, another opens it; no sleeps ---- */
struct gate {
    pthread_mutex_t mu;
    pthread_cond_t changed;
    bool open, reached;
};
#define GATE_INIT \
    { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, false }

static inline void gate_pass(struct gate *g) { /* waits until it is open */
    pthread_mutex_lock(&g->mu);
    g->reached = true;
    pthread_cond_broadcast(&g->changed);
    while (!g->open) pthread_cond_wait(&g->changed, &g->mu);
    pthread_mutex_unlock(&g->mu);
}
static inline void gate_open(struct gate *g) {
    pthread_mutex_lock(&g->mu);
    g->open = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->mu);
}
static inline void gate_await(struct gate *g) { /* waits until a thread is at the gate */
    pthread_mutex_lock(&g->mu);
    while (!g->reached) pthread_cond_wait(&g->changed, &g->mu);
    pthread_mutex_unlock(&g->mu);
}

/* ---- a reader over memory, with both kinds of callbacks ---- */
struct memory {
    const char *data;
    size_t n;
    size_t at;
    bool not_open, not_good;
    uint64_t raise_at; /* a read that includes this byte raises an error; 0: no read does */
    uint64_t bad_at;   /* a read that includes this byte makes good() false; 0: no read does */
    uint64_t block_at; /* a read that includes this byte waits at the gate; 0: no read does */
    struct gate *gate;
    _Atomic(int) n_reads, n_freed, inside, overlaps;
    struct gate freed; /* opened by the callback `free`; zeros are its initial state */
    bool no_size;
    struct bytes log; /* one "offset+length " per read */
};

static inline void memory_raise(const char *text) {
    struct kl_error *e = NULL;
    kl_fail(&e, KL_ECALLBACK, "%s", text);
    assert_true(kl_capture_active()); /* raises an error as mlx_error does */
    kl_capture_store(e);
}

static inline bool memory_holds(uint64_t byte, size_t n, uint64_t off) {
    return byte && byte >= off && byte < off + n;
}

static inline void memory_read_at(void *desc, char *data, size_t n, size_t off) {
    struct memory *m = desc;
    if (atomic_fetch_add(&m->inside, 1)) atomic_fetch_add(&m->overlaps, 1);
    atomic_fetch_add(&m->n_reads, 1);
    char line[64];
    bytes_add(&m->log, line, (size_t)snprintf(line, sizeof line, "%zu+%zu ", off, n));
    if (memory_holds(m->block_at, n, off)) gate_pass(m->gate);
    if (memory_holds(m->raise_at, n, off)) memory_raise("the disk is on fire");
    if (memory_holds(m->bad_at, n, off)) m->not_good = true;
    if (off + n <= m->n)
        memcpy(data, m->data + off, n);
    else
        memset(data, 0x55, n);
    atomic_fetch_sub(&m->inside, 1);
}
static inline void memory_read(void *desc, char *data, size_t n) {
    struct memory *m = desc;
    memory_read_at(desc, data, n, m->at);
    m->at += n;
}
static inline void memory_seek(void *desc, int64_t off, int whence) {
    struct memory *m = desc;
    m->at = (size_t)(off + (whence == 0 ? 0 : whence == 1 ? (int64_t)m->at : (int64_t)m->n));
}
static inline size_t memory_tell(void *desc) {
    return ((struct memory *)desc)->at;
}
static inline bool memory_is_open(void *desc) {
    return !((struct memory *)desc)->not_open;
}
static inline bool memory_good(void *desc) {
    return !((struct memory *)desc)->not_good;
}
static inline const char *memory_label(void *desc) {
    return "memory";
}
static inline void memory_free(void *desc) {
    struct memory *m = desc;
    atomic_fetch_add(&m->n_freed, 1);
    gate_open(&m->freed);
}
/* Releases the reader's memory. A reader thread may drop its last reference a moment after the
 * value has settled, so this waits for it. */
static inline void memory_end(struct memory *m) {
    gate_pass(&m->freed);
    assert_int_equal(m->n_freed, 1);
    assert_int_equal(m->overlaps, 0);
    free(m->log.p);
}
static const struct kl_reader_ops memory_ops = {.is_open = memory_is_open,
                                                .good = memory_good,
                                                .tell = memory_tell,
                                                .seek = memory_seek,
                                                .read = memory_read,
                                                .read_at_offset = memory_read_at,
                                                .label = memory_label,
                                                .free = memory_free};

static inline int memory_code_read(void *desc, void *data, size_t n, uint64_t off) {
    struct memory *m = desc;
    if (memory_holds(m->bad_at, n, off)) return 77;
    memory_read_at(desc, data, n, off);
    return 0;
}
static inline int memory_code_size(void *desc, uint64_t *size) {
    *size = ((struct memory *)desc)->n;
    return 0;
}
static const struct kl_read_at_ops memory_code_ops = {memory_code_read, memory_code_size,
                                                      memory_label, memory_free};

static inline struct kl_source *memory_source(struct memory *m, struct bytes b) {
    struct kl_source *s;
    m->data = b.p;
    m->n = b.n;
    assert_int_equal(kl_source_new_reader(&s, &memory_ops, m, NULL), 0);
    return s;
}

/* ---- checks ---- */
/* These are macros, so that the call is evaluated before its error is read. */
#define expect_ok(call, err)          \
    do {                              \
        int rc_ = (call);             \
        if (rc_) fail_with(rc_, err); \
    } while (0)
#define expect_error(call, err, want, part) \
    do {                                    \
        int rc_ = (call);                   \
        check_error(rc_, err, want, part);  \
        (err) = NULL;                       \
    } while (0)

static inline void fail_with(int rc, struct kl_error *err) {
    fail_msg("unexpected %d: %s", rc, err ? err->message : "");
}

/* Rc: the code that the call returned; err is taken. */
static inline void check_error(int rc, struct kl_error *err, int code, const char *part) {
    if (rc != code)
        fail_msg("got %d (%s), expected %d (%s)", rc, err ? err->message : "", code, part);
    assert_non_null(err);
    assert_int_equal(err->code, code);
    if (!strstr(err->message, part)) fail_msg("'%s' is not in '%s'", part, err->message);
    kl_error_release(err);
}

static inline struct kl_file *open_path(const char *path, enum kl_format format) {
    struct kl_source *s;
    struct kl_file *f = NULL;
    struct kl_error *err = NULL;
    expect_ok(kl_source_open_file(&s, path, &err), err);
    expect_ok(kl_file_open(&f, s, format, &err), err);
    kl_source_release(s);
    return f;
}

static inline void expect_open_fails(const char *path, enum kl_format format, int code,
                                     const char *part) {
    struct kl_source *s;
    struct kl_file *f = NULL;
    struct kl_error *err = NULL;
    expect_ok(kl_source_open_file(&s, path, &err), err);
    int rc = kl_file_open(&f, s, format, &err);
    assert_null(f);
    expect_error(rc, err, code, part);
    kl_source_release(s);
}

static inline size_t index_of(struct kl_file *f, const char *name) {
    for (size_t i = 0; i < f->n; i++)
        if (!strcmp(f->tensors[i].name, name)) return i;
    fail_msg("no tensor '%s'", name);
    return 0;
}

static inline struct kl_array *array_of(struct kl_file *f, const char *name, struct kl_load *load) {
    struct kl_array *a = NULL;
    struct kl_error *err = NULL;
    expect_ok(kl_file_array(&a, f, index_of(f, name), load, &err), err);
    return a;
}

static inline void *host_of(struct kl_array *a) {
    void *p = NULL;
    struct kl_error *err = NULL;
    expect_ok(kl_array_host(a, &p, &err), err);
    return p;
}

/* Reading the array must fail, with the tensor's name and byte range in the error. */
static inline void expect_array_fails(struct kl_array *a, int code, const char *tensor,
                                      const char *part) {
    struct kl_error *err = NULL;
    int rc = kl_eval(&a, 1, &err);
    assert_non_null(err);
    if (err->code != code) fail_msg("got %d (%s), expected %d", err->code, err->message, code);
    assert_string_equal(err->op, "load");
    assert_string_equal(err->tensor, tensor);
    assert_non_null(err->file);
    assert_true(err->has & KL_HAS_BYTES);
    assert_true(err->byte_begin < err->byte_end);
    expect_error(rc, err, code, part);
}
