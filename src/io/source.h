/* source.h - what the readers and writers of formats ask of a source, which io.h describes.
 * Reads block, so the caller must hold no lock of another layer. */
#pragma once
#include "io/io.h"

/* One leaf lock for the small state of all sources; being one lock, a fork can take it
 * (base/fork_locks.h). It is held for a few instructions, never during a callback. */
void kl_io_lock(void);
void kl_io_unlock(void);

/* Makes a name fit for a message: keeps at most 100 bytes and replaces control characters, since
 * names come from files and messages go to terminals. Returns buf. */
enum { KL_SHOWN = 104 };
const char *kl_show(char buf[KL_SHOWN], const char *name);

/* For messages: the purpose of a read or write. */
struct kl_bytes_of {
    const char *tensor;  /* NULL: the header */
    uint64_t begin, end; /* the whole range in the file */
};

/* Asks for the size, again if it was known; KL_SIZE_UNKNOWN when the source cannot tell. Also asks
 * for the label. */
int kl_source_measure(struct kl_source *s, uint64_t *size, struct kl_error **err);
/* Reads exactly n bytes at offset. KL_ETRUNCATED, KL_EFILE, KL_EREADER with every field of the
 * error set; KL_EDEADLOCK from a callback of the same source. */
int kl_source_read(struct kl_source *s, void *dst, size_t n, uint64_t offset,
                   const struct kl_bytes_of *what, struct kl_error **err);
/* For headers: calls seek and read of a custom reader where it has them. */
int kl_source_read_header(struct kl_source *s, void *dst, size_t n, uint64_t offset,
                          struct kl_error **err);
/* Appends to what was written before, through a custom writer. */
int kl_source_write(struct kl_source *s, const void *data, size_t n, const struct kl_bytes_of *what,
                    struct kl_error **err);

/* The reader stream for a load of `bytes`, which is the one with the least to do. *reader is its
 * number, 0 .. KL_SOURCE_READERS - 1. Borrowed: it lives as long as s. Loads of one reader never
 * overlap. */
enum { KL_SOURCE_READERS = 4 };
int kl_source_reader(struct kl_source *s, uint64_t bytes, struct kl_stream **stream, int *reader,
                     struct kl_error **err);
