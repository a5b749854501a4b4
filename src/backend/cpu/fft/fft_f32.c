/* fft_f32.c - the transforms in float. */
#include <string.h>

#include "backend/cpu/fft/fft.h"
#include "backend/cpu/operand/patch.h"
#include "backend/cpu/vector/lanes.h"
#include "backend/cpu/vector/shuffle.h"

#define T float
#define NAME f32
#define N KL_FFT_LANES_F32
#include "backend/cpu/fft/passes.inc"
#include "backend/cpu/fft/contiguous.inc"
#include "backend/cpu/fft/lines.inc"
/* defines kl_fft_run_f32 */
#include "backend/cpu/fft/alone.inc"
