/* test_quantized_gradients.c - gradients, jvps and rounding of quantized matrices. */
#include "ops/support/quantized_support.h"

#include "graph/node.h"
#include "ops/build/jvp.h"
#include "ops/support/vjp_support.h"

/* ---- gradients ---- */

struct how {
    struct kl_quant_format f;
    bool transpose, gather;
};

static int build_product(struct kl_array **out, struct kl_array *const *in, const void *how,
                         struct kl_error **err) {
    const struct how *h = how;
    if (h->gather)
        return kl_gather_qmm(out, in[0], in[1], in[2], in[3], in[4], in[5], h->transpose, &h->f,
                             cpu(), err);
    return kl_quantized_matmul(out, in[0], in[1], in[2], in[3], h->transpose, &h->f, cpu(), err);
}

static int build_numbers(struct kl_array **out, struct kl_array *const *in, const void *how,
                         struct kl_error **err) {
    const struct how *h = how;
    const int f32 = KL_F32;
    const bool affine = h->f.mode == KL_QUANT_AFFINE;
    return kl_dequantize(out, in[0], in[1], affine ? in[2] : NULL, &h->f, affine ? NULL : in[2],
                         &f32, cpu(), err);
}

static void gradients(void **state) {
    static const struct how ways[] = {{{KL_QUANT_AFFINE, 32, 4}, true, false},
                                      {{KL_QUANT_AFFINE, 32, 3}, false, false},
                                      {{KL_QUANT_AFFINE, 64, 2}, true, true},
                                      {{KL_QUANT_AFFINE, 32, 5}, false, true}};
    for (int i = 0; i < 4; i++) {
        const struct how *h = &ways[i];
        const int wide = 64, other = 3;
        struct kl_array *w =
            random_of(KL_F32, h->gather ? 3 : 2,
                      h->gather ? (int[]){2, other, wide} : (int[]){other, wide}, 1);
        struct kl_array *q[3], *in[6];
        const int x_cols = h->transpose ? wide : other;
        quantize(q, w, &h->f, NULL);
        in[0] = random_of(KL_F32, h->gather ? 3 : 2,
                          h->gather ? (int[]){3, 2, x_cols} : (int[]){2, x_cols}, 2);
        for (int k = 0; k < 3; k++) {
            EXPECT_OK(kl_copy(&in[1 + k], q[k], cpu(), &err)); /* views have another node */
            EXPECT_OK(kl_eval(&in[1 + k], 1, &err));
        }
        in[4] = I32(SHAPE(4), 0, 2, 2, 1);
        in[5] = I32(SHAPE(4), 1, 1, 0, 1);
        check_vjp("a quantized product", build_product, h, in, h->gather ? 6 : 4, 0);
        if (!h->gather) check_vjp("dequantize", build_numbers, h, in + 1, 3, 0);
        release(in, 6);
        release(q, 3);
        kl_array_release(w);
    }
    /* the global scale */
    const struct how nv = {{KL_QUANT_NVFP4, 16, 4}, true, false};
    struct kl_array *w = random_of(KL_F32, SHAPE(3, 32), 1), *q[3], *in[3];
    struct kl_array *scale = scalar_of(KL_F32, 100);
    quantize(q, w, &nv.f, scale);
    in[0] = q[0];
    in[1] = q[1];
    in[2] = scale;
    check_vjp("dequantize", build_numbers, &nv, in, 3, 0);
    release(q, 2);
    kl_array_release(w);
    kl_array_release(scale);
}

/* The product along tangents of x, scales and biases is the sum of three products. */
static void forward(void **state) {
    const struct kl_quant_format f = {KL_QUANT_AFFINE, 32, 4};
    struct kl_array *w = random_of(KL_F32, SHAPE(3, 64), 1), *q[3], *out, *made = NULL;
    struct kl_array *x = random_of(KL_F32, SHAPE(2, 64), 2),
                    *dx = random_of(KL_F32, SHAPE(2, 64), 3);
    struct kl_array *ds = random_of(KL_F32, SHAPE(3, 2), 4), *want[2], *sum, *zeros;
    quantize(q, w, &f, NULL);
    EXPECT_OK(kl_quantized_matmul(&out, x, q[0], q[1], q[2], true, &f, cpu(), &err));
    EXPECT_OK(kl_zeros_like(&zeros, ds, cpu(), &err));
    struct kl_node *n = out->node;
    struct kl_array *tangent[4] = {dx, NULL, ds, NULL};
    const struct kl_jvp j = {n->task.op, n->task.params, n->task.params_bytes, n->n_in, n->in, out,
                             tangent,    cpu()};
    EXPECT_OK(kl_jvp_rule(KL_OP_QUANTIZED_MATMUL)(&j, &made, &err));
    EXPECT_OK(kl_quantized_matmul(&want[0], dx, q[0], q[1], q[2], true, &f, cpu(), &err));
    EXPECT_OK(kl_quantized_matmul(&want[1], x, q[0], ds, zeros, true, &f, cpu(), &err));
    EXPECT_OK(kl_add(&sum, want[0], want[1], cpu(), &err));
    double *v = doubles_of(sum);
    near(made, v, 1e-5, "tangent");
    free(v);
    struct kl_array *used[] = {w, x, dx, ds, zeros, out, made, want[0], want[1], sum};
    release(used, 10);
    release(q, 3);
}

/* The gradient of qqmm is that of the product without rounding; scales of quantize have none. */
static void gradients_of_rounding(void **state) {
    const struct kl_quantize_params p = {{KL_QUANT_MXFP4, 32, 4}, KL_QUANTIZE_VALUES, KL_F32};
    struct kl_array *x = random_of(KL_F16, SHAPE(2, 32), 1),
                    *g = random_of(KL_F32, SHAPE(2, 32), 2);
    struct kl_array *grad[1] = {NULL}, *out = g;
    const bool wanted = true;
    struct kl_vjp v = {KL_OP_QUANTIZE, &p, 1, 1, &x, &out, &g, &wanted, cpu()};
    EXPECT_OK(kl_vjp_rule(KL_OP_QUANTIZE)(&v, grad, &err));
    assert_int_equal(grad[0]->t.dtype, KL_F16);
    double *want = doubles_of(g);
    near(grad[0], want, 0x1p-10, "gradient of rounding");
    free(want);
    kl_array_release(grad[0]);
    grad[0] = NULL;
    struct kl_quantize_params scales = p;
    scales.part = KL_QUANTIZE_SCALES;
    scales.format = (struct kl_quant_format){KL_QUANT_AFFINE, 32, 4};
    v.params = &scales;
    struct kl_error *err = NULL;
    assert_int_equal(kl_vjp_rule(KL_OP_QUANTIZE)(&v, grad, &err), KL_EUNSUPPORTED);
    assert_null(grad[0]);
    kl_error_release(err);
    kl_array_release(x);
    kl_array_release(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients), cmocka_unit_test(forward),
                                       cmocka_unit_test(gradients_of_rounding)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
