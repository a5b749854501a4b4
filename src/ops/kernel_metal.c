/* kernel_metal.c - the source around a custom kernel in Metal's language, with the names that
 * kernels of MLX use: arrays and their _shape, _strides, _ndim and _size, template arguments, and
 * Metal's attributes (thread_position_in_grid, ...) by their own names. */
#include <string.h>

#include "ops/kernel_source.h"

static const char *const types[KL_N_DTYPES] = {
    [KL_BOOL] = "bool",       [KL_U8] = "uint8_t",     [KL_U16] = "uint16_t", [KL_U32] = "uint32_t",
    [KL_U64] = "uint64_t",    [KL_I8] = "int8_t",      [KL_I16] = "int16_t",  [KL_I32] = "int32_t",
    [KL_I64] = "int64_t",     [KL_F16] = "float16_t",  [KL_F32] = "float",    [KL_F64] = "double",
    [KL_BF16] = "bfloat16_t", [KL_C64] = "complex64_t"};

static const char head[] =
    "#include <metal_stdlib>\nusing namespace metal;\n"
    "typedef half float16_t;\ntypedef bfloat bfloat16_t;\n"
    "struct complex64_t {\n    float real, imag;\n};\n"
    "template <typename I>\n"
    "inline I elem_to_loc(I elem, constant const int *shape, constant const int64_t *strides, "
    "int ndim) {\n"
    "    I at = 0;\n"
    "    for (int d = ndim - 1; d >= 0; d--) {\n"
    "        at += elem % shape[d] * I(strides[d]);\n"
    "        elem /= shape[d];\n"
    "    }\n"
    "    return at;\n"
    "}\n";

/* Attributes of language 3.1, which the program has at its scope where the kernel names them. The
 * grid is that of the call: only whole groups are launched, and what lies outside returns. */
static const struct {
    const char *type, *name;
} attributes[] = {{"uint", "dispatch_quadgroups_per_threadgroup"},
                  {"uint", "dispatch_simdgroups_per_threadgroup"},
                  {"uint3", "dispatch_threads_per_threadgroup"},
                  {"uint3", "grid_origin"},
                  {"uint", "quadgroup_index_in_threadgroup"},
                  {"uint", "quadgroups_per_threadgroup"},
                  {"uint", "simdgroup_index_in_threadgroup"},
                  {"uint", "simdgroups_per_threadgroup"},
                  {"uint", "thread_execution_width"},
                  {"uint", "thread_index_in_quadgroup"},
                  {"uint", "thread_index_in_simdgroup"},
                  {"uint", "thread_index_in_threadgroup"},
                  {"uint3", "thread_position_in_grid"},
                  {"uint3", "thread_position_in_threadgroup"},
                  {"uint3", "threadgroup_position_in_grid"},
                  {"uint3", "threadgroups_per_grid"},
                  {"uint", "threads_per_simdgroup"},
                  {"uint3", "threads_per_threadgroup"}};

static void add_attributes(struct kl_kernel_generator *g) {
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
        const char *name = attributes[i].name;
        /* Whether a thread is in the grid is always asked. */
        if (strcmp(name, "thread_position_in_grid") == 0 || kl_kernel_speaks_of(g->k, name))
            kl_kernel_add(&g->text, "%s %s [[%s]];\n", attributes[i].type, name, name);
    }
}

static void add_parameters(struct kl_kernel_generator *g) {
    struct kl_kernel_text *t = &g->text;
    for (int i = 0; i < g->n_args; i++) {
        const struct kl_kernel_operand *a = &g->args[i];
        const bool in = i < g->k->n_in, atomic = !in && g->k->atomic_outputs;
        kl_kernel_add(t, "    device %s%s%s%s %c%s [[buffer(%d)]],\n", in ? "const " : "",
                      atomic ? "atomic<" : "", types[a->dtype], atomic ? ">" : "",
                      in && a->ndim == 0 ? '&' : '*', a->name, i);
    }
    kl_kernel_add(t,
                  "    device const uint *keel_guard [[buffer(%d)]],\n"
                  "    constant keel_params &keel_p [[buffer(%d)]]) {\n",
                  g->n_args, g->n_args + 1);
}

static void add_names(struct kl_kernel_generator *g) {
    struct kl_kernel_text *t = &g->text;
    kl_kernel_add_names(g, types, "constant const int *", "constant const int64_t *");
    if (kl_kernel_speaks_of(g->k, "threads_per_grid") || kl_kernel_speaks_of(g->k, "grid_size"))
        kl_kernel_add(t, "    uint3 threads_per_grid;\n"
                         "    for (int d = 0; d < 3; d++) threads_per_grid[d] = "
                         "(uint)keel_p.keel_grid[d];\n"
                         "    const uint3 grid_size = threads_per_grid;\n    (void)grid_size;\n");
}

void kl_kernel_metal_source(struct kl_kernel_generator *g) {
    struct kl_kernel_text *t = &g->text;
    const int *group = g->use->group;
    kl_kernel_add(t, "#line 1 \"(generated)\"\n%s", head);
    add_attributes(g);
    kl_kernel_add_block(g, "int64_t", "int");
    kl_kernel_add_users(g, " (header)", g->k->header);
    kl_kernel_add(t, "[[max_total_threads_per_threadgroup(%d)]] kernel void keel_%s(\n",
                  group[0] * group[1] * group[2], g->k->name);
    add_parameters(g);
    /* The data may be garbage when the guard is set, so the kernel does nothing with it. */
    kl_kernel_add(t, "    if (keel_p.keel_guard_at >= 0 && keel_guard[keel_p.keel_guard_at] != "
                     "0xffffffffu) return;\n"
                     "    for (int d = 0; d < 3; d++)\n"
                     "        if (thread_position_in_grid[d] >= (uint)keel_p.keel_grid[d]) "
                     "return;\n");
    add_names(g);
    kl_kernel_add_users(g, "", g->k->source);
    kl_kernel_add(t, "}\n");
}
