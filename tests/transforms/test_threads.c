/* test_threads.c - several threads replay one plan at once, each with arguments of its own, of
 * which some fail, while others trace, erase and import. For the thread sanitizer. */
#include <pthread.h>

#include "transforms/compile.h"
#include "transforms/export.h"
#include "transforms/subject.h"

enum { THREADS = 4, ROUNDS = 60 };

static struct kl_array *table; /* a constant that is computed by the first replay that needs it */

/* out 0: table[i] + x; out 1: x * x */
static int look_up(void *ctx, struct kl_array *const *in, size_t n_in, struct kl_arrays *outs,
                   struct kl_error **e) {
    struct kl_array *found = NULL;
    int rc = kl_arrays_new(outs, 2, e);
    if (!rc) rc = kl_take_axis(&found, table, in[1], 0, cpu(), e);
    if (!rc) rc = kl_add(&outs->v[0], found, in[0], cpu(), e);
    if (!rc) rc = kl_square(&outs->v[1], in[0], cpu(), e);
    kl_array_release(found);
    if (rc) kl_arrays_free(outs);
    return rc;
}

static const char *file;

struct job {
    const struct kl_function *c; /* NULL: what the file holds */
    int number;
    bool meddles; /* erases what was traced */
};

static void *work(void *arg) {
    const struct job *j = arg;
    struct kl_imported *m = NULL;
    if (!j->c) EXPECT_OK(kl_import(&m, file, &err));
    for (int round = 0; round < ROUNDS; round++) {
        const int index = (round + j->number) % 5; /* 4: out of range */
        const float x = (float)(round * THREADS + j->number);
        struct kl_array *in[2] = {F32(SHAPE(2), x, -x), I32(SHAPE(2), 0, index)};
        struct kl_arrays outs = {0};
        struct kl_error *e = NULL;
        if (m)
            EXPECT_OK(kl_imported_call(m, in, 2, (struct kl_names){0}, &outs, &err));
        else
            EXPECT_OK(kl_function_call(j->c, in, 2, &outs, &err));
        assert_int_equal(kl_eval(outs.v, 2, &e), index == 4 ? KL_EINDEX : KL_OK);
        if (index == 4)
            assert_int_equal(e->index, 4);
        else
            EXPECT_F32(kl_array_retain(outs.v[0]), SHAPE(2), 10 + x, (float)(10 + index) - x);
        EXPECT_F32(kl_array_retain(outs.v[1]), SHAPE(2), x * x, x * x);
        kl_error_release(e);
        kl_arrays_free(&outs);
        release_each(in, 2);
        if (j->meddles && round % 20 == 3) kl_compile_erase(5);
        if (j->meddles && round % 20 == 13) kl_compile_clear();
    }
    kl_imported_release(m);
    return NULL;
}

static void together(const struct kl_function *c, bool meddles) {
    pthread_t t[THREADS];
    struct job jobs[THREADS];
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (struct job){c, i, meddles && i == 0};
        assert_int_equal(pthread_create(&t[i], NULL, work, &jobs[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
}

/* The default stream of all of them is that of this thread, so there is one plan. */
static void *take_stream(void *c) {
    EXPECT_OK(kl_stream_set_default(cpu(), &err));
    struct job j = {c, 1, false};
    return work(&j);
}

static void one_plan(void **state) {
    struct kl_function f = {.call = look_up}, c;
    pthread_t t[THREADS];
    EXPECT_OK(kl_compile(&c, &f, 0, false, NULL, 0, &err));
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, take_stream, &c), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    kl_function_release(&c);
}

static void while_others_erase(void **state) {
    for (int shapeless = 0; shapeless < 2; shapeless++) {
        struct kl_function f = {.call = look_up}, c;
        EXPECT_OK(kl_compile(&c, &f, 5, shapeless, NULL, 0, &err));
        together(&c, true);
        kl_function_release(&c);
        kl_compile_erase(5);
    }
}

static void imported(void **state) {
    struct kl_function f = {.call = look_up};
    struct kl_array *in[2] = {F32(SHAPE(2), 0, 0), I32(SHAPE(2), 0, 0)};
    struct kl_exporter *x;
    file = kl_test_path("function");
    EXPECT_OK(kl_exporter_new(&x, file, false, &err));
    EXPECT_OK(kl_exporter_add(x, &f, in, 2, (struct kl_names){0}, &err));
    EXPECT_OK(kl_exporter_finish(x, &err));
    together(NULL, false);
    release_each(in, 2);
}

static int begin(void **state) {
    struct kl_array *up = F32(SHAPE(4), 0, 1, 2, 3), *ten = scalar_of(KL_F32, 10);
    EXPECT_OK(kl_add(&table, up, ten, cpu(), &err));
    kl_array_release(up);
    kl_array_release(ten);
    return 0;
}

static int end(void **state) {
    kl_array_release(table);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_plan),
        cmocka_unit_test(while_others_erase),
        cmocka_unit_test(imported),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
