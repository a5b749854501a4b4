/* places.c - see places.h. */
#include "backend/gpu/places.h"

#include <string.h>

#include "base/alloc.h"

void kl_places_init(struct kl_places *p) {
    kl_mutex_init(&p->mu);
}

/* The first block of the table that begins at the address or below: only this one may contain the
 * address. The caller holds mu, here and below. */
static int first_below(const struct kl_places *p, const char *address) {
    int low = 0, high = p->n;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (p->blocks[middle].base > address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int insert(struct kl_places *p, const struct kl_place *b) {
    if (p->n == p->room) {
        int room = p->room ? 2 * p->room : 64;
        struct kl_place *more = kl_realloc(p->blocks, (size_t)room * sizeof *more);
        if (!more) return KL_ENOMEM;
        p->blocks = more;
        p->room = room;
    }
    int i = first_below(p, b->base);
    memmove(&p->blocks[i + 1], &p->blocks[i], (size_t)(p->n - i) * sizeof *p->blocks);
    p->blocks[i] = *b;
    p->n++;
    return KL_OK;
}

static struct kl_place *block_at(struct kl_places *p, const void *base) {
    int i = first_below(p, base);
    kl_assert(i < p->n && p->blocks[i].base == (const char *)base);
    return &p->blocks[i];
}

static struct kl_place take_out(struct kl_places *p, struct kl_place *b) {
    struct kl_place out = *b;
    p->n--;
    memmove(b, b + 1, (size_t)(&p->blocks[p->n] - b) * sizeof *b);
    return out;
}

bool kl_places_account(struct kl_places *p, size_t bytes, size_t most) {
    kl_mutex_lock(&p->mu);
    bool fits = bytes <= most && p->used_bytes <= most - bytes;
    if (fits) p->used_bytes += bytes;
    kl_mutex_unlock(&p->mu);
    return fits;
}

void kl_places_unaccount(struct kl_places *p, size_t bytes) {
    kl_mutex_lock(&p->mu);
    p->used_bytes -= bytes;
    kl_mutex_unlock(&p->mu);
}

bool kl_places_find(struct kl_places *p, const void *address, void **object, size_t *offset) {
    kl_mutex_lock(&p->mu);
    int i = first_below(p, address);
    const struct kl_place *b = i < p->n ? &p->blocks[i] : NULL;
    bool inside = b && (size_t)((const char *)address - b->base) <= b->bytes;
    if (inside) {
        *object = b->object;
        *offset = (size_t)((const char *)address - b->base);
    }
    kl_mutex_unlock(&p->mu);
    return inside;
}

int kl_places_add(struct kl_places *p, const struct kl_place *b, struct kl_error **err) {
    kl_mutex_lock(&p->mu);
    int rc = insert(p, b);
    kl_mutex_unlock(&p->mu);
    return rc ? kl_fail_nomem(err) : KL_OK;
}

struct kl_place kl_places_remove(struct kl_places *p, const void *base) {
    kl_mutex_lock(&p->mu);
    struct kl_place b = take_out(p, block_at(p, base));
    p->used_bytes -= b.bytes;
    kl_mutex_unlock(&p->mu);
    return b;
}

int kl_places_give(struct kl_places *p, const struct kl_place *b, const char *last, bool *same,
                   struct kl_error **err) {
    int rc = KL_OK;
    kl_mutex_lock(&p->mu);
    int i = first_below(p, last);
    struct kl_place *there = i < p->n ? &p->blocks[i] : NULL;
    *same = there && there->base == b->base && there->bytes == b->bytes;
    if (*same)
        there->n_given++;
    else if (there && there->base + there->bytes > b->base)
        rc = KL_EUNSUPPORTED;
    else if (insert(p, b))
        rc = kl_fail_nomem(err);
    kl_mutex_unlock(&p->mu);
    return rc;
}

void *kl_places_take_back(struct kl_places *p, const void *base) {
    void *object = NULL;
    kl_mutex_lock(&p->mu);
    struct kl_place *b = block_at(p, base);
    kl_assert(b->n_given > 0);
    if (--b->n_given == 0) object = take_out(p, b).object;
    kl_mutex_unlock(&p->mu);
    return object;
}
