/* kernel_source.h - the source around the text of a custom kernel: what ops/kernel.c (the common
 * dialect, CUDA C++) and ops/kernel_metal.c share. */
#pragma once
#include "ops/kernel.h"

struct kl_kernel_text {
    char *s;
    size_t n, room;
    bool failed;
};

/* One argument of the generated function. */
struct kl_kernel_operand {
    const char *name;
    enum kl_dtype dtype;
    int ndim;
    bool described;
};

struct kl_kernel_generator {
    const struct kl_kernel *k;
    const struct kl_kernel_use *use;
    struct kl_kernel_operand args[KL_KERNEL_MAX_ARGS];
    int n_args;
    struct kl_kernel_text text;
};

__attribute__((format(printf, 2, 3))) void kl_kernel_add(struct kl_kernel_text *t, const char *fmt,
                                                         ...);
/* The struct of base/op/kernel_desc.h, with these names of types. */
void kl_kernel_add_block(struct kl_kernel_generator *g, const char *i64, const char *i32);
/* The names that a body in C++ has in addition to those of the arrays: template arguments, with
 * these names of dtypes, and of each array whose shape is asked for that, strides, number of axes
 * and size. shape, strides: how they are declared. */
void kl_kernel_add_names(struct kl_kernel_generator *g, const char *const *types, const char *shape,
                         const char *strides);
/* A text of the user with #line, so that messages have the line numbers of that text. */
void kl_kernel_add_users(struct kl_kernel_generator *g, const char *what, const char *body);
/* Whether the source or the header has the word in it. */
bool kl_kernel_speaks_of(const struct kl_kernel *k, const char *word);
/* kernel_metal.c */
void kl_kernel_metal_source(struct kl_kernel_generator *g);
