/* sink.h - the target of a saved file (sink), and the bytes of an array in row-major order
 * (flat). A file sink writes a temporary file in the folder of the target; only kl_sink_finish
 * makes it the target. */
#pragma once
#include <sys/types.h>

#include "io/source.h"

struct kl_sink {
    struct kl_source *writer; /* borrowed; NULL: the target is a file */
    char *path, *temp;        /* temp: NULL once the temporary file does not exist any more */
    mode_t mode;              /* mode of the file that is replaced; 0: there is none */
    int fd;
    uint64_t written;
};

/* Adds `suffix` to a path that does not end with it. On failure there is nothing to abort. */
int kl_sink_open(struct kl_sink *k, struct kl_dest to, const char *suffix, struct kl_error **err);
int kl_sink_write(struct kl_sink *k, const void *data, size_t n, const char *tensor,
                  struct kl_error **err);
int kl_sink_array(struct kl_sink *k, struct kl_array *a, const char *tensor, struct kl_error **err);
/* Makes the file durable and puts it in place of the target. Ends the sink, also on failure. */
int kl_sink_finish(struct kl_sink *k, struct kl_error **err);
void kl_sink_abort(struct kl_sink *k); /* removes what was written to a file; ends the sink */

/* For libzip, which writes to a path itself: gives the path of the temporary file. Nothing may have
 * been written before. */
const char *kl_sink_temp(const struct kl_sink *k);
int kl_sink_reopen(struct kl_sink *k,
                   struct kl_error **err); /* after somebody else has replaced that file */

/* The elements of a settled array in row-major order, whatever its strides. */
struct kl_flat {
    const struct kl_tensor *t;
    const char *data;            /* address of element 0 */
    size_t item;                 /* bytes of an element */
    int64_t at;                  /* flat number of the next element */
    int index[KL_FILE_MAX_NDIM]; /* indices of the next element */
};
/* Evaluates a, which must stay retained while the flat is used. */
int kl_flat_init(struct kl_flat *f, struct kl_array *a, struct kl_error **err);
/* Copies as many whole elements as fit into n bytes. Returns the number of bytes; 0 at the end. */
size_t kl_flat_take(struct kl_flat *f, void *dst, size_t n);

/* Whether `text` is UTF-8. */
bool kl_utf8_valid(const char *text);
/* Evaluates all the arrays, and gives the first failure in their order. KL_EARG for a NULL,
 * KL_ESHAPE for more than KL_FILE_MAX_NDIM axes. */
int kl_save_prepare(const struct kl_named *tensors, size_t n, struct kl_error **err);
