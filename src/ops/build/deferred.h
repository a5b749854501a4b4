/* deferred.h - calls that a trace for any shapes records as they were made, instead of what they
 * made: with which extents they work is known at the replay only. A builder that uses extents of
 * its operands as numbers begins with KL_DEFER, so nothing that it does afterwards can leave an
 * extent of the trace in a plan. The rules of transforms are not applied to operations of such a
 * trace either; transforms/deferred.h records that they are to be applied. */
#pragma once
#include <stdarg.h>

#include "graph/array.h"
#include "graph/trace.h"

/* A call is a list of ints: its number (deferred.def), then its arguments by the form of its row:
 *   i, b  an int, a bool              l, L  a list of ints, of int64: the count, then the entries
 *   d     a double, the low half first    z  text: the bytes, or -1 for NULL, then four in each int
 *   a     an array: nothing; it is the next input     v  as many of the next inputs as the int says
 *   o     an optional array: 1, and it is the next input; or 0 */
enum kl_deferred_kind {
    /* transforms/deferred.h */
    KL_DEFERRED_OP = 1,
    KL_DEFERRED_VJP,
    KL_DEFERRED_JVP,
    KL_DEFERRED_VMAP,
    KL_DEFERRED_LANES,
#define KL_DEFERRED(number, NAME, form, call) KL_DEFERRED_##NAME = number,
#include "ops/build/deferred.def"
    KL_DEFERRED_END
};

/* A list of ints that grows. Begins as {0}; after a failure n is -1. */
struct kl_ints {
    int *v; /* owned; kl_ints_free */
    int n, room;
};
void kl_ints_add(struct kl_ints *l, int x);
void kl_ints_add_list(struct kl_ints *l, const int *v, size_t n); /* the count, then the entries */
void kl_ints_add_bytes(struct kl_ints *l, const void *bytes, size_t n);
void kl_ints_free(struct kl_ints *l);

/* Reads such a list, which may come from a file; bad is set where it does not go on as asked. */
struct kl_ints_reader {
    const int *v;
    int n, at;
    bool bad;
};
int kl_ints_next(struct kl_ints_reader *r);
/* A count of what follows in the list, `each` ints apiece at most. */
int kl_ints_count(struct kl_ints_reader *r, int each);
/* Bytes of kl_ints_add_bytes, n of them and a final 0, in new memory; NULL: bad, or no memory. */
char *kl_ints_bytes(struct kl_ints_reader *r, size_t *n);

/* The builder of a call in capitals, as "SQUEEZE"; NULL: it is not one of a builder. */
const char *kl_deferred_builder(int kind);

/* Makes a call: *out is a new reference. */
typedef int kl_deferred_fn(const int *v, int n, struct kl_array *const *in, int n_in,
                           struct kl_stream *s, struct kl_array **out, struct kl_error **err);
/* For calls of builders. KL_EARG: a call or arguments that do not exist; else the builder's. */
kl_deferred_fn kl_deferred_build;
/* Records a call: *out is of the operation DEFERRED, of the dtype and shape that `call` gives with
 * the extents of now. */
int kl_deferred_record(struct kl_array **out, kl_deferred_fn *call, const struct kl_ints *l,
                       struct kl_array *const *in, int n_in, struct kl_stream *s,
                       struct kl_error **err);

/* Whether a call is recorded, since one of its arrays belongs to a trace for any shapes; then *rc
 * is the code of the builder. Arguments follow the form of the kind: arrays, int, bool and double
 * as such, lists as pointer and size_t, text as const char *. */
bool kl_defer(int *rc, struct kl_array **out, enum kl_deferred_kind kind, struct kl_stream *s,
              struct kl_error **err, ...);
#define KL_DEFER(kind, ...)                                                     \
    do {                                                                        \
        int deferred_;                                                          \
        if (kl_shapeless_traces() &&                                            \
            kl_defer(&deferred_, out, KL_DEFERRED_##kind, s, err, __VA_ARGS__)) \
            return deferred_;                                                   \
    } while (0)
/* The same for a builder of `count` arrays, of which each is a call with its number after the other
 * arguments. outs and n_outs are the builder's. */
bool kl_defer_many(int *rc, struct kl_array ***outs, size_t *n_outs, size_t count,
                   enum kl_deferred_kind kind, struct kl_stream *s, struct kl_error **err, ...);
