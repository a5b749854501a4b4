/* npz.c - reading .npz, a zip archive with one .npy per array, through libzip.
 *
 * A libzip handle serves one thread at a time, so each reader stream of the source has its own. The
 * first load of a reader opens the handle; npz_open opens that of reader 0, before there are loads.
 * libzip reads its bytes from our source, so readers of the user work and their errors are reported
 * in full. A
 * damaged member fails alone, by its CRC, when it is read. */
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/file.h"
#include "io/libzip.h"

/* A deflate stream expands one byte to at most 1032 bytes. */
enum { DEFLATE_MOST = 1032 };

struct reader {
    struct npz *npz;
    struct zip *zip;         /* NULL: not open */
    uint64_t at;             /* position in the source */
    struct kl_lazy *reading; /* the load that reads, for messages; NULL: directory and headers */
    struct kl_error *why;    /* first failure of the source since `reading` was set; owned */
    int code;                /* ZIP_ER_*, which libzip asks for */
    pid_t user;              /* the process that is reading now; 0: none */
};

/* A reader belongs to the executor of its stream. Reader 0 belongs to npz_open until it returns. */
struct npz {
    _Atomic(uint32_t) refs;
    const struct kl_libzip *lib;
    struct kl_source *source;
    uint64_t size;
    struct reader readers[KL_SOURCE_READERS];
};

static void *npz_retain(void *state) {
    struct npz *a = state;
    atomic_fetch_add_explicit(&a->refs, 1, memory_order_relaxed);
    return a;
}

static void npz_release(void *state) {
    struct npz *a = state;
    if (atomic_fetch_sub_explicit(&a->refs, 1, memory_order_acq_rel) != 1) return;
    for (int i = 0; i < KL_SOURCE_READERS; i++) {
        if (a->readers[i].zip) a->lib->discard(a->readers[i].zip);
        kl_error_release(a->readers[i].why);
    }
    kl_source_release(a->source);
    kl_free(a);
}

/* ---- what libzip reads from ---- */
static int64_t reader_read(struct reader *l, void *dst, uint64_t n) {
    uint64_t left = l->npz->size - l->at;
    if (n > left) n = left;
    struct kl_bytes_of what = {0};
    struct kl_error *why = NULL;
    if (l->reading) what = kl_lazy_bytes_of(l->reading);
    int rc = l->reading ? kl_source_read(l->npz->source, dst, n, l->at, &what, &why)
                        : kl_source_read_header(l->npz->source, dst, n, l->at, &why);
    if (rc) {
        if (l->why)
            kl_error_release(why);
        else
            l->why = why;
        l->code = ZIP_ER_READ;
        return -1;
    }
    l->at += n;
    return (int64_t)n;
}

static int64_t reader_seek(struct reader *l, const struct zip_seek_args *args) {
    int64_t base = args->whence == 0   ? 0
                   : args->whence == 1 ? (int64_t)l->at
                                       : (int64_t)l->npz->size;
    int64_t to;
    if (args->whence < 0 || args->whence > 2 || __builtin_add_overflow(base, args->offset, &to) ||
        to < 0 || (uint64_t)to > l->npz->size) {
        l->code = ZIP_ER_INVAL;
        return -1;
    }
    l->at = (uint64_t)to;
    return 0;
}

static int64_t reader_command(void *state, void *data, uint64_t n, enum zip_source_cmd cmd) {
    struct reader *l = state;
    switch (cmd) {
    case ZIP_SOURCE_OPEN: l->at = 0; return 0;
    case ZIP_SOURCE_READ: return reader_read(l, data, n);
    case ZIP_SOURCE_CLOSE:
    case ZIP_SOURCE_FREE: return 0;
    case ZIP_SOURCE_STAT:
        *(struct zip_stat *)data = (struct zip_stat){.valid = ZIP_STAT_SIZE, .size = l->npz->size};
        return sizeof(struct zip_stat);
    case ZIP_SOURCE_ERROR:
        memcpy(data, (int[2]){l->code, 0}, 2 * sizeof(int));
        return 2 * sizeof(int);
    case ZIP_SOURCE_SEEK: return reader_seek(l, data);
    case ZIP_SOURCE_TELL: return (int64_t)l->at;
    case ZIP_SOURCE_SUPPORTS: return ZIP_CAN_SEEK;
    default: l->code = ZIP_ER_OPNOTSUPP; return -1;
    }
}

/* `tensor` may be NULL. */
static int fail_member(struct reader *l, int code, const char *tensor, const char *why,
                       struct kl_error **err) {
    const char *label = kl_source_label(l->npz->source);
    char shown[KL_SHOWN];
    struct kl_bytes_of what = {0};
    if (l->reading) what = kl_lazy_bytes_of(l->reading);
    struct kl_error_info info = {.code = code,
                                 .has = l->reading ? KL_HAS_BYTES : 0,
                                 .op = "load",
                                 .tensor = tensor,
                                 .file = label,
                                 .byte_begin = (int64_t)what.begin,
                                 .byte_end = (int64_t)what.end};
    if (!tensor) return kl_fail_info(err, &info, "load: %s: npz: %s", label, why);
    return kl_fail_info(err, &info, "load: %s: npz: '%s': %s", label, kl_show(shown, tensor), why);
}

/* Reports the failure of a libzip call, with the source's own error when that is the cause. */
static int fail_zip(struct reader *l, struct zip_error *e, const char *tensor,
                    struct kl_error **err) {
    if (l->why) {
        struct kl_error *why = l->why;
        l->why = NULL;
        return kl_fail_with(err, why);
    }
    if (e->zip_err == ZIP_ER_MEMORY) return kl_fail_nomem(err);
    return fail_member(l, KL_EFORMAT, tensor, l->npz->lib->error_strerror(e), err);
}

static int reader_open(struct reader *l, struct kl_error **err) {
    const struct kl_libzip *lib = l->npz->lib;
    struct zip_error e;
    int rc = KL_OK;
    lib->error_init(&e);
    struct zip_source *s = lib->source_function_create(reader_command, l, &e);
    if (s) {
        l->zip = lib->open_from_source(s, ZIP_RDONLY | ZIP_CHECKCONS, &e);
        if (!l->zip) lib->source_free(s);
    }
    if (!l->zip) rc = fail_zip(l, &e, NULL, err);
    lib->error_fini(&e);
    return rc;
}

/* ---- one member ---- */
struct member {
    struct reader *reader;
    struct zip_file *file;
    const char *name; /* name of the tensor */
};

static int member_open(struct member *m, struct reader *l, uint64_t index, const char *name,
                       struct kl_error **err) {
    *m = (struct member){.reader = l, .name = name};
    m->file = l->npz->lib->fopen_index(l->zip, index, 0);
    return m->file ? KL_OK : fail_zip(l, l->npz->lib->get_error(l->zip), name, err);
}

static int member_read(void *ctx, void *dst, size_t n, struct kl_error **err) {
    struct member *m = ctx;
    for (char *p = dst; n;) {
        int64_t got = m->reader->npz->lib->fread(m->file, p, n);
        if (got < 0)
            return fail_zip(m->reader, m->reader->npz->lib->file_get_error(m->file), m->name, err);
        if (got == 0)
            return fail_member(m->reader, KL_ETRUNCATED, m->name,
                               "the member ends before its data does", err);
        p += got;
        n -= (size_t)got;
    }
    return KL_OK;
}

/* libzip compares the CRC when it reads the end of the member. */
static int member_expect_end(struct member *m, struct kl_error **err) {
    char more;
    int64_t got = m->reader->npz->lib->fread(m->file, &more, 1);
    if (got == 0) return KL_OK;
    if (got < 0)
        return fail_zip(m->reader, m->reader->npz->lib->file_get_error(m->file), m->name, err);
    return fail_member(m->reader, KL_EFORMAT, m->name, "bytes after the data", err);
}

static int read_value(struct kl_lazy *z, struct member *m, char *dst, struct kl_error **err) {
    char head[4096];
    for (uint64_t left = z->skip; left;) {
        size_t n = left < sizeof head ? (size_t)left : sizeof head;
        KL_TRY(member_read(m, head, n, err));
        left -= n;
    }
    for (uint64_t at = 0; at < z->bytes;) {
        KL_TRY(kl_lazy_check(z, err));
        uint64_t left = z->bytes - at;
        size_t n = left < KL_READ_CHUNK ? (size_t)left : KL_READ_CHUNK;
        KL_TRY(member_read(m, dst + at, n, err));
        kl_lazy_arrived(z, dst + at, n);
        at += n;
    }
    return member_expect_end(m, err);
}

/* Runs on the thread that runs z's reader stream. */
static int npz_read(struct kl_lazy *z, void *dst, struct kl_error **err) {
    struct npz *a = z->state;
    struct reader *l = &a->readers[z->reader];
    struct member m;
    KL_TRY(kl_lazy_check(z, err));
    /* A fork happened while libzip was reading. The child opens a new handle; the old one is
     * lost. */
    if (l->user && l->user != getpid()) {
        l->zip = NULL;
        l->why = NULL;
    }
    l->user = getpid();
    l->reading = z;
    int rc = l->zip ? KL_OK : reader_open(l, err);
    if (!rc) rc = member_open(&m, l, z->index, z->name, err);
    if (!rc) {
        rc = read_value(z, &m, dst, err);
        l->npz->lib->fclose(m.file);
    }
    kl_error_release(l->why); /* a failure after which libzip could still continue */
    l->why = NULL;
    l->reading = NULL;
    l->user = 0;
    return rc;
}

/* ---- the directory ---- */
#define BAD(tensor, ...) kl_file_fail(f, KL_EFORMAT, tensor, err, "npz: " __VA_ARGS__)

static int check_member(struct kl_file *f, const struct zip_stat *st, uint64_t size,
                        struct kl_error **err) {
    size_t n = st->name ? strlen(st->name) : 0;
    if ((st->valid & ZIP_STAT_NEEDED) != ZIP_STAT_NEEDED)
        return BAD(NULL, "a member without name or size");
    if (n < 4 || strcmp(st->name + n - 4, ".npy"))
        return BAD(NULL, "member '%.100s' is not a .npy", st->name);
    if (st->encryption_method) return BAD(NULL, "member '%.100s' is encrypted", st->name);
    if (st->comp_method != ZIP_CM_STORE && st->comp_method != ZIP_CM_DEFLATE)
        return BAD(NULL, "member '%.100s' is compressed by method %d, not stored or deflated",
                   st->name, st->comp_method);
    if (st->comp_size > size) return BAD(NULL, "member '%.100s' is larger than the file", st->name);
    if (st->comp_method == ZIP_CM_STORE ? st->size != st->comp_size
                                        : st->size / DEFLATE_MOST > st->comp_size)
        return BAD(NULL, "member '%.100s' claims more bytes than its compressed ones can hold",
                   st->name);
    return KL_OK;
}

static int add_member(struct kl_file *f, uint64_t index, uint64_t size, struct kl_error **err) {
    struct npz *a = f->state;
    struct reader *l = &a->readers[0];
    const struct kl_libzip *lib = a->lib;
    struct zip_stat st = {0};
    struct kl_file_tensor t;
    struct member m;
    if (lib->stat_index(l->zip, index, 0, &st))
        return fail_zip(l, lib->get_error(l->zip), NULL, err);
    KL_TRY(check_member(f, &st, size, err));
    const char *name = kl_file_text(f, st.name, strlen(st.name) - 4);
    if (!name) return kl_fail_nomem(err);
    KL_TRY(member_open(&m, l, index, name, err));
    int rc = kl_npy_read_head(f, name, member_read, &m, st.size, &t, err);
    lib->fclose(m.file);
    if (rc) return rc;
    t.index = index;
    t.skip = (uint32_t)t.begin; /* a header is not longer */
    return kl_file_add(f, &t, err);
}

static int npz_open(struct kl_file *f, uint64_t size, struct kl_error **err) {
    const struct kl_libzip *lib;
    if (size == 0) return BAD(NULL, "the file is empty");
    if (size == KL_SIZE_UNKNOWN)
        return kl_file_fail(f, KL_EUNSUPPORTED, NULL, err,
                            "npz: the reader does not tell its size");
    KL_TRY(kl_libzip_get(&lib, err));
    struct npz *a = kl_calloc(1, sizeof *a);
    if (!a) return kl_fail_nomem(err);
    atomic_init(&a->refs, 1);
    a->lib = lib;
    a->source = kl_source_retain(f->source);
    a->size = size;
    for (int i = 0; i < KL_SOURCE_READERS; i++) a->readers[i].npz = a;
    f->state = a; /* kl_file_close releases it */
    KL_TRY(reader_open(&a->readers[0], err));
    int64_t n = lib->get_num_entries(a->readers[0].zip, 0);
    for (int64_t i = 0; i < n; i++) KL_TRY(add_member(f, (uint64_t)i, size, err));
    const char *twice;
    KL_TRY(kl_file_find_twice(f, &twice, err));
    return twice ? BAD(twice, "member '%.100s.npy' appears twice", twice) : KL_OK;
}

const struct kl_file_format kl_format_npz = {.suffix = ".npz",
                                             .magic = {"PK\3\4", "PK\5\6"},
                                             .open = npz_open,
                                             .read = npz_read,
                                             .retain = npz_retain,
                                             .release = npz_release};
