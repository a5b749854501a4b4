/* test_rope.c - ROPE on a device against the CPU's: within a few roundings of the pair's
 * length, at any position; frequencies that give no angle give NaN on both. */
#include "lower_support.h"

struct rope {
    int dims;
    bool traditional, inverse;
    float base, scale;
    int n_offsets, offset; /* 0: a scalar */
    const float *freqs;
};

static void check(enum kl_dtype dtype, int ndim, const int *dims, enum layout layout, enum values v,
                  const struct rope *r) {
    struct kl_rope_params p = {r->dims, r->traditional, r->inverse, r->base, r->scale};
    struct operand in[3], out;
    const int half = r->dims / 2, n_in = r->freqs ? 3 : 2;
    char what[200];
    int len = snprintf(what, sizeof what, "rope of %d%s%s, offset %d, layout %d of", r->dims,
                       r->traditional ? ", traditional" : "", r->inverse ? ", inverse" : "",
                       r->offset, layout);
    for (int i = 0; i < ndim; i++)
        len += snprintf(what + len, sizeof what - (size_t)len, " %d", dims[i]);
    ls_make(&in[0], dtype, ndim, dims, layout, v);
    ls_make(&in[1], KL_I32, r->n_offsets > 0, &r->n_offsets, DENSE, PLAIN);
    for (int i = 0; i < (r->n_offsets ? r->n_offsets : 1); i++)
        ((int32_t *)in[1].block)[i] = r->offset + 1000 * i;
    kh_write(in[1].device, in[1].block, in[1].bytes);
    if (r->freqs) {
        ls_make(&in[2], KL_F32, 1, &half, DENSE, PLAIN);
        memcpy(in[2].block, r->freqs, (size_t)half * sizeof *r->freqs);
        kh_write(in[2].device, in[2].block, in[2].bytes);
    }
    ls_make_out(&out, dtype, ndim, dims);
    void *got = ls_run(KL_OP_ROPE, &p, n_in, in, &out);
    /* Elements are below 4. The angles of both sides have 53 bits. */
    double rate = r->freqs ? 1 : fmax(1, 1 / r->base),
           position = fabs((double)r->offset) + 1000 * r->n_offsets + 10;
    for (int k = 0; k < half && r->freqs; k++)
        if (r->freqs[k] != 0 && isfinite(r->freqs[k])) rate = fmax(rate, 1 / fabs(r->freqs[k]));
    double far = (dtype == KL_F64 ? 0x1p-50 : 0x1p-22) +
                 (isfinite(r->scale) ? 0x1p-51 * position * fabs(r->scale) * rate : 0);
    ls_near(&out, got, NULL, 4 * far, what);
    free(got);
    for (int i = 0; i < n_in; i++) ls_drop(&in[i]);
    ls_drop(&out);
}

static void every_dtype(void **state) {
    static const enum kl_dtype dtypes[] = {KL_F32, KL_F16, KL_BF16, KL_F64};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (int layout = DENSE; layout < N_LAYOUTS; layout++)
            for (int way = 0; way < 4; way++) {
                struct rope r = {.dims = 32,
                                 .traditional = way & 1,
                                 .inverse = way & 2,
                                 .base = 10000,
                                 .scale = 1,
                                 .n_offsets = way % 3 ? 2 : 0,
                                 .offset = 11 * way};
                check(dtypes[d], 4, (int[]){2, 3, 5, 32}, (enum layout)layout, PLAIN, &r);
                check(dtypes[d], 4, (int[]){2, 3, 5, 48}, (enum layout)layout, PLAIN, &r);
                check(dtypes[d], 3, (int[]){2, 5, 33}, (enum layout)layout, SPECIAL, &r);
                r.dims = 6;
                check(dtypes[d], 3, (int[]){2, 4, 9}, (enum layout)layout, PLAIN, &r);
            }
}

static void positions(void **state) {
    static const int offsets[] = {0, 1, -1, -70000, 1 << 20, 2000000000, -2000000000};
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++)
        for (int k = 0; k < 3; k++) {
            static const float scales[] = {1, 0.3f, -2.5f};
            struct rope r = {.dims = 160, .base = 500000, .scale = scales[k], .offset = offsets[i]};
            check(KL_F32, 3, (int[]){1, 3, 160}, DENSE, PLAIN, &r);
            r.base = 0.01f; /* rates above a turn */
            if (abs(offsets[i]) < 1 << 20) check(KL_F32, 3, (int[]){1, 3, 160}, DENSE, PLAIN, &r);
        }
}

static void frequencies(void **state) {
    static const float freqs[] = {1,          0.37f, -3.25f,   1e10f, 1e38f,    0x1.8p-30f,
                                  6.2831853f, 1e-3f, 123456.f, 0,     INFINITY, NAN,
                                  -INFINITY,  1e20f, 0.5f,     7};
    static const int offsets[] = {0, 5, -300};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            static const float scales[] = {1, -0.125f, 0};
            struct rope r = {.dims = 32, .scale = scales[k], .offset = offsets[i], .freqs = freqs};
            check(KL_F32, 3, (int[]){2, 3, 32}, DENSE, PLAIN, &r);
            check(KL_F64, 3, (int[]){2, 3, 40}, GAPPED, PLAIN, &r);
        }
}

static void no_angles(void **state) {
    static const float values[] = {NAN, INFINITY};
    for (int i = 0; i < 2; i++) {
        struct rope r = {.dims = 8, .base = 10000, .scale = values[i], .offset = 3};
        check(KL_F32, 3, (int[]){1, 3, 8}, DENSE, PLAIN, &r);
        r = (struct rope){.dims = 8, .base = NAN, .scale = 1, .offset = 3};
        check(KL_F32, 3, (int[]){1, 3, 8}, DENSE, PLAIN, &r);
    }
}

static void unusual_shapes(void **state) {
    static const int many[] = {2, 1, 3, 2, 2, 3, 2, 2, 3, 2, 8};
    struct rope r = {.dims = 8, .base = 10000, .scale = 1, .n_offsets = 2, .offset = 3};
    check(KL_F32, 3, (int[]){2, 0, 8}, DENSE, PLAIN, &r);
    /* so many rows that the angles are a table */
    check(KL_F16, 4, (int[]){2, 8, 80, 16}, DENSE, PLAIN, &r);
    check(KL_F32, 3, (int[]){0, 3, 8}, DENSE, PLAIN,
          &(struct rope){.dims = 8, .base = 2, .scale = 1});
    for (int layout = DENSE; layout < N_LAYOUTS; layout++)
        check(KL_F32, 11, many, (enum layout)layout, PLAIN, &r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dtype),    cmocka_unit_test(positions),
        cmocka_unit_test(frequencies),    cmocka_unit_test(no_angles),
        cmocka_unit_test(unusual_shapes),
    };
    return cmocka_run_group_tests(tests, kh_setup, NULL);
}
