/* fft_f64.c - the transforms in double. */
#include <string.h>

#include "backend/cpu/fft/fft.h"
#include "backend/cpu/operand/patch.h"
#include "backend/cpu/vector/lanes.h"

#define T double
#define NAME f64
#include "backend/cpu/fft/passes.inc"
#include "backend/cpu/fft/lines.inc"
/* defines kl_fft_run_f64 */
#include "backend/cpu/fft/alone.inc"
