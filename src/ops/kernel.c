/* kernel.c - see kernel.h. */
#include "ops/kernel_source.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/op/op_params.h"
#include "ops/ops.h"

enum { MAX_NAME = 100 };

/* ---- definitions ---- */

static bool is_identifier(const char *s) {
    if (!s || !(isalpha((unsigned char)*s) || *s == '_')) return false;
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && *s != '_') return false;
    return true;
}

static int check_name(const char *what, const char *name, struct kl_error **err) {
    if (!is_identifier(name) || strlen(name) > MAX_NAME)
        return kl_fail(err, KL_EARG, "%s '%.64s' is no identifier of C of 1 to %d letters", what,
                       name ? name : "(NULL)", MAX_NAME);
    if (strncmp(name, "keel_", 5) == 0)
        return kl_fail(err, KL_EARG, "%s '%.64s': names that begin with keel_ are taken", what,
                       name);
    return KL_OK;
}

static int check_def(const struct kl_kernel_def *def, struct kl_error **err) {
    KL_TRY(check_name("the kernel's name", def->name, err));
    if (!def->source) return kl_fail(err, KL_EARG, "the source is NULL");
    if (def->n_out == 0) return kl_fail(err, KL_EARG, "kernel '%s' has no outputs", def->name);
    if (def->n_in + def->n_out > KL_KERNEL_MAX_ARGS || def->n_in > KL_KERNEL_MAX_ARGS)
        return kl_fail(err, KL_ELIMIT,
                       "kernel '%s' has %zu inputs and %zu outputs; %d arrays at most", def->name,
                       def->n_in, def->n_out, KL_KERNEL_MAX_ARGS);
    if ((def->n_in && !def->in_names) || !def->out_names)
        return kl_fail(err, KL_EARG, "the list of names is NULL");
    for (size_t i = 0; i < def->n_in + def->n_out; i++) {
        const char *name = i < def->n_in ? def->in_names[i] : def->out_names[i - def->n_in];
        KL_TRY(check_name(i < def->n_in ? "the input" : "the output", name, err));
        for (size_t k = 0; k < i; k++)
            if (strcmp(name, k < def->n_in ? def->in_names[k] : def->out_names[k - def->n_in]) == 0)
                return kl_fail(err, KL_EARG, "two arrays of kernel '%s' are called '%.64s'",
                               def->name, name);
    }
    return KL_OK;
}

bool kl_kernel_speaks_of(const struct kl_kernel *k, const char *text) {
    return strstr(k->source, text) || strstr(k->header, text);
}

/* Whether the source contains the name with one of the endings. A false yes only adds an
 * argument. */
static bool described(const struct kl_kernel *k, const char *name) {
    static const char *const endings[] = {"_shape", "_strides", "_ndim", "_size"};
    size_t n = strlen(name);
    for (const char *text = k->source; text; text = text == k->source ? k->header : NULL)
        for (const char *at = text; (at = strstr(at, name)); at++)
            for (int i = 0; i < 4; i++)
                if (strncmp(at + n, endings[i], strlen(endings[i])) == 0) return true;
    return false;
}

void kl_kernel_free(struct kl_kernel *k) {
    if (!k) return;
    for (int i = 0; k->names && i < k->n_in + k->n_out; i++) kl_free(k->names[i]);
    kl_free(k->names);
    kl_free(k->name);
    kl_free(k->source);
    kl_free(k->header);
    kl_free(k);
}

static bool copy_texts(struct kl_kernel *k, const struct kl_kernel_def *def) {
    size_t n = def->n_in + def->n_out;
    k->name = kl_strdup(def->name);
    k->source = kl_strdup(def->source);
    k->header = kl_strdup(def->header ? def->header : "");
    k->names = kl_calloc(n, sizeof *k->names);
    if (!k->name || !k->source || !k->header || !k->names) return false;
    for (size_t i = 0; i < n; i++)
        if (!(k->names[i] =
                  kl_strdup(i < def->n_in ? def->in_names[i] : def->out_names[i - def->n_in])))
            return false;
    return true;
}

int kl_kernel_new(struct kl_kernel **out, const struct kl_kernel_def *def, struct kl_error **err) {
    KL_TRY(check_def(def, err));
    struct kl_kernel *k = kl_calloc(1, sizeof *k);
    if (!k) return kl_fail_nomem(err);
    k->n_in = (int)def->n_in;
    k->n_out = (int)def->n_out;
    if (!copy_texts(k, def)) {
        kl_kernel_free(k);
        return kl_fail_nomem(err);
    }
    k->is_cuda = def->is_cuda;
    k->is_metal = def->is_metal;
    k->atomic_outputs = def->atomic_outputs;
    k->row_contiguous = def->row_contiguous;
    k->raises = !def->is_cuda && !def->is_metal && kl_kernel_speaks_of(k, "RAISE");
    k->shared_bytes = def->shared_bytes;
    for (int i = 0; i < k->n_in + k->n_out; i++)
        if (described(k, k->names[i])) k->described |= UINT32_C(1) << i;
    *out = k;
    return KL_OK;
}

/* ---- text ---- */

void kl_kernel_add(struct kl_kernel_text *t, const char *fmt, ...) {
    for (int attempt = 0; attempt < 2 && !t->failed; attempt++) {
        va_list args;
        va_start(args, fmt);
        int n = vsnprintf(t->s ? t->s + t->n : NULL, t->room - t->n, fmt, args);
        va_end(args);
        if (n < 0) {
            t->failed = true;
        } else if ((size_t)n < t->room - t->n) {
            t->n += (size_t)n;
            return;
        } else {
            size_t room = 2 * t->room + (size_t)n + 1024;
            char *more = kl_realloc(t->s, room);
            t->failed = !more;
            if (more) t->s = more;
            if (more) t->room = room;
        }
    }
}

/* ---- the generated source ---- */

static const char *const dialect_types[KL_N_DTYPES] = {
#define KL_DTYPE(ID, mlx, name, bytes, kind, dialect, ...) [KL_##ID] = #dialect,
#include "base/number/dtype.def"
};
static const char *const cuda_types[KL_N_DTYPES] = {
#define KL_DTYPE(ID, mlx, name, bytes, kind, dialect, cuda, ...) [KL_##ID] = #cuda,
#include "base/number/dtype.def"
};

static const char *const own_lines = "#line 1 \"(generated)\"\n";

static int extent(const struct kl_kernel_operand *a) {
    return a->ndim ? a->ndim : 1;
}

void kl_kernel_add_block(struct kl_kernel_generator *g, const char *i64, const char *i32) {
    struct kl_kernel_text *t = &g->text;
    kl_kernel_add(t, "struct keel_params {\n");
    for (int i = 0; i < g->n_args; i++) {
        const struct kl_kernel_operand *a = &g->args[i];
        if (!a->described) continue;
        kl_kernel_add(t, "    %s keel_size_%d;\n", i64, i);
        if (g->k->is_cuda)
            kl_kernel_add(t, "    keel_list<%s, %d> keel_strides_%d;\n", i64, extent(a), i);
        else
            kl_kernel_add(t, "    %s keel_strides_%d[%d];\n", i64, i, extent(a));
    }
    kl_kernel_add(t, "    %s keel_grid[3], keel_guard_at, keel_word_at;\n", i32);
    for (int i = 0; i < g->n_args; i++) {
        const struct kl_kernel_operand *a = &g->args[i];
        if (!a->described) continue;
        if (g->k->is_cuda)
            kl_kernel_add(t, "    keel_list<%s, %d> keel_shape_%d;\n", i32, extent(a), i);
        else
            kl_kernel_add(t, "    %s keel_shape_%d[%d];\n", i32, i, extent(a));
    }
    kl_kernel_add(t, "};\n");
}

void kl_kernel_add_users(struct kl_kernel_generator *g, const char *what, const char *body) {
    kl_kernel_add(&g->text, "#line 1 \"%s%s\"\n%s\n%s", g->k->name, what, body, own_lines);
}

void kl_kernel_add_names(struct kl_kernel_generator *g, const char *const *types, const char *shape,
                         const char *strides) {
    struct kl_kernel_text *t = &g->text;
    for (size_t i = 0; i < g->use->n_templates; i++) {
        const struct kl_kernel_template *p = &g->use->templates[i];
        if (p->kind == KL_TEMPLATE_DTYPE)
            kl_kernel_add(t, "    using %s = %s;\n", p->name, types[p->value]);
        else if (p->kind == KL_TEMPLATE_BOOL)
            kl_kernel_add(t, "    constexpr bool %s = %s;\n", p->name, p->value ? "true" : "false");
        else
            kl_kernel_add(t, "    constexpr int %s = %d;\n", p->name, p->value);
    }
    for (int i = 0; i < g->n_args; i++) {
        const char *name = g->args[i].name;
        if (g->args[i].described)
            kl_kernel_add(t,
                          "    %s%s_shape = keel_p.keel_shape_%d;\n"
                          "    %s%s_strides = keel_p.keel_strides_%d;\n"
                          "    constexpr int %s_ndim = %d;\n    const int64_t %s_size = "
                          "keel_p.keel_size_%d;\n",
                          shape, name, i, strides, name, i, name, g->args[i].ndim, name, i);
    }
}

static void common_source(struct kl_kernel_generator *g) {
    struct kl_kernel_text *t = &g->text;
    const struct kl_kernel *k = g->k;
    kl_kernel_add(t, "%s", own_lines);
    kl_kernel_add(t, "#define GROUP_X %d\n#define GROUP_Y %d\n#define GROUP_Z %d\n",
                  g->use->group[0], g->use->group[1], g->use->group[2]);
    for (size_t i = 0; i < g->use->n_templates; i++) {
        const struct kl_kernel_template *p = &g->use->templates[i];
        if (p->kind == KL_TEMPLATE_DTYPE)
            kl_kernel_add(t, "#define %s %s\n", p->name, dialect_types[p->value]);
        else
            kl_kernel_add(t, "#define %s (%d)\n", p->name, p->value);
    }
    for (int i = 0; i < g->n_args; i++) {
        const struct kl_kernel_operand *a = &g->args[i];
        kl_kernel_add(t, "#define %s_type %s\n", a->name, dialect_types[a->dtype]);
        if (a->described)
            kl_kernel_add(t,
                          "#define %s_size keel_p.keel_size_%d\n#define %s_ndim %d\n"
                          "#define %s_shape keel_p.keel_shape_%d\n#define %s_strides "
                          "keel_p.keel_strides_%d\n",
                          a->name, i, a->name, a->ndim, a->name, i, a->name, i);
    }
    kl_kernel_add_block(g, "i64", "i32");
    kl_kernel_add_users(g, " (header)", k->header);
    kl_kernel_add(t, "CUSTOM_KERNEL(keel_%s)(", k->name);
    for (int i = 0; i < g->n_args; i++) kl_kernel_add(t, "PTR(keel_a%d), ", i);
    kl_kernel_add(t, "PTR(keel_guard), %sPARAM(struct keel_params, keel_p)",
                  k->raises ? "PTR(keel_words), " : "");
    bool shared = k->shared_bytes + g->use->shared_bytes > 0;
    if (shared)
        kl_kernel_add(
            t, "\n#ifdef IS_CUDA\n) {\n    extern __shared__ __align__(16) u8 keel_shared[];\n"
               /* an array of u8 would be aligned to 1 byte */
               "#else\n, SHARED_ARGUMENT(ulong2, keel_aligned)) {\n"
               "    SHARED_PTR u8 *keel_shared = (SHARED_PTR u8 *)keel_aligned;\n#endif\n");
    else
        kl_kernel_add(t, ") {\n");
    /* The data may be garbage when a guard is set, so the kernel does nothing with it. */
    kl_kernel_add(
        t, "    BEGIN();\n    if (keel_p.keel_guard_at >= 0 &&\n"
           "        AT(const u32, keel_guard)[keel_p.keel_guard_at] != WORD_CLEAR) return;\n");
    for (int i = 0; i < g->n_args; i++) {
        const char *type = dialect_types[g->args[i].dtype], *c = i < k->n_in ? "const " : "";
        kl_kernel_add(t, "    GLOBAL %s%s *%s = AT(%s%s, keel_a%d);\n", c, type, g->args[i].name, c,
                      type, i);
    }
    kl_kernel_add_users(g, "", k->source);
    kl_kernel_add(t, "}\n");
}

static bool uses_dtype(const struct kl_kernel_generator *g, enum kl_dtype dtype) {
    for (int i = 0; i < g->n_args; i++)
        if (g->args[i].dtype == dtype) return true;
    for (size_t i = 0; i < g->use->n_templates; i++) {
        const struct kl_kernel_template *p = &g->use->templates[i];
        if (p->kind == KL_TEMPLATE_DTYPE && p->value == (int)dtype) return true;
    }
    return false;
}

static const char cuda_head[] =
    "typedef signed char int8_t;\ntypedef short int16_t;\ntypedef int int32_t;\n"
    "typedef long long int64_t;\ntypedef unsigned char uint8_t;\ntypedef unsigned short uint16_t;\n"
    "typedef unsigned int uint32_t;\ntypedef unsigned long long uint64_t;\n"
    "typedef float2 complex64_t;\n"
    "template <typename T, int N> struct keel_list {\n"
    "    T v[N];\n"
    "    __device__ const T &operator[](int i) const { return v[i]; }\n"
    "    __device__ const T *data() const { return v; }\n"
    "    __device__ const T *begin() const { return v; }\n"
    "    __device__ const T *end() const { return v + N; }\n"
    "};\n"
    "template <typename I>\n"
    "__device__ I elem_to_loc(I elem, const int *shape, const int64_t *strides, int ndim) {\n"
    "    I at = 0;\n"
    "    for (int d = ndim - 1; d >= 0; d--) {\n"
    "        at += elem % shape[d] * I(strides[d]);\n"
    "        elem /= shape[d];\n"
    "    }\n"
    "    return at;\n"
    "}\n";

static void cuda_source(struct kl_kernel_generator *g) {
    struct kl_kernel_text *t = &g->text;
    const struct kl_kernel *k = g->k;
    kl_kernel_add(t, "%s", own_lines);
    if (uses_dtype(g, KL_F16)) kl_kernel_add(t, "#include <cuda_fp16.h>\n");
    if (uses_dtype(g, KL_BF16)) kl_kernel_add(t, "#include <cuda_bf16.h>\n");
    bool groups = kl_kernel_speaks_of(k, "cooperative_groups") || kl_kernel_speaks_of(k, "cg::");
    if (groups)
        kl_kernel_add(t, "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n");
    kl_kernel_add(t, "%s", cuda_head);
    if (uses_dtype(g, KL_F16)) kl_kernel_add(t, "typedef __half float16_t;\n");
    if (uses_dtype(g, KL_BF16)) kl_kernel_add(t, "typedef __nv_bfloat16 bfloat16_t;\n");
    kl_kernel_add_block(g, "int64_t", "int");
    kl_kernel_add_users(g, " (header)", k->header);
    kl_kernel_add(t, "extern \"C\" __global__ void __launch_bounds__(%d) keel_%s(\n",
                  g->use->group[0] * g->use->group[1] * g->use->group[2], k->name);
    for (int i = 0; i < g->n_args; i++)
        kl_kernel_add(t, "    %s%s *%s, uint64_t,\n", i < k->n_in ? "const " : "",
                      cuda_types[g->args[i].dtype], g->args[i].name);
    /* As BEGIN() of the dialect: kernels before this one may still run. */
    kl_kernel_add(
        t, "    const uint32_t *keel_guard, uint64_t, const keel_params keel_p) {\n"
           "#if __CUDA_ARCH__ >= 900\n"
           "    asm volatile(\"griddepcontrol.launch_dependents;\" ::: \"memory\");\n"
           "    asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n"
           "#endif\n"
           "    if (keel_p.keel_guard_at >= 0 && keel_guard[keel_p.keel_guard_at] != 0xffffffffu) "
           "return;\n");
    kl_kernel_add_names(g, cuda_types, "const auto &", "const auto &");
    kl_kernel_add_users(g, "", k->source);
    kl_kernel_add(t, "}\n");
}

/* ---- one use ---- */

static int check_templates(const struct kl_kernel *k, const struct kl_kernel_use *u,
                           struct kl_error **err) {
    for (size_t i = 0; i < u->n_templates; i++) {
        const struct kl_kernel_template *p = &u->templates[i];
        KL_TRY(check_name("the template argument", p->name, err));
        if (p->kind == KL_TEMPLATE_DTYPE && !kl_dtype_valid(p->value))
            return kl_fail(err, KL_EDTYPE, "template argument '%.64s': %d is no dtype", p->name,
                           p->value);
        for (size_t n = 0; n < i; n++)
            if (strcmp(p->name, u->templates[n].name) == 0)
                return kl_fail(err, KL_EARG, "template argument '%.64s' is given twice", p->name);
        for (int n = 0; n < k->n_in + k->n_out; n++)
            if (strcmp(p->name, k->names[n]) == 0)
                return kl_fail(err, KL_EARG, "template argument '%.64s' is called as an array is",
                               p->name);
    }
    return KL_OK;
}

/* own_shared: bytes that every call of the kernel has. */
static int check_geometry(const char *name, size_t own_shared, const struct kl_kernel_use *u,
                          struct kl_error **err) {
    int64_t in_group = 1, threads = 1;
    for (int i = 0; i < 3; i++) {
        if (u->grid[i] < 1)
            return kl_fail(err, KL_EARG, "grid (%d, %d, %d): sizes are 1 or more", u->grid[0],
                           u->grid[1], u->grid[2]);
        if (u->group[i] < 1)
            return kl_fail(err, KL_EARG, "thread group (%d, %d, %d): sizes are 1 or more",
                           u->group[0], u->group[1], u->group[2]);
        in_group *= u->group[i];
        if (in_group > 1 << 16)
            return kl_fail(err, KL_EARG,
                           "thread group (%d, %d, %d) has more threads than any device takes",
                           u->group[0], u->group[1], u->group[2]);
    }
    /* Only whole groups are launched. Drivers multiply these numbers without a check, and some of
     * them end the process. */
    for (int i = 0; i < 3; i++) {
        int64_t groups = (u->grid[i] - 1) / u->group[i] + 1, along = groups * u->group[i];
        if (along > INT64_MAX / threads)
            return kl_fail(err, KL_ELIMIT,
                           "kernel '%s': grid (%d, %d, %d) in groups of (%d, %d, %d) is over "
                           "2^63 - 1 threads",
                           name, u->grid[0], u->grid[1], u->grid[2], u->group[0], u->group[1],
                           u->group[2]);
        threads *= along;
    }
    if (own_shared > INT32_MAX || u->shared_bytes > INT32_MAX)
        return kl_fail(err, KL_EARG, "%zu bytes of shared memory are more than any device has",
                       own_shared > u->shared_bytes ? own_shared : u->shared_bytes);
    return KL_OK;
}

/* Every output's dtype must hold the value. */
static int check_init(const struct kl_kernel_use *u, struct kl_error **err) {
    for (size_t i = 0; u->has_init && i < u->n_outs; i++) {
        enum kl_dtype t = u->outs[i].dtype;
        if (!kl_dtype_is_int(t)) continue;
        int bits = (int)kl_dtype_size(t) * 8 - kl_dtype_is_signed(t);
        double most = ldexp(1, bits), least = kl_dtype_is_signed(t) ? -most : 0,
               v = trunc(u->init_value);
        if (!(v >= least && v < most))
            return kl_fail(err, KL_EARG, "the initial value %g is none of %s", u->init_value,
                           kl_dtype_name(t));
    }
    return KL_OK;
}

static int check_use(const struct kl_kernel *k, const struct kl_kernel_use *u, size_t n_in,
                     struct kl_error **err) {
    if (n_in != (size_t)k->n_in)
        return kl_fail(err, KL_EARG, "kernel '%s' takes %d inputs, not %zu", k->name, k->n_in,
                       n_in);
    if (u->n_outs != (size_t)k->n_out)
        return kl_fail(err, KL_EARG, "kernel '%s' has %d outputs, and %zu are described", k->name,
                       k->n_out, u->n_outs);
    for (size_t i = 0; i < u->n_outs; i++)
        if (!kl_dtype_valid((int)u->outs[i].dtype))
            return kl_fail(err, KL_EDTYPE, "output '%s': %d is no dtype", k->names[k->n_in + i],
                           (int)u->outs[i].dtype);
    KL_TRY(check_templates(k, u, err));
    KL_TRY(check_geometry(k->name, k->shared_bytes, u, err));
    return check_init(u, err);
}

static int generate(struct kl_kernel_generator *g, const struct kl_kernel *k,
                    const struct kl_kernel_use *u, struct kl_array *const *in,
                    struct kl_error **err) {
    g->k = k;
    g->use = u;
    g->n_args = k->n_in + k->n_out;
    g->text = (struct kl_kernel_text){0};
    for (int i = 0; i < g->n_args; i++) {
        const struct kl_out_spec *o = i < k->n_in ? NULL : &u->outs[i - k->n_in];
        g->args[i] = (struct kl_kernel_operand){k->names[i], o ? o->dtype : in[i]->t.dtype,
                                                o ? o->ndim : in[i]->t.ndim, k->described >> i & 1};
    }
    if (k->is_cuda)
        cuda_source(g);
    else if (k->is_metal)
        kl_kernel_metal_source(g);
    else
        common_source(g);
    if (!g->text.failed) return KL_OK;
    kl_free(g->text.s);
    return kl_fail_nomem(err);
}

int kl_kernel_source(char **out, const struct kl_kernel *k, const struct kl_kernel_use *use,
                     struct kl_array *const *in, size_t n_in, struct kl_error **err) {
    struct kl_kernel_generator g;
    KL_TRY(check_use(k, use, n_in, err));
    KL_TRY(generate(&g, k, use, in, err));
    *out = g.text.s;
    return KL_OK;
}

/* Whether the stream's device can run such a kernel at all; the limits of the device are checked
 * when the kernel is encoded. */
static int check_stream(const struct kl_kernel *k, struct kl_stream *s, struct kl_error **err) {
    if (!s) return kl_fail(err, KL_EARG, "the stream is NULL");
    if (kl_stream_device_type(s) != KL_GPU)
        return kl_fail(err, KL_EUNSUPPORTED,
                       "kernel '%s' needs a GPU with %s; the stream is the CPU's", k->name,
                       k->is_cuda    ? "CUDA"
                       : k->is_metal ? "Metal"
                                     : "CUDA, Metal or OpenCL");
    const char *device = kl_stream_backend(s)->name;
    if ((k->is_cuda && strncmp(device, "cuda", 4) != 0) ||
        (k->is_metal && strncmp(device, "metal", 5) != 0))
        return kl_fail(err, KL_EUNSUPPORTED,
                       "kernel '%s' is %s source, and needs a GPU with %s; this device is '%s'",
                       k->name, k->is_cuda ? "CUDA" : "Metal", k->is_cuda ? "CUDA" : "Metal",
                       device);
    return KL_OK;
}

static int check_program_stream(const struct kl_kernel_program *k, struct kl_stream *s,
                                struct kl_error **err) {
    if (!s) return kl_fail(err, KL_EARG, "the stream is NULL");
    const bool on_gpu = kl_stream_device_type(s) == KL_GPU;
    const char *device = on_gpu ? kl_stream_backend(s)->name : "cpu";
    if (strncmp(device, "cuda", 4) != 0)
        return kl_fail(err, KL_EUNSUPPORTED,
                       "kernel '%s' is a compiled program (PTX, CUBIN or fatbin), and needs a GPU "
                       "with CUDA; this device is '%s'%s",
                       k->name, device,
                       on_gpu ? ", which takes kernels as source (keel_kernel_new)" : "");
    return KL_OK;
}

static int build_op(struct kl_array **outs, const struct kl_kernel_desc *d,
                    const struct kl_kernel_use *u, struct kl_array *const *in, int n_in,
                    struct kl_stream *s, struct kl_error **err) {
    struct kl_kernel_params p = {kl_kernel_desc_new(d)};
    if (!p.desc) return kl_fail_nomem(err);
    int rc = kl_array_op(outs, (int)u->n_outs, u->outs,
                         &(struct kl_operation){.op = KL_OP_KERNEL,
                                                .stream = s,
                                                .params = &p,
                                                .params_bytes = sizeof p,
                                                .in = in,
                                                .n_in = n_in},
                         err);
    if (rc) kl_kernel_desc_release(p.desc);
    return rc;
}

static int build(struct kl_array **outs, const struct kl_kernel *k, const struct kl_kernel_use *u,
                 struct kl_array *const *in, struct kl_stream *s, struct kl_error **err) {
    struct kl_kernel_generator g;
    char entry[160];
    KL_TRY(generate(&g, k, u, in, err));
    snprintf(entry, sizeof entry, "keel_%s", k->name);
    struct kl_kernel_desc d = {.name = k->name,
                               .entry = entry,
                               .source = g.text.s,
                               .is_cuda = k->is_cuda,
                               .is_metal = k->is_metal,
                               .raises = k->raises,
                               .uses_f64 = uses_dtype(&g, KL_F64),
                               .row_contiguous = k->row_contiguous,
                               .has_init = u->has_init,
                               .init_value = u->init_value,
                               .described = k->described,
                               .grid = {u->grid[0], u->grid[1], u->grid[2]},
                               .group = {u->group[0], u->group[1], u->group[2]},
                               .shared_bytes = k->shared_bytes + u->shared_bytes};
    int rc = build_op(outs, &d, u, in, k->n_in, s, err);
    kl_free(g.text.s);
    return rc;
}

/* Retains the inputs, or makes row-major copies of those that are none. *n counts what the caller
 * has to release, also after a failure. */
static int take_inputs(struct kl_array **rows, int *n, struct kl_array *const *in, size_t n_in,
                       bool row_contiguous, struct kl_stream *s, struct kl_error **err) {
    for (*n = 0; *n < (int)n_in; ++*n) {
        if (!row_contiguous)
            rows[*n] = kl_array_retain(in[*n]);
        else
            KL_TRY(kl_row_contiguous(&rows[*n], in[*n], s, err));
    }
    return KL_OK;
}

int kl_kernel_apply(struct kl_array **outs, const struct kl_kernel *k,
                    const struct kl_kernel_use *use, struct kl_array *const *in, size_t n_in,
                    struct kl_stream *s, struct kl_error **err) {
    struct kl_array *rows[KL_KERNEL_MAX_ARGS];
    KL_TRY(check_stream(k, s, err));
    KL_TRY(check_use(k, use, n_in, err));
    int n, rc = take_inputs(rows, &n, in, n_in, k->row_contiguous, s, err);
    if (!rc) rc = build(outs, k, use, rows, s, err);
    while (n > 0) kl_array_release(rows[--n]);
    return rc;
}

/* ---- compiled programs ---- */

static int check_program(const struct kl_kernel_program *k, const struct kl_kernel_use *u,
                         size_t n_in, struct kl_error **err) {
    if (!k->name || !*k->name) return kl_fail(err, KL_EARG, "the kernel has no name");
    if (!k->bytes || !k->n_bytes)
        return kl_fail(err, KL_EARG, "kernel '%s': the program has no bytes", k->name);
    if (u->n_outs == 0) return kl_fail(err, KL_EARG, "kernel '%s' has no outputs", k->name);
    if (u->n_templates)
        return kl_fail(err, KL_EARG, "kernel '%s' is compiled, and takes no template arguments",
                       k->name);
    if (n_in > KL_KERNEL_MAX_ARGS || u->n_outs > KL_KERNEL_MAX_ARGS - n_in)
        return kl_fail(err, KL_ELIMIT,
                       "kernel '%s' has %zu inputs and %zu outputs; %d arrays at most", k->name,
                       n_in, u->n_outs, KL_KERNEL_MAX_ARGS);
    if (k->n_scalars > KL_KERNEL_MAX_PARAMS - n_in - u->n_outs)
        return kl_fail(err, KL_ELIMIT,
                       "kernel '%s' has %zu arrays and %zu scalars; %d arguments at most", k->name,
                       n_in + u->n_outs, k->n_scalars, KL_KERNEL_MAX_PARAMS);
    for (size_t i = 0; i < u->n_outs; i++)
        if (!kl_dtype_valid((int)u->outs[i].dtype))
            return kl_fail(err, KL_EDTYPE, "output %zu: %d is no dtype", i, (int)u->outs[i].dtype);
    KL_TRY(check_geometry(k->name, 0, u, err));
    return check_init(u, err);
}

int kl_kernel_apply_program(struct kl_array **outs, const struct kl_kernel_program *k,
                            const struct kl_kernel_use *use, struct kl_array *const *in,
                            size_t n_in, struct kl_stream *s, struct kl_error **err) {
    struct kl_array *rows[KL_KERNEL_MAX_ARGS];
    KL_TRY(check_program(k, use, n_in, err));
    KL_TRY(check_program_stream(k, s, err));
    struct kl_kernel_desc d = {.name = k->name,
                               .entry = k->name,
                               .source = k->bytes,
                               .program_bytes = k->n_bytes,
                               .is_cuda = true,
                               .row_contiguous = k->row_contiguous,
                               .has_init = use->has_init,
                               .init_value = use->init_value,
                               .grid = {use->grid[0], use->grid[1], use->grid[2]},
                               .group = {use->group[0], use->group[1], use->group[2]},
                               .shared_bytes = use->shared_bytes,
                               .n_scalars = (int)k->n_scalars};
    if (k->n_scalars) memcpy(d.scalars, k->scalars, k->n_scalars * sizeof *k->scalars);
    int n, rc = take_inputs(rows, &n, in, n_in, k->row_contiguous, s, err);
    if (!rc) rc = build_op(outs, &d, use, rows, (int)n_in, s, err);
    while (n > 0) kl_array_release(rows[--n]);
    return rc;
}
