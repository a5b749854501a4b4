/* test_nvrtc.c - the CUDA prelude, the common prelude and every family of kernels, compiled by
 * NVRTC for sm_90. No device is needed; without NVRTC nothing is compiled, and the output says
 * so. */
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/cuda/nvrtc_support.h"

#include "backend/cuda/cuda_internal.h"
#include "backend/gpu/lower/product_gather.h"
#include "base/op/quant_mode.h"

#include "ops/kernel.h"

static int compile_source(const char *name, const char *source, struct kl_error **err) {
    struct kl_emit e = {
        .lowering = lowering, .driver = &driver, .queue = NULL, .dry = true, .err = err};
    return kl_emit_source(&e, name, source, "k", 0, 128, NULL, 0);
}

static void compiles(const char *name, const char *source) {
    struct kl_error *e = NULL;
    if (no_nvrtc(1)) return;
    int rc = compile_source(name, source, &e);
    if (rc) fail_msg("%s: %s", name, e ? e->message : "no message");
}

/* ---- the preludes ---- */

static const char *const types[] = {"b8",  "u8",  "u16", "u32", "u64", "i8",   "i16",
                                    "i32", "i64", "f16", "f32", "f64", "bf16", "c64"};
enum { N_TYPES = sizeof types / sizeof *types };

static void test_storage_types(void **state) {
    for (int i = 0; i < N_TYPES; i++) {
        char source[1024];
        snprintf(source, sizeof source,
                 "#define T %s\n"
                 "KERNEL(k)(PTR(in), PTR(out), int n) {\n"
                 "    GLOBAL const T *a = AT(T, in);\n"
                 "    GLOBAL T *b = AT(T, out);\n"
                 "    i64 i = gid();\n"
                 "    if (i >= n) return;\n"
                 "    CAT(c_, T) v = LOAD(T, a, i), w = CAT(max_, T)(v, LOAD(T, a, 0));\n"
                 "    STORE(T, b, i, ROUND(T, CAT(min_, T)(v, w)));\n"
                 "}\n",
                 types[i]);
        compiles(types[i], source);
    }
}

static void test_groups_and_spaces(void **state) {
    compiles("groups", "KERNEL(k)(PTR(in), PTR(out), struct space s, PTR(word), int word_index) {\n"
                       "    SHARED(f32, sums, LOCAL);\n"
                       "    GLOBAL const f32 *a = AT(f32, in);\n"
                       "    GLOBAL f32 *b = AT(f32, out);\n"
                       "    SHARED_PTR f32 *p = sums;\n"
                       "    f32 v = 0;\n"
                       "    for (i64 i = gid(); i < s.n; i += (i64)n_groups() * LOCAL)\n"
                       "        v += LOAD(f32, a, space_at(&s, 1, i));\n"
                       "    p[lid()] = v;\n"
                       "    BARRIER();\n"
                       "    UNROLL\n"
                       "    for (u32 d = LOCAL / 2; d > 0; d /= 2) {\n"
                       "        if (lid() < d) p[lid()] += p[lid() + d];\n"
                       "        BARRIER();\n"
                       "    }\n"
                       "    if (lid() == 0) b[group_id()] = sums[0];\n"
                       "    if (v != v) fault(AT(u32, word), word_index, gid());\n"
                       "}\n");
}

static void test_functions(void **state) {
    static const char *const of[] = {"f32", "f64"};
    for (int i = 0; i < 2; i++) {
        char source[1024];
        snprintf(
            source, sizeof source,
            "#define T %s\n"
            "KERNEL(k)(PTR(out), T x, T y) {\n"
            "    AT(T, out)[gid()] = fn_exp(x) + fn_log(x) + fn_sqrt(x) + fn_floor(x) + fn_sin(x)\n"
            "        + fn_cos(x) + fn_hypot(x, y) + fn_atan2(y, x) + fn_fma(x, y, x);\n"
            "}\n",
            of[i]);
        compiles(of[i], source);
    }
}

static void test_atomics(void **state) {
    compiles(
        "atomics",
        "KERNEL(k)(PTR(a), PTR(b)) {\n"
        "    GLOBAL u32 *p = AT(u32, a);\n"
        "    u32 v = atomic_min_u32(p, 1) + atomic_add_u32(p, 2) + atomic_max_u32(p, 3)\n"
        "        + atomic_cas_u32(p, 4, 5) + atomic_exchange_u32(p, 6) + mul_hi_u32(7, lid());\n"
        "#ifdef HAS_ATOMIC64\n"
        "    GLOBAL u64 *q = AT(u64, b);\n"
        "    u64 w = atomic_cas_u64(q, 1, 2) + atomic_add_u64(q, 3) + atomic_exchange_u64(q, 4);\n"
        "    q[gid()] = v + w;\n"
        "#endif\n"
        "}\n");
}

/* A mistake in a user's source is reported with its line in that source, whatever stands before the
 * source. */
static void test_mistakes(void **state) {
    struct kl_error *e = NULL;
    if (no_nvrtc(1)) return;
    assert_int_equal(compile_source("bad", "KERNEL(k)(int n) {\n    undeclared(n);\n}\n", &e),
                     KL_ECOMPILE);
    assert_non_null(strstr(e->message, "undeclared"));
    assert_non_null(strstr(e->message, "(2)"));
    kl_error_release(e);
    e = NULL;
    /* A long log of the compiler is cut. */
    char *many = malloc(64 << 10);
    size_t n = (size_t)sprintf(many, "KERNEL(k)(int n) {\n");
    for (int i = 0; i < 90; i++) n += (size_t)sprintf(many + n, "    undeclared_%d(n);\n", i);
    sprintf(many + n, "}\n");
    assert_int_equal(compile_source("bad", many, &e), KL_ECOMPILE);
    assert_non_null(strstr(e->message, "undeclared_0"));
    assert_true(strlen(e->message) < 2200);
    kl_error_release(e);
    free(many);
}

/* For a device that this NVRTC does not know, the kernel is compiled to PTX. */
static void test_future_device(void **state) {
    struct kl_error *e = NULL;
    void *ptx = NULL;
    size_t bytes = 0;
    if (no_nvrtc(1)) return;
    int rc =
        kl_nvrtc_compile(9990, "extern \"C\" __global__ void k() {}", "future", &ptx, &bytes, &e);
    if (rc) fail_msg("%s", e->message);
    assert_non_null(strstr(ptx, ".target"));
    assert_int_equal(((char *)ptx)[bytes - 1], 0);
    kl_free(ptx);
}

/* The message says which library is missing and which variable names it. A process loads the
 * library once, so the message is tested only where the library is missing. */
static void test_missing(void **state) {
    const char *why = NULL;
    if (have_nvrtc) {
        assert_non_null(kl_nvrtc_api(&why));
        assert_null(why);
        return;
    }
    struct kl_error *e = NULL;
    assert_null(kl_nvrtc_api(&why));
    assert_non_null(strstr(why, "KEEL_CUDA_PATH"));
    assert_int_equal(compile_source("any", "KERNEL(k)(int n) {}\n", &e), KL_EUNSUPPORTED);
    assert_non_null(strstr(e->message, why));
    kl_error_release(e);
}

/* ---- families ---- */

/* The values of each family's defines that are integers; all combinations of them are compiled with
 * every type. Every other define has the values 0 and 1. */
static const struct {
    const char *family, *define;
    int values[20], n;
} integers[] = {
    {"copy", "BYTES", {1, 2, 4, 8, 16}, 5},
    {"matmul", "TM", {8, 4, 2, 4, 2}, 5},
    {"attention",
     "WIDTH",
     {64, 128, 64, 128, 0, 256, 64, 32, 128, 128, 64, 128, 0, 64, 64, 0, 128},
     17},
    {"attention", "FEW", {0, 4, 8, 8, 0, 2, 16, 8, 0, 1, 4, 16, 0, 0, 2, 0, 0}, 17},
    {"attention", "MASKED", {0, 0, 1, 1, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 1}, 17},
    {"attention", "MATRIX", {0, 0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 1, 0, 1, 0, 0, 1}, 17},
    {"attention", "ROWS", {64, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 64, 0, 0, 64}, 17},
    {"attention_backward", "GOAL", {1, 1, 4, 4, 0, 1, 2, 3, 1, 4, 2, 0, 4, 1, 4, 1}, 16},
    {"attention_backward", "MASKED", {1, 1, 1, 1, 0, 0, 0, 0, 2, 0, 1, 0, 2, 0, 0, 2}, 16},
    {"attention_backward",
     "ROWS",
     {128, 64, 128, 64, 64, 128, 64, 64, 64, 64, 16, 0, 128, 64, 128, 128},
     16},
    {"attention_backward", "MATRIX", {1, 0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 0, 1, 1, 1, 1}, 16},
    {"attention_backward",
     "WIDTH",
     {64, 64, 64, 128, 64, 64, 64, 64, 128, 128, 64, 64, 64, 128, 64, 64},
     16},
    {"convolution", "TM", {8, 4, 4, 2, 0, 0, 0, 0, 2, 8, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0}, 20},
    {"convolution", "NDIM", {2, 1, 3, 2, 1, 2, 3, 1, 3, 2, 2, 1, 2, 2, 3, 2, 2, 2, 2, 2}, 20},
    {"convolution", "KX", {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 3, 5, 7, 3, 3, 5, 3}, 20},
    {"convolution", "STEP", {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 2, 1, 2, 1, 1}, 20},
    {"convolution", "KY", {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 2, 3, 3}, 20},
    /* in the order of the types below */
    {"convolution", "VECTOR", {1, 1, 1, 1, 8, 4, 2, 8, 1, 1, 1, 8, 8, 4, 2, 8, 4, 4, 2, 4}, 20},
    /* in the order of the types below: f16, f32, f64, bf16 */
    {"convolution_backward", "VECTOR", {8, 4, 2, 8, 4, 4, 2, 8, 8, 1, 1, 8}, 12},
    {"convolution_backward", "CI", {1, 1, 1, 1, 8, 3, 4, 4, 1, 4, 3, 2}, 12},
    {"convolution_backward", "CO", {1, 1, 1, 1, 4, 4, 2, 4, 2, 1, 1, 8}, 12},
    {"convolution_backward", "KX", {3, 3, 3, 3, 3, 7, 1, 3, 1, 1, 1, 5}, 12},
    {"convolution_backward", "LINES", {3, 3, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1}, 12},
    {"convolution_backward", "STEP", {1, 1, 2, 2, 1, 2, 1, 1, 1, 1, 1, 2}, 12},
    {"convolution_backward", "XVEC", {1, 1, 1, 1, 1, 0, 1, 1, 1, 0, 0, 1}, 12},
    {"fft", "ROOM", {2048, 1024}, 2}, /* in the order of the types below */
    {"gather_matrix", "TILES", {1, 2, 4, 1, 2}, 5},
    {"gather_matrix", "EIGHTS", {1, 8, 4, 1, 2}, 5},
    {"gather_matrix", "WAY", {1, 0, 2, 0, 1}, 5},
    {"gather_matrix", "ROUTED", {0, 1, 1, 1, 1}, 5},
    {"gather_matrix", "PIECES", {4, 1, 4, 4, 1}, 5},
    {"gather_mm", "TM", {4, 2, 4, 2, 2}, 5},
    {"gather_mm", "ROUTED", {0, 1, 1, 0, 0}, 5},
    {"attention_sm90", "WIDTH", {64, 128}, 2},
    {"attention_sm90", "IS_BF16", {0, 0, 1, 1}, 4},
    {"attention_sm90", "MASK", {0, 1, 2, 3, 2, 3, 0, 1}, 8},
    {"norm", "FLAGS", {0, 2, 7, 3, 1, 6, 5, 4}, 8},
    {"linalg", "SIZE", {32, 64, 64, 32}, 4},
    {"norm_backward", "FLAGS", {0, 15, 6, 5, 1, 10, 7, 14}, 8},
    {"norm", "KEPT", {32, 8, 16, 16}, 4}, /* in the order of the types below */
    {"norm_backward", "KEPT", {8, 16, 8, 16}, 4},
    /* the same place in each list: one format */
    {"quantized",
     "Q:MODE",
     {KL_QUANT_AFFINE, KL_QUANT_AFFINE, KL_QUANT_AFFINE, KL_QUANT_AFFINE, KL_QUANT_AFFINE,
      KL_QUANT_AFFINE, KL_QUANT_MXFP4, KL_QUANT_MXFP8, KL_QUANT_NVFP4},
     9},
    {"quantized", "BITS", {2, 3, 4, 5, 6, 8, 4, 8, 4}, 9},
    {"quantized", "GROUP", {32, 64, 128, 32, 64, 128, 32, 32, 16}, 9},
    {"quantized", "ROWS", {1, 2, 4, 8, 1, 2, 4, 8, 1}, 9},
    {"quantized_matrix", "BITS", {4, 4, 2, 8, 4, 2, 8, 4, 4, 8, 2, 4}, 12},
    {"quantized_matrix", "GROUP", {64, 64, 32, 64, 128, 64, 128, 32, 64, 32, 128, 64}, 12},
    {"quantized_matrix", "EIGHTS", {1, 2, 4, 8, 1, 2, 4, 8, 1, 1, 8, 4}, 12},
    {"quantized_matrix", "TILES", {1, 2, 2, 2, 1, 2, 1, 2, 1, 1, 1, 2}, 12},
    {"quantized_matrix", "BLOCK", {4, 2, 2, 1, 2, 2, 1, 1, 4, 4, 2, 2}, 12},
    {"quantized_matrix", "BATCHED", {0, 0, 2, 2, 0, 0, 1, 1, 1, 2, 0, 1}, 12},
    {"quantized_row", "BITS", {4, 8, 4, 8}, 4},
    {"quantized_row", "GROUP", {64, 64, 128, 32}, 4},
    {"quantized_row", "BATCHED", {0, 1, 1, 0}, 4},
    {"radix", "PER", {16}, 1},
    {"reduce", "OP", {0, 1, 2, 3}, 4},
    {"rope", "PAIRS", {8, 4, 2, 8, 1, 1, 1, 1}, 8}, /* in the order of the types below */
    {"scan", "OP", {0, 1, 2, 3}, 4},                /* 4 takes floats only: see nvrtc_made */
    {"topk", "MOST", {2048}, 1},
    {NULL, NULL, {0}, 0},
};
/* The families that do not take every type, and the types that they are compiled for. */
static const struct {
    const char *family, *define;
    unsigned dtypes; /* a set of bits, one per dtype */
} some_types[] = {
    {"attention", "T:IN", 1u << KL_F16 | 1u << KL_F32 | 1u << KL_BF16},
    {"attention_backward", "T:IN", 1u << KL_F16 | 1u << KL_F32 | 1u << KL_BF16},
    {"convolution", "T:TYPE", 1u << KL_F16 | 1u << KL_F32 | 1u << KL_F64 | 1u << KL_BF16},
    {"convolution_backward", "T:TYPE", 1u << KL_F16 | 1u << KL_F32 | 1u << KL_F64 | 1u << KL_BF16},
    {"fft", "T:REAL", 1u << KL_F32 | 1u << KL_F64},
    {"gather_matrix", "T:TYPE", 1u << KL_F16 | 1u << KL_BF16},
    {"gather_sm90", "T:TYPE", 1u << KL_F16 | 1u << KL_BF16},
    {"gather_mm", "T:TYPE", 1u << KL_F16 | 1u << KL_F32 | 1u << KL_F64 | 1u << KL_BF16},
    {"norm", "T:IN", 1u << KL_F16 | 1u << KL_F32 | 1u << KL_F64 | 1u << KL_BF16},
    {"linalg", "T:TYPE", 1u << KL_F32 | 1u << KL_F64},
    {"linalg_parts", "T:TYPE", 1u << KL_F32 | 1u << KL_F64},
    {"norm_backward", "T:IN", 1u << KL_F16 | 1u << KL_F32 | 1u << KL_F64 | 1u << KL_BF16},
    {"radix", "T:IN", 1u << KL_F16 | 1u << KL_F32}, /* all: see nvrtc_made */
    {"topk", "T:IN", 1u << KL_F16 | 1u << KL_F32},
    {"product_ring", "T:TYPE", 1u << KL_F16 | 1u << KL_F32 | 1u << KL_BF16},
    {"quantized", "T:TYPE", 1u << KL_F16 | 1u << KL_F32 | 1u << KL_BF16},
    {"quantized", "T:OUT", 1u << KL_F16 | 1u << KL_F32 | 1u << KL_BF16},
    {"quantized_matrix", "T:TYPE", 1u << KL_F16 | 1u << KL_BF16},
    {"quantized_row", "T:TYPE", 1u << KL_F16 | 1u << KL_BF16},
    {"rope", "T:IN", 1u << KL_F16 | 1u << KL_F32 | 1u << KL_F64 | 1u << KL_BF16},
    {"softmax", "T:IN", 1u << KL_F16 | 1u << KL_F32 | 1u << KL_F64 | 1u << KL_BF16 | 1u << KL_C64},
    {"matmul", "T:TYPE", 1u << KL_F16 | 1u << KL_F32 | 1u << KL_F64 | 1u << KL_BF16 | 1u << KL_C64},
    {NULL, NULL, 0},
};

static int values_of(const struct kl_family *f, const char *define, int *out) {
    int n = 0;
    if (strncmp(define, "T:", 2) == 0) {
        unsigned dtypes = (1u << KL_N_DTYPES) - 1;
        for (int i = 0; some_types[i].family; i++)
            if (strcmp(some_types[i].family, f->name) == 0 &&
                strcmp(some_types[i].define, define) == 0)
                dtypes = some_types[i].dtypes;
        for (int t = 0; t < KL_N_DTYPES; t++)
            if (dtypes >> t & 1) out[n++] = t;
        return n;
    }
    for (int i = 0; integers[i].family; i++)
        if (strcmp(integers[i].family, f->name) == 0 && strcmp(integers[i].define, define) == 0) {
            memcpy(out, integers[i].values, sizeof integers[i].values);
            return integers[i].n;
        }
    out[0] = 0;
    out[1] = 1;
    return 2;
}

/* Compiles with every value of every define at least once: compilation i takes value i of each
 * define, modulo the number of values. All combinations would take hours. */
static void compile_family(const struct kl_family *f) {
    int values[KL_MAX_DEFINES][KL_N_DTYPES + 20], n[KL_MAX_DEFINES] = {0}, most = 1;
    for (int d = 0; d < KL_MAX_DEFINES && f->defines[d]; d++) {
        n[d] = values_of(f, f->defines[d], values[d]);
        if (n[d] > most) most = n[d];
    }
    if (no_nvrtc(most)) return;
    for (int i = 0; i < most; i++) {
        if (i > 0 && !kl_test_takes("kernels", 1)) continue; /* one of each family in any sample */
        int row[KL_MAX_DEFINES] = {0};
        char what[256] = "";
        for (int d = 0; d < KL_MAX_DEFINES && f->defines[d]; d++) {
            row[d] = values[d][i % n[d]];
            snprintf(what + strlen(what), sizeof what - strlen(what), " %s=%d", f->defines[d],
                     row[d]);
        }
        struct kl_error *e = NULL;
        struct kl_emit emit = {.lowering = lowering, .driver = &driver, .dry = true, .err = &e};
        if (kl_emit(&emit, f, row, "", 0, 128, NULL, 0))
            fail_msg("%s%s: %s", f->name, what, e->message);
    }
}

/* The reductions whose types are not free; the families compile the others. */
static void test_reductions(void **state) {
    enum { ALL = 4, LOGSUMEXP = 6, VAR = 7 };
    for (int d = 0; d < KL_N_DTYPES; d++) {
        const bool real = kl_dtype_is_float((enum kl_dtype)d);
        const int made[][2] = {{ALL + d % 2, KL_BOOL}, {VAR, real ? d : KL_F32}, {LOGSUMEXP, d}};
        for (int i = 0; i < (real || d == KL_C64 ? 3 : 2); i++) {
            int row[KL_MAX_DEFINES] = {d, made[i][1], made[i][0]};
            struct kl_error *e = NULL;
            struct kl_emit emit = {.lowering = lowering, .driver = &driver, .dry = true, .err = &e};
            if (!kl_test_takes("kernels", 3) || no_nvrtc(1)) continue;
            if (kl_emit(&emit, &kl_family_reduce, row, "", 0, 128, NULL, 0))
                fail_msg("reduction %d of %s: %s", row[2], kl_dtype_name(d), e->message);
        }
    }
}

/* ---- custom kernels: what ops/kernel.c makes of a user's source ---- */

static int compile_kernel(const struct kl_kernel_def *def, const struct kl_kernel_use *use,
                          struct kl_array *const *in, struct kl_error **err) {
    struct kl_kernel *k = NULL;
    char *text = NULL, entry[128];
    KL_TRY(kl_kernel_new(&k, def, err));
    int rc = kl_kernel_source(&text, k, use, in, def->n_in, err);
    if (!rc) {
        struct kl_emit e = {
            .lowering = lowering, .driver = &driver, .queue = NULL, .dry = true, .err = err};
        snprintf(entry, sizeof entry, "keel_%s", def->name);
        struct kl_grid_launch g = {
            .name = def->name,
            .source = text,
            .entry = entry,
            .library = kl_source_kernel,
            .bare = def->is_cuda,
            .groups = {1, 1, 1},
            .local = {(uint32_t)use->group[0], (uint32_t)use->group[1], (uint32_t)use->group[2]}};
        rc = kl_emit_grid(&e, &g, NULL, 0);
    }
    kl_free(text);
    kl_kernel_free(k);
    return rc;
}

/* Compiles a kernel from x of this dtype and shape to y, with the templates T, N and B. */
static int compile_use(bool is_cuda, const char *source, const char *header, enum kl_dtype dtype,
                       int ndim, struct kl_error **err) {
    const int dims[] = {2, 3, 4};
    struct kl_array *x = NULL;
    struct kl_out_spec y = {dtype, ndim, dims};
    const char *in_names[] = {"x"}, *out_names[] = {"y"};
    struct kl_kernel_def def = {.name = "mine",
                                .source = source,
                                .header = header,
                                .in_names = in_names,
                                .n_in = 1,
                                .out_names = out_names,
                                .n_out = 1,
                                .is_cuda = is_cuda};
    struct kl_kernel_template t[] = {
        {"T", KL_TEMPLATE_DTYPE, dtype}, {"N", KL_TEMPLATE_INT, -3}, {"B", KL_TEMPLATE_BOOL, 1}};
    struct kl_kernel_use use = {.outs = &y,
                                .n_outs = 1,
                                .templates = t,
                                .n_templates = 3,
                                .grid = {24, 1, 1},
                                .group = {8, 4, 1},
                                .shared_bytes = 64};
    KL_TRY(kl_array_new_data(&x, NULL, dtype, ndim, dims, err));
    int rc = compile_kernel(&def, &use, &x, err);
    kl_array_release(x);
    return rc;
}

static void use_compiles(bool is_cuda, const char *source, const char *header, enum kl_dtype dtype,
                         int ndim) {
    struct kl_error *e = NULL;
    if (no_nvrtc(1)) return;
    if (compile_use(is_cuda, source, header, dtype, ndim, &e))
        fail_msg("%s of %d axes: %s", kl_dtype_name(dtype), ndim, e ? e->message : "no message");
}

static bool have_headers(void) {
    const char *library = NULL;
    return have_nvrtc && kl_nvrtc_include(&library) && library;
}

/* Whether a case of dtype t is compiled: float32 in any sample. */
static bool in_sample(int t) {
    return t == KL_F32 || kl_test_takes("kernels", 1);
}

static void test_cuda_sources(void **state) {
    static const char *const source =
        "int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;\n"
        "if (i < y_size) {\n"
        "    T v = x[elem_to_loc(i, x_shape.data(), x_strides.data(), x_ndim)];\n"
        "    y[i] = B && x_shape[0] > N ? v : x[x_strides[0]];\n"
        "}\n";
    for (int t = 0; t < KL_N_DTYPES; t++) {
        bool half = t == KL_F16 || t == KL_BF16;
        if (half && !have_headers()) continue;
        for (int ndim = 0; ndim < 4; ndim += 1 + (t % 2))
            if (in_sample(t)) use_compiles(true, source, NULL, t, ndim);
    }
    use_compiles(
        true, "extern __shared__ float part[];\npart[threadIdx.x] = twice(x[0]);\ny[0] = part[0];",
        "__device__ float twice(float v) { return v + v; }", KL_F32, 1);
    if (!have_headers()) return;
    use_compiles(true,
                 "auto e = cooperative_groups::this_grid().thread_rank();\n"
                 "T v = x[e];\ny[e] = exp(float(v));\n",
                 NULL, KL_F32, 1);
    use_compiles(true, "auto e = cg::this_grid().thread_rank();\ny[e] = x[e];", NULL, KL_BF16, 1);
    use_compiles(true, "y[0] = cuda::std::numeric_limits<int32_t>::max();",
                 "#include <cuda/std/cstdint>\n#include <cuda/std/limits>", KL_I32, 1);
}

static void test_dialect_sources(void **state) {
    static const char *const source =
        "i64 i = gid();\n"
        "SHARED_PTR u32 *part = SHARED_AT(u32, 0);\n"
        "shared_atomic_add_u32(part, local_id(1) + lid());\n"
        "BARRIER();\n"
        "if (i >= y_size || !in_grid()) return;\n"
        "STORE(T, y, i, LOAD(x_type, x, elem_to_loc(i, x_shape, x_strides, x_ndim)));\n"
        "if (B && N > 0) RAISE(2, i + group_id(0) + n_groups(2) + grid_size(1) + thread_id(0));\n";
    for (int t = 0; t < KL_N_DTYPES; t++)
        if (in_sample(t)) use_compiles(false, source, NULL, t, t % 4);
    use_compiles(false, "atomic_add_f32(y, x[0]); atomic_max_f32(y, 1); atomic_min_f32(y, 1);",
                 NULL, KL_F32, 1);
    use_compiles(false, "atomic_add_i32(y, x[0]); atomic_max_i32(y, 1); atomic_min_i32(y, 1);",
                 NULL, KL_I32, 1);
}

/* Errors are reported with lines of the user's source, in a file of the kernel's name. */
static void test_kernel_mistakes(void **state) {
    if (no_nvrtc(4)) return;
    for (int is_cuda = 0; is_cuda < 2; is_cuda++)
        for (int in_header = 0; in_header < 2; in_header++) {
            struct kl_error *e = NULL;
            const char *body = in_header ? "" : "// a\n// b\ny[0] = no_such_name;\n";
            const char *header = in_header ? "// a\n#error nothing here\n" : "";
            assert_int_equal(compile_use(is_cuda, body, header, KL_F32, 1, &e), KL_ECOMPILE);
            const char *where = in_header ? "mine (header)(2)" : "mine(3)";
            if (!strstr(e->message, where)) fail_msg("no %s: %s", where, e->message);
            assert_non_null(strstr(e->message, in_header ? "nothing here" : "no_such_name"));
            kl_error_release(e);
        }
}

static void test_families(void **state) {
    int n;
    const struct kl_family *const *families = kl_families(&n);
    for (int i = 0; i < n; i++) compile_family(families[i]);
    compile_family(&kl_family_attention_sm90);
    compile_family(&kl_family_gather_sm90);
}

/* ---- the end of a process ---- */

static _Atomic(int) n_ended;

static void *compile_on(void *arg) {
    for (int i = 0;; i++) {
        struct kl_error *e = NULL;
        char source[4096];
        void *binary = NULL;
        size_t bytes, at = 0;
        at += (size_t)snprintf(source, sizeof source,
                               "extern \"C\" __global__ void k%d(float *p) {", i);
        for (int k = 0; k < 20; k++)
            at += (size_t)snprintf(source + at, sizeof source - at,
                                   "p[%d] = sinf(p[%d]) / p[%d];\n", k, k + 1, k + i % 7);
        snprintf(source + at, sizeof source - at, "}");
        if (kl_nvrtc_compile(90, source, "k", &binary, &bytes, &e)) abort();
        kl_free(binary);
        atomic_fetch_add(&n_ended, 1);
    }
    return NULL;
}

/* What this program does when it is called with an argument: it ends while a thread compiles. */
static int end_while_compiling(void) {
    pthread_t t;
    for (int i = 0; i < 2; i++) pthread_create(&t, NULL, compile_on, NULL);
    while (atomic_load(&n_ended) == 0) sched_yield();
    return 0; /* NVRTC's exit handlers release what it compiles with */
}

static void test_the_end_of_the_process(void **state) {
    if (no_nvrtc(1)) return;
    for (int i = 0; i < 8; i++) {
        pid_t child = fork();
        if (child == 0) kl_test_run_again((const char *[]){"end", NULL});
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (status) fail_msg("the process ended with status %#x", (unsigned)status);
    }
}

int main(int argc, char **argv) {
    if (argc > 1) return end_while_compiling();
    have_nvrtc = kl_nvrtc_api(NULL) != NULL;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_storage_types),
        cmocka_unit_test(test_groups_and_spaces),
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_atomics),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_future_device),
        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_cuda_sources),
        cmocka_unit_test(test_dialect_sources),
        cmocka_unit_test(test_kernel_mistakes),
        cmocka_unit_test(test_families),
        cmocka_unit_test(test_reductions),
        cmocka_unit_test(test_the_end_of_the_process),
    };
    return nvrtc_report(cmocka_run_group_tests(tests, nvrtc_setup, NULL));
}
