/* picture.h - a graph that is not evaluated yet, as text or in the language of Graphviz. */
#pragma once
#include <stdio.h>

#include "transforms/function.h"

struct kl_namer; /* names for arrays; not for several threads at once */
struct kl_namer *kl_namer_new(struct kl_error **err); /* NULL: out of memory */
void kl_namer_free(struct kl_namer *n);               /* NULL is fine */
/* Names the array; a name that it had before is replaced. The array stays alive with the namer. */
int kl_namer_set(struct kl_namer *n, struct kl_array *a, const char *name, struct kl_error **err);
/* The name of the array: what was set, or the next of A, B, ..., Z, AA, AB, ... that was not. It is
 * valid until it is replaced or the namer is freed. */
int kl_namer_get(struct kl_namer *n, struct kl_array *a, const char **name, struct kl_error **err);

/* Writes what the outputs are made from: one operation a line as text, or a digraph for Graphviz.
 * Arrays that are evaluated are inputs. KL_EFILE: the stream does not take it. */
int kl_picture(FILE *to, struct kl_namer *names, struct kl_array *const *outs, size_t n, bool dot,
               struct kl_error **err);
