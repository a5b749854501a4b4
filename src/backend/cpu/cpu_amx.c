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

void kl_amx_block(int64_t n, const uint16_t *a, int64_t a_tiles, const uint16_t *b, float *c,
                  int64_t pitch, bool add) {
    enum { TILE = 16 * KL_AMX_DEPTH };
    int64_t step = pitch * (int64_t)sizeof *c;
    if (add) {
        _tile_loadd(0, c, step);
        _tile_loadd(1, c + 16, step);
        _tile_loadd(2, c + 16 * pitch, step);
        _tile_loadd(3, c + 16 * pitch + 16, step);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t i = 0; i < n; i++) {
        _tile_loadd(4, a + i * TILE, 64);
        _tile_loadd(5, a + (a_tiles + i) * TILE, 64);
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
void kl_amx_begin(struct kl_amx_config *before) {
}
void kl_amx_end(const struct kl_amx_config *before) {
}
void kl_amx_block(int64_t n, const uint16_t *a, int64_t a_tiles, const uint16_t *b, float *c,
                  int64_t pitch, bool add) {
}
#endif
