/* sink.c - writes a file so that it exists completely or not at all; also writes through custom
 * writers.
 *
 * A regular file (or that to which a link leads) is written under a temporary name in the same
 * directory, made durable, and renamed. A target that is not a regular file is refused, because
 * renaming over a device or a pipe would replace it. */
#include "io/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"

enum { COPY_BYTES = 1 << 20, MAX_LINKS = 40 }; /* as many links in a row as Linux follows */

static int fail_path(struct kl_error **err, const char *path, const char *what, int number) {
    struct kl_error_info info = {
        .code = number == ENOMEM ? KL_ENOMEM : KL_EFILE, .op = "save", .file = path};
    return kl_fail_info(err, &info, "save: %s: %s: %s", path, what, strerror(number));
}

/* ---- opening ---- */

static bool is_link(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
}

/* Replaces the path of a link by the path that the link holds, seen from the folder of the link. */
static int follow(char **path, struct kl_error **err) {
    char held[PATH_MAX];
    ssize_t n = readlink(*path, held, sizeof held);
    if (n < 0) return fail_path(err, *path, "cannot be created", errno);
    const char *slash = n && held[0] == '/' ? NULL : strrchr(*path, '/');
    size_t folder = slash ? (size_t)(slash - *path) + 1 : 0;
    char *to = kl_malloc(folder + (size_t)n + 1);
    if (!to) return kl_fail_nomem(err);
    memcpy(to, *path, folder);
    memcpy(to + folder, held, (size_t)n);
    to[folder + (size_t)n] = 0;
    kl_free(*path);
    *path = to;
    return KL_OK;
}

/* Replaces the path of a link by that of the file that it leads to, which need not exist: what is
 * renamed to a link would take its place, and the file that users mean would not be written. */
static int follow_links(char **path, struct kl_error **err) {
    struct stat st;
    if (!is_link(*path)) return KL_OK;
    if (stat(*path, &st) == 0) {
        char *resolved = realpath(*path, NULL);
        if (!resolved) return KL_OK; /* a link of the system, as in /proc, whose text is no path */
        char *copy = kl_strdup(resolved);
        free(resolved);
        if (!copy) return kl_fail_nomem(err);
        kl_free(*path);
        *path = copy;
        return KL_OK;
    }
    if (errno == ELOOP) return fail_path(err, *path, "cannot be created", ELOOP);
    for (int n = 0; is_link(*path); n++) {
        /* Links that others turn into a loop meanwhile end too. */
        if (n == MAX_LINKS) return fail_path(err, *path, "cannot be created", ELOOP);
        KL_TRY(follow(path, err));
    }
    return KL_OK;
}

/* The path of the file that is written: with its suffix, and with links followed. *out is NULL, or
 * to be freed, on failure too. */
static int target_of(char **out, const char *path, const char *suffix, struct kl_error **err) {
    size_t n = strlen(path), s = strlen(suffix);
    bool has = n >= s && !strcmp(path + n - s, suffix);
    *out = kl_malloc(n + s + 1);
    if (!*out) return kl_fail_nomem(err);
    memcpy(*out, path, n + 1);
    if (!has) memcpy(*out + n, suffix, s + 1);
    return follow_links(out, err);
}

static int open_temp(struct kl_sink *k, struct kl_error **err) {
    static _Atomic(unsigned) counter;
    size_t room = strlen(k->path) + 48;
    k->temp = kl_malloc(room);
    if (!k->temp) return kl_fail_nomem(err);
    for (int tries = 0; tries < 100; tries++) {
        snprintf(k->temp, room, "%s.keel-%ld-%u", k->path, (long)getpid(),
                 atomic_fetch_add(&counter, 1));
        k->fd = open(k->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (k->fd >= 0) return KL_OK;
        if (errno != EEXIST && errno != EINTR) break;
    }
    int rc = fail_path(err, k->path, "cannot be created", errno);
    kl_free(k->temp);
    k->temp = NULL;
    return rc;
}

int kl_sink_open(struct kl_sink *k, struct kl_dest to, const char *suffix, struct kl_error **err) {
    *k = (struct kl_sink){.writer = to.writer, .fd = -1};
    if (to.writer) return KL_OK;
    if (!*to.path) return kl_fail(err, KL_EARG, "save: the path is empty");
    int rc = target_of(&k->path, to.path, suffix, err);
    struct stat st;
    if (!rc && !stat(k->path, &st)) {
        if (!S_ISREG(st.st_mode)) rc = fail_path(err, k->path, "not a regular file", EEXIST);
        k->mode = st.st_mode & 07777;
    }
    if (!rc) rc = open_temp(k, err);
    if (!rc && k->mode)
        (void)fchmod(k->fd, k->mode); /* the mode of the old file; if that fails, of a new file */
    if (rc) kl_sink_abort(k);
    return rc;
}

const char *kl_sink_temp(const struct kl_sink *k) {
    return k->temp;
}

int kl_sink_reopen(struct kl_sink *k, struct kl_error **err) {
    close(k->fd);
    k->fd = open(k->temp, O_WRONLY | O_CLOEXEC);
    if (k->fd < 0) return fail_path(err, k->path, "writing failed", errno);
    if (k->mode) (void)fchmod(k->fd, k->mode);
    return KL_OK;
}

/* ---- writing ---- */
int kl_sink_write(struct kl_sink *k, const void *data, size_t n, const char *tensor,
                  struct kl_error **err) {
    const char *p = data;
    while (n) {
        size_t part = n < (8u << 20) ? n : 8u << 20;
        if (k->writer) {
            struct kl_bytes_of what = {tensor, k->written, k->written + n};
            KL_TRY(kl_source_write(k->writer, p, part, &what, err));
        } else {
            ssize_t got = write(k->fd, p, part);
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0) {
                struct kl_error_info info = {.code = KL_EFILE,
                                             .has = KL_HAS_BYTES,
                                             .op = "save",
                                             .tensor = tensor,
                                             .file = k->path,
                                             .byte_begin = (int64_t)k->written,
                                             .byte_end = (int64_t)(k->written + n)};
                return kl_fail_info(err, &info, "save: %s: writing failed: %s", k->path,
                                    got ? strerror(errno) : "no progress");
            }
            part = (size_t)got;
        }
        p += part;
        n -= part;
        k->written += part;
    }
    return KL_OK;
}

int kl_sink_array(struct kl_sink *k, struct kl_array *a, const char *tensor,
                  struct kl_error **err) {
    struct kl_flat f;
    KL_TRY(kl_flat_init(&f, a, err));
    size_t bytes = (size_t)a->t.size * f.item;
    if (a->t.layout & KL_ROW_CONTIGUOUS) return kl_sink_write(k, f.data, bytes, tensor, err);
    size_t room = bytes < COPY_BYTES ? bytes : COPY_BYTES;
    char *copy = kl_malloc(room);
    if (!copy) return kl_fail_nomem(err);
    int rc = KL_OK;
    for (size_t n; !rc && (n = kl_flat_take(&f, copy, room));)
        rc = kl_sink_write(k, copy, n, tensor, err);
    kl_free(copy);
    return rc;
}

/* ---- ending ---- */
static void end(struct kl_sink *k) {
    if (k->fd >= 0) close(k->fd);
    if (k->temp) unlink(k->temp);
    kl_free(k->temp);
    kl_free(k->path);
    k->fd = -1;
    k->temp = k->path = NULL;
}

void kl_sink_abort(struct kl_sink *k) {
    end(k);
}

/* The rename is durable only when the directory has been synchronised. When that fails, nothing
 * that existed before is lost. */
static void sync_directory(const char *path) {
    char *dir = kl_strdup(path);
    if (!dir) return;
    char *slash = strrchr(dir, '/');
    if (slash) slash[slash == dir] = 0;
    int fd = open(slash ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    kl_free(dir);
    if (fd < 0) return;
    (void)fsync(fd);
    close(fd);
}

int kl_sink_finish(struct kl_sink *k, struct kl_error **err) {
    int rc = KL_OK;
    if (!k->writer) {
        int fd = k->fd;
        k->fd = -1;
        bool synced = fsync(fd) == 0 || errno == EINVAL; /* EINVAL: not supported for this file */
        int number = errno;
        if (close(fd) && synced && errno != EINTR) synced = false, number = errno;
        if (!synced)
            rc = fail_path(err, k->path, "writing failed", number);
        else if (rename(k->temp, k->path))
            rc = fail_path(err, k->path, "cannot be replaced", errno);
        if (!rc) {
            kl_free(k->temp);
            k->temp = NULL;
            sync_directory(k->path);
        }
    }
    end(k);
    return rc;
}

/* ---- arrays as bytes ---- */
int kl_flat_init(struct kl_flat *f, struct kl_array *a, struct kl_error **err) {
    void *data;
    KL_TRY(kl_array_host(a, &data, err));
    *f = (struct kl_flat){.t = &a->t, .data = data, .item = kl_dtype_size(a->t.dtype)};
    return KL_OK;
}

/* Copies a run of n elements, `step` bytes apart. */
static void copy_run(char *dst, const char *src, int64_t n, int64_t step, size_t item) {
    if (step == (int64_t)item) {
        memcpy(dst, src, (size_t)n * item);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        switch (item) { /* with a constant size the copy becomes one move instruction */
        case 1: dst[i] = src[i * step]; break;
        case 2: memcpy(dst + i * 2, src + i * step, 2); break;
        case 4: memcpy(dst + i * 4, src + i * step, 4); break;
        default: memcpy(dst + i * 8, src + i * step, 8); break;
        }
    }
}

size_t kl_flat_take(struct kl_flat *f, void *dst, size_t n) {
    const struct kl_tensor *t = f->t;
    int64_t room = (int64_t)(n / f->item), taken = 0;
    int last = t->ndim - 1;
    while (taken < room && f->at < t->size) {
        int64_t offset = 0, run = 1;
        for (int d = 0; d <= last; d++) offset += f->index[d] * t->strides[d];
        if (last >= 0) {
            run = t->dims[last] - f->index[last];
            if (run > room - taken) run = room - taken;
        }
        int64_t step = last >= 0 ? t->strides[last] * (int64_t)f->item : (int64_t)f->item;
        copy_run((char *)dst + (size_t)taken * f->item, f->data + offset * (int64_t)f->item, run,
                 step, f->item);
        taken += run;
        f->at += run;
        if (last < 0) break;
        f->index[last] += (int)run;
        for (int d = last; d > 0 && f->index[d] == t->dims[d]; d--) {
            f->index[d] = 0;
            f->index[d - 1]++;
        }
    }
    return (size_t)taken * f->item;
}
