/* source.h - what the format readers and writers ask of a source; see io.h for what it is.
 * Reads block; no lock of another layer may be held. */
#pragma once
#include "io/io.h"

/* One leaf lock for the small state of all sources, so that a fork can take it (base/fork_locks.h).
 * Held for a few instructions, never over a callback. */
void kl_io_lock(void);
void kl_io_unlock(void);

/* A name for a message: at most 100 bytes of it, control characters made harmless, since names come
 * from files and messages go to terminals. Returns buf. */
enum { KL_SHOWN = 104 };
const char *kl_show(char buf[KL_SHOWN], const char *name);

/* What bytes are read or written for, in messages. */
struct kl_bytes_of {
    const char *tensor;  /* NULL: the header */
    uint64_t begin, end; /* the whole range in the file */
};

/* Asks for the size (again); KL_SIZE_UNKNOWN when the source cannot tell. Also fetches the
 * label. */
int kl_source_measure(struct kl_source *s, uint64_t *size, struct kl_error **err);
/* Reads exactly n bytes at offset: KL_ETRUNCATED, KL_EFILE, KL_EREADER with every field of the
 * error, KL_EDEADLOCK from a callback of the same source. */
int kl_source_read(struct kl_source *s, void *dst, size_t n, uint64_t offset,
                   const struct kl_bytes_of *what, struct kl_error **err);
/* For headers: a custom reader gets seek and read where it has them. */
int kl_source_read_header(struct kl_source *s, void *dst, size_t n, uint64_t offset,
                          struct kl_error **err);
/* Writes through a custom writer, behind what it wrote before. */
int kl_source_write(struct kl_source *s, const void *data, size_t n, const struct kl_bytes_of *what,
                    struct kl_error **err);

/* The reader stream for a load of `bytes` (the one with the least to do), its lane 0 ..
 * KL_SOURCE_LANES - 1. Borrowed: lives as long as s. Loads of one lane never overlap. */
enum { KL_SOURCE_LANES = 4 };
int kl_source_lane(struct kl_source *s, uint64_t bytes, struct kl_stream **stream, int *lane,
                   struct kl_error **err);
