/* threefry.h - the counter-based generator Threefry-2x32 with 20 rounds (Salmon et al., 2011), and
 * how the stream of 32-bit words of a key is made from it. The kernel of RANDOM_BITS and the
 * process-wide sequence of keys use it. */
#pragma once
#include <stdint.h>

struct kl_threefry {
    uint32_t x[2];
};

static inline struct kl_threefry kl_threefry_2x32(struct kl_threefry key, uint32_t c0,
                                                  uint32_t c1) {
    static const unsigned char turn[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    const uint32_t ks[3] = {key.x[0], key.x[1], key.x[0] ^ key.x[1] ^ UINT32_C(0x1BD11BDA)};
    uint32_t a = c0 + ks[0], b = c1 + ks[1];
    for (uint32_t group = 1; group <= 5; group++) {
        const unsigned char *t = turn[(group - 1) & 1];
        for (int i = 0; i < 4; i++) {
            a += b;
            b = b << t[i] | b >> (32 - t[i]);
            b ^= a;
        }
        a += ks[group % 3];
        b += ks[(group + 1) % 3] + group;
    }
    return (struct kl_threefry){{a, b}};
}

/* The words of a stream come in pairs. With h = ceil(n_words / 2), pair i gives word i and word
 * h + i, from the counters (i, h + i). When n_words is odd, the last pair gives one word only, from
 * the counters (h - 1, 0). */
static inline struct kl_threefry kl_threefry_pair(struct kl_threefry key, int64_t n_words,
                                                  int64_t i) {
    int64_t h = (n_words + 1) / 2;
    int64_t second = (n_words & 1) && i == h - 1 ? 0 : h + i;
    return kl_threefry_2x32(key, (uint32_t)i, (uint32_t)second);
}
