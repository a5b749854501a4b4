/* source.c - where bytes come from: a regular file or the user's callbacks, and the reader streams
 * that fetch the bytes.
 *
 * A file is read with pread on one descriptor that all its lazy tensors share, so replacing the
 * file on disk changes nothing for them. A custom source has one reader stream, because its
 * callbacks never overlap; when they block, they block only their own stream. */
#include "io/source.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fork_locks.h"
#include "io/custom.h"

_Static_assert(sizeof(off_t) == 8, "64-bit file offsets");

/* A file gets one reader per this many bytes: a small file is not worth a second thread. */
enum { READER_BYTES = 8 << 20 };

struct kl_source {
    _Atomic(uint32_t) refs;
    struct kl_custom *custom; /* NULL: the source is a file */
    int fd;
    char *path;
    _Atomic(uint64_t) size; /* as measured last */

    /* Both are guarded by the io lock. */
    struct kl_stream *readers[KL_SOURCE_READERS]; /* made on demand */
    uint64_t given[KL_SOURCE_READERS];            /* bytes of loads given to the reader so far */
};

static struct kl_mutex io_mutex = KL_MUTEX_INIT;
static pthread_once_t io_once = PTHREAD_ONCE_INIT;

static void register_io_mutex(void) {
    kl_fork_lock_add(&io_mutex);
}

void kl_io_lock(void) {
    kl_mutex_lock(&io_mutex);
}

void kl_io_unlock(void) {
    kl_mutex_unlock(&io_mutex);
}

static struct kl_source *source_new(void) {
    pthread_once(&io_once, register_io_mutex);
    struct kl_source *s = kl_calloc(1, sizeof *s);
    if (!s) return NULL;
    atomic_init(&s->refs, 1);
    atomic_init(&s->size, KL_SIZE_UNKNOWN);
    s->fd = -1;
    return s;
}

struct kl_source *kl_source_retain(struct kl_source *s) {
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void kl_source_release(struct kl_source *s) {
    if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) return;
    for (int i = 0; i < KL_SOURCE_READERS; i++) kl_stream_release(s->readers[i]);
    if (s->custom) kl_custom_free(s->custom);
    if (s->fd >= 0) close(s->fd);
    kl_free(s->path);
    kl_free(s);
}

static int fail_file(struct kl_error **err, const char *path, const char *what, int number) {
    struct kl_error_info info = {.code = KL_EFILE, .op = "load", .file = path};
    return kl_fail_info(err, &info, "load: %s: %s: %s", path, what, strerror(number));
}

int kl_source_open_file(struct kl_source **out, const char *path, struct kl_error **err) {
    int rc;
    struct stat st;
    struct kl_source *s = source_new();
    if (!s) return kl_fail_nomem(err);
    s->path = kl_strdup(path);
    if (!s->path) {
        rc = kl_fail_nomem(err);
        goto fail;
    }
    do /* O_NONBLOCK: opening a FIFO must not hang */
        s->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    while (s->fd < 0 && errno == EINTR);
    if (s->fd < 0 || fstat(s->fd, &st)) {
        rc = fail_file(err, path, "cannot be opened", errno);
        goto fail;
    }
    if (!S_ISREG(st.st_mode)) {
        rc = fail_file(err, path, "not a regular file", S_ISDIR(st.st_mode) ? EISDIR : EINVAL);
        goto fail;
    }
    atomic_store(&s->size, (uint64_t)st.st_size);
    *out = s;
    return KL_OK;
fail:
    kl_source_release(s);
    return rc;
}

static int new_custom(struct kl_source **out, const struct kl_reader_ops *ops,
                      const struct kl_read_at_ops *at, void *desc, struct kl_error **err) {
    struct kl_source *s = source_new();
    if (!s) return kl_fail_nomem(err);
    s->custom = kl_custom_new(ops, at, desc);
    if (!s->custom) {
        kl_source_release(s);
        return kl_fail_nomem(err);
    }
    *out = s;
    return KL_OK;
}

int kl_source_new_reader(struct kl_source **out, const struct kl_reader_ops *ops, void *desc,
                         struct kl_error **err) {
    return new_custom(out, ops, NULL, desc, err);
}

int kl_source_new_read_at(struct kl_source **out, const struct kl_read_at_ops *ops, void *desc,
                          struct kl_error **err) {
    if (!ops->read_at) return kl_fail(err, KL_EARG, "load: the reader has no read_at");
    return new_custom(out, NULL, ops, desc, err);
}

void *kl_source_desc(const struct kl_source *s) {
    return s->custom ? kl_custom_desc(s->custom) : NULL;
}

bool kl_source_is_custom(const struct kl_source *s) {
    return s->custom != NULL;
}

const char *kl_source_label(struct kl_source *s) {
    return s->custom ? kl_custom_label(s->custom) : s->path;
}

int kl_source_measure(struct kl_source *s, uint64_t *size, struct kl_error **err) {
    if (s->custom) {
        KL_TRY(kl_custom_measure(s->custom, size, err));
    } else {
        struct stat st;
        if (fstat(s->fd, &st)) return fail_file(err, s->path, "cannot be examined", errno);
        *size = (uint64_t)st.st_size;
    }
    atomic_store(&s->size, *size);
    return KL_OK;
}

const char *kl_show(char buf[KL_SHOWN], const char *name) {
    size_t n = 0;
    for (; name[n] && n < 100; n++)
        buf[n] = (unsigned char)name[n] < 0x20 || name[n] == 0x7f ? '?' : name[n];
    memcpy(buf + n, name[n] ? "..." : "", name[n] ? 4 : 1);
    return buf;
}

static int fail_read(struct kl_error **err, int code, const char *label,
                     const struct kl_bytes_of *what, const char *why) {
    struct kl_error_info info = {.code = code,
                                 .has = KL_HAS_BYTES,
                                 .op = "load",
                                 .tensor = what->tensor,
                                 .file = label,
                                 .byte_begin = (int64_t)what->begin,
                                 .byte_end = (int64_t)what->end};
    char shown[KL_SHOWN];
    const char *quote = what->tensor ? "'" : "";
    return kl_fail_info(err, &info, "load: %s: %s%s%s, bytes %llu to %llu: %s", label, quote,
                        kl_show(shown, what->tensor ? what->tensor : "header"), quote,
                        (unsigned long long)what->begin, (unsigned long long)what->end, why);
}

static int file_read(struct kl_source *s, void *dst, size_t n, uint64_t offset,
                     const struct kl_bytes_of *what, struct kl_error **err) {
    char *p = dst;
    while (n) {
        size_t want = n < (1u << 30) ? n : 1u << 30; /* Linux moves at most 2 GB a call */
        ssize_t got = pread(s->fd, p, want, (off_t)offset);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail_read(err, KL_EFILE, s->path, what, strerror(errno));
        if (got == 0)
            return fail_read(err, KL_ETRUNCATED, s->path, what, "the file ends before them");
        p += got;
        offset += (uint64_t)got;
        n -= (size_t)got;
    }
    return KL_OK;
}

static int read_bytes(struct kl_source *s, void *dst, size_t n, uint64_t offset, bool header,
                      const struct kl_bytes_of *what, struct kl_error **err) {
    if (!n) return KL_OK;
    if (offset > INT64_MAX || n > INT64_MAX - offset)
        return fail_read(err, KL_ETRUNCATED, kl_source_label(s), what, "beyond any file");
    uint64_t size = atomic_load(&s->size);
    if (size != KL_SIZE_UNKNOWN && (offset > size || n > size - offset))
        return fail_read(err, KL_ETRUNCATED, kl_source_label(s), what, "the file ends before them");
    return s->custom ? kl_custom_read(s->custom, dst, n, offset, header, what, err)
                     : file_read(s, dst, n, offset, what, err);
}

int kl_source_read(struct kl_source *s, void *dst, size_t n, uint64_t offset,
                   const struct kl_bytes_of *what, struct kl_error **err) {
    return read_bytes(s, dst, n, offset, false, what, err);
}

int kl_source_read_header(struct kl_source *s, void *dst, size_t n, uint64_t offset,
                          struct kl_error **err) {
    struct kl_bytes_of what = {NULL, offset, offset + n};
    return read_bytes(s, dst, n, offset, true, &what, err);
}

int kl_source_write(struct kl_source *s, const void *data, size_t n, const struct kl_bytes_of *what,
                    struct kl_error **err) {
    if (!s->custom) return kl_fail(err, KL_EINTERNAL, "save: %s is not a writer", s->path);
    return kl_custom_write(s->custom, data, n, what, err);
}

int kl_source_reader(struct kl_source *s, uint64_t bytes, struct kl_stream **stream, int *reader,
                     struct kl_error **err) {
    uint64_t size = atomic_load(&s->size);
    uint64_t n = s->custom || size == KL_SIZE_UNKNOWN ? 1 : 1 + size / READER_BYTES;
    if (n > KL_SOURCE_READERS) n = KL_SOURCE_READERS;
    int rc = KL_OK, least = 0;
    kl_io_lock();
    for (int i = 1; i < (int)n; i++)
        if (s->given[i] < s->given[least]) least = i;
    struct kl_stream *fresh = s->readers[least];
    kl_io_unlock();
    if (!fresh) { /* made outside the lock; the thread that comes second drops its own stream */
        KL_TRY(kl_stream_new_reader(&fresh, err));
        kl_io_lock();
        if (!s->readers[least]) {
            s->readers[least] = fresh;
            fresh = NULL;
        }
        kl_io_unlock();
        kl_stream_release(fresh);
    }
    kl_io_lock();
    s->given[least] += bytes;
    *stream = s->readers[least];
    kl_io_unlock();
    *reader = least;
    return rc;
}
