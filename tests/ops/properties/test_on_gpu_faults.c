/* test_on_gpu_faults.c - thousands of faults on a real device (KEEL_TEST_GPU: opencl unless set;
 * cuda): each operation reports its own fault, the device stays usable, nothing leaks, and no
 * kernel of a user ever runs on the result of a failed operation. With KEEL_TEST_FULL there are ten
 * or twenty times as many. */
#include "graph/graph_support.h"
#include "backend/gpu/gpu_internal.h"
#include "backend/gpu/lower/kernel_cache.h"
#include "ops/kernel.h"
#include "ops/ops.h"
#include "ops/support/ok.h"
#include "runtime/block_pool.h"

enum {
    ROWS = 20,
    COLUMNS = 8,
    MOST_INDICES = 64,
    MOST_TOGETHER = 32, /* this number fits into a command buffer, with all that it needs */
    MANY = 10000
};

static struct kl_stream *stream, *other;
static uint64_t rng = 4711;

static unsigned draw(unsigned below) {
    kl_test_random(&rng);
    return (unsigned)((rng >> 33) % below);
}

static int set_up(void **state) {
    const char *want = getenv("KEEL_TEST_GPU");
    setenv("KEEL_GPU", want ? want : "opencl", 1);
    struct kl_error *e = NULL;
    if (kl_stream_new(&stream, KL_GPU, 0, &e)) {
        print_error("%s\n", e ? e->message : "no device");
        return -1;
    }
    return kl_stream_new(&other, KL_GPU, 0, NULL);
}

static int tear_down(void **state) {
    kl_stream_release(stream);
    kl_stream_release(other);
    return 0;
}

static int times(int ordinary, int full) {
    return getenv("KEEL_TEST_FULL") ? full : ordinary;
}

static struct kl_array *ints(const int *v, int n) {
    struct kl_array *a;
    OK(kl_array_new_data(&a, v, KL_I32, 1, &n, &err));
    return a;
}

/* An array of this shape on the device with the numbers 0, 1, 2, ... */
static struct kl_array *count_up(int rows, int columns) {
    struct kl_array *flat, *a;
    const int dims[] = {rows, columns};
    OK(kl_arange(&flat, 0, rows * columns, 1, KL_I32, stream, &err));
    OK(kl_reshape(&a, flat, dims, 2, stream, &err));
    OK(kl_eval(&a, 1, &err));
    kl_array_release(flat);
    return a;
}

/* ---- ten thousand in a row ---- */

struct faulted {
    struct kl_array *array; /* the array that fails */
    int position, index, axis, axis_size;
};
enum { TAKE_ROWS, TAKE_COLUMNS, TAKE_ALONG, GATHER_2, ADD, ASSIGN, LARGEST, PUT_ALONG, N_KINDS };

static struct kl_array *wrong_indices(struct faulted *f, int n, int axis, int axis_size,
                                      bool two_d) {
    int v[MOST_INDICES * ROWS], bad = (int)draw((unsigned)n);
    const int shape[] = {ROWS, n / ROWS};
    for (int i = 0; i < n; i++) v[i] = (int)draw((unsigned)(2 * axis_size)) - axis_size;
    for (int i = bad + 1; i < n; i++)
        /* A second wrong index behind the first one, which must not be reported. */
        if (draw(20) == 0) v[i] = 1000;
    v[bad] = draw(2) ? axis_size + (int)draw(1000) : -axis_size - 1 - (int)draw(1000);
    *f = (struct faulted){NULL, bad, v[bad], axis, axis_size};
    if (!two_d) return ints(v, n);
    struct kl_array *a;
    OK(kl_array_new_data(&a, v, KL_I32, 2, shape, &err));
    return a;
}

static struct kl_array *good_indices(int n) {
    int v[MOST_INDICES];
    for (int i = 0; i < n; i++) v[i] = (int)draw(COLUMNS);
    return ints(v, n);
}

static void fault(struct faulted *f, int kind, struct kl_array *x) {
    bool columns = kind == TAKE_COLUMNS || kind == GATHER_2;
    bool along = kind == TAKE_ALONG || kind == PUT_ALONG;
    int n = along ? ROWS * (1 + (int)draw(3)) : 1 + (int)draw(MOST_INDICES), sizes[] = {1, 1};
    const int axes[] = {0, 1}, updates[] = {n, 1, COLUMNS}, values[] = {ROWS, n / ROWS};
    struct kl_array *i = wrong_indices(f, n, columns || along, columns || along ? COLUMNS : ROWS,
                                       along),
                    *u = NULL;
    static kl_scatter_single_fn *const scatters[] = {kl_scatter_add_single, kl_scatter_single,
                                                     kl_scatter_max_single};
    switch (kind) {
    case TAKE_ROWS:
    case TAKE_COLUMNS: OK(kl_take_axis(&f->array, x, i, columns, stream, &err)); break;
    case TAKE_ALONG: OK(kl_take_along_axis(&f->array, x, i, 1, stream, &err)); break;
    case GATHER_2: {
        struct kl_array *two[] = {u = good_indices(n), i};
        OK(kl_gather(&f->array, x, two, 2, axes, 2, sizes, 2, stream, &err));
        break;
    }
    case PUT_ALONG:
        OK(kl_zeros(&u, values, 2, KL_I32, stream, &err));
        OK(kl_put_along_axis(&f->array, x, i, u, 1, stream, &err));
        break;
    default:
        OK(kl_zeros(&u, updates, 3, KL_I32, stream, &err));
        OK(scatters[kind - ADD](&f->array, x, i, u, 0, stream, &err));
    }
    kl_array_release(i);
    kl_array_release(u);
}

static void check_fault(const struct faulted *f, const char *what, int number) {
    struct kl_error *e = t_error(f->array);
    if (e->code != KL_EINDEX || e->position != f->position || e->index != f->index ||
        e->axis != f->axis || e->axis_size != f->axis_size)
        fail_msg("%s %d: %d at %lld, axis %d: not %d at %d, axis %d: %s", what, number,
                 (int)e->index, (long long)e->position, (int)e->axis, f->index, f->position,
                 f->axis, e->message);
    kl_error_release(e);
}

/* Evaluates n operations that fail, together in one command buffer when n > 1, and one that does
 * not fail. */
static void round_of(int n, int first_kind, struct kl_array *x) {
    static struct faulted f[MOST_TOGETHER];
    struct kl_array *all[MOST_TOGETHER + 2];
    for (int k = 0; k < n; k++) {
        fault(&f[k], (first_kind + k) % N_KINDS, x);
        all[k] = f[k].array;
    }
    OK(kl_negative(&all[n], x, stream, &err));
    OK(kl_negative(&all[n + 1], all[n - 1], stream, &err)); /* depends on an operation that fails */
    OK(kl_async_eval(all, (size_t)n + (n > 1 ? 2 : 0), &err));
    for (int k = 0; k < n; k++) check_fault(&f[k], "operation", k);
    void *v;
    OK(kl_array_host(all[n], &v, &err));
    for (int i = 0; i < ROWS * COLUMNS; i++) assert_int_equal(((const int *)v)[i], -i);
    struct faulted behind = f[n - 1];
    behind.array = all[n + 1];
    check_fault(&behind, "consumer", n);
    for (int k = 0; k < n + 2; k++) kl_array_release(all[k]);
    kl_until_quiet(); /* each round reuses the fault words of the round before */
}

/* Compiled kernels are never freed. */
static uint64_t n_programs(void) {
    return kl_kernel_cache_compiled() + kl_kernel_cache_found();
}

/* Some drivers keep events for reuse. How many are in use at once depends on timing, so this makes
 * many of them beforehand. */
static void make_events(void) {
    struct kl_driver *d = kl_gpu_device_of(kl_stream_backend(stream))->driver;
    void *events[32];
    for (int i = 0; i < 32; i++) OK(d->ops->event_new(d, &events[i], &err));
    for (int i = 0; i < 32; i++) d->ops->event_free(d, events[i]);
}

static void many_faults(void **state) {
    static const int sizes[] = {1, 1, 8, 1, MOST_TOGETHER};
    struct kl_array *x = count_up(ROWS, COLUMNS);
    uint64_t programs = 0;
    int64_t live = 0;
    size_t active = 0;
    make_events();
    for (int pass = 0; pass < 2;
         pass++) { /* the first pass fills the caches; the second must find everything there */
        rng = 4711;
        for (int round = 0, n = 0; n < MANY; n += sizes[round++ % 5])
            round_of(sizes[round % 5], round, x);
        kl_memory_clear_cache();
        if (pass) assert_int_equal(n_programs(), programs);
        if (pass) assert_int_equal(kl_test_n_live(), live);
        if (pass) assert_int_equal(kl_memory_active(), active);
        programs = n_programs();
        live = kl_test_n_live();
        active = kl_memory_active();
    }
    kl_array_release(x);
}

/* ---- a kernel of a user behind a faulted gather of another stream ---- */

/* A kernel that counts its work-items in an input. So every run shows, even when the output is
 * discarded. */
static struct kl_kernel *follower(void) {
    static const char *const in[] = {"index", "data", "runs"}, *const out[] = {"y"};
    struct kl_kernel *k = NULL;
    const struct kl_kernel_def def = {.name = "follower",
                                      .source = "i64 i = gid();\n"
                                                "if (i >= y_size) return;\n"
                                                "atomic_add_i32((GLOBAL i32 *)runs, 1);\n"
                                                "y[i] = data[index[i]];\n",
                                      .in_names = in,
                                      .n_in = 3,
                                      .out_names = out,
                                      .n_out = 1};
    OK(kl_kernel_new(&k, &def, &err));
    return k;
}

enum { FOLLOWED = 200, PICKED = 33 };

/* Computes data[rows[pick]]: the gather of rows on one stream, the user's kernel on the other. */
static struct kl_array *follow(const struct kl_kernel *k, const int *pick, struct kl_array *rows,
                               struct kl_array *data, struct kl_array *runs, bool swapped,
                               struct kl_array **gathered) {
    const int dims[] = {PICKED};
    const struct kl_out_spec spec = {KL_I32, 1, dims};
    const struct kl_kernel_use use = {
        .outs = &spec, .n_outs = 1, .grid = {PICKED, 1, 1}, .group = {16, 1, 1}};
    struct kl_array *i = ints(pick, PICKED), *y = NULL;
    OK(kl_take(gathered, rows, i, swapped ? other : stream, &err));
    struct kl_array *in[] = {*gathered, data, runs};
    OK(kl_kernel_apply(&y, k, &use, in, 3, swapped ? stream : other, &err));
    kl_array_release(i);
    return y;
}

static void kernels_behind_faults(void **state) {
    struct kl_kernel *k = follower();
    struct kl_array *rows, *data, *runs, *gathered, *y;
    const int one = 1;
    int n_good = 0, v[FOLLOWED];
    for (int i = 0; i < FOLLOWED; i++) v[i] = (i * 7 + 3) % FOLLOWED;
    rows = ints(v, FOLLOWED);
    OK(kl_arange(&data, 1000, 1000 + FOLLOWED, 1, KL_I32, stream, &err));
    OK(kl_zeros(&runs, &one, 1, KL_I32, stream, &err));
    OK(kl_eval((struct kl_array *[]){data, runs}, 2, &err));
    for (int round = 0; round < times(50, 1000); round++) {
        int pick[PICKED], bad = (int)draw(PICKED);
        for (int good = 0; good < 2; good++) {
            for (int i = 0; i < PICKED; i++) pick[i] = (int)draw(FOLLOWED);
            if (!good) pick[bad] = FOLLOWED + (int)draw(1u << 30);
            y = follow(k, pick, rows, data, runs, round % 2, &gathered);
            void *p;
            if (good) {
                n_good++;
                OK(kl_array_host(y, &p, &err));
                for (int i = 0; i < PICKED; i++)
                    assert_int_equal(((const int *)p)[i], 1000 + v[pick[i]]);
            } else {
                const struct faulted f = {y, bad, pick[bad], 0, FOLLOWED};
                check_fault(&f, "kernel behind gather", round);
                /* It is the same error object. */
                assert_ptr_equal(kl_fate_error(y->t.fate), kl_fate_error(gathered->t.fate));
            }
            kl_array_release(y);
            kl_array_release(gathered);
        }
    }
    assert_int_equal(t_value(runs), n_good * PICKED);
    kl_array_release(rows);
    kl_array_release(data);
    kl_array_release(runs);
    kl_kernel_free(k);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_faults),
        cmocka_unit_test(kernels_behind_faults),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
