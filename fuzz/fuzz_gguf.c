/* fuzz_gguf.c - reads any bytes as a .gguf file. There must be no crash, no leak, no hang, and no
 * use of more memory than the bytes can fill. */
#include "fuzz_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    return fuzz_file(data, n, KL_FORMAT_GGUF);
}
