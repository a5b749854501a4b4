/* test_train.c - keel/train.h: handles, steps that train, steps that fail and are undone,
 * checkpoints, bad arguments, and every allocation failing in turn. */
#include "api/api_support.h"

#include <math.h>
#include <unistd.h>

#include <keel/train.h>

static const keel_optimizer no_optimizer = {NULL};
static const keel_schedule no_schedule = {NULL};
static const mlx_vector_string no_names = {NULL};
static const mlx_map_string_to_string no_map = {NULL};

static mlx_vector_array list_of(mlx_array a, mlx_array b) {
    mlx_vector_array v = mlx_vector_array_new_data((mlx_array[]){a, b}, 2);
    assert_non_null(v.ctx);
    mlx_array_free(a);
    mlx_array_free(b);
    return v;
}

static mlx_vector_string two_names(void) {
    mlx_vector_string v = mlx_vector_string_new_data((const char *[]){"layer.weight", "bias"}, 2);
    assert_non_null(v.ctx);
    return v;
}

/* The text of element i of a list. */
static const char *element(mlx_vector_array v, size_t i) {
    mlx_array a = mlx_array_new();
    OK(mlx_vector_array_get(&a, v, i));
    const char *text = text_of(a);
    mlx_array_free(a);
    return text;
}

/* ---- training ---- */
/* The gradient of |p - target|^2 / 2, by hand. */
static mlx_vector_array gradients(mlx_vector_array params, const float *target) {
    mlx_array a = mlx_array_new(), b = mlx_array_new();
    mlx_array to = of_floats(target, LIST(2), 1), one = mlx_array_new_float(target[2]);
    OK(mlx_vector_array_get(&a, params, 0));
    OK(mlx_vector_array_get(&b, params, 1));
    OK(mlx_subtract(&a, a, to, cpu));
    OK(mlx_subtract(&b, b, one, cpu));
    mlx_array_free(to);
    mlx_array_free(one);
    return list_of(a, b);
}

static void test_training(void **state) {
    static const float target[] = {1, -2, 3};
    keel_adam_options quick = keel_adam_defaults();
    quick.beta2 = 0.9;
    keel_optimizer all[] = {
        keel_optimizer_new_sgd(0.1, NULL),
        keel_optimizer_new_sgd(0.05, &(keel_sgd_options){.momentum = 0.8, .nesterov = true}),
        keel_optimizer_new_adam(0.1, &quick), keel_optimizer_new_adamw(0.1, &quick)};
    for (int i = 0; i < 4; i++) {
        keel_schedule cool = keel_schedule_new_cosine(0.1, 0, 200);
        mlx_vector_array params = list_of(FLOATS(0, 0), mlx_array_new_float(0));
        assert_non_null(all[i].ctx);
        if (i > 1) OK(keel_optimizer_set_schedule(all[i], cool));
        keel_schedule_free(cool);
        for (int t = 0; t < 200; t++) {
            mlx_vector_array grads = gradients(params, target);
            OK(t % 2 ? keel_optimizer_step(&params, all[i], params, grads, cpu)
                     : keel_optimizer_step_checked(&params, all[i], params, grads, cpu));
            mlx_vector_array_free(grads);
        }
        mlx_array last = mlx_array_new(), to = FLOATS(1, -2), near = mlx_array_new();
        bool yes;
        OK(mlx_vector_array_get(&last, params, 0));
        OK(mlx_allclose(&near, last, to, 0, 1e-3, false, cpu));
        OK(mlx_array_item_bool(&yes, near));
        if (!yes) fail_msg("optimiser %d ends at %s", i, text_of(last));
        mlx_array_free(last);
        mlx_array_free(to);
        mlx_array_free(near);
        mlx_vector_array_free(params);
        OK(keel_optimizer_free(all[i]));
    }
}

/* The state is readable and settable: an optimiser with the state of another continues as that one
 * does, bit by bit; keel_optimizer_apply is the same step without a change of the optimiser. */
static void test_state(void **state) {
    keel_optimizer a = keel_optimizer_new_adamw(0.1, NULL), b = keel_optimizer_new_adamw(0.1, NULL);
    mlx_vector_array params = list_of(FLOATS(1, 2), mlx_array_new_float(3));
    mlx_vector_array grads = list_of(FLOATS(0.5f, -1), mlx_array_new_float(2));
    mlx_vector_array kept = {NULL}, p1 = {NULL}, p2 = {NULL}, p3 = {NULL}, next = {NULL};
    OK(keel_optimizer_state(&kept, a));
    assert_int_equal(mlx_vector_array_size(kept), 0);
    OK(keel_optimizer_step(&params, a, params, grads, cpu));
    OK(keel_optimizer_state(&kept, a));
    assert_int_equal(mlx_vector_array_size(kept), 5);
    assert_string_equal(element(kept, 0), "array(1, dtype=int64)");
    OK(keel_optimizer_set_state(b, kept));
    OK(keel_optimizer_apply(&p3, &next, a, params, grads, kept, cpu));
    OK(keel_optimizer_step(&p1, a, params, grads, cpu));
    OK(keel_optimizer_step(&p2, b, params, grads, cpu));
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(element(p1, i), element(p2, i));
        assert_string_equal(element(p1, i), element(p3, i));
    }
    OK(keel_optimizer_state(&kept, a));
    for (size_t i = 0; i < 5; i++) assert_string_equal(element(kept, i), element(next, i));
    /* An empty state is the one before the first step. */
    mlx_vector_array empty = mlx_vector_array_new();
    OK(keel_optimizer_set_state(b, empty));
    OK(keel_optimizer_init(b, params, cpu));
    OK(keel_optimizer_state(&next, b));
    assert_string_equal(element(next, 0), "array(0, dtype=int64)");
    assert_string_equal(element(next, 1), "array([0, 0], dtype=float32)");
    mlx_vector_array all[] = {params, grads, kept, p1, p2, p3, next, empty};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) mlx_vector_array_free(all[i]);
    keel_optimizer_free(a);
    keel_optimizer_free(b);
}

/* Parameters, gradients and state to new parameters and state. */
static int whole_step(mlx_vector_array *res, const mlx_vector_array in, void *payload) {
    mlx_vector_array part[5] = {{NULL}}; /* params, grads, state, new params, new state */
    static const size_t first[] = {0, 2, 4, 9};
    int rc = 0;
    for (int k = 0; k < 3; k++) {
        part[k] = mlx_vector_array_new();
        for (size_t i = first[k]; i < first[k + 1]; i++) {
            mlx_array a = mlx_array_new();
            rc |= mlx_vector_array_get(&a, in, i) || mlx_vector_array_append_value(part[k], a);
            mlx_array_free(a);
        }
    }
    rc = rc || keel_optimizer_apply(&part[3], &part[4], *(keel_optimizer *)payload, part[0],
                                    part[1], part[2], cpu);
    rc = rc || mlx_vector_array_set(res, part[3]);
    for (size_t i = 0; i < 5 && !rc; i++) {
        mlx_array a = mlx_array_new();
        rc = mlx_vector_array_get(&a, part[4], i) || mlx_vector_array_append_value(*res, a);
        mlx_array_free(a);
    }
    for (int k = 0; k < 5; k++) mlx_vector_array_free(part[k]);
    return rc;
}

/* A compiled step, traced once, gives the bits of the plain one; its rate follows the step. */
static void test_compiled(void **state) {
    keel_optimizer o = keel_optimizer_new_adamw(0.1, NULL);
    keel_schedule cool = keel_schedule_new_cosine(0.1, 0, 6);
    mlx_vector_array params = list_of(FLOATS(1, 2), mlx_array_new_float(3)), now = {NULL};
    mlx_vector_array grads = list_of(FLOATS(0.5f, -1), mlx_array_new_float(2)), st = {NULL};
    mlx_closure plain = mlx_closure_new_func_payload(whole_step, &o, NULL);
    mlx_closure compiled = mlx_closure_new();
    OK(keel_optimizer_set_schedule(o, cool));
    OK(keel_optimizer_init(o, params, cpu));
    OK(keel_optimizer_state(&st, o));
    OK(mlx_compile(&compiled, plain, false));
    OK(mlx_vector_array_set(&now, params));
    for (int t = 0; t < 8; t++) {
        mlx_vector_array in = mlx_vector_array_new(), out = mlx_vector_array_new();
        mlx_vector_array *const all[] = {&now, &grads, &st};
        for (int k = 0; k < 3; k++)
            for (size_t i = 0; i < mlx_vector_array_size(*all[k]); i++) {
                mlx_array a = mlx_array_new();
                OK(mlx_vector_array_get(&a, *all[k], i) || mlx_vector_array_append_value(in, a));
                mlx_array_free(a);
            }
        OK(mlx_closure_apply(&out, compiled, in));
        OK(keel_optimizer_step(&params, o, params, grads, cpu));
        mlx_vector_array_free(now);
        mlx_vector_array_free(st);
        now = mlx_vector_array_new();
        st = mlx_vector_array_new();
        for (size_t i = 0; i < 7; i++) {
            mlx_array a = mlx_array_new(), want = mlx_array_new(), same = mlx_array_new();
            bool yes = true;
            OK(mlx_vector_array_get(&a, out, i));
            if (i < 2) {
                OK(mlx_vector_array_get(&want, params, i));
                OK(mlx_array_equal(&same, a, want, false, cpu));
                OK(mlx_array_item_bool(&yes, same));
            }
            if (!yes) fail_msg("step %d: %s, not %s", t, text_of(a), text_of(want));
            OK(mlx_vector_array_append_value(i < 2 ? now : st, a));
            mlx_array_free(a);
            mlx_array_free(want);
            mlx_array_free(same);
        }
        mlx_vector_array_free(in);
        mlx_vector_array_free(out);
    }
    assert_string_equal(element(st, 0), "array(8, dtype=int64)");
    mlx_vector_array lists[] = {params, now, grads, st};
    for (size_t i = 0; i < 4; i++) mlx_vector_array_free(lists[i]);
    mlx_closure_free(plain);
    mlx_closure_free(compiled);
    keel_schedule_free(cool);
    keel_optimizer_free(o);
}

static void expect_rate(keel_optimizer o, const char *text) {
    mlx_array rate = mlx_array_new();
    OK(keel_optimizer_rate(&rate, o, cpu));
    assert_text(rate, text);
    mlx_array_free(rate);
}

static void test_rates(void **state) {
    keel_schedule parts[] = {keel_schedule_new_linear(0, 1, 2), keel_schedule_new_constant(1),
                             keel_schedule_new_step(1, 0.5, 1)};
    keel_schedule joined = keel_schedule_new_join(parts, 3, (int64_t[]){2, 3}, 2);
    keel_optimizer o = keel_optimizer_new_sgd(0.25, NULL);
    mlx_vector_array params = list_of(FLOATS(0, 0), mlx_array_new_float(0));
    mlx_vector_array grads = list_of(FLOATS(-1, 1), mlx_array_new_float(0));
    static const char *const rates[] = {"0", "0.5", "1", "1", "0.5", "0.25"};
    char text[64];
    for (int i = 0; i < 3; i++) OK(keel_schedule_free(parts[i]));
    assert_non_null(joined.ctx);
    expect_rate(o, "array(0.25, dtype=float32)");
    OK(keel_optimizer_set_schedule(o, joined));
    for (int i = 0; i < 6; i++) {
        snprintf(text, sizeof text, "array(%s, dtype=float32)", rates[i]);
        expect_rate(o, text);
        mlx_array at = mlx_array_new_int(i), rate = mlx_array_new();
        OK(keel_schedule_at(&rate, joined, at, cpu));
        assert_text(rate, text);
        mlx_array_free(at);
        mlx_array_free(rate);
        OK(keel_optimizer_step(&params, o, params, grads, cpu));
    }
    assert_string_equal(element(params, 0), "array([3.25, -3.25], dtype=float32)");
    mlx_array own = mlx_array_new_float(2);
    OK(keel_optimizer_set_rate(o, own));
    mlx_array_free(own);
    expect_rate(o, "array(2, dtype=float32)");
    OK(keel_optimizer_step(&params, o, params, grads, cpu));
    assert_string_equal(element(params, 0), "array([5.25, -5.25], dtype=float32)");
    keel_schedule_free(joined);
    keel_optimizer_free(o);
    mlx_vector_array_free(params);
    mlx_vector_array_free(grads);
}

/* ---- steps that fail ---- */
/* A gradient that fails when it is evaluated: an index out of range. */
static mlx_array bad_gradient(void) {
    mlx_array a = FLOATS(1, 2), at = INTS(0, 7), out = mlx_array_new();
    OK(mlx_take(&out, a, at, cpu));
    mlx_array_free(a);
    mlx_array_free(at);
    return out;
}

static void test_failed_step(void **state) {
    keel_optimizer o = keel_optimizer_new_adam(0.1, NULL);
    mlx_vector_array params = list_of(FLOATS(1, 2), mlx_array_new_float(3));
    mlx_vector_array bad = list_of(bad_gradient(), mlx_array_new_float(2));
    mlx_vector_array good = list_of(FLOATS(1, 1), mlx_array_new_float(2));
    mlx_vector_array kept = {NULL}, clipped = {NULL};
    const char *before = element(params, 0);
    /* The first step fails: there is no state afterwards. */
    FAILS(keel_optimizer_step_checked(&params, o, params, bad, cpu), KEEL_EINDEX, "index 7");
    assert_string_equal(element(params, 0), before);
    OK(keel_optimizer_state(&kept, o));
    assert_int_equal(mlx_vector_array_size(kept), 0);
    /* A later one: parameters and state are those before. */
    OK(keel_optimizer_step_checked(&params, o, params, good, cpu));
    OK(keel_clip_by_global_norm(&clipped, NULL, bad, 1, cpu));
    FAILS(keel_optimizer_step_checked(&params, o, params, clipped, cpu), KEEL_EINDEX, "index 7");
    OK(keel_optimizer_state(&kept, o));
    assert_string_equal(element(kept, 0), "array(1, dtype=int64)");
    assert_string_equal(element(kept, 1), "array([0.1, 0.1], dtype=float32)");
    assert_string_equal(element(params, 1), "array(2.9, dtype=float32)");
    OK(keel_optimizer_step_checked(&params, o, params, good, cpu));
    /* A lazy step: only what depends on the gradient fails, and putting back undoes it. */
    mlx_vector_array old = {NULL};
    OK(mlx_vector_array_set(&old, params));
    OK(keel_optimizer_state(&kept, o));
    OK(keel_optimizer_step(&params, o, params, bad, cpu));
    mlx_array one = mlx_array_new(), other = mlx_array_new();
    OK(mlx_vector_array_get(&one, params, 0));
    OK(mlx_vector_array_get(&other, params, 1));
    FAILS(mlx_array_eval(one), KEEL_EINDEX, "index 7");
    OK(mlx_array_eval(other));
    OK(mlx_vector_array_set(&params, old));
    OK(keel_optimizer_set_state(o, kept));
    OK(keel_optimizer_step_checked(&params, o, params, good, cpu));
    mlx_array_free(one);
    mlx_array_free(other);
    mlx_vector_array all[] = {params, bad, good, kept, clipped, old};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) mlx_vector_array_free(all[i]);
    keel_optimizer_free(o);
}

static void test_clipping(void **state) {
    mlx_vector_array grads = list_of(FLOATS(3, -4), mlx_array_new_float(12)), out = {NULL};
    mlx_array norm = mlx_array_new();
    OK(keel_clip_by_global_norm(&out, &norm, grads, 26, cpu));
    assert_text(norm, "array(13, dtype=float32)");
    assert_string_equal(element(out, 0), "array([3, -4], dtype=float32)");
    OK(keel_clip_by_global_norm(&out, &norm, grads, 6.5, cpu));
    assert_string_equal(element(out, 0), "array([1.5, -2], dtype=float32)");
    OK(keel_clip_by_value(&grads, grads, 3.5, cpu));
    assert_string_equal(element(grads, 0), "array([3, -3.5], dtype=float32)");
    assert_string_equal(element(grads, 1), "array(3.5, dtype=float32)");
    FAILS(keel_clip_by_value(&out, grads, -1, cpu), KEEL_EARG, "limit is -1");
    FAILS(keel_clip_by_global_norm(&out, &norm, grads, -1, cpu), KEEL_EARG, "max_norm is -1");
    FAILS(keel_clip_by_value(&out, no_vector, 1, cpu), KEEL_EARG, "grads");
    FAILS(keel_clip_by_global_norm(&out, &norm, no_vector, 1, cpu), KEEL_EARG, "grads");
    FAILS(keel_clip_by_value(&out, grads, 1, no_stream), KEEL_EARG, "stream");
    FAILS(keel_clip_by_global_norm(NULL, &norm, grads, 1, cpu), KEEL_EARG, "result");
    mlx_array_free(norm);
    mlx_vector_array_free(grads);
    mlx_vector_array_free(out);
}

/* ---- checkpoints ---- */
static void test_checkpoint(void **state) {
    const char *path = kl_test_path("checkpoint.safetensors");
    keel_optimizer a = keel_optimizer_new_adamw(0.1, NULL), b = keel_optimizer_new_adamw(0.1, NULL);
    mlx_vector_array params = list_of(FLOATS(1, 2), mlx_array_new_float(3)), loaded = {NULL};
    mlx_vector_array grads = list_of(FLOATS(0.5f, -1), mlx_array_new_float(2));
    mlx_vector_string names = two_names();
    mlx_map_string_to_string notes = mlx_map_string_to_string_new(), read = {NULL};
    const char *text;
    OK(mlx_map_string_to_string_insert(notes, "epoch", "12"));
    /* Before the first step there is no state, and none is written. */
    OK(keel_checkpoint_save(path, names, params, a, notes));
    OK(keel_checkpoint_load(&loaded, NULL, b, path, names));
    OK(keel_optimizer_step(&params, a, params, grads, cpu));
    OK(keel_optimizer_step(&loaded, b, loaded, grads, cpu));
    assert_string_equal(element(loaded, 0), element(params, 0));
    /* A run that is saved and loaded goes on as if nothing had happened. */
    OK(keel_checkpoint_save(path, names, params, a, notes));
    OK(keel_optimizer_step(&params, a, params, grads, cpu));
    keel_optimizer_free(b);
    b = keel_optimizer_new_adamw(0.1, NULL);
    OK(keel_checkpoint_load(&loaded, &read, b, path, names));
    OK(mlx_map_string_to_string_get(&text, read, "epoch"));
    assert_string_equal(text, "12");
    OK(mlx_map_string_to_string_get(&text, read, "optimizer"));
    assert_string_equal(text, "adamw");
    OK(keel_optimizer_step(&loaded, b, loaded, grads, cpu));
    for (size_t i = 0; i < 2; i++) assert_string_equal(element(loaded, i), element(params, i));
    /* The parameters alone, in another order. */
    mlx_vector_string bias = mlx_vector_string_new_value("bias");
    OK(keel_checkpoint_load(&loaded, &read, no_optimizer, path, bias));
    assert_int_equal(mlx_vector_array_size(loaded), 1);
    assert_string_equal(element(loaded, 0), "array(2.897, dtype=float32)");

    /* What cannot be loaded changes nothing. */
    keel_optimizer sgd = keel_optimizer_new_sgd(0.1, &(keel_sgd_options){.momentum = 0.9});
    mlx_vector_string other = mlx_vector_string_new_value("nobody");
    FAILS(keel_checkpoint_load(&loaded, &read, sgd, path, names), KEEL_EFORMAT,
          "has the state of adamw, not of sgd");
    FAILS(keel_checkpoint_load(&loaded, NULL, no_optimizer, path, other), KEEL_EFORMAT,
          "no tensor 'nobody'");
    FAILS(keel_checkpoint_load(&loaded, NULL, no_optimizer, "/nowhere/x.safetensors", bias),
          KEEL_EFILE, "/nowhere/x.safetensors");
    FAILS(keel_checkpoint_load(&loaded, NULL, a, "tests/io/data/five.safetensors", names),
          KEEL_EFORMAT, "five.safetensors");
    assert_int_equal(mlx_vector_array_size(loaded), 1);
    /* A save that fails leaves the old file. */
    mlx_vector_array bad = list_of(bad_gradient(), mlx_array_new_float(1));
    FAILS(keel_checkpoint_save(path, names, bad, no_optimizer, no_map), KEEL_EINDEX, "index 7");
    OK(keel_checkpoint_load(&loaded, NULL, no_optimizer, path, bias));
    assert_string_equal(element(loaded, 0), "array(2.897, dtype=float32)");

    mlx_vector_string_free(names);
    mlx_vector_string_free(bias);
    mlx_vector_string_free(other);
    mlx_map_string_to_string_free(notes);
    mlx_map_string_to_string_free(read);
    mlx_vector_array all[] = {params, grads, loaded, bad};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) mlx_vector_array_free(all[i]);
    keel_optimizer_free(a);
    keel_optimizer_free(b);
    keel_optimizer_free(sgd);
}

/* A file that is cut off: exactly the tensors whose bytes are missing fail, by name. */
static void test_cut_checkpoint(void **state) {
    const char *path = kl_test_path("cut.safetensors");
    mlx_vector_array params = list_of(FLOATS(1, 2), mlx_array_new_float(3)), loaded = {NULL};
    mlx_vector_string names = two_names();
    OK(keel_checkpoint_save(path, names, params, no_optimizer, no_map));
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    assert_int_equal(ftruncate(fileno(f), ftell(f) - 1), 0);
    fclose(f);
    OK(keel_checkpoint_load(&loaded, NULL, no_optimizer, path, names));
    mlx_array weight = mlx_array_new(), bias = mlx_array_new();
    OK(mlx_vector_array_get(&weight, loaded, 0));
    OK(mlx_vector_array_get(&bias, loaded, 1));
    OK(mlx_array_eval(bias));
    FAILS(mlx_array_eval(weight), KEEL_ETRUNCATED, "layer.weight");
    mlx_array_free(weight);
    mlx_array_free(bias);
    mlx_vector_array_free(params);
    mlx_vector_array_free(loaded);
    mlx_vector_string_free(names);
}

/* ---- bad arguments ---- */
static void test_bad_optimizers(void **state) {
    keel_adam_options bad = keel_adam_defaults();
    bad.beta2 = 1;
    FAILS_ZERO(keel_optimizer_new_adam(0.1, &bad).ctx, KEEL_EARG, "beta2 is 1");
    FAILS_ZERO(keel_optimizer_new_adamw(0.1, &bad).ctx, KEEL_EARG, "beta2 is 1");
    FAILS_ZERO(keel_optimizer_new_sgd(NAN, NULL).ctx, KEEL_EARG, "nan");
    FAILS_ZERO(keel_optimizer_new_sgd(0.1, &(keel_sgd_options){.nesterov = true}).ctx, KEEL_EARG,
               "nesterov");
    FAILS_ZERO(keel_schedule_new_constant(INFINITY).ctx, KEEL_EARG, "inf");
    FAILS_ZERO(keel_schedule_new_linear(0, 1, 0).ctx, KEEL_EARG, "steps is 0");
    FAILS_ZERO(keel_schedule_new_cosine(0, 1, -3).ctx, KEEL_EARG, "steps is -3");
    FAILS_ZERO(keel_schedule_new_step(0, NAN, 1).ctx, KEEL_EARG, "factor");
    FAILS_ZERO(keel_schedule_new_join(NULL, 1, NULL, 0).ctx, KEEL_EARG, "parts");
    FAILS_ZERO(keel_schedule_new_join(&no_schedule, 1, NULL, 0).ctx, KEEL_EARG, "part 0");
    FAILS_ZERO(keel_schedule_new_join(&no_schedule, 1, NULL, 1).ctx, KEEL_EARG, "starts");
    FAILS_ZERO(keel_schedule_new_join(NULL, 0, NULL, 0).ctx, KEEL_EARG, "0 schedules");
    OK(keel_optimizer_free(no_optimizer));
    OK(keel_schedule_free(no_schedule));
}

static void test_bad_calls(void **state) {
    keel_optimizer o = keel_optimizer_new_adam(0.1, NULL);
    mlx_vector_array params = list_of(FLOATS(1, 2), mlx_array_new_float(3)), out = {NULL};
    mlx_vector_array grads = list_of(FLOATS(1, 2), mlx_array_new_float(3)), next = {NULL};
    mlx_vector_array shapes = list_of(FLOATS(1, 2, 3), mlx_array_new_float(3));
    mlx_vector_array few = {NULL}, empty = mlx_vector_array_new();
    mlx_vector_string names = two_names();
    mlx_array a = mlx_array_new(), two = FLOATS(1, 2), whole = mlx_array_new_int(1);
    OK(mlx_vector_array_get(&a, params, 0));
    few = mlx_vector_array_new_value(a);
    int (*const steps[])(mlx_vector_array *, keel_optimizer, const mlx_vector_array,
                         const mlx_vector_array,
                         const mlx_stream) = {keel_optimizer_step, keel_optimizer_step_checked};
    for (int i = 0; i < 2; i++) {
        FAILS(steps[i](NULL, o, params, grads, cpu), KEEL_EARG, "result");
        FAILS(steps[i](&out, no_optimizer, params, grads, cpu), KEEL_EARG, "optimizer");
        FAILS(steps[i](&out, o, no_vector, grads, cpu), KEEL_EARG, "params");
        FAILS(steps[i](&out, o, params, no_vector, cpu), KEEL_EARG, "grads");
        FAILS(steps[i](&out, o, params, grads, no_stream), KEEL_EARG, "stream");
        FAILS(steps[i](&out, o, params, few, cpu), KEEL_EARG, "2 parameters and 1 gradients");
        FAILS(steps[i](&out, o, params, shapes, cpu), KEEL_ESHAPE,
              "gradient 0 has shape (3); its parameter has (2)");
    }
    assert_null(out.ctx);
    OK(keel_optimizer_state(&next, o));
    assert_int_equal(mlx_vector_array_size(next), 0);
    OK(keel_optimizer_set_state(o, few));
    FAILS(keel_optimizer_step(&out, o, params, grads, cpu), KEEL_EARG,
          "1 arrays; for 2 parameters it has 5");
    FAILS(keel_checkpoint_save(kl_test_path("x"), names, params, o, no_map), KEEL_EARG,
          "1 arrays; for 2 parameters it has 5");
    FAILS(keel_optimizer_set_state(o, no_vector), KEEL_EARG, "state");
    FAILS(keel_optimizer_set_state(no_optimizer, few), KEEL_EARG, "optimizer");
    FAILS(keel_optimizer_state(&out, no_optimizer), KEEL_EARG, "optimizer");
    FAILS(keel_optimizer_init(o, no_vector, cpu), KEEL_EARG, "params");
    FAILS(keel_optimizer_init(no_optimizer, params, cpu), KEEL_EARG, "optimizer");
    FAILS(keel_optimizer_apply(&out, &next, o, params, grads, empty, cpu), KEEL_EARG,
          "keel_optimizer_init");
    FAILS(keel_optimizer_apply(&out, NULL, o, params, grads, few, cpu), KEEL_EARG, "result");
    FAILS(keel_optimizer_apply(&out, &next, o, params, grads, no_vector, cpu), KEEL_EARG, "state");
    FAILS(keel_optimizer_set_schedule(o, no_schedule), KEEL_EARG, "schedule");
    FAILS(keel_optimizer_set_rate(o, no_array), KEEL_EARG, "rate");
    FAILS(keel_optimizer_set_rate(o, two), KEEL_ESHAPE, "0-d float");
    FAILS(keel_optimizer_set_rate(o, whole), KEEL_EDTYPE, "0-d float");
    FAILS(keel_optimizer_rate(&a, no_optimizer, cpu), KEEL_EARG, "optimizer");
    FAILS(keel_schedule_at(&a, no_schedule, whole, cpu), KEEL_EARG, "schedule");

    mlx_vector_string own = mlx_vector_string_new_data((const char *[]){"optimizer.x", "b"}, 2);
    mlx_vector_string twice = mlx_vector_string_new_data((const char *[]){"b", "b"}, 2);
    mlx_map_string_to_string notes = mlx_map_string_to_string_new();
    OK(mlx_map_string_to_string_insert(notes, "optimizer", "mine"));
    OK(keel_optimizer_set_state(o, empty));
    FAILS(keel_checkpoint_save(NULL, names, params, o, no_map), KEEL_EARG, "path");
    FAILS(keel_checkpoint_save("x", no_names, params, o, no_map), KEEL_EARG, "names");
    FAILS(keel_checkpoint_save("x", names, no_vector, o, no_map), KEEL_EARG, "params");
    FAILS(keel_checkpoint_save("x", names, few, o, no_map), KEEL_EARG, "2 names and 1 parameters");
    FAILS(keel_checkpoint_save("x", own, params, o, no_map), KEEL_EARG, "'optimizer.x'");
    FAILS(keel_checkpoint_save("x", twice, params, o, no_map), KEEL_EARG, "given twice");
    FAILS(keel_checkpoint_save("x", names, params, o, notes), KEEL_EARG, "'optimizer'");
    FAILS(keel_checkpoint_save("/nowhere/x", names, params, o, no_map), KEEL_EFILE, "/nowhere/x");
    FAILS(keel_checkpoint_load(NULL, NULL, o, "x", names), KEEL_EARG, "result");
    FAILS(keel_checkpoint_load(&out, NULL, o, NULL, names), KEEL_EARG, "path");
    FAILS(keel_checkpoint_load(&out, NULL, o, "x", no_names), KEEL_EARG, "names");
    FAILS(keel_checkpoint_load(&out, NULL, o, "x", own), KEEL_EARG, "'optimizer.x'");
    mlx_vector_string_free(own);
    mlx_vector_string_free(twice);
    mlx_vector_string_free(names);
    mlx_map_string_to_string_free(notes);
    mlx_vector_array all[] = {params, grads, shapes, few, empty, next};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) mlx_vector_array_free(all[i]);
    mlx_array_free(a);
    mlx_array_free(two);
    mlx_array_free(whole);
    keel_optimizer_free(o);
}

/* ---- allocations ---- */
static mlx_vector_array some_params, some_grads;
static mlx_vector_string some_names;

/* Everything once; whether a call failed. Results stay as they were when a call fails. */
static bool everything(void) {
    const char *path = kl_test_path("allocations.safetensors");
    keel_schedule part = keel_schedule_new_constant(0.1);
    keel_schedule joined = part.ctx ? keel_schedule_new_join(&part, 1, NULL, 0) : no_schedule;
    keel_optimizer o = keel_optimizer_new_adamw(0.1, NULL);
    mlx_vector_array p = {NULL}, q = {NULL}, st = {NULL}, clipped = {NULL}, flat = {NULL};
    mlx_map_string_to_string notes = {NULL};
    mlx_array norm = mlx_array_new(), rate = mlx_array_new();
    bool failed = !part.ctx || !joined.ctx || !o.ctx;
    if (!failed) failed = keel_optimizer_set_schedule(o, joined) != 0;
    if (!failed) failed = keel_optimizer_rate(&rate, o, cpu) != 0;
    if (!failed && keel_clip_by_global_norm(&clipped, &norm, some_grads, 1, cpu)) {
        failed = true;
        assert_true(!clipped.ctx && !norm.ctx);
    }
    if (!failed && keel_clip_by_value(&flat, some_grads, 1, cpu)) {
        failed = true;
        assert_null(flat.ctx);
    }
    if (!failed && keel_optimizer_step(&p, o, some_params, clipped, cpu)) {
        failed = true;
        assert_null(p.ctx);
    }
    if (!failed) failed = keel_optimizer_step_checked(&p, o, p, flat, cpu) != 0;
    if (!failed) failed = keel_optimizer_state(&st, o) != 0;
    mlx_vector_array next = {NULL};
    if (!failed && keel_optimizer_apply(&q, &next, o, p, clipped, st, cpu)) {
        failed = true;
        assert_true(!q.ctx && !next.ctx);
    }
    if (!failed) failed = keel_checkpoint_save(path, some_names, p, o, no_map) != 0;
    mlx_vector_array_free(q);
    q.ctx = NULL;
    if (!failed && keel_checkpoint_load(&q, &notes, o, path, some_names)) {
        failed = true;
        assert_true(!q.ctx && !notes.ctx);
    }
    if (!failed) failed = keel_optimizer_set_state(o, st) || keel_optimizer_init(o, p, cpu);
    mlx_vector_array all[] = {p, q, st, clipped, flat, next};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) mlx_vector_array_free(all[i]);
    mlx_map_string_to_string_free(notes);
    mlx_array_free(norm);
    mlx_array_free(rate);
    keel_optimizer_free(o);
    keel_schedule_free(part);
    keel_schedule_free(joined);
    return failed;
}

static void test_allocations(void **state) {
    some_params = list_of(FLOATS(1, 2), mlx_array_new_float(3));
    some_grads = list_of(FLOATS(1, 2), mlx_array_new_float(3));
    some_names = two_names();
    everything();
    everything();
    int n = 0;
    for (bool fired = true; fired; n++) {
        kl_api_forget_error();
        kl_until_quiet();
        int64_t live = kl_test_n_live();
        int before = seen.n;
        kl_test_fail_alloc_at(n);
        bool failed = everything();
        fired = kl_test_alloc_failed();
        kl_test_fail_alloc_at(-1);
        if (failed && seen.n == before) fail_msg("allocation %d: silent", n);
        if (failed && !strstr(seen.text, "out of memory"))
            fail_msg("allocation %d: %s", n, seen.text);
        kl_api_forget_error();
        kl_until_quiet();
        if (!failed && kl_test_n_live() > live) live = kl_test_n_live(); /* a cache has grown */
        if (kl_test_n_live() > live)
            fail_msg("allocation %d: %d blocks lost", n, (int)(kl_test_n_live() - live));
    }
    assert_true(n > 300);
    mlx_vector_array_free(some_params);
    mlx_vector_array_free(some_grads);
    mlx_vector_string_free(some_names);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_training),       cmocka_unit_test(test_state),
        cmocka_unit_test(test_compiled),       cmocka_unit_test(test_rates),
        cmocka_unit_test(test_failed_step),    cmocka_unit_test(test_clipping),
        cmocka_unit_test(test_checkpoint),     cmocka_unit_test(test_cut_checkpoint),
        cmocka_unit_test(test_bad_optimizers), cmocka_unit_test(test_bad_calls),
        cmocka_unit_test(test_allocations),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
