/* test_nvrtc_alone.c - a kernel that is compiled alone, without the others of its family, has the
 * same machine code, and the others are not in the program. */
#include "backend/cuda/nvrtc_support.h"

/* Where the section of this name is in the module that was loaded last, and its bytes. */
static const char *section(const char *name, size_t *bytes) {
    const char *at = module.binary;
    uint64_t sections, from[2];
    uint16_t n, names;
    memcpy(&sections, at + 0x28, sizeof sections); /* of an ELF file of 64 bits */
    memcpy(&n, at + 0x3C, sizeof n);
    memcpy(&names, at + 0x3E, sizeof names);
    memcpy(&from[0], at + sections + 64 * (uint64_t)names + 24, sizeof from[0]);
    const char *texts = at + from[0];
    for (int i = 0; i < n; i++) {
        const char *s = at + sections + 64 * (uint64_t)i;
        uint32_t text;
        memcpy(&text, s, sizeof text);
        if (strcmp(texts + text, name) != 0) continue;
        memcpy(from, s + 24, sizeof from);
        *bytes = from[1];
        return at + from[0];
    }
    return NULL;
}

static void compile(bool alone, const struct kl_family *f, const int *values, const char *entry) {
    struct kl_error *err = NULL;
    driver.leaves_out = alone;
    static struct kl_lowering *all[64]; /* never freed */
    static int n;
    assert_true(n < 64 && (all[n] = kl_lowering_new(&driver, NULL)));
    struct kl_emit e = {.lowering = all[n++], .driver = &driver, .dry = true, .err = &err};
    if (kl_emit(&e, f, values, entry, 1, 256, NULL, 0)) fail_msg("%s", err->message);
}

static void same_code(const struct kl_family *f, const int *values, const char *const *entries) {
    for (int i = 0; entries[i]; i++) {
        char name[64], other[64];
        size_t n = 0, n_alone = 0;
        snprintf(name, sizeof name, ".text.%s", entries[i]);
        snprintf(other, sizeof other, ".text.%s", entries[i ? 0 : 1]);
        compile(false, f, values, entries[i]);
        const char *code = section(name, &n);
        assert_non_null(code);
        assert_non_null(section(other, &n_alone));
        char *whole = malloc(n);
        memcpy(whole, code, n);
        compile(true, f, values, entries[i]);
        code = section(name, &n_alone);
        assert_non_null(code);
        assert_int_equal(n_alone, n);
        assert_memory_equal(code, whole, n);
        assert_null(section(other, &n_alone));
        free(whole);
    }
}

static void kernels_alone_have_the_same_code(void **state) {
    if (no_nvrtc(12)) return;
    same_code(&kl_family_norm, (const int[]){KL_BF16, 1, 2, 16},
              (const char *const[]){"norm_rows", "norm_long", NULL});
    same_code(&kl_family_arg_reduce, (const int[]){KL_F32, 0},
              (const char *const[]){"scan", "join_places", NULL});
    same_code(&kl_family_reduce, (const int[]){KL_F32, KL_F32, 0},
              (const char *const[]){"rows", "columns", "join_parts", NULL});
    same_code(&kl_family_guards, NULL,
              (const char *const[]){"merge", "guard_fill", "guard_check", NULL});
}

int main(void) {
    have_nvrtc = kl_nvrtc_api(NULL) != NULL;
    const struct CMUnitTest tests[] = {cmocka_unit_test(kernels_alone_have_the_same_code)};
    return nvrtc_report(cmocka_run_group_tests(tests, nvrtc_setup, NULL));
}
