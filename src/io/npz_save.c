/* npz_save.c - saving .npz as numpy.savez does: members "<name>.npy", stored or deflated. Every
 * member is dated 1980-01-01, so the same arrays give the same file. libzip reads each member
 * through a callback, and uses zip64 where it is needed. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/file.h"
#include "io/libzip.h"
#include "io/sink.h"

enum { DOS_1980_01_01 = 0 << 9 | 1 << 5 | 1 };

/* One member: its header, then its elements. Lives until the archive is closed or discarded. */
struct member {
    struct kl_array *array;
    char head[KL_NPY_HEAD_MAX];
    size_t head_n;
    uint64_t bytes; /* of header and elements */
    uint64_t at;
    struct kl_flat flat;
    char spare[8]; /* the rest of a partly given element: libzip asks for any number of bytes */
    size_t spare_n, spare_at;
    struct kl_error *why; /* owned */
};

static int64_t member_start(struct member *m) {
    m->at = 0;
    m->spare_n = m->spare_at = 0;
    return kl_flat_init(&m->flat, m->array, m->why ? NULL : &m->why) ? -1 : 0;
}

static int64_t member_read(struct member *m, char *dst, uint64_t n) {
    uint64_t done = 0;
    if (n > m->bytes - m->at) n = m->bytes - m->at;
    if (m->at < m->head_n) {
        done = n < m->head_n - m->at ? n : m->head_n - m->at;
        memcpy(dst, m->head + m->at, done);
    }
    while (done < n) {
        if (m->spare_at < m->spare_n) {
            dst[done++] = m->spare[m->spare_at++];
        } else if (n - done >= m->flat.item) {
            done += kl_flat_take(&m->flat, dst + done, n - done);
        } else {
            m->spare_n =
                kl_flat_take(&m->flat, m->spare, sizeof m->spare / m->flat.item * m->flat.item);
            m->spare_at = 0;
        }
    }
    m->at += n;
    return (int64_t)n;
}

static int64_t member_command(void *state, void *data, uint64_t n, enum zip_source_cmd cmd) {
    struct member *m = state;
    switch (cmd) {
    case ZIP_SOURCE_OPEN: return member_start(m);
    case ZIP_SOURCE_READ: return member_read(m, data, n);
    case ZIP_SOURCE_CLOSE:
    case ZIP_SOURCE_FREE: return 0;
    case ZIP_SOURCE_STAT:
        *(struct zip_stat *)data = (struct zip_stat){.valid = ZIP_STAT_SIZE, .size = m->bytes};
        return sizeof(struct zip_stat);
    case ZIP_SOURCE_ERROR:
        memcpy(data, (int[2]){m->why ? ZIP_ER_READ : ZIP_ER_OPNOTSUPP, 0}, 2 * sizeof(int));
        return 2 * sizeof(int);
    case ZIP_SOURCE_SUPPORTS: return ZIP_CAN_READ;
    default: return -1;
    }
}

static int fail_zip(const struct kl_libzip *lib, struct zip_error *e, const char *path,
                    const char *tensor, struct kl_error **err) {
    if (e->zip_err == ZIP_ER_MEMORY) return kl_fail_nomem(err);
    struct kl_error_info info = {.code = KL_EFILE, .op = "save", .tensor = tensor, .file = path};
    return kl_fail_info(err, &info, "save: %s: npz: %s", path, lib->error_strerror(e));
}

static int add_member(const struct kl_libzip *lib, struct zip *z, struct member *m,
                      const char *name, bool compressed, const char *path, struct kl_error **err) {
    const struct kl_tensor *t = &m->array->t;
    m->head_n = kl_npy_write_head(m->head, t->dtype, t->ndim, t->dims);
    m->bytes = m->head_n + (uint64_t)t->size * kl_dtype_size(t->dtype);
    size_t room = strlen(name) + 5;
    char *file_name = kl_malloc(room);
    if (!file_name) return kl_fail_nomem(err);
    memcpy(file_name, name, room - 5);
    memcpy(file_name + room - 5, ".npy", 5);

    struct zip_error e;
    int rc = KL_OK;
    lib->error_init(&e);
    struct zip_source *s = lib->source_function_create(member_command, m, &e);
    if (!s) {
        rc = fail_zip(lib, &e, path, name, err);
    } else {
        int64_t index = lib->file_add(z, file_name, s, ZIP_FL_ENC_UTF_8);
        if (index < 0) lib->source_free(s);
        if (index < 0 ||
            lib->set_file_compression(z, (uint64_t)index,
                                      compressed ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0) ||
            lib->file_set_dostime(z, (uint64_t)index, 0, DOS_1980_01_01, 0))
            rc = fail_zip(lib, lib->get_error(z), path, name, err);
    }
    lib->error_fini(&e);
    kl_free(file_name);
    return rc;
}

/* Writes an archive without members. libzip would not write a file at all. */
static int write_empty(struct kl_sink *k, struct kl_error **err) {
    static const char end_of_directory[22] = "PK\5\6";
    return kl_sink_write(k, end_of_directory, sizeof end_of_directory, NULL, err);
}

static int write_members(const struct kl_libzip *lib, struct kl_sink *k, struct member *members,
                         const struct kl_named *tensors, size_t n, bool compressed,
                         struct kl_error **err) {
    int why, rc = KL_OK;
    struct zip *z = lib->open(kl_sink_temp(k), ZIP_TRUNCATE_CREATE, &why);
    if (!z) {
        struct zip_error e;
        lib->error_init_with_code(&e, why);
        rc = fail_zip(lib, &e, k->path, NULL, err);
        lib->error_fini(&e);
        return rc;
    }
    for (size_t i = 0; i < n && !rc; i++) {
        members[i].array = tensors[i].array;
        rc = add_member(lib, z, &members[i], tensors[i].name, compressed, k->path, err);
    }
    if (!rc) {
        if (!lib->close(z))
            return kl_sink_reopen(k, err); /* libzip has put its own file at this path */
        for (size_t i = 0; i < n && !rc; i++) {
            if (!members[i].why) continue;
            rc = kl_fail_with(err, members[i].why);
            members[i].why = NULL;
        }
        if (!rc) rc = fail_zip(lib, lib->get_error(z), k->path, NULL, err);
    }
    lib->discard(z);
    return rc;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(((const struct kl_named *)a)->name, ((const struct kl_named *)b)->name);
}

int kl_save_npz(const char *path, const struct kl_named *tensors, size_t n, bool compressed,
                struct kl_error **err) {
    const struct kl_libzip *lib;
    KL_TRY(kl_libzip_get(&lib, err));
    for (size_t i = 0; i < n; i++)
        if (!kl_utf8_valid(tensors[i].name))
            return kl_fail(err, KL_EARG, "save: an array's name is not UTF-8");
    KL_TRY(kl_save_prepare(tensors, n, err));
    struct kl_named *sorted = kl_calloc(n + 1, sizeof *sorted);
    struct member *members = kl_calloc(n + 1, sizeof *members);
    int rc = KL_OK;
    if (!sorted || !members) rc = kl_fail_nomem(err);
    if (!rc && n) memcpy(sorted, tensors, n * sizeof *sorted);
    if (!rc) qsort(sorted, n, sizeof *sorted, compare_names);
    for (size_t i = 1; i < n && !rc; i++)
        if (!strcmp(sorted[i - 1].name, sorted[i].name))
            rc = kl_fail(err, KL_EARG, "save: '%.100s' is given twice", sorted[i].name);
    struct kl_sink k;
    if (!rc) rc = kl_sink_open(&k, (struct kl_dest){.path = path}, kl_format_npz.suffix, err);
    if (!rc) {
        rc = n ? write_members(lib, &k, members, sorted, n, compressed, err) : write_empty(&k, err);
        if (!rc)
            rc = kl_sink_finish(&k, err);
        else
            kl_sink_abort(&k);
    }
    for (size_t i = 0; i < n && members; i++) kl_error_release(members[i].why);
    kl_free(members);
    kl_free(sorted);
    return rc;
}
