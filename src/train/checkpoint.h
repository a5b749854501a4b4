/* checkpoint.h - parameters, the state of an optimiser and texts in one .safetensors file. Names of
 * the state begin with "optimizer."; the metadata entry "optimizer" tells the optimiser's kind. The
 * conventions of optimizer.h hold. */
#pragma once
#include "io/io.h"
#include "train/optimizer.h"

/* All fields are borrowed. */
struct kl_checkpoint_content {
    char *const *names; /* of the parameters */
    size_t n_names;
    struct kl_array *const *params;
    size_t n_params;
    const struct kl_optimizer *optimizer; /* NULL: none */
    const struct kl_pair *texts;
    size_t n_texts;
};
/* KL_EARG: counts that do not fit together, or names and keys that the optimiser's state has. */
int kl_checkpoint_save(const char *path, const struct kl_checkpoint_content *k,
                       struct kl_error **err);

struct kl_checkpoint {
    struct kl_array **params, **state; /* lazy; owned, in lists of memory of kl_malloc */
    size_t n_params, n_state;
    const struct kl_pair *texts; /* all metadata; borrowed from the file */
    size_t n_texts;
    struct kl_file *file;
    struct kl_source *source;
};
/* Reads the parameters of these names and, with an optimiser, the state for them; o is not changed.
 * On failure *k is empty. KL_EFORMAT: a tensor is missing, or the state is of another kind. */
int kl_checkpoint_load(struct kl_checkpoint *k, const char *path, char *const *names, size_t n,
                       const struct kl_optimizer *o, struct kl_error **err);
void kl_checkpoint_free(struct kl_checkpoint *k);
