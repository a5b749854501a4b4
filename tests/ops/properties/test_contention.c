/* test_contention.c - scatters whose updates have the same place: every element type and way to
 * combine, on the CPU and on a device (on_device.h). POSITIONS updates (MANY of those without float
 * arithmetic) go to one element, or to the neighbours in a 32-bit word (8- and 16-bit types; two or
 * four words of other types). Values include NaN of several payloads, infinities, -0.0 and
 * denormals: a compare-and-swap loop that compares values would not end on them. Results follow
 * docs/numerics.md: integers, extremes and exact sums bit for bit, other floats within the bound,
 * an assignment is one of the values. No other element may change. */
#include "ops/support/no_f64.h"
#include "ops/support/on_device.h"

#include <math.h>

#include "backend/opencl/opencl_internal.h"
#include "base/number/half.h"

enum { POSITIONS = 1 << 15, MANY = 1 << 19, SLOTS = 16, FIRST = 4, NEAR = 4 };
enum { ASSIGN, ADD, PROD, MAX, MIN, N_MODES };

static uint64_t rng;
static uint32_t draw(void) {
    uint64_t z = rng += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (uint32_t)((z ^ (z >> 31)) >> 16);
}

/* ---- floats by part: complex numbers have two ---- */

static enum kl_dtype part_of(enum kl_dtype t) {
    return t == KL_C64 ? KL_F32 : t;
}
static bool is_real(enum kl_dtype t) { /* whether a part is a float */
    return kl_dtype_is_float(t) || t == KL_C64;
}
struct format {
    uint64_t sign, infinity; /* sets of bits */
    int least;               /* the exponent of the smallest normal number */
    double unit;             /* the unit of rounding */
};
static struct format format_of(enum kl_dtype t) {
    switch (t) {
    case KL_F16: return (struct format){0x8000, 0x7c00, -14, 0x1p-11};
    case KL_BF16: return (struct format){0x8000, 0x7f80, -126, 0x1p-8};
    case KL_F64: return (struct format){UINT64_C(1) << 63, UINT64_C(0x7ff) << 52, -1022, 0x1p-53};
    default: return (struct format){0x80000000, 0x7f800000, -126, 0x1p-24};
    }
}
static uint64_t bits_of(enum kl_dtype t, double x) { /* t: the dtype of a part */
    float f = (float)x;
    if (t == KL_F64) return kl_f64_bits(x);
    return t == KL_F32 ? kl_f32_bits(f) : t == KL_F16 ? kl_f16_store(f) : kl_bf16_store(f);
}
static double value_of(enum kl_dtype t, uint64_t bits) {
    if (t == KL_F64) return kl_bits_f64(bits);
    if (t == KL_F32) return (double)kl_bits_f32((uint32_t)bits);
    return (double)(t == KL_F16 ? kl_f16_load((uint16_t)bits) : kl_bf16_load((uint16_t)bits));
}
static bool nan_bits(enum kl_dtype t, uint64_t bits) {
    struct format f = format_of(t);
    return (bits & ~f.sign) > f.infinity;
}
/* One part of an element, as bits. */
static uint64_t get(enum kl_dtype part, const char *p, int k) {
    uint64_t v = 0;
    memcpy(&v, p + (size_t)k * kl_dtype_size(part), kl_dtype_size(part));
    return v;
}
static void put(enum kl_dtype part, char *p, int k, uint64_t bits) {
    memcpy(p + (size_t)k * kl_dtype_size(part), &bits, kl_dtype_size(part));
}

/* ---- what is scattered ---- */

enum set {
    EXACT,      /* integers, and floats whose sum or product is exact in every order */
    RANDOM,     /* results need only be within the bound */
    INFINITE,   /* infinities of one sign */
    INFINITE_2, /* infinities of both signs, and zeros: sums and products are NaN */
    NANS,
    ZEROS,
    DENORMALS,
    N_SETS
};
static const char *const set_names[] = {"exact", "random", "infinities", "both infinities",
                                        "NaN",   "zeros",  "denormals"};

struct job {
    enum kl_dtype t;
    int mode;
    enum set set;
    bool spread; /* the updates go to NEAR neighbours */
    int n;       /* number of updates */
    char base[SLOTS * 8], updates[MANY * 8];
    int slot[MANY];
};

/* Part k of update i, or of the slot's first value (i < 0). Special values are rare, and at random
 * places. */
static uint64_t part_bits(const struct job *j, int i, int k) {
    enum kl_dtype t = part_of(j->t);
    struct format f = format_of(t);
    uint64_t sign = draw() % 2 ? f.sign : 0, one = bits_of(t, 1.0);
    bool rare = i >= 0 && draw() % (POSITIONS / 32) == 0;
    bool extremes = j->mode == MAX || j->mode == MIN;
    switch (j->set) {
    case EXACT:
        if (extremes) return bits_of(t, (double)draw() / 0x1p20 - 2048);
        if (j->mode == ADD) return rare ? one | sign : bits_of(t, i < 0 ? 3.0 : 0.0);
        return sign | bits_of(t, !rare || draw() % 2 ? 1.0 : draw() % 2 ? 2.0 : 0.5);
    case RANDOM:
        if (extremes) return bits_of(t, ldexp((double)draw() / 0x1p32 - 0.5, (int)(draw() % 12)));
        if (j->mode == ADD) return rare ? bits_of(t, (double)draw() / 0x1p31 - 1) : 0;
        return rare ? bits_of(t, 0.9 + (double)draw() / 0x1p32 * 0.2) : one;
    case INFINITE: return rare || (i >= 0 && i < NEAR) ? f.infinity : sign | one;
    case INFINITE_2:
        if (i < NEAR && i >= 0 && j->mode == PROD) return 0;
        return rare || i < NEAR ? f.infinity | (i >= 0 && i < NEAR ? f.sign : sign) : sign | one;
    case NANS: /* quiet NaNs, each with a payload of its own */
        if (i >= 0 && (rare || i < NEAR) && (j->t != KL_C64 || draw() % 2))
            return sign | f.infinity | (f.infinity & (~f.infinity + 1)) >> 1 | (draw() & 15);
        return draw() % 8 ? sign | one : sign | f.infinity;
    case ZEROS: return rare ? 0 : f.sign;
    default: /* for DENORMALS */
        if (extremes) return sign | (draw() % 63 + 1);
        if (j->mode == ADD) return rare ? sign | (draw() % 3 + 1) : i < 0 ? 2 : 0;
        return i < 0 ? bits_of(t, ldexp(1.0, f.least)) : i < NEAR ? bits_of(t, 0.5) : sign | one;
    }
}

static void element(const struct job *j, int i, char *to) {
    enum kl_dtype t = j->t;
    size_t item = kl_dtype_size(t);
    uint64_t v;
    if (j->mode == ASSIGN) { /* each half of the element shows to which update it belongs */
        v = (uint64_t)(uint32_t)(i + 2) * 0x9E3779B1u % 0xffffffffu;
        v |= ~v << 32;
        memcpy(to, &v, item);
        if (t == KL_BOOL) *to = i % 2;
        return;
    }
    if (is_real(t)) {
        for (int k = 0; k < (t == KL_C64 ? 2 : 1); k++) put(part_of(t), to, k, part_bits(j, i, k));
        if (t != KL_C64 || j->mode != PROD) return;
        /* Products of powers of the imaginary unit and of real numbers are exact. Products of
         * numbers on the unit circle stay near it. */
        double angle = (double)draw();
        if (j->set == EXACT) put(KL_F32, to, (int)(draw() % 2), 0);
        if (j->set == DENORMALS) put(KL_F32, to, 1, 0);
        if (j->set == RANDOM) put(KL_F32, to, 0, bits_of(KL_F32, cos(angle)));
        if (j->set == RANDOM) put(KL_F32, to, 1, bits_of(KL_F32, sin(angle)));
        return;
    }
    v = (uint64_t)draw() << 32 | draw();
    if (j->mode == PROD) v |= 1; /* odd factors, since the product of even ones is soon 0 */
    if (t == KL_BOOL) {          /* few updates differ from the neutral element */
        bool neutral = j->mode == PROD || j->mode == MIN;
        v = draw() % MANY == 0 ? !neutral : neutral;
    }
    memcpy(to, &v, item);
}

static void fill(struct job *j) {
    size_t item = kl_dtype_size(j->t);
    for (int i = 0; i < SLOTS; i++) element(j, -1, j->base + (size_t)i * item);
    for (int i = 0; i < j->n; i++) {
        j->slot[i] = FIRST + (!j->spread ? 1 : i < NEAR ? i : (int)(draw() % NEAR));
        element(j, i, j->updates + (size_t)i * item);
    }
}

/* ---- what may come out: got against the slot's first value and its updates ---- */

struct slot {
    enum kl_dtype t;
    const char *all[MANY + 1]; /* the first is the slot's value before the scatter */
    int n;
};

static bool given(const struct slot *s, int from, const char *got) {
    size_t item = kl_dtype_size(s->t);
    for (int i = from; i < s->n; i++)
        if (memcmp(got, s->all[i], item) == 0) return true;
    return false;
}

static uint64_t integer_at(enum kl_dtype t, const char *p) {
    uint64_t v = get(t, p, 0);
    int unused = 64 - (int)kl_dtype_size(t) * 8;
    if (kl_dtype_is_signed(t)) v = (uint64_t)((int64_t)(v << unused) >> unused);
    return v;
}

static bool right_integer(const struct slot *s, int mode, const char *got) {
    uint64_t v = integer_at(s->t, s->all[0]);
    for (int i = 1; i < s->n; i++) {
        uint64_t u = integer_at(s->t, s->all[i]);
        bool less = kl_dtype_is_signed(s->t) ? (int64_t)v < (int64_t)u : v < u;
        if (s->t == KL_BOOL)
            v = mode == ADD || mode == MAX ? v | u : v & u;
        else if (mode == ADD)
            v += u;
        else if (mode == PROD)
            v *= u;
        else if (less == (mode == MAX))
            v = u;
    }
    return memcmp(&v, got, kl_dtype_size(s->t)) == 0;
}

/* A number whose order is the order of the values; -0.0 is below +0.0. */
static int64_t rank(enum kl_dtype t, uint64_t bits) {
    struct format f = format_of(t);
    return bits & f.sign ? -(int64_t)(bits & ~f.sign) - 1 : (int64_t)bits;
}

static bool any_nan(enum kl_dtype t, const char *p) {
    enum kl_dtype part = part_of(t);
    return nan_bits(part, get(part, p, 0)) || (t == KL_C64 && nan_bits(part, get(part, p, 1)));
}

static bool right_extreme(const struct slot *s, int mode, const char *got) {
    enum kl_dtype part = part_of(s->t);
    bool nan = false;
    for (int i = 0; i < s->n; i++) nan = nan || any_nan(s->t, s->all[i]);
    if (nan) /* 16-bit floats go through float32, which may change a NaN's payload */
        return any_nan(s->t, got) && (kl_dtype_size(s->t) == 2 || given(s, 0, got));
    uint64_t best[2] = {get(part, s->all[0], 0), get(part, s->all[0], 1)};
    if (s->t != KL_C64) best[1] = 0;
    for (int i = 1; i < s->n; i++) {
        uint64_t u[2] = {get(part, s->all[i], 0), s->t == KL_C64 ? get(part, s->all[i], 1) : 0};
        double a = value_of(part, best[0]), b = value_of(part, u[0]);
        bool equal = s->t == KL_C64 && a == b;
        if (equal ? false
                  : (rank(part, u[0]) > rank(part, best[0])) == (mode == MAX) && u[0] != best[0]) {
            best[0] = u[0];
            best[1] = u[1];
        }
        for (int k = 0; k < 2 && equal; k++)
            if ((rank(part, u[k]) > rank(part, best[k])) == (mode == MAX)) best[k] = u[k];
    }
    return get(part, got, 0) == best[0] && (s->t != KL_C64 || get(part, got, 1) == best[1]);
}

static bool right_sum(const struct slot *s, enum set set, const char *got, int k, bool flushes) {
    enum kl_dtype t = part_of(s->t);
    struct format f = format_of(t);
    long double sum = 0, magnitudes = 0;
    bool nan = false, up = false, down = false, all_negative_zero = true;
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        uint64_t bits = get(t, s->all[i], k);
        double v = value_of(t, bits);
        nan = nan || v != v;
        up = up || bits == f.infinity;
        down = down || bits == (f.infinity | f.sign);
        all_negative_zero = all_negative_zero && bits == f.sign;
        n += v != 0;
        if (v - v == 0) sum += v;
        if (v - v == 0) magnitudes += fabs(v);
    }
    uint64_t g = get(t, got, k);
    if (nan || (up && down)) return nan_bits(t, g);
    if (up || down) return g == (f.infinity | (down ? f.sign : 0));
    if (all_negative_zero) return g == f.sign;
    if (set == RANDOM)
        return fabsl(value_of(t, g) - sum) <= (long double)n * (long double)f.unit * magnitudes;
    if (set == DENORMALS && flushes && t == KL_F32 && (g & ~f.sign) == 0) return true;
    return g == bits_of(t, (double)sum);
}

static bool right_product(const struct slot *s, enum set set, const char *got) {
    enum kl_dtype t = part_of(s->t);
    struct format f = format_of(t);
    long double product = 1;
    uint64_t sign = 0;
    bool nan = false, infinite = false, zero = false;
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        uint64_t bits = get(t, s->all[i], 0);
        double v = value_of(t, bits);
        nan = nan || v != v;
        infinite = infinite || (bits & ~f.sign) == f.infinity;
        zero = zero || v == 0;
        sign ^= bits & f.sign;
        n += fabs(v) != 1;
        product *= fabs(v);
    }
    uint64_t g = get(t, got, 0);
    if (nan || (infinite && zero)) return nan_bits(t, g);
    if (infinite) return g == (f.infinity | sign);
    if (zero) return g == sign;
    if (set == RANDOM) {
        long double e = (long double)n * (long double)f.unit;
        return fabsl(fabsl(value_of(t, g)) - product) <= e / (1 - e) * product &&
               (g & f.sign) == sign;
    }
    return g == (bits_of(t, (double)product) | sign);
}

/* A product of two complex numbers is right within 3 units of its magnitude. */
static bool right_complex_product(const struct slot *s, enum set set, const char *got) {
    long double re = 1, im = 0;
    bool special = false;
    for (int i = 0; i < s->n; i++) {
        double a = value_of(KL_F32, get(KL_F32, s->all[i], 0)),
               b = value_of(KL_F32, get(KL_F32, s->all[i], 1));
        special = special || a - a != 0 || b - b != 0;
        long double r = re * a - im * b;
        im = re * b + im * a;
        re = r;
    }
    double x = value_of(KL_F32, get(KL_F32, got, 0)), y = value_of(KL_F32, get(KL_F32, got, 1));
    /* A NaN or an infinity depends on the order of the products. */
    if (special) return !(x - x == 0 && y - y == 0);
    if (set != RANDOM) return (long double)x == re && (long double)y == im;
    long double e = 3 * (long double)s->n * 0x1p-24L;
    return hypotl((long double)x - re, (long double)y - im) <= e / (1 - e) * hypotl(re, im);
}

static bool right(const struct slot *s, const struct job *j, struct kl_stream *on,
                  const char *got) {
    bool device = on == gpu_stream, flushes = device && device_sums_flush();
    if (j->mode == ASSIGN) {
        bool in_order = !device || strcmp(device_name(), "sim") == 0;
        return in_order ? memcmp(got, s->all[s->n - 1], kl_dtype_size(s->t)) == 0
                        : given(s, 1, got);
    }
    if (!is_real(s->t)) return right_integer(s, j->mode, got);
    if (j->mode == MAX || j->mode == MIN) return right_extreme(s, j->mode, got);
    if (j->mode == ADD)
        return right_sum(s, j->set, got, 0, flushes) &&
               (s->t != KL_C64 || right_sum(s, j->set, got, 1, flushes));
    return s->t == KL_C64 ? right_complex_product(s, j->set, got) : right_product(s, j->set, got);
}

/* ---- running ---- */

static void check(const struct job *j, struct kl_stream *on, const char *got) {
    static struct slot s;
    size_t item = kl_dtype_size(j->t);
    for (int i = 0; i < SLOTS; i++) {
        const char *g = got + (size_t)i * item;
        s.t = j->t;
        s.n = 0;
        s.all[s.n++] = j->base + (size_t)i * item;
        for (int k = 0; k < j->n && i >= FIRST && i < FIRST + NEAR; k++)
            if (j->slot[k] == i) s.all[s.n++] = j->updates + (size_t)k * item;
        if (s.n == 1 ? memcmp(g, s.all[0], item) == 0 : right(&s, j, on, g)) continue;
        uint64_t bits = 0;
        memcpy(&bits, g, item);
        fail_msg("%s of %s on %s, %s, %s: element %d, to which %d updates went, is %#llx",
                 scatter_names[j->mode], kl_dtype_name(j->t),
                 on == cpu_stream ? "the CPU" : device_name(),
                 j->mode ? set_names[j->set] : "assigned", j->spread ? "neighbours" : "one slot", i,
                 s.n - 1, (unsigned long long)bits);
    }
}

/* Along the only axis, so each update is one element of the indices. */
static void run_along_axis(const struct job *j, struct kl_stream *s) {
    struct kl_array *base, *updates, *index, *out, *keep;
    int slots = SLOTS;
    OK(kl_array_new_data(&base, j->base, j->t, 1, &slots, &err));
    OK(kl_array_new_data(&updates, j->updates, j->t, 1, &j->n, &err));
    OK(kl_array_new_data(&index, j->slot, KL_I32, 1, &j->n, &err));
    OK(kl_scatter_add_axis(&out, base, index, updates, 0, s, &err));
    check(j, s, read_elements(out, s, &keep, "scatter_add_axis"));
    struct kl_array *release[] = {base, updates, index, out, keep};
    for (int i = 0; i < 5; i++) kl_array_release(release[i]);
}

static void run_job(const struct job *j, struct kl_stream *s) {
    struct kl_array *base, *updates, *index, *out, *keep;
    int slots = SLOTS, shape[2] = {j->n, 1};
    OK(kl_array_new_data(&base, j->base, j->t, 1, &slots, &err));
    OK(kl_array_new_data(&updates, j->updates, j->t, 2, shape, &err));
    OK(kl_array_new_data(&index, j->slot, KL_I32, 1, &j->n, &err));
    OK(scatters[j->mode](&out, base, index, updates, 0, s, &err));
    check(j, s, read_elements(out, s, &keep, scatter_names[j->mode]));
    struct kl_array *release[] = {base, updates, index, out, keep};
    for (int i = 0; i < 5; i++) kl_array_release(release[i]);
}

static void run_type(enum kl_dtype t, int mode, struct kl_stream *s) {
    static struct job j;
    if (s == cpu_stream || strcmp(device_name(), "sim") == 0 ? !kl_test_takes("cpu", 4)
                                                             : !kl_test_takes("kernels", 2))
        return;
    int n_sets = mode == ASSIGN || !is_real(t) ? 1 : N_SETS;
    for (int set = 0; set < n_sets; set++)
        for (int spread = 0; spread < 2; spread++) {
            rng = (uint64_t)((int)t * 100 + mode * 20 + set * 2 + spread);
            j.t = t;
            j.mode = mode;
            j.set = (enum set)set;
            j.spread = spread;
            j.n = n_sets == 1 ? MANY : POSITIONS;
            fill(&j);
            run_job(&j, s);
        }
}

static void run_all(struct kl_stream *s) {
    for (int t = 0; t < KL_N_DTYPES; t++)
        for (int mode = 0; mode < N_MODES; mode++)
            if (t != KL_F64 || s == cpu_stream || !device_lacks_f64())
                run_type((enum kl_dtype)t, mode, s);
}

static void on_the_cpu(void **state) {
    run_all(cpu_stream);
}

static void on_the_device(void **state) {
    run_all(gpu_stream);
}

/* Sums of bfloat16 keep denormals on every device. One whose sums of float32 flush them has a way
 * for many updates, and another where large numbers are among them: here in a slot that has no
 * updates. */
static void many_sums_of_bfloat16(void **state) {
    static struct job j;
    static const enum set sets[] = {EXACT, RANDOM, NANS, DENORMALS, DENORMALS};
    for (int k = 0; k < 5; k++) {
        rng = (uint64_t)(9000 + k);
        j.t = KL_BF16;
        j.mode = ADD;
        j.set = sets[k];
        j.spread = true;
        j.n = MANY;
        fill(&j);
        if (k == 4) put(KL_BF16, j.base, 0, bits_of(KL_BF16, 0x1p100));
        run_job(&j, gpu_stream);
        run_along_axis(&j, gpu_stream);
    }
}

/* OpenCL 1.2 does not promise a 64-bit compare-and-swap. Here the device works without it, and the
 * kernels are compiled without the name of that extension. */
static void on_a_device_without_64_bit_atomics(void **state) {
    if (strcmp(device_name(), "opencl") != 0) skip();
    static const enum kl_dtype wide[] = {KL_I64, KL_U64, KL_F64, KL_C64};
    struct kl_opencl *d = (struct kl_opencl *)kl_opencl_driver(0);
    struct kl_driver *driver = kl_opencl_driver(0);
    char *const options[] = {d->options, d->brief_options};
    assert_true(!driver->has_atomic64 || strstr(d->options, " -DHAS_ATOMIC64"));
    driver->has_atomic64 = false;
    /* Changes the option, and so the source, so that a kernel compiled before is not used. */
    for (int i = 0; i < 2; i++) {
        char *option = strstr(options[i], " -DHAS_ATOMIC64");
        if (option) memset(option, ' ', strlen(" -DHAS_ATOMIC64"));
    }
    for (int t = 0; t < 4; t++)
        for (int mode = 0; mode < N_MODES; mode++) run_type(wide[t], mode, gpu_stream);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_the_cpu),
        cmocka_unit_test(many_sums_of_bfloat16),
        cmocka_unit_test(on_the_device),
        cmocka_unit_test(on_a_device_without_64_bit_atomics),
    };
    return cmocka_run_group_tests(tests, open_streams, NULL);
}
