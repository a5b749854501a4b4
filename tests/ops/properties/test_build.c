/* test_build.c - operations made again from their parameters: the same operation with the same bits
 * for parameters that a builder wrote, and an error or a sound operation for parameters, numbers of
 * inputs, dtypes and shapes that nobody wrote. */
#include "base/op/param_form.h"
#include "ops/support/cases.h"
#include "ops/support/operations.h"

/* Bytes between the fields of a struct of parameters, which have no meaning. */
static bool is_padding(enum kl_op_id op, size_t at) {
    const struct kl_param_form *f = kl_param_form(op);
    if (!f || at >= f->head) return false;
    for (int i = 0; i < KL_PARAM_FIELDS && f->field[i].type; i++)
        if (at >= f->field[i].offset && at < f->field[i].offset + kl_param_bytes(f->field[i].type))
            return false;
    return true;
}

static void same_params(const struct op_case *c, const struct kl_build *b,
                        const struct kl_task *t) {
    if (t->op != b->op || t->params_bytes != b->params_bytes)
        fail_msg("%s: %s with %zu bytes", c->name, kl_op_name(t->op), t->params_bytes);
    for (size_t i = 0; i < b->params_bytes; i++)
        if (((const char *)t->params)[i] != ((const char *)b->params)[i] && !is_padding(b->op, i))
            fail_msg("%s: byte %zu of the parameters differs", c->name, i);
}

static void same_values(const struct op_case *c, struct kl_array *x, struct kl_array *y) {
    if (x->t.dtype != y->t.dtype || !kl_shape_is(x, y->t.ndim, y->t.dims))
        fail_msg("%s: another dtype or shape", c->name);
    void *v = values_of(x), *w = values_of(y);
    for (int64_t i = 0; i < x->t.size; i++)
        if (!same_element((enum kl_dtype)x->t.dtype, v, w, i))
            fail_msg("%s of %s: element %lld differs", c->name,
                     kl_dtype_name((enum kl_dtype)x->t.dtype), (long long)i);
    free(v);
    free(w);
}

/* Calls the builder of a case and records its operation. Returns the output of the operation. */
static struct kl_array *make(struct recorded *r, const struct op_case *c, enum kl_dtype dtype,
                             uint32_t *seed) {
    struct kl_array *in[MOST_INPUTS], *out;
    for (int i = 0; i < c->n_in; i++) in[i] = make_input(&c->in[i], dtype, -1, seed);
    EXPECT_OK(build_case(&out, c, in, &err));
    struct kl_node *n = find_node(out, c->op);
    if (!n) fail_msg("%s of %s: not recorded", c->name, kl_dtype_name(dtype));
    record(r, n);
    struct kl_array *made = kl_array_retain(n->out[0]);
    kl_array_release(out);
    for (int i = 0; i < c->n_in; i++) kl_array_release(in[i]);
    return made;
}

static void made_again(void **state) {
    uint32_t seed = 1;
    for (int i = 0; i < N_CASES; i++) {
        struct op_case c = case_number(i);
        for (int d = 0; d < KL_N_DTYPES; d++) {
            if (!(c.dtypes >> d & 1)) continue;
            struct recorded r;
            struct kl_array *first = make(&r, &c, (enum kl_dtype)d, &seed), *again;
            EXPECT_OK(kl_op_build(&r.b, &again, &err));
            struct kl_node *n = again->node;
            assert_non_null(n);
            same_params(&c, &r.b, &n->task);
            assert_int_equal(n->n_in, r.b.n_in);
            for (int k = 0; k < n->n_in; k++) { /* nothing was cast, moved or copied again */
                assert_int_equal(n->in[k]->t.dtype, r.in[k]->t.dtype);
                assert_true(kl_shape_is(n->in[k], r.in[k]->t.ndim, r.in[k]->t.dims));
            }
            assert_int_equal(again->has_range, first->has_range);
            same_values(&c, first, again);
            kl_array_release(first);
            kl_array_release(again);
            forget(&r);
        }
    }
}

/* Every operation has a case, or it cannot be made again. Those of groups of processes are made
 * again by compiled functions of several ranks (api/distributed_transforms). */
static void every_row(void **state) {
    bool tried[KL_N_OPS] = {false};
    for (int i = 0; i < N_CASES; i++) tried[case_number(i).op] = true;
    for (int op = 0; op < KL_N_OPS; op++) {
        assert_int_equal(kl_op_is_collective((enum kl_op_id)op),
                         (kl_op_flags((enum kl_op_id)op) & KL_OPF_COLLECTIVE) != 0);
        if (tried[op] != kl_op_can_build((enum kl_op_id)op) &&
            !kl_op_is_collective((enum kl_op_id)op))
            fail_msg("%s: %s", kl_op_name((enum kl_op_id)op),
                     tried[op] ? "no function" : "no case in cases.h");
    }
    assert_false(kl_op_can_build(KL_OP_CALL));
    assert_false(kl_op_can_build(KL_OP_KERNEL));
    assert_false(kl_op_can_build(KL_N_OPS));
}

/* ---- inputs of other extents ---- */
static void other_extents(void **state) {
    struct kl_array *x = F32(SHAPE(2, 3), 1, 2, 3, 4, 5, 6), *sum, *out;
    struct kl_array *wide = F32(SHAPE(3, 2), 1, 2, 3, 4, 5, 6), *row = F32(SHAPE(1, 3), 1, 2, 3);
    EXPECT_OK(kl_sum_axes(&sum, x, LIST(1), true, cpu(), &err));
    struct recorded r;
    record(&r, sum->node);
    struct kl_build b = r.b;
    b.in = &wide;
    EXPECT_OK(kl_op_build(&b, &out, &err));
    EXPECT_F32(out, SHAPE(3, 1), 3, 7, 11);
    forget(&r);
    kl_array_release(sum);
    /* views keep their recorded shape */
    struct {
        int n, v[2];
    } flat = {1, {6}}, to = {2, {2, 3}};
    b = (struct kl_build){.op = KL_OP_RESHAPE,
                          .params = &flat,
                          .params_bytes = 8,
                          .in = &wide,
                          .n_in = 1,
                          .s = cpu()};
    EXPECT_OK(kl_op_build(&b, &out, &err));
    EXPECT_F32(out, SHAPE(6), 1, 2, 3, 4, 5, 6);
    b.in = &row;
    EXPECT_FAIL(KL_ESHAPE, kl_op_build(&b, &out, &err));
    b = (struct kl_build){.op = KL_OP_BROADCAST,
                          .params = &to,
                          .params_bytes = 12,
                          .in = &row,
                          .n_in = 1,
                          .s = cpu()};
    EXPECT_OK(kl_op_build(&b, &out, &err));
    EXPECT_F32(out, SHAPE(2, 3), 1, 2, 3, 1, 2, 3);
    b.in = &wide;
    EXPECT_FAIL(KL_ESHAPE, kl_op_build(&b, &out, &err));
    kl_array_release(x);
    kl_array_release(wide);
    kl_array_release(row);
}

/* kl_op_make is kl_op_build of its arguments. */
static void made_of_arguments(void **state) {
    struct kl_array *x = F32(SHAPE(2, 2), 0, 0, 5, 5), *out;
    EXPECT_OK(kl_op_make(&out, KL_OP_SOFTMAX, KL_PARAMS_OF(softmax, 1, 1), &x, 1, cpu(), &err));
    EXPECT_F32(out, SHAPE(2, 2), 0.5f, 0.5f, 0.5f, 0.5f);
    EXPECT_FAIL(KL_EAXIS,
                kl_op_make(&out, KL_OP_SOFTMAX, KL_PARAMS_OF(softmax, 2, 1), &x, 1, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_op_make(&out, KL_OP_SOFTMAX, NULL, 0, &x, 1, cpu(), &err));
    kl_array_release(x);
}

/* A batch of keys gives each key's own bits. */
static void batch_of_keys(void **state) {
    struct kl_array *keys = array_of(KL_U32, SHAPE(2, 2), (uint32_t[]){1, 2, 3, 4}), *out, *one[2];
    for (int i = 0; i < 2; i++) {
        struct kl_array *key;
        key = array_of(KL_U32, SHAPE(2), (uint32_t[]){1 + 2 * (uint32_t)i, 2 + 2 * (uint32_t)i});
        EXPECT_OK(kl_random_bits(&one[i], LIST(5), 4, key, cpu(), &err));
        kl_array_release(key);
    }
    int width = 4;
    struct kl_build b = {.op = KL_OP_RANDOM_BITS,
                         .params = &width,
                         .params_bytes = 4,
                         .in = &keys,
                         .n_in = 1,
                         .s = cpu(),
                         .dtype = KL_U32,
                         .ndim = 2,
                         .dims = (int[]){9, 5}};
    EXPECT_OK(kl_op_build(&b, &out, &err));
    expect_shape(out, SHAPE(2, 5));
    uint32_t *v = values_of(out), *w[2] = {values_of(one[0]), values_of(one[1])};
    for (int i = 0; i < 10; i++) assert_int_equal(v[i], w[i / 5][i % 5]);
    b.ndim = 0;
    struct kl_array *made = out;
    EXPECT_FAIL(KL_ESHAPE, kl_op_build(&b, &out, &err));
    free(v);
    kl_array_release(made);
    for (int i = 0; i < 2; i++) {
        free(w[i]);
        kl_array_release(one[i]);
    }
    kl_array_release(keys);
}

/* ---- refusals ---- */
static void refusals(void **state) {
    struct kl_array *x = F32(SHAPE(2, 3), 1, 2, 3, 4, 5, 6), *list[2] = {x, NULL}, *out;
    struct kl_build b = {.op = KL_OP_CALL, .in = list, .n_in = 1, .s = cpu()};
    EXPECT_FAIL(KL_EUNSUPPORTED, kl_op_build(&b, &out, &err));
    b.op = KL_OP_KERNEL;
    EXPECT_FAIL(KL_EUNSUPPORTED, kl_op_build(&b, &out, &err));
    b.op = KL_N_OPS;
    EXPECT_FAIL(KL_EARG, kl_op_build(&b, &out, &err));
    b.op = (enum kl_op_id)0xffffffff;
    EXPECT_FAIL(KL_EARG, kl_op_build(&b, &out, &err));
    b.op = KL_OP_EXP;
    b.params_bytes = 4;
    EXPECT_FAIL(KL_EARG, kl_op_build(&b, &out, &err)); /* params are NULL */
    b.params_bytes = 0;
    b.n_in = 2;
    EXPECT_FAIL(KL_EARG, kl_op_build(&b, &out, &err));
    b.op = KL_OP_ADD;
    EXPECT_FAIL(KL_EARG, kl_op_build(&b, &out, &err)); /* an input is NULL */
    b.op = KL_OP_DEPENDS;
    b.n_in = 0;
    EXPECT_FAIL(KL_EARG, kl_op_build(&b, &out, &err));
    b.n_in = -1;
    EXPECT_FAIL(KL_EARG, kl_op_build(&b, &out, &err));
    b.n_in = 1;
    b.in = NULL;
    EXPECT_FAIL(KL_EARG, kl_op_build(&b, &out, &err));
    /* axes are counted from 0, and are there */
    static const enum kl_op_id along[] = {KL_OP_SORT, KL_OP_ARGMAX, KL_OP_CONCATENATE};
    for (int i = 0; i < 3; i++)
        for (int axis = -1; axis < 3; axis += 3) {
            b = (struct kl_build){.op = along[i],
                                  .params = &axis,
                                  .params_bytes = sizeof axis,
                                  .in = list,
                                  .n_in = 1,
                                  .s = cpu()};
            EXPECT_FAIL(KL_EAXIS, kl_op_build(&b, &out, &err));
        }
    /* a dtype in which nothing is summed */
    struct {
        int n, v[1];
    } sum = {1, {0}};
    b = (struct kl_build){.op = KL_OP_SUM,
                          .params = &sum,
                          .params_bytes = 8,
                          .in = list,
                          .n_in = 1,
                          .s = cpu(),
                          .dtype = KL_F16};
    EXPECT_FAIL(KL_EDTYPE, kl_op_build(&b, &out, &err));
    b.dtype = (enum kl_dtype)77;
    EXPECT_FAIL(KL_EDTYPE, kl_op_build(&b, &out, &err));
    /* a range of bool, and one whose numbers do not fit */
    struct kl_arange_params range = {0, 1};
    b = (struct kl_build){.op = KL_OP_ARANGE,
                          .params = &range,
                          .params_bytes = sizeof range,
                          .s = cpu(),
                          .dtype = KL_BOOL,
                          .ndim = 1,
                          .dims = (int[]){3}};
    EXPECT_FAIL(KL_EDTYPE, kl_op_build(&b, &out, &err));
    b.dtype = KL_I32;
    range.start = 0x1p63;
    EXPECT_FAIL(KL_EARG, kl_op_build(&b, &out, &err));
    range.start = NAN;
    EXPECT_FAIL(KL_EARG, kl_op_build(&b, &out, &err));
    range.start = 0.5;
    EXPECT_FAIL(KL_EARG, kl_op_build(&b, &out, &err));
    b.dtype = KL_F32;
    b.ndim = 2;
    EXPECT_FAIL(KL_EARG, kl_op_build(&b, &out, &err));
    kl_array_release(x);
}

/* Parameters are read at any alignment. */
static void unaligned(void **state) {
    struct kl_array *x = F32(SHAPE(3), 1, 2, 3), *out;
    char room[64];
    struct kl_slice_params *p = malloc(sizeof *p + 16);
    memset(p, 0, sizeof *p + 16);
    p->ndim = 1;
    p->v[0] = 2;
    p->v[1] = -1;
    memcpy(room + 1, p, sizeof *p + 16);
    struct kl_build b = {.op = KL_OP_SLICE,
                         .params = room + 1,
                         .params_bytes = sizeof *p + 16,
                         .in = &x,
                         .n_in = 1,
                         .s = cpu(),
                         .dtype = KL_F32,
                         .ndim = 1,
                         .dims = (int[]){3}};
    EXPECT_OK(kl_op_build(&b, &out, &err));
    EXPECT_F32(out, SHAPE(3), 3, 2, 1);
    free(p);
    kl_array_release(x);
}

/* ---- hostile descriptions ---- */

/* Builds b, and evaluates what was built if it is small. Nothing is said of the result but that
 * there is one, or an error with a message. */
static void try_it(const struct kl_build *b, int *built) {
    struct kl_array *out = (void *)b;
    struct kl_error *err = NULL;
    int rc = kl_op_build(b, &out, &err);
    if (rc) {
        assert_ptr_equal(out, b);
        assert_non_null(err);
        assert_int_equal(err->code, rc);
        assert_true(strlen(err->message) > 8);
        kl_error_release(err);
        return;
    }
    ++*built;
    if (out->t.size < 1 << 16) {
        rc = kl_eval(&out, 1, &err);
        if (rc) assert_true(strlen(err->message) > 8);
        kl_error_release(err);
    }
    kl_array_release(out);
}

/* A value that is likely to be wrong. */
static uint32_t odd_number(uint32_t *seed) {
    static const uint32_t odd[] = {
        0, 1, 2, 3, 4, 5, 0xffffffff, 0xfffffffe, INT32_MAX, 0x80000000, 0x40000000, 64, 65, 63};
    uint32_t x = next_random(seed);
    return x % 3 ? odd[x / 3 % (sizeof odd / sizeof *odd)] : x;
}

static void spoil(char *params, size_t bytes, uint32_t *seed) {
    for (uint32_t n = 1 + next_random(seed) % 2; n > 0 && bytes > 0; n--) {
        uint32_t at = next_random(seed) % (uint32_t)bytes, x = odd_number(seed);
        if (bytes >= 4 && next_random(seed) % 2) /* a whole member */
            memcpy(params + (at & ~3u), &x, bytes - (at & ~3u) < 4 ? bytes - (at & ~3u) : 4);
        else
            params[at] ^= (char)(1 << next_random(seed) % 8);
    }
}

static void hostile(void **state) {
    enum { ROUNDS = 60, OTHERS = 10 };
    static const struct op_input others[OTHERS] = {{OF(KL_F32), MIXED, 0},
                                                   {OF(KL_I32, 3), INDICES, 5},
                                                   {OF(KL_BOOL, 2, 3), MIXED, 0},
                                                   {OF(KL_C64, 2, 3), MIXED, 0},
                                                   {OF(KL_F16, 0, 4), MIXED, 0},
                                                   {OF(KL_U8, 2, 3, 4), MIXED, 0},
                                                   {OF(KL_F64, 1, 2, 3, 4), MIXED, 0},
                                                   {OF(KL_U32, 2), MIXED, 0},
                                                   {OF(KL_I64, 2, 1, 2), INDICES, 3},
                                                   {OF(KL_BF16, 4), MIXED, 0}};
    struct kl_array *other[OTHERS];
    uint32_t seed = 20261;
    int built = 0, tried = 0;
    for (int i = 0; i < OTHERS; i++) other[i] = make_input(&others[i], KL_F32, -1, &seed);
    assert_int_equal(kl_eval(other, OTHERS, NULL), KL_OK);
    for (int i = 0; i < N_CASES; i++) {
        struct op_case c = case_number(i);
        enum kl_dtype dtype =
            c.dtypes & BIT(KL_F32) ? KL_F32 : (enum kl_dtype)__builtin_ctz(c.dtypes);
        struct recorded r;
        kl_array_release(make(&r, &c, dtype, &seed));
        int rounds = i < N_OP_CASES ? ROUNDS : 12;
        for (int k = 0; k < rounds; k++) {
            struct kl_array *in[MOST_INPUTS + 1];
            int dims[8];
            struct kl_build b = r.b;
            size_t bytes = b.params_bytes;
            char *params = malloc(bytes + 9); /* exactly as long as stated, for the sanitizer */
            for (int j = 0; j < b.n_in; j++) in[j] = r.in[j];
            for (int j = 0; j < b.ndim; j++) dims[j] = r.dims[j];
            memcpy(params, b.params, bytes);
            switch (k % 6) {
            case 0: b.params_bytes = next_random(&seed) % (uint32_t)(bytes + 9); break;
            case 1:
                in[b.n_in] = other[0], b.n_in = (int)(next_random(&seed) % (uint32_t)(b.n_in + 2));
                break;
            case 2:
                if (b.n_in > 0)
                    in[next_random(&seed) % (uint32_t)b.n_in] = other[next_random(&seed) % OTHERS];
                break;
            case 3:
                if (b.ndim > 0)
                    dims[next_random(&seed) % (uint32_t)b.ndim] = (int)odd_number(&seed);
                b.dtype = (enum kl_dtype)(odd_number(&seed) % 20);
                break;
            default: spoil(params, bytes, &seed);
            }
            memset(params + bytes, 0x41, 9);
            char *exact = malloc(b.params_bytes + !b.params_bytes);
            memcpy(exact, params, b.params_bytes);
            b.params = exact;
            b.in = in;
            b.dims = dims;
            try_it(&b, &built);
            tried++;
            free(exact);
            free(params);
        }
        forget(&r);
    }
    assert_true(tried > 5000);
    assert_true(built > tried / 50); /* some changes are harmless: the others were not all refused
                                        for one reason */
    for (int i = 0; i < OTHERS; i++) kl_array_release(other[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row),     cmocka_unit_test(made_again),
        cmocka_unit_test(other_extents), cmocka_unit_test(made_of_arguments),
        cmocka_unit_test(batch_of_keys), cmocka_unit_test(refusals),
        cmocka_unit_test(unaligned),     cmocka_unit_test(hostile)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
