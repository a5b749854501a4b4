/* places.h - the blocks of a device whose driver has no addresses of its own (OpenCL, Metal): the
 * object of the driver that an address lies in, the bytes that are used, and blocks of the host
 * that commands read. Any thread may call. */
#pragma once
#include "base/error.h"
#include "base/thread.h"

struct kl_place {
    char *base;
    size_t bytes;    /* base + bytes is still an address of this block */
    size_t reserved; /* a number of the driver's */
    void *object;    /* of the driver; owned by the table */
    int n_given; /* for a block of the host: how many times the host has given it to the device */
};

struct kl_places {
    struct kl_mutex mu; /* a leaf; guards the fields below */
    /* Sorted by address, highest first: the system gives out falling addresses, so most new blocks
     * are added at the end. */
    struct kl_place *blocks;
    int n, room;
    size_t used_bytes;
};

void kl_places_init(struct kl_places *p);
/* Notes bytes as used; false: then more than `most` would be. */
bool kl_places_account(struct kl_places *p, size_t bytes, size_t most);
void kl_places_unaccount(struct kl_places *p, size_t bytes);
/* Finds the object that an address lies in, and where; false: in none. */
bool kl_places_find(struct kl_places *p, const void *address, void **object, size_t *offset);
/* Adds a block, whose bytes are accounted. KL_ENOMEM. */
int kl_places_add(struct kl_places *p, const struct kl_place *b, struct kl_error **err);
/* Takes out the block that begins at base; its bytes are not used any more. */
struct kl_place kl_places_remove(struct kl_places *p, const void *base);
/* Adds a block of the host; last: its last byte. *same: it is there already, and is counted once
 * more; the object stays the caller's. KL_EUNSUPPORTED: it overlaps another block. KL_ENOMEM. */
int kl_places_give(struct kl_places *p, const struct kl_place *b, const char *last, bool *same,
                   struct kl_error **err);
/* Undoes one kl_places_give. The object, which is the caller's from then on; NULL: the block is
 * still given. */
void *kl_places_take_back(struct kl_places *p, const void *base);
