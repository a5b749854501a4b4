/* gguf_blocks.c - what the blocks of the .gguf format mean. Types, layouts and formulas are those
 * of the format's description (ggml, docs/gguf.md) and of its reference implementation: a block of
 * 32 or 256 numbers has small integers, a scale d, and for some an offset m; the types with K also
 * have a scale for each 16 or 32 numbers. */
#include <string.h>

#include "base/number/dtype.h"
#include "io/gguf.h"

static float half_at(const unsigned char *p) {
    uint16_t bits;
    memcpy(&bits, p, 2);
    return kl_f16_to_f32(bits);
}

static uint32_t word_at(const unsigned char *p) {
    uint32_t bits;
    memcpy(&bits, p, 4);
    return bits;
}

/* Blocks of 32: element i is in the lower half of byte i, element i + 16 in the upper half. */
static int nibble(const unsigned char *q, int i) {
    return i < 16 ? q[i] & 15 : q[i - 16] >> 4;
}

static void q4_0(float *y, const unsigned char *b) {
    for (int i = 0; i < 32; i++) y[i] = (float)(nibble(b + 2, i) - 8) * half_at(b);
}

static void q4_1(float *y, const unsigned char *b) {
    for (int i = 0; i < 32; i++) y[i] = (float)nibble(b + 4, i) * half_at(b) + half_at(b + 2);
}

static void q5_0(float *y, const unsigned char *b) {
    uint32_t high = word_at(b + 2);
    for (int i = 0; i < 32; i++)
        y[i] = (float)((nibble(b + 6, i) | (int)(high >> i & 1) << 4) - 16) * half_at(b);
}

static void q5_1(float *y, const unsigned char *b) {
    uint32_t high = word_at(b + 4);
    for (int i = 0; i < 32; i++)
        y[i] = (float)(nibble(b + 8, i) | (int)(high >> i & 1) << 4) * half_at(b) + half_at(b + 2);
}

static void q8_0(float *y, const unsigned char *b) {
    for (int i = 0; i < 32; i++) y[i] = (float)(int8_t)b[2 + i] * half_at(b);
}

static void iq4_nl(float *y, const unsigned char *b) {
    static const int8_t values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};
    for (int i = 0; i < 32; i++) y[i] = (float)values[nibble(b + 2, i)] * half_at(b);
}

/* Two bits of element i of 256: of every 128 elements, byte i % 32 has those of i, i + 32, .. */
static int two_bits(const unsigned char *q, int i) {
    return q[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
}

static void q2_k(float *y, const unsigned char *b) {
    float d = half_at(b + 80), m = half_at(b + 82);
    for (int i = 0; i < 256; i++) {
        int scale = b[i / 16];
        y[i] = d * (float)(scale & 15) * (float)two_bits(b + 16, i) - m * (float)(scale >> 4);
    }
}

static void q3_k(float *y, const unsigned char *b) {
    const unsigned char *scales = b + 96;
    float d = half_at(b + 108);
    for (int i = 0; i < 256; i++) {
        int k = i / 16, low = k < 8 ? scales[k] & 15 : scales[k - 8] >> 4,
            scale = (low | (scales[8 + k % 4] >> k / 4 * 2 & 3) << 4) - 32,
            q = two_bits(b + 32, i) - (b[i % 32] >> i / 32 & 1 ? 0 : 4);
        y[i] = d * (float)scale * (float)q;
    }
}

/* Scale and offset k of the 8 that 12 bytes hold, 6 bits each. */
static void scale_of(const unsigned char *s, int k, float *scale, float *offset) {
    int a = k < 4 ? s[k] & 63 : (s[k + 4] & 15) | s[k - 4] >> 6 << 4;
    int b = k < 4 ? s[k + 4] & 63 : s[k + 4] >> 4 | s[k] >> 6 << 4;
    *scale = (float)a;
    *offset = (float)b;
}

/* Four bits of element i of 256: of every 64 elements, byte i % 32 has those of i and i + 32. */
static int four_bits(const unsigned char *q, int i) {
    return q[i / 64 * 32 + i % 32] >> i % 64 / 32 * 4 & 15;
}

static void q4_k(float *y, const unsigned char *b) {
    float d = half_at(b), m = half_at(b + 2), scale, offset;
    for (int i = 0; i < 256; i++) {
        scale_of(b + 4, i / 32, &scale, &offset);
        y[i] = d * scale * (float)four_bits(b + 16, i) - m * offset;
    }
}

static void q5_k(float *y, const unsigned char *b) {
    float d = half_at(b), m = half_at(b + 2), scale, offset;
    for (int i = 0; i < 256; i++) {
        scale_of(b + 4, i / 32, &scale, &offset);
        int q = four_bits(b + 48, i) | (b[16 + i % 32] >> i / 32 & 1) << 4;
        y[i] = d * scale * (float)q - m * offset;
    }
}

static void q6_k(float *y, const unsigned char *b) {
    const unsigned char *high = b + 128, *scales = b + 192;
    float d = half_at(b + 208);
    for (int i = 0; i < 256; i++) {
        int half = i / 128, k = i % 128; /* k / 32: which bits of the bytes */
        int low = b[half * 64 + k % 64] >> k / 64 * 4 & 15,
            q = (low | (high[half * 32 + k % 32] >> k / 32 * 2 & 3) << 4) - 32;
        y[i] = d * (float)(int8_t)scales[i / 16] * (float)q;
    }
}

static const struct kl_gguf_type types[] = {
    {"Q4_0", 2, 32, 18, KL_F16, 4, q4_0},      {"Q4_1", 3, 32, 20, KL_F16, 4, q4_1},
    {"Q5_0", 6, 32, 22, KL_F16, 0, q5_0},      {"Q5_1", 7, 32, 24, KL_F16, 0, q5_1},
    {"Q8_0", 8, 32, 34, KL_F16, 8, q8_0},      {"Q2_K", 10, 256, 84, KL_F16, 0, q2_k},
    {"Q3_K", 11, 256, 110, KL_F16, 0, q3_k},   {"Q4_K", 12, 256, 144, KL_F16, 0, q4_k},
    {"Q5_K", 13, 256, 176, KL_F16, 0, q5_k},   {"Q6_K", 14, 256, 210, KL_F16, 0, q6_k},
    {"IQ4_NL", 20, 32, 18, KL_F16, 0, iq4_nl},
};
/* The types that are dtypes; those that the format has not have the id NO_ID. */
#define NO_ID ((uint32_t)-1)
static const struct kl_gguf_type plain_types[KL_N_DTYPES] = {
#define KL_DTYPE(ID, mlx, name, bytes, kind, dialect, cuda, npy, safetensors, gguf, ...) \
    [KL_##ID] = {#safetensors, (uint32_t)gguf, 1, bytes, KL_##ID, 0, NULL},
#include "base/number/dtype.def"
};
static const struct {
    uint32_t id;
    const char *name;
} others[] = {{9, "Q8_1"},   {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"},
              {19, "IQ1_S"}, {21, "IQ3_S"}, {22, "IQ2_S"},   {23, "IQ4_XS"}, {29, "IQ1_M"},
              {34, "TQ1_0"}, {35, "TQ2_0"}, {39, "MXFP4"}};

const struct kl_gguf_type *kl_gguf_type(uint32_t id, const char **name) {
    *name = NULL;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (types[i].id != id) continue;
        *name = types[i].name;
        return &types[i];
    }
    for (int i = 0; i < KL_N_DTYPES && id != NO_ID; i++) {
        if (plain_types[i].id != id) continue;
        *name = plain_types[i].name;
        return &plain_types[i];
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].id == id) *name = others[i].name;
    return NULL;
}

const struct kl_gguf_type *kl_gguf_plain_type(enum kl_dtype dtype) {
    return plain_types[dtype].id == NO_ID ? NULL : &plain_types[dtype];
}

size_t kl_gguf_part_bytes(const struct kl_gguf_type *t, enum kl_gguf_part part) {
    switch (part) {
    case KL_GGUF_CODES: return (size_t)(t->elements * t->bits / 8);
    case KL_GGUF_SCALES:
    case KL_GGUF_BIASES: return 2;
    default: return t->values ? (size_t)t->elements * 2 : (size_t)t->bytes;
    }
}

static void put_half(void *to, float x) {
    uint16_t bits = kl_f32_to_f16(x);
    memcpy(to, &bits, 2);
}

/* Codes are not negative: the bias takes back what is added to those that are. */
static void put_codes(unsigned char *to, const unsigned char *block, const struct kl_gguf_type *t) {
    const unsigned char *q = block + t->bytes - t->elements * t->bits / 8;
    if (t->bits == 8)
        for (int i = 0; i < 32; i++) to[i] = q[i] ^ 0x80;
    else
        for (int i = 0; i < 16; i++)
            to[i] = (unsigned char)(nibble(q, 2 * i) | nibble(q, 2 * i + 1) << 4);
}

void kl_gguf_convert(void *to, const unsigned char *blocks, size_t n, const struct kl_gguf_type *t,
                     enum kl_gguf_part part) {
    unsigned char *out = to;
    float y[256];
    size_t step = kl_gguf_part_bytes(t, part);
    for (size_t k = 0; k < n; k++, blocks += t->bytes, out += step) {
        if (part == KL_GGUF_CODES) {
            put_codes(out, blocks, t);
        } else if (part == KL_GGUF_SCALES) {
            memcpy(out, blocks, 2);
        } else if (part == KL_GGUF_BIASES) {
            if (t->bytes == 20) /* Q4_1 has an offset */
                memcpy(out, blocks + 2, 2);
            else
                put_half(out, half_at(blocks) * (t->bits == 8 ? -128.0F : -8.0F));
        } else {
            t->values(y, blocks);
            for (int i = 0; i < t->elements; i++) put_half(out + 2 * i, y[i]);
        }
    }
}
