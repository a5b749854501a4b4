/* fft_plan.c - see fft_plan.h. Tables are computed in double and rounded once. */
#include "base/number/fft_plan.h"

#include <string.h>

#include "base/alloc.h"
#include "base/fork_locks.h"
#include "base/thread.h"

/* ---- the cache: the plan that was used last is first ---- */
static struct {
    struct kl_mutex mu; /* leaf */
    struct kl_list plans;
    size_t bytes;
    int n;
} cache = {KL_MUTEX_INIT, {{&cache.plans.head, &cache.plans.head}}, 0, 0};

__attribute__((constructor)) static void watch_fork(void) {
    kl_fork_lock_add(&cache.mu);
}

static void plan_free(struct kl_fft_plan *p) {
    kl_fft_plan_release(p->inner);
    kl_fft_plan_release(p->second);
    kl_free(p->table);
    kl_free(p->first);
    kl_free(p->spectrum);
    kl_free(p->in_order);
    kl_free(p->chirp);
    kl_free(p->coarse);
    kl_free(p->fine);
    kl_free(p->halves);
    kl_free(p);
}

void kl_fft_plan_release(const struct kl_fft_plan *plan) {
    struct kl_fft_plan *p = (struct kl_fft_plan *)plan;
    if (p && atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) == 1) plan_free(p);
}

/* Takes plans out of the cache, the one used longest ago first, until it has at most the given
 * bytes and plans. The caller holds the lock and releases the plans of *gone after it. */
static void shrink(size_t bytes, int n, struct kl_list *gone) {
    while (cache.bytes > bytes || cache.n > n) {
        struct kl_link *last = cache.plans.head.prev;
        kl_list_remove(last);
        cache.bytes -= kl_container(last, struct kl_fft_plan, link)->bytes;
        cache.n--;
        kl_list_push(gone, last);
    }
}

static void release_all(struct kl_list *gone) {
    for (struct kl_link *l; (l = kl_list_pop(gone));)
        kl_fft_plan_release(kl_container(l, struct kl_fft_plan, link));
}

void kl_fft_plans_forget(void) {
    struct kl_list gone;
    kl_list_init(&gone);
    kl_mutex_lock(&cache.mu);
    shrink(0, 0, &gone);
    kl_mutex_unlock(&cache.mu);
    release_all(&gone);
}

size_t kl_fft_plans_bytes(void) {
    kl_mutex_lock(&cache.mu);
    const size_t bytes = cache.bytes;
    kl_mutex_unlock(&cache.mu);
    return bytes;
}

static struct kl_fft_plan *find(int64_t n, bool wide, bool alone, bool halves) {
    for (struct kl_link *l = cache.plans.head.next; l != &cache.plans.head; l = l->next) {
        struct kl_fft_plan *p = kl_container(l, struct kl_fft_plan, link);
        if (p->n != n || p->wide != wide || p->alone != alone || (halves && !p->halves)) continue;
        kl_list_remove(l);
        kl_list_push_front(&cache.plans, l);
        atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
        return p;
    }
    return NULL;
}

/* Puts a new plan into the cache, unless another thread made the same one meanwhile: that one is
 * returned then. */
static struct kl_fft_plan *keep(struct kl_fft_plan *made) {
    struct kl_list gone;
    struct kl_fft_plan *other;
    kl_list_init(&gone);
    kl_mutex_lock(&cache.mu);
    other = find(made->n, made->wide, made->alone, made->halves != NULL);
    if (!other && made->bytes <= KL_FFT_CACHE_BYTES) {
        shrink(KL_FFT_CACHE_BYTES - made->bytes, KL_FFT_CACHE_PLANS - 1, &gone);
        atomic_fetch_add_explicit(&made->refs, 1, memory_order_relaxed);
        kl_list_push_front(&cache.plans, &made->link);
        cache.bytes += made->bytes;
        cache.n++;
    }
    kl_mutex_unlock(&cache.mu);
    release_all(&gone);
    if (!other) return made;
    kl_fft_plan_release(made);
    return other;
}

/* ---- tables ---- */
static void *table_of(struct kl_fft_plan *p, int64_t numbers) {
    const size_t bytes = (size_t)numbers * 2 * (p->wide ? sizeof(double) : sizeof(float));
    p->bytes += bytes;
    return kl_malloc(bytes);
}

/* Number `at` is z. */
static void put(const struct kl_fft_plan *p, void *table, int64_t at, struct kl_root z) {
    if (p->wide) {
        ((double *)table)[2 * at] = z.re;
        ((double *)table)[2 * at + 1] = z.im;
    } else {
        ((float *)table)[2 * at] = (float)z.re;
        ((float *)table)[2 * at + 1] = (float)z.im;
    }
}

/* As kl_fft_radices; where KL_FFT_SQUARE divides n the first radix is 16, which transforms of one
 * line by many lanes need, and the last ones are powers of two. */
static int radices_of(int64_t n, int radix[KL_FFT_MOST_PASSES]) {
    if (n % KL_FFT_SQUARE) return kl_fft_radices(n, radix);
    int odd[KL_FFT_MOST_PASSES], passes = 0, twos = 0;
    radix[passes++] = 16;
    for (n /= 16; n % 2 == 0; n /= 2) twos++;
    const int n_odd = kl_fft_radices(n, odd);
    for (int i = 0; i < n_odd; i++) radix[passes++] = odd[i];
    /* Sixteens first; rather than an eight or a sixteen and a two, two that are about equal. */
    while (twos) {
        const int take = twos <= 4 ? twos : twos == 5 || twos == 6 ? 3 : 4;
        radix[passes++] = 1 << take;
        twos -= take;
    }
    return passes;
}

/* Two vectors of KL_FFT_LANES numbers, whose lane l is z: row `row` of such vectors. */
static void put_lane(const struct kl_fft_plan *p, void *table, int64_t row, int l,
                     struct kl_root z) {
    const size_t item = p->wide ? sizeof(double) : sizeof(float);
    double pair[2];
    char *to = (char *)table + (size_t)row * 2 * KL_FFT_LANES * item;
    put(p, pair, 0, z);
    memcpy(to + (size_t)l * item, pair, item);
    memcpy(to + (size_t)(KL_FFT_LANES + l) * item, (char *)pair + item, item);
}

static bool plan_first(struct kl_fft_plan *p) {
    const int radix = p->pass[0].radix;
    const int64_t m = p->pass[0].m;
    if (!(p->first = table_of(p, m * (radix - 1)))) return false;
    for (int64_t j = 0; j < m; j++)
        for (int k = 1; k < radix; k++)
            put_lane(p, p->first, j / KL_FFT_LANES * (radix - 1) + k - 1, (int)(j % KL_FFT_LANES),
                     kl_fft_root(j * k, p->n));
    return true;
}

static bool plan_passes(struct kl_fft_plan *p) {
    int radix[KL_FFT_MOST_PASSES];
    int64_t s = 1, numbers = 0;
    p->n_passes = radices_of(p->n, radix);
    for (int i = 0; i < p->n_passes; i++) {
        struct kl_fft_pass *pass = &p->pass[i];
        pass->radix = radix[i];
        pass->s = s;
        s *= radix[i];
        pass->m = p->n / s;
        pass->twiddles = numbers;
        numbers += (pass->m - 1) * (radix[i] - 1);
        pass->roots = numbers;
        if (radix[i] > 8) numbers += radix[i];
    }
    if (!(p->table = table_of(p, numbers))) return false;
    for (int i = 0; i < p->n_passes; i++) {
        const struct kl_fft_pass *pass = &p->pass[i];
        int64_t at = pass->twiddles;
        for (int64_t j = 1; j < pass->m; j++)
            for (int k = 1; k < pass->radix; k++)
                put(p, p->table, at++, kl_fft_root(j * k, pass->radix * pass->m));
        for (int k = 0; k < pass->radix && pass->radix > 8; k++)
            put(p, p->table, pass->roots + k, kl_fft_root(k, pass->radix));
    }
    return p->n % KL_FFT_SQUARE != 0 || plan_first(p);
}

/* The spectrum of the convolution with b, which has inner->n numbers and is destroyed, divided by
 * their number. */
static bool plan_spectrum(struct kl_fft_plan *p, struct kl_root *b) {
    const int64_t n = p->inner->n;
    struct kl_root *room = kl_malloc((size_t)n * sizeof *room);
    struct kl_root *roots = kl_malloc((size_t)n * sizeof *roots);
    p->spectrum = table_of(p, n);
    const bool done = room && roots && p->spectrum;
    if (done) {
        kl_fft_roots(n, roots);
        const struct kl_root *z = kl_fft_plain(b, room, roots, n);
        for (int64_t k = 0; k < n; k++)
            put(p, p->spectrum, k, (struct kl_root){z[k].re / (double)n, z[k].im / (double)n});
    }
    kl_free(roots);
    kl_free(room);
    return done;
}

static bool plan_rader(struct kl_fft_plan *p) {
    const int64_t n = p->n, g = kl_fft_generator(n);
    struct kl_root *b = kl_malloc((size_t)(n - 1) * sizeof *b);
    p->in_order = kl_malloc((size_t)(2 * (n - 1)) * sizeof *p->in_order);
    p->bytes += (size_t)(2 * (n - 1)) * sizeof *p->in_order;
    bool done = b && p->in_order;
    if (done) {
        p->out_order = p->in_order + (n - 1);
        int64_t power = 1;
        for (int64_t i = 0; i < n - 1; i++) { /* out_order: the inverse powers */
            p->in_order[i] = (int32_t)power;
            p->out_order[i ? n - 1 - i : 0] = (int32_t)power;
            power = power * g % n;
        }
        for (int64_t i = 0; i < n - 1; i++) b[i] = kl_fft_root(p->out_order[i], n);
        done = plan_spectrum(p, b);
    }
    kl_free(b);
    return done;
}

/* exp(-pi i j^2 / n); j^2 is below 2^62. */
static struct kl_root chirp(int64_t j, int64_t n) {
    return kl_fft_root(j * j % (2 * n), 2 * n);
}

static bool plan_bluestein(struct kl_fft_plan *p) {
    const int64_t n = p->n, length = p->inner->n;
    struct kl_root *b = kl_calloc((size_t)length, sizeof *b);
    p->chirp = table_of(p, n);
    bool done = b && p->chirp;
    if (done) {
        struct kl_root z = {0};
        for (int64_t j = 0; j < n; j++) {
            /* (n - j)^2 is j^2 and n^2, which is half a turn where n is odd: b has it already. */
            if (j <= n / 2)
                z = chirp(j, n);
            else
                z = n % 2 ? (struct kl_root){-b[n - j].re, b[n - j].im}
                          : (struct kl_root){b[n - j].re, -b[n - j].im};
            put(p, p->chirp, j, z);
            b[j] = (struct kl_root){z.re, -z.im};
            if (j) b[length - j] = b[j];
        }
        done = plan_spectrum(p, b);
    }
    kl_free(b);
    return done;
}

static bool plan_split(struct kl_fft_plan *p) {
    const int64_t n1 = p->inner->n, n2 = p->second->n;
    const int64_t groups = (n2 + KL_FFT_LANES - 1) / KL_FFT_LANES;
    p->coarse = table_of(p, groups * n1);
    p->fine = table_of(p, n1 * KL_FFT_LANES);
    if (!p->coarse || !p->fine) return false;
    for (int64_t j = 0; j < groups; j++)
        for (int64_t k = 0; k < n1; k++)
            put(p, p->coarse, j * n1 + k, kl_fft_root(j * KL_FFT_LANES * k, p->n));
    for (int64_t k = 0; k < n1; k++)
        for (int l = 0; l < KL_FFT_LANES; l++)
            put_lane(p, p->fine, k, l, kl_fft_root(k * l % p->n, p->n));
    return true;
}

static bool plan_halves(struct kl_fft_plan *p) {
    if (!(p->halves = table_of(p, p->n / 2 + 1))) return false;
    for (int64_t k = 0; k <= p->n / 2; k++) put(p, p->halves, k, kl_fft_root(k, 2 * p->n));
    return true;
}

/* ---- which method ---- */
bool kl_fft_is_alone(int64_t n, int64_t lines) {
    enum { SHORTEST = 128, FEW = 8 };
    return n > KL_FFT_LONGEST || (n >= SHORTEST && lines < FEW);
}

/* Sets the method and the plans of which it is made. */
static bool choose(struct kl_fft_plan *p, struct kl_error **err) {
    const int64_t n = p->n;
    int64_t split = p->alone ? kl_fft_split(n, KL_FFT_LANES, KL_FFT_LONGEST) : 0;
    /* Where a part is no better than the whole, the whole is convolved. */
    if (split && !kl_fft_is_smooth(n) && n <= KL_FFT_LONGEST) split = 0;
    p->rows = n;
    if (split) {
        p->method = KL_FFT_SPLIT;
        if (!(p->second = kl_fft_plan_get(n / split, p->wide, false, false, err))) return false;
        p->inner = kl_fft_plan_get(split, p->wide, false, false, err);
        return p->inner != NULL;
    }
    if (kl_fft_is_smooth(n)) {
        p->method = KL_FFT_PASSES;
        return true;
    }
    if (!p->alone && kl_fft_is_smooth(n - 1) && kl_fft_is_prime(n)) {
        p->method = KL_FFT_RADER;
        p->inner = kl_fft_plan_get(n - 1, p->wide, false, false, err);
    } else {
        p->method = KL_FFT_BLUESTEIN;
        p->inner = kl_fft_plan_get(kl_fft_good_length(2 * n - 1), p->wide, p->alone, false, err);
    }
    if (p->inner && p->inner->rows > p->rows) p->rows = p->inner->rows;
    return p->inner != NULL;
}

static bool fill(struct kl_fft_plan *p, bool halves) {
    bool done = true;
    switch (p->method) {
    case KL_FFT_PASSES: done = plan_passes(p); break;
    case KL_FFT_RADER: done = plan_rader(p); break;
    case KL_FFT_BLUESTEIN: done = plan_bluestein(p); break;
    case KL_FFT_SPLIT: done = plan_split(p); break;
    }
    return done && (!halves || plan_halves(p));
}

const struct kl_fft_plan *kl_fft_plan_get(int64_t n, bool wide, bool alone, bool halves,
                                          struct kl_error **err) {
    kl_mutex_lock(&cache.mu);
    struct kl_fft_plan *p = find(n, wide, alone, halves);
    kl_mutex_unlock(&cache.mu);
    if (p) return p;
    if (!(p = kl_calloc(1, sizeof *p))) {
        kl_fail_nomem(err);
        return NULL;
    }
    p->n = n;
    p->wide = wide;
    p->alone = alone;
    p->bytes = sizeof *p;
    atomic_init(&p->refs, 1);
    if (!choose(p, err)) {
        plan_free(p);
        return NULL;
    }
    if (!fill(p, halves)) {
        plan_free(p);
        kl_fail_nomem(err);
        return NULL;
    }
    return keep(p);
}
