/* bounds.h - KEEL_BOUNDS=off: no index is checked on any backend, as if every one were proved. For measuring what the checks cost, and unsafe: an
 * index out of range reads or writes whatever memory it leads to. */
#pragma once
#include <stdbool.h>

bool kl_bounds_checked(void); /* read once from KEEL_BOUNDS; true unless it is "off" */
/* What operations that are built from now on do, whatever KEEL_BOUNDS says: so that a benchmark has both on the same memory. */
void kl_bounds_measure(bool checked);
