/* test_alloc.c - every builder survives every allocation failure: it fails with KL_ENOMEM, does not
 * change its result, and leaks nothing. Operations with a case in cases.h and element-wise rows are
 * tried by themselves; BUILDERS has what is made of others, and operands that are converted. */
#include "ops/support/cases.h"

static struct kl_array *four, *one_d;   /* the operands of attention */
static struct kl_array *column, *twice; /* floats of shape (3, 1); two indices of 0 */
static struct kl_array *mt;             /* the transpose of m, which no reshape can view */
static struct kl_array *m, *v, *idx, *flat_idx, *half, *cond, *key, *one, *idx2, *m22;
static struct kl_array *m_row, *cube, *one_row;
static struct kl_array *rows, *m_rows, *words, *by_groups, *h_groups; /* of a quantized matrix */
static const struct kl_quant_format affine = {KL_QUANT_AFFINE, 32, 4},
                                    nvfp4 = {KL_QUANT_NVFP4, 16, 4};
static const float factor = 2;
static const double number = 1;

#define BUILDERS(X)                                                                                \
    X(zeros, kl_zeros(out, LIST(2, 3), KL_F32, cpu(), err))                                        \
    X(full, kl_full(out, LIST(2, 3), one, KL_I32, cpu(), err))                                     \
    X(arange, kl_arange(out, 0, 5, 1, KL_I32, cpu(), err))                                         \
    X(copy, kl_copy(out, m, cpu(), err))                                                           \
    X(astype, kl_astype(out, m, KL_F16, cpu(), err))                                               \
    X(reshape, kl_reshape(out, mt, LIST(6), cpu(), err))                                           \
    X(transpose, kl_transpose(out, m, cpu(), err))                                                 \
    X(broadcast_to, kl_broadcast_to(out, v, LIST(4, 3), cpu(), err))                               \
    X(expand_dims, kl_expand_dims(out, v, 0, cpu(), err))                                          \
    X(slice, kl_slice(out, v, LIST(2), LIST(-9), LIST(-1), cpu(), err))                            \
    X(slice_update, kl_slice_update(out, m, half, LIST(0, 0), LIST(2, 3), LIST(1, 1), cpu(), err)) \
    X(concatenate_3, kl_concatenate(out, (struct kl_array *[]){v, half, v}, 3, cpu(), err))        \
    X(stack, kl_stack(out, (struct kl_array *[]){v, half}, 2, cpu(), err))                         \
    X(negative, kl_negative(out, m, cpu(), err))                                                   \
    X(exp, kl_exp(out, idx, cpu(), err))                                                           \
    X(add, kl_add(out, m, half, cpu(), err))                                                       \
    X(divide, kl_divide(out, idx, one, cpu(), err))                                                \
    X(where, kl_where(out, cond, m, half, cpu(), err))                                             \
    X(sigmoid, kl_sigmoid(out, m, cpu(), err))                                                     \
    X(reciprocal, kl_reciprocal(out, m, cpu(), err))                                               \
    X(degrees, kl_degrees(out, half, cpu(), err))                                                  \
    X(power, kl_power(out, m, half, cpu(), err))                                                   \
    X(power_bool, kl_power(out, cond, cond, cpu(), err))                                           \
    X(floor, kl_floor(out, half, cpu(), err))                                                      \
    X(round, kl_round(out, half, 2, cpu(), err))                                                   \
    X(round_int, kl_round(out, m, -1, cpu(), err))                                                 \
    X(remainder_bool, kl_remainder(out, cond, cond, cpu(), err))                                   \
    X(left_shift, kl_left_shift(out, cond, cond, cpu(), err))                                      \
    X(from_fp8, kl_from_fp8(out, byte, KL_F16, cpu(), err))                                        \
    X(isinf, kl_isinf(out, complex, cpu(), err))                                                   \
    X(isfinite_int, kl_isfinite(out, m, cpu(), err))                                               \
    X(imag, kl_imag(out, half, cpu(), err))                                                        \
    X(nan_to_num, kl_nan_to_num(out, half, 0, NULL, NULL, cpu(), err))                             \
    X(isclose, kl_isclose(out, m, half, 1, 1, true, cpu(), err))                                   \
    X(allclose, kl_allclose(out, m, half, 1, 1, true, cpu(), err))                                 \
    X(array_equal, kl_array_equal(out, half, half, true, cpu(), err))                              \
    X(array_equal_shapes, kl_array_equal(out, m, half, false, cpu(), err))                         \
    X(clip, kl_clip(out, m, one, half, cpu(), err))                                                \
    X(stop_gradient, kl_stop_gradient(out, m, cpu(), err))                                         \
    X(sum, kl_sum(out, m, false, cpu(), err))                                                      \
    X(mean, kl_mean_axis(out, half, 0, false, cpu(), err))                                         \
    X(argmax, kl_argmax(out, mt, true, cpu(), err))                                                \
    X(softmax, kl_softmax_axis(out, idx, 0, true, cpu(), err))                                     \
    X(sort, kl_sort(out, mt, cpu(), err))                                                          \
    X(topk, kl_topk_axis(out, m, 1, 0, cpu(), err))                                                \
    X(prod, kl_prod(out, m, false, cpu(), err))                                                    \
    X(logsumexp, kl_logsumexp_axis(out, idx, 0, false, cpu(), err))                                \
    X(var, kl_var_axis(out, half, 0, false, 0, cpu(), err))                                        \
    X(std, kl_std(out, m, false, 1, cpu(), err))                                                   \
    X(median, kl_median_axes(out, half, LIST(0), true, cpu(), err))                                \
    X(median_2, kl_median_axes(out, m, LIST(0, 1), true, cpu(), err))                              \
    X(cumsum, kl_cumsum(out, m, 0, false, true, cpu(), err))                                       \
    X(logcumsumexp, kl_logcumsumexp(out, m, 0, false, true, cpu(), err))                           \
    X(partition, kl_partition(out, mt, 1, cpu(), err))                                             \
    X(rms_norm, kl_rms_norm(out, half, m_row, 1, cpu(), err))                                      \
    X(layer_norm, kl_layer_norm(out, half, m_row, half, 1, cpu(), err))                            \
    X(norm_backward,                                                                               \
      kl_norm_backward(out, m, half, m,                                                            \
                       &(struct kl_norm_backward_params){1, true, true, true, true}, cpu(), err))  \
    X(fft, kl_fftn(out, m, KL_FFT_FORWARD, LIST(5, 7), LIST(0, 1), KL_FFT_ORTHO, cpu(), err))      \
    X(irfft, kl_fftn(out, m, KL_FFT_TO_REAL, LIST(1, 3), LIST(1, 0), KL_FFT_ORTHO, cpu(), err))    \
    X(fftshift, kl_fftshift(out, m, LIST(0, 1), false, cpu(), err))                                \
    X(fftfreq, kl_fftfreq(out, 5, 0.5, cpu(), err))                                                \
    X(rope,                                                                                        \
      kl_rope(out, cube, 2, true, (struct kl_rope_base){false, 0}, 1, one, one_row, cpu(), err))   \
    X(solve, kl_solve(out, m22, idx2, cpu(), err))                                                 \
    X(tri_inv, kl_tri_inv(out, m22, true, cpu(), err))                                             \
    X(cholesky_inv, kl_cholesky_inv(out, m22, true, cpu(), err))                                   \
    X(det, kl_det(out, m22, cpu(), err))                                                           \
    X(cross, kl_cross(out, v, v, 0, cpu(), err))                                                   \
    X(norm, kl_norm(out, m22, 2, NULL, 0, true, cpu(), err))                                       \
    X(matmul, kl_matmul(out, m, half, cpu(), err))                                                 \
    X(attention, kl_attention(out, four, four, four, 1, "causal", NULL, one_d, cpu(), err))        \
    X(attention_backward, kl_attention_backward(out, (struct kl_array *[]){four, four, four}, 1,   \
                                                true, NULL, one_d, four, four, cpu(), err))        \
    X(convolution_backward,                                                                        \
      kl_convolution_backward(out, four, four,                                                     \
                              &(struct kl_convolution_params){.ndim = 2,                           \
                                                              .groups = 1,                         \
                                                              .stride = {1, 1},                    \
                                                              .low = {1, 1},                       \
                                                              .high = {1, 1},                      \
                                                              .dilation = {1, 1},                  \
                                                              .input_dilation = {1, 1}},           \
                              (int[]){3, 3}, cpu(), err))                                          \
    X(convolution,                                                                                 \
      kl_conv(out, four, four, 2, (int[]){1, 1}, (int[]){1, 1}, (int[]){1, 1}, 1, cpu(), err))     \
    X(gather_mm, kl_gather_mm(out, cube, four, NULL, twice, cpu(), err))                           \
    X(segmented_mm, kl_segmented_mm(out, m, column, flat_idx, cpu(), err))                         \
    X(block_masked_mm, kl_block_masked_mm(out, m, column, 1, one, cond, one, cpu(), err))          \
    X(einsum,                                                                                      \
      kl_einsum(out, "iij,kkj,...l->ik", (struct kl_array *[]){cube, cube, cube}, 3, cpu(), err))  \
    X(conv_cropped,                                                                                \
      kl_conv_general(out, four, four, (struct kl_conv_list){0},                                   \
                      (struct kl_conv_list){(int[]){1}, 1},                                        \
                      (struct kl_conv_list){(int[]){0, -1}, 2}, (struct kl_conv_list){0},          \
                      (struct kl_conv_list){0}, 1, true, cpu(), err))                              \
    X(quantize, quantize_first(out, err))                                                          \
    X(dequantize, kl_dequantize(out, words, by_groups, h_groups, &affine, NULL, NULL, cpu(), err)) \
    X(quantized_matmul,                                                                            \
      kl_quantized_matmul(out, m_rows, words, by_groups, h_groups, true, &affine, cpu(), err))     \
    X(gather_qmm, kl_gather_qmm(out, rows, words, by_groups, h_groups, flat_idx, idx, true,        \
                                &affine, cpu(), err))                                              \
    X(qqmm, kl_qqmm(out, m_rows, m_rows, NULL, &nvfp4, one_row, one_row, cpu(), err))              \
    X(take, kl_take(out, mt, flat_idx, cpu(), err))                                                \
    X(take_axis, kl_take_axis(out, m, flat_idx, 1, cpu(), err))                                    \
    X(gather, kl_gather(out, m, (struct kl_array *[]){flat_idx, one}, 2, LIST(0, 1), LIST(1, 1),   \
                        cpu(), err))                                                               \
    X(take_along_axis, kl_take_along_axis(out, m, idx, 1, cpu(), err))                             \
    X(put_along_axis, kl_put_along_axis(out, m, idx, one, 1, cpu(), err))                          \
    X(scatter_add, kl_scatter_add_single(out, half, flat_idx, idx, 0, cpu(), err))                 \
    X(linspace, kl_linspace(out, 0, 1, 5, KL_I32, cpu(), err))                                     \
    X(eye, kl_eye(out, 3, 3, 0, KL_I32, cpu(), err))                                               \
    X(tril, kl_tril(out, m, 0, cpu(), err))                                                        \
    X(diag, kl_diag(out, v, -1, cpu(), err))                                                       \
    X(trace, kl_diagonal_sum(out, m, 0, 0, 1, KL_F32, cpu(), err))                                 \
    X(complex_to_num, kl_nan_to_num(out, complex, 0, &number, &number, cpu(), err))                \
    X(hanning, kl_hanning(out, 4, cpu(), err))                                                     \
    X(pad, kl_pad(out, m, LIST(0), LIST(1), LIST(1), one, "constant", cpu(), err))                 \
    X(pad_edge, kl_pad_symmetric(out, m, 1, NULL, "edge", cpu(), err))                             \
    X(tile, kl_tile(out, mt, LIST(2, 2), cpu(), err))                                              \
    X(repeat, kl_repeat(out, mt, 2, cpu(), err))                                                   \
    X(roll, kl_roll_axes(out, m, LIST(1, 1), LIST(0, 1), cpu(), err))                              \
    X(as_strided, kl_as_strided(out, mt, LIST(2), (int64_t[]){1}, 1, 0, cpu(), err))               \
    X(diagonal, kl_diagonal(out, m, 0, 0, 1, cpu(), err))                                          \
    X(view, kl_view(out, mt, KL_BOOL, cpu(), err))                                                 \
    X(unflatten, kl_unflatten(out, m, 1, LIST(3, 1), cpu(), err))                                  \
    X(slice_update_add,                                                                            \
      kl_slice_update_add(out, m, half, LIST(0, 0), LIST(2, 3), LIST(1, 1), cpu(), err))           \
    X(masked_scatter, kl_masked_scatter(out, v, cond, half, cpu(), err))                           \
    X(outer, kl_outer(out, m, half, cpu(), err))                                                   \
    X(kron, kl_kron(out, m, half, cpu(), err))                                                     \
    X(inner, kl_inner(out, m, half, cpu(), err))                                                   \
    X(tensordot, kl_tensordot_axis(out, m, half, 1, cpu(), err))                                   \
    X(addmm, kl_addmm(out, one, m, half, 2, 3, cpu(), err))                                        \
    X(hadamard, kl_hadamard_transform(out, idx, &factor, cpu(), err))                              \
    X(key, kl_random_key(out, 1, err))                                                             \
    X(bits, kl_random_bits(out, LIST(3), 2, NULL, cpu(), err))                                     \
    X(uniform, kl_random_uniform(out, half, one, LIST(2, 3), KL_F16, key, cpu(), err))             \
    X(normal, kl_random_normal(out, LIST(3), KL_F64, 1, 2, key, cpu(), err))                       \
    X(bernoulli, kl_random_bernoulli(out, half, LIST(3), NULL, cpu(), err))                        \
    X(gumbel, kl_random_gumbel(out, LIST(3), KL_F16, NULL, cpu(), err))                            \
    X(categorical_row, kl_random_categorical_num_samples(out, v, 0, 2, NULL, cpu(), err))          \
    X(categorical, kl_random_categorical_num_samples(out, m, 1, 2, NULL, cpu(), err))              \
    X(laplace, kl_random_laplace(out, LIST(3), KL_F16, 1, 2, NULL, cpu(), err))                    \
    X(truncated_normal,                                                                            \
      kl_random_truncated_normal(out, one, half, LIST(3), KL_F16, key, cpu(), err))                \
    X(permutation, kl_random_permutation(out, m, 1, NULL, cpu(), err))                             \
    X(multivariate_normal,                                                                         \
      kl_random_multivariate_normal(out, idx2, m22, LIST(2), KL_F32, key, cpu(), err))             \
    X(normal_complex,                                                                              \
      kl_random_normal_broadcast(out, LIST(3), KL_C64, half, one, key, cpu(), err))                \
    X(randint, kl_random_randint(out, one, half, LIST(3), KL_I8, key, cpu(), err))

/* Operands of other dtypes. */
static struct kl_array *byte, *complex;

static int quantize_first(struct kl_array **out, struct kl_error **err) {
    struct kl_array *made[3];
    int n;
    KL_TRY(kl_quantize(made, &n, rows, &affine, NULL, cpu(), err));
    *out = made[0];
    for (int i = 1; i < n; i++) kl_array_release(made[i]);
    return KL_OK;
}

#define FUNCTION(name, call)                                                   \
    static int build_##name(struct kl_array **out, struct kl_array *const *in, \
                            struct kl_error **err) {                           \
        return call;                                                           \
    }
BUILDERS(FUNCTION)

static const struct op_case builders[] = {
#define BUILDER(which, call) {.name = #which, .build = build_##which},
    BUILDERS(BUILDER)};

/* Builds c with the first allocation refused, then the second, and so on until none is. */
static void every_failure_of(const struct op_case *c, struct kl_array *const *in) {
    struct kl_array *out = NULL;
    if (build_case(&out, c, in, NULL))
        fail_msg("%s", c->name); /* the first run makes what exists once per process */
    kl_array_release(out);
    for (int n = 0;; n++) {
        struct kl_error *err = NULL;
        out = (void *)&cpu;
        int64_t live = kl_test_n_live();
        kl_test_fail_alloc_at(n);
        int rc = build_case(&out, c, in, &err);
        bool failed = kl_test_alloc_failed();
        kl_test_fail_alloc_at(-1);
        if (!failed) {
            assert_int_equal(rc, KL_OK);
            kl_array_release(out);
            assert_true(n > 0);
            return;
        }
        if (rc != KL_ENOMEM) fail_msg("%s, allocation %d: code %d", c->name, n, rc);
        if (out != (void *)&cpu) fail_msg("%s, allocation %d: the result changed", c->name, n);
        assert_non_null(err);
        kl_error_release(err);
        if (kl_test_n_live() != live)
            fail_msg("%s, allocation %d: %lld blocks leaked", c->name, n,
                     (long long)(kl_test_n_live() - live));
    }
}

static void every_failure(void **state) {
    for (size_t i = 0; i < sizeof builders / sizeof *builders; i++)
        every_failure_of(&builders[i], NULL);
}

/* Every operation of cases.h and every row of element-wise kind, in the first of its dtypes. */
static void every_case(void **state) {
    uint32_t seed = 1;
    for (int i = 0; i < N_CASES; i++) {
        struct op_case c = case_number(i);
        struct kl_array *in[MOST_INPUTS];
        enum kl_dtype dtype = (enum kl_dtype)__builtin_ctz(c.dtypes);
        for (int k = 0; k < c.n_in; k++) in[k] = make_input(&c.in[k], dtype, -1, &seed);
        every_failure_of(&c, in);
        for (int k = 0; k < c.n_in; k++) kl_array_release(in[k]);
    }
}

static void lists(void **state) {
    for (int n = 0, done = 0; done < 5; n++) {
        struct kl_array **outs = NULL;
        size_t count = 0;
        int64_t live = kl_test_n_live();
        done = 0;
        for (int which = 0; which < 5; which++) {
            kl_test_fail_alloc_at(n);
            int rc = which == 0   ? kl_split(&outs, &count, m, 2, 0, cpu(), NULL)
                     : which == 1 ? kl_split_sections(&outs, &count, m, LIST(1), 1, cpu(), NULL)
                     : which == 2 ? kl_broadcast_arrays(&outs, &count, (struct kl_array *[]){m, v},
                                                        2, cpu(), NULL)
                     : which == 3 ? kl_meshgrid(&outs, &count, (struct kl_array *[]){mt, v}, 2,
                                                false, "xy", cpu(), NULL)
                                  : kl_depends(&outs, &count, (struct kl_array *[]){mt, v}, 2,
                                               (struct kl_array *[]){m, idx}, 2, cpu(), NULL);
            bool failed = kl_test_alloc_failed();
            kl_test_fail_alloc_at(-1);
            if (failed) {
                assert_int_equal(rc, KL_ENOMEM);
                assert_int_equal(kl_test_n_live(), live);
                continue;
            }
            assert_int_equal(count, 2);
            for (size_t i = 0; i < count; i++) kl_array_release(outs[i]);
            kl_free(outs);
            done++;
        }
    }
}

int main(void) {
    four = F32(SHAPE(1, 1, 2, 2), 1, 2, 3, 4);
    one_d = F32(SHAPE(1), 1);
    column = F32(SHAPE(3, 1), 1, 2, 3);
    twice = I32(SHAPE(2), 0, 0);
    m = count_up(SHAPE(2, 3));
    v = count_up(SHAPE(3));
    idx = I32(SHAPE(2, 1), 0, 1);
    flat_idx = I32(SHAPE(2), 0, 1);
    one = scalar_of(KL_I32, 1);
    idx2 = I32(SHAPE(2), 1, 2);
    m22 = count_up(SHAPE(2, 2));
    m_row = F32(SHAPE(3), 1, 2, 3);
    one_row = F32(SHAPE(1), 1);
    cube = F32(SHAPE(1, 1, 2), 1, 2);
    rows = array_of(KL_F32, SHAPE(2, 3, 32), (float[192]){1, 2});
    m_rows = array_of(KL_F32, SHAPE(3, 32), (float[96]){1, 2});
    words = array_of(KL_U32, SHAPE(2, 3, 4), (uint32_t[24]){1, 2});
    by_groups = array_of(KL_F32, SHAPE(2, 3, 1), (float[6]){1, 2});
    h_groups = array_of(KL_F16, SHAPE(2, 3, 1), (uint16_t[6]){0x3c00});
    if (kl_astype(&half, v, KL_F16, cpu(), NULL) || kl_astype(&cond, v, KL_BOOL, cpu(), NULL))
        return 1;
    if (kl_random_key(&key, 1, NULL) || kl_transpose(&mt, m, cpu(), NULL)) return 1;
    if (kl_eval((struct kl_array *[]){half, cond}, 2, NULL)) return 1;
    byte = array_of(KL_U8, SHAPE(3), (uint8_t[]){0, 1, 2});
    complex = array_of(KL_C64, SHAPE(1), (float[]){1, 2});
    kl_until_quiet();
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_failure),
                                       cmocka_unit_test(every_case), cmocka_unit_test(lists)};
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    struct kl_array *all[] = {m,    v,      idx,   flat_idx,  half,     cond,   key,  one,
                              mt,   m_row,  cube,  one_row,   idx2,     m22,    four, one_d,
                              rows, m_rows, words, by_groups, h_groups, column, twice};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) kl_array_release(all[i]);
    kl_array_release(byte);
    kl_array_release(complex);
    return rc;
}
