/* validate.c - see validate.h. */
#include "base/op/validate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Atomic(int) validating = -1; /* -1: not asked yet */

bool kl_validating(void) {
    int v = atomic_load_explicit(&validating, memory_order_relaxed);
    if (v < 0) {
        const char *e = getenv("KEEL_VALIDATE");
        v = e && *e && strcmp(e, "0") != 0;
        atomic_store(&validating, v);
    }
    return v;
}

#ifdef KL_TEST_HOOKS
void kl_test_set_validating(bool on) {
    atomic_store(&validating, on);
}
#endif

/* The upper half distinguishes a guard from data; the lower half distinguishes the tenants. */
uint64_t kl_guard_word(uint64_t tenant) {
    return 0x9A4DC0DE00000000u | (tenant & 0xFFFFFFFFu);
}

void kl_guard_write(void *body, size_t bytes, uint64_t tenant) {
    uint64_t word = kl_guard_word(tenant);
    char *front = (char *)body - KL_GUARD_BYTES, *back = (char *)body + bytes;
    for (int i = 0; i < KL_GUARD_BYTES; i += 8) {
        memcpy(front + i, &word, 8);
        memcpy(back + i, &word, 8);
    }
}

static enum kl_guard_finding check_side(const char *p, uint64_t want,
                                        enum kl_guard_finding broken) {
    bool intact = true, other = true;
    uint64_t first;
    memcpy(&first, p, 8);
    for (int i = 0; i < KL_GUARD_BYTES; i += 8) {
        uint64_t word;
        memcpy(&word, p + i, 8);
        intact = intact && word == want;
        other = other && word == first && word >> 32 == want >> 32;
    }
    return intact ? KL_GUARD_INTACT : other ? KL_GUARD_OTHER_TENANT : broken;
}

enum kl_guard_finding kl_guard_check(const void *body, size_t bytes, uint64_t tenant) {
    uint64_t want = kl_guard_word(tenant);
    enum kl_guard_finding f =
        check_side((const char *)body - KL_GUARD_BYTES, want, KL_GUARD_BEFORE);
    return f ? f : check_side((const char *)body + bytes, want, KL_GUARD_AFTER);
}

void kl_guard_fill(struct kl_block *b) {
    kl_guard_write(b->ptr, b->bytes, b->tenant);
}

void kl_guard_poison(struct kl_block *b) {
    memset(b->ptr, 0xDB, b->bytes);
}

void kl_guard_report(struct kl_error **err, const char *op, int operand, int n_in, int n_out,
                     size_t bytes, enum kl_guard_finding finding, int64_t stream) {
    static const char *const what[] = {"is intact", "was handed on while the kernel used it",
                                       "was overwritten in front of its first byte",
                                       "was overwritten after its last byte"};
    bool is_out = operand >= n_in;
    char text[160], name[32];
    if (operand < n_in + n_out)
        snprintf(name, sizeof name, "%s %d", is_out ? "output" : "input",
                 is_out ? operand - n_in : operand);
    else
        strcpy(name, "workspace");
    snprintf(text, sizeof text, "validation: %s of '%s' (%zu bytes, stream %lld) %s", name, op,
             bytes, (long long)stream, what[finding]);
    fprintf(stderr, "keel: %s\n", text);
    struct kl_error_info info = {
        .code = KL_EVALIDATE, .op = op, .has = KL_HAS_STREAM, .stream = stream};
    kl_fail_info(err, &info, "%s", text);
}
