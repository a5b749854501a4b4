/* test_linalg_parts.c - the kernels that run before and after a library's factorisation, on a
 * device against loops on the host. */
#include "lower_support.h"

#include "backend/gpu/lower/linalg.h"

enum { MOST = 40 * 40 };

static struct kl_error *err;

static struct kl_emit emit(void) {
    return (struct kl_emit){
        .lowering = kh.lowering, .driver = kh.driver, .queue = kh.queue, .err = &err};
}

/* Launches and waits. */
#define RUN(call)                      \
    do {                               \
        kh_begin();                    \
        assert_int_equal(call, KL_OK); \
        kh_end();                      \
    } while (0)

/* A device without float64 is never asked for it here: no library that calls these runs there. */
static bool lacks(enum kl_dtype t) {
    return t == KL_F64 && !kh.driver->has_f64;
}

static void *sent(const void *from, size_t bytes) {
    void *p = kh_new(bytes);
    kh_write(p, from, bytes);
    return p;
}

static double value(enum kl_dtype t, const void *p, int i) {
    return t == KL_F64 ? ((const double *)p)[i] : ((const float *)p)[i];
}
static void put(enum kl_dtype t, void *p, int i, double x) {
    if (t == KL_F64)
        ((double *)p)[i] = x;
    else
        ((float *)p)[i] = (float)x;
}

/* Every element in turn is not finite; complex ones in either part. */
static void looks(void **state) {
    static const enum kl_dtype types[] = {KL_F32, KL_F64, KL_C64};
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    struct kl_emit e = emit();
    for (int t = 0; t < 3; t++)
        for (int which = KL_WHOLE; which <= KL_UPPER; which++)
            for (int at = -1; at < 5 * 5 * (t == 2 ? 2 : 1); at++) {
                if (lacks(types[t])) continue;
                double v[64];
                uint32_t flags[3];
                const int parts = t == 2 ? 2 : 1, n = 5, count = n * n * parts;
                const size_t bytes = (size_t)count * kl_dtype_size(types[t]) / (size_t)parts;
                for (int i = 0; i < count; i++) put(types[t], v, i, i == at ? bad[i % 3] : i + 1);
                const int row = at / parts / n, col = at / parts % n;
                const bool counts = at >= 0 && (which == KL_WHOLE || row == col ||
                                                (which == KL_LOWER) == (col < row));
                void *a = sent(v, bytes), *f = kh_new(sizeof flags);
                kh_write((char *)f + sizeof *flags, (uint32_t[]){0}, sizeof *flags);
                RUN(kl_matrix_look(&e, types[t], a, n, n, (enum kl_triangle)which, f, 1));
                kh_read(v, a, bytes);
                kh_read(flags, f, sizeof flags);
                assert_int_equal(flags[1], counts);
                assert_int_equal(flags[0], 0xA5A5A5A5);
                assert_int_equal(flags[2], 0xA5A5A5A5);
                for (int i = 0; i < count; i++)
                    if (i != at) assert_true(value(types[t], v, i) == (counts ? 0 : i + 1));
                kh_free(a, bytes);
                kh_free(f, sizeof flags);
            }
}

static const double numbers[] = {1, 0, -1, NAN, -0.0};

static void diagonals(void **state) {
    struct kl_emit e = emit();
    for (int d = 0; d < 2; d++)
        for (int c = 0; c < 5; c++)
            for (int fresh = 0; fresh < 2; fresh++) {
                const enum kl_dtype t = d ? KL_F64 : KL_F32;
                if (lacks(t)) continue;
                const int n = 30;
                static double v[MOST];
                uint32_t infos[] = {7, 7, 7};
                for (int i = 0; i < n * n; i++) put(t, v, i, i % (n + 1) ? 0 : 3);
                put(t, v, 17 * (n + 1), numbers[c]);
                void *a = sent(v, sizeof v), *f = sent(infos, sizeof infos);
                RUN(kl_matrix_diagonal(&e, t, a, n, fresh, f, 2));
                kh_read(infos, f, sizeof infos);
                assert_int_equal(infos[2], numbers[c] == 0 ? 1 : fresh ? 0 : 7);
                assert_int_equal(infos[0], 7);
                assert_int_equal(infos[1], 7);
                kh_free(a, sizeof v);
                kh_free(f, sizeof infos);
            }
}

static void triangles(void **state) {
    struct kl_emit e = emit();
    for (int d = 0; d < 2; d++)
        for (int upper = 0; upper < 2; upper++)
            for (int wide = 0; wide < 2; wide++) {
                const enum kl_dtype t = d ? KL_F64 : KL_F32;
                if (lacks(t)) continue;
                const int m = wide ? 7 : 40, n = wide ? 40 : 7;
                static double v[MOST];
                for (int i = 0; i < m * n; i++) put(t, v, i, i + 1);
                void *a = sent(v, sizeof v);
                RUN(kl_matrix_triangle(&e, t, a, m, n, upper ? KL_UPPER : KL_LOWER, NULL, 0));
                kh_read(v, a, sizeof v);
                for (int i = 0; i < m * n; i++) {
                    const bool in = upper ? i % n >= i / n : i % n <= i / n;
                    assert_true(value(t, v, i) == (in ? i + 1 : 0));
                }
                kh_free(a, sizeof v);
            }
}

/* What Cholesky's diagonal must be; an info that the library gave stays. */
static void positive_diagonals(void **state) {
    struct kl_emit e = emit();
    for (int turn = 0; turn < 20; turn++) {
        const enum kl_dtype t = turn % 2 ? KL_F64 : KL_F32;
        if (lacks(t)) continue;
        const int n = 30;
        const double x = numbers[turn / 4];
        const uint32_t before = turn / 2 % 2 ? 9 : 0;
        static double v[MOST];
        uint32_t infos[] = {7, before, 7};
        for (int i = 0; i < n * n; i++) put(t, v, i, i % (n + 1) ? -1 : 3);
        put(t, v, 17 * (n + 1), x);
        void *a = sent(v, sizeof v), *f = sent(infos, sizeof infos);
        RUN(kl_matrix_triangle(&e, t, a, n, n, KL_LOWER, f, 1));
        kh_read(infos, f, sizeof infos);
        assert_int_equal(infos[1], before ? before : !(x > 0));
        assert_int_equal(infos[0], 7);
        assert_int_equal(infos[2], 7);
        kh_free(a, sizeof v);
        kh_free(f, sizeof infos);
    }
}

/* Exchanges of rows, some of which leave the matrix. */
static void places(void **state) {
    struct kl_emit e = emit();
    static const int shapes[][2] = {{1, 1}, {5, 5}, {300, 40}, {600, 600}};
    for (int s = 0; s < 8; s++) {
        const enum kl_dtype t = s % 2 ? KL_F64 : KL_F32;
        if (lacks(t)) continue;
        const int m = shapes[s / 2][0], k = shapes[s / 2][1];
        static int64_t exchanges[600];
        static double out[1200];
        int row[600];
        for (int i = 0; i < m; i++) row[i] = i;
        for (int i = 0; i < k; i++) {
            int with = i + (int)(ls_draw() % (uint64_t)(m - i));
            exchanges[i] = with + 1;
            if (i % 11 == 3) exchanges[i] = i % 2 ? 0 : m + 5, with = i;
            const int was = row[i];
            row[i] = row[with];
            row[with] = was;
        }
        void *from = sent(exchanges, sizeof exchanges), *to = kh_new(sizeof out);
        RUN(kl_matrix_places(&e, t, from, to, m, k));
        kh_read(out, to, sizeof out);
        for (int i = 0; i < k; i++) {
            const int with = (int)exchanges[i] - 1;
            assert_true(value(t, out, i) == (with < i || with >= m ? i : with));
        }
        for (int i = 0; i < m; i++) assert_true(value(t, out, k + row[i]) == i);
        kh_free(from, sizeof exchanges);
        kh_free(to, sizeof out);
    }
}

/* Rows of a matrix stored either way, and of the identity matrix, each in its place. */
static void permutations(void **state) {
    enum { ROWS = 37, COLUMNS = 5 };
    struct kl_emit e = emit();
    for (int turn = 0; turn < 6; turn++) {
        const enum kl_dtype t = turn % 2 ? KL_F64 : KL_F32;
        if (lacks(t)) continue;
        const bool identity = turn / 2 == 2, by_columns = turn / 2 == 1;
        const int columns = identity ? ROWS : COLUMNS;
        const int64_t strides[] = {by_columns ? 1 : columns, by_columns ? ROWS : 1};
        double place[ROWS], b[ROWS * COLUMNS], out[ROWS * ROWS];
        for (int i = 0; i < ROWS; i++) put(t, place, i, (i * 11 + 3) % ROWS);
        for (int i = 0; i < ROWS * COLUMNS; i++) put(t, b, i, i + 1);
        void *places = sent(place, sizeof place), *from = sent(b, sizeof b),
             *to = kh_new(sizeof out);
        RUN(kl_matrix_permute(&e, t, places, identity ? NULL : from, strides, ROWS, columns, to));
        kh_read(out, to, sizeof out);
        for (int r = 0; r < ROWS; r++)
            for (int c = 0; c < columns; c++)
                assert_true(
                    value(t, out, (r * 11 + 3) % ROWS + c * ROWS) ==
                    (identity ? r == c : value(t, b, (int)(r * strides[0] + c * strides[1]))));
        kh_free(places, sizeof place);
        kh_free(from, sizeof b);
        kh_free(to, sizeof out);
    }
}

static void complex_numbers(void **state) {
    enum { N = 13 };
    struct kl_emit e = emit();
    float in[N * N * 2], out[N * N * 2];
    for (int i = 0; i < N * N * 2; i++) in[i] = (float)(i + 1);
    void *a = sent(in, sizeof in), *b = kh_new(sizeof out);
    RUN(kl_matrix_adjoint(&e, a, b, N));
    kh_read(out, b, sizeof out);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            assert_true(out[2 * (i * N + j)] == in[2 * (j * N + i)]);
            assert_true(out[2 * (i * N + j) + 1] == -in[2 * (j * N + i) + 1]);
        }
    RUN(kl_matrix_widen(&e, a, b, N));
    kh_read(out, b, sizeof out);
    for (int i = 0; i < N; i++) assert_true(out[2 * i] == in[i] && out[2 * i + 1] == 0);
    kh_free(a, sizeof in);
    kh_free(b, sizeof out);
}

/* Factors of any numbers, by rows and by columns; a singular value that is too small does not
 * count. */
static void pseudoinverses(void **state) {
    struct kl_emit e = emit();
    for (int c = 0; c < 8; c++) {
        const enum kl_dtype t = c % 2 ? KL_F64 : KL_F32;
        if (lacks(t)) continue;
        const int m = c & 2 ? 6 : 4, n = c & 2 ? 3 : 5, k = m < n ? m : n;
        const bool by_columns = c & 4;
        double u[36], s[6], vt[36], out[36];
        for (int i = 0; i < 36; i++) put(t, u, i, ls_unit()), put(t, vt, i, ls_unit());
        for (int i = 0; i < k; i++) put(t, s, i, i == k - 1 ? 1e-18 : 2.0 * (k - i));
        void *du = sent(u, sizeof u), *ds = sent(s, sizeof s), *dvt = sent(vt, sizeof vt),
             *to = kh_new(sizeof out);
        RUN(kl_matrix_pseudoinverse(&e, t, du, ds, dvt, to, m, n, by_columns));
        kh_read(out, to, sizeof out);
        for (int i = 0; i < n; i++)
            for (int h = 0; h < m; h++) {
                double sum = 0;
                for (int q = 0; q < k - 1; q++)
                    sum += value(t, vt, by_columns ? q + i * n : q * n + i) *
                           value(t, u, by_columns ? h + q * m : h * m + q) / value(t, s, q);
                assert_true(fabs(value(t, out, i * m + h) - sum) <= (c % 2 ? 1e-14 : 1e-5));
            }
        void *all[] = {du, dvt, to};
        for (int i = 0; i < 3; i++) kh_free(all[i], sizeof u);
        kh_free(ds, sizeof s);
    }
}

/* Infos and flags of the matrices from 2 on; the smallest position is left, and what failed is
 * 0. */
static void judges(void **state) {
    struct kl_emit e = emit();
    for (int c = 0; c < 4; c++) {
        const enum kl_dtype t = c % 2 ? KL_F64 : KL_F32;
        if (lacks(t)) continue;
        const size_t item = kl_dtype_size(t);
        uint32_t infos[] = {0, 0, c & 2 ? 5 : 0, 0}, flags[] = {0, c & 2 ? 0 : 1, 0, 1};
        uint32_t clear[KL_WORDS + 2], got[KL_WORDS + 2];
        double v[6 * 9];
        const int in_dims[] = {6, 3, 3};
        const int64_t strides[] = {9, 3, 1};
        memset(clear, 0xff, sizeof clear);
        for (int i = 0; i < 54; i++) put(t, v, i, 1);
        void *out = sent(v, 54 * item), *i = sent(infos, sizeof infos),
             *f = sent(flags, sizeof flags);
        struct kl_fault_words words = {.device = sent(clear, sizeof clear)};
        struct kl_arg args[] = {
            {.dtype = (uint8_t)t, .ndim = 3, .size = 54, .dims = in_dims, .strides = strides},
            {.dtype = (uint8_t)t, .ndim = 3, .size = 54, .dims = in_dims, .strides = strides}};
        args[1].data = out;
        const struct kl_command command = {.kind = KL_CMD_LAUNCH,
                                           .op = KL_OP_PINV,
                                           .n_in = 1,
                                           .n_out = 1,
                                           .args = args,
                                           .checked = true,
                                           .pos_begin = 4,
                                           .pos_end = 12,
                                           .word = {&words, 3}};
        RUN(kl_matrix_judge(&e, &command, i, f));
        kh_read(v, out, 54 * item);
        kh_read(got, words.device, sizeof got);
        const int first = c & 2 ? 4 : 3;
        for (int k = 0; k < 54; k++) {
            const int matrix = k / 9;
            assert_true(value(t, v, k) == (matrix == first || matrix == 5 ? 0 : 1));
        }
        assert_int_equal(got[3], KL_MATRIX_POSITIONS * first - 4 +
                                     (c & 2 ? KL_MATRIX_BAD : KL_MATRIX_HAS_NAN));
        assert_int_equal(got[0], 3);
        kh_free(out, 54 * item);
        kh_free(i, sizeof infos);
        kh_free(f, sizeof flags);
        kh_free(words.device, sizeof clear);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(looks),           cmocka_unit_test(diagonals),
        cmocka_unit_test(triangles),       cmocka_unit_test(positive_diagonals),
        cmocka_unit_test(places),          cmocka_unit_test(permutations),
        cmocka_unit_test(complex_numbers), cmocka_unit_test(pseudoinverses),
        cmocka_unit_test(judges),
    };
    return cmocka_run_group_tests(tests, kh_setup, NULL);
}
