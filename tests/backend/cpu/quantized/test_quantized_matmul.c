/* test_quantized_matmul.c - QUANTIZED_MATMUL of many rows, in every variant: near the product;
 * with the same bits for any order of tasks, and for rows alone and among others. */
#include "backend/cpu/kernel_support.h"

#include "base/number/half.h"

enum { MOST_ROWS = 530, COLS = 70, MOST_DEPTH = 1184 };

struct example {
    int rows, depth;
    struct kl_quant_format f;
    enum kl_dtype dtype;
    void *x, *scales, *biases, *out;
    uint32_t *words;
    struct operand in[4], result;
};

static uint32_t next(uint32_t *seed) {
    return *seed = *seed * 1664525u + 1013904223u;
}

static void put(void *to, enum kl_dtype dtype, int64_t i, float v) {
    const uint16_t half = dtype == KL_F16 ? kl_f32_to_f16(v) : kl_f32_to_bf16(v);
    if (dtype == KL_F32)
        ((float *)to)[i] = v;
    else
        ((uint16_t *)to)[i] = half;
}

static double at(const void *v, enum kl_dtype dtype, int64_t i) {
    if (dtype == KL_F32) return ((const float *)v)[i];
    const uint16_t half = ((const uint16_t *)v)[i];
    return dtype == KL_F16 ? kl_f16_to_f32(half) : kl_bf16_to_f32(half);
}

/* `far` elements lie between the rows of x. */
static void make(struct example *e, int far) {
    const int groups = e->depth / e->f.group_size, words = e->depth * e->f.bits / 32;
    const size_t item = kl_dtype_size(e->dtype);
    const int64_t pitch = e->depth + far;
    uint32_t seed = 7;
    e->x = calloc((size_t)(e->rows * pitch), item);
    e->scales = malloc((size_t)(COLS * groups) * item);
    e->biases = malloc((size_t)(COLS * groups) * item);
    e->words = malloc(sizeof(uint32_t[COLS]) * (size_t)words);
    e->out = malloc((size_t)(e->rows * COLS) * item);
    for (int64_t i = 0; i < e->rows * pitch; i++)
        put(e->x, e->dtype, i, (float)((int)(next(&seed) >> 20) - 2048) / 1024);
    for (int i = 0; i < COLS * groups; i++) {
        put(e->scales, e->dtype, i, (float)(next(&seed) >> 24) / 1024);
        put(e->biases, e->dtype, i, (float)((int)(next(&seed) >> 24) - 128) / 64);
    }
    for (int i = 0; i < COLS * words; i++) e->words[i] = next(&seed) ^ next(&seed) >> 16;
    strided_operand(&e->in[0], e->x, e->dtype, DIMS(e->rows, e->depth), STRIDES(pitch, 1));
    dense(&e->in[1], e->words, KL_U32, DIMS(COLS, words));
    dense(&e->in[2], e->scales, e->dtype, DIMS(COLS, groups));
    dense(&e->in[3], e->biases, e->dtype, DIMS(COLS, groups));
    dense(&e->result, e->out, e->dtype, DIMS(e->rows, COLS));
}

static void drop(struct example *e) {
    void *all[] = {e->x, e->scales, e->biases, e->words, e->out};
    for (int i = 0; i < 5; i++) free(all[i]);
}

static void run(struct example *e, struct operand *x, struct operand *out, bool shared) {
    const struct kl_qmm_params p = {.format = e->f, .transpose = true};
    RUN(KL_OP_QUANTIZED_MATMUL, &p, out, IN(x, &e->in[1], &e->in[2], &e->in[3]), shared);
}

static void expect_near(const struct example *e, int far) {
    const int groups = e->depth / e->f.group_size, g = e->f.group_size, bits = e->f.bits;
    static double numbers[COLS * MOST_DEPTH];
    for (int c = 0; c < COLS; c++)
        for (int k = 0; k < e->depth; k++) {
            const uint32_t word = e->words[((int64_t)c * e->depth + k) * bits / 32];
            const uint32_t code = word >> k * bits % 32 & ((1u << bits) - 1);
            numbers[c * e->depth + k] = at(e->scales, e->dtype, c * groups + k / g) * code +
                                        at(e->biases, e->dtype, c * groups + k / g);
        }
    const double unit = e->dtype == KL_BF16 ? 4e-3 : e->dtype == KL_F16 ? 5e-4 : 0;
    for (int i = 0; i < e->rows; i += 1 + e->rows / 40)
        for (int c = 0; c < COLS; c++) {
            double want = 0, size = 0;
            for (int k = 0; k < e->depth; k++) {
                const double term = at(e->x, e->dtype, (int64_t)i * (e->depth + far) + k) *
                                    numbers[c * e->depth + k];
                want += term;
                size += fabs(term);
            }
            const double got = at(e->out, e->dtype, i * COLS + c);
            if (!(fabs(got - want) <= unit * fabs(want) + 1e-6 * size))
                fail_msg("%s, %d bits, %d rows: %g at %d, %d, not %g", kl_dtype_name(e->dtype),
                         bits, e->rows, got, i, c, want);
        }
}

static void many_rows(void **state) {
    static const struct kl_quant_format formats[] = {{KL_QUANT_AFFINE, 64, 4},
                                                     {KL_QUANT_AFFINE, 32, 4},
                                                     {KL_QUANT_AFFINE, 32, 8},
                                                     {KL_QUANT_AFFINE, 128, 8},
                                                     {KL_QUANT_AFFINE, 32, 2}};
    static const enum kl_dtype dtypes[] = {KL_F32, KL_BF16, KL_F16};
    static const int rows[] = {9, 33, MOST_ROWS};
    for (int i = 0; i < kl_cpu_n_variants() * 45; i++) {
        const int v = i / 45;
        if (!kl_test_takes("cpu", 5)) continue;
        kl_cpu_use_variant(v);
        const struct kl_quant_format f = formats[i % 5];
        const int m = rows[i / 15 % 3], far = i % 2 ? 3 : 0;
        struct example e = {.rows = m,
                            .depth = f.group_size == 32 ? MOST_DEPTH : 640,
                            .f = f,
                            .dtype = dtypes[i / 5 % 3]};
        make(&e, far);
        const size_t item = kl_dtype_size(e.dtype), bytes = (size_t)(m * COLS) * item;
        void *again = malloc(bytes);
        struct operand x, out;
        run(&e, &e.in[0], &e.result, true);
        expect_near(&e, far);
        run(&e, &e.in[0], dense(&out, again, e.dtype, DIMS(m, COLS)), false);
        if (memcmp(again, e.out, bytes) != 0) fail_msg("case %d: other bits in another order", i);
        if (m > 9) { /* the last rows alone */
            const int some = 11, first = m - some;
            strided_operand(&x, (char *)e.x + (size_t)first * (size_t)(e.depth + far) * item,
                            e.dtype, DIMS(some, e.depth), STRIDES(e.depth + far, 1));
            run(&e, &x, dense(&out, again, e.dtype, DIMS(some, COLS)), true);
            if (memcmp(again, (char *)e.out + (size_t)(first * COLS) * item,
                       (size_t)(some * COLS) * item) != 0)
                fail_msg("case %d: rows have other bits alone", i);
        }
        free(again);
        drop(&e);
    }
    kl_cpu_use_variant(-1);
}

/* Few rows in every variant: near the product, with the same bits for any order of tasks; also
 * where a row has an infinity, NaN, or a group of numbers so small that SDOT cannot split them. */
static void few_rows(void **state) {
    static const struct kl_quant_format formats[] = {
        {KL_QUANT_AFFINE, 64, 4}, {KL_QUANT_AFFINE, 32, 4},  {KL_QUANT_AFFINE, 128, 4},
        {KL_QUANT_AFFINE, 32, 8}, {KL_QUANT_AFFINE, 128, 8}, {KL_QUANT_AFFINE, 64, 2}};
    static const enum kl_dtype dtypes[] = {KL_F32, KL_BF16, KL_F16};
    static const int rows[] = {1, 2, 5, 8};
    static const float special[] = {0, INFINITY, NAN, 0x1p-100F};
    for (int i = 0; i < kl_cpu_n_variants() * 6 * 3 * 4; i++) {
        const int kind = i / 72, far = i % 2 ? 3 : 0;
        struct example e = {
            .rows = rows[i % 4], .f = formats[i / 12 % 6], .dtype = dtypes[i / 4 % 3]};
        e.depth = e.f.group_size == 32 ? 1120 : 640;
        kl_cpu_use_variant(kind);
        make(&e, far);
        /* A group of zeros, and one whose numbers are far apart. */
        for (int k = 0; k < 128; k++) put(e.x, e.dtype, k, 0);
        put(e.x, e.dtype, 200, 1000);
        const size_t item = kl_dtype_size(e.dtype), bytes = (size_t)(e.rows * COLS) * item;
        void *again = malloc(bytes);
        struct operand out;
        run(&e, &e.in[0], &e.result, true);
        expect_near(&e, far);
        run(&e, &e.in[0], dense(&out, again, e.dtype, DIMS(e.rows, COLS)), false);
        if (memcmp(again, e.out, bytes) != 0) fail_msg("case %d: other bits in another order", i);
        for (int k = 1; k < 4; k++) {
            if (e.dtype == KL_F16 && k == 3) continue; /* it is 0 there */
            for (int j = 0; j < 128; j++) put(e.x, e.dtype, j, j == 70 || k == 3 ? special[k] : 0);
            run(&e, &e.in[0], &e.result, true);
            for (int c = 0; c < COLS; c++) {
                const double got = at(e.out, e.dtype, c);
                if (k < 3 ? isfinite(got) : !isfinite(got))
                    fail_msg("case %d, with %g: %g in column %d", i, (double)special[k], got, c);
            }
            if (k == 3) expect_near(&e, far);
        }
        free(again);
        drop(&e);
    }
    kl_cpu_use_variant(-1);
}

/* SMMLA gives the bits of SDOT, for any number of rows: pairs of rows, one that is left over, and
 * more than a task has. Prints what it compared, since other processors have neither. */
static void digits_in_pairs(void **state) {
    static const struct kl_quant_format formats[] = {{KL_QUANT_AFFINE, 64, 4},
                                                     {KL_QUANT_AFFINE, 32, 8},
                                                     {KL_QUANT_AFFINE, 32, 4},
                                                     {KL_QUANT_AFFINE, 128, 8}};
    static const enum kl_dtype dtypes[] = {KL_F32, KL_BF16, KL_F16};
    static const int rows[] = {1, 2, 3, 4, 5, 7, 8, 9, 31, 34, 67};
    int first = -1, compared = 0;
    for (int v = 0; v < kl_cpu_n_variants(); v++)
        if (strcmp(kl_cpu_variant_name(v), "dot") == 0) first = v;
    for (int v = first + 1; first >= 0 && v < kl_cpu_n_variants(); v++)
        for (int i = 0; i < 4 * 3 * 11; i++, compared++) {
            struct example e = {
                .rows = rows[i / 12], .f = formats[i % 4], .dtype = dtypes[i / 4 % 3]};
            e.depth = e.f.group_size == 32 ? 352 : 640;
            make(&e, i % 2 ? 3 : 0);
            const size_t bytes = (size_t)(e.rows * COLS) * kl_dtype_size(e.dtype);
            void *want = malloc(bytes);
            struct operand out;
            kl_cpu_use_variant(first);
            run(&e, &e.in[0], dense(&out, want, e.dtype, DIMS(e.rows, COLS)), true);
            kl_cpu_use_variant(v);
            run(&e, &e.in[0], &e.result, true);
            if (memcmp(want, e.out, bytes) != 0)
                fail_msg("%s, case %d: other bits than by SDOT", kl_cpu_variant_name(v), i);
            free(want);
            drop(&e);
        }
    kl_cpu_use_variant(-1);
    printf("%d products in pairs of rows\n", compared);
}

/* Infinities, NaN and numbers so small or large that tile registers cannot split them: the elements
 * of their rows are what other variants make of them, and other rows are near the exact product. */
static void special_values(void **state) {
    static const float special[] = {INFINITY, NAN, 0x1p-120F, 0x1p125F};
    static const enum kl_dtype dtypes[] = {KL_F32, KL_BF16, KL_F16};
    for (int i = 0; i < 3 * 4; i++) {
        struct example e = {.rows = 33, .depth = 256, .f = {KL_QUANT_AFFINE, 64, 4}};
        e.dtype = dtypes[i / 4];
        if (e.dtype == KL_F16 && special[i % 4] == 0x1p-120F) continue; /* it is 0 there */
        make(&e, 0);
        const int row = 20;
        void *kept = malloc((size_t)(e.depth) * kl_dtype_size(e.dtype));
        memcpy(kept, (char *)e.x + (size_t)(row * e.depth) * kl_dtype_size(e.dtype),
               (size_t)(e.depth) * kl_dtype_size(e.dtype));
        put(e.x, e.dtype, row * e.depth + 70, special[i % 4]);
        run(&e, &e.in[0], &e.result, true);
        for (int c = 0; c < COLS; c++) {
            const double got = at(e.out, e.dtype, row * COLS + c);
            if (i % 4 < 2 ? isfinite(got) : i % 4 == 2 ? !isfinite(got) : isnan(got))
                fail_msg("%s, case %d: %g in column %d", kl_dtype_name(e.dtype), i % 4, got, c);
        }
        /* The row is put right before rows are compared. */
        memcpy((char *)e.x + (size_t)(row * e.depth) * kl_dtype_size(e.dtype), kept,
               (size_t)(e.depth) * kl_dtype_size(e.dtype));
        struct operand x, out;
        dense(&x, (char *)e.x + (size_t)(row * e.depth) * kl_dtype_size(e.dtype), e.dtype,
              DIMS(9, e.depth));
        dense(&out, (char *)e.out + (size_t)(row * COLS) * kl_dtype_size(e.dtype), e.dtype,
              DIMS(9, COLS));
        run(&e, &x, &out, true);
        expect_near(&e, 0);
        free(kept);
        drop(&e);
    }
}

/* Without memory the product fails, whichever allocation it is; it does not crash. */
static void no_memory(void **state) {
    static const enum kl_dtype dtypes[] = {KL_F32, KL_BF16};
    for (int d = 0; d < 2; d++) {
        struct example e = {
            .rows = 40, .depth = 640, .f = {KL_QUANT_AFFINE, 64, 4}, .dtype = dtypes[d]};
        make(&e, 0);
        kl_test_fail_alloc_at(-1);
        run(&e, &e.in[0], &e.result, true);
        const int64_t attempts = kl_test_n_alloc_attempts();
        assert_true(attempts > 0);
        for (int64_t i = 0; i < attempts; i++) {
            const struct kl_qmm_params p = {.format = e.f, .transpose = true};
            struct kl_error *err = NULL;
            struct kl_arg in[4] = {e.in[0].arg, e.in[1].arg, e.in[2].arg, e.in[3].arg};
            struct kl_launch l = {.op = KL_OP_QUANTIZED_MATMUL,
                                  .params = &p,
                                  .n_in = 4,
                                  .n_out = 1,
                                  .in = in,
                                  .out = &e.result.arg,
                                  .err = &err,
                                  .parallel = backwards};
            kl_test_fail_alloc_at(i);
            assert_int_equal(kl_cpu_kernel(KL_OP_QUANTIZED_MATMUL)(&l), KL_ENOMEM);
            kl_test_fail_alloc_at(-1);
            kl_error_release(err);
        }
        drop(&e);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_rows), cmocka_unit_test(few_rows), cmocka_unit_test(digits_in_pairs),
        cmocka_unit_test(special_values), cmocka_unit_test(no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
