/* custom.h - the user's callbacks as a place to read from and write to. Only source.c uses them. */
#pragma once
#include "io/source.h"

struct kl_custom;

/* Exactly one of `reader` and `at` is not NULL; that struct is copied. NULL when out of memory. */
struct kl_custom *kl_custom_new(const struct kl_reader_ops *reader, const struct kl_read_at_ops *at,
                                void *desc);
void kl_custom_free(struct kl_custom *c); /* calls the user's free callback */
void *kl_custom_desc(const struct kl_custom *c);
const char *kl_custom_label(struct kl_custom *c); /* asks the callback once; never NULL */
int kl_custom_measure(struct kl_custom *c, uint64_t *size, struct kl_error **err);
int kl_custom_read(struct kl_custom *c, void *dst, size_t n, uint64_t offset, bool header,
                   const struct kl_bytes_of *what, struct kl_error **err);
int kl_custom_write(struct kl_custom *c, const void *data, size_t n, const struct kl_bytes_of *what,
                    struct kl_error **err);
