/* test_distributed.c - joint sums: the kernels before and after the call of the library, which is
 * simulated here with the other ranks; what each of these may tell, and the verdict that follows.
 */
#include "lower_support.h"

#include "backend/exchange.h"

enum { MOST_VALUES = 5000, MOST_GUARDS = 6, WHAT = 0x12345, NUMBER = 77 };

/* What happens, and the verdict of it: word 1, KL_WORD_CLEAR where all is well. */
struct scene {
    enum kl_dtype dtype;
    int n, size, rank;
    int64_t their_what, their_number; /* of all other ranks */
    int their_failed;                 /* the rank that tells a failure; -1: none */
    int n_guards, fired;              /* fired: the guard that is set; -1: none */
    bool failed, aborted;             /* this rank has no value; its communicator was aborted */
    uint32_t verdict;
};
static const struct scene *now;

/* ---- elements ---- */

static double get(enum kl_dtype dtype, const char *p) {
    switch (dtype) {
    case KL_F16: return (double)kl_f16_to_f32(*(const uint16_t *)p);
    case KL_BF16: return (double)kl_bf16_to_f32(*(const uint16_t *)p);
    case KL_F32: return (double)*(const float *)p;
    case KL_F64: return *(const double *)p;
    case KL_U8: return *(const uint8_t *)p;
    case KL_I32: return *(const int32_t *)p;
    default: return (double)*(const int64_t *)p;
    }
}
static void put(enum kl_dtype dtype, char *p, double v) {
    switch (dtype) {
    case KL_F16: *(uint16_t *)p = kl_f32_to_f16((float)v); break;
    case KL_BF16: *(uint16_t *)p = kl_f32_to_bf16((float)v); break;
    case KL_F32: *(float *)p = (float)v; break;
    case KL_F64: *(double *)p = v; break;
    case KL_U8: *(uint8_t *)p = (uint8_t)v; break;
    case KL_I32: *(int32_t *)p = (int32_t)v; break;
    default: *(int64_t *)p = (int64_t)v;
    }
}

static double value(int rank, int64_t i) {
    return rank == now->rank ? (double)(i % 5 + 1) : (double)(i % 2);
}

/* ---- the library ---- */

/* What an other rank has at place i: its values, the bits of its two words, who failed. */
static double theirs(int rank, int64_t i) {
    const int64_t at = i - now->n;
    if (at < 0) return value(rank, i);
    if (at >= KL_JOINT_BITS) return at - KL_JOINT_BITS == rank && now->their_failed == rank;
    const uint64_t word = (uint64_t)(at < 64 ? now->their_what : now->their_number);
    return (double)(word >> (at & 63) & 1);
}

static int sum(struct kl_driver *d, void *queue, void *comm, const struct kl_transfer *t,
               struct kl_error **err) {
    const size_t item = kl_dtype_size(t->dtype), bytes = (size_t)t->n * item;
    char *all = malloc(bytes);
    assert_null(t->words);
    assert_int_equal(t->kind, KL_EXCHANGE_REDUCE);
    assert_int_equal(t->n, now->n + KL_JOINT_BITS + now->size);
    kh_end(); /* what comes before it */
    kh_read(all, t->from, bytes);
    for (int64_t i = 0; i < t->n; i++) {
        double v = get(t->dtype, all + (size_t)i * item);
        for (int r = 0; r < now->size; r++)
            if (r != now->rank) v += theirs(r, i);
        put(t->dtype, all + (size_t)i * item, v);
    }
    kh_write(t->to, all, bytes);
    free(all);
    kh_begin();
    return KL_OK;
}

/* ---- one exchange ---- */

static void check(struct scene s) {
    now = &s;
    const size_t item = kl_dtype_size(s.dtype), bytes = (size_t)s.n * item;
    uint32_t clear[KL_WORDS], got[KL_WORDS];
    int64_t aborted = s.aborted;
    memset(clear, 0xff, sizeof clear);
    struct kl_fault_words words = {.device = kh_new(sizeof clear)},
                          guarded = {.device = kh_new(sizeof clear)};
    kh_write(words.device, clear, sizeof clear);
    struct kl_word_ref guards[MOST_GUARDS];
    for (int i = 0; i < MOST_GUARDS; i++) guards[i] = (struct kl_word_ref){&guarded, 1 + i};
    if (s.fired >= 0) clear[1 + s.fired] = 3;
    kh_write(guarded.device, clear, sizeof clear);
    struct operand in, out;
    ls_make(&in, s.dtype, 1, &s.n, DENSE, FEW);
    for (int i = 0; i < s.n; i++) put(s.dtype, in.block + (size_t)i * item, value(s.rank, i));
    kh_write(in.device, in.block, in.bytes);
    ls_make_out(&out, s.dtype, 1, &s.n);
    struct kl_arg args[] = {in.arg, out.arg};
    args[0].data = in.device;
    args[1].data = out.device;
    struct kl_device_part part = {.kind = KL_EXCHANGE_REDUCE,
                                  .reduction = KL_REDUCE_SUM,
                                  .as = s.dtype,
                                  .rank = s.rank,
                                  .size = s.size,
                                  .n = s.n,
                                  .what = WHAT,
                                  .number = NUMBER,
                                  .joint = true,
                                  .in_line = true,
                                  .failed = s.failed,
                                  .joint_room = kh_new(2 * KL_JOINT_ROOM),
                                  .aborted = kh_new(sizeof aborted)};
    kh_write(part.aborted, &aborted, sizeof aborted);
    const struct kl_collective_params params = {.part = &part};
    const struct kl_command c = {.kind = KL_CMD_LAUNCH,
                                 .op = KL_OP_ALL_SUM,
                                 .name = "all_sum",
                                 .params = &params,
                                 .n_in = 1,
                                 .n_out = 1,
                                 .args = args,
                                 .guards = s.n_guards ? guards : NULL,
                                 .n_guards = s.n_guards,
                                 .word = {&words, 1}};
    struct kl_error *err = NULL;
    if (kh_lower(&c, &err)) fail_msg("%s", err->message);
    kh_read(got, words.device, sizeof got);
    if (got[1] != s.verdict || (got[0] == KL_WORD_CLEAR) != (s.verdict == KL_WORD_CLEAR))
        fail_msg("%s, %d values, rank %d of %d: the verdict is %u, not %u (summary %u)",
                 kl_dtype_name(s.dtype), s.n, s.rank, s.size, got[1], s.verdict, got[0]);
    if (s.verdict == KL_VERDICT_UNLIKE) {
        const int64_t least[2] = {s.their_what < WHAT ? s.their_what : WHAT,
                                  s.their_number < NUMBER ? s.their_number : NUMBER};
        const int64_t most[2] = {s.their_what + WHAT - least[0],
                                 s.their_number + NUMBER - least[1]};
        for (int k = 0; k < 4; k++) {
            const int64_t told =
                (int64_t)((uint64_t)got[3 + 2 * k] << 32 | (uint64_t)got[2 + 2 * k]);
            assert_int_equal(told, k % 2 ? -most[k / 2] : least[k / 2]);
        }
    }
    char *made = malloc(out.bytes);
    kh_read(made, out.device, out.bytes);
    for (int i = 0; i < s.n && s.verdict == KL_WORD_CLEAR; i++) {
        double want = value(s.rank, i);
        for (int r = 0; r < s.size; r++)
            if (r != s.rank) want += value(r, i);
        if (get(s.dtype, made + (size_t)i * item) != want)
            fail_msg("%s, element %d of %d: %g, not %g", kl_dtype_name(s.dtype), i, s.n,
                     get(s.dtype, made + (size_t)i * item), want);
    }
    for (size_t i = bytes; i < out.bytes; i++) assert_int_equal((unsigned char)made[i], 0xA5);
    free(made);
    kh_free(part.joint_room, 2 * KL_JOINT_ROOM);
    kh_free(part.aborted, sizeof aborted);
    kh_free(words.device, sizeof clear);
    kh_free(guarded.device, sizeof clear);
    ls_drop(&in);
    ls_drop(&out);
}

/* A scene in which all ranks do the same and nothing fails. */
static struct scene well(enum kl_dtype dtype, int n, int size, int rank) {
    return (struct scene){.dtype = dtype,
                          .n = n,
                          .size = size,
                          .rank = rank,
                          .their_what = WHAT,
                          .their_number = NUMBER,
                          .their_failed = -1,
                          .fired = -1,
                          .verdict = KL_WORD_CLEAR};
}

static void test_sums(void **state) {
    static const enum kl_dtype dtypes[] = {KL_F32, KL_F16, KL_BF16, KL_F64, KL_U8, KL_I32, KL_I64};
    static const int sizes[] = {1, 127, 300, MOST_VALUES};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        if (dtypes[d] == KL_F64 && !kh.driver->has_f64) continue;
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            check(well(dtypes[d], sizes[k], 2, (int)k % 2));
            check(well(dtypes[d], sizes[k], KL_JOINT_RANKS, (int)k * 20));
        }
    }
}

/* The lowest rank that failed is told, whatever made it fail. */
static void test_failures(void **state) {
    struct scene s = well(KL_BF16, 300, 4, 2);
    s.their_failed = 1;
    s.verdict = 1;
    check(s);
    s.failed = true;
    check(s);
    s.their_failed = 3;
    s.verdict = 2;
    check(s);
    s.their_failed = -1;
    check(s);
    s.failed = false;
    for (s.n_guards = 1; s.n_guards <= MOST_GUARDS; s.n_guards++)
        for (s.fired = 0; s.fired < MOST_GUARDS; s.fired++) {
            s.verdict = s.fired < s.n_guards ? (uint32_t)s.rank : KL_WORD_CLEAR;
            check(s);
        }
    s = well(KL_F32, 40, 4, 3);
    s.aborted = true;
    s.verdict = 3;
    check(s);
}

static void test_unlike(void **state) {
    for (int size = 2; size < 4; size++) {
        struct scene s = well(KL_F16, 20, size, 1);
        s.verdict = KL_VERDICT_UNLIKE;
        s.their_what = 0x12344;
        check(s);
        s.their_what = WHAT + ((int64_t)1 << 62);
        check(s);
        s.their_number = NUMBER - 1;
        check(s);
        s.their_what = WHAT;
        check(s);
    }
}

static int set_up(void **state) {
    static struct kl_driver_ops ops;
    if (kh_setup(state)) return -1;
    ops = *kh.driver->ops;
    ops.exchange = sum;
    kh.driver->ops = &ops;
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_unlike),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
