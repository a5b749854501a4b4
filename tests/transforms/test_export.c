/* test_export.c - functions in files: every operation and its gradient written, read and called;
 * and files that are cut or changed. */
#include <sys/stat.h>
#include <unistd.h>

#include "base/op/op_params.h"
#include "base/op/param_form.h"
#include "transforms/export.h"
#include "transforms/plan.h"
#include "transforms/subject.h"

static char path[] = "/tmp/keel_test_export_XXXXXX";

static void same_bits(const char *name, struct kl_array *a, struct kl_array *b) {
    assert_int_equal(a->t.dtype, b->t.dtype);
    expect_shape(a, b->t.ndim, b->t.dims);
    void *x = values_of(a), *y = values_of(b);
    if (memcmp(x, y, (size_t)a->t.size * kl_dtype_size((enum kl_dtype)a->t.dtype)) != 0)
        fail_msg("%s: imported, the bits differ", name);
    free(x);
    free(y);
}

static int write_function(const struct kl_function *f, struct kl_array *const *args, size_t n,
                          bool shapeless, struct kl_error **e) {
    struct kl_exporter *x;
    KL_TRY(kl_exporter_new(&x, path, shapeless, e));
    int rc = kl_exporter_add(x, f, args, n, (struct kl_names){0}, e);
    if (!rc) return kl_exporter_finish(x, e);
    kl_exporter_abort(x);
    return rc;
}

/* The file holds every parameter of every operation, to the byte. */
static void same_parameters(const char *name, const struct kl_function *f,
                            struct kl_array *const *args, size_t n, const struct kl_imported *m) {
    struct kl_plan_spec specs[MOST_INPUTS];
    struct kl_plan *p;
    struct kl_names none;
    for (size_t i = 0; i < n; i++)
        specs[i] = (struct kl_plan_spec){(enum kl_dtype)args[i]->t.dtype, args[i]->t.ndim,
                                         (int *)args[i]->t.dims};
    EXPECT_OK(kl_plan_trace(&p, f, specs, n, true, false, &err));
    const struct kl_plan *read = kl_imported_plan(m, 0, &none);
    assert_int_equal(read->n_steps, p->n_steps);
    for (int i = 0; i < p->n_steps; i++) {
        const struct kl_plan_step *a = &p->steps[i], *b = &read->steps[i];
        if (a->op != b->op || a->params_bytes != b->params_bytes ||
            (a->params_bytes && memcmp(a->params, b->params, a->params_bytes) != 0))
            fail_msg("%s: parameters of %s in the file", name, kl_op_name(a->op));
    }
    kl_plan_release(p);
}

static void expect_same_from_file(const char *name, const struct kl_function *f,
                                  struct kl_array *const *args, size_t n) {
    struct kl_arrays want = {0}, got = {0};
    struct kl_imported *m;
    struct kl_error *why = NULL;
    if (write_function(f, args, n, false, &why)) fail_msg("%s: %s", name, why->message);
    if (kl_import(&m, path, &why)) fail_msg("%s: %s", name, why->message);
    if (kl_imported_call(m, args, n, (struct kl_names){0}, &got, &why))
        fail_msg("%s: %s", name, why->message);
    same_parameters(name, f, args, n, m);
    kl_imported_release(m);
    EXPECT_OK(kl_function_call(f, args, n, &want, &err));
    assert_int_equal(got.n, want.n);
    for (size_t i = 0; i < want.n; i++) same_bits(name, got.v[i], want.v[i]);
    kl_arrays_free(&want);
    kl_arrays_free(&got);
}

static void every_operation(void **state) {
    static const enum kl_dtype dtypes[] = {KL_F32, KL_C64, KL_BF16};
    int n = 0;
    for (int i = 0; i < N_CASES; i++) {
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
            struct subject s;
            struct kl_array *args[MOST_INPUTS];
            if (subject_of(&s, i, dtypes[d])) {
                struct kl_function f = {.call = call_case, .ctx = &s},
                                   g = {.call = call_gradient, .ctx = &s};
                arguments_of(&s, args);
                expect_same_from_file(s.c.name, &f, args, (size_t)s.n);
                if (dtypes[d] == KL_F32 && give_weights(&s))
                    expect_same_from_file(s.c.name, &g, args, (size_t)s.n);
                n++;
            }
            subject_free(&s);
        }
    }
    assert_in_range(n, 200, 100000);
}

/* An operation whose parameters are not those that a file has room for is refused. */
static void parameters_without_a_form(void **state) {
    assert_true(kl_params_have_form(KL_OP_ADD, 0));
    assert_false(kl_params_have_form(KL_OP_ADD, 4));
    assert_true(kl_params_have_form(KL_OP_ARGMAX, sizeof(struct kl_axis_params)));
    assert_false(kl_params_have_form(KL_OP_ARGMAX, sizeof(struct kl_axis_params) + 4));
    assert_true(kl_params_have_form(KL_OP_SUM, sizeof(struct kl_reduce_params) + 8));
    assert_false(kl_params_have_form(KL_OP_SUM, sizeof(struct kl_reduce_params) + 7));
    assert_false(kl_params_have_form(KL_OP_SUM, 0));
    assert_false(kl_params_have_form(KL_OP_KERNEL, sizeof(struct kl_kernel_params)));
    assert_false(kl_params_have_form(KL_OP_CALL, 0));
}

/* ---- one function with constants, for several kinds of arguments ---- */

static struct kl_array *weight, *bias;

/* softmax(x w + b), with an index that is checked */
static int layer(void *ctx, struct kl_array *const *in, size_t n_in, struct kl_arrays *outs,
                 struct kl_error **e) {
    struct kl_array *p = NULL, *q = NULL, *two = scalar_of(KL_F32, 2), *r = NULL;
    int rc = kl_arrays_new(outs, 2, e);
    if (!rc) rc = kl_matmul(&p, in[0], weight, cpu(), e);
    if (!rc) rc = kl_add(&q, p, bias, cpu(), e);
    if (!rc) rc = kl_multiply(&r, q, two, cpu(), e);
    if (!rc) rc = kl_softmax_axis(&outs->v[0], r, -1, true, cpu(), e);
    if (!rc) rc = kl_take_axis(&outs->v[1], weight, in[1], 0, cpu(), e);
    if (rc) kl_arrays_free(outs);
    kl_array_release(p);
    kl_array_release(q);
    kl_array_release(r);
    kl_array_release(two);
    return rc;
}

static struct kl_array *shaped(int rows, int columns) {
    struct kl_array *like = array_of(KL_F32, SHAPE(rows, columns), NULL),
                    *a = numbers_like(like, -1, 1);
    kl_array_release(like);
    return a;
}

static void several_kinds(void **state) {
    const struct kl_function f = {.call = layer};
    struct kl_array *index = I32(SHAPE(2), 2, 0), *bad = I32(SHAPE(2), 2, 3);
    for (int shapeless = 0; shapeless < 2; shapeless++) {
        struct kl_exporter *x;
        struct kl_imported *m;
        EXPECT_OK(kl_exporter_new(&x, path, shapeless, &err));
        for (int rows = 1; rows <= (shapeless ? 1 : 3); rows++) {
            struct kl_array *in[2] = {shaped(rows, 3), index};
            EXPECT_OK(kl_exporter_add(x, &f, in, 2, (struct kl_names){0}, &err));
            assert_int_equal(kl_exporter_add(x, &f, in, 2, (struct kl_names){0}, NULL), KL_EARG);
            kl_array_release(in[0]);
        }
        EXPECT_OK(kl_exporter_finish(x, &err));
        EXPECT_OK(kl_import(&m, path, &err));
        for (int rows = 1; rows <= 4; rows++) {
            struct kl_array *in[2] = {shaped(rows, 3), index};
            struct kl_arrays want = {0}, got = {0};
            int rc = kl_imported_call(m, in, 2, (struct kl_names){0}, &got, NULL);
            if (!shapeless && rows == 4) {
                assert_int_equal(rc, KL_EARG);
            } else {
                assert_int_equal(rc, KL_OK);
                EXPECT_OK(kl_function_call(&f, in, 2, &want, &err));
                for (int i = 0; i < 2; i++) same_bits("layer", got.v[i], want.v[i]);
                kl_arrays_free(&got);
                in[1] = bad; /* indices of an imported function are checked */
                EXPECT_OK(kl_imported_call(m, in, 2, (struct kl_names){0}, &got, &err));
                assert_int_equal(kl_eval(got.v, 1, NULL), KL_OK);
                assert_int_equal(kl_eval(got.v + 1, 1, NULL), KL_EINDEX);
            }
            kl_arrays_free(&want);
            kl_arrays_free(&got);
            kl_array_release(in[0]);
        }
        kl_imported_release(m);
    }
    kl_array_release(index);
    kl_array_release(bad);
}

/* ---- bad files ---- */

static unsigned char *contents(size_t *n) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    unsigned char *p = malloc(1 << 20);
    *n = fread(p, 1, 1 << 20, f);
    fclose(f);
    return p;
}

static void replace(const unsigned char *p, size_t n) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    fclose(f);
}

/* Reads the file and, if it can be read, calls what it holds and evaluates the results. */
static int use(void) {
    struct kl_imported *m;
    struct kl_error *why = NULL;
    struct kl_arrays got = {0};
    struct kl_array *in[2] = {shaped(2, 3), I32(SHAPE(2), 2, 0)};
    int rc = kl_import(&m, path, &why);
    if (!rc) {
        rc = kl_imported_call(m, in, 2, (struct kl_names){0}, &got, &why);
        for (size_t i = 0; i < got.n; i++) {
            struct kl_error *e = NULL;
            if (kl_eval(&got.v[i], 1, &e)) assert_non_null(e);
            kl_error_release(e);
        }
        kl_imported_release(m);
    }
    if (rc) assert_true(why && why->message[0]);
    kl_error_release(why);
    kl_arrays_free(&got);
    release_each(in, 2);
    return rc;
}

static void changed_files(void **state) {
    const struct kl_function f = {.call = layer};
    struct kl_array *in[2] = {shaped(2, 3), I32(SHAPE(2), 2, 0)};
    size_t n;
    EXPECT_OK(write_function(&f, in, 2, false, &err));
    unsigned char *good = contents(&n), *bad = malloc(n + 1);
    assert_int_equal(use(), KL_OK);
    for (size_t cut = 0; cut < n; cut++) { /* every length */
        replace(good, cut);
        assert_int_equal(use(), KL_EFORMAT);
    }
    memcpy(bad, good, n);
    bad[n] = 0;
    replace(bad, n + 1); /* trailing bytes */
    assert_int_equal(use(), KL_EFORMAT);
    for (int round = 0; round < 4000; round++) {
        memcpy(bad, good, n);
        for (int k = (int)number(1, 4); k > 0; k--) {
            size_t at = (size_t)number(0, (double)n);
            bad[at] = number(0, 2) < 1 ? (unsigned char)number(0, 256)
                                       : (unsigned char)(bad[at] ^ (1 << (int)number(0, 8)));
        }
        replace(bad, n);
        use();
    }
    free(good);
    free(bad);
    release_each(in, 2);
}

static void other_files(void **state) {
    static const char *const texts[] = {"", "KEEL", "0.32.2 something", "KEELFUNC\2\0\0\0"};
    static const size_t lengths[] = {0, 4, 16, 12};
    struct kl_imported *m;
    for (int i = 0; i < 4; i++) {
        replace((const unsigned char *)texts[i], lengths[i]);
        assert_int_equal(kl_import(&m, path, NULL), KL_EFORMAT);
    }
    assert_int_equal(kl_import(&m, "/nowhere/at/all", NULL), KL_EFILE);
    assert_int_equal(kl_import(&m, NULL, NULL), KL_EARG);
}

/* A failure leaves the older file as it was. */
static void the_older_file_stays(void **state) {
    const struct kl_function f = {.call = layer};
    struct kl_array *in[2] = {shaped(2, 3), I32(SHAPE(2), 2, 0)}, *good = weight, *index;
    size_t n, m;
    EXPECT_OK(write_function(&f, in, 2, false, &err));
    unsigned char *before = contents(&n);
    index = I32(SHAPE(3), 0, 7, 1);
    EXPECT_OK(kl_take_axis(&weight, good, index, 0, cpu(), &err)); /* a constant that fails */
    assert_int_equal(write_function(&f, in, 2, false, NULL), KL_EINDEX);
    kl_array_release(weight);
    weight = good;
    unsigned char *after = contents(&m);
    assert_int_equal(n, m);
    assert_memory_equal(before, after, n);
    free(before);
    free(after);
    kl_array_release(index);
    release_each(in, 2);
}

static int begin(void **state) {
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    weight = shaped(3, 4);
    struct kl_array *row = shaped(1, 4);
    EXPECT_OK(kl_reshape(&bias, row, LIST(4), cpu(), &err));
    kl_array_release(row);
    return 0;
}

static int end(void **state) {
    kl_array_release(weight);
    kl_array_release(bias);
    return unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation),
        cmocka_unit_test(several_kinds),
        cmocka_unit_test(parameters_without_a_form),
        cmocka_unit_test(changed_files),
        cmocka_unit_test(other_files),
        cmocka_unit_test(the_older_file_stays),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
