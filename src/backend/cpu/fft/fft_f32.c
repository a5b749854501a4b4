/* fft_f32.c - the transforms in float. */
#include <string.h>

#include "backend/cpu/fft/fft.h"
#include "backend/cpu/operand/patch.h"
#include "backend/cpu/vector/lanes.h"

#define T float
#define NAME f32
#include "backend/cpu/fft/passes.inc"
#include "backend/cpu/fft/lines.inc"
/* defines kl_fft_run_f32 */
#include "backend/cpu/fft/alone.inc"
