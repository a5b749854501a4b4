/* export.h - functions in files: what was traced of a function, its constants with it, to be called
 * in another process and on another device. docs/function-files.md describes the format. The files
 * hold no code, no paths and no proofs: an imported function goes through the builders of all its
 * operations, with their checks, at each call. */
#pragma once
#include "transforms/function.h"

/* The names of keyword arguments, whose arrays follow the others in this order. Strings are
 * borrowed. */
struct kl_names {
    const char *const *v;
    size_t n;
};

struct kl_exporter;
/* Nothing is written until kl_exporter_finish. KL_EARG: path is NULL. */
int kl_exporter_new(struct kl_exporter **out, const char *path, bool shapeless,
                    struct kl_error **err);
/* A text that is kept in the file, copied. */
int kl_exporter_set_metadata(struct kl_exporter *x, const char *text, struct kl_error **err);
/* Traces f for the dtypes and shapes of the arguments (the last names.n of them are named), and
 * adds it to the file. KL_EARG: the same kind of arguments was added before. KL_EUNSUPPORTED: f
 * has an operation that cannot be written, which the message names. */
int kl_exporter_add(struct kl_exporter *x, const struct kl_function *f,
                    struct kl_array *const *args, size_t n_args, struct kl_names names,
                    struct kl_error **err);
/* Evaluates the constants and writes the file, which replaces an older one when it is complete.
 * Frees x, also on failure; then the older file is as it was. */
int kl_exporter_finish(struct kl_exporter *x, struct kl_error **err);
void kl_exporter_abort(struct kl_exporter *x); /* frees x and writes nothing; NULL is fine */

/* ---- a function described ---- */

/* An argument, a constant or a result. Values have numbers: arguments, then constants, then results
 * of operations. */
struct kl_export_value {
    int number;
    enum kl_dtype dtype;
    int ndim;
    const int *dims;
};

/* One thing of a function. First comes what it takes, then what it gives, then each constant, then
 * each operation in an order in which they can be done. */
struct kl_export_event {
    enum { KL_EXPORT_INPUTS, KL_EXPORT_OUTPUTS, KL_EXPORT_CONSTANT, KL_EXPORT_OPERATION } kind;
    const char *name;       /* of the operation */
    const char *parameters; /* of the operation, as a list in JSON: fields, then their list */
    const struct kl_export_value *in, *out;
    size_t n_in, n_out;
    struct kl_names names;     /* of the last inputs, of KL_EXPORT_INPUTS */
    struct kl_array *constant; /* borrowed */
};
typedef int kl_export_visit_fn(void *ctx, const struct kl_export_event *event,
                               struct kl_error **err);
/* Tells what the first function of x is. A failure of visit ends it. */
int kl_exporter_visit(const struct kl_exporter *x, kl_export_visit_fn *visit, void *ctx,
                      struct kl_error **err);

/* ---- reading ---- */

struct kl_imported; /* shared, counted; immutable */
/* Reads a file. KL_EFILE; KL_EFORMAT with one message for each rule that it breaks. */
int kl_import(struct kl_imported **out, const char *path, struct kl_error **err);
/* The same of a file that is in memory; path is for messages. */
int kl_import_bytes(struct kl_imported **out, const void *bytes, size_t n, const char *path,
                    struct kl_error **err);
/* The text that was kept in the file; "": none was. Borrowed. */
const char *kl_imported_metadata(const struct kl_imported *m);
/* The plan and the names of the parameters of function i of the file, borrowed; NULL: there is no
 * function i. */
struct kl_plan;
const struct kl_plan *kl_imported_plan(const struct kl_imported *m, size_t i,
                                       struct kl_names *names);
void kl_imported_release(struct kl_imported *m);
/* Calls what was exported for such arguments. KL_EARG: nothing was, and the message says for
 * what. KL_ESHAPE, of a function for any shapes: it saw an extent, and now that is another. */
int kl_imported_call(const struct kl_imported *m, struct kl_array *const *args, size_t n_args,
                     struct kl_names names, struct kl_arrays *outs, struct kl_error **err);
