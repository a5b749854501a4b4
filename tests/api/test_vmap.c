/* test_vmap.c - the two halves of vmap: axes, nesting, operations that move data, random draws,
 * failures that name the lane, and placeholders. */
#include "api/function_support.h"

static mlx_closure plain(list_fn *f) {
    return mlx_closure_new_func(f);
}

static mlx_array matrix(int rows, int columns) {
    float v[64];
    for (int i = 0; i < rows * columns; i++) v[i] = (float)i;
    return keep(of_floats(v, LIST(rows, columns), 2));
}

static int square_of(mlx_vector_array *res, const mlx_vector_array in) {
    return GIVE(res, square(at(in, 0)));
}

static int add_both(mlx_vector_array *res, const mlx_vector_array in) {
    return GIVE(res, add(at(in, 0), at(in, 1)));
}

static int product(mlx_vector_array *res, const mlx_vector_array in) {
    return GIVE(res, matmul(at(in, 0), at(in, 1)));
}

static int constant(mlx_vector_array *res, const mlx_vector_array in) {
    return GIVE(res, VECTOR(7, 8), at(in, 0));
}

/* vmap of f over `args`, which are freed. */
static mlx_array lanes(list_fn *f, const int *in_axes, const int *out_axes, mlx_vector_array args) {
    return result_of(lanes_of(plain(f), in_axes, out_axes), args, 0);
}

/* ---- axes ---- */

static void axes_once(void) {
    mlx_array m = matrix(2, 3), v = VECTOR(10, 20, 30), w = VECTOR(100, 200);
    assert_text(lanes(square_of, ZEROS4, ZEROS4, LIST_OF(w)),
                "array([10000, 40000], dtype=float32)");
    assert_text(lanes(add_both, LIST(0, -1, 0, 0), ZEROS4, LIST_OF(m, v)),
                "array([[10, 21, 32],\n       [13, 24, 35]], dtype=float32)");
    assert_text(lanes(add_both, LIST(1, 0, 0, 0), ZEROS4, LIST_OF(m, v)),
                "array([[10, 13],\n       [21, 24],\n       [32, 35]], dtype=float32)");
    assert_text(lanes(add_both, LIST(1, 0, 0, 0), LIST(1, 0, 0, 0), LIST_OF(m, v)),
                "array([[10, 21, 32],\n       [13, 24, 35]], dtype=float32)");
    /* what is the same for all lanes */
    mlx_array c = lanes(constant, ZEROS4, LIST(1, 0, 0, 0), LIST_OF(v));
    assert_text(c, "array([[7, 7, 7],\n       [8, 8, 8]], dtype=float32)");
    assert_text(lanes(constant, ZEROS4, LIST(-1, 0, 0, 0), LIST_OF(v)),
                "array([7, 8], dtype=float32)");
    /* no lanes, one lane */
    float none[1] = {0};
    mlx_array empty = keep(of_floats(none, LIST(0, 3), 2));
    assert_shape(lanes(square_of, ZEROS4, LIST(1, 0, 0, 0), LIST_OF(empty)), AXES(3, 0));
    assert_text(lanes(square_of, ZEROS4, ZEROS4, LIST_OF(VECTOR(3))), "array([9], dtype=float32)");
    drop_to(0);
}

static void test_axes(void **state) {
    assert_no_leak(axes_once);
}

/* ---- refusals ---- */

static void refuse_trace(const int *axes, size_t n, mlx_vector_array args, int code,
                         const char *part) {
    mlx_vector_array a = mlx_vector_array_new(), b = mlx_vector_array_new();
    mlx_closure f = plain(add_both);
    FAILS(mlx_detail_vmap_trace(&a, &b, f, args, axes, n), code, part);
    assert_int_equal(mlx_vector_array_size(a), 0);
    mlx_closure_free(f);
    mlx_vector_array_free(a);
    mlx_vector_array_free(b);
    mlx_vector_array_free(args);
}

static void refusals_once(void) {
    mlx_array m = matrix(2, 3), v = VECTOR(10, 20, 30);
    refuse_trace(AXES(0, 0), LIST_OF(m, v), KEEL_ESHAPE,
                 "axis 0 of input 1 has size 3, and an earlier input has 2 lanes");
    refuse_trace(AXES(2, 0), LIST_OF(m, v), KEEL_EAXIS, "in_axes[0] is 2");
    refuse_trace(AXES(-2, 0), LIST_OF(m, v), KEEL_EAXIS, "in_axes[0] is -2");
    refuse_trace(AXES(0, 0), LIST_OF(m, number(1)), KEEL_EAXIS, "in_axes[1] is 0");
    refuse_trace(AXES(-1, -1), LIST_OF(m, v), KEEL_EARG, "no input has an axis of lanes");
    refuse_trace(AXES(0), LIST_OF(m, v), KEEL_EARG, "in_axes has 1 entries for 2 arrays");
    refuse_trace(NULL, 2, LIST_OF(m, v), KEEL_EARG, "in_axes is NULL");
    refuse_trace(NULL, 0, mlx_vector_array_new(), KEEL_EARG, "no input has an axis of lanes");
    /* the second half */
    mlx_closure f = plain(add_both);
    mlx_vector_array args = LIST_OF(m, m), p = mlx_vector_array_new(), r = mlx_vector_array_new(),
                     out = mlx_vector_array_new(), one = LIST_OF(m), other = LIST_OF(v, v),
                     odd = LIST_OF(matrix(2, 4), matrix(2, 4));
    OK(mlx_detail_vmap_trace(&p, &r, f, args, AXES(0, 0)));
    FAILS(mlx_detail_vmap_replace(&out, args, p, r, AXES(0, 0), AXES(-1)), KEEL_EAXIS,
          "out_axes[0] is -1, and output 0 is not the same for all lanes");
    FAILS(mlx_detail_vmap_replace(&out, args, p, r, AXES(0, 0), AXES(2)), KEEL_EAXIS,
          "out_axes[0] is 2, and output 0 has 2 axes with lanes");
    FAILS(mlx_detail_vmap_replace(&out, args, p, r, AXES(0, 0), AXES(-3)), KEEL_EAXIS, "is -3");
    FAILS(mlx_detail_vmap_replace(&out, args, p, r, AXES(0, 0), AXES(0, 0)), KEEL_EARG,
          "out_axes has 2 entries for 1 arrays");
    FAILS(mlx_detail_vmap_replace(&out, args, one, r, AXES(0, 0), AXES(0)), KEEL_EARG,
          "1 traced inputs for 2 inputs");
    FAILS(mlx_detail_vmap_replace(&out, args, args, r, AXES(0, 0), AXES(0)), KEEL_EARG,
          "traced input 0 is not an argument of this trace");
    FAILS(mlx_detail_vmap_replace(&out, odd, p, r, AXES(0, 0), AXES(0)), KEEL_ESHAPE,
          "input 0 is not of the shape and dtype of the trace");
    FAILS(mlx_detail_vmap_replace(&out, args, p, r, AXES(1, 0), AXES(0)), KEEL_ESHAPE, "lanes");
    FAILS(mlx_detail_vmap_replace(&out, no_vector, p, r, AXES(0, 0), AXES(0)), KEEL_EARG, "empty");
    FAILS(mlx_detail_vmap_replace(NULL, args, p, r, AXES(0, 0), AXES(0)), KEEL_EARG, "NULL");
    /* outputs need not be those of the trace: they are then the same for all lanes */
    OK(mlx_detail_vmap_replace(&out, args, p, one, AXES(0, 0), AXES(-1)));
    assert_text(at(out, 0), text_of(m));
    OK(mlx_detail_vmap_replace(&out, args, p, r, AXES(0, 0), AXES(0)));
    OK(mlx_detail_vmap_replace(&out, args, p, r, AXES(0, 0), AXES(1))); /* and again */
    assert_text(at(out, 0), "array([[0, 6],\n       [2, 8],\n       [4, 10]], dtype=float32)");
    mlx_vector_array lists[] = {args, p, r, out, one, other, odd};
    for (int i = 0; i < 7; i++) mlx_vector_array_free(lists[i]);
    mlx_closure_free(f);
    drop_to(0);
}

static void test_refusals(void **state) {
    assert_no_leak(refusals_once);
}

/* ---- nesting ---- */

static int sum_of_sines(mlx_vector_array *res, const mlx_vector_array in) {
    return GIVE(res, sum(multiply(at(in, 0), square(at(in, 0)))));
}

static int outer_product(mlx_vector_array *res, const mlx_vector_array in) {
    return GIVE(res, multiply(at(in, 0), at(in, 1)));
}

static mlx_closure total_of; /* a closure that gives the sum of result 0 of another */
static int total(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_vector_array made = mlx_vector_array_new();
    int rc = mlx_closure_apply(&made, total_of, in);
    if (!rc) rc = GIVE(res, sum(at(made, 0)));
    mlx_vector_array_free(made);
    return rc;
}

static void nested_once(void) {
    mlx_array m = matrix(2, 3), v = VECTOR(1, 2), w = VECTOR(1, 10, 100);
    mlx_closure inner = lanes_of(plain(outer_product), LIST(-1, 0, 0, 0), ZEROS4);
    assert_text(result_of(lanes_of(inner, LIST(0, -1, 0, 0), ZEROS4), LIST_OF(v, w), 0),
                "array([[1, 10, 100],\n       [2, 20, 200]], dtype=float32)");
    inner = lanes_of(plain(outer_product), LIST(-1, 0, 0, 0), ZEROS4);
    assert_text(result_of(lanes_of(inner, LIST(0, -1, 0, 0), LIST(1, 0, 0, 0)), LIST_OF(v, w), 0),
                "array([[1, 2],\n       [10, 20],\n       [100, 200]], dtype=float32)");
    /* vmap of grad, grad of vmap, and both twice */
    const char *want = "array([[0, 3, 12],\n       [27, 48, 75]], dtype=float32)";
    assert_text(result_of(lanes_of(gradient_of(plain(sum_of_sines), LIST(0), 1), ZEROS4, ZEROS4),
                          LIST_OF(m), 0),
                want);
    total_of = lanes_of(plain(sum_of_sines), ZEROS4, ZEROS4);
    assert_text(result_of(gradient_of(plain(total), LIST(0), 1), LIST_OF(m), 0), want);
    assert_text(result_of(lanes_of(gradient_of(plain(total), LIST(0), 1), LIST(1, 0, 0, 0),
                                   LIST(1, 0, 0, 0)),
                          LIST_OF(keep(of_floats((float[]){0, 1, 2, 3, 4, 5}, LIST(2, 3, 1), 3))),
                          0),
                "array([[[0],\n        [3],\n        [12]],\n       [[27],\n        [48],\n        "
                "[75]]], dtype=float32)");
    mlx_closure_free(total_of);
    drop_to(0);
}

static void test_nested(void **state) {
    assert_no_leak(nested_once);
}

/* ---- operations that move data ---- */

static mlx_array reshaped(mlx_array a, const int *shape, size_t n) {
    mlx_array r = mlx_array_new();
    mlx_reshape(&r, a, shape, n, cpu);
    return keep(r);
}

static int moves(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array x = at(in, 0), i = at(in, 1), r[6];
    for (int k = 0; k < 6; k++) r[k] = mlx_array_new();
    mlx_sort_axis(&r[0], x, 0, cpu);
    mlx_slice(&r[1], x, AXES(2), AXES(-4), AXES(-1), cpu);
    mlx_take_along_axis(&r[2], x, i, 0, cpu);
    mlx_vector_array index = LIST_OF(i);
    mlx_array updates = reshaped(x, AXES(3, 1));
    mlx_scatter_add(&r[3], x, index, updates, AXES(0), cpu);
    mlx_vector_array_free(index);
    mlx_cumsum(&r[4], x, 0, true, true, cpu);
    mlx_argsort_axis(&r[5], x, 0, cpu);
    for (int k = 0; k < 6; k++) keep(r[k]);
    return GIVE(res, take0(x, i), r[0], r[1], r[2], r[3], r[4], r[5]);
}

static int attends(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array r = mlx_array_new();
    mlx_fast_scaled_dot_product_attention(&r, at(in, 0), at(in, 1), at(in, 1), 0.5f, "causal",
                                          no_array, no_array, cpu);
    return GIVE(res, keep(r));
}

/* Lane l of `in` alone must give lane l of the whole, bit for bit. */
static void expect_loop(list_fn *f, mlx_array *in, const bool *mapped, int n, int n_lanes) {
    mlx_closure one = plain(f);
    mlx_vector_array args = mlx_vector_array_new_data(in, (size_t)n),
                     whole = mlx_vector_array_new();
    mlx_vector_array p = mlx_vector_array_new(), r = mlx_vector_array_new();
    int axes[2] = {mapped[0] ? 0 : -1, mapped[1] ? 0 : -1}, zeros[8] = {0};
    OK(mlx_detail_vmap_trace(&p, &r, one, args, axes, (size_t)n));
    size_t n_out = mlx_vector_array_size(r);
    OK(mlx_detail_vmap_replace(&whole, args, p, r, axes, (size_t)n, zeros, n_out));
    for (int l = 0; l < n_lanes; l++) {
        mlx_array lane[2], at_l = keep(mlx_array_new_int(l));
        for (int k = 0; k < n; k++) lane[k] = mapped[k] ? take0(in[k], at_l) : in[k];
        mlx_vector_array single = mlx_vector_array_new(),
                         a = mlx_vector_array_new_data(lane, (size_t)n);
        OK(mlx_closure_apply(&single, one, a));
        for (size_t i = 0; i < n_out; i++)
            assert_string_equal(text_of(take0(at(whole, i), at_l)), text_of(at(single, i)));
        mlx_vector_array_free(a);
        mlx_vector_array_free(single);
    }
    mlx_vector_array lists[] = {args, whole, p, r};
    for (int i = 0; i < 4; i++) mlx_vector_array_free(lists[i]);
    mlx_closure_free(one);
}

static void moves_once(void) {
    float v[] = {3, 1, 2, -1, 5, 0};
    mlx_array x = keep(of_floats(v, LIST(2, 3), 2)), one = VECTOR(3, 1, 2);
    mlx_array i = keep(of_ints(LIST(2, 0, -1, 1, 1, 0), LIST(2, 3), 2)),
              same = keep(INTS(1, -1, 1));
    expect_loop(moves, (mlx_array[]){x, i}, (bool[]){true, true}, 2, 2);
    expect_loop(moves, (mlx_array[]){x, same}, (bool[]){true, false}, 2, 2);
    expect_loop(moves, (mlx_array[]){one, i}, (bool[]){false, true}, 2, 2);
    mlx_array b = matrix(3, 3), a3 = reshaped(matrix(6, 3), AXES(2, 3, 3));
    expect_loop(product, (mlx_array[]){a3, b}, (bool[]){true, false}, 2, 2);
    expect_loop(product, (mlx_array[]){b, a3}, (bool[]){false, true}, 2, 2);
    mlx_array q = reshaped(matrix(16, 4), AXES(2, 1, 2, 4, 4));
    mlx_array k0 = take0(q, keep(mlx_array_new_int(0)));
    expect_loop(attends, (mlx_array[]){q, q}, (bool[]){true, true}, 2, 2);
    expect_loop(attends, (mlx_array[]){q, k0}, (bool[]){true, false}, 2, 2);
    drop_to(0);
}

static void test_moves(void **state) {
    assert_no_leak(moves_once);
}

/* ---- random draws ---- */

static mlx_array key;
static int draws(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array r = mlx_array_new();
    mlx_random_uniform(&r, number(0), number(1), AXES(2), MLX_FLOAT32, key, cpu);
    return GIVE(res, add(at(in, 0), keep(r)));
}

static int draws_by_key(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array r = mlx_array_new();
    mlx_random_bits(&r, AXES(3), 4, at(in, 0), cpu);
    return GIVE(res, keep(r));
}

static void random_once(void) {
    key = mlx_array_new();
    OK(mlx_random_key(&key, 7));
    keep(key);
    mlx_array r = lanes(draws, ZEROS4, ZEROS4, LIST_OF(VECTOR(0, 0)));
    assert_shape(r, AXES(2, 2));
    assert_string_equal(text_of(take0(r, keep(mlx_array_new_int(0)))),
                        text_of(take0(r, keep(mlx_array_new_int(1)))));
    mlx_array keys = mlx_array_new();
    OK(mlx_random_split_num(&keys, key, 2, cpu));
    keep(keys);
    expect_loop(draws_by_key, (mlx_array[]){keys}, (bool[]){true, false}, 1, 2);
    drop_to(0);
}

static void test_random(void **state) {
    assert_no_leak(random_once);
}

/* ---- indices out of range ---- */

static int takes(mlx_vector_array *res, const mlx_vector_array in) {
    return GIVE(res, take0(at(in, 0), at(in, 1)));
}

static int takes_along(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array r = mlx_array_new();
    mlx_take_along_axis(&r, at(in, 0), at(in, 1), 0, cpu);
    return GIVE(res, keep(r));
}

static int adds_at(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array r = mlx_array_new(),
              updates = reshaped(take0(at(in, 0), keep(INTS(0, 0, 0))), AXES(3, 1));
    mlx_vector_array index = LIST_OF(at(in, 1));
    mlx_scatter_add(&r, at(in, 0), index, updates, AXES(0), cpu);
    mlx_vector_array_free(index);
    return GIVE(res, keep(r));
}

static int puts_along(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array r = mlx_array_new();
    mlx_put_along_axis(&r, at(in, 0), at(in, 1), number(1), 0, cpu);
    return GIVE(res, keep(r));
}

static int takes_sum(mlx_vector_array *res, const mlx_vector_array in) {
    return GIVE(res, sum(take0(at(in, 0), at(in, 1))));
}

/* The message, and the fields: axis 0 of 4 elements, `position` within the lane. */
static void expect_lane(mlx_array a, const char *part, int position) {
    keel_error_info e = {.size = sizeof e};
    FAILS(mlx_array_eval(a), KEEL_EINDEX, part);
    assert_int_equal(keel_array_error(&e, a), 0);
    assert_int_equal(e.axis, 0);
    assert_int_equal(e.axis_size, 4);
    assert_int_equal(e.index, 9);
    assert_int_equal(e.position, position);
}

static void bad_indices_once(void) {
    mlx_array x = matrix(2, 4), one = VECTOR(1, 2, 3, 4);
    mlx_array i = keep(of_ints(LIST(2, 0, 1, 1, 9, 0), LIST(2, 3), 2)), same = keep(INTS(1, 0, 9));
    static const struct {
        list_fn *f;
        const char *name;
    } all[] = {{takes, "take"},
               {takes_along, "take_along_axis"},
               {adds_at, "scatter_add"},
               {puts_along, "put_along_axis"}};
    char text[128];
    for (int k = 0; k < 4; k++) {
        snprintf(text, sizeof text,
                 "%s: index 9 is out of range for axis 0 of size 4 (lane 1, at position 1)",
                 all[k].name);
        expect_lane(lanes(all[k].f, ZEROS4, ZEROS4, LIST_OF(x, i)), text, 1);
        expect_lane(lanes(all[k].f, LIST(-1, 0, 0, 0), ZEROS4, LIST_OF(one, i)), text, 1);
        const bool along = k == 1 || k == 3; /* their indices are broadcast to all lanes */
        snprintf(text, sizeof text,
                 "%s: index 9 is out of range for axis 0 of size 4 (%sat position 2)", all[k].name,
                 along ? "lane 0, " : "");
        expect_lane(lanes(all[k].f, LIST(0, -1, 0, 0), ZEROS4, LIST_OF(x, same)), text, 2);
        /* nested: the lanes of both are counted as one row */
        mlx_array x3 = reshaped(matrix(6, 4), AXES(3, 2, 4)), i3;
        i3 = keep(
            of_ints(LIST(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9), LIST(3, 2, 3), 3));
        snprintf(text, sizeof text,
                 "%s: index 9 is out of range for axis 0 of size 4 (lane 5, at position 2)",
                 all[k].name);
        expect_lane(result_of(lanes_of(lanes_of(plain(all[k].f), ZEROS4, ZEROS4), ZEROS4, ZEROS4),
                              LIST_OF(x3, i3), 0),
                    text, 2);
    }
    /* the gradient of take does not need what take gives, only the indices: it fails by itself */
    expect_lane(result_of(gradient_of(plain(takes_sum), LIST(0), 1), LIST_OF(one, same), 0),
                "gradient of take: index 9 is out of range for axis 0 of size 4 (at position 2)",
                2);
    expect_lane(result_of(lanes_of(gradient_of(plain(takes_sum), LIST(0), 1), ZEROS4, ZEROS4),
                          LIST_OF(x, i), 0),
                "gradient of take: index 9 is out of range for axis 0 of size 4 (lane 1, at "
                "position 1)",
                1);
    total_of = lanes_of(plain(takes_sum), ZEROS4, ZEROS4);
    expect_lane(result_of(gradient_of(plain(total), LIST(0), 1), LIST_OF(x, i), 0),
                "gradient of take: index 9 is out of range for axis 0 of size 4 (lane 1, at "
                "position 1)",
                1);
    mlx_closure_free(total_of);
    drop_to(0);
}

static void test_bad_indices(void **state) {
    assert_no_leak(bad_indices_once);
}

/* ---- placeholders ---- */

static mlx_array escaped;
static int evaluates(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array x = at(in, 0), y = square(x);
    float value;
    mlx_vector_array both = LIST_OF(x, y);
    escaped = y;
    FAILS(mlx_array_eval(y), KEEL_ETRACE, "has no value");
    FAILS(mlx_array_item_float32(&value, x), KEEL_ETRACE, "has no value");
    FAILS(mlx_eval(both), KEEL_ETRACE, "has no value");
    FAILS(mlx_async_eval(both), KEEL_ETRACE, "array 0 depends on an argument");
    FAILS_ZERO(mlx_array_data_float32(x), KEEL_ETRACE, "has no value");
    FAILS_ZERO(mlx_array_data_float32(y), KEEL_ETRACE, "has no value");
    mlx_string s = mlx_string_new();
    FAILS(mlx_array_tostring(&s, y), KEEL_ETRACE, "has no value");
    mlx_string_free(s);
    bool done = true;
    OK(_mlx_array_is_available(&done, x));
    assert_false(done);
    mlx_vector_array_free(both);
    /* a constant can be evaluated */
    mlx_array c = square(number(3));
    OK(mlx_array_eval(c));
    return GIVE(res, multiply(y, c));
}

static int fails_midway(mlx_vector_array *res, const mlx_vector_array in) {
    square(at(in, 0));
    return 5;
}

static void placeholders_once(void) {
    assert_text(lanes(evaluates, ZEROS4, ZEROS4, LIST_OF(VECTOR(1, 2))),
                "array([9, 36], dtype=float32)");
    mlx_array later = add(escaped, number(1));
    FAILS(mlx_array_eval(escaped), KEEL_ETRACE, "after the call");
    FAILS(mlx_array_eval(later), KEEL_ETRACE, "after the call");
    mlx_vector_array v = LIST_OF(later);
    FAILS(mlx_async_eval(v), KEEL_ETRACE, "after the call");
    mlx_vector_array_free(v);
    mlx_vector_array args = LIST_OF(VECTOR(1, 2)), p = mlx_vector_array_new(),
                     r = mlx_vector_array_new();
    mlx_closure f = plain(fails_midway);
    FAILS(mlx_detail_vmap_trace(&p, &r, f, args, AXES(0)), KEEL_ECALLBACK, "(5)");
    FAILS(mlx_detail_vmap_trace(&p, &r, mlx_closure_new(), args, AXES(0)), KEEL_EARG, "fun is an");
    mlx_closure_free(f);
    mlx_vector_array_free(args);
    mlx_vector_array_free(p);
    mlx_vector_array_free(r);
    assert_text(lanes(square_of, ZEROS4, ZEROS4, LIST_OF(VECTOR(1, 2))),
                "array([1, 4], dtype=float32)");
    drop_to(0);
}

static void test_placeholders(void **state) {
    assert_no_leak(placeholders_once);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_axes),         cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_nested),       cmocka_unit_test(test_moves),
        cmocka_unit_test(test_random),       cmocka_unit_test(test_bad_indices),
        cmocka_unit_test(test_placeholders),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
