/* compile.c - mlx/c/compile.h: functions that are traced once and replayed. */
#include "api/handles/closure.h"
#include "transforms/compile.h"

static int compile(const char *func, mlx_closure *res, const mlx_closure fun, uint64_t id,
                   bool shapeless, const uint64_t *constants, size_t n_constants) {
    struct kl_call c = kl_call_begin(func, res);
    struct kl_closure *f = kl_in_closure(&c, fun.ctx, "fun");
    struct kl_function made = {0};
    if (!c.err && n_constants && !constants)
        kl_fail(&c.err, KL_EARG, "constants is NULL and its count is %zu", n_constants);
    if (!c.err && n_constants > 1000000)
        kl_fail(&c.err, KL_ELIMIT, "%zu constants; at most 1000000 are taken", n_constants);
    if (c.err) return kl_call_end_plain(&c);
    struct kl_function function = kl_closure_as_function(f);
    kl_compile(&made, &function, id, shapeless, constants, n_constants, &c.err);
    kl_function_release(&function);
    return kl_call_end_closure(&c, res, made);
}

int mlx_compile(mlx_closure *res, const mlx_closure fun, bool shapeless) {
    return compile(__func__, res, fun, 0, shapeless, NULL, 0);
}

int mlx_detail_compile(mlx_closure *res, const mlx_closure fun, uintptr_t fun_id, bool shapeless,
                       const uint64_t *constants, size_t constants_num) {
    return compile(__func__, res, fun, fun_id, shapeless, constants, constants_num);
}

int mlx_detail_compile_clear_cache(void) {
    kl_compile_clear();
    return 0;
}

int mlx_detail_compile_erase(uintptr_t fun_id) {
    kl_compile_erase(fun_id);
    return 0;
}

int mlx_disable_compile(void) {
    kl_compile_set_mode(KL_COMPILE_DISABLED);
    return 0;
}

int mlx_enable_compile(void) {
    kl_compile_set_mode(KL_COMPILE_ENABLED);
    return 0;
}

int mlx_set_compile_mode(mlx_compile_mode mode) {
    struct kl_call c = {.func = __func__};
    if ((unsigned)mode > MLX_COMPILE_MODE_ENABLED)
        kl_fail(&c.err, KL_EARG, "%u is no mode; they are 0 to %d", (unsigned)mode,
                MLX_COMPILE_MODE_ENABLED);
    else
        kl_compile_set_mode((enum kl_compile_mode)mode);
    return kl_call_end_plain(&c);
}
