/* safetensors.h - what reading and writing of safetensors share. */
#pragma once
#include "base/dtype.h"

extern const char *const kl_safetensors_dtypes[KL_N_DTYPES]; /* "F32", by enum kl_dtype */
