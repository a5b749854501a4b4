/* deterministic.h - KEEL_DETERMINISTIC=1: results on a device have the same bits on every run, and where several updates meet in one place they come in the
 * order of their positions, as on the CPU. Slower: see docs/numerics.md. */
#pragma once
#include <stdbool.h>

bool kl_deterministic(void); /* read once from KEEL_DETERMINISTIC */
