/* checkpoint.c - see checkpoint.h. */
#include "train/checkpoint.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

static const char own_prefix[] = "optimizer.", step_name[] = "optimizer.step";
static const char kind_key[] = "optimizer", moments[] = "mv";

static const char *kind_name(const struct kl_optimizer *o) {
    return o->rule.kind == KL_OPTIMIZER_SGD ? "sgd" : o->rule.decoupled ? "adamw" : "adam";
}

/* The name of array k of the state, to be freed with kl_free; NULL: no memory. */
static char *state_name(char *const *names, size_t n, size_t k) {
    if (k == 0) return kl_strdup(step_name);
    const char *param = names[(k - 1) % n];
    size_t room = sizeof own_prefix + strlen(param) + 3;
    char *made = kl_malloc(room);
    if (made) snprintf(made, room, "%s%c.%s", own_prefix, moments[(k - 1) / n], param);
    return made;
}

static int check_names(char *const *names, size_t n, struct kl_error **err) {
    for (size_t i = 0; i < n; i++)
        if (strncmp(names[i], own_prefix, sizeof own_prefix - 1) == 0)
            return kl_fail(err, KL_EARG,
                           "parameter %zu is named '%.100s'; names that begin with '%s' are those "
                           "of the optimiser's state",
                           i, names[i], own_prefix);
    return KL_OK;
}

/* ---- saving ---- */

/* The contents of the file: the parameters, then the state; and the texts, then the kind. */
struct contents {
    struct kl_named *tensors;
    struct kl_pair *pairs;
    char **made; /* the names of the state, owned */
    size_t n_state;
};

static int contents_fill(struct contents *f, const struct kl_checkpoint_content *k,
                         struct kl_error **err) {
    const struct kl_optimizer *o = k->optimizer;
    f->n_state = o ? o->n_state : 0;
    f->tensors = kl_calloc(k->n_names + f->n_state + 1, sizeof *f->tensors);
    f->pairs = kl_calloc(k->n_texts + 1, sizeof *f->pairs);
    f->made = kl_calloc(f->n_state + 1, sizeof *f->made);
    if (!f->tensors || !f->pairs || !f->made) return kl_fail_nomem(err);
    for (size_t i = 0; i < k->n_names; i++)
        f->tensors[i] = (struct kl_named){k->names[i], k->params[i]};
    for (size_t i = 0; i < f->n_state; i++) {
        if (!(f->made[i] = state_name(k->names, k->n_names, i))) return kl_fail_nomem(err);
        f->tensors[k->n_names + i] = (struct kl_named){f->made[i], o->state[i]};
    }
    for (size_t i = 0; i < k->n_texts; i++) f->pairs[i] = k->texts[i];
    if (o) f->pairs[k->n_texts] = (struct kl_pair){kind_key, kind_name(o)};
    return KL_OK;
}

static void contents_free(struct contents *f) {
    for (size_t i = 0; f->made && i < f->n_state; i++) kl_free(f->made[i]);
    kl_free(f->made);
    kl_free(f->pairs);
    kl_free(f->tensors);
}

static int check_content(const struct kl_checkpoint_content *k, struct kl_error **err) {
    const struct kl_optimizer *o = k->optimizer;
    KL_TRY(check_names(k->names, k->n_names, err));
    if (k->n_names != k->n_params)
        return kl_fail(err, KL_EARG, "%zu names and %zu parameters are given; they are as many",
                       k->n_names, k->n_params);
    if (o && o->n_state && o->n_state != kl_optimizer_state_size(o, k->n_params))
        return kl_fail(err, KL_EARG,
                       "the optimiser's state has %zu arrays; for %zu parameters it has %zu",
                       o->n_state, k->n_params, kl_optimizer_state_size(o, k->n_params));
    for (size_t i = 0; o && i < k->n_texts; i++)
        if (strcmp(k->texts[i].key, kind_key) == 0)
            return kl_fail(err, KL_EARG,
                           "metadata has the key '%s', which tells the kind of the optimiser",
                           kind_key);
    return KL_OK;
}

int kl_checkpoint_save(const char *path, const struct kl_checkpoint_content *k,
                       struct kl_error **err) {
    struct contents f = {0};
    KL_TRY(check_content(k, err));
    int rc = contents_fill(&f, k, err);
    if (!rc)
        rc = kl_save_safetensors((struct kl_dest){.path = path}, f.tensors, k->n_names + f.n_state,
                                 f.pairs, k->n_texts + (k->optimizer != NULL), err);
    contents_free(&f);
    return rc;
}

/* ---- loading ---- */

/* A new lazy array of the named tensor. */
static int load_named(struct kl_array **out, struct kl_file *f, const char *name,
                      struct kl_error **err) {
    size_t i = 0;
    while (i < f->n && strcmp(f->tensors[i].name, name)) i++;
    if (i < f->n) return kl_file_array(out, f, i, NULL, err);
    return kl_fail_info(err,
                        &(struct kl_error_info){
                            .code = KL_EFORMAT, .tensor = name, .file = kl_source_label(f->source)},
                        "%.500s has no tensor '%.100s'", kl_source_label(f->source), name);
}

static const char *find_text(const struct kl_file *f, const char *key) {
    for (size_t i = 0; i < f->n_metadata; i++)
        if (strcmp(f->metadata[i].key, key) == 0) return f->metadata[i].value;
    return NULL;
}

/* A list of n arrays, NULL at first. */
static int list_new(struct kl_array ***list, size_t n, struct kl_error **err) {
    *list = kl_calloc(n + 1, sizeof **list);
    return *list ? KL_OK : kl_fail_nomem(err);
}

/* The state for n parameters. */
static int load_state(struct kl_checkpoint *k, const struct kl_optimizer *o, char *const *names,
                      size_t n, struct kl_error **err) {
    struct kl_file *f = k->file;
    const char *kind = find_text(f, kind_key);
    if (!kind || strcmp(kind, kind_name(o)))
        return kl_fail_info(
            err, &(struct kl_error_info){.code = KL_EFORMAT, .file = kl_source_label(f->source)},
            "%.500s has the state of %.50s, not of %s", kl_source_label(f->source),
            kind ? kind : "no optimiser", kind_name(o));
    bool started = false; /* an optimiser that has taken no step is saved without a state */
    for (size_t i = 0; i < f->n; i++) started |= strcmp(f->tensors[i].name, step_name) == 0;
    k->n_state = started ? kl_optimizer_state_size(o, n) : 0;
    KL_TRY(list_new(&k->state, k->n_state, err));
    for (size_t i = 0; i < k->n_state; i++) {
        char *name = state_name(names, n, i);
        int rc = name ? load_named(&k->state[i], f, name, err) : kl_fail_nomem(err);
        kl_free(name);
        if (rc) return rc;
    }
    return KL_OK;
}

static int load(struct kl_checkpoint *k, const char *path, char *const *names, size_t n,
                const struct kl_optimizer *o, struct kl_error **err) {
    KL_TRY(check_names(names, n, err));
    KL_TRY(kl_source_open_file(&k->source, path, err));
    KL_TRY(kl_file_open(&k->file, k->source, KL_FORMAT_SAFETENSORS, err));
    k->texts = k->file->metadata;
    k->n_texts = k->file->n_metadata;
    KL_TRY(list_new(&k->params, n, err));
    k->n_params = n;
    for (size_t i = 0; i < n; i++) KL_TRY(load_named(&k->params[i], k->file, names[i], err));
    return o ? load_state(k, o, names, n, err) : KL_OK;
}

int kl_checkpoint_load(struct kl_checkpoint *k, const char *path, char *const *names, size_t n,
                       const struct kl_optimizer *o, struct kl_error **err) {
    *k = (struct kl_checkpoint){0};
    int rc = load(k, path, names, n, o, err);
    if (rc) kl_checkpoint_free(k);
    return rc;
}

void kl_checkpoint_free(struct kl_checkpoint *k) {
    for (size_t i = 0; k->params && i < k->n_params; i++) kl_array_release(k->params[i]);
    for (size_t i = 0; k->state && i < k->n_state; i++) kl_array_release(k->state[i]);
    kl_free(k->params);
    kl_free(k->state);
    kl_file_close(k->file);
    kl_source_release(k->source);
    *k = (struct kl_checkpoint){0};
}
