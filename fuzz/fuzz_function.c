/* fuzz_function.c - reads any bytes as a file of functions, calls every function for the arguments
 * that it names, and reads the results. There must be no crash, no leak, no hang, and no use of more
 * memory than a limit. */
#include <stdlib.h>
#include <string.h>

#include "runtime/block_pool.h"
#include "transforms/export.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
