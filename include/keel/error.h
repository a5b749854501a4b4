/* error.h - errors as return codes, with all the fields that an error carries.
 *
 * The handler of mlx/c/error.h gets one line of text. These functions tell a program what failed:
 * the operation, the index and the axis, the tensor, the file and the byte range. An error is
 * immutable. Its strings are borrowed; any thread may read them as long as they are valid.
 *
 *     mlx_array res = mlx_array_new();
 *     keel_error_info e = {.size = sizeof e};
 *     keel_errors_return();
 *     if (mlx_add(&res, a, b, s) && keel_last_error(&e) == 0)
 *         fprintf(stderr, "%s: %s\n", keel_code_name(e.code), e.message); */
#ifndef KEEL_ERROR_H
#define KEEL_ERROR_H

#include <stddef.h>
#include <stdint.h>

#include "keel/export.h"
#include "mlx/c/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The kinds of failure. The numbers never change. */
enum keel_code {
    KEEL_OK = 0,
    KEEL_ENOMEM = -1,  /* out of memory, on the host or on the device */
    KEEL_EARG = -2,    /* bad argument: NULL, an empty handle, a number that is not possible */
    KEEL_ESHAPE = -3,  /* shapes do not fit together, or a shape is not valid (a negative extent) */
    KEEL_EDTYPE = -4,  /* the operation does not take the dtype, or the value is not a dtype */
    KEEL_EAXIS = -5,   /* axis out of range, or given twice */
    KEEL_EINDEX = -6,  /* index out of range: index, axis, axis_size and position say which */
    KEEL_EFILE = -7,   /* the file cannot be opened, read or written */
    KEEL_EFORMAT = -8, /* the file breaks a rule of its format */
    KEEL_EREADER = -9, /* a custom reader or writer failed */
    KEEL_ETRUNCATED = -10,   /* the file ends before the data of the tensor */
    KEEL_ECANCELLED = -11,   /* the work was cancelled before it ran */
    KEEL_EDEVICE = -12,      /* there is no such device, or it cannot be used */
    KEEL_EDEVICELOST = -13,  /* the device was lost */
    KEEL_ESUBMIT = -14,      /* the device refused a submission */
    KEEL_EKERNEL = -15,      /* the kernel failed */
    KEEL_EDEADLOCK = -16,    /* a callback waits for work that waits for the callback */
    KEEL_EFORK = -17,        /* the work was pending in the parent process when it forked */
    KEEL_EVALIDATE = -18,    /* validation found memory that was overwritten, or reused too early */
    KEEL_ELIMIT = -19,       /* the request is over a limit */
    KEEL_ECALLBACK = -20,    /* a callback failed, or reported an error with mlx_error */
    KEEL_EUNSUPPORTED = -21, /* not supported on this device or by this build */
    KEEL_EINTERNAL = -22,    /* a bug in Keel */
    KEEL_ECOMPILE = -23,     /* the source of a kernel does not compile */
    KEEL_ETRACE = -24,       /* an argument of a transformed function is used where it cannot be */
    /* the thread's hook ended the wait (keel/wait.h); the value may still become ready */
    KEEL_EINTERRUPTED = -25,
    KEEL_EMATRIX = -26, /* a matrix is singular, not positive definite, or not finite */
    KEEL_EGROUP = -27   /* processes cannot work together, or one of them was lost */
};

/* Which optional fields of keel_error_info are set; the other ones are 0. */
enum keel_has {
    KEEL_HAS_BYTES = 1,     /* byte_begin, byte_end */
    KEEL_HAS_INDEX = 2,     /* index */
    KEEL_HAS_AXIS = 4,      /* axis */
    KEEL_HAS_SIZE = 8,      /* axis_size */
    KEEL_HAS_POSITION = 16, /* position */
    KEEL_HAS_STREAM = 32    /* stream */
};

/* The caller sets size before each call; the library fills the other fields. A later version may
 * have more fields at the end: a program that was compiled with this header gets the fields of this
 * version. */
typedef struct keel_error_info_ {
    size_t size;           /* sizeof(keel_error_info) */
    int code;              /* one of enum keel_code */
    unsigned has;          /* values of enum keel_has, or-ed */
    const char *operation; /* what failed ("mlx_add", "take_along_axis"), or NULL */
    const char *message;   /* one line of text, never NULL; not a format string */
    const char *tensor;    /* name of the tensor in its file, or NULL */
    const char *file;      /* path of the file, or the label of a custom reader, or NULL */
    int64_t byte_begin;    /* byte range in the file: [byte_begin, byte_end) */
    int64_t byte_end;
    /* The offending index as the caller gave it, before a negative index is wrapped. A uint64 index
     * above INT64_MAX is INT64_MAX here; the message has its real value. For KEEL_EKERNEL of a
     * custom kernel this is the code that the kernel raised. */
    int64_t index;
    int64_t axis;      /* the axis on which the index counts; for KEEL_EAXIS the axis as given */
    int64_t axis_size; /* the extent of that axis */
    /* The flat row-major position of the index in the index array, or the position at which a
     * custom kernel raised its error. In a function that vmap made this is the position within the
     * lane that the message names. */
    int64_t position;
    int64_t stream; /* number of the stream that ran the operation */
} keel_error_info;

/* From this call on, a failure on any thread is a non-zero return value, and no handler is called.
 * The data of the installed handler is destroyed, as when another handler replaces it.
 * mlx_set_error_handler switches handlers on again. */
KEEL_API void keel_errors_return(void);

/* Fills *out with the calling thread's last error. Returns 0 when there is one; the strings are
 * then valid until the thread's next failing call. Returns 2 when nothing has failed on this
 * thread; *out then has the code KEEL_OK. Returns 1 when out is NULL, or out->size is too small for
 * the fields up to message (such as 0). This function never raises an error and never calls a
 * handler. */
KEEL_API int keel_last_error(keel_error_info *out);

/* Fills *out with the error that made `a` fail. Does not evaluate and does not wait. Returns 0 when
 * `a` has failed; the strings are then valid until the handle is freed or overwritten. Returns 2
 * when `a` has not failed, or not yet; *out then has the code KEEL_OK. Returns 1 when `a` is empty,
 * out is NULL or out->size is too small; no handler is called. An error that was told counts as
 * reported: mlx_synchronize does not report it to this thread again. */
KEEL_API int keel_array_error(keel_error_info *out, const mlx_array a);

/* The name of a code without its prefix: "ENOMEM", "EINDEX", ...; "OK" for 0, and "unknown" for a
 * number outside enum keel_code. The text is static; the caller does not free it. */
KEEL_API const char *keel_code_name(int code);

#ifdef __cplusplus
}
#endif
#endif
