/* safetensors.h - what the reader and the writer of .safetensors share. */
#pragma once
#include "base/number/dtype.h"

extern const char *const kl_safetensors_dtypes[KL_N_DTYPES]; /* such as "F32"; by enum kl_dtype */
