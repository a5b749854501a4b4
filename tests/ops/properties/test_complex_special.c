/* test_complex_special.c - complex functions of infinite, huge and NaN parts: the table of
 * docs/numerics.md on every variant of the CPU's kernels and on a device (on_device.h), and the
 * device against the CPU over all pairs of such parts. */
#include "ops/support/no_f64.h"
#include "ops/support/on_device.h"

#include <ctype.h>
#include <math.h>

#include "backend/cpu/cpu_kernels.h"
#include "ops/build/views.h"

typedef int unary_fn(struct kl_array **, struct kl_array *, struct kl_stream *, struct kl_error **);

static const struct function {
    const char *name, *rows;
    unary_fn *build;
} functions[] = {
#define SPECIAL(name, rows) {#name, rows, kl_##name},
#include "ops/support/complex_special.inc"
};
enum { N_FUNCTIONS = sizeof functions / sizeof *functions, MOST_ROWS = 24, MOST_TEXT = 1024 };

/* ---- rows ---- */

struct part {
    float value;
    bool open; /* any sign is right */
};
struct row {
    float re, im;
    struct part want[2];
};

/* Reads one part: a number, nan, inf, or a multiple of pi, with a sign. Moves *p behind the
 * text. */
static struct part part_of(const char **p) {
    static const struct {
        const char *text;
        double value;
    } angles[] = {{"3pi/4", 3 * M_PI / 4}, {"pi/2", M_PI / 2}, {"pi/4", M_PI / 4}, {"pi", M_PI}};
    struct part r = {0, **p == '~'};
    double sign = 1;
    if (**p == '~') ++*p;
    if (**p == '-') {
        sign = -1;
        ++*p;
    }
    for (size_t i = 0; i < sizeof angles / sizeof *angles; i++) {
        size_t n = strlen(angles[i].text);
        if (strncmp(*p, angles[i].text, n) != 0) continue;
        *p += n;
        r.value = (float)(sign * angles[i].value);
        return r;
    }
    char *end;
    r.value = (float)(sign * strtod(*p, &end));
    assert_true(end > *p);
    *p = end;
    return r;
}

static void expect_text(const char **p, const char *text) {
    if (strncmp(*p, text, strlen(text)) != 0) fail_msg("no \"%s\" at \"%s\"", text, *p);
    *p += strlen(text);
}

/* Reads a table with the rows and their conjugates; returns the number of rows. */
static int parse(const char *p, struct row *rows) {
    int n = 0;
    while (*p) {
        struct row r;
        assert_true(n + 2 <= 2 * MOST_ROWS);
        r.re = part_of(&p).value;
        expect_text(&p, ":");
        r.im = part_of(&p).value;
        expect_text(&p, " = ");
        r.want[0] = part_of(&p);
        expect_text(&p, ":");
        r.want[1] = part_of(&p);
        if (*p) expect_text(&p, "; ");
        rows[n++] = r;
        r.im = -r.im;
        r.want[1].value = -r.want[1].value;
        rows[n++] = r;
    }
    return n;
}

static bool near(float got, float want) {
    if (isnan(want)) return isnan(got);
    if (got == want) return true;
    return isfinite(got) && isfinite(want) &&
           fabsf(got - want) <= 4e-7F * fmaxf(fabsf(want), fabsf(got)) + 1e-37F;
}

static bool as_wanted(float got, struct part want, bool negates_nothing) {
    if (want.open || negates_nothing) return near(fabsf(got), fabsf(want.value));
    return near(got, want.value) &&
           (isnan(got) || want.value != 0 || signbit(got) == signbit(want.value));
}

/* ---- running ---- */

/* Runs f on n complex numbers, given as pairs of parts. The imaginary part of a real result is
 * 0. */
static void run(const struct function *f, const float *in, int n, struct kl_stream *s, float *out) {
    struct kl_array *x, *y, *keep;
    OK(kl_array_new_data(&x, in, KL_C64, 1, &n, &err));
    OK(f->build(&y, x, s, &err));
    bool real = y->t.dtype == KL_F32;
    const float *v = read_elements(y, s, &keep, f->name);
    for (int i = 0; i < n; i++) {
        out[2 * i] = v[real ? i : 2 * i];
        out[2 * i + 1] = real ? 0 : v[2 * i + 1];
    }
    kl_array_release(x);
    kl_array_release(y);
    kl_array_release(keep);
}

/* Whether a device without float64 may overflow, or take a denormal number for zero, on the way to
 * the result (docs/numerics.md). */
static bool is_far_out(const float *z, struct kl_stream *s) {
    for (int k = 0; k < 2; k++) {
        const float x = fabsf(z[k]);
        if (isfinite(x) && x != 0 && (x > 40 || x < 1e-30F))
            return s == gpu_stream && device_lacks_f64();
    }
    return false;
}

static void check_table(struct kl_stream *s, const char *where) {
    for (int k = 0; k < N_FUNCTIONS; k++) {
        struct row rows[2 * MOST_ROWS];
        float in[4 * MOST_ROWS], out[4 * MOST_ROWS];
        int n = parse(functions[k].rows, rows);
        bool real = strcmp(functions[k].name, "abs") == 0;
        for (int i = 0; i < n; i++) {
            in[2 * i] = rows[i].re;
            in[2 * i + 1] = rows[i].im;
        }
        run(&functions[k], in, n, s, out);
        for (int i = 0; i < n; i++) {
            const struct row *r = &rows[i];
            /* The sign of a NaN does not count. */
            bool open = isnan(r->im);
            if (is_far_out(&in[2 * i], s)) continue;
            if (!as_wanted(out[2 * i], r->want[0], false) ||
                (!real && !as_wanted(out[2 * i + 1], r->want[1], open && i % 2)))
                fail_msg("%s of %g:%g on %s is %g:%g, not %s%g:%s%g", functions[k].name,
                         (double)r->re, (double)r->im, where, (double)out[2 * i],
                         (double)out[2 * i + 1], r->want[0].open ? "~" : "",
                         (double)r->want[0].value, r->want[1].open ? "~" : "",
                         (double)r->want[1].value);
        }
    }
}

static void table_on_the_cpu(void **state) {
    for (int v = 0; v < kl_cpu_n_variants(); v++) {
        kl_cpu_use_variant(v);
        check_table(cpu_stream, kl_cpu_variant_name(v));
    }
    kl_cpu_use_variant(-1);
}

static void table_on_the_device(void **state) {
    check_table(gpu_stream, device_name());
}

/* ---- all pairs of parts ---- */

static const float parts[] = {-INFINITY, -3e38F,  -1e25F, -700,  -90,    -2,       -1,
                              -0.5F,     -1e-40F, -0.0F,  0,     1e-40F, 0.5F,     1,
                              2,         90,      700,    1e25F, 3e38F,  INFINITY, NAN};
enum { N_PARTS = sizeof parts / sizeof *parts, N_PAIRS = N_PARTS * N_PARTS };

/* Whether the parts agree within 16 units of the larger one. Beside a NaN, the sign of an infinity
 * is open. The sign of a zero is open here, since the table has it. */
static bool agree(const float *got, const float *want) {
    float scale = 0;
    for (int k = 0; k < 2; k++)
        if (isfinite(want[k])) scale = fmaxf(scale, fabsf(want[k]));
    for (int k = 0; k < 2; k++) {
        float g = got[k], w = want[k];
        if (isinf(w) && isnan(want[1 - k])) g = fabsf(g), w = fabsf(w);
        if (isnan(w) ? !isnan(g) : !(g == w || fabsf(g - w) <= 16 * 0x1p-23F * scale + 1e-37F))
            return false;
    }
    return true;
}

static void all_pairs_on_the_device(void **state) {
    static float in[2 * N_PAIRS], got[2 * N_PAIRS], want[2 * N_PAIRS];
    for (int i = 0; i < N_PAIRS; i++) {
        in[2 * i] = parts[i / N_PARTS];
        in[2 * i + 1] = parts[i % N_PARTS];
    }
    for (int k = 0; k < N_FUNCTIONS; k++) {
        run(&functions[k], in, N_PAIRS, cpu_stream, want);
        run(&functions[k], in, N_PAIRS, gpu_stream, got);
        for (int i = 0; i < N_PAIRS; i++)
            if (!is_far_out(&in[2 * i], gpu_stream) && !agree(&got[2 * i], &want[2 * i]))
                fail_msg("%s of %g:%g on %s is %.9g:%.9g, on the CPU %.9g:%.9g", functions[k].name,
                         (double)in[2 * i], (double)in[2 * i + 1], device_name(),
                         (double)got[2 * i], (double)got[2 * i + 1], (double)want[2 * i],
                         (double)want[2 * i + 1]);
    }
}

/* Operations of two numbers, and those along axes of two. */
typedef int binary_fn(struct kl_array **, struct kl_array *, struct kl_array *, struct kl_stream *,
                      struct kl_error **);
static int product(struct kl_array **out, struct kl_array *a, struct kl_array *b,
                   struct kl_stream *s, struct kl_error **err) {
    struct kl_array *row, *column;
    KL_TRY(kl_reshape_to(&row, a, 3, (int[]){a->t.dims[0], 1, 1}, s, err));
    KL_TRY(kl_reshape_to(&column, b, 3, (int[]){a->t.dims[0], 1, 1}, s, err));
    int rc = kl_matmul(out, row, column, s, err);
    kl_array_release(row);
    kl_array_release(column);
    return rc;
}
/* defines prod, sum, most, logsumexp, softmax, cumprod, logcumsumexp */
#define ALONG(name, call)                                                          \
    static int name(struct kl_array **out, struct kl_array *a, struct kl_array *b, \
                    struct kl_stream *s, struct kl_error **err) {                  \
        struct kl_array *x[2], *both;                                              \
        KL_TRY(kl_reshape_to(&x[0], a, 2, (int[]){a->t.dims[0], 1}, s, err));      \
        KL_TRY(kl_reshape_to(&x[1], b, 2, (int[]){a->t.dims[0], 1}, s, err));      \
        KL_TRY(kl_concatenate_axis(&both, x, 2, 1, s, err));                       \
        int rc = call;                                                             \
        kl_array_release(x[0]);                                                    \
        kl_array_release(x[1]);                                                    \
        kl_array_release(both);                                                    \
        return rc;                                                                 \
    }
ALONG(prod, kl_prod_axis(out, both, 1, false, s, err))
ALONG(sum, kl_sum_axis(out, both, 1, false, s, err))
ALONG(most, kl_max_axis(out, both, 1, false, s, err))
ALONG(logsumexp, kl_logsumexp_axis(out, both, 1, false, s, err))
ALONG(softmax, kl_softmax_axis(out, both, 1, true, s, err))
ALONG(cumprod, kl_cumprod(out, both, 1, false, true, s, err))
ALONG(logcumsumexp, kl_logcumsumexp(out, both, 1, false, true, s, err))
static const struct {
    const char *name;
    binary_fn *build;
} pairs[] = {
    {"add", kl_add},
    {"subtract", kl_subtract},
    {"multiply", kl_multiply},
    {"divide", kl_divide},
    {"power", kl_power},
    {"logaddexp", kl_logaddexp},
    {"maximum", kl_maximum},
    {"minimum", kl_minimum},
    {"matmul", product},
    {"prod", prod},
    {"sum", sum},
    {"max", most},
    {"logsumexp", logsumexp},
    {"softmax", softmax},
    {"cumprod", cumprod},
    {"logcumsumexp", logcumsumexp},
};
enum { N_PAIRS_OF = sizeof pairs / sizeof *pairs };

static void pairs_of_two_operands_on_the_device(void **state) {
    static const float few[] = {-INFINITY, -2, -1, -0.0F, 0, 0.5F, 1, 90, INFINITY, NAN};
    enum { FEW = sizeof few / sizeof *few, N = FEW * FEW * FEW * FEW };
    static float in[2][2 * N];
    for (int i = 0; i < N; i++)
        for (int k = 0, left = i; k < 4; k++, left /= FEW)
            in[k / 2][2 * i + k % 2] = few[left % FEW];
    int n = N, n_bad = 0;
    struct kl_array *a, *b, *x, *y, *keep[2];
    OK(kl_array_new_data(&a, in[0], KL_C64, 1, &n, &err));
    OK(kl_array_new_data(&b, in[1], KL_C64, 1, &n, &err));
    for (int f = 0; f < N_PAIRS_OF; f++) {
        OK(pairs[f].build(&x, a, b, cpu_stream, &err));
        OK(pairs[f].build(&y, a, b, gpu_stream, &err));
        const float *want = read_elements(x, cpu_stream, &keep[0], pairs[f].name),
                    *got = read_elements(y, gpu_stream, &keep[1], pairs[f].name);
        const int64_t per = x->t.size / N;
        int bad = 0;
        for (int64_t k = 0; k < x->t.size; k++) {
            const int64_t i = k / per;
            if (agree(&got[2 * k], &want[2 * k])) continue;
            if (is_far_out(&in[0][2 * i], gpu_stream) || is_far_out(&in[1][2 * i], gpu_stream))
                continue;
            if (bad++ < 3)
                print_error("%s of %g:%g and %g:%g on %s is %.9g:%.9g, on the CPU %.9g:%.9g\n",
                            pairs[f].name, (double)in[0][2 * i], (double)in[0][2 * i + 1],
                            (double)in[1][2 * i], (double)in[1][2 * i + 1], device_name(),
                            (double)got[2 * k], (double)got[2 * k + 1], (double)want[2 * k],
                            (double)want[2 * k + 1]);
        }
        if (bad) print_error("%s: %d of %lld differ\n", pairs[f].name, bad, (long long)x->t.size);
        n_bad += bad;
        struct kl_array *all[] = {x, y, keep[0], keep[1]};
        for (int i = 0; i < 4; i++) kl_array_release(all[i]);
    }
    kl_array_release(a);
    kl_array_release(b);
    assert_int_equal(n_bad, 0);
}

/* ---- the document ---- */

static void the_document_has_the_table(void **state) {
    FILE *f = fopen("docs/numerics.md", "r");
    if (!f) skip(); /* a bundle of tests for another machine has no documents */
    char line[MOST_TEXT];
    bool seen[N_FUNCTIONS] = {false};
    while (fgets(line, sizeof line, f))
        for (int k = 0; k < N_FUNCTIONS; k++) {
            char want[MOST_TEXT];
            snprintf(want, sizeof want, "| %s | %s |\n", functions[k].name, functions[k].rows);
            seen[k] = seen[k] || strcmp(line, want) == 0;
        }
    fclose(f);
    for (int k = 0; k < N_FUNCTIONS; k++)
        if (!seen[k]) fail_msg("docs/numerics.md has not the row of %s", functions[k].name);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_on_the_cpu),
        cmocka_unit_test(table_on_the_device),
        cmocka_unit_test(all_pairs_on_the_device),
        cmocka_unit_test(pairs_of_two_operands_on_the_device),
        cmocka_unit_test(the_document_has_the_table),
    };
    return cmocka_run_group_tests(tests, open_streams, NULL);
}
