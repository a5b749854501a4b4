/* test_no_memory.c - every lowering that needs a workspace asks for it when its operation is
 * encoded, takes no memory itself, and refuses to run without. */
#include "lower_support.h"

#include "backend/gpu/lower/rope.h"
#include "ops/build/params.h"

/* Runs an operation on inputs of these shapes. The parameters must lead to a way that needs
 * a workspace. */
struct input {
    enum kl_dtype dtype;
    enum layout layout;
    int ndim, dims[LS_DIMS];
};
static void check(enum kl_op_id op, const void *params, const struct input *inputs, int n_in,
                  struct input output) {
    struct operand in[5], out;
    struct kl_arg args[6];
    struct kl_error *err = NULL;
    for (int i = 0; i < n_in; i++)
        ls_make(&in[i], inputs[i].dtype, inputs[i].ndim, inputs[i].dims, inputs[i].layout, PLAIN);
    ls_make_out(&out, output.dtype, output.ndim, output.dims);
    for (int i = 0; i <= n_in; i++) {
        const struct operand *o = i < n_in ? &in[i] : &out;
        args[i] = o->arg;
        args[i].data = (char *)o->device + (size_t)o->first * kl_dtype_size(o->arg.dtype);
    }
    struct kl_command c = {.kind = KL_CMD_LAUNCH,
                           .op = op,
                           .name = kl_op_name(op),
                           .params = params,
                           .n_in = n_in,
                           .n_out = 1,
                           .args = args};
    size_t bytes[2] = {0, 0};
    for (int i = 0; i < 2; i++) /* the second time the size is found among those prepared lately */
        assert_int_equal(kl_lower_prepare(kh.lowering, &c, &bytes[i], &err), KL_OK);
    if (bytes[0] == 0) fail_msg("%s asks for no workspace", kl_op_name(op));
    assert_int_equal(bytes[0], bytes[1]);
    const int rc = kh_launch(&c, 1, &err);
    if (rc != KL_EINTERNAL || !strstr(err->message, "workspace"))
        fail_msg("%s: %d", kl_op_name(op), rc);
    kl_error_release(err);
    err = NULL;
    assert_int_equal(kh_lower(&c, &err), KL_OK);
    char *got = malloc(out.bytes);
    kh_read(got, out.device, out.bytes); /* waits until the device has done its work */
    free(got);
    for (int i = 0; i < n_in; i++) ls_drop(&in[i]);
    ls_drop(&out);
}

/* Its axes do not merge, and are more than a kernel takes: a copy is made. */
static const struct input many = {KL_F32, TRANSPOSED, 12, {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}};

static void reductions(void **state) {
    static const enum kl_op_id ops[] = {KL_OP_SUM, KL_OP_PROD, KL_OP_ALL, KL_OP_LOGSUMEXP};
    struct {
        struct kl_reduce_params p;
        int axes[1];
    } p = {{.n_axes = 1}, {0}};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        check(ops[i], &p, &(struct input){KL_F32, DENSE, 1, {300000}}, 1,
              (struct input){ops[i] == KL_OP_ALL ? KL_BOOL : KL_F32, DENSE, 1, {1}});
    struct {
        struct kl_var_params p;
        int axes[1];
    } var = {{.n_axes = 1}, {0}};
    check(KL_OP_VAR, &var, &(struct input){KL_F32, DENSE, 1, {300000}}, 1,
          (struct input){KL_F32, DENSE, 1, {1}});
    check(KL_OP_ARGMAX, &(struct kl_axis_params){0}, &(struct input){KL_F32, DENSE, 1, {300000}}, 1,
          (struct input){KL_U32, DENSE, 1, {1}});
}

static void scans(void **state) {
    const struct kl_scan_params p = {0, false, true};
    const struct input row = {KL_F32, DENSE, 1, {200000}}, columns = {KL_F32, DENSE, 2, {40000, 2}};
    for (int op = KL_OP_CUMSUM; op <= KL_OP_LOGCUMSUMEXP; op++) {
        check((enum kl_op_id)op, &p, &row, 1, row);
        check((enum kl_op_id)op, &p, &columns, 1, columns);
    }
}

static void rows(void **state) {
    const struct kl_softmax_params softmax = {0, 1};
    const struct input row = {KL_F32, DENSE, 1, {200000}};
    check(KL_OP_SOFTMAX, &softmax, &row, 1, row);
    const struct kl_rope_params rope = {8, false, false, 10000, 1};
    /* A few rows have their angles as an argument instead. */
    const struct input x[] = {{KL_F32, DENSE, 3, {1, KL_ROPE_FEW / 8 + 1, 8}},
                              {KL_I32, DENSE, 0, {0}}};
    check(KL_OP_ROPE, &rope, x, 2, x[0]);
}

static void sorts(void **state) {
    const struct input row = {KL_F32, DENSE, 1, {100000}};
    check(KL_OP_SORT, &(struct kl_axis_params){0}, &row, 1, row);
    check(KL_OP_ARGSORT, &(struct kl_axis_params){0}, &row, 1,
          (struct input){KL_U32, DENSE, 1, {100000}});
    check(KL_OP_PARTITION, &(struct kl_partition_params){0, 5}, &row, 1, row);
    check(KL_OP_TOPK, &(struct kl_partition_params){0, 64}, &row, 1,
          (struct input){KL_F32, DENSE, 1, {64}});
}

static void attention(void **state) {
    const struct kl_attention_params p = {.scale = 1};
    const struct input in[] = {{KL_F32, DENSE, 4, {1, 1, 1, 16}},
                               {KL_F32, DENSE, 4, {1, 1, 2000, 16}},
                               {KL_F32, DENSE, 4, {1, 1, 2000, 16}}};
    check(KL_OP_ATTENTION, &p, in, 3, in[0]);
    const struct input x = {KL_F32, DENSE, 4, {1, 1, 400, 16}}, back[] = {x, x, x, x, x};
    check(KL_OP_ATTENTION_BACKWARD, &p, back, 5, (struct input){KL_F32, DENSE, 1, {19200}});
}

static void convolution(void **state) {
    const struct kl_convolution_params p = {
        .ndim = 1, .groups = 1, .stride = {1}, .dilation = {1}, .input_dilation = {1}};
    const struct input in[] = {{KL_F32, DENSE, 3, {12, 700, 8}}, {KL_F32, DENSE, 3, {30, 690, 8}}};
    check(KL_OP_CONVOLUTION, &p, in, 2, (struct input){KL_F32, DENSE, 3, {12, 11, 30}});
    const struct input unfolded[] = {{KL_F32, DENSE, 3, {1, 4100, 3}},
                                     {KL_F32, DENSE, 3, {16, 3, 3}}};
    check(KL_OP_CONVOLUTION, &p, unfolded, 2, (struct input){KL_F32, DENSE, 3, {1, 4098, 16}});
    const struct input exchanged[] = {{KL_F32, TRANSPOSED, 3, {12, 70, 8}},
                                      {KL_F32, TRANSPOSED, 3, {30, 69, 8}}};
    check(KL_OP_CONVOLUTION, &p, exchanged, 2, (struct input){KL_F32, DENSE, 3, {12, 2, 30}});
}

static void convolution_backward(void **state) {
    const struct kl_convolution_backward_params p = {
        {.ndim = 1, .groups = 8, .stride = {1}, .dilation = {1}, .input_dilation = {1}}, {3}};
    const struct input dense[] = {{KL_F32, DENSE, 3, {2, 300, 8}}, {KL_F32, DENSE, 3, {2, 298, 8}}},
                       copied[] = {{KL_F32, TRANSPOSED, 3, {2, 300, 8}},
                                   {KL_F32, TRANSPOSED, 3, {2, 298, 8}}},
                       out = {KL_F32, DENSE, 3, {8, 3, 1}};
    check(KL_OP_CONVOLUTION_BACKWARD, &p, dense, 2, out);
    check(KL_OP_CONVOLUTION_BACKWARD, &p, copied, 2, out);
}

static void quantized(void **state) {
    const struct kl_quant_format f = {KL_QUANT_AFFINE, 64, 4};
    const struct input in[] = {{KL_F32, DENSE, 2, {20, 128}},
                               {KL_U32, TRANSPOSED, 2, {24, 16}},
                               {KL_F32, TRANSPOSED, 2, {24, 2}},
                               {KL_F32, DENSE, 2, {24, 2}}};
    check(KL_OP_QUANTIZED_MATMUL, &(struct kl_qmm_params){f, true}, in, 4,
          (struct input){KL_F32, DENSE, 2, {20, 24}});
    check(KL_OP_DEQUANTIZE, &(struct kl_dequantize_params){f, KL_F32}, in + 1, 3,
          (struct input){KL_F32, DENSE, 2, {24, 128}});
    check(KL_OP_QUANTIZE, &(struct kl_quantize_params){f, KL_QUANTIZE_CODES, KL_U32},
          &(struct input){KL_F32, TRANSPOSED, 2, {20, 128}}, 1,
          (struct input){KL_U32, DENSE, 2, {20, 16}});
}

static void fft(void **state) {
    static const int lengths[] = {10000, 10007}; /* in two launches; a convolution */
    for (int i = 0; i < 2; i++) {
        const struct input row = {KL_C64, DENSE, 1, {lengths[i]}};
        const struct kl_fft_buf p = {.scale = 1, .n_axes = 1};
        check(KL_OP_FFT, &p, &row, 1, row);
    }
}

static void copies(void **state) {
    struct input out = many;
    out.layout = DENSE;
    check(KL_OP_CUMSUM, &(struct kl_scan_params){11, false, true}, &many, 1, out);
    check(KL_OP_SOFTMAX, &(struct kl_softmax_params){6, 6}, &many, 1, out);
    check(KL_OP_RMS_NORM, &(struct kl_norm_params){1e-5f, false, false}, &many, 1, out);
    check(KL_OP_SORT, &(struct kl_axis_params){0}, &many, 1, out);
    out.dtype = KL_C64;
    check(KL_OP_FFT, &(struct kl_fft_buf){.scale = 1, .n_axes = 1}, &many, 1, out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reductions),  cmocka_unit_test(scans),
        cmocka_unit_test(rows),        cmocka_unit_test(sorts),
        cmocka_unit_test(attention),   cmocka_unit_test(copies),
        cmocka_unit_test(convolution), cmocka_unit_test(convolution_backward),
        cmocka_unit_test(quantized),   cmocka_unit_test(fft),
    };
    return cmocka_run_group_tests(tests, kh_setup, NULL);
}
