/* product_gather.h - GATHER_MM of single rows by matrix units, with the matrices in parts: where
 * all of them together would take too much memory. */
#pragma once
#include "backend/gpu/lower/product_route.h"

extern const struct kl_family kl_family_gather_sm90; /* not in kl_families */

struct kl_gather_part {
    int64_t first, n;      /* matrices; those of c are numbered from `first` on */
    struct kl_route route; /* made at the first part; tiles NULL before */
};

/* The rows of c, a GATHER_MM of dense single rows that matrix units take, whose matrix is one of
 * the part. The second argument of c has the matrices of the part in memory, and all of them in its
 * extent. */
int kl_lower_gather_part(struct kl_emit *e, const struct kl_command *c,
                         struct kl_gather_part *part);
