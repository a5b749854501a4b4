/* test_dialect.c - the common dialect on OpenCL, or on Metal where KEEL_TEST_GPU names it: the
 * preludes compile without a warning, and each of their functions does what prelude.kl says. The
 * kernel families are tested with the operations. */
#include "backend/opencl/opencl_support.h"

#include <complex.h>
#include <math.h>

#include "backend/gpu/lower/kernels.h"
#include "base/number/dtype.h"
#include "base/number/half.h"

static const char everything[] =
    "#define COPY(T)                                                       \\\n"
    "    KERNEL(copy_##T)(PTR(in), PTR(out), PARAM(i64, n)) {                      \\\n"
    "        i64 i = gid();                                                \\\n"
    "        if (i < n) STORE(T, AT(T, out), i, ROUND(T, LOAD(T, AT(T, in), i))); \\\n"
    "    }\n"
    "COPY(b8) COPY(u8) COPY(u16) COPY(u32) COPY(u64) COPY(i8) COPY(i16) COPY(i32) COPY(i64)\n"
    "COPY(f16) COPY(bf16) COPY(f32) COPY(c64)\n"
    "#ifdef HAS_F64\n"
    "COPY(f64)\n"
    "#endif\n"
    "#define WIDEN(T)                                                      \\\n"
    "    KERNEL(widen_##T)(PTR(in), PTR(out), PARAM(i64, n)) {                     \\\n"
    "        i64 i = gid();                                                \\\n"
    "        if (i < n) STORE(f32, AT(f32, out), i, LOAD(T, AT(T, in), i)); \\\n"
    "    }                                                                 \\\n"
    "    KERNEL(narrow_##T)(PTR(in), PTR(out), PARAM(i64, n)) {                    \\\n"
    "        i64 i = gid();                                                \\\n"
    "        if (i < n) STORE(T, AT(T, out), i, LOAD(f32, AT(f32, in), i)); \\\n"
    "    }\n"
    "WIDEN(f16) WIDEN(bf16)\n"
    "#define EXTREMES(T)                                                   \\\n"
    "    KERNEL(extremes_##T)(PTR(a), PTR(b), PTR(out), PARAM(i64, n)) {           \\\n"
    "        i64 i = gid();                                                \\\n"
    "        if (i >= n) return;                                           \\\n"
    "        CAT(c_, T) x = LOAD(T, AT(T, a), i), y = LOAD(T, AT(T, b), i); \\\n"
    "        STORE(T, AT(T, out), 2 * i, CAT(max_, T)(x, y));              \\\n"
    "        STORE(T, AT(T, out), 2 * i + 1, CAT(min_, T)(x, y));          \\\n"
    "    }\n"
    "EXTREMES(b8) EXTREMES(u8) EXTREMES(u16) EXTREMES(u32) EXTREMES(u64) EXTREMES(i8)\n"
    "EXTREMES(i16) EXTREMES(i32) EXTREMES(i64) EXTREMES(f16) EXTREMES(bf16) EXTREMES(f32)\n"
    "EXTREMES(c64)\n"
    "#ifdef HAS_F64\n"
    "EXTREMES(f64)\n"
    "#endif\n"
    "KERNEL(walk)(PARAM(struct space, s), PTR(in), PTR(out), PARAM(int, operand)) {\n"
    "    i64 i = gid();\n"
    "    if (i < s.n) AT(i32, out)[i] = AT(i32, in)[space_at(&s, operand, i)];\n"
    "}\n"
    "KERNEL(reverse)(PTR(in), PTR(out)) {\n"
    "    SHARED(u32, row, LOCAL);\n"
    "    SHARED_PTR u32 *p = row;\n"
    "    p[lid()] = AT(u32, in)[gid()];\n"
    "    BARRIER();\n"
    "    AT(u32, out)[gid()] = p[LOCAL - 1 - lid()] + 1000 * group_id() + 100000 * n_groups();\n"
    "}\n"
    "KERNEL(check)(PTR(in), PTR(word), PARAM(int, word_index), PARAM(i32, size),\n"
    "              PARAM(i64, n)) {\n"
    "    i64 i = gid();\n"
    "    if (i < n && (AT(i32, in)[i] < 0 || AT(i32, in)[i] >= size))\n"
    "        fault(AT(u32, word), word_index, i);\n"
    "}\n"
    "KERNEL(atomics)(PTR(out)) {\n"
    "    GLOBAL u32 *w = AT(u32, out);\n"
    "    atomic_add_u32(w, 1u);\n"
    "    atomic_max_u32(w + 1, (u32)gid());\n"
    "    atomic_min_u32(w + 2, (u32)gid());\n"
    "    for (u32 old = w[3], seen;; old = seen) {\n"
    "        seen = atomic_cas_u32(w + 3, old, old + 2u);\n"
    "        if (seen == old) break;\n"
    "    }\n"
    "    atomic_exchange_u32(w + 4, 77u);\n"
    "    SHARED(u32, most, 2);\n"
    "    if (lid() < 2) most[lid()] = 0;\n"
    "    BARRIER();\n"
    "    shared_max_u32(&most[0], (u32)gid());\n"
    "    shared_add_u32(&most[1], 3u);\n"
    "    BARRIER();\n"
    "    if (lid() == 0) atomic_add_u32(w + 5, most[0]);\n"
    "    if (lid() == 0) atomic_add_u32(w + 6, most[1]);\n"
    "}\n"
    "#ifdef HAS_ATOMIC64\n"
    "KERNEL(atomics64)(PTR(out)) {\n"
    "    GLOBAL u64 *w = AT(u64, out);\n"
    "    atomic_add_u64(w, (u64)1 << 32);\n"
    "    for (u64 old = w[1], seen;; old = seen) {\n"
    "        seen = atomic_cas_u64(w + 1, old, old + ((u64)3 << 32));\n"
    "        if (seen == old) break;\n"
    "    }\n"
    "    atomic_exchange_u64(w + 2, (u64)77 << 40);\n"
    "}\n"
    "#endif\n"
    "KERNEL(functions)(PTR(out), PARAM(f32, x), PARAM(f32, y), PARAM(u32, big)) {\n"
    "    GLOBAL f32 *o = AT(f32, out);\n"
    "    if (gid() != 0) return;\n"
    "    o[0] = fn_exp(x); o[1] = fn_log(x); o[2] = fn_sqrt(x); o[3] = fn_floor(x);\n"
    "    o[4] = fn_sin(x); o[5] = fn_cos(x); o[6] = fn_hypot(x, y); o[7] = fn_atan2(y, x);\n"
    "    o[8] = fn_fma(x, y, x); o[9] = (f32)mul_hi_u32(big, 16u);\n"
    "    u32 sum = 0;\n"
    "    UNROLL for (int i = 0; i < 4; i++) sum += (u32)i;\n"
    "    o[10] = (f32)sum; o[11] = x / y;\n"
    "}\n"
    "KERNEL(not_followed)(PTR(nothing), PTR(out)) {\n"
    "    AT(u32, out)[0] = nothing_base ? 1u : 2u;\n"
    "}\n";

enum { LOCAL = 32 };
static void *queue;

/* Launches stand between these two. The latter waits, and fetches the words. */
static void begin(void) {
    struct kl_error *err = NULL;
    SUCCEED(d->ops->begin(d, queue, NULL, 0, &err), err);
}
static void finish(struct kl_fault_words *words) {
    struct kl_error *err = NULL;
    void *e = t_event();
    SUCCEED(d->ops->end(d, queue, words, e, &err), err);
    assert_int_equal(t_wait(e), 1);
    d->ops->event_free(d, e);
}
static void run_with(const char *source, struct kl_fault_words *words, const char *entry, int64_t n,
                     const struct kl_karg *args, int n_args) {
    begin();
    t_launch(queue, source, entry, (n + LOCAL - 1) / LOCAL, LOCAL, args, n_args);
    finish(words);
}
static void run(const char *entry, int64_t n, const struct kl_karg *args, int n_args) {
    run_with(everything, NULL, entry, n, args, n_args);
}
#define RUN(entry, n, ...)                               \
    run(entry, n, (const struct kl_karg[]){__VA_ARGS__}, \
        (int)(sizeof(struct kl_karg[]){__VA_ARGS__} / sizeof(struct kl_karg)))

static int set_up(void **state) {
    if (open_device(state)) return -1;
    queue = t_queue(0);
    return 0;
}

/* ---- compiling ---- */

static void nothing_warns(void **state) {
    static const char strict[] = "#define LOCAL 32\n"
                                 "#pragma clang diagnostic error \"-Wall\"\n"
                                 "#pragma clang diagnostic error \"-Wextra\"\n"
                                 "#pragma clang diagnostic error \"-Wconversion\"\n"
                                 "#pragma clang diagnostic ignored \"-Wsign-conversion\"\n"
                                 "#pragma clang diagnostic ignored \"-Wunused-parameter\"\n";
    /* Metal's prelude has a pragma that the simulation does not know, and functions of which clang
     * says that nothing calls them. */
    const char *pragmas = on_metal() ? "#pragma clang diagnostic ignored \"-Wunknown-pragmas\"\n"
                                       "#pragma clang diagnostic ignored \"-Wunused-function\"\n"
                                     : "#pragma clang diagnostic error \"-Wunknown-pragmas\"\n";
    static const char bad[] = "KERNEL(bad)(PTR(out)) { int unused; }\n";
    struct kl_error *err = NULL;
    void *binary = NULL;
    size_t bytes = 0, room = sizeof strict + strlen(pragmas) + strlen(d->prelude) +
                             strlen(kl_source_prelude) + sizeof everything + sizeof bad;
    char *source = malloc(room);
    assert_non_null(source);
    snprintf(source, room, "%s%s%s%s%s", strict, pragmas, d->prelude, kl_source_prelude,
             everything);
    SUCCEED(d->ops->compile(d, source, "everything", &binary, &bytes, &err), err);
    assert_true(bytes > 0);
    kl_free(binary);
    /* Warnings are errors here, so the unused variable must be reported. */
    snprintf(source, room, "%s%s%s%s%s", strict, pragmas, d->prelude, kl_source_prelude, bad);
    assert_int_equal(d->ops->compile(d, source, "bad", &binary, &bytes, &err), KL_ECOMPILE);
    assert_non_null(strstr(err->message, "unused"));
    kl_error_release(err);
    free(source);
}

/* ---- storage types ---- */

static void every_type_is_loaded_and_stored(void **state) {
    enum { N = 75 };
    for (int t = 0; t < KL_N_DTYPES; t++) {
        if (t == KL_F64 && !d->has_f64) continue;
        size_t item = kl_dtype_size((enum kl_dtype)t), bytes = N * item;
        unsigned char in[N * 8], out[N * 8];
        for (size_t i = 0; i < bytes; i++) /* the top byte stays small, so that no float is a NaN */
            in[i] = (unsigned char)(i * 37 % 113);
        char *from = t_alloc(bytes + 64), *to = t_alloc(bytes + 64), entry[16];
        memset(out, 0xEE, sizeof out);
        t_write(from, 64, in, bytes);
        t_write(to, 0, out, 64);
        snprintf(entry, sizeof entry, "copy_%s", kl_dialect_type((enum kl_dtype)t));
        int64_t n = N;
        RUN(entry, N, KL_KARG_PTR(from + 64, 1), KL_KARG_PTR(to + 64, 1), KL_KARG(n));
        t_read(to, 64, out, bytes);
        assert_memory_equal(in, out, bytes);
        t_read(to, 0, out, 64);
        for (int i = 0; i < 64; i++) assert_int_equal(out[i], 0xEE);
        t_free(from, bytes + 64);
        t_free(to, bytes + 64);
    }
}

static bool same_float(float a, float b) {
    return (a != a && b != b) || memcmp(&a, &b, sizeof a) == 0;
}

/* Conversion of all values in both directions, with ties, subnormals, overflow and NaN. */
static void sixteen_bit_floats_convert_as_on_the_cpu(void **state) {
    enum { N = 1 << 16, M = 1 << 18 };
    uint16_t *all = malloc(N * 2), *narrow = malloc(M * 2);
    float *wide = malloc(N * 4), *floats = malloc(M * 4);
    assert_true(all && narrow && wide && floats);
    for (int i = 0; i < N; i++) all[i] = (uint16_t)i;
    uint32_t rng = 1;
    for (int i = 0; i < M; i++) {
        uint32_t bits = rng = rng * 1664525u + 1013904223u;
        if (i % 2) /* A tie of float16 for each exponent. */
            bits = (uint32_t)i >> 1 << 14 ^ 0x1000u * (i % 4 == 1);
        memcpy(&floats[i], &bits, 4);
    }
    char *in16 = t_alloc_from(all, N * 2), *out32 = t_alloc(N * 4);
    char *in32 = t_alloc_from(floats, M * 4), *out16 = t_alloc(M * 2);
    for (int bf = 0; bf < 2; bf++) {
        int64_t n = N, m = M;
        RUN(bf ? "widen_bf16" : "widen_f16", N, KL_KARG_PTR(in16, 1), KL_KARG_PTR(out32, 1),
            KL_KARG(n));
        t_read(out32, 0, wide, N * 4);
        for (int i = 0; i < N; i++)
            if (!same_float(wide[i], bf ? kl_bf16_to_f32(all[i]) : kl_f16_to_f32(all[i])))
                fail_msg("%s %04x gives %g", bf ? "bf16" : "f16", i, wide[i]);
        RUN(bf ? "narrow_bf16" : "narrow_f16", M, KL_KARG_PTR(in32, 1), KL_KARG_PTR(out16, 1),
            KL_KARG(m));
        t_read(out16, 0, narrow, M * 2);
        for (int i = 0; i < M; i++) {
            float f = floats[i], got, want;
            got = bf ? kl_bf16_to_f32(narrow[i]) : kl_f16_to_f32(narrow[i]);
            want = bf ? kl_bf16_to_f32(kl_f32_to_bf16(f)) : kl_f16_to_f32(kl_f32_to_f16(f));
            if (!same_float(got, want)) fail_msg("%a gives %a, not %a (bf: %d)", f, got, want, bf);
        }
    }
    t_free(in16, N * 2);
    t_free(out32, N * 4);
    t_free(in32, M * 4);
    t_free(out16, M * 2);
    free(all);
    free(narrow);
    free(wide);
    free(floats);
}

static void extremes(void **state) {
    const float nan_ = __builtin_nanf(""), a[] = {1, -0.0f, 0.0f, nan_, 2, -3},
                b[] = {2, 0.0f, -0.0f, 1, nan_, -4}, max[] = {2, 0.0f, 0.0f, nan_, nan_, -3},
                min[] = {1, -0.0f, -0.0f, nan_, nan_, -4};
    enum { N = 6 };
    float got[2 * N];
    int64_t n = N;
    char *pa = t_alloc_from(a, sizeof a), *pb = t_alloc_from(b, sizeof b),
         *po = t_alloc(sizeof got);
    RUN("extremes_f32", N, KL_KARG_PTR(pa, 1), KL_KARG_PTR(pb, 1), KL_KARG_PTR(po, 1), KL_KARG(n));
    t_read(po, 0, got, sizeof got);
    for (int i = 0; i < N; i++) {
        assert_true(same_float(got[2 * i], max[i]));
        assert_true(same_float(got[2 * i + 1], min[i]));
    }
    const int64_t ia[] = {INT64_MIN, -1, 5}, ib[] = {INT64_MAX, 0, 5};
    int64_t igot[6], im = 3;
    t_write(pa, 0, ia, sizeof ia);
    t_write(pb, 0, ib, sizeof ib);
    RUN("extremes_i64", 3, KL_KARG_PTR(pa, 1), KL_KARG_PTR(pb, 1), KL_KARG_PTR(po, 1), KL_KARG(im));
    t_read(po, 0, igot, sizeof igot);
    for (int i = 0; i < 3; i++) {
        assert_true(igot[2 * i] == ib[i]);
        assert_true(igot[2 * i + 1] == ia[i]);
    }
    t_free(pa, sizeof a);
    t_free(pb, sizeof b);
    t_free(po, sizeof got);
}

/* ---- spaces, groups, faults, atomics ---- */

/* The helper for a struct by value, and the values of its fields. */
static void spaces_are_walked(void **state) {
    static const struct kl_space spaces[] = {
        {.n = 1, .ndim = 0},
        {.n = 7, .ndim = 1, .dims = {7}, .strides = {{1}, {-1}, {0}, {3}}},
        {.n = 24,
         .ndim = 3,
         .dims = {2, 3, 4},
         .strides = {{12, 4, 1}, {1, 2, 6}, {-12, 0, 1}, {0, 0, 5}}},
        {.n = 256,
         .ndim = 8,
         .dims = {2, 2, 2, 2, 2, 2, 2, 2},
         .strides = {{128, 64, 32, 16, 8, 4, 2, 1},
                     {1, 2, 4, 8, 16, 32, 64, 128},
                     {-1, 2, -4, 8, -16, 32, -64, 128},
                     {0, 1, 0, 1, 0, 1, 0, 1}}}};
    enum { ROOM = 1024, ZERO = 512 };
    int32_t in[ROOM], out[256];
    for (int i = 0; i < ROOM; i++) in[i] = i * 3 + 1;
    char *from = t_alloc_from(in, sizeof in), *to = t_alloc(sizeof out);
    for (size_t k = 0; k < sizeof spaces / sizeof *spaces; k++)
        for (int operand = 0; operand < KL_SPACE_OPERANDS; operand++) {
            const struct kl_space *s = &spaces[k];
            RUN("walk", s->n, KL_KARG(*s), KL_KARG_PTR(from + ZERO * 4, 1), KL_KARG_PTR(to, 1),
                KL_KARG(operand));
            t_read(to, 0, out, (size_t)s->n * 4);
            for (int64_t i = 0; i < s->n; i++) {
                int64_t left = i, at = ZERO;
                for (int axis = s->ndim - 1; axis >= 0; axis--) {
                    at += left % s->dims[axis] * s->strides[operand][axis];
                    left /= s->dims[axis];
                }
                assert_int_equal(out[i], in[at]);
            }
        }
    t_free(from, sizeof in);
    t_free(to, sizeof out);
}

static void groups_share_memory(void **state) {
    enum { GROUPS = 5, N = GROUPS * LOCAL };
    uint32_t in[N], out[N];
    for (uint32_t i = 0; i < N; i++) in[i] = i;
    char *from = t_alloc_from(in, sizeof in), *to = t_alloc(sizeof out);
    RUN("reverse", N, KL_KARG_PTR(from, 1), KL_KARG_PTR(to, 1));
    t_read(to, 0, out, sizeof out);
    for (uint32_t i = 0; i < N; i++)
        assert_int_equal(out[i], (i / LOCAL * LOCAL + LOCAL - 1 - i % LOCAL) + 1000 * (i / LOCAL) +
                                     100000 * GROUPS);
    t_free(from, sizeof in);
    t_free(to, sizeof out);
}

static void the_smallest_fault_comes_back(void **state) {
    enum { N = 5000 };
    int32_t in[N], size = 10;
    int64_t n = N;
    struct kl_fault_words w = {0};
    struct kl_error *err = NULL;
    SUCCEED(d->ops->words_new(d, &w, &err), err);
    for (int i = 0; i < KL_WORDS; i++) assert_int_equal(w.host[i], KL_WORD_CLEAR);
    for (int i = 0; i < N; i++) in[i] = i % 10;
    char *from = t_alloc_from(in, sizeof in);
    static const struct {
        int at, word;
    } cases[] = {{-1, 5}, {1234, 5}, {0, KL_WORDS - 1}, {N - 1, 1}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        int word = cases[k].word, bad = -1;
        if (cases[k].at >= 0)
            for (int i = cases[k].at; i < N; i += 777) t_write(from, (size_t)i * 4, &bad, 4);
        run_with(everything, &w, "check", N,
                 (struct kl_karg[]){KL_KARG_PTR(from, 1), KL_KARG_PTR(w.device, 4), KL_KARG(word),
                                    KL_KARG(size), KL_KARG(n)},
                 5);
        for (int i = 0; i < KL_WORDS; i++) {
            uint32_t want = KL_WORD_CLEAR;
            if (cases[k].at >= 0 && i == 0) want = (uint32_t)word;
            if (cases[k].at >= 0 && i == word) want = (uint32_t)cases[k].at;
            assert_int_equal(w.host[i], want);
        }
        t_write(from, 0, in, sizeof in);
        d->ops->words_clear(d, &w);
        assert_int_equal(w.host[0], KL_WORD_CLEAR);
        if (w.host == w.device) continue; /* there is one copy */
        memset(w.host, 0, KL_WORDS * 4);
        t_finish(queue, &w); /* the device's copy of the words is clear as well */
        for (int i = 0; i < KL_WORDS; i++) assert_int_equal(w.host[i], KL_WORD_CLEAR);
    }
    t_free(from, sizeof in);
    const bool apart = w.host != w.device;
    t_free(w.device, KL_WORDS * 4);
    if (apart) kl_free(w.host);
}

static void atomics_are_atomic(void **state) {
    enum { GROUPS = 64, N = GROUPS * LOCAL };
    uint32_t w[7] = {0, 0, UINT32_MAX, 0, 0, 0, 0};
    char *p = t_alloc_from(w, sizeof w);
    RUN("atomics", N, KL_KARG_PTR(p, 1));
    t_read(p, 0, w, sizeof w);
    assert_int_equal(w[0], N);
    assert_int_equal(w[1], N - 1);
    assert_int_equal(w[2], 0);
    assert_int_equal(w[3], 2 * N);
    assert_int_equal(w[4], 77);
    /* the sum of the largest global id of each group */
    assert_int_equal(w[5], LOCAL * (GROUPS * (GROUPS - 1) / 2) + GROUPS * (LOCAL - 1));
    assert_int_equal(w[6], 3 * N);
    t_free(p, sizeof w);
    if (!d->has_atomic64) return;
    uint64_t v[3] = {0};
    p = t_alloc_from(v, sizeof v);
    RUN("atomics64", N, KL_KARG_PTR(p, 1));
    t_read(p, 0, v, sizeof v);
    assert_true(v[0] == (uint64_t)N << 32);
    assert_true(v[1] == (uint64_t)(3 * N) << 32);
    assert_true(v[2] == (uint64_t)77 << 40);
    t_free(p, sizeof v);
}

static void functions(void **state) {
    float o[12], x = 1.5f, y = 3.0f;
    uint32_t big = 0xF0000000u;
    char *p = t_alloc(sizeof o);
    RUN("functions", 1, KL_KARG_PTR(p, 1), KL_KARG(x), KL_KARG(y), KL_KARG(big));
    t_read(p, 0, o, sizeof o);
    static const double want[12] = {4.4816890703380645,
                                    0.4054651081081644,
                                    1.224744871391589,
                                    1,
                                    0.9974949866040544,
                                    0.0707372016677029,
                                    3.3541019662496847,
                                    1.1071487177940904,
                                    6,
                                    15,
                                    6,
                                    0.5};
    for (int i = 0; i < 12; i++) {
        double off = (o[i] - want[i]) / want[i];
        if (off > 1e-6 || off < -1e-6) fail_msg("function %d gives %.9g", i, o[i]);
    }
    assert_true(o[2] == __builtin_sqrtf(x)); /* the square root is correctly rounded */
    t_free(p, sizeof o);
}

/* CPUs do not fail at a misaligned address, so Keel itself must refuse the launch. */
static void addresses_are_aligned_to_their_items(void **state) {
    char *p = t_alloc(64);
    begin();
    for (uint32_t item = 0; item <= 16; item = item ? item * 2 : 1)
        for (uint32_t at = 0; at <= 16; at++) {
            struct kl_error *err = NULL;
            struct kl_emit e = {
                .lowering = lowering, .driver = d, .queue = queue, .dry = false, .err = &err};
            struct kl_karg args[] = {KL_KARG_PTR(NULL, 1), KL_KARG_PTR(p + at, item)};
            int rc =
                kl_emit_source(&e, "not_followed", everything, "not_followed", 1, LOCAL, args, 2);
            int want = item == 0 ? KL_EINTERNAL : at % item ? KL_EVALIDATE : KL_OK;
            if (rc != want) fail_msg("%u bytes at %u: %d, not %d", item, at, rc, want);
            if (!rc) continue;
            assert_non_null(strstr(err->message, "kernel 'not_followed': argument 1"));
            kl_error_release(err);
        }
    finish(NULL);
    t_free(p, 64);
}

/* A kernel that follows none: Metal has a buffer of its own there. */
static void null_is_an_address(void **state) {
    uint32_t got = 0;
    char *p = t_alloc(64);
    RUN("not_followed", 1, KL_KARG_PTR(NULL, 1), KL_KARG_PTR(p + 8, 1));
    t_read(p, 8, &got, 4);
    assert_int_equal(got, on_metal() ? 1 : 2);
    t_free(p, 64);
}

/* On a device without float64, complex functions are computed in float32. The values are the same,
 * with larger errors. */
static void functions_without_float64(void **state) {
    static const char kernel[] =
        "KERNEL(no_float64)(PTR(out)) {\n"
        "    GLOBAL c64 *o = AT(c64, out);\n"
        "    c64 a = make_c64(0.5f, -0.75f), b = make_c64(-1.25f, 2.0f);\n"
        "    if (gid() != 0) return;\n"
        "    o[0] = op_sin_c64(a); o[1] = op_cos_c64(a); o[2] = op_tan_c64(a);\n"
        "    o[3] = op_arcsin_c64(a); o[4] = op_arccos_c64(a); o[5] = op_arctan_c64(a);\n"
        "    o[6] = op_sinh_c64(a); o[7] = op_cosh_c64(a); o[8] = op_tanh_c64(a);\n"
        "    o[9] = op_arcsinh_c64(a); o[10] = op_arccosh_c64(a); o[11] = op_arctanh_c64(a);\n"
        "    o[12] = op_log1p_c64(a); o[13] = op_rsqrt_c64(a); o[14] = op_power_c64(a, b);\n"
        "    o[15] = op_logaddexp_c64(a, b); o[16] = op_exp_c64(a); o[17] = op_sqrt_c64(a);\n"
        "    o[18] = op_log10_c64(a);\n"
        "}\n";
    const double complex a = 0.5 - 0.75 * I, b = -1.25 + 2.0 * I;
    const double complex want[] = {
        csin(a),     ccos(a),      ctan(a),          casin(a),
        cacos(a),    catan(a),     csinh(a),         ccosh(a),
        ctanh(a),    casinh(a),    cacosh(a),        catanh(a),
        clog(1 + a), 1 / csqrt(a), cpow(a, b),       clog(cexp(a) + cexp(b)),
        cexp(a),     csqrt(a),     clog(a) / log(10)};
    enum { N = sizeof want / sizeof *want };
    size_t room = strlen(kl_source_elementwise) + strlen(kl_source_math) + sizeof kernel + 64;
    char *source = malloc(room), *out = t_alloc(8 * N);
    float got[2 * N];
    assert_non_null(source);
    snprintf(source, room, "#undef HAS_F64\n%s%s%s", kl_source_elementwise, kl_source_math, kernel);
    run_with(source, NULL, "no_float64", 1, (struct kl_karg[]){KL_KARG_PTR(out, 4)}, 1);
    t_read(out, 0, got, sizeof got);
    for (int i = 0; i < N; i++)
        if (!(cabs(want[i] - (got[2 * i] + got[2 * i + 1] * I)) <= 4e-6 * cabs(want[i])))
            fail_msg("function %d: %.9g %+.9gi, not %.9g %+.9gi", i, (double)got[2 * i],
                     (double)got[2 * i + 1], creal(want[i]), cimag(want[i]));
    free(source);
    t_free(out, 8 * N);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_warns),
        cmocka_unit_test(every_type_is_loaded_and_stored),
        cmocka_unit_test(sixteen_bit_floats_convert_as_on_the_cpu),
        cmocka_unit_test(extremes),
        cmocka_unit_test(spaces_are_walked),
        cmocka_unit_test(groups_share_memory),
        cmocka_unit_test(the_smallest_fault_comes_back),
        cmocka_unit_test(atomics_are_atomic),
        cmocka_unit_test(functions),
        cmocka_unit_test(addresses_are_aligned_to_their_items),
        cmocka_unit_test(null_is_an_address),
        cmocka_unit_test(functions_without_float64),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
