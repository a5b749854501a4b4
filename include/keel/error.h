/* error.h - errors as return codes, with every field they carry.
 *
 * The handler of mlx/c/error.h gets one line of text. Here a program learns what failed: the
 * operation, the index and the axis, the tensor, the file and the byte range. Errors are
 * immutable; what these functions hand out is borrowed and may be read by any thread while it is
 * valid. */
#ifndef KEEL_ERROR_H
#define KEEL_ERROR_H

#include <stdint.h>

#include "keel/export.h"
#include "mlx/c/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What kind of failure it is. The numbers never change. */
enum keel_code {
    KEEL_OK = 0,
    KEEL_ENOMEM = -1,       /* out of memory, host or device */
    KEEL_EARG = -2,         /* bad argument: NULL, an empty handle, a number that is not possible */
    KEEL_ESHAPE = -3,       /* shapes do not fit, or are none: negative extents */
    KEEL_EDTYPE = -4,       /* dtype not taken here, or none: a value outside the enum */
    KEEL_EAXIS = -5,        /* axis out of range, or given twice */
    KEEL_EINDEX = -6,       /* index out of range: index, axis, axis_size and position say which */
    KEEL_EFILE = -7,        /* file cannot be opened, read or written */
    KEEL_EFORMAT = -8,      /* file breaks a rule of its format */
    KEEL_EREADER = -9,      /* custom reader or writer failed */
    KEEL_ETRUNCATED = -10,  /* file ends before the data of the tensor */
    KEEL_ECANCELLED = -11,  /* cancelled before it ran */
    KEEL_EDEVICE = -12,     /* no such device, or it cannot be used */
    KEEL_EDEVICELOST = -13, /* device lost */
    KEEL_ESUBMIT = -14,     /* the device refused a submission */
    KEEL_EKERNEL = -15,     /* kernel failed */
    KEEL_EDEADLOCK = -16,   /* a callback waits for work that waits for the callback */
    KEEL_EFORK = -17,       /* the work was pending in the parent process when it forked */
    KEEL_EVALIDATE = -18,   /* validation found memory overwritten or reused in flight */
    KEEL_ELIMIT = -19,      /* over a limit */
    KEEL_ECALLBACK = -20,   /* a callback failed, or reported an error with mlx_error */
    KEEL_EUNSUPPORTED = -21, /* not supported */
    KEEL_EINTERNAL = -22,    /* a bug in Keel */
    KEEL_ECOMPILE = -23      /* the source of a kernel does not compile */
};

/* Which optional fields of keel_error_info hold; the others are 0. */
enum keel_has {
    KEEL_HAS_BYTES = 1,     /* byte_begin, byte_end */
    KEEL_HAS_INDEX = 2,     /* index */
    KEEL_HAS_AXIS = 4,      /* axis */
    KEEL_HAS_SIZE = 8,      /* axis_size */
    KEEL_HAS_POSITION = 16, /* position */
    KEEL_HAS_STREAM = 32    /* stream */
};

typedef struct keel_error_info_ {
    int code;              /* enum keel_code */
    unsigned has;          /* enum keel_has, or-ed */
    const char *operation; /* what failed ("mlx_add", "take_along_axis"), or NULL */
    const char *message;   /* one line, never NULL, not a format */
    const char *tensor;    /* name of the tensor in its file, or NULL */
    const char *file;      /* path, or what a custom reader calls itself; or NULL */
    int64_t byte_begin;    /* range in the file: [byte_begin, byte_end) */
    int64_t byte_end;
    int64_t index; /* the offending index as given, before negative ones are wrapped; one of uint64
                        * above INT64_MAX is INT64_MAX here, and itself in the message; for
                        * KEEL_EKERNEL of a custom kernel: the code that it raised */
    int64_t axis;  /* the axis that it counts along */
    int64_t axis_size; /* the extent of that axis */
    int64_t position;  /* where the index stands: flat row-major position in the index array; or
                        * where a custom kernel raised its error */
    int64_t stream;    /* number of the stream that ran the operation */
} keel_error_info;

/* From now on a failure, on any thread, is a non-zero return value and no handler is called. The
 * data of the handler that was installed is destroyed as when another handler takes its place.
 * mlx_set_error_handler undoes it. */
KEEL_API void keel_errors_return(void);

/* The calling thread's last error. 0: *out is filled, and its strings are valid until the
 * thread's next failing call. 2: nothing has failed on this thread; *out has code KEEL_OK. 1:
 * out is NULL. Never itself an error; calls no handler. */
KEEL_API int keel_last_error(keel_error_info *out);

/* What made `a` fail. Does not evaluate or wait. 0: a has failed and *out is filled; its strings
 * are valid until the handle is freed or overwritten. 2: a has not failed, or not yet; *out has
 * code KEEL_OK. 1: a is empty or out is NULL; calls no handler. The error counts as seen:
 * mlx_synchronize does not report it to this thread again. */
KEEL_API int keel_array_error(keel_error_info *out, const mlx_array a);

/* "ENOMEM", "EINDEX", ...; "OK" for 0; "unknown" outside enum keel_code. Static. */
KEEL_API const char *keel_code_name(int code);

#ifdef __cplusplus
}
#endif
#endif
