/* codes_x86.h - codes spread to bytes by one instruction, for codes.h. */
#include <immintrin.h>

/* Eight codes of `bits` bits in the low bits of x, one to a byte. */
static inline uint64_t kl_codes_spread(int bits, uint64_t x) {
    return _pdep_u64(x, ((UINT64_C(1) << bits) - 1) * UINT64_C(0x0101010101010101));
}
