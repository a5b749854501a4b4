/* libzip.h - the part of libzip's binary interface that .npz needs, found at run time.
 *
 * libzip is loaded when the first .npz is opened or saved, so that only users of .npz need to have
 * it installed. The declarations are those of libzip 1.x (soname 4 and 5). KEEL_LIBZIP names
 * another file to load. */
#pragma once
#include <time.h>

#include "base/error.h"

struct zip;
struct zip_file;
struct zip_source;
struct zip_error {
    int zip_err, sys_err;
    char *str;
};
struct zip_stat {
    uint64_t valid; /* which fields are set */
    const char *name;
    uint64_t index, size, comp_size;
    time_t mtime;
    uint32_t crc;
    uint16_t comp_method, encryption_method;
    uint32_t flags;
};
struct zip_seek_args {
    int64_t offset;
    int whence;
};
enum { ZIP_TRUNCATE_CREATE = 1 | 8, ZIP_CHECKCONS = 4, ZIP_RDONLY = 16 };
enum { ZIP_FL_ENC_UTF_8 = 2048 };
enum { ZIP_CM_STORE = 0, ZIP_CM_DEFLATE = 8 };
enum {
    ZIP_ER_READ = 5,
    ZIP_ER_CRC = 7,
    ZIP_ER_MEMORY = 14,
    ZIP_ER_INVAL = 18,
    ZIP_ER_OPNOTSUPP = 28
};
enum { ZIP_STAT_SIZE = 4, ZIP_STAT_MTIME = 16, ZIP_STAT_NEEDED = 1 | 4 | 8 | 64 | 128 };
enum zip_source_cmd {
    ZIP_SOURCE_OPEN,
    ZIP_SOURCE_READ,
    ZIP_SOURCE_CLOSE,
    ZIP_SOURCE_STAT,
    ZIP_SOURCE_ERROR,
    ZIP_SOURCE_FREE,
    ZIP_SOURCE_SEEK,
    ZIP_SOURCE_TELL,
    ZIP_SOURCE_SUPPORTS = 14
};
enum {
    ZIP_CAN_READ = 63, /* the commands OPEN to FREE are supported */
    ZIP_CAN_SEEK =
        ZIP_CAN_READ | 1 << ZIP_SOURCE_SEEK | 1 << ZIP_SOURCE_TELL | 1 << ZIP_SOURCE_SUPPORTS
};
typedef int64_t zip_source_fn(void *state, void *data, uint64_t n, enum zip_source_cmd cmd);

struct kl_libzip {
    struct zip *(*open)(const char *path, int flags, int *why);
    struct zip *(*open_from_source)(struct zip_source *, int flags, struct zip_error *);
    int (*close)(struct zip *); /* writes the file; on failure the archive stays open */
    void (*discard)(struct zip *);
    struct zip_error *(*get_error)(struct zip *);
    int64_t (*get_num_entries)(struct zip *, uint32_t flags);
    int (*stat_index)(struct zip *, uint64_t index, uint32_t flags, struct zip_stat *);
    struct zip_file *(*fopen_index)(struct zip *, uint64_t index, uint32_t flags);
    int64_t (*fread)(struct zip_file *, void *, uint64_t n);
    int (*fclose)(struct zip_file *);
    struct zip_error *(*file_get_error)(struct zip_file *);
    struct zip_source *(*source_function_create)(zip_source_fn *, void *state, struct zip_error *);
    void (*source_free)(struct zip_source *);
    int64_t (*file_add)(struct zip *, const char *name, struct zip_source *, uint32_t flags);
    int (*set_file_compression)(struct zip *, uint64_t index, int32_t method, uint32_t level);
    int (*file_set_dostime)(struct zip *, uint64_t index, uint16_t time, uint16_t date,
                            uint32_t flags);
    void (*error_init)(struct zip_error *);
    void (*error_init_with_code)(struct zip_error *, int code);
    void (*error_fini)(struct zip_error *);
    const char *(*error_strerror)(struct zip_error *);
};

/* The library, which the first call loads. When it is not installed: KL_EUNSUPPORTED, with a
 * message that names the library and its package. */
int kl_libzip_get(const struct kl_libzip **out, struct kl_error **err);
