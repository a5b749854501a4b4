/* spare.h - small blocks of malloc that are kept for the next use.
 *
 * One thread builds a graph, others run it and free it. malloc returns each block to the arena of
 * the thread that took it, under that arena's lock, which both threads then wait for. Here a thread
 * keeps what it frees, and whole batches go to threads that need some. Nothing here is a lock.
 * alloc.c alone calls these functions, and not where sanitizers must see each block freed. Any
 * thread may call them. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum {
    KL_SPARE_STEP = 64, /* bytes between two sizes; malloc takes 8 of them for itself */
    KL_SPARE_SIZES = 16,
    KL_SPARE_BATCH_BYTES = 16 << 10,
    /* Most batches of a size that no thread has, and of one that a thread has. */
    KL_SPARE_BATCHES = 64,
    KL_SPARE_OWN_BATCHES = 2,
};

/* The size to ask malloc for, so that the block can serve all requests like this one. */
size_t kl_spare_room(size_t bytes);
/* A block that has room for these bytes, or NULL. The caller frees it. */
void *kl_spare_take(size_t bytes);
/* Keeps a block of malloc; false: the caller must free it. p is not NULL. */
bool kl_spare_give(void *p);
/* Frees what no thread or this one keeps. */
void kl_spare_drop(void);
