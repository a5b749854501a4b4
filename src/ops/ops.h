/* ops.h - builders, which make lazy arrays from arguments: checks, shape and dtype rules; no
 * kernels.
 * Each returns 0, or a negative code with *err set (err may be NULL) and *out unchanged. KL_EARG: a
 * required array or a list with a count is NULL, or a bad scalar; KL_EDTYPE; KL_ESHAPE; KL_EAXIS;
 * KL_ENOMEM. Arrays that come in are borrowed. *out is a new reference that the caller owns,
 * possibly to an input that the operation does not change. Axes may be negative; a list may be NULL
 * when its count is 0. s is the stream; views and no-ops do not use it, otherwise NULL is KL_EARG.
 * Binary operations promote (kl_dtype_promote) and broadcast as NumPy does. Any thread may call. */
#pragma once
#include "ops/attention.h"
#include "ops/convert.h"
#include "ops/convolution.h"
#include "ops/create.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/join.h"
#include "ops/norm.h"
#include "ops/product.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/rope.h"
#include "ops/scan.h"
#include "ops/shape.h"
#include "ops/slice.h"
#include "ops/softmax.h"
#include "ops/sort.h"
