/* kernel_cache.c - see kernel_cache.h.
 *
 * There is one file per entry: header, identity, binary. Its name is a hash of source and identity.
 * Because a hash can collide and a file can be damaged, the file itself says whether it is complete
 * and which identity it belongs to. When anything is wrong with an entry, the source is compiled
 * again and the entry replaced. */
#include "backend/gpu/lower/kernel_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"

static _Atomic(uint64_t) n_compiled, n_found, n_temporary;

uint64_t kl_kernel_cache_compiled(void) {
    return atomic_load(&n_compiled);
}
uint64_t kl_kernel_cache_found(void) {
    return atomic_load(&n_found);
}

/* ---- hashes ---- */

/* Two 64-bit hashes, computed independently of each other. */
struct hash {
    uint64_t a, b;
};

static void hash_add(struct hash *h, const void *data, size_t n) {
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i++) {
        h->a = (h->a ^ p[i]) * 1099511628211u;
        h->b = (h->b + p[i]) * 0x9E3779B97F4A7C15u;
        h->b ^= h->b >> 29;
    }
    /* The length is hashed too, so that the bounds between consecutive pieces matter. */
    h->a = (h->a ^ n) * 0xBF58476D1CE4E5B9u;
    h->b = ((h->b + n) * 0x94D049BB133111EBu) ^ (h->b >> 31);
}
#define HASH_START ((struct hash){14695981039346656037u, 0x5851F42D4C957F2Du})

/* ---- the file ---- */

enum { FORMAT = 1 };
static const char magic[8] = {'K', 'L', 'K', 'E', 'R', 'N', 'E', 'L'};
static const uint64_t max_binary_bytes = (uint64_t)1 << 30;

struct header {
    char magic[8];
    uint32_t format;
    uint32_t identity_bytes;
    uint64_t source_bytes;
    uint64_t binary_bytes;
    uint64_t sum_a, sum_b; /* hashes of the fields above, the source, and everything that follows */
};
_Static_assert(sizeof(struct header) == 48, "on-disk layout");

static struct header header_for(const struct kl_driver *d, const char *source, const void *binary,
                                size_t bytes) {
    struct header h = {.format = FORMAT,
                       .identity_bytes = (uint32_t)strlen(d->identity),
                       .source_bytes = strlen(source),
                       .binary_bytes = bytes};
    memcpy(h.magic, magic, sizeof magic);
    struct hash sum = HASH_START;
    hash_add(&sum, &h, offsetof(struct header, sum_a));
    hash_add(&sum, source, h.source_bytes);
    hash_add(&sum, d->identity, h.identity_bytes);
    hash_add(&sum, binary, bytes);
    h.sum_a = sum.a;
    h.sum_b = sum.b;
    return h;
}

static bool read_all(int fd, void *data, size_t n) {
    char *at = data;
    while (n > 0) {
        ssize_t got = read(fd, at, n);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        at += got;
        n -= (size_t)got;
    }
    return true;
}

static bool write_all(int fd, const void *data, size_t n) {
    const char *at = data;
    while (n > 0) {
        ssize_t put = write(fd, at, n);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return false;
        at += put;
        n -= (size_t)put;
    }
    return true;
}

/* The binary of an entry that is complete and has our identity. NULL for every other entry, and
 * when out of memory. */
static void *read_entry(int fd, const struct kl_driver *d, const char *source, size_t *bytes) {
    struct header h;
    struct stat st;
    size_t identity_bytes = strlen(d->identity);
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || !read_all(fd, &h, sizeof h)) return NULL;
    if (h.identity_bytes != identity_bytes || h.binary_bytes > max_binary_bytes ||
        (uint64_t)st.st_size != sizeof h + identity_bytes + h.binary_bytes)
        return NULL;
    size_t n = (size_t)h.binary_bytes;
    char *all = kl_malloc(identity_bytes + n);
    if (!all) return NULL;
    if (read_all(fd, all, identity_bytes + n) && memcmp(all, d->identity, identity_bytes) == 0) {
        struct header expected = header_for(d, source, all + identity_bytes, n);
        if (memcmp(&h, &expected, sizeof h) == 0) {
            memmove(all, all + identity_bytes, n);
            *bytes = n;
            return all;
        }
    }
    kl_free(all);
    return NULL;
}

/* ---- the folder ---- */

/* malloc'd; NULL when the cache is off or memory is short. */
static char *folder(void) {
    const char *own = getenv("KEEL_CACHE_DIR"), *base = own, *below = "";
    if (!own) {
        if ((base = getenv("XDG_CACHE_HOME")) && *base)
            below = "/keel";
        else if ((base = getenv("HOME")) && *base)
            below = "/.cache/keel";
    }
    if (!base || !*base) return NULL;
    size_t room = strlen(base) + strlen(below) + 1;
    char *path = kl_malloc(room);
    if (path) snprintf(path, room, "%s%s", base, below);
    return path;
}

/* Makes every folder of the path. A failure shows later, when a file in the folder is opened. */
static void make_folder(char *path) {
    for (char *c = path + 1; *c; c++) {
        if (*c != '/') continue;
        *c = 0;
        mkdir(path, 0700);
        *c = '/';
    }
    mkdir(path, 0700);
}

static char *entry_path(const char *dir, const struct kl_driver *d, const char *source) {
    struct hash key = HASH_START;
    hash_add(&key, source, strlen(source));
    hash_add(&key, d->identity, strlen(d->identity));
    size_t room = strlen(dir) + 48;
    char *path = kl_malloc(room);
    if (path)
        snprintf(path, room, "%s/%016llx%016llx.kernel", dir, (unsigned long long)key.a,
                 (unsigned long long)key.b);
    return path;
}

static void *look_up(const struct kl_driver *d, const char *source, const char *path,
                     size_t *bytes) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return NULL;
    void *binary = read_entry(fd, d, source, bytes);
    close(fd);
    return binary;
}

/* Writes a new file next to the entry and renames it: a process that reads meanwhile sees the old
 * entry or the new one. A failure is ignored, since the cache is optional. */
static void store(const struct kl_driver *d, const char *source, char *dir, const char *path,
                  const void *binary, size_t bytes) {
    struct header h = header_for(d, source, binary, bytes);
    /* part of the name: machines that share the folder may have equal process numbers */
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    size_t room = strlen(path) + 80;
    char *temporary = kl_malloc(room);
    if (!temporary) return;
    snprintf(temporary, room, "%s.%ld.%ld.%llu", path, (long)getpid(), (long)now.tv_nsec,
             (unsigned long long)atomic_fetch_add(&n_temporary, 1));
    make_folder(dir);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0) {
        bool ok = write_all(fd, &h, sizeof h) && write_all(fd, d->identity, h.identity_bytes) &&
                  write_all(fd, binary, bytes);
        ok = close(fd) == 0 && ok;
        if (!ok || rename(temporary, path)) unlink(temporary);
    }
    kl_free(temporary);
}

/* ---- both together ---- */

/* Loads the module from the file. KL_ECOMPILE: there is no entry that the driver takes. */
static int from_disk(struct kl_driver *d, const char *source, const char *path, void **module,
                     struct kl_error **err) {
    size_t bytes = 0;
    void *binary = look_up(d, source, path, &bytes);
    if (!binary) return KL_ECOMPILE;
    struct kl_error *why = NULL;
    int rc = kl_driver_load(d, binary, bytes, module, &why);
    kl_free(binary);
    if (!rc) atomic_fetch_add(&n_found, 1);
    if (rc && rc != KL_ECOMPILE && why) return kl_fail_with(err, why);
    kl_error_release(why);
    return rc;
}

static int compile(struct kl_driver *d, const char *source, const char *name, char *dir,
                   const char *path, void **module, struct kl_error **err) {
    void *binary = NULL;
    size_t bytes = 0;
    KL_TRY(d->ops->compile(d, source, name, &binary, &bytes, err));
    atomic_fetch_add(&n_compiled, 1);
    int rc = kl_driver_load(d, binary, bytes, module, err);
    if (!rc && path) store(d, source, dir, path, binary, bytes);
    kl_free(binary);
    return rc;
}

int kl_kernel_cache_module(struct kl_driver *d, const char *source, const char *name, void **module,
                           struct kl_error **err) {
    char *dir = folder(), *path = dir ? entry_path(dir, d, source) : NULL;
    int rc = path ? from_disk(d, source, path, module, err) : KL_ECOMPILE;
    if (rc == KL_ECOMPILE) rc = compile(d, source, name, dir, path, module, err);
    kl_free(path);
    kl_free(dir);
    return rc;
}
