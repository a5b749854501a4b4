/* param_form.c - see param_form.h. The forms expand from op_params.def, and which operation has
 * which from the column `params` of op_list.def: an operation that names no structure, or one
 * without a form, does not compile. */
#include "base/op/param_form.h"

#include "base/op/op_params.h"

#define STRUCT(owner) struct kl_##owner##_params
/* The letter of a type; a type that files do not know is an error of the compiler. */
#define LETTER(type)         \
    _Generic((type)0, int    \
             : 'i', unsigned \
             : 'i', bool     \
             : 'b', float    \
             : 'f', double   \
             : 'd', int64_t  \
             : 'l')
_Static_assert(sizeof(unsigned) == sizeof(int), "an enum is read as an int");

enum form {
    FORM_none,
#define KL_PARAMS(owner) FORM_##owner,
#include "base/op/op_params.def"
    N_FORMS,
#define KL_NO_FORM(owner) FORM_##owner,
#include "base/op/op_params.def"
};

/* clang-format off */
static const struct kl_param_form forms[N_FORMS] = {
    [FORM_none] = {.head = 0},
#define PART(owner, at, type, name, doc) {LETTER(type), offsetof(STRUCT(owner), at name)},
#define KL_PARAMS(owner) [FORM_##owner] = {{
#define KL_FIELD(owner, type, name, doc) PART(owner, , type, name, doc)
#define KL_FIELDS(owner, FIELDS) FIELDS(PART, owner, )
#define KL_MEMBER(owner, type, name, FIELDS) FIELDS(PART, owner, name.)
#define KL_END(owner) }, 0, sizeof(STRUCT(owner))},
#define KL_END_LIST(owner, type, name, count, most, doc) \
    }, LETTER(type), offsetof(STRUCT(owner), name)},
#define KL_END_LONG_LIST(owner, type, name, doc) }, LETTER(type), offsetof(STRUCT(owner), name)},
#define KL_END_ARRAYS(owner, type, first, doc) }, LETTER(type), offsetof(STRUCT(owner), first)},
#include "base/op/op_params.def"
};
/* clang-format on */

/* Readers of files put the fields before the list into KL_PARAM_HEAD bytes; and arrays are a list,
 * with nothing between or after them. */
#define FITS(bytes) _Static_assert((bytes) <= KL_PARAM_HEAD, "the head of the parameters")
#define KL_END(owner) FITS(sizeof(STRUCT(owner)));
#define KL_END_LIST(owner, type, name, ...) FITS(offsetof(STRUCT(owner), name));
#define KL_END_LONG_LIST(owner, type, name, ...) FITS(offsetof(STRUCT(owner), name));
#define KL_END_ARRAYS(owner, type, first, doc) FITS(offsetof(STRUCT(owner), first));
#define KL_ARRAY(owner, type, name, n)                                  \
    _Static_assert(offsetof(STRUCT(owner), name) % sizeof(type) == 0 && \
                       sizeof(STRUCT(owner)) % sizeof(type) == 0,       \
                   "an array that is a part of the list");
#include "base/op/op_params.def"

const struct kl_param_form *kl_param_form(enum kl_op_id op) {
    static const uint8_t of[KL_N_OPS] = {
#define KL_OP(ID, name, n_in, flags, kernel, lowering, indices, range, vjp, jvp, vmap, build, \
              params)                                                                         \
    [KL_OP_##ID] = FORM_##params,
#include "base/op/op_list.def"
    };
    return of[op] < N_FORMS ? &forms[of[op]] : NULL;
}

bool kl_params_have_form(enum kl_op_id op, size_t bytes) {
    const struct kl_param_form *f = kl_param_form(op);
    if (!f || bytes < f->head) return false;
    return f->tail ? (bytes - f->head) % kl_param_bytes(f->tail) == 0 : bytes == f->head;
}

size_t kl_param_bytes(char type) {
    switch (type) {
    case 'b': return sizeof(bool);
    case 'd': return sizeof(double);
    case 'l': return sizeof(int64_t);
    case 'f': return sizeof(float);
    default: return sizeof(int);
    }
}
