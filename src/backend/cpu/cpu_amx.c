/* cpu_amx.c - see cpu_amx.h. */
#include "backend/cpu/cpu_amx.h"

#if defined(__x86_64__) && defined(__linux__) && defined(__AMX_BF16__)
#include <cpuid.h>
#include <immintrin.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool there;

static void look(void) {
    enum { ASK_FOR_STATE = 0x1023, TILE_DATA = 18 }; /* of arch_prctl */
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return;
    bool bf16 = d >> 22 & 1, tiles = d >> 24 & 1;
    there = bf16 && tiles && syscall(SYS_arch_prctl, ASK_FOR_STATE, TILE_DATA) == 0;
}

bool kl_amx_there(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, look);
    return there;
}

/* By hand: gcc 12's intrinsics tell the compiler of 8 of the 64 bytes, so it drops stores to the others. */
static void load_config(const struct kl_amx_config *c) {
    __asm__ volatile("ldtilecfg %0" : : "m"(*c));
}

void kl_amx_begin(struct kl_amx_config *before) {
    /* Intel's layout of 64 bytes: palette, start row, 14 unused, bytes per row of 16 tiles (two each), rows of 16 tiles. */
    struct kl_amx_config c = {{1}};
    for (int i = 0; i < 8; i++) {
        c.bytes[16 + 2 * i] = 64;
        c.bytes[48 + i] = 16;
    }
    __asm__ volatile("sttilecfg %0" : "=m"(*before));
    load_config(&c);
}

void kl_amx_end(const struct kl_amx_config *before) {
    if (before->bytes[0])
        load_config(before);
    else
        _tile_release();
}

/* Tiles 0 to 3 are of the result, 4 and 5 of the left operand, 6 and 7 of the right one. */
enum { TILE = 16 * KL_AMX_DEPTH, LINE = 64 };

static inline void left(const uint16_t *upper, const uint16_t *lower) {
    _tile_loadd(4, upper, LINE);
    _tile_loadd(5, lower, LINE);
}
static inline void right(const uint16_t *b) {
    _tile_loadd(6, b, LINE);
    _tile_loadd(7, b + TILE, LINE);
}
static inline void multiply(void) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
}

/* Loads as soon as their tile is free: a tenth faster than all of them before the products. */
static void steps_of_one(int64_t n, const uint16_t *a, const uint16_t *lower, const uint16_t *b) {
    for (; n > 0; n--, a += TILE, lower += TILE, b += 2 * TILE) {
        _tile_loadd(4, a, LINE);
        _tile_loadd(6, b, LINE);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, b + TILE, LINE);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, lower, LINE);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
}

/* The smaller products first. */
static void steps_of_two(int64_t n, const uint16_t *a, const uint16_t *lower, const uint16_t *b) {
    for (; n > 0; n--, a += 2 * TILE, lower += 2 * TILE, b += 4 * TILE) {
        left(a + TILE, lower + TILE);
        right(b + 2 * TILE);
        multiply();
        right(b);
        multiply();
        left(a, lower);
        right(b + 2 * TILE);
        multiply();
        right(b);
        multiply();
    }
}
static void steps_of_three(int64_t n, const uint16_t *a, const uint16_t *lower, const uint16_t *b) {
    for (; n > 0; n--, a += 3 * TILE, lower += 3 * TILE, b += 6 * TILE) {
        left(a + 2 * TILE, lower + 2 * TILE);
        right(b);
        multiply();
        left(a + TILE, lower + TILE);
        multiply();
        right(b + 2 * TILE);
        multiply();
        left(a, lower);
        multiply();
        right(b + 4 * TILE);
        multiply();
        right(b);
        multiply();
    }
}

void kl_amx_block(int pieces, int64_t n, const uint16_t *a, int64_t a_steps, const uint16_t *b,
                  const struct kl_amx_place *from, const struct kl_amx_place *to) {
    if (from) {
        int64_t down = 16 * from->pitch, step = from->pitch * (int64_t)sizeof(float);
        _tile_loadd(0, from->at, step);
        _tile_loadd(1, from->at + 16, step);
        _tile_loadd(2, from->at + down, step);
        _tile_loadd(3, from->at + down + 16, step);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    (pieces == 1   ? steps_of_one
     : pieces == 2 ? steps_of_two
                   : steps_of_three)(n, a, a + a_steps * pieces * TILE, b);
    int64_t down = 16 * to->pitch, step = to->pitch * (int64_t)sizeof(float);
    _tile_stored(0, to->at, step);
    _tile_stored(1, to->at + 16, step);
    _tile_stored(2, to->at + down, step);
    _tile_stored(3, to->at + down + 16, step);
}
#else
bool kl_amx_there(void) {
    return false;
}
void kl_amx_begin(struct kl_amx_config *before) {
}
void kl_amx_end(const struct kl_amx_config *before) {
}
void kl_amx_block(int pieces, int64_t n, const uint16_t *a, int64_t a_steps, const uint16_t *b,
                  const struct kl_amx_place *from, const struct kl_amx_place *to) {
}
#endif
