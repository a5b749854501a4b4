/* declare.h - declares the functions that a column of op_list.def names, so that nobody repeats the
 * names:
 *     #define KL_OP(ID, name, n_in, flags, kernel, ...) KL_DECLARE(kl_kernel_fn, kernel)
 *     #include "base/op/op_list.def"
 * declares each as a kl_kernel_fn, and nothing for 0. A function that several rows name is declared
 * several times, which C allows. */
#pragma once

/* KL_DECLARE_0_ followed by the name is a macro for the name 0 alone; that one moves
 * KL_DECLARE_NOTHING to the place of KL_DECLARE_ONE. */
#define KL_DECLARE(type, name) KL_DECLARE_BY(KL_DECLARE_0_##name, KL_DECLARE_ONE, )(type, name)
#define KL_DECLARE_0_0 , KL_DECLARE_NOTHING
#define KL_DECLARE_BY(...) KL_DECLARE_SECOND(__VA_ARGS__)
#define KL_DECLARE_SECOND(first, second, ...) second
#define KL_DECLARE_ONE(type, name) type name;
#define KL_DECLARE_NOTHING(type, name)
