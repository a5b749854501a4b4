/* vjp_support.h - checks a vjp rule against central differences: for the operation that a builder
 * makes, the gradient of sum(cotangent * out) with respect to each input. */
#pragma once
#include "ops/support/helpers.h"

#include "graph/node.h"
#include "graph/tracing.h"
#include "ops/build/vjp.h"

/* Makes *out from the inputs by one operation that takes these inputs (and possibly others that
 * need no gradient). */
typedef int vjp_build_fn(struct kl_array **out, struct kl_array *const *in, const void *how,
                         struct kl_error **err);

/* Part `i` (real or imaginary) of the elements, which are float64, float32 or complex64. */
static inline double vjp_part(const struct kl_array *a, const void *data, int64_t i) {
    return a->t.dtype == KL_F64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
}
static inline int64_t vjp_parts(const struct kl_array *a) {
    return a->t.size * (a->t.dtype == KL_C64 ? 2 : 1);
}

/* sum(cotangent * out) of the builder's result on `in`. The parts of complex numbers count as
 * separate numbers. */
static inline double vjp_value(vjp_build_fn *build, struct kl_array *const *in, const void *how,
                               const double *cotangent) {
    struct kl_array *out;
    double sum = 0;
    EXPECT_OK(build(&out, in, how, &err));
    void *v = values_of(out);
    for (int64_t i = 0; i < vjp_parts(out); i++) sum += cotangent[i] * vjp_part(out, v, i);
    free(v);
    kl_array_release(out);
    return sum;
}

/* Makes the arrays tracers of a new trace, so that operations on them keep their inputs. */
static inline struct kl_trace *begin_trace(struct kl_array *const *in, int n) {
    struct kl_trace *t;
    EXPECT_OK(kl_trace_begin(&t, &err));
    for (int j = 0; j < n; j++)
        if (!in[j]->trace) in[j]->trace = kl_trace_retain(t);
    return t;
}

/* The arrays are tracers no more; what was built from them still belongs to the trace. */
static inline void leave_trace(struct kl_array *const *in, int n) {
    for (int j = 0; j < n; j++) {
        kl_trace_release(in[j]->trace);
        in[j]->trace = NULL;
    }
}

/* `in` are float64, float32 or complex64 arrays, or arrays of other dtypes, which then have no
 * gradient. The operation that `build` makes takes at least one of them directly. rtol is relative
 * to the largest gradient; 0 stands for 1e-7, or for 1e-2 where an array is float32 or complex64.
 * The function must be smooth within 1e-5 of the values. */
static inline void check_vjp(const char *what, vjp_build_fn *build, const void *how,
                             struct kl_array *const *in, int n_in, double rtol) {
    enum { MAX_IN = 8 };
    struct kl_array *out, *cotangent, *grad[MAX_IN] = {0};
    bool wanted[MAX_IN];
    int tried = 0;
    /* keeps the operation of a view in the graph */
    struct kl_trace *trace = begin_trace(in, n_in);
    EXPECT_OK(build(&out, in, how, &err));
    leave_trace(in, n_in);
    struct kl_node *node = out->node;
    if (!node) fail_msg("%s: not an operation", what);
    kl_vjp_fn *rule = kl_vjp_rule(node->task.op);
    if (!rule) fail_msg("%s: no rule", what);
    assert_in_range(node->n_in, 1, MAX_IN);
    bool single = out->t.dtype != KL_F64;
    int64_t parts = vjp_parts(out);
    double *c = malloc((size_t)(parts + 1) * sizeof *c);
    float *c32 = malloc((size_t)(parts + 1) * sizeof *c32);
    uint32_t state = 12345;
    for (int64_t i = 0; i < parts; i++) {
        state = state * 1664525u + 1013904223u;
        c32[i] = (float)(state >> 8) / (float)(1 << 24) * 2 - 1;
        c[i] = c32[i];
    }
    cotangent = array_of(out->t.dtype, out->t.ndim, out->t.dims,
                         out->t.dtype == KL_F64 ? (const void *)c : c32);
    for (int k = 0; k < MAX_IN; k++) wanted[k] = true;
    struct kl_vjp v = {node->task.op, node->task.params, node->n_in, 1,    node->in,
                       &out,          &cotangent,        wanted,     cpu()};
    EXPECT_OK(rule(&v, grad, &err));
    for (int j = 0; j < n_in; j++) {
        struct kl_array *x = in[j], *g = NULL;
        bool seen = false;
        if (x->t.dtype != KL_F64 && x->t.dtype != KL_F32 && x->t.dtype != KL_C64) continue;
        double *sum = calloc((size_t)vjp_parts(x) + 1, sizeof *sum), most = 1e-3;
        for (int k = 0; k < v.n_in; k++) { /* an input may occur twice */
            if (node->in[k] != x) continue;
            seen = true;
            if (!(g = grad[k])) continue;
            assert_int_equal(g->t.dtype, x->t.dtype);
            expect_shape(g, x->t.ndim, x->t.dims);
            void *got = values_of(g);
            for (int64_t i = 0; i < vjp_parts(x); i++) sum[i] += vjp_part(g, got, i);
            free(got);
        }
        for (int64_t i = 0; i < vjp_parts(x); i++) most = fmax(most, fabs(sum[i]));
        single = single || x->t.dtype != KL_F64;
        double allowed = most * (rtol > 0 ? rtol : single ? 1e-2 : 1e-7);
        double step = single ? 1e-2 : 1e-5;
        void *at = values_of(x);
        for (int64_t i = 0; seen && i < vjp_parts(x); i++) {
            double side[2], was = vjp_part(x, at, i), moved[2];
            for (int k = 0; k < 2; k++) {
                struct kl_array *with[MAX_IN];
                memcpy(with, in, (size_t)n_in * sizeof *in);
                double to = was + (k ? step : -step);
                if (x->t.dtype == KL_F64)
                    ((double *)at)[i] = to;
                else
                    ((float *)at)[i] = (float)to;
                moved[k] = vjp_part(x, at, i);
                with[j] = array_of(x->t.dtype, x->t.ndim, x->t.dims, at);
                side[k] = vjp_value(build, with, how, c);
                kl_array_release(with[j]);
            }
            if (x->t.dtype == KL_F64)
                ((double *)at)[i] = was;
            else
                ((float *)at)[i] = (float)was;
            double want = (side[1] - side[0]) / (moved[1] - moved[0]);
            if (!(fabs(want - sum[i]) <= allowed))
                fail_msg("%s: input %d, part %lld: %.12g, central difference %.12g", what, j,
                         (long long)i, sum[i], want);
        }
        tried += seen;
        free(at);
        free(sum);
    }
    if (!tried) fail_msg("%s: no input is one of the operation", what);
    for (int k = 0; k < MAX_IN; k++) kl_array_release(grad[k]);
    kl_trace_end(trace);
    kl_array_release(cotangent);
    kl_array_release(out);
    free(c);
    free(c32);
}
