/* test_shapeless.c - functions that are traced for any shapes: every case of cases.h, plain, as a
 * gradient and as a batch, for five shapes; the replay and the function in a file must give what
 * the function itself gives. What is refused or traced anew is counted against a list. */
#include <unistd.h>

#include "transforms/compile.h"
#include "transforms/export.h"
#include "transforms/plan.h"
#include "transforms/subject.h"

enum { SHAPES = 5, LANES = 2 };
enum transform { PLAIN, GRADIENT, BATCH, N_TRANSFORMS };
static const char *const names[] = {"plain", "grad", "vmap"};

/* ---- a case as a function of all its operands ---- */

struct shaped {
    struct op_case c;
    enum kl_dtype dtype;
    enum transform transform;
    int wrt[MOST_INPUTS], n_wrt; /* the operands with a gradient */
    int calls;                   /* of the case itself */
};

static int call_plain(void *ctx, struct kl_array *const *in, size_t n, struct kl_arrays *outs,
                      struct kl_error **e) {
    struct shaped *f = ctx;
    KL_TRY(kl_arrays_new(outs, 1, e));
    f->calls++;
    int rc = build_case(&outs->v[0], &f->c, in, e);
    if (rc) kl_arrays_free(outs);
    return rc;
}

/* The sum of the squares of the result. */
static int call_loss(void *ctx, struct kl_array *const *in, size_t n, struct kl_arrays *outs,
                     struct kl_error **e) {
    struct kl_arrays made = {0};
    struct kl_array *square;
    KL_TRY(call_plain(ctx, in, n, &made, e));
    int rc = kl_square(&square, made.v[0], cpu(), e);
    kl_arrays_free(&made);
    KL_TRY(rc);
    rc = kl_arrays_new(outs, 1, e);
    if (!rc && (rc = kl_sum(&outs->v[0], square, false, cpu(), e))) kl_arrays_free(outs);
    kl_array_release(square);
    return rc;
}

static int call_shaped(void *ctx, struct kl_array *const *in, size_t n, struct kl_arrays *outs,
                       struct kl_error **e) {
    struct shaped *f = ctx;
    if (f->transform == PLAIN) return call_plain(ctx, in, n, outs, e);
    struct kl_function inner = {.call = f->transform == GRADIENT ? call_loss : call_plain,
                                .ctx = ctx};
    struct kl_arrays lanes = {0}, results = {0};
    int zeros[MOST_INPUTS] = {0};
    if (f->transform == GRADIENT) {
        int rc = kl_value_and_grad(&inner, f->wrt, (size_t)f->n_wrt, in, n, &results, outs, e);
        kl_arrays_free(&results);
        return rc;
    }
    KL_TRY(kl_vmap_trace(&inner, in, n, zeros, &lanes, &results, e));
    int rc = kl_vmap_replace(in, n, lanes.v, results.v, 1, zeros, zeros, outs, e);
    kl_arrays_free(&lanes);
    kl_arrays_free(&results);
    return rc;
}

/* ---- shapes ---- */

/* Shape `which` of the case: one extent, in all operands that have it, becomes another number. */
static bool change(struct op_case *c, int *lanes, int which) {
    int extents[MOST_INPUTS * 5], n = 0;
    for (int i = 0; i < c->n_in; i++)
        for (int d = 0; d < c->in[i].ndim; d++) {
            bool known = c->in[i].dims[d] == 0;
            for (int k = 0; k < n; k++) known = known || extents[k] == c->in[i].dims[d];
            if (!known) extents[n++] = c->in[i].dims[d];
        }
    if (which == 0) return true;
    if (lanes && which == 1) {
        *lanes = 3;
        return true;
    }
    which -= 1 + (lanes != NULL);
    if (which >= 5 * n) return false;
    const int from = extents[which % n], how = which / n;
    const int to[] = {from + 1, 2 * from, 1, from + 3, 3 * from};
    for (int i = 0; i < c->n_in; i++)
        for (int d = 0; d < c->in[i].ndim; d++)
            if (c->in[i].dims[d] == from) c->in[i].dims[d] = to[how];
    return true;
}

static void make_inputs(const struct shaped *f, const struct op_case *c, int lanes,
                        struct kl_array **in) {
    uint32_t start = 7;
    for (int i = 0; i < c->n_in; i++) {
        in[i] = make_input(&c->in[i], f->dtype, lanes, &start);
        EXPECT_OK(kl_eval(&in[i], 1, &err));
    }
}

/* ---- comparing ---- */

/* All results as numbers; false: one failed. */
static bool values(const struct kl_arrays *a, double **v) {
    if (kl_eval(a->v, a->n, NULL)) return false;
    for (size_t i = 0; i < a->n; i++) v[i] = doubles_of(a->v[i]);
    return true;
}

static bool equal_results(const struct kl_arrays *a, const struct kl_arrays *b) {
    double *x[MOST_INPUTS] = {NULL}, *y[MOST_INPUTS] = {NULL};
    bool ok = a->n == b->n;
    for (size_t i = 0; i < a->n && ok; i++)
        ok = a->v[i]->t.dtype == b->v[i]->t.dtype &&
             kl_shape_is(a->v[i], b->v[i]->t.ndim, b->v[i]->t.dims);
    bool made = ok && values(a, x), same = ok && values(b, y);
    ok = ok && made == same;
    for (size_t i = 0; i < a->n && made && ok; i++) {
        int64_t n = a->v[i]->t.size * (a->v[i]->t.dtype == KL_C64 ? 2 : 1);
        for (int64_t k = 0; k < n; k++) {
            double most = fmax(fabs(x[i][k]), fabs(y[i][k]));
            bool near = fabs(x[i][k] - y[i][k]) <= 2e-4 * (1 + most);
            ok = ok && (near || x[i][k] == y[i][k] || (isnan(x[i][k]) && isnan(y[i][k])));
        }
    }
    for (size_t i = 0; i < a->n; i++) {
        free(x[i]);
        free(y[i]);
    }
    return ok;
}

/* ---- the check ---- */

static int n_checked, n_shapes, n_again, n_refused, n_wrong;

static char path[] = "/tmp/keel_test_shapeless_XXXXXX";

/* The function in a file and read again; NULL: it is refused. */
static struct kl_imported *through_file(const struct kl_function *f, struct kl_array *const *in,
                                        size_t n, struct kl_error **e) {
    struct kl_exporter *x;
    struct kl_imported *m = NULL;
    const struct kl_names none = {0};
    EXPECT_OK(kl_exporter_new(&x, path, true, &err));
    int rc = kl_exporter_add(x, f, in, n, none, e);
    if (rc) {
        kl_exporter_abort(x);
        return NULL;
    }
    EXPECT_OK(kl_exporter_finish(x, &err));
    EXPECT_OK(kl_import(&m, path, &err));
    return m;
}

static void complain(const struct shaped *f, int shape, const char *what, struct kl_error *e) {
    n_wrong++;
    print_error("%s under %s, shape %d: %s%s%s\n", f->c.name, names[f->transform], shape, what,
                e ? ": " : "", e ? e->message : "");
}

/* One shape: what f gives, what the compiled function and the one of the file give. */
static bool check_shape(struct shaped *f, const struct kl_function *c, struct kl_imported **file,
                        int shape, struct kl_array *const *in) {
    const struct kl_function plain = {.call = call_shaped, .ctx = f};
    const size_t n = (size_t)f->c.n_in;
    struct kl_arrays want = {0}, got = {0};
    struct kl_error *e = NULL;
    if (kl_function_call(&plain, in, n, &want, NULL)) return false;
    f->calls = 0;
    if (kl_function_call(c, in, n, &got, &e)) {
        complain(f, shape, "the replay fails", e);
    } else if (!equal_results(&want, &got)) {
        complain(f, shape, "the replay gives something else", NULL);
    }
    if (f->calls && shape > 0) {
        n_again++;
        print_message("traced anew: %s under %s\n", f->c.name, names[f->transform]);
    }
    kl_arrays_free(&got);
    if (shape == 0 && !(*file = through_file(&plain, in, n, &e))) {
        n_refused++;
        print_message("refused: %s under %s: %s\n", f->c.name, names[f->transform], e->message);
    }
    kl_error_release(e);
    e = NULL;
    if (*file) {
        if (kl_imported_call(*file, in, n, (struct kl_names){0}, &got, &e))
            complain(f, shape, "the function of the file fails", e);
        else if (!equal_results(&want, &got))
            complain(f, shape, "the function of the file gives something else", NULL);
        kl_arrays_free(&got);
    }
    kl_error_release(e);
    kl_arrays_free(&want);
    return true;
}

static bool has_transform(struct shaped *f, struct kl_array *const *in) {
    struct kl_arrays outs = {0};
    for (int i = 0; i < f->c.n_in; i++)
        if (kl_has_gradient(in[i])) f->wrt[f->n_wrt++] = i;
    if (f->transform == GRADIENT && !f->n_wrt) return false;
    if (f->transform == BATCH && !f->c.n_in) return false;
    int rc = call_shaped(f, in, (size_t)f->c.n_in, &outs, NULL);
    kl_arrays_free(&outs);
    return !rc;
}

static void check_case(int which, enum transform transform) {
    struct shaped f = {.c = case_number(which), .dtype = KL_F32, .transform = transform};
    while (!(f.c.dtypes & BIT(f.dtype))) f.dtype = (enum kl_dtype)((f.dtype + 1) % KL_N_DTYPES);
    const struct kl_function plain = {.call = call_shaped, .ctx = &f};
    struct kl_function c;
    struct kl_imported *file = NULL;
    EXPECT_OK(kl_compile(&c, &plain, 0, true, NULL, 0, &err));
    for (int shape = 0, done = 0; done < SHAPES; shape++) {
        struct kl_array *in[MOST_INPUTS] = {NULL};
        struct op_case changed = f.c;
        int lanes = LANES;
        if (!change(&changed, transform == BATCH ? &lanes : NULL, shape)) break;
        make_inputs(&f, &changed, transform == BATCH ? lanes : -1, in);
        bool there = shape > 0 || has_transform(&f, in);
        if (there && check_shape(&f, &c, &file, shape, in)) {
            done++;
            n_shapes += shape > 0;
        }
        for (int i = 0; i < f.c.n_in; i++) kl_array_release(in[i]);
        if (!there) break;
        n_checked += shape == 0;
    }
    kl_imported_release(file);
    kl_function_release(&c);
}

static void check_all(enum transform transform) {
    n_checked = n_shapes = n_again = n_refused = n_wrong = 0;
    for (int i = 0; i < N_CASES; i++)
        if (kl_test_takes("cpu", 1)) check_case(i, transform);
    print_message("%s: %d cases, %d shapes, %d traced anew, %d refused, %d wrong\n",
                  names[transform], n_checked, n_shapes, n_again, n_refused, n_wrong);
    assert_int_equal(n_wrong, 0);
    assert_true(n_shapes > 3 * n_checked); /* not all have five: a constant may fix an extent */
}

static void plain_functions(void **state) {
    check_all(PLAIN);
    assert_int_equal(n_again, 0);
    assert_int_equal(n_refused, 0);
}
static void gradients(void **state) {
    check_all(GRADIENT);
    assert_int_equal(n_again, 0);
    assert_int_equal(n_refused, 0);
}
static void batches(void **state) {
    check_all(BATCH);
    assert_int_equal(n_again, 0);
    assert_int_equal(n_refused, 0);
}

/* ---- calls in files ---- */

/* softmax(x)[1:] @ y */
static int rows(void *ctx, struct kl_array *const *in, size_t n, struct kl_arrays *outs,
                struct kl_error **e) {
    struct kl_array *soft, *rest = NULL;
    const int last = -1;
    KL_TRY(kl_softmax_axes(&soft, in[0], &last, 1, false, cpu(), e));
    int rc = kl_slice(&rest, soft, LIST(1, 0), LIST(INT32_MAX, INT32_MAX), LIST(1, 1), cpu(), e);
    kl_array_release(soft);
    if (!rc) rc = kl_arrays_new(outs, 1, e);
    if (!rc && (rc = kl_matmul(&outs->v[0], rest, in[1], cpu(), e))) kl_arrays_free(outs);
    kl_array_release(rest);
    return rc;
}

/* The sum of that for each pair along axis 0. */
static int sum_of_lanes(void *ctx, struct kl_array *const *in, size_t n, struct kl_arrays *outs,
                        struct kl_error **e) {
    const struct kl_function lane = {.call = rows};
    const int zeros[2] = {0, 0};
    struct kl_arrays args = {0}, results = {0}, made = {0};
    KL_TRY(kl_vmap_trace(&lane, in, n, zeros, &args, &results, e));
    int rc = kl_vmap_replace(in, n, args.v, results.v, 1, zeros, zeros, &made, e);
    if (!rc) rc = kl_arrays_new(outs, 1, e);
    if (!rc && (rc = kl_sum(&outs->v[0], made.v[0], false, cpu(), e))) kl_arrays_free(outs);
    kl_arrays_free(&args);
    kl_arrays_free(&results);
    kl_arrays_free(&made);
    return rc;
}

static int gradient_of_lanes(void *ctx, struct kl_array *const *in, size_t n,
                             struct kl_arrays *outs, struct kl_error **e) {
    const struct kl_function sum = {.call = sum_of_lanes};
    struct kl_arrays values = {0};
    const int both[2] = {0, 1};
    int rc = kl_value_and_grad(&sum, both, 2, in, n, &values, outs, e);
    kl_arrays_free(&values);
    return rc;
}

static unsigned char *contents(size_t *n) {
    static unsigned char bytes[1 << 14];
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    *n = fread(bytes, 1, sizeof bytes, f);
    assert_true(*n > 0 && *n < sizeof bytes && !fclose(f));
    return bytes;
}

/* Reads the bytes and calls what they hold; what fails says why. */
static int use(const unsigned char *bytes, size_t n, struct kl_array *const *in) {
    struct kl_imported *m;
    struct kl_error *e = NULL;
    struct kl_arrays got = {0};
    int rc = kl_import_bytes(&m, bytes, n, "changed", &e);
    if (!rc) {
        rc = kl_imported_call(m, in, 2, (struct kl_names){0}, &got, &e);
        if (!rc) (void)kl_eval(got.v, got.n, NULL);
        kl_arrays_free(&got);
        kl_imported_release(m);
    }
    if (rc) assert_true(e && e->message[0]);
    kl_error_release(e);
    return rc;
}

/* Calls in a file are not believed: changed ones are refused, or give other numbers. */
static void changed_calls(void **state) {
    const struct kl_function f = {.call = gradient_of_lanes};
    struct kl_array *in[2] = {F32(SHAPE(2, 3, 2), 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3),
                              F32(SHAPE(2, 2, 1), 1, 2, 3, 4)};
    struct kl_array *more[2] = {F32(SHAPE(1, 4, 2), 1, 2, 3, 4, 5, 6, 7, 8),
                                F32(SHAPE(1, 2, 2), 1, 2, 3, 4)};
    size_t n;
    struct kl_names none;
    struct kl_imported *m = through_file(&f, in, 2, NULL);
    assert_non_null(m);
    const struct kl_plan *p = kl_imported_plan(m, 0, &none);
    int calls = 0;
    for (int i = 0; i < p->n_steps; i++) calls += p->steps[i].op == KL_OP_DEFERRED;
    assert_true(calls > 2);
    kl_imported_release(m);
    unsigned char *bytes = contents(&n);
    assert_int_equal(use(bytes, n, in), KL_OK);
    assert_int_equal(use(bytes, n, more), KL_OK);
    static const unsigned char values[] = {0, 1, 2, 3, 5, 16, 57, 127, 128, 255};
    int refused = 0, positions = 0;
    for (size_t at = 0; at < n; at++) {
        const unsigned char before = bytes[at];
        if (!kl_test_takes("cpu", 1)) continue;
        positions++;
        for (size_t k = 0; k < sizeof values; k++) {
            bytes[at] = values[k];
            refused += use(bytes, n, more) != KL_OK;
        }
        bytes[at] = before;
    }
    assert_true(refused > positions);
    for (int i = 0; i < 2; i++) {
        kl_array_release(in[i]);
        kl_array_release(more[i]);
    }
}

/* ---- extents that the function reads ---- */

static int calls_of_reader;

/* in[0] times the number of its columns, which the caller of the library sees. */
static int reader(void *ctx, struct kl_array *const *in, size_t n, struct kl_arrays *outs,
                  struct kl_error **e) {
    struct kl_array *columns;
    calls_of_reader++;
    kl_trace_note_read(in[0], 1);
    KL_TRY(kl_array_new_scalar(&columns, in[0]->t.dims[1], KL_F32, e));
    int rc = kl_arrays_new(outs, 1, e);
    if (!rc && (rc = kl_multiply(&outs->v[0], in[0], columns, cpu(), e))) kl_arrays_free(outs);
    kl_array_release(columns);
    return rc;
}

static void extents_that_are_read(void **state) {
    const struct kl_function f = {.call = reader};
    struct kl_array *in[] = {F32(SHAPE(1, 2), 1, 2), F32(SHAPE(2, 2), 1, 2, 3, 4),
                             F32(SHAPE(1, 3), 1, 2, 3), F32(SHAPE(3, 2), 1, 2, 3, 4, 5, 6)};
    const int traced[] = {1, 1, 2, 2};
    struct kl_function c;
    struct kl_arrays got = {0};
    struct kl_error *e = NULL;
    EXPECT_OK(kl_compile(&c, &f, 0, true, NULL, 0, &err));
    for (int i = 0; i < 4; i++) {
        EXPECT_OK(kl_function_call(&c, &in[i], 1, &got, &err));
        assert_int_equal(calls_of_reader, traced[i]);
        float *v = values_of(got.v[0]);
        assert_true(v[1] == 2 * (float)in[i]->t.dims[1]);
        free(v);
        kl_arrays_free(&got);
    }
    kl_function_release(&c);
    struct kl_imported *m = through_file(&f, in, 1, NULL);
    EXPECT_OK(kl_imported_call(m, &in[1], 1, (struct kl_names){0}, &got, &err));
    kl_arrays_free(&got);
    assert_int_equal(kl_imported_call(m, &in[2], 1, (struct kl_names){0}, &got, &e), KL_ESHAPE);
    assert_string_equal(e->message, "argument 0 has size 3 along axis 1; the function was exported "
                                    "with 2, and read that number");
    kl_error_release(e);
    kl_imported_release(m);
    for (int i = 0; i < 4; i++) kl_array_release(in[i]);
}

int main(void) {
    int fd = mkstemp(path);
    if (fd < 0 || close(fd)) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_functions),
        cmocka_unit_test(gradients),
        cmocka_unit_test(batches),
        cmocka_unit_test(changed_calls),
        cmocka_unit_test(extents_that_are_read),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)unlink(path);
    return failed;
}
