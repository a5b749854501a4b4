/* param_form.h - the parameters of operations field by field, for files: what a struct of
 * op_params.h holds, without its padding. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/op/op.h"

enum { KL_PARAM_FIELDS = 6, KL_PARAM_HEAD = 64 /* bytes before the list, at most */ };

struct kl_param_field {
    char type; /* 'i' int, 'b' bool, 'f' float, 'd' double; 0: no more fields */
    uint16_t offset;
};
struct kl_param_form {
    struct kl_param_field field[KL_PARAM_FIELDS];
    char tail;     /* type of the entries of the list after the fields: 'i', 'l' int64; 0: none */
    uint16_t head; /* where the list begins; without a list, the size of the struct */
};

/* The form that op_params.def gives to the structure that the row of the operation names. NULL:
 * parameters of the operation cannot be written to a file. */
const struct kl_param_form *kl_param_form(enum kl_op_id op);
/* Whether `bytes` bytes of parameters are as many as the form says. */
bool kl_params_have_form(enum kl_op_id op, size_t bytes);
size_t kl_param_bytes(char type);
