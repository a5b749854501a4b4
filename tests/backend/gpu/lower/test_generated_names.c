/* test_generated_names.c - compares the names in generated element-wise kernels with the names of
 * the dialect, in the text alone. A local variable that has a name of the dialect hides that name,
 * and whether the kernel compiles then depends on the number of the step. */
#include "support.h"

#include <ctype.h>

#include "backend/gpu/lower/kernels.h"
#include "backend/gpu/lower/lower.h"
#include "base/alloc.h"
#include "base/number/dtype.h"
#include "base/value/tensor.h"

/* ---- a driver that keeps the source and compiles nothing ---- */

static char *compiled; /* the source of the last call */

static int keep_source(struct kl_driver *p, const char *source, const char *name, void **binary,
                       size_t *bytes, struct kl_error **err) {
    free(compiled);
    compiled = strdup(source);
    *binary = kl_calloc(1, *bytes = 8);
    return KL_OK;
}
static int load(struct kl_driver *p, const void *binary, size_t bytes, void **module,
                struct kl_error **err) {
    *module = p;
    return KL_OK;
}
static int find(struct kl_driver *p, void *module, const char *entry, void **kernel,
                struct kl_error **err) {
    *kernel = p;
    return KL_OK;
}
static int launch(struct kl_driver *p, void *queue, void *kernel, uint32_t groups, uint32_t local,
                  const struct kl_karg *args, int n_args, struct kl_error **err) {
    return KL_OK;
}
static const struct kl_driver_ops driver_ops = {
    .compile = keep_source, .load = load, .find = find, .launch = launch};
static struct kl_driver driver = {.ops = &driver_ops,
                                  .prelude = "",
                                  .identity = "names",
                                  .max_local = 256,
                                  .n_units = 1,
                                  .subgroup = 1,
                                  .has_f64 = true,
                                  .has_atomic64 = true};

/* ---- the largest group there is ---- */

enum { STEPS = 24, N = 64, COLUMNS = 8 };
static struct kl_command commands[STEPS];
static struct kl_arg args[STEPS][3];
static int flat_dims[2] = {N / COLUMNS, COLUMNS};
static int64_t flat_strides[2] = {COLUMNS, 1}, transposed_strides[2] = {1, N / COLUMNS};

static struct kl_arg arg_of(enum kl_dtype t, int memory, bool transposed) {
    struct kl_arg a = {.data = (void *)(uintptr_t)((uint64_t)(memory + 1) << 32),
                       .dtype = (uint8_t)t,
                       .ndim = 2,
                       .size = N,
                       .dims = flat_dims,
                       .strides = transposed ? transposed_strides : flat_strides};
    a.layout = kl_layout_of(2, a.dims, a.strides);
    return a;
}

/* Lowers a chain of additions, then a comparison of its last value. The group reads all the leaves
 * and has as many results as a kernel stores, the first of them at the step `stored`. */
static void generate(struct kl_lowering *lowering, bool transposed, int stored) {
    struct kl_error *e = NULL;
    for (int k = 0; k < STEPS; k++) {
        bool last = k == STEPS - 1;
        args[k][0] = k ? args[k - 1][2] : arg_of(KL_F32, 0, transposed);
        args[k][1] = arg_of(KL_F32, k % 8 + 1, transposed && k % 8 < 2);
        args[k][2] = arg_of(last ? KL_BOOL : KL_F32, 100 + k, false);
        commands[k] = (struct kl_command){.kind = KL_CMD_LAUNCH,
                                          .op = last ? KL_OP_LESS : KL_OP_ADD,
                                          .n_in = 2,
                                          .n_out = 1,
                                          .args = args[k],
                                          .dead = k > 0 && k - 1 != stored ? 1 : 0};
    }
    if (kl_lower(lowering, NULL, commands, STEPS, &e)) fail_msg("%s", e->message);
    assert_non_null(compiled);
}

/* ---- names ---- */

/* Of each byte: 1 in an identifier, 2 a digit besides. A table, since half a million characters are
 * read, and functions of ctype.h or string.h take minutes under the sanitizers. */
static unsigned char of_name[256];

static void fill_of_name(void) {
    for (int c = 0; c < 256; c++) of_name[c] = isdigit(c) ? 3 : isalpha(c) || c == '_';
}

/* Moves *p to the next identifier and returns its length, or 0 at the end of the text. */
static size_t next_name(const char **p) {
    const unsigned char *at = (const unsigned char *)*p, *end;
    while (*at && of_name[*at] != 1) {
        if (of_name[*at])
            while (of_name[*at] && *at != '_') at++; /* skips a number with its suffix */
        else
            at++;
    }
    for (end = at; of_name[*end];) end++;
    *p = (const char *)at;
    return (size_t)(end - at);
}

/* Whether a name has the form that the generator makes: lower case letters, an underscore, a
 * number, and perhaps _at or _base, as in value_3 and value_3_at. */
static bool is_numbered(const char *name, size_t n) {
    size_t i = 0;
    while (i < n && islower((unsigned char)name[i])) i++;
    if (i == 0 || i + 1 >= n || name[i] != '_' || !isdigit((unsigned char)name[i + 1]))
        return false;
    for (i++; i < n && isdigit((unsigned char)name[i]); i++) {
    }
    return i == n || (n - i == 5 && memcmp(name + i, "_base", 5) == 0) ||
           (n - i == 3 && memcmp(name + i, "_at", 3) == 0);
}

static bool has_name(const char *text, const char *name, size_t n) {
    for (const char *p = text;;) {
        size_t m = next_name(&p);
        if (m == 0) return false;
        if (m == n && memcmp(p, name, n) == 0) return true;
        p += m;
    }
}

static const char *const dialect[] = {kl_source_prelude, kl_source_prelude_cuda,
                                      kl_source_prelude_opencl, kl_source_elementwise,
                                      kl_source_math};
enum { N_SOURCES = sizeof dialect / sizeof *dialect };

static void the_dialect_has_no_numbered_names(void **state) {
    for (int i = 0; i < N_SOURCES; i++)
        for (const char *p = dialect[i];;) {
            size_t n = next_name(&p);
            if (n == 0) break;
            if (is_numbered(p, n))
                fail_msg("%.*s is a name as the generator makes them", (int)n, p);
            p += n;
        }
}

/* Checks the names of a generated kernel: none is a name of the dialect, and a name such as b8, of
 * letters and a number, must be the dialect's. Names such as value_f32 come from its macros. */
static int check_generated(void) {
    int numbered = 0;
    const char *p = strstr(compiled, "KERNEL(map)");
    assert_non_null(p);
    for (;;) {
        size_t n = next_name(&p);
        if (n == 0) return numbered;
        bool ours = is_numbered(p, n), known = false;
        numbered += ours;
        for (int i = 0; i < N_SOURCES && !known; i++) known = has_name(dialect[i], p, n);
        if (ours && known) fail_msg("%.*s hides a name of the dialect", (int)n, p);
        if (!ours && !known && isdigit((unsigned char)p[n - 1]) && !memchr(p, '_', n))
            fail_msg("%.*s is neither of the dialect nor numbered", (int)n, p);
        p += n;
    }
}

/* Compares the names for every step that may be stored. All names that depend on a step have the
 * numbered form, so the number of a step never makes a name of the dialect. */
static void generated_names_are_numbered(void **state) {
    struct kl_lowering *lowering = kl_lowering_new(&driver, NULL);
    assert_non_null(lowering);
    for (int transposed = 0; transposed < 2; transposed++)
        for (int stored = 0; stored < STEPS - 1; stored++) {
            generate(lowering, transposed, stored);
            assert_true(check_generated() > 3 * STEPS);
        }
    free(compiled);
}

int main(void) {
    fill_of_name();
    setenv("KEEL_CACHE_DIR", "", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_dialect_has_no_numbered_names),
        cmocka_unit_test(generated_names_are_numbered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
