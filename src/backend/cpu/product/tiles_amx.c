/* tiles_amx.c - see tiles_amx.h. */
#include "backend/cpu/product/tiles_amx.h"

#if defined(__x86_64__) && defined(__AMX_BF16__)
#include <cpuid.h>
#include <immintrin.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/platform/processors.h"

static bool there;

static void look(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return;
    bool bf16 = d >> 22 & 1, tiles = d >> 24 & 1;
    there = bf16 && tiles && kl_processors_allow_tiles();
}

bool kl_amx_there(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, look);
    return there;
}

/* Written in assembly, since gcc 12's intrinsic declares only 8 of the 64 bytes as read. The
 * compiler would remove the stores to the others. */
static void load_config(const struct kl_amx_config *c) {
    __asm__ volatile("ldtilecfg %0" : : "m"(*c));
}

/* Configures all tiles with whole rows and clears them, so that none holds data. */
static void use_tiles(void) {
    /* Intel's layout of 64 bytes: palette, start row, 14 unused bytes, bytes in each row of 16
     * tiles (two bytes each), rows of 16 tiles. */
    struct kl_amx_config c = {{1}};
    for (int i = 0; i < 8; i++) {
        c.bytes[16 + 2 * i] = 64;
        c.bytes[48 + i] = 16;
    }
    load_config(&c);
}

/* There are two ways to use the registers, with the same bits. With many tiles: 0 to 3 hold the
 * result, 4 and 5 the left operand, 6 and 7 the right one. With few: 0 and 1 hold the result, 2 the
 * left operand, 3 and 4 the right one, which is read again for the lower rows. Many tiles need
 * fewer loads and stores. But where another thread runs on the same core, the processor has few
 * registers more than the ones that hold data, and an instruction that writes one waits until one
 * is free: a product then takes nearly twice as long with eight tiles in use as with four (Sapphire
 * Rapids). */
enum { TILE = 16 * KL_AMX_DEPTH, LINE = 64 };
#define EACH_WAY static inline __attribute__((always_inline))

EACH_WAY void load_left(bool few, const uint16_t *upper, int64_t panel) {
    if (few) {
        _tile_loadd(2, upper, LINE);
    } else {
        _tile_loadd(4, upper, LINE);
        _tile_loadd(5, upper + panel, LINE);
    }
}
EACH_WAY void load_right(bool few, const uint16_t *b) {
    if (few) {
        _tile_loadd(3, b, LINE);
        _tile_loadd(4, b + TILE, LINE);
    } else {
        _tile_loadd(6, b, LINE);
        _tile_loadd(7, b + TILE, LINE);
    }
}
EACH_WAY void multiply(bool few) {
    if (few) {
        _tile_dpbf16ps(0, 2, 3);
        _tile_dpbf16ps(1, 2, 4);
    } else {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
}

/* Each tile is loaded as soon as it is free: a tenth faster than all loads before the products. */
EACH_WAY void steps_of_one(bool few, int64_t n, const struct kl_amx_left *a, const uint16_t *b) {
    const uint16_t *at = a->at;
    int64_t line = a->row * (int64_t)sizeof *at;
    for (; n > 0; n--, at += a->step, b += 2 * TILE) {
        if (few) {
            _tile_loadd(2, at, line);
            _tile_loadd(3, b, LINE);
            _tile_dpbf16ps(0, 2, 3);
            _tile_loadd(3, b + TILE, LINE);
            _tile_dpbf16ps(1, 2, 3);
        } else {
            _tile_loadd(4, at, line);
            _tile_loadd(6, b, LINE);
            _tile_dpbf16ps(0, 4, 6);
            _tile_loadd(7, b + TILE, LINE);
            _tile_dpbf16ps(1, 4, 7);
            _tile_loadd(5, at + a->panel, line);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
    }
}

/* The products of smaller parts are added first. */
EACH_WAY void steps_of_two(bool few, int64_t n, const struct kl_amx_left *a, const uint16_t *b) {
    const uint16_t *at = a->at;
    for (; n > 0; n--, at += 2 * TILE, b += 4 * TILE) {
        load_left(few, at + TILE, a->panel);
        load_right(few, b + 2 * TILE);
        multiply(few);
        load_right(few, b);
        multiply(few);
        load_left(few, at, a->panel);
        load_right(few, b + 2 * TILE);
        multiply(few);
        load_right(few, b);
        multiply(few);
    }
}
EACH_WAY void steps_of_three(bool few, int64_t n, const struct kl_amx_left *a, const uint16_t *b) {
    const uint16_t *at = a->at;
    for (; n > 0; n--, at += 3 * TILE, b += 6 * TILE) {
        load_left(few, at + 2 * TILE, a->panel);
        load_right(few, b);
        multiply(few);
        load_left(few, at + TILE, a->panel);
        multiply(few);
        load_right(few, b + 2 * TILE);
        multiply(few);
        load_left(few, at, a->panel);
        multiply(few);
        load_right(few, b + 4 * TILE);
        multiply(few);
        load_right(few, b);
        multiply(few);
    }
}

/* Loads the sums of 16 rows, or of 32. */
EACH_WAY void load_sums(bool few, const struct kl_amx_place *from, int64_t row) {
    const float *at = from->at + row * from->pitch, *below = at + 16 * from->pitch;
    int64_t line = from->pitch * (int64_t)sizeof *at;
    _tile_loadd(0, at, line);
    _tile_loadd(1, at + 16, line);
    if (few) return;
    _tile_loadd(2, below, line);
    _tile_loadd(3, below + 16, line);
}
EACH_WAY void no_sums(bool few) {
    _tile_zero(0);
    _tile_zero(1);
    if (few) return;
    _tile_zero(2);
    _tile_zero(3);
}
EACH_WAY void store_sums(bool few, const struct kl_amx_place *to, int64_t row) {
    float *at = to->at + row * to->pitch, *below = at + 16 * to->pitch;
    int64_t line = to->pitch * (int64_t)sizeof *at;
    _tile_stored(0, at, line);
    _tile_stored(1, at + 16, line);
    if (few) return;
    _tile_stored(2, below, line);
    _tile_stored(3, below + 16, line);
}

EACH_WAY void square(bool few, int bf16_parts, int64_t n, const struct kl_amx_left *a,
                     const uint16_t *b, const struct kl_amx_place *from,
                     const struct kl_amx_place *to) {
    struct kl_amx_left left = *a;
    for (int64_t row = 0; row < KL_AMX_ROWS; row += few ? 16 : KL_AMX_ROWS) {
        if (from)
            load_sums(few, from, row);
        else
            no_sums(few);
        if (bf16_parts == 1)
            steps_of_one(few, n, &left, b);
        else if (bf16_parts == 2)
            steps_of_two(few, n, &left, b);
        else
            steps_of_three(few, n, &left, b);
        store_sums(few, to, row);
        left.at += left.panel;
    }
}

void kl_amx_square(bool few, int bf16_parts, int64_t n, const struct kl_amx_left *a,
                   const uint16_t *b, const struct kl_amx_place *from,
                   const struct kl_amx_place *to) {
    if (few)
        square(true, bf16_parts, n, a, b, from, to);
    else
        square(false, bf16_parts, n, a, b, from, to);
}

/* ---- around products ---- */

#ifdef KL_TEST_HOOKS
static _Atomic(int) forced = -1;
void kl_test_amx_few(int few) {
    atomic_store(&forced, few);
}
#endif

static uint64_t ticks(void) {
    _mm_lfence(); /* waits for all instructions before it */
    return __rdtsc();
}

/* Whether few tiles are faster now: measures the time of the same number of products either way,
 * and takes the better of two measurements. The rate of products does not depend on what is in the
 * caches. */
static bool few_are_faster(void) {
    enum { STEPS = 8, TRIES = 2 };
    static const _Alignas(64) uint16_t zeros[2 * TILE];
    const struct kl_amx_left left = {zeros, KL_AMX_DEPTH, 0, TILE};
    uint64_t best[2] = {UINT64_MAX, UINT64_MAX};
    no_sums(false);
    steps_of_one(false, 1, &left, zeros);
    for (int i = 0; i < TRIES; i++) {
        uint64_t begin = ticks();
        for (int k = 0; k < STEPS; k++) steps_of_one(false, 1, &left, zeros);
        uint64_t between = ticks();
        use_tiles(); /* frees the other tiles */
        for (int k = 0; k < 2 * STEPS; k++) steps_of_one(true, 1, &left, zeros);
        uint64_t end = ticks();
        if (between - begin < best[0]) best[0] = between - begin;
        if (end - between < best[1]) best[1] = end - between;
    }
    /* The ratio of the two times was measured: 1.05 where the core is not shared, 1.8 where it
     * is. */
    return 5 * best[0] > 7 * best[1];
}

bool kl_amx_begin(struct kl_amx_config *before) {
    /* Time between two measurements, in ticks: half a millisecond. The other thread of the core
     * changes more slowly, and a measurement takes two microseconds. */
    enum { AGAIN = 1 << 20 };
    static __thread uint64_t looked;
    static __thread bool few;
    __asm__ volatile("sttilecfg %0" : "=m"(*before));
    use_tiles();
#ifdef KL_TEST_HOOKS
    if (atomic_load(&forced) >= 0) return atomic_load(&forced);
#endif
    uint64_t now = __rdtsc();
    if (looked == 0 || now - looked > AGAIN) {
        few = few_are_faster();
        use_tiles();
        looked = now;
    }
    return few;
}

void kl_amx_end(const struct kl_amx_config *before) {
    if (before->bytes[0])
        load_config(before);
    else
        _tile_release();
}
#else
bool kl_amx_there(void) {
    return false;
}
bool kl_amx_begin(struct kl_amx_config *before) {
    return false;
}
void kl_amx_end(const struct kl_amx_config *before) {
}
void kl_amx_square(bool few, int bf16_parts, int64_t n, const struct kl_amx_left *a,
                   const uint16_t *b, const struct kl_amx_place *from,
                   const struct kl_amx_place *to) {
}
#ifdef KL_TEST_HOOKS
void kl_test_amx_few(int few) {
}
#endif
#endif
