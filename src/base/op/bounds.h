/* bounds.h - the environment variable KEEL_BOUNDS. With KEEL_BOUNDS=off no backend checks indices,
 * as if every index were proved to be in range. This is unsafe: an index out of range reads or
 * writes whatever memory it leads to. It exists to measure what the checks cost. */
#pragma once
#include <stdbool.h>

bool kl_bounds_checked(void); /* read once from KEEL_BOUNDS; true unless it is "off" */
/* Says whether operations that are built from now on are checked, whatever KEEL_BOUNDS says. A
 * benchmark uses it to measure both cases on the same memory. */
void kl_bounds_measure(bool checked);
