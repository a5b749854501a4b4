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

void kl_amx_begin(void) {
    /* Intel's layout of 64 bytes: palette, start row, 14 unused, bytes per row of 16 tiles (two each), rows of 16 tiles. A constant: gcc 12 does not know that all of it is read, and drops stores to it. */
    static const _Alignas(64)
        uint8_t config[64] = {[0] = 1,   [16] = 64, [18] = 64, [20] = 64, [22] = 64, [24] = 64,
                              [26] = 64, [28] = 64, [30] = 64, [48] = 16, [49] = 16, [50] = 16,
                              [51] = 16, [52] = 16, [53] = 16, [54] = 16, [55] = 16};
    _tile_loadconfig(config);
}

void kl_amx_end(void) {
    _tile_release();
}

void kl_amx_block(int64_t n, const uint16_t *a, const uint16_t *b, float *c, int64_t pitch) {
    enum { TILE = 16 * KL_AMX_DEPTH };
    int64_t step = pitch * (int64_t)sizeof *c;
    _tile_loadd(0, c, step);
    _tile_loadd(1, c + 16, step);
    _tile_loadd(2, c + 16 * pitch, step);
    _tile_loadd(3, c + 16 * pitch + 16, step);
    for (int64_t i = 0; i < n; i++) {
        _tile_loadd(4, a + i * TILE, 64);
        _tile_loadd(5, a + (n + i) * TILE, 64);
        _tile_loadd(6, b + 2 * i * TILE, 64);
        _tile_loadd(7, b + (2 * i + 1) * TILE, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, step);
    _tile_stored(1, c + 16, step);
    _tile_stored(2, c + 16 * pitch, step);
    _tile_stored(3, c + 16 * pitch + 16, step);
}
#else
bool kl_amx_there(void) {
    return false;
}
void kl_amx_begin(void) {
}
void kl_amx_end(void) {
}
void kl_amx_block(int64_t n, const uint16_t *a, const uint16_t *b, float *c, int64_t pitch) {
}
#endif
