/* test_optimizer.c - optimisers and schedules against NumPy in float64, on the CPU and on the
 * simulated device; dtypes; clipping; what a failed gradient reaches; bad arguments. */
#include "ops/support/helpers.h"

#include "runtime/fusion.h"
#include "train/optimizer.h"
#include "ops/golden/golden_train.inc"

/* The values of a (taken), as doubles. */
static double *doubles(struct kl_array *a) {
    struct kl_array *d;
    EXPECT_OK(kl_astype(&d, a, KL_F64, cpu(), &err));
    double *v = values_of(d);
    kl_array_release(d);
    kl_array_release(a);
    return v;
}

/* A parameter or gradient of TRAIN_N elements. */
static struct kl_array *vector(const double *values, enum kl_dtype dtype) {
    struct kl_array *wide = array_of(KL_F64, SHAPE(TRAIN_N), values), *out;
    EXPECT_OK(kl_astype(&out, wide, (int)dtype, cpu(), &err));
    kl_array_release(wide);
    return out;
}

/* `least` is the smallest size of a number to which `allowed` is relative. */
static void expect_near(struct kl_array *a /* taken */, const double *want, double allowed,
                        double least, const char *name, const char *what) {
    double *v = doubles(a);
    for (int i = 0; i < TRAIN_N; i++)
        if (!(fabs(v[i] - want[i]) <= allowed * fmax(fabs(want[i]), least)))
            fail_msg("%s: %s %d is %.10g, not %.10g", name, what, i, v[i], want[i]);
    free(v);
}

/* ---- right answers ---- */
/* All steps of a case on one parameter of the dtype, each evaluated or all at once. */
static void run_case(const struct train_case *c, enum kl_dtype dtype, struct kl_stream *s,
                     bool each) {
    int slots = kl_optimizer_slots(&c->rule);
    struct kl_array *p = vector(train_p, dtype), *state[3], *new_state[3], *new_p;
    struct kl_array *rate = scalar_of(dtype, c->rate);
    EXPECT_OK(kl_optimizer_check(&c->rule, &err));
    EXPECT_OK(kl_optimizer_init(state, &c->rule, &p, 1, s, &err));
    for (int t = 0; t < TRAIN_STEPS; t++) {
        struct kl_array *g = vector(train_grads + t * TRAIN_N, dtype);
        struct kl_optimizer_step step = {&c->rule, rate, 1, &p, &g, (size_t)(1 + slots), state};
        EXPECT_OK(kl_optimizer_apply(&new_p, new_state, &step, s, &err));
        kl_array_release(g);
        kl_array_release(p);
        p = new_p;
        for (int k = 0; k <= slots; k++) {
            kl_array_release(state[k]);
            state[k] = new_state[k];
        }
        if (each) EXPECT_OK(kl_eval(&p, 1, &err));
    }
    double allowed = dtype == KL_F64 ? 1e-14 : 1e-6;
    expect_near(p, c->p, allowed, 1, c->name, "parameter");
    if (slots > 0) expect_near(state[1], c->m, 8 * allowed, 1e-10, c->name, "first moment");
    if (slots > 1) expect_near(state[2], c->v, allowed, 1e-20, c->name, "second moment");
    int64_t *n = values_of(state[0]);
    assert_int_equal(*n, TRAIN_STEPS);
    free(n);
    kl_array_release(state[0]);
    kl_array_release(rate);
}

static void golden(void **state) {
    for (size_t i = 0; i < sizeof train_cases / sizeof *train_cases; i++) {
        run_case(&train_cases[i], KL_F32, cpu(), true);
        run_case(&train_cases[i], KL_F32, cpu(), false);
        run_case(&train_cases[i], KL_F64, cpu(), false);
        run_case(&train_cases[i], KL_F32, sim(), false);
    }
}

/* A step's update of a parameter, of any rule and dtype, is one group of element-wise operations:
 * the numbers that it needs are computed before it, not between its operations. */
static void one_pass(void **unused) {
    const struct kl_optimizer_rule rules[] = {
        {.kind = KL_OPTIMIZER_SGD, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true},
        {.kind = KL_OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
        {.kind = KL_OPTIMIZER_ADAM,
         .beta1 = 0.9,
         .beta2 = 0.999,
         .eps = 1e-8,
         .weight_decay = 0.01,
         .bias_correction = true},
        {.kind = KL_OPTIMIZER_ADAM,
         .beta1 = 0.9,
         .beta2 = 0.999,
         .eps = 1e-8,
         .weight_decay = 0.01,
         .bias_correction = true,
         .decoupled = true},
    };
    for (size_t i = 0; i < 2 * sizeof rules / sizeof *rules; i++) {
        const struct kl_optimizer_rule *rule = &rules[i / 2];
        enum kl_dtype dtype = i % 2 ? KL_BF16 : KL_F32;
        int slots = kl_optimizer_slots(rule);
        struct kl_array *p, *g, *new_p, *state[3], *new_state[3];
        struct kl_array *rate = scalar_of(KL_F32, 0.001);
        EXPECT_OK(kl_full(&p, (const int[]){4096}, 1, rate, (int)dtype, cpu(), &err));
        EXPECT_OK(kl_full(&g, (const int[]){4096}, 1, rate, (int)dtype, cpu(), &err));
        EXPECT_OK(kl_optimizer_init(state, rule, &p, 1, cpu(), &err));
        struct kl_array *made[] = {p, g, state[0], state[1], state[slots]};
        EXPECT_OK(kl_eval(made, 5, &err));
        struct kl_optimizer_step step = {rule, rate, 1, &p, &g, (size_t)(1 + slots), state};
        EXPECT_OK(kl_optimizer_apply(&new_p, new_state, &step, cpu(), &err));
        uint64_t before = kl_fusion_count();
        EXPECT_OK(kl_eval(&new_p, 1, &err));
        assert_int_equal(kl_fusion_count() - before, 1);
        for (int k = 0; k <= slots; k++) {
            kl_array_release(state[k]);
            kl_array_release(new_state[k]);
        }
        struct kl_array *all[] = {p, g, new_p, rate};
        for (int k = 0; k < 4; k++) kl_array_release(all[k]);
    }
}

/* Parameters of 16 bits: the state is float32, as if the gradients had been widened first, and the
 * parameter is that of float32, rounded once per step. */
static void narrow(void **unused) {
    static const enum kl_dtype dtypes[] = {KL_F16, KL_BF16};
    struct kl_optimizer_rule rule = {
        .kind = KL_OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
    for (int d = 0; d < 2; d++) {
        struct kl_array *p = vector(train_p, dtypes[d]), *g = vector(train_grads, dtypes[d]);
        struct kl_array *wide[2], *state[3], *out_p[2], *out_state[2][3], *rounded;
        struct kl_array *rate = scalar_of(KL_F32, 0.01);
        EXPECT_OK(kl_astype(&wide[0], p, KL_F32, cpu(), &err));
        EXPECT_OK(kl_astype(&wide[1], g, KL_F32, cpu(), &err));
        EXPECT_OK(kl_optimizer_init(state, &rule, &p, 1, cpu(), &err));
        for (int w = 0; w < 2; w++) {
            struct kl_optimizer_step step = {&rule, rate, 1, w ? &wide[0] : &p, w ? &wide[1] : &g,
                                             3,     state};
            EXPECT_OK(kl_optimizer_apply(&out_p[w], out_state[w], &step, cpu(), &err));
        }
        assert_int_equal(out_p[0]->t.dtype, dtypes[d]);
        EXPECT_OK(kl_astype(&rounded, out_p[1], (int)dtypes[d], cpu(), &err));
        double *a = doubles(out_p[0]), *b = doubles(rounded);
        assert_memory_equal(a, b, TRAIN_N * sizeof *a);
        free(a);
        free(b);
        for (int k = 1; k < 3; k++) {
            assert_int_equal(out_state[0][k]->t.dtype, KL_F32);
            float *x = values_of(out_state[0][k]), *y = values_of(out_state[1][k]);
            assert_memory_equal(x, y, TRAIN_N * sizeof *x);
            free(x);
            free(y);
        }
        for (int k = 0; k < 3; k++) {
            kl_array_release(state[k]);
            kl_array_release(out_state[0][k]);
            kl_array_release(out_state[1][k]);
        }
        kl_array_release(out_p[1]);
        kl_array_release(wide[0]);
        kl_array_release(wide[1]);
        kl_array_release(p);
        kl_array_release(g);
        kl_array_release(rate);
    }
}

/* A rate that is an operation, and a number of steps that is one: nothing is read when the step is
 * built, as in a function that is traced. */
static void lazy_scalars(void **unused) {
    const struct train_case *c = &train_cases[5];
    struct kl_array *p = vector(train_p, KL_F32), *state[3], *out_p, *out_state[3];
    struct kl_array *half = scalar_of(KL_F32, c->rate / 2), *rate, *step;
    assert_string_equal(c->name, "adam");
    EXPECT_OK(kl_add(&rate, half, half, cpu(), &err));
    EXPECT_OK(kl_optimizer_init(state, &c->rule, &p, 1, cpu(), &err));
    EXPECT_OK(kl_add(&step, state[0], state[0], cpu(), &err));
    kl_array_release(state[0]);
    state[0] = step;
    for (int t = 0; t < TRAIN_STEPS; t++) {
        struct kl_array *g = vector(train_grads + t * TRAIN_N, KL_F32);
        EXPECT_OK(kl_optimizer_apply(
            &out_p, out_state, &(struct kl_optimizer_step){&c->rule, rate, 1, &p, &g, 3, state},
            cpu(), &err));
        kl_array_release(g);
        kl_array_release(p);
        p = out_p;
        for (int k = 0; k < 3; k++) {
            kl_array_release(state[k]);
            state[k] = out_state[k];
        }
        assert_false(kl_array_settled(state[0]));
    }
    expect_near(p, c->p, 1e-6, 1, c->name, "parameter");
    int64_t *n = values_of(state[0]);
    assert_int_equal(*n, TRAIN_STEPS);
    free(n);
    for (int k = 0; k < 3; k++) kl_array_release(state[k]);
    kl_array_release(half);
    kl_array_release(rate);
}

/* A number of steps that an operation has made and that is known by now is no operation in the next
 * step: plain SGD never reads it, and it would grow into a chain. */
static void known_step(void **unused) {
    const struct train_case *c = &train_cases[0];
    struct kl_array *p = vector(train_p, KL_F32), *g = vector(train_grads, KL_F32), *state, *next;
    struct kl_array *out_p, *zero = scalar_of(KL_I64, 40), *two = scalar_of(KL_I64, 2);
    struct kl_array *rate = scalar_of(KL_F32, 1);
    EXPECT_OK(kl_add(&state, zero, two, cpu(), &err));
    EXPECT_OK(kl_eval(&state, 1, &err));
    EXPECT_OK(kl_optimizer_apply(&out_p, &next,
                                 &(struct kl_optimizer_step){&c->rule, rate, 1, &p, &g, 1, &state},
                                 cpu(), &err));
    assert_true(kl_array_settled(next));
    int64_t *n = values_of(next);
    assert_int_equal(*n, 43);
    free(n);
    kl_array_release(next);
    kl_array_release(out_p);
    kl_array_release(state);
    kl_array_release(zero);
    kl_array_release(two);
    kl_array_release(rate);
    kl_array_release(p);
    kl_array_release(g);
}

/* ---- schedules ---- */
static struct kl_schedule *schedule_of(const struct train_schedule *c) {
    struct kl_schedule *made, *parts[3];
    if (c->kind != KL_SCHEDULE_JOINED) {
        EXPECT_OK(kl_schedule_new(&made, c->kind, c->from, c->to, c->n_steps, &err));
        return made;
    }
    EXPECT_OK(kl_schedule_new(&parts[0], KL_SCHEDULE_LINEAR, 0, 1e-3, 10, &err));
    EXPECT_OK(kl_schedule_new(&parts[1], KL_SCHEDULE_COSINE, 1e-3, 1e-5, 100, &err));
    EXPECT_OK(kl_schedule_new(&parts[2], KL_SCHEDULE_STEPS, 5e-4, 0.5, 7, &err));
    EXPECT_OK(kl_schedule_join(&made, parts, 3, (int64_t[]){10, 60}, 2, &err));
    for (int i = 0; i < 3; i++) kl_schedule_release(parts[i]);
    return made;
}

static void schedules(void **unused) {
    static const enum kl_dtype dtypes[] = {KL_I32, KL_I64, KL_U32};
    for (size_t i = 0; i < sizeof train_schedules / sizeof *train_schedules; i++) {
        const struct train_schedule *c = &train_schedules[i];
        struct kl_schedule *sched = schedule_of(c);
        for (int k = 0; k < 2 * TRAIN_AT; k++) {
            struct kl_array *step = scalar_of(dtypes[k % 3], (double)train_at[k / 2]), *rate;
            EXPECT_OK(kl_schedule_rate(&rate, sched, step, k % 2 ? sim() : cpu(), &err));
            expect_shape(rate, SCALAR);
            assert_int_equal(rate->t.dtype, KL_F32);
            float *v = values_of(rate);
            double want = c->rate[k / 2];
            if (!(fabs(*v - want) <= 3e-7 * fmax(fabs(want), 1e-3)))
                fail_msg("%s at %lld: %.9g, not %.9g", c->name, (long long)train_at[k / 2],
                         (double)*v, want);
            free(v);
            kl_array_release(rate);
            kl_array_release(step);
        }
        kl_schedule_release(sched);
    }
}

static void bad_schedules(void **unused) {
    struct kl_schedule *out, *one, *nest[KL_SCHEDULE_DEPTH + 1], *many[KL_SCHEDULE_PARTS + 1];
    int64_t starts[KL_SCHEDULE_PARTS];
    EXPECT_FAIL(KL_EARG, kl_schedule_new((void *)&out, KL_SCHEDULE_LINEAR, NAN, 1, 1, &err));
    EXPECT_FAIL(KL_EARG, kl_schedule_new((void *)&out, KL_SCHEDULE_COSINE, 1, INFINITY, 1, &err));
    EXPECT_FAIL(KL_EARG, kl_schedule_new((void *)&out, KL_SCHEDULE_STEPS, 1, 1, 0, &err));
    EXPECT_OK(kl_schedule_new(&one, KL_SCHEDULE_CONSTANT, 1, 1, 1, &err));
    for (int i = 0; i <= KL_SCHEDULE_PARTS; i++) many[i] = one;
    for (int i = 0; i < KL_SCHEDULE_PARTS; i++) starts[i] = i + 1;
    EXPECT_FAIL(KL_EARG, kl_schedule_join((void *)&out, many, 0, NULL, 0, &err));
    EXPECT_FAIL(KL_EARG, kl_schedule_join((void *)&out, many, 2, starts, 2, &err));
    EXPECT_FAIL(KL_EARG, kl_schedule_join((void *)&out, many, 2, (int64_t[]){0}, 1, &err));
    EXPECT_FAIL(KL_EARG, kl_schedule_join((void *)&out, many, 3, (int64_t[]){5, 5}, 2, &err));
    EXPECT_FAIL(KL_ELIMIT, kl_schedule_join((void *)&out, many, KL_SCHEDULE_PARTS + 1, starts,
                                            KL_SCHEDULE_PARTS, &err));
    nest[0] = one;
    for (int i = 0; i < KL_SCHEDULE_DEPTH; i++)
        EXPECT_OK(kl_schedule_join(&nest[i + 1], &nest[i], 1, NULL, 0, &err));
    EXPECT_FAIL(KL_ELIMIT,
                kl_schedule_join((void *)&out, &nest[KL_SCHEDULE_DEPTH], 1, NULL, 0, &err));
    struct kl_array *list = count_up(SHAPE(2)), *real = scalar_of(KL_F32, 1);
    EXPECT_FAIL(KL_EARG, kl_schedule_rate((void *)&out, one, NULL, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_schedule_rate((void *)&out, one, list, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_schedule_rate((void *)&out, one, real, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_schedule_rate((void *)&out, one, real, NULL, &err));
    kl_array_release(list);
    kl_array_release(real);
    for (int i = 0; i <= KL_SCHEDULE_DEPTH; i++) kl_schedule_release(nest[i]);
}

/* ---- clipping ---- */
static void global_norm(void **unused) {
    static const double limits[] = {0, 1, 12.999, 13.5};
    for (int dtype = 0; dtype < 3; dtype++)
        for (int l = 0; l < 4; l++) {
            enum kl_dtype type = dtype == 0 ? KL_F32 : dtype == 1 ? KL_F64 : KL_BF16;
            struct kl_array *grads[2], *outs[2], *norm;
            struct kl_array *a = F32(SHAPE(2), 3, -4);
            grads[1] = F32(SHAPE(1, 1), 12);
            EXPECT_OK(kl_astype(&grads[0], a, (int)type, cpu(), &err));
            EXPECT_OK(kl_clip_global_norm(outs, &norm, grads, 2, limits[l], cpu(), &err));
            assert_int_equal(norm->t.dtype, type == KL_F64 ? KL_F64 : KL_F32);
            assert_int_equal(outs[0]->t.dtype, type);
            double *n = doubles(norm), *x = doubles(outs[0]), *y = doubles(outs[1]);
            double factor = fmin(1, limits[l] / (13 + 1e-6)), allowed = dtype == 2 ? 0x1p-8 : 3e-7;
            assert_true(fabs(*n - 13) < 1e-5);
            assert_true(fabs(x[0] - 3 * factor) <= allowed * 3);
            assert_true(fabs(x[1] + 4 * factor) <= allowed * 4);
            assert_true(fabs(y[0] - 12 * factor) <= 3e-7 * 12);
            free(n);
            free(x);
            free(y);
            kl_array_release(a);
            kl_array_release(grads[0]);
            kl_array_release(grads[1]);
        }
    struct kl_array *norm;
    EXPECT_OK(kl_clip_global_norm(NULL, &norm, NULL, 0, 1, cpu(), &err));
    EXPECT_F32(norm, SCALAR, 0);
}

static void values(void **unused) {
    struct kl_array *g = F32(SHAPE(5), -3, -0.5f, 0.25f, 7, NAN), *out;
    EXPECT_OK(kl_clip_values(&out, &g, 1, 0.5, cpu(), &err));
    EXPECT_F32(out, SHAPE(5), -0.5f, -0.5f, 0.25f, 0.5f, NAN);
    EXPECT_FAIL(KL_EARG, kl_clip_values(&out, &g, 1, -1, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_clip_values(&out, &g, 1, NAN, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_clip_values(&out, (struct kl_array *[]){NULL}, 1, 1, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_clip_values(&out, &g, 1, 1, NULL, &err));
    EXPECT_FAIL(KL_EARG, kl_clip_global_norm(&out, NULL, &g, 1, -1, cpu(), &err));
    kl_array_release(g);
    g = count_up(SHAPE(2));
    EXPECT_FAIL(KL_EDTYPE, kl_clip_values(&out, &g, 1, 1, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_clip_global_norm(&out, NULL, &g, 1, 1, cpu(), &err));
    kl_array_release(g);
}

/* ---- failures ---- */
/* A gradient that failed reaches its own parameter and state; through a common norm it reaches
 * all. */
static void failed_gradient(void **unused) {
    const struct train_case *c = &train_cases[5];
    struct kl_array *p[2], *g[2], *out_p[2], *state[5], *out_state[5], *clipped[2];
    struct kl_array *rate = scalar_of(KL_F32, c->rate);
    struct kl_error *why = kl_error_new(&(struct kl_error_info){.code = KL_EFILE}, "no such luck");
    for (int i = 0; i < 2; i++) p[i] = vector(train_p, KL_F32);
    g[0] = vector(train_grads, KL_F32);
    EXPECT_OK(kl_array_new_failed(&g[1], KL_F32, SHAPE(TRAIN_N), why, &err));
    EXPECT_OK(kl_optimizer_init(state, &c->rule, p, 2, cpu(), &err));
    struct kl_optimizer_step step = {&c->rule, rate, 2, p, g, 5, state};
    EXPECT_OK(kl_optimizer_apply(out_p, out_state, &step, cpu(), &err));
    expect_eval_fails(out_p[1], KL_EFILE, "no such luck");
    expect_eval_fails(out_state[2], KL_EFILE, "no such luck");
    expect_eval_fails(out_state[4], KL_EFILE, "no such luck");
    struct kl_array *good[] = {out_p[0], out_state[0], out_state[1], out_state[3]};
    EXPECT_OK(kl_eval(good, 4, &err));
    for (int i = 0; i < 4; i++) kl_array_release(good[i]);

    EXPECT_OK(kl_clip_global_norm(clipped, NULL, g, 2, 1, cpu(), &err));
    for (int i = 0; i < 2; i++) expect_eval_fails(clipped[i], KL_EFILE, "no such luck");
    for (int i = 0; i < 5; i++) kl_array_release(state[i]);
    for (int i = 0; i < 2; i++) {
        kl_array_release(p[i]);
        kl_array_release(g[i]);
    }
    kl_array_release(rate);
    kl_error_release(why);
}

static void bad_rules(void **unused) {
    static const struct kl_optimizer_rule bad[] = {
        {.kind = KL_OPTIMIZER_SGD, .momentum = -1},
        {.kind = KL_OPTIMIZER_SGD, .momentum = INFINITY},
        {.kind = KL_OPTIMIZER_SGD, .dampening = NAN},
        {.kind = KL_OPTIMIZER_SGD, .weight_decay = -0.1},
        {.kind = KL_OPTIMIZER_SGD, .nesterov = true},
        {.kind = KL_OPTIMIZER_SGD, .nesterov = true, .momentum = 0.9, .dampening = 0.1},
        {.kind = KL_OPTIMIZER_ADAM, .beta1 = 1},
        {.kind = KL_OPTIMIZER_ADAM, .beta2 = -0.5},
        {.kind = KL_OPTIMIZER_ADAM, .eps = -1},
        {.kind = KL_OPTIMIZER_ADAM, .weight_decay = NAN},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        void *out;
        EXPECT_FAIL(KL_EARG, kl_optimizer_check(&bad[i], &err));
    }
}

static void bad_steps(void **unused) {
    const struct kl_optimizer_rule *rule = &train_cases[5].rule;
    struct kl_array *p = F32(SHAPE(2), 1, 2), *g = F32(SHAPE(2), 1, 2), *state[3], *out;
    struct kl_array *other_shape = F32(SHAPE(1, 2), 1, 2), *whole = count_up(SHAPE(2));
    struct kl_array *rate = scalar_of(KL_F32, 1), *step = scalar_of(KL_I32, 0);
    EXPECT_OK(kl_optimizer_init(state, rule, &p, 1, cpu(), &err));
    const struct {
        int code;
        struct kl_array *rate, *p, *g, *step, *m, *v;
        size_t n_state;
        struct kl_stream *s;
    } bad[] = {
        {KL_EARG, NULL, p, g, state[0], state[1], state[2], 3, cpu()},
        {KL_ESHAPE, g, p, g, state[0], state[1], state[2], 3, cpu()},
        {KL_EDTYPE, step, p, g, state[0], state[1], state[2], 3, cpu()},
        {KL_EARG, rate, NULL, g, state[0], state[1], state[2], 3, cpu()},
        {KL_EDTYPE, rate, whole, g, state[0], state[1], state[2], 3, cpu()},
        {KL_EARG, rate, p, NULL, state[0], state[1], state[2], 3, cpu()},
        {KL_ESHAPE, rate, p, other_shape, state[0], state[1], state[2], 3, cpu()},
        {KL_EDTYPE, rate, p, whole, state[0], state[1], state[2], 3, cpu()},
        {KL_EARG, rate, p, g, NULL, state[1], state[2], 3, cpu()},
        {KL_EDTYPE, rate, p, g, step, state[1], state[2], 3, cpu()},
        {KL_ESHAPE, rate, p, g, whole, state[1], state[2], 3, cpu()},
        {KL_EARG, rate, p, g, state[0], NULL, state[2], 3, cpu()},
        {KL_ESHAPE, rate, p, g, state[0], state[1], other_shape, 3, cpu()},
        {KL_EDTYPE, rate, p, g, state[0], whole, state[2], 3, cpu()},
        {KL_EARG, rate, p, g, state[0], state[1], state[2], 2, cpu()},
        {KL_EARG, rate, p, g, state[0], state[1], state[2], 3, NULL},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct kl_array *old[] = {bad[i].step, bad[i].m, bad[i].v}, *made[3];
        struct kl_optimizer_step d = {rule,      bad[i].rate,    1,  &bad[i].p,
                                      &bad[i].g, bad[i].n_state, old};
        EXPECT_FAIL(bad[i].code, kl_optimizer_apply(&out, made, &d, bad[i].s, &err));
    }
    EXPECT_FAIL(KL_EDTYPE, kl_optimizer_init(&out, rule, &whole, 1, cpu(), &err));
    EXPECT_FAIL(KL_EARG,
                kl_optimizer_init(&out, rule, (struct kl_array *[]){NULL}, 1, cpu(), &err));
    for (int i = 0; i < 3; i++) kl_array_release(state[i]);
    struct kl_array *all[] = {p, g, other_shape, whole, rate, step};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) kl_array_release(all[i]);
}

/* ---- allocations ---- */
static int alloc_apply(struct kl_error **err) {
    const struct kl_optimizer_rule *rule = &train_cases[9].rule;
    struct kl_array *p[2], *g[2], *state[5], *out_p[2], *out_state[5], *clipped[2], *norm, *rate;
    for (int i = 0; i < 2; i++) p[i] = g[i] = NULL;
    struct kl_schedule *sched = NULL, *joined = NULL;
    int rc = kl_schedule_new(&sched, KL_SCHEDULE_COSINE, 1, 0, 10, err);
    if (!rc)
        rc = kl_schedule_join(&joined, (struct kl_schedule *[]){sched, sched}, 2, (int64_t[]){5}, 1,
                              err);
    for (int i = 0; i < 2 && !rc; i++) {
        rc = kl_array_new_data(&p[i], train_p, i ? KL_F64 : KL_BF16, 1, (int[]){2}, err);
        if (!rc) rc = kl_array_new_data(&g[i], train_p, i ? KL_F64 : KL_BF16, 1, (int[]){2}, err);
    }
    if (!rc && !(rc = kl_optimizer_init(state, rule, p, 2, cpu(), err))) {
        rc = kl_schedule_rate(&rate, joined, state[0], cpu(), err);
        if (!rc) {
            rc = kl_clip_global_norm(clipped, &norm, g, 2, 1, cpu(), err);
            if (!rc) {
                rc = kl_optimizer_apply(
                    out_p, out_state,
                    &(struct kl_optimizer_step){rule, rate, 2, p, clipped, 5, state}, cpu(), err);
                for (int i = 0; i < 2 && !rc; i++) kl_array_release(out_p[i]);
                for (int i = 0; i < 5 && !rc; i++) kl_array_release(out_state[i]);
                for (int i = 0; i < 2; i++) kl_array_release(clipped[i]);
                kl_array_release(norm);
            }
            kl_array_release(rate);
        }
        for (int i = 0; i < 5; i++) kl_array_release(state[i]);
    }
    if (!rc && !(rc = kl_clip_values(clipped, g, 2, 1, cpu(), err)))
        for (int i = 0; i < 2; i++) kl_array_release(clipped[i]);
    for (int i = 0; i < 2; i++) {
        kl_array_release(p[i]);
        kl_array_release(g[i]);
    }
    kl_schedule_release(sched);
    kl_schedule_release(joined);
    return rc;
}

static void allocations(void **unused) {
    EXPECT_OK(alloc_apply(&err));
    kl_until_quiet(); /* what was evaluated before is freed by other threads */
    for (int n = 0;; n++) {
        struct kl_error *err = NULL;
        int64_t live = kl_test_n_live();
        kl_test_fail_alloc_at(n);
        int rc = alloc_apply(&err);
        bool failed = kl_test_alloc_failed();
        kl_test_fail_alloc_at(-1);
        kl_error_release(err);
        if (!failed) {
            assert_int_equal(rc, KL_OK);
            assert_true(n > 50);
            return;
        }
        if (rc != KL_ENOMEM) fail_msg("allocation %d: code %d", n, rc);
        /* Less may live than before: a pool that gets no memory gives its cached blocks back. */
        if (kl_test_n_live() > live)
            fail_msg("allocation %d: %lld blocks leaked", n, (long long)(kl_test_n_live() - live));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden),          cmocka_unit_test(narrow),
        cmocka_unit_test(lazy_scalars),    cmocka_unit_test(known_step),
        cmocka_unit_test(schedules),       cmocka_unit_test(bad_schedules),
        cmocka_unit_test(global_norm),     cmocka_unit_test(values),
        cmocka_unit_test(failed_gradient), cmocka_unit_test(bad_rules),
        cmocka_unit_test(bad_steps),       cmocka_unit_test(allocations),
        cmocka_unit_test(one_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
