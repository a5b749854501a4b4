/* distributed.c - ALL_SUM and the other operations of a group, done by a library of the driver
 * between two small kernels: one says what this process tells the others, the other writes what
 * they told to the fault word. */
#include "backend/exchange.h"
#include "backend/gpu/lower/kernels.h"
#include "backend/gpu/lower/lower.h"
#include "backend/gpu/lower/lowering.h"
#include "base/op/op_params.h"
#include "base/value/buffer.h"

const struct kl_family kl_family_distributed = {
    .name = "distributed", .source = kl_source_distributed, .defines = {"T:T"}};
enum { LOCAL = 256, ONE = 32, AT_ONCE = 4 };

static struct kl_karg words_of(const struct kl_device_part *p) {
    return KL_KARG_PTR(p->words, sizeof(int64_t));
}

/* The arguments of n guards, at most AT_ONCE. */
static void add_guards(struct kl_karg *args, const struct kl_word_ref *guards, int n) {
    static const int none = 0;
    for (int k = 0; k < AT_ONCE; k++) {
        const struct kl_word_ref *w = k < n ? &guards[k] : NULL;
        args[2 * k] = KL_KARG_PTR(w ? w->words->device : NULL, sizeof(uint32_t));
        args[2 * k + 1] = w ? KL_KARG(w->index) : KL_KARG(none);
    }
}

/* Writes what this process tells: whether a fault word is set that its input depends on. */
static int tell(struct kl_emit *e, const struct kl_command *c, const struct kl_device_part *p) {
    const int failed = p->failed ? p->rank : p->size, u8 = KL_U8;
    for (int at = 0; at < c->n_guards || at == 0; at += AT_ONCE) {
        const int first = at == 0, left = c->n_guards - at, n = left < AT_ONCE ? left : AT_ONCE;
        struct kl_karg args[7 + 2 * AT_ONCE] = {
            words_of(p),      KL_KARG(first),     KL_KARG(failed), KL_KARG(p->rank),
            KL_KARG(p->what), KL_KARG(p->number), KL_KARG(n)};
        add_guards(args + 7, c->guards ? c->guards + at : NULL, n);
        KL_TRY(kl_emit(e, &kl_family_distributed, &u8, "tell", 1, ONE, args, 7 + 2 * AT_ONCE));
    }
    return KL_OK;
}

static int judge(struct kl_emit *e, const struct kl_command *c, const struct kl_device_part *p) {
    const bool receives = p->kind == KL_EXCHANGE_RECEIVE;
    const int at = p->kind == KL_EXCHANGE_SEND ? 0 : KL_EXCHANGE_N_WORDS;
    const int peer = receives ? p->peer : -1, failed = p->failed, u8 = KL_U8;
    struct kl_karg args[] = {
        words_of(p),           KL_KARG_PTR(p->aborted, sizeof(int64_t)),
        KL_KARG(at),           KL_KARG(p->size),
        KL_KARG(p->rank),      KL_KARG(peer),
        KL_KARG(failed),       KL_KARG(p->what),
        KL_KARG(p->number),    KL_KARG_PTR(c->word.words->device, KL_WORDS_ITEM),
        KL_KARG(c->word.index)};
    return kl_emit(e, &kl_family_distributed, &u8, "judge", 1, ONE, args, 11);
}

/* The conversion of n values before or after the exchange. */
static int convert(struct kl_emit *e, const struct kl_device_part *p, bool before,
                   enum kl_dtype dtype, void *to, const void *from, int64_t n) {
    const int type = dtype, largest = p->reduction == KL_REDUCE_MAX;
    const size_t item = kl_dtype_size(dtype), key = kl_dtype_size(p->as);
    const bool wide = p->passage == KL_PASS_WIDE;
    struct kl_karg args[] = {KL_KARG_PTR(to, before ? key : item),
                             KL_KARG_PTR(from, before ? item : key), KL_KARG(n), KL_KARG(largest)};
    const char *entry = wide ? before ? "widen" : "narrow" : before ? "to_order" : "from_order";
    return kl_emit(e, &kl_family_distributed, &type, entry, (n + LOCAL - 1) / LOCAL, LOCAL, args,
                   before && !wide ? 4 : 3);
}

static int start(struct kl_emit *e, const struct kl_device_part *p, const void *from, void *to) {
    const int64_t more = p->joint ? KL_JOINT_BITS + p->size : 0;
    const struct kl_transfer t = {.kind = p->kind,
                                  .reduction = p->reduction,
                                  .dtype = p->as,
                                  .peer = p->comm_peer,
                                  .n = p->n + more,
                                  .from = from,
                                  .to = to,
                                  .words = p->joint ? NULL : p->words};
    if (e->dry) return KL_OK;
    KL_TRY(kl_side_settle(e));
    return e->driver->ops->exchange(e->driver, e->queue, p->comm, &t, e->err);
}

/* Without a value: what is moved does not matter, since no rank uses the result. */
static int start_spare(struct kl_emit *e, const struct kl_device_part *p) {
    char *spare = p->spare ? p->spare->ptr : NULL;
    const int64_t mine = (int64_t)p->rank * p->n * (int64_t)kl_dtype_size(p->as);
    const bool from_part = p->kind == KL_EXCHANGE_GATHER, to_part = p->kind == KL_EXCHANGE_SCATTER;
    return start(e, p, spare + (from_part ? mine : 0), spare + (to_part ? mine : 0));
}

static int start_values(struct kl_emit *e, const struct kl_command *c,
                        const struct kl_device_part *p) {
    const struct kl_arg *in = c->n_in ? &c->args[0] : NULL, *out = &c->args[c->n_in];
    const size_t key = kl_dtype_size(p->as);
    if (p->passage == KL_PASS_WIDE || p->passage == KL_PASS_ORDERED) {
        const enum kl_dtype dtype = (enum kl_dtype)out->dtype;
        void *keys, *result;
        KL_TRY(kl_emit_workspace(e, (size_t)in->size * key, &keys));
        result = keys;
        if (p->kind == KL_EXCHANGE_SCATTER)
            KL_TRY(kl_emit_workspace(e, (size_t)out->size * key, &result));
        KL_TRY(convert(e, p, true, dtype, keys, in->data, in->size));
        KL_TRY(start(e, p, keys, result));
        return convert(e, p, false, dtype, out->data, result, out->size);
    }
    KL_TRY(start(e, p, in ? in->data : NULL, out->data));
    if (p->kind != KL_EXCHANGE_SEND || in->data == out->data || !in->size || e->dry) return KL_OK;
    return kl_emit_plain_copy(e, out->data, in->data,
                              (size_t)in->size * kl_dtype_size((enum kl_dtype)in->dtype));
}

/* ---- joint sums ---- */

static int64_t groups_of(const struct kl_device_part *p) {
    return (p->n + KL_JOINT_BITS + p->size + LOCAL - 1) / LOCAL;
}

static int tell_jointly(struct kl_emit *e, const struct kl_command *c,
                        const struct kl_device_part *p, void *to) {
    const size_t item = kl_dtype_size(p->as);
    const int failed = p->failed, type = p->as;
    const void *from = p->failed ? to : c->args[0].data;
    for (int at = 0; at < c->n_guards || at == 0; at += AT_ONCE) {
        const int first = at == 0, left = c->n_guards - at, n = left < AT_ONCE ? left : AT_ONCE;
        struct kl_karg args[10 + 2 * AT_ONCE] = {KL_KARG_PTR(to, item), KL_KARG_PTR(from, item),
                                                 KL_KARG(p->n),         KL_KARG(first),
                                                 KL_KARG(p->size),      KL_KARG(failed),
                                                 KL_KARG(p->rank),      KL_KARG(p->what),
                                                 KL_KARG(p->number),    KL_KARG(n)};
        add_guards(args + 10, c->guards ? c->guards + at : NULL, n);
        KL_TRY(kl_emit(e, &kl_family_distributed, &type, "tell_jointly", groups_of(p), LOCAL, args,
                       10 + 2 * AT_ONCE));
    }
    return KL_OK;
}

static int judge_jointly(struct kl_emit *e, const struct kl_command *c,
                         const struct kl_device_part *p, const void *sums) {
    const size_t item = kl_dtype_size(p->as);
    const int failed = p->failed, type = p->as;
    void *out = p->failed ? p->joint_room : c->args[c->n_in].data;
    struct kl_karg args[] = {
        KL_KARG_PTR(out, item), KL_KARG_PTR(sums, item),
        KL_KARG(p->n),          KL_KARG_PTR(p->aborted, sizeof(int64_t)),
        KL_KARG(p->size),       KL_KARG(p->rank),
        KL_KARG(failed),        KL_KARG(p->what),
        KL_KARG(p->number),     KL_KARG_PTR(c->word.words->device, KL_WORDS_ITEM),
        KL_KARG(c->word.index)};
    return kl_emit(e, &kl_family_distributed, &type, "judge_jointly", groups_of(p), LOCAL, args,
                   11);
}

static int sum_jointly(struct kl_emit *e, const struct kl_command *c,
                       const struct kl_device_part *p) {
    char *sums = (char *)p->joint_room + KL_JOINT_ROOM;
    KL_TRY(tell_jointly(e, c, p, p->joint_room));
    KL_TRY(start(e, p, p->joint_room, sums));
    return judge_jointly(e, c, p, sums);
}

int kl_lower_exchange(struct kl_emit *e, const struct kl_command *c) {
    const struct kl_device_part *p = ((const struct kl_collective_params *)c->params)->part;
    if (p->joint) return sum_jointly(e, c, p);
    KL_TRY(tell(e, c, p));
    KL_TRY(p->failed ? start_spare(e, p) : start_values(e, c, p));
    return judge(e, c, p);
}
