/* deterministic.h - the environment variable KEEL_DETERMINISTIC. With KEEL_DETERMINISTIC=1 results
 * on a device have the same bits on every run. Where several updates meet at one place, they are
 * applied in the order of their positions, as on the CPU. This is slower: see docs/numerics.md. */
#pragma once
#include <stdbool.h>

bool kl_deterministic(void); /* read once from KEEL_DETERMINISTIC */
