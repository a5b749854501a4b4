/* fuzz_npy.c - any bytes as a .npy: no crash, no leak, no hang, no memory beyond what the bytes can
 * fill. */
#include "fuzz_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    return fuzz_file(data, n, KL_FORMAT_NPY);
}
