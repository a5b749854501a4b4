/* test_vmap_rules.c - the batch rule of each operation against a loop over lanes: the operation is
 * made for each lane alone and the results are stacked. For every set of mapped inputs, and 0, 1
 * and 3 lanes. */
#include "ops/build/vmap.h"
#include "ops/support/cases.h"
#include "ops/support/operations.h"
#include "ulp.h"

/* One call of a rule, with what a driver knows of the operation. */
struct call {
    struct recorded r; /* of one lane */
    struct kl_array *in[MOST_INPUTS];
    bool mapped[MOST_INPUTS];
    int lanes;
    bool on_device; /* the rule builds for the simulated device, and the loop for the CPU */
};

static struct kl_array *lane_of(struct kl_array *a, int lane) {
    struct kl_array *index = scalar_of(KL_I32, lane), *out;
    EXPECT_OK(kl_take_axis(&out, a, index, 0, cpu(), &err));
    kl_array_release(index);
    return out;
}

/* The results of all lanes, each made alone, stacked with the lane axis first. */
static struct kl_array *loop(const struct call *c) {
    struct kl_array *made[8], *out;
    assert_in_range(c->lanes, 1, 8);
    for (int lane = 0; lane < c->lanes; lane++) {
        struct kl_array *in[MOST_INPUTS];
        struct kl_build b = c->r.b;
        b.in = in;
        for (int i = 0; i < b.n_in; i++)
            in[i] = c->mapped[i] ? lane_of(c->in[i], lane) : kl_array_retain(c->in[i]);
        EXPECT_OK(kl_op_build(&b, &made[lane], &err));
        for (int i = 0; i < b.n_in; i++) kl_array_release(in[i]);
    }
    EXPECT_OK(kl_stack_axis(&out, made, (size_t)c->lanes, 0, cpu(), &err));
    for (int lane = 0; lane < c->lanes; lane++) kl_array_release(made[lane]);
    return out;
}

static int apply(const struct call *c, struct kl_stream *s, struct kl_array **out, int *axis,
                 struct kl_error **err) {
    const struct kl_vmap v = {.op = c->r.b.op,
                              .params = c->r.b.params,
                              .params_bytes = c->r.b.params_bytes,
                              .n_in = c->r.b.n_in,
                              .in = c->in,
                              .mapped = c->mapped,
                              .lanes = c->lanes,
                              .s = s,
                              .dtype = c->r.b.dtype,
                              .ndim = c->r.b.ndim,
                              .dims = c->r.b.dims};
    return kl_vmap_rule(v.op)(&v, out, axis, err);
}

/* ---- how much results may differ ---- */
/* Units in the last place of the dtype, relative to the largest element. Everything is equal in all
 * bits, except: products, where the rows of all lanes are one product, which adds up in another
 * order; norms of lanes that have their own weight or bias, where the kernel would have fused a
 * multiplication with an addition; attention, where lanes change how the kernel cuts its work; and
 * devices, which are compared with the CPU. */
static double allowed(const struct call *c) {
    if (c->on_device) return 64;
    switch (c->r.b.op) {
    case KL_OP_CONVOLUTION:
    case KL_OP_CONVOLUTION_BACKWARD:
    case KL_OP_QUANTIZED_MATMUL:
    case KL_OP_GATHER_QMM:
    case KL_OP_GATHER_MM:
    case KL_OP_SEGMENTED_MM:
    case KL_OP_MATMUL: return 8;
    case KL_OP_ATTENTION_BACKWARD:
    case KL_OP_ATTENTION: return 64;     /* of scores near 50, which are exponents */
    case KL_OP_NORM_BACKWARD: return 16; /* composed in another order */
    case KL_OP_RMS_NORM:
    case KL_OP_LAYER_NORM: {
        bool own = false;
        for (int i = 1; i < c->r.b.n_in; i++) own = own || c->mapped[i];
        return own ? 4 : 0;
    }
    default: return 0;
    }
}

static double *as_doubles(struct kl_array *a, int64_t *n) {
    struct kl_array *parts, *wide;
    EXPECT_OK(kl_view(&parts, a, a->t.dtype == KL_C64 ? KL_F32 : (int)a->t.dtype, cpu(), &err));
    EXPECT_OK(kl_astype(&wide, parts, KL_F64, cpu(), &err));
    *n = wide->t.size;
    double *v = values_of(wide);
    kl_array_release(parts);
    kl_array_release(wide);
    return v;
}

static const char *text_of(const struct call *c, const char *name) {
    static char text[160];
    int at = snprintf(text, sizeof text, "%s (%s, %d lanes, mapped", name,
                      kl_dtype_name((enum kl_dtype)c->in[0]->t.dtype), c->lanes);
    for (int i = 0; i < c->r.b.n_in; i++)
        if (c->mapped[i]) at += snprintf(text + at, sizeof text - (size_t)at, " %d", i);
    snprintf(text + at, sizeof text - (size_t)at, ")");
    return text;
}

static void compare(const struct call *c, const char *name, struct kl_array *x,
                    struct kl_array *y) {
    if (x->t.dtype != y->t.dtype || !kl_shape_is(x, y->t.ndim, y->t.dims))
        fail_msg("%s: %s of shape %s, not %s", text_of(c, name),
                 kl_dtype_name((enum kl_dtype)x->t.dtype), KL_SHAPE_TEXT_OF(x),
                 KL_SHAPE_TEXT_OF(y));
    if (allowed(c) == 0) {
        void *v = values_of(x), *w = values_of(y);
        for (int64_t i = 0; i < x->t.size; i++)
            if (!same_element((enum kl_dtype)x->t.dtype, v, w, i))
                fail_msg("%s: element %lld differs", text_of(c, name), (long long)i);
        free(v);
        free(w);
        return;
    }
    int64_t n;
    double *v = as_doubles(x, &n), *w = as_doubles(y, &n), most = 0;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(w[i]) && fabs(w[i]) > most) most = fabs(w[i]);
    for (int64_t i = 0; i < n; i++)
        if (!same_element(KL_F64, v, w, i) &&
            !(fabs(v[i] - w[i]) <= allowed(c) * kl_test_epsilon((enum kl_dtype)x->t.dtype) * most))
            fail_msg("%s: element %lld is %.9g, not %.9g", text_of(c, name), (long long)i, v[i],
                     w[i]);
    free(v);
    free(w);
}

/* ---- the calls ---- */

/* The recorded operation of one lane, and inputs in which those of `set` have lanes. `odd`: the
 * lanes of mapped inputs do not follow each other in memory. */
static void prepare(struct call *c, const struct op_case *oc, enum kl_dtype dtype, unsigned set,
                    int lanes, bool odd, uint32_t *seed) {
    struct kl_array *in[MOST_INPUTS], *out;
    for (int i = 0; i < oc->n_in; i++) in[i] = make_input(&oc->in[i], dtype, -1, seed);
    EXPECT_OK(build_case(&out, oc, in, &err));
    struct kl_node *n = find_node(out, oc->op);
    assert_non_null(n);
    record(&c->r, n);
    kl_array_release(out);
    for (int i = 0; i < oc->n_in; i++) kl_array_release(in[i]);
    c->lanes = lanes;
    c->on_device = false;
    /* the inputs of the recorded operation are those of the case, or casts and views of them */
    for (int i = 0; i < c->r.b.n_in; i++) {
        struct kl_array *own = c->r.in[i];
        c->mapped[i] = set >> i & 1;
        if (!c->mapped[i]) {
            c->in[i] = kl_array_retain(own);
            continue;
        }
        struct op_input what = {.dtype = own->t.dtype, .ndim = own->t.ndim};
        bool given = false;
        for (int k = 0; k < own->t.ndim; k++) what.dims[k] = own->t.dims[k];
        for (int k = 0; k < oc->n_in && !given; k++) {
            enum kl_dtype d = oc->in[k].dtype == SAMPLED ? dtype : (enum kl_dtype)oc->in[k].dtype;
            if (k != (oc->n_in == c->r.b.n_in ? i : k) || d != (enum kl_dtype)own->t.dtype)
                continue;
            if (oc->in[k].values == SQUARES && own->t.ndim < 2) continue;
            what.values = oc->in[k].values;
            what.below = oc->in[k].below;
            given = true;
        }
        c->in[i] = make_input(&what, dtype, lanes, seed);
        if (odd) c->in[i] = strided(c->in[i]);
    }
}

static void discard(struct call *c) {
    for (int i = 0; i < c->r.b.n_in; i++) kl_array_release(c->in[i]);
    forget(&c->r);
}

/* Whether a is b, or a view or a copy of it. */
static bool comes_from(struct kl_array *a, const struct kl_array *b) {
    while (a != b) {
        const struct kl_node *n = a->node;
        if (!n || n->n_in != 1) return false;
        a = n->in[0];
    }
    return true;
}

/* No operation copies an input that has no lanes, from `a` down to the inputs. What has one number
 * for each head, or for each element of a batch, is left out: sinks and offsets. */
static void expect_no_copies(const struct call *c, const char *name, struct kl_array *a) {
    const struct kl_node *n = a->node;
    if (!n) return;
    for (int i = 0; i < c->r.b.n_in; i++) {
        if (a == c->in[i]) return;
        if (n->task.op == KL_OP_COPY && !c->mapped[i] && c->in[i]->t.ndim > 1 &&
            comes_from(n->in[0], c->in[i]))
            fail_msg("%s: input %d is copied", text_of(c, name), i);
    }
    for (int i = 0; i < n->n_in; i++) expect_no_copies(c, name, n->in[i]);
}

static void check(struct call *c, const char *name) {
    struct kl_array *out, *front;
    struct kl_error *why = NULL;
    int axis = -2;
    if (apply(c, c->on_device ? sim() : cpu(), &out, &axis, &why))
        fail_msg("%s: %s", text_of(c, name), why->message);
    if (c->r.b.op != KL_OP_COPY) expect_no_copies(c, name, out);
    if (c->lanes == 0 && axis >= 0) {
        int dims[9], n = 0;
        assert_in_range(axis, 0, c->r.b.ndim);
        for (int i = 0; i <= c->r.b.ndim; i++) dims[i] = i == axis ? 0 : c->r.b.dims[n++];
        if (!kl_shape_is(out, c->r.b.ndim + 1, dims) || out->t.dtype != c->r.b.dtype)
            fail_msg("%s: shape %s", text_of(c, name), KL_SHAPE_TEXT_OF(out));
        assert_int_equal(kl_eval(&out, 1, NULL), KL_OK);
        kl_array_release(out);
        return;
    }
    if (axis == -1) { /* the same for all lanes */
        EXPECT_OK(kl_expand_dims(&front, out, 0, cpu(), &err));
        kl_array_release(out);
        out = front;
        int dims[9] = {c->lanes};
        for (int i = 0; i < c->r.b.ndim; i++) dims[i + 1] = c->r.b.dims[i];
        EXPECT_OK(kl_broadcast_to(&front, out, dims, (size_t)c->r.b.ndim + 1, cpu(), &err));
    } else {
        assert_in_range(axis, 0, c->r.b.ndim);
        EXPECT_OK(kl_moveaxis(&front, out, axis, 0, cpu(), &err));
    }
    struct kl_array *want = c->lanes ? loop(c) : kl_array_retain(front);
    compare(c, name, front, want);
    kl_array_release(front);
    kl_array_release(out);
    kl_array_release(want);
}

/* The inputs of the recorded operation, which may be more or less than those of the case. */
static int n_recorded(const struct op_case *oc) {
    return oc->op == KL_OP_DEPENDS || oc->op == KL_OP_DET ? 2 : oc->n_in;
}

static void against_a_loop(void **state) {
    static const int lanes[] = {3, 1, 0};
    uint32_t seed = 7;
    for (int i = 0; i < N_CASES; i++) {
        const struct op_case oc = case_number(i);
        if (!kl_vmap_rule(oc.op) || oc.n_in == 0) continue;
        for (int d = 0; d < KL_N_DTYPES; d++) {
            if (!(oc.dtypes >> d & 1)) continue;
            /* Every sample has each case with its first dtype. */
            if (oc.dtypes & ((1u << d) - 1) && !kl_test_takes("cpu", 2)) continue;
            int n_in = n_recorded(&oc);
            for (unsigned set = 1; set < 1u << n_in; set++)
                for (int k = 0; k < 3; k++)
                    for (int odd = 0; odd < (lanes[k] == 3 ? 2 : 1); odd++) {
                        struct call c;
                        prepare(&c, &oc, (enum kl_dtype)d, set, lanes[k], odd, &seed);
                        assert_int_equal(c.r.b.n_in, n_in);
                        check(&c, oc.name);
                        discard(&c);
                    }
        }
    }
}

/* Devices have the same rules, and other kernels. */
static void on_a_device(void **state) {
    uint32_t seed = 9;
    for (int i = 0; i < N_OP_CASES; i++) {
        const struct op_case *oc = &op_cases[i];
        if (!kl_vmap_rule(oc->op) || oc->n_in == 0 || oc->op == KL_OP_FFT) continue;
        enum kl_dtype dtype =
            oc->dtypes & BIT(KL_F32) ? KL_F32 : (enum kl_dtype)__builtin_ctz(oc->dtypes);
        int n_in = n_recorded(oc);
        for (unsigned set = 1; set < 1u << n_in; set++)
            for (int lanes = 0; lanes < 4; lanes += 3) {
                struct call c;
                prepare(&c, oc, dtype, set, lanes, false, &seed);
                c.on_device = true;
                check(&c, oc->name);
                discard(&c);
            }
    }
}

/* ---- attention with a mask that is a broadcast view ---- */

/* A mask of shape (b, 1, 1, m), or (1, 1, n, m), is not made larger in memory by its lanes. */
static void broadcast_masks(void **state) {
    const struct op_case *oc = NULL;
    uint32_t seed = 3;
    for (int i = 0; i < N_OP_CASES && !oc; i++)
        if (op_cases[i].build == do_attention_mask) oc = &op_cases[i];
    assert_non_null(oc);
    for (unsigned set = 1; set < 16; set++)
        for (int which = 0; which < 2; which++) {
            struct call c;
            struct kl_array *view;
            prepare(&c, oc, KL_F32, set, 3, false, &seed);
            struct op_input small = {OF(KL_BOOL, 2, 1, 1, 5), MIXED, 0};
            int dims[] = {3, 2, 4, 3, 5};
            if (which) small.dims[0] = 1, small.dims[2] = 3;
            struct kl_array *mask = make_input(&small, KL_F32, set >> 3 ? 3 : -1, &seed);
            EXPECT_OK(set >> 3 ? kl_broadcast_to(&view, mask, dims, 5, cpu(), &err)
                               : kl_broadcast_to(&view, mask, dims + 1, 4, cpu(), &err));
            kl_array_release(c.in[3]);
            c.in[3] = view;
            struct kl_array *out;
            int axis;
            EXPECT_OK(apply(&c, cpu(), &out, &axis, &err));
            c.mapped[3] = false; /* a mask with lanes is not copied either */
            expect_no_copies(&c, oc->name, out);
            c.mapped[3] = set >> 3;
            kl_array_release(out);
            check(&c, "broadcast mask");
            kl_array_release(mask);
            discard(&c);
        }
}

/* Lanes of queries are more heads of the same keys and values, in one operation. */
static void queries_share_keys(void **state) {
    const struct op_case *oc = NULL;
    uint32_t seed = 5;
    for (int i = 0; i < N_OP_CASES && !oc; i++)
        if (op_cases[i].build == do_attention_causal) oc = &op_cases[i];
    assert_non_null(oc);
    struct call c;
    struct kl_array *out;
    int axis;
    prepare(&c, oc, KL_F32, 1, 3, false, &seed);
    EXPECT_OK(apply(&c, cpu(), &out, &axis, &err));
    struct kl_node *n = find_node(out, KL_OP_ATTENTION);
    assert_int_equal(axis, 2);
    assert_int_equal(n->in[0]->t.dims[1], 3 * c.in[0]->t.dims[2]);
    assert_ptr_equal(n->in[1], c.in[1]);
    assert_ptr_equal(n->in[2], c.in[2]);
    kl_array_release(out);
    discard(&c);
}

/* ---- which index is out of range ---- */
static void bad_indices(void **state) {
    struct kl_array *a = F32(SHAPE(2, 4), 1, 2, 3, 4, 5, 6, 7, 8), *out;
    struct kl_array *index = I32(SHAPE(2, 3), 0, 1, 2, 3, 9, 1);
    struct {
        int n_axes, ndim, v[2];
    } p = {1, 1, {0, 1}};
    struct kl_array *in[2] = {a, index};
    const bool mapped[2] = {true, true};
    struct kl_vmap v = {.op = KL_OP_GATHER,
                        .params = &p,
                        .params_bytes = sizeof p,
                        .n_in = 2,
                        .in = in,
                        .mapped = mapped,
                        .lanes = 2,
                        .s = cpu(),
                        .dtype = KL_F32,
                        .ndim = 2,
                        .dims = (int[]){3, 1}};
    int axis;
    for (int device = 0; device < 2; device++) {
        if (device) v.s = sim();
        EXPECT_OK(kl_vmap_rule(KL_OP_GATHER)(&v, &out, &axis, &err));
        /* element 1 of lane 1, and the axis of the array of one lane */
        struct kl_error *why = NULL;
        assert_int_equal(kl_eval(&out, 1, &why), KL_EINDEX);
        assert_non_null(strstr(why->message, "for axis 0 of size 4 (lane 1, at position 1)"));
        kl_error_release(why);
        expect_index_fault(out, 1, 0, 9, 4);
    }
    kl_array_release(a);
    kl_array_release(index);
}

/* ---- failures ---- */

/* Each rule survives the failure of each of its allocations. */
static void allocation_failures(void **state) {
    kl_until_quiet(); /* what was evaluated before is freed by other threads */
    uint32_t seed = 11;
    for (int i = 0; i < N_OP_CASES; i++) {
        const struct op_case *oc = &op_cases[i];
        if (oc->n_in == 0 || !kl_vmap_rule(oc->op)) continue;
        enum kl_dtype dtype =
            oc->dtypes & BIT(KL_F32) ? KL_F32 : (enum kl_dtype)__builtin_ctz(oc->dtypes);
        int n_in = n_recorded(oc);
        for (unsigned set = 1; set < 1u << n_in; set++) {
            struct call c;
            prepare(&c, oc, dtype, set, 2, true, &seed);
            for (int n = 0;; n++) {
                struct kl_array *out = (void *)oc;
                struct kl_error *err = NULL;
                int64_t live = kl_test_n_live();
                int axis;
                kl_test_fail_alloc_at(n);
                int rc = apply(&c, cpu(), &out, &axis, &err);
                bool failed = kl_test_alloc_failed();
                kl_test_fail_alloc_at(-1);
                if (!failed) {
                    assert_int_equal(rc, KL_OK);
                    kl_array_release(out);
                    break;
                }
                if (rc != KL_ENOMEM || !err)
                    fail_msg("%s, allocation %d: code %d", text_of(&c, oc->name), n, rc);
                kl_error_release(err);
                assert_int_equal(kl_test_n_live(), live);
            }
            discard(&c);
        }
    }
}

/* An array with the most axes has no room for that of the lanes. */
static void too_many_axes(void **state) {
    int ones[KL_MAX_NDIM];
    for (int i = 0; i < KL_MAX_NDIM; i++) ones[i] = 1;
    struct kl_array *x = F32(SHAPE(2, 1), 1, 2), *wide, *flat = F32(SHAPE(1), 1), *out;
    EXPECT_OK(kl_reshape(&wide, flat, ones, KL_MAX_NDIM, cpu(), &err));
    struct {
        int n, v[KL_MAX_NDIM];
    } p = {.n = KL_MAX_NDIM};
    memcpy(p.v, ones, sizeof ones);
    struct kl_array *in[2] = {x, wide};
    const bool mapped[2] = {true, false};
    int axis;
    struct kl_vmap v = {.op = KL_OP_RESHAPE,
                        .params = &p,
                        .params_bytes = sizeof p,
                        .n_in = 1,
                        .in = in,
                        .mapped = mapped,
                        .lanes = 2,
                        .s = cpu(),
                        .dtype = KL_F32,
                        .ndim = KL_MAX_NDIM,
                        .dims = ones};
    EXPECT_FAIL(KL_ESHAPE, kl_vmap_rule(v.op)(&v, &out, &axis, &err));
    v.op = KL_OP_BROADCAST;
    EXPECT_FAIL(KL_ESHAPE, kl_vmap_rule(v.op)(&v, &out, &axis, &err));
    v.op = KL_OP_CONCATENATE;
    v.params_bytes = sizeof(struct kl_axis_params);
    v.n_in = 2;
    EXPECT_FAIL(KL_ESHAPE, kl_vmap_rule(v.op)(&v, &out, &axis, &err));
    v.op = KL_OP_EXP;
    v.params_bytes = 0;
    v.n_in = 1;
    EXPECT_FAIL(KL_ESHAPE, kl_vmap_rule(v.op)(&v, &out, &axis, &err));
    kl_array_release(x);
    kl_array_release(flat);
    kl_array_release(wide);
}

/* What can be made again has a rule, unless it has no inputs. */
static void rules_of_rows(void **state) {
    for (int op = 0; op < KL_N_OPS; op++) {
        bool can = kl_op_can_build((enum kl_op_id)op) && op != KL_OP_ARANGE && op != KL_OP_RECV;
        if (!kl_vmap_rule((enum kl_op_id)op) == can) fail_msg("%s", kl_op_name((enum kl_op_id)op));
    }
    assert_null(kl_vmap_rule(KL_N_OPS));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_of_rows),      cmocka_unit_test(against_a_loop),
        cmocka_unit_test(on_a_device),        cmocka_unit_test(broadcast_masks),
        cmocka_unit_test(queries_share_keys), cmocka_unit_test(bad_indices),
        cmocka_unit_test(too_many_axes),      cmocka_unit_test(allocation_failures)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
