/* functions_convert.c - the same values in another dtype or layout */
#include "keel_python.h"
