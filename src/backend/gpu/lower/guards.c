/* guards.c - commands that are not operations: merging fault words, and the guards of the
 * validation mode. */
#include "backend/gpu/lower/kernels.h"
#include "backend/gpu/lower/lower.h"
#include "base/op/validate.h"

const struct kl_family kl_family_guards = {.name = "guards", .source = kl_source_guards};
enum { LOCAL = 64, AT_ONCE = 4 };

int kl_emit_merge(struct kl_emit *e, struct kl_karg to, int to_index,
                  const struct kl_word_ref *from, int n_from) {
    for (int at = 0; at < n_from || at == 0; at += AT_ONCE) {
        int n = n_from - at < AT_ONCE ? n_from - at : AT_ONCE;
        struct kl_karg args[3 + 2 * AT_ONCE] = {to, KL_KARG(to_index), KL_KARG(n)};
        /* Arguments beyond n are passed, but the kernel does not read them. */
        for (int k = 0; k < AT_ONCE; k++) {
            const struct kl_word_ref *w = &from[k < n ? at + k : at];
            args[3 + 2 * k] = KL_KARG_PTR(w->words->device, sizeof(uint32_t));
            args[4 + 2 * k] = KL_KARG(w->index);
        }
        KL_TRY(kl_emit(e, &kl_family_guards, NULL, "merge", 1, LOCAL, args, 3 + 2 * AT_ONCE));
    }
    return KL_OK;
}

static int fill(struct kl_emit *e, const struct kl_command *c) {
    uint64_t word = kl_guard_word(c->tenants[0]);
    uint32_t low = (uint32_t)word, high = (uint32_t)(word >> 32);
    int64_t bytes = (int64_t)c->bytes[0], n = bytes > KL_GUARD_BYTES ? bytes : KL_GUARD_BYTES;
    struct kl_karg args[] = {KL_KARG_PTR((char *)c->args[0].data - KL_GUARD_BYTES, 1),
                             KL_KARG(bytes), KL_KARG(low), KL_KARG(high)};
    return kl_emit(e, &kl_family_guards, NULL, "guard_fill", (n + LOCAL - 1) / LOCAL, LOCAL, args,
                   4);
}

static int check(struct kl_emit *e, const struct kl_command *c) {
    for (int i = 0; i < c->n_in + c->n_out; i++) {
        if (!c->args[i].data) continue;
        uint64_t word = kl_guard_word(c->tenants[i]);
        uint32_t low = (uint32_t)word, high = (uint32_t)(word >> 32), operand = (uint32_t)i;
        int64_t bytes = (int64_t)c->bytes[i];
        struct kl_karg args[] = {KL_KARG_PTR((char *)c->args[i].data - KL_GUARD_BYTES, 1),
                                 KL_KARG(bytes),
                                 KL_KARG(low),
                                 KL_KARG(high),
                                 KL_KARG(operand),
                                 KL_KARG_PTR(c->word.words->device, KL_WORDS_ITEM),
                                 KL_KARG(c->word.index)};
        KL_TRY(kl_emit(e, &kl_family_guards, NULL, "guard_check", 1, LOCAL, args, 7));
    }
    return KL_OK;
}

int kl_lower_guards(struct kl_emit *e, const struct kl_command *c) {
    switch (c->kind) {
    case KL_CMD_MERGE:
        return kl_emit_merge(e, KL_KARG_PTR(c->word.words->device, sizeof(uint32_t)), c->word.index,
                             c->guards, c->n_guards);
    case KL_CMD_GUARD_FILL: return fill(e, c);
    case KL_CMD_GUARD_CHECK: return check(e, c);
    default: return kl_fail(e->err, KL_EINTERNAL, "a command of unknown kind %d", (int)c->kind);
    }
}
