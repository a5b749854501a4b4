/* test_matmul.c - MATMUL gives the same bits for any order of tasks and any layout, for the shapes
 * of each method, and its results are near the exact product. */
#include "backend/cpu/kernel_support.h"

#include "backend/cpu/operand/tile.h"
#include "backend/cpu/product/tiles_amx.h"
#include "backend/cpu/product/tiles_neon_bf16.h"
#include "base/alloc.h"
#include "base/number/half.h"

/* Fills with multiples of 1/16 between -2 and 2, which every dtype holds exactly. */
static void fill(void *to, enum kl_dtype dtype, int64_t n, uint32_t seed) {
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        float x = (float)((int)(seed >> 26) - 32) / 16;
        uint16_t half = dtype == KL_F16 ? kl_f32_to_f16(x) : kl_f32_to_bf16(x);
        if (dtype == KL_F32) memcpy((float *)to + i, &x, 4);
        if (dtype == KL_F64) memcpy((double *)to + i, &(double){x}, 8);
        if (dtype == KL_F16 || dtype == KL_BF16) memcpy((uint16_t *)to + i, &half, 2);
        if (dtype == KL_C64) memcpy((float *)to + 2 * i, (float[]){x, -x / 2}, 8);
    }
}

static double real_at(const void *v, enum kl_dtype dtype, int64_t i) {
    switch (dtype) {
    case KL_F32: return ((const float *)v)[i];
    case KL_F64: return ((const double *)v)[i];
    case KL_F16: return kl_f16_to_f32(((const uint16_t *)v)[i]);
    case KL_BF16: return kl_bf16_to_f32(((const uint16_t *)v)[i]);
    default: return ((const float *)v)[2 * i];
    }
}

/* Multiplies m x k by k x n, with each operand in every layout: row-major, column-major, with gaps
 * between elements, and with gaps between rows. */
static void product(enum kl_dtype dtype, int m, int k, int n, bool want_shared) {
    if (!kl_test_takes("cpu", 5)) return;
    int item = (int)kl_dtype_size(dtype);
    char *a = malloc((size_t)m * k * item), *b = malloc((size_t)k * n * item);
    char *first = malloc((size_t)m * n * item), *c = malloc((size_t)m * n * item);
    enum { WAYS = 4 };
    char *a_layouts[WAYS], *b_layouts[WAYS];
    int64_t a_strides[WAYS][2] = {{k, 1}, {1, m}, {2 * k, 2}, {k + 1, 1}};
    int64_t b_strides[WAYS][2] = {{n, 1}, {1, k}, {2 * n, 2}, {n + 3, 1}};
    fill(a, dtype, (int64_t)m * k, 1);
    fill(b, dtype, (int64_t)k * n, 2);
    for (int w = 0; w < WAYS; w++) {
        a_layouts[w] = calloc((size_t)m * (k + 1) * 2, (size_t)item);
        size_t b_bytes = ((size_t)k * (n + 3) * 2 * item + 63) / 64 * 64;
        /* Aligned as the memory of arrays is. */
        b_layouts[w] = memset(aligned_alloc(64, b_bytes), 0, b_bytes);
        for (int64_t i = 0; i < m; i++)
            for (int64_t e = 0; e < k; e++)
                memcpy(a_layouts[w] + (i * a_strides[w][0] + e * a_strides[w][1]) * item,
                       a + (i * k + e) * item, (size_t)item);
        for (int64_t e = 0; e < k; e++)
            for (int64_t j = 0; j < n; j++)
                memcpy(b_layouts[w] + (e * b_strides[w][0] + j * b_strides[w][1]) * item,
                       b + (e * n + j) * item, (size_t)item);
    }
    n_shared = 0;
    for (int way = 0; way < WAYS * WAYS; way++) {
        struct operand x, y, z;
        strided_operand(&x, a_layouts[way % WAYS], dtype, DIMS(m, k), a_strides[way % WAYS]);
        strided_operand(&y, b_layouts[way / WAYS], dtype, DIMS(k, n), b_strides[way / WAYS]);
        memset(way ? c : first, 0xAB, (size_t)m * n * item);
        dense(&z, way ? c : first, dtype, DIMS(m, n));
        RUN(KL_OP_MATMUL, NULL, &z, IN(&x, &y), way > 0);
        if (way && memcmp(first, c, (size_t)m * n * item) != 0)
            fail_msg("%s, %d x %d x %d: other bits in layout %d", kl_dtype_name(dtype), m, k, n,
                     way);
    }
    if (want_shared) assert_true(n_shared > 8);
    double unit = dtype == KL_F64 ? 1e-15 : dtype == KL_BF16 ? 4e-3 : dtype == KL_F16 ? 5e-4 : 1e-6;
    for (int64_t i = 0; i < m; i += 1 + m / 9)
        for (int64_t j = 0; j < n; j += 1 + n / 9) {
            double want = 0;
            for (int64_t e = 0; e < k; e++)
                want += real_at(a, dtype, i * k + e) * real_at(b, dtype, e * n + j) *
                        (dtype == KL_C64 ? 0.75 : 1); /* the operands are x - ix/2 and y - iy/2 */
            double got = real_at(first, dtype, i * n + j);
            if (!(fabs(got - want) <= unit * (fabs(want) + 2 * k)))
                fail_msg("%s, %d x %d x %d: %g at %d, %d, not %g", kl_dtype_name(dtype), m, k, n,
                         got, (int)i, (int)j, want);
        }
    for (int w = 0; w < WAYS; w++) {
        free(a_layouts[w]);
        free(b_layouts[w]);
    }
    free(a);
    free(b);
    free(c);
    free(first);
}

static const enum kl_dtype types[] = {KL_F32, KL_F64, KL_F16, KL_BF16, KL_C64};
#define EACH_TYPE(t) \
    for (const enum kl_dtype *t = types; t < types + sizeof types / sizeof *types; t++)

static void sizes_near_tiles(void **state) {
    EACH_TYPE(t) {
        product(*t, 9, 3, 33, false);
        product(*t, 28, 64, 64, false);
        product(*t, 16, 16, 16, false);
        product(*t, 64, 5, 63, false);
        product(*t, 65, 64, 64, false);
        product(*t, 71, 300, 45, false);
        product(*t, 300, 520, 600, true);
        /* Matrix b is packed before the tasks start. The last tile of rows has 4, 7 or 8 rows, or
         * is alone in its task. */
        product(*t, 130, 300, 256, true);
        product(*t, 133, 300, 256, true);
        product(*t, 134, 300, 250, true);
        product(*t, 113, 64, 1170, true);
        product(*t, 9, 70, 200, false);
        product(*t, 20, 600, 700, true);
        product(*t, 41, 1040, 1030, true); /* each task packs its part of a large matrix */
        /* The operands are split into bfloat16 parts. */
        if (*t == KL_F16) product(*t, 300, 290, 301, true);
        if (*t == KL_F32) product(*t, 820, 821, 800, true);
    }
}

/* The shapes decide whether b is read without packing, in every variant. Matrices b of whole cache
 * lines are read in place, also with gaps between rows when there are few rows of the result.
 * Matrix b is packed where it is too large, where its rows are 4 KB apart, or where its last panel
 * is partial. */
static void b_read_in_place(void **state) {
    for (int v = 0; v < kl_cpu_n_variants(); v++) {
        kl_cpu_use_variant(v);
        for (int t = 0; t < 2; t++) {
            product(types[t], 140, 250, 256, true); /* these numbers of bytes are for float32 */
            product(types[t], 140, 150, 256, true);
            product(types[t], 280, 125, 256, true);
            product(types[t], 130, 300, 256, true);
            product(types[t], 99, 530, 96, false);
            product(types[t], 99, 130, 100, false);
            product(types[t], 71, 20, 1024, false);
            product(types[t], 10, 257, 64, false);
        }
    }
    kl_cpu_use_variant(-1);
}

/* In batches, each product has a matrix of its own or all share one. Each product has the bits that
 * it has alone. */
static void batches(void **state) {
    static const int sizes[][4] = {{3, 130, 300, 256}, {20, 130, 300, 32}, {3, 9, 70, 65},
                                   {40, 16, 16, 16},   {3, 9, 5, 3},       {5, 64, 128, 64},
                                   {3, 61, 127, 48},   {3, 21, 100, 112},  {900, 4, 4, 4},
                                   {300, 7, 5, 11},    {900, 1, 3, 15},    {300, 16, 16, 32},
                                   {90, 1, 3, 2},      {90, 2, 2, 1}};
    EACH_TYPE(t)
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        /* Bit 0: all share matrix a; bit 1: all share matrix b. */
        for (int one = 0; one < 4; one++) {
            if (!kl_test_takes("cpu", 5)) continue;
            int n = sizes[i][0], m = sizes[i][1], k = sizes[i][2], cols = sizes[i][3];
            int64_t item = (int64_t)kl_dtype_size(*t), a_size = (int64_t)m * k,
                    b_size = (int64_t)k * cols, c_size = (int64_t)m * cols;
            char *a = malloc((size_t)(n * a_size * item)), *b = malloc((size_t)(n * b_size * item));
            enum { AFTER = 64 }; /* bytes after the last result, which stay as they are */
            char *c = malloc((size_t)(n * c_size * item) + AFTER),
                 *alone = malloc((size_t)(c_size * item));
            fill(a, *t, n * a_size, 3);
            fill(b, *t, n * b_size, 4);
            struct operand x, y, z;
            strided_operand(&x, a, *t, DIMS(n, m, k), STRIDES(one & 1 ? 0 : a_size, k, 1));
            strided_operand(&y, b, *t, DIMS(n, k, cols), STRIDES(one & 2 ? 0 : b_size, cols, 1));
            memset(c, 0xAB, (size_t)(n * c_size * item) + AFTER);
            RUN(KL_OP_MATMUL, NULL, dense(&z, c, *t, DIMS(n, m, cols)), IN(&x, &y), true);
            for (int k_after = 0; k_after < AFTER; k_after++)
                assert_int_equal((unsigned char)c[n * c_size * item + k_after], 0xAB);
            for (int l = 0; l < n; l++) {
                dense(&x, a + (one & 1 ? 0 : l) * a_size * item, *t, DIMS(m, k));
                dense(&y, b + (one & 2 ? 0 : l) * b_size * item, *t, DIMS(k, cols));
                RUN(KL_OP_MATMUL, NULL, dense(&z, alone, *t, DIMS(m, cols)), IN(&x, &y), false);
                if (memcmp(alone, c + l * c_size * item, (size_t)(c_size * item)) != 0)
                    fail_msg("%s, %d of %d x %d x %d (%d): other bits in product %d",
                             kl_dtype_name(*t), n, m, k, cols, one, l);
            }
            free(a);
            free(b);
            free(c);
            free(alone);
        }
}

/* Matrix b is larger than the part that is packed at a time, along k and in columns. The numbers
 * are whole, so the sums are exact. */
static void b_packed_in_parts(void **state) {
    enum { M = 115, K = 4100, N = 2080 };
    float *a = malloc(sizeof(float[M]) * K), *b = malloc(sizeof(float[K]) * N),
          *c = malloc(sizeof(float[M]) * N);
    for (int i = 0; i < M * K; i++) a[i] = (float)(i * 7 % 11 - 5);
    for (int i = 0; i < K * N; i++) b[i] = (float)(i * 5 % 13 - 6);
    struct operand x, y, z;
    dense(&x, a, KL_F32, DIMS(M, K));
    dense(&y, b, KL_F32, DIMS(K, N));
    memset(c, 0xAB, sizeof(float[M]) * N);
    RUN(KL_OP_MATMUL, NULL, dense(&z, c, KL_F32, DIMS(M, N)), IN(&x, &y), true);
    for (int i = 0; i < M; i += i + 8 < M ? 8 : 1)
        for (int j = 0; j < N; j += j < 2040 ? 31 : 1) {
            float want = 0;
            for (int k = 0; k < K; k++) want += a[i * K + k] * b[k * N + j];
            if (c[i * N + j] != want) fail_msg("%g at %d, %d, not %g", c[i * N + j], i, j, want);
        }
    free(a);
    free(b);
    free(c);
}

static void few_rows(void **state) {
    EACH_TYPE(t) {
        product(*t, 1, 1, 1, false);
        product(*t, 1, 300, 2600, *t != KL_C64);
        product(*t, 2600, 300, 1, *t != KL_C64);
        product(*t, 5, 37, 66, false);
        product(*t, 40, 19, 7, false);
        product(*t, 3, 16, 16, false);
        product(*t, 2, 300, 1300, *t != KL_C64);
        product(*t, 3, 300, 1300, *t != KL_C64);
        product(*t, 6, 300, 1300, *t != KL_C64);
        /* few rows and columns, and long sums */
        product(*t, 2, 40, 3, false);
        product(*t, 3, 5001, 2, false);
        product(*t, 8, 3000, 13, false);
        product(*t, 16, 2048, 16, false);
    }
    /* Whole rows times a row-major matrix, which is computed in phases; then the layouts above. */
    for (int v = 0; v < kl_cpu_n_variants(); v++) {
        kl_cpu_use_variant(v);
        for (int t = 0; t < 4; t++) product(types[t], 1, 529, 4096, true);
    }
    kl_cpu_use_variant(-1);
}

static void a_row_without_memory(void **state) {
    enum { K = 529, N = 4096 };
    float *a = malloc(K * sizeof *a), *b = malloc(sizeof *b * K * N), *c = malloc(N * sizeof *c);
    struct operand x, y, z;
    struct kl_error *e = NULL;
    fill(a, KL_F32, K, 5);
    fill(b, KL_F32, K * N, 6);
    dense(&x, a, KL_F32, DIMS(1, K));
    dense(&y, b, KL_F32, DIMS(K, N));
    dense(&z, c, KL_F32, DIMS(1, N));
    struct kl_arg in[2] = {x.arg, y.arg};
    struct kl_launch l = {
        .op = KL_OP_MATMUL, .n_in = 2, .n_out = 1, .in = in, .out = &z.arg, .err = &e};
    kl_test_fail_alloc_at(0);
    assert_int_equal(kl_cpu_kernel(KL_OP_MATMUL)(&l), KL_ENOMEM);
    kl_test_fail_alloc_at(-1);
    kl_error_release(e);
    free(a);
    free(b);
    free(c);
}

static void put(void *to, enum kl_dtype dtype, int64_t i, float x) {
    uint16_t half = dtype == KL_F16 ? kl_f32_to_f16(x) : kl_f32_to_bf16(x);
    if (dtype == KL_F32)
        ((float *)to)[i] = x;
    else
        ((uint16_t *)to)[i] = half;
}

/* The products that tile registers compute: parts of the rows of a, then parts of the columns of b;
 * and an extent k so long that nothing is packed for all tasks. The numbers are whole, so the sums
 * are exact until they are rounded. */
static void packed_in_parts_amx(void **state) {
    static const int sizes[][3] = {{1100, 8200, 300}, {300, 8200, 1100}, {300, 33000, 130}};
    static const enum kl_dtype dtypes[] = {KL_BF16, KL_F16, KL_F32};
    for (int t = 0; t < 3; t++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            if (!kl_test_takes("cpu", 3)) continue;
            int m = sizes[s][0], depth = sizes[s][1], n = sizes[s][2];
            size_t item = kl_dtype_size(dtypes[t]);
            void *a = malloc(item * m * depth), *b = malloc(item * depth * n),
                 *c = malloc(item * m * n), *want = malloc(item);
            for (int i = 0; i < m * depth; i++) put(a, dtypes[t], i, (float)(i * 7 % 11 - 5));
            for (int i = 0; i < depth * n; i++) put(b, dtypes[t], i, (float)(i * 5 % 13 - 6));
            struct operand x, y, z;
            dense(&x, a, dtypes[t], DIMS(m, depth));
            dense(&y, b, dtypes[t], DIMS(depth, n));
            memset(c, 0xAB, item * m * n);
            RUN(KL_OP_MATMUL, NULL, dense(&z, c, dtypes[t], DIMS(m, n)), IN(&x, &y), true);
            for (int i = 0; i < m; i += i + 61 < m ? 61 : 1)
                for (int j = 0; j < n; j += j + 37 < n ? 37 : 1) {
                    float sum = 0;
                    for (int k = 0; k < depth; k++)
                        sum += (float)((i * depth + k) * 7 % 11 - 5) *
                               (float)((k * n + j) * 5 % 13 - 6);
                    put(want, dtypes[t], 0, sum);
                    if (memcmp((char *)c + item * (i * n + j), want, item) != 0)
                        fail_msg("%s, %d x %d x %d: %g at %d, %d, not %g", kl_dtype_name(dtypes[t]),
                                 m, depth, n, real_at(c, dtypes[t], i * n + j), i, j, sum);
                }
            free(a);
            free(b);
            free(c);
            free(want);
        }
}

/* A float whose significand has random bits, of either sign, with an exponent in a small range. */
static float any_float(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    float x = 1 + (float)(*seed >> 9) / (1 << 23);
    *seed = *seed * 1664525u + 1013904223u;
    return ldexpf(*seed >> 31 ? x : -x, (int)(*seed >> 24 & 15) - 8);
}

/* Fills with n floats, which repeat after the first DIFFERENT ones. */
static void some_floats(void *to, enum kl_dtype dtype, int64_t n, uint32_t seed) {
    enum { DIFFERENT = 9973 };
    size_t item = kl_dtype_size(dtype);
    for (int64_t i = 0; i < n && i < DIFFERENT; i++) put(to, dtype, i, any_float(&seed));
    for (int64_t i = DIFFERENT; i < n; i += DIFFERENT)
        memcpy((char *)to + i * item, to, item * (n - i < DIFFERENT ? n - i : DIFFERENT));
}

/* Each element of the result is one product of two elements, so a part of an operand that is
 * missing shows. One of the matrices has one element in every row and column; it is the left or the
 * right operand, and the other matrix has any layout. */
static void single_products(void **state) {
    static const enum kl_dtype dtypes[] = {KL_F16, KL_F32};
    for (int t = 0; t < 2; t++) {
        enum { LINES = 200, LONG = 1700 };
        enum kl_dtype dtype = dtypes[t];
        size_t item = kl_dtype_size(dtype), size = (size_t)LINES * LONG;
        void *dense_one = malloc(item * size), *sparse = calloc(LONG * LONG, item),
             *c = malloc(item * size);
        float *values = malloc(sizeof(float[LONG]));
        uint32_t seed = 9;
        for (size_t i = 0; i < size; i++) put(dense_one, dtype, (int64_t)i, any_float(&seed));
        /* When one is 1, the results are the elements of the dense matrix. */
        for (int one = 0; one < 2; one++) {
            for (int i = 0; i < LONG; i++) {
                put(values, dtype, i, one ? 1 : any_float(&seed));
                put(sparse, dtype, (int64_t)(i * 7 % LONG) * LONG + i,
                    (float)real_at(values, dtype, i));
            }
            for (int way = 0; way < 4; way++) {
                /* first: the dense matrix is the left operand. */
                bool first = way & 1, by_columns = way & 2;
                int64_t row = by_columns ? 1
                              : first    ? LONG
                                         : LINES,
                        col = !by_columns ? 1
                              : first     ? LINES
                                          : LONG;
                struct operand x, y, z;
                if (first) {
                    strided_operand(&x, dense_one, dtype, DIMS(LINES, LONG), STRIDES(row, col));
                    dense(&y, sparse, dtype, DIMS(LONG, LONG));
                    dense(&z, c, dtype, DIMS(LINES, LONG));
                } else {
                    strided_operand(&x, sparse, dtype, DIMS(LONG, LONG), STRIDES(1, LONG));
                    strided_operand(&y, dense_one, dtype, DIMS(LONG, LINES), STRIDES(row, col));
                    dense(&z, c, dtype, DIMS(LONG, LINES));
                }
                RUN(KL_OP_MATMUL, NULL, &z, IN(&x, &y), true);
                for (int64_t l = 0; l < LINES; l++)
                    for (int64_t i = 0; i < LONG; i++) {
                        int64_t k = i * 7 % LONG;
                        double got = real_at(c, dtype, first ? l * LONG + i : i * LINES + l);
                        double want = real_at(dense_one, dtype,
                                              first ? l * row + k * col : k * row + l * col) *
                                      real_at(values, dtype, i);
                        double unit = one ? 0 : dtype == KL_F16 ? 0x1p-11 : 0x1.2p-23;
                        /* The rounding unit of denormal float16. */
                        double least = one || dtype == KL_F32 ? 0 : 0x1p-25;
                        if (!(fabs(got - want) <= fmax(unit * fabs(want), least)))
                            fail_msg("%s, way %d: %.9g at %d, %d, not %.9g", kl_dtype_name(dtype),
                                     way, got, (int)l, (int)i, want);
                    }
            }
        }
        free(dense_one);
        free(sparse);
        free(c);
        free(values);
    }
}

/* Tile registers cannot compute matrices with these elements, since they cannot be split into
 * bfloat16 parts. A product of a batch that has such an element is computed by vectors, with the
 * bits of vectors. The other products have the bits that they have alone. */
static void elements_that_cannot_be_split(void **state) {
    int wide = kl_cpu_variant();
    if (wide == 0 || !kl_cpu_uses_amx()) {
        print_message("no tile registers here\n");
        return;
    }
    static const struct {
        enum kl_dtype dtype;
        int batches, m, k, n;
        float in_a, in_b; /* the value of one element of each matrix */
    } cases[] = {{KL_F16, 3, 260, 256, 256, NAN, 1},
                 {KL_F16, 3, 260, 256, 256, 1, -INFINITY},
                 {KL_F16, 20, 256, 257, 256, INFINITY, 1},
                 {KL_F32, 2, 130, 33000, 130, NAN, 1},
                 {KL_F32, 2, 130, 33000, 130, 1, 0x1p-101f},
                 {KL_F32, 2, 130, 33000, 130, 0x1p-60f, 0x1p-60f},
                 {KL_F32, 2, 130, 33000, 130, 0x1p60f, 0x1p60f},
                 {KL_F32, 2, 130, 33000, 130, 1, 0x1.fffffep127f}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum kl_dtype dtype = cases[i].dtype;
        int n = cases[i].batches, m = cases[i].m, k = cases[i].k, cols = cases[i].n,
            special = n / 2;
        int64_t item = (int64_t)kl_dtype_size(dtype), a_size = (int64_t)m * k,
                b_size = (int64_t)k * cols, c_size = (int64_t)m * cols;
        char *a = malloc((size_t)(n * a_size * item)), *b = malloc((size_t)(n * b_size * item));
        char *c = malloc((size_t)(n * c_size * item)), *alone = malloc((size_t)(c_size * item));
        some_floats(a, dtype, n * a_size, 5);
        some_floats(b, dtype, n * b_size, 6);
        put(a, dtype, special * a_size + a_size - 1, cases[i].in_a);
        put(b, dtype, special * b_size + b_size - 1, cases[i].in_b);
        struct operand x, y, z;
        dense(&x, a, dtype, DIMS(n, m, k));
        dense(&y, b, dtype, DIMS(n, k, cols));
        memset(c, 0xAB, (size_t)(n * c_size * item));
        RUN(KL_OP_MATMUL, NULL, dense(&z, c, dtype, DIMS(n, m, cols)), IN(&x, &y), true);
        /* Compared are: the special product computed by vectors, another product computed as usual,
         * and that other product computed by vectors, which must differ. */
        for (int way = 0; way < 3; way++) {
            int l = way == 0 ? special : 0;
            if (way == 2 && cases[i].in_a == 1) continue;
            kl_cpu_use_variant(way == 1 ? wide : wide - 1);
            dense(&x, a + l * a_size * item, dtype, DIMS(m, k));
            dense(&y, b + l * b_size * item, dtype, DIMS(k, cols));
            RUN(KL_OP_MATMUL, NULL, dense(&z, alone, dtype, DIMS(m, cols)), IN(&x, &y), false);
            kl_cpu_use_variant(-1);
            bool same = memcmp(alone, c + l * c_size * item, (size_t)(c_size * item)) == 0;
            if (way == 2 ? same && dtype == KL_F32 : !same)
                fail_msg("case %d, way %d: %s bits in product %d", (int)i, way,
                         same ? "no other" : "other", l);
        }
        free(a);
        free(b);
        free(c);
        free(alone);
    }
}

/* The bits are the same with few tile registers in use and with many, and with the left operand
 * read in place and packed. */
static void few_and_many_tile_registers(void **state) {
    int wide = kl_cpu_variant();
    if (wide == 0 || !kl_cpu_uses_amx()) {
        print_message("no tile registers here\n");
        return;
    }
    static const int sizes[][3] = {{260, 700, 250}, {256, 1024, 320}, {384, 1056, 256}};
    static const enum kl_dtype dtypes[] = {KL_BF16, KL_F16, KL_F32};
    enum { FEW, MANY, MOVED, VECTORS, WAYS };
    for (int t = 0; t < 3; t++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            enum kl_dtype dtype = dtypes[t];
            int m = sizes[i][0], k = sizes[i][1], n = sizes[i][2];
            size_t item = kl_dtype_size(dtype), a_bytes = item * m * k, c_bytes = item * m * n;
            /* a multiple of 64, as aligned_alloc asks for */
            char *a = aligned_alloc(64, (a_bytes + 127) / 64 * 64), *b = malloc(item * k * n);
            char *c = malloc(WAYS * c_bytes);
            some_floats(a, dtype, (int64_t)m * k, 5);
            some_floats(b, dtype, (int64_t)k * n, 6);
            for (int way = 0; way < WAYS; way++) {
                struct operand x, y, z;
                if (way == MOVED) memmove(a + item, a, a_bytes);
                kl_test_amx_few(way == FEW);
                kl_cpu_use_variant(way == VECTORS ? wide - 1 : wide);
                dense(&x, way >= MOVED ? a + item : a, dtype, DIMS(m, k));
                dense(&y, b, dtype, DIMS(k, n));
                memset(c + way * c_bytes, 0xAB, c_bytes);
                RUN(KL_OP_MATMUL, NULL, dense(&z, c + way * c_bytes, dtype, DIMS(m, n)), IN(&x, &y),
                    true);
                kl_test_amx_few(-1);
                kl_cpu_use_variant(-1);
                bool same = memcmp(c, c + way * c_bytes, c_bytes) == 0;
                if (way == VECTORS ? same && dtype == KL_F32 : !same)
                    fail_msg("%s, %d x %d x %d, way %d: %s bits", kl_dtype_name(dtype), m, k, n,
                             way, same ? "no other" : "other");
            }
            free(a);
            free(b);
            free(c);
        }
}

/* With an extent k of 0, all elements of the result are 0. */
static void nothing_to_add(void **state) {
    float c[12 * 9];
    struct operand x, y, z;
    memset(c, 0xAB, sizeof c);
    dense(&x, c, KL_F32, DIMS(12, 0));
    dense(&y, c, KL_F32, DIMS(0, 9));
    RUN(KL_OP_MATMUL, NULL, dense(&z, c, KL_F32, DIMS(12, 9)), IN(&x, &y), false);
    for (int i = 0; i < 12 * 9; i++) assert_true(c[i] == 0);
    memset(c, 0xAB, sizeof c);
    dense(&x, c, KL_F32, DIMS(1, 0));
    RUN(KL_OP_MATMUL, NULL, dense(&z, c, KL_F32, DIMS(1, 9)), IN(&x, &y), false);
    for (int i = 0; i < 9; i++) assert_true(c[i] == 0);
}

/* Without memory for operands packed once for all tasks, each task packs its own part. Without
 * memory for that part, the product fails. */
static void no_memory(void **state) {
    enum { M = 260, K = 300, N = 250 };
    static const enum kl_dtype dtypes[] = {KL_F32, KL_BF16, KL_F16};
    for (int t = 0; t < 3; t++) {
        enum kl_dtype dtype = dtypes[t];
        size_t item = kl_dtype_size(dtype);
        char *a = malloc(item * M * K), *b = malloc(item * K * N), *want = malloc(item * M * N),
             *c = malloc(item * M * N);
        struct operand x, y, z;
        fill(a, dtype, M * K, 5);
        fill(b, dtype, K * N, 6);
        dense(&x, a, dtype, DIMS(M, K));
        dense(&y, b, dtype, DIMS(K, N));
        RUN(KL_OP_MATMUL, NULL, dense(&z, want, dtype, DIMS(M, N)), IN(&x, &y), false);
        /* With BFMMLA each task packs its own part anyway. */
        const bool shared = dtype != KL_BF16 || !kl_bfmmla_there() || !kl_cpu_uses_bf16();
        if (shared) {
            kl_test_fail_alloc_at(0);
            RUN(KL_OP_MATMUL, NULL, dense(&z, c, dtype, DIMS(M, N)), IN(&x, &y), true);
            assert_true(kl_test_alloc_failed());
            assert_memory_equal(c, want, item * M * N);
        }
        int64_t attempts;
        kl_test_fail_alloc_at(-1);
        RUN(KL_OP_MATMUL, NULL, dense(&z, c, dtype, DIMS(M, N)), IN(&x, &y), true);
        attempts = kl_test_n_alloc_attempts();
        assert_true(attempts > 2);
        for (int64_t i = shared; i < attempts; i++) {
            struct kl_error *e = NULL;
            struct kl_arg in[2] = {x.arg, y.arg};
            struct kl_launch l = {.op = KL_OP_MATMUL,
                                  .n_in = 2,
                                  .n_out = 1,
                                  .in = in,
                                  .out = &z.arg,
                                  .err = &e,
                                  .parallel = backwards};
            kl_test_fail_alloc_at(i);
            assert_int_equal(kl_cpu_kernel(KL_OP_MATMUL)(&l), KL_ENOMEM);
            kl_test_fail_alloc_at(-1);
            kl_error_release(e);
        }
        free(a);
        free(b);
        free(want);
        free(c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sizes_near_tiles),
                                       cmocka_unit_test(b_read_in_place),
                                       cmocka_unit_test(few_rows),
                                       cmocka_unit_test(batches),
                                       cmocka_unit_test(b_packed_in_parts),
                                       cmocka_unit_test(packed_in_parts_amx),
                                       cmocka_unit_test(single_products),
                                       cmocka_unit_test(elements_that_cannot_be_split),
                                       cmocka_unit_test(few_and_many_tile_registers),
                                       cmocka_unit_test(nothing_to_add),
                                       cmocka_unit_test(no_memory),
                                       cmocka_unit_test(a_row_without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
