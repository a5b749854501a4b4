/* cpu_variant.c - chooses the widest variant of the kernels that this CPU can run; the environment
 * variable KEEL_CPU names a narrower one. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/product/tiles_amx.h"
#include "backend/cpu/product/tiles_avx512.h"
#include "backend/cpu/product/tiles_neon_bf16.h"
#include "backend/cpu/quantized/quantized_neon_i8mm.h"
#include "backend/cpu/cpu_kernels.h"
#include "base/platform/processors.h"

typedef kl_kernel_fn *kernel_of_fn(enum kl_op_id op);
kernel_of_fn kl_cpu_variant_kernel;
#ifdef KL_HAS_V3
kernel_of_fn kl_cpu_variant_kernel_v3;
kl_cpu_fusion_fn kl_cpu_variant_run_fusion_v3;
#endif
#ifdef KL_HAS_V4
kernel_of_fn kl_cpu_variant_kernel_v4;
kl_cpu_fusion_fn kl_cpu_variant_run_fusion_v4;
#endif

/* The narrowest first. A CPU that can run a variant can run all before it, but for bf16 and i8mm.
 * The names are the levels of the x86-64 psABI; bf16 is v4 with vdpbf16ps, amx is v4 with the tile
 * registers. On ARM base has NEON, dot is base with SDOT for packed products, i8mm is that with
 * SMMLA, and bf16 is the widest of these with BFMMLA. */
static const struct {
    const char *name;
    kernel_of_fn *kernel_of;
    kl_cpu_fusion_fn *run_fusion;
} variants[] = {
#ifndef KL_HAS_NO_BASE /* a build of tests, for this machine alone */
    {"base", kl_cpu_variant_kernel, kl_cpu_variant_run_fusion},
#endif
#ifdef KL_HAS_V3
    {"v3", kl_cpu_variant_kernel_v3, kl_cpu_variant_run_fusion_v3},
#endif
#ifdef KL_HAS_V4
    {"v4", kl_cpu_variant_kernel_v4, kl_cpu_variant_run_fusion_v4},
    {"bf16", kl_cpu_variant_kernel_v4, kl_cpu_variant_run_fusion_v4},
    {"amx", kl_cpu_variant_kernel_v4, kl_cpu_variant_run_fusion_v4},
#endif
#ifdef __aarch64__
    {"dot", kl_cpu_variant_kernel, kl_cpu_variant_run_fusion},
    {"i8mm", kl_cpu_variant_kernel, kl_cpu_variant_run_fusion},
    {"bf16", kl_cpu_variant_kernel, kl_cpu_variant_run_fusion},
#endif
};

/* Where tile registers are not there, the widest variant is the default: bf16 only if it is
 * faster. */
static bool bf16_runs(void) {
    if (kl_bfmmla_there()) return true; /* such a processor has SDOT */
    return kl_bf16_there() && (kl_bf16_is_fast() || kl_amx_there());
}

int kl_cpu_n_variants(void) {
    int n = strcmp(variants[0].name, "base") == 0;
    if (kl_sdot_there()) n += 1 + kl_smmla_there() + kl_bfmmla_there();
#if defined KL_HAS_V3 || defined KL_HAS_V4
    __builtin_cpu_init();
    bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
              __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
              __builtin_cpu_supports("popcnt");
#endif
#ifdef KL_HAS_V3
    n += v3;
#endif
#ifdef KL_HAS_V4
    bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
              __builtin_cpu_supports("avx512cd");
    n += v4 + (v4 && bf16_runs()) + (v4 && kl_amx_there());
#endif
    return n;
}

const char *kl_cpu_variant_name(int variant) {
    const char *name = variants[variant].name;
    const bool skipped = (strcmp(name, "bf16") == 0 && !bf16_runs()) ||
                         (strcmp(name, "i8mm") == 0 && !kl_smmla_there());
    return variants[variant + skipped].name;
}

static atomic_int chosen = -1;

void kl_cpu_use_variant(int variant) {
    atomic_store(&chosen, variant);
}

int kl_cpu_variant(void) {
    int v = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (v >= 0) return v;
    const char *given = getenv("KEEL_CPU");
    v = kl_cpu_n_variants() - 1;
    for (int i = 0; given && i < v; i++)
        if (strcmp(given, kl_cpu_variant_name(i)) == 0) v = i;
    atomic_store_explicit(&chosen, v, memory_order_relaxed);
    return v;
}

kl_kernel_fn *kl_cpu_kernel(enum kl_op_id op) {
    return variants[kl_cpu_variant()].kernel_of(op);
}

bool kl_cpu_run_fusion(const struct kl_cpu_step *steps, int n, kl_parallel_for *parallel) {
    return variants[kl_cpu_variant()].run_fusion(steps, n, parallel);
}

bool kl_cpu_uses_amx(void) {
    return strcmp(kl_cpu_variant_name(kl_cpu_variant()), "amx") == 0;
}

bool kl_cpu_uses_dot(void) {
    return kl_sdot_there() && kl_cpu_variant() > 0;
}

bool kl_cpu_uses_i8mm(void) {
    return kl_smmla_there() && kl_cpu_variant() > 1;
}

bool kl_cpu_uses_bf16(void) {
    return strcmp(kl_cpu_variant_name(kl_cpu_variant()), "bf16") == 0;
}

int64_t kl_cpu_l1_bytes(void) {
    static _Atomic(int64_t) known; /* asking the system takes microseconds */
    int64_t bytes = atomic_load_explicit(&known, memory_order_relaxed);
    if (bytes) return bytes;
    bytes = kl_processors_l1_bytes();
    if (!bytes) bytes = 1 << 15;
    atomic_store_explicit(&known, bytes, memory_order_relaxed);
    return bytes;
}
