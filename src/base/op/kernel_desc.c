/* kernel_desc.c - see kernel_desc.h. */
#include "base/op/kernel_desc.h"

#include <string.h>

#include "base/alloc.h"
#include "base/refs.h"

struct kl_kernel_desc *kl_kernel_desc_new(const struct kl_kernel_desc *d) {
    size_t name = strlen(d->name) + 1, entry = strlen(d->entry) + 1;
    size_t source = d->program_bytes ? d->program_bytes : strlen(d->source);
    struct kl_kernel_desc *own = kl_malloc(sizeof *own + name + entry + source + 1);
    if (!own) return NULL;
    memcpy(own, d, sizeof *own);
    atomic_init(&own->refs, 1);
    char *text = (char *)(own + 1);
    own->name = memcpy(text, d->name, name);
    own->entry = memcpy(text + name, d->entry, entry);
    own->source = memcpy(text + name + entry, d->source, source);
    text[name + entry + source] = 0;
    return own;
}

struct kl_kernel_desc *kl_kernel_desc_retain(struct kl_kernel_desc *d) {
    atomic_fetch_add_explicit(&d->refs, 1, memory_order_relaxed);
    return d;
}

void kl_kernel_desc_release(struct kl_kernel_desc *d) {
    if (d && kl_refs_drop(&d->refs)) kl_free(d);
}
