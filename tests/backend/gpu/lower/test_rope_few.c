/* test_rope_few.c - which rotations and writes into slices become one launch, on a driver that
 * notes what is launched: where rotated rows are stored, and what keeps commands apart. */
#include "backend/gpu/lower/fake_driver.h"
#include "base/op/op_params.h"

enum { MOST = 6, HEADS = 2, WIDTH = 8, CAPACITY = 5, OUT_OF_PART = 1, PER_PART = 3 };

static struct {
    struct kl_driver driver;
    const void *out[2 * MOST][4]; /* of each launch with several parts; else {NULL} */
    int n;
} fake;

static int fake_launch(struct kl_driver *p, void *queue, void *kernel, uint32_t groups,
                       uint32_t local, const struct kl_karg *args, int n_args,
                       struct kl_error **err) {
    assert_true(fake.n < 2 * MOST);
    for (int k = 0; k < 4 && n_args == 20; k++)
        fake.out[fake.n][k] = args[PER_PART * k + OUT_OF_PART].value;
    fake.n++;
    return KL_OK;
}

static int fake_copy(struct kl_driver *p, void *queue, void *dst, const void *src, size_t bytes,
                     struct kl_error **err) {
    fake.n++;
    return KL_OK;
}

static const struct kl_driver_ops fake_ops = {.compile = fd_compile,
                                              .load = fd_load,
                                              .find = fd_find,
                                              .launch = fake_launch,
                                              .copy = fake_copy};

/* ---- commands: rows of HEADS heads; fd_block(i) stands for memory ---- */

static struct {
    struct kl_command c[MOST];
    struct kl_arg args[MOST][4];
    int n;
    struct kl_rope_params rope[MOST];
    /* of writes: a structure and 8 numbers */
    _Alignas(int64_t) char slice[MOST][sizeof(struct kl_slice_params) + 8 * sizeof(int64_t)];
} all;

static int row_dims[] = {1, HEADS, 1, WIDTH}, cache_dims[] = {1, HEADS, CAPACITY, WIDTH};
static int64_t row_strides[] = {HEADS * WIDTH, WIDTH, WIDTH, 1},
               cache_strides[] = {HEADS * CAPACITY * WIDTH, CAPACITY *WIDTH, WIDTH, 1};

static struct kl_arg operand(void *data, enum kl_dtype dtype, bool is_cache) {
    return (struct kl_arg){.data = data,
                           .dtype = (uint8_t)dtype,
                           .ndim = 4,
                           .dims = is_cache ? cache_dims : row_dims,
                           .strides = is_cache ? cache_strides : row_strides,
                           .size = HEADS * WIDTH * (is_cache ? CAPACITY : 1),
                           .layout = KL_ROW_CONTIGUOUS | KL_DENSE};
}

static struct kl_command *next(enum kl_op_id op, const void *params, size_t bytes) {
    struct kl_command *c = &all.c[all.n];
    *c = (struct kl_command){.kind = KL_CMD_LAUNCH,
                             .op = op,
                             .name = kl_op_name(op),
                             .params = params,
                             .params_bytes = bytes,
                             .n_in = 2,
                             .n_out = 1,
                             .args = all.args[all.n]};
    all.n++;
    return c;
}

static struct kl_command *rotate(void *in, void *out) {
    struct kl_rope_params *p = &all.rope[all.n];
    *p = (struct kl_rope_params){.dims = WIDTH, .base = 10000, .scale = 1};
    struct kl_command *c = next(KL_OP_ROPE, p, sizeof *p);
    c->args[0] = operand(in, KL_F32, false);
    c->args[1] = (struct kl_arg){
        .data = fd_block(90), .dtype = KL_I32, .size = 1, .layout = KL_ROW_CONTIGUOUS | KL_DENSE};
    c->args[2] = operand(out, KL_F32, false);
    return c;
}

/* Row 3 of the cache. */
static struct kl_command *write(void *rows, void *cache) {
    struct kl_slice_params *p = (struct kl_slice_params *)(void *)all.slice[all.n];
    p->ndim = 4;
    memcpy(p->v, (int64_t[]){0, 0, 3, 0, 1, 1, 1, 1}, 8 * sizeof *p->v);
    struct kl_command *c = next(KL_OP_SLICE_UPDATE, p, sizeof all.slice[0]);
    c->args[0] = operand(cache, KL_F32, true);
    c->args[1] = operand(rows, KL_F32, false);
    c->args[2] = operand(cache, KL_F32, true);
    c->dead = 3;
    return c;
}
static const char *slice_of(int i) {
    return fd_block(i) + 3 * WIDTH * sizeof(float);
}

static int launches(void) {
    struct kl_error *err = NULL;
    fake.driver = fd_driver(&fake_ops);
    struct kl_lowering *l = fd_lowering(&fake.driver);
    for (int i = 0; i < all.n; i++) {
        size_t bytes;
        assert_int_equal(kl_lower_prepare(l, &all.c[i], &bytes, &err), KL_OK);
        assert_int_equal(bytes, 0);
    }
    fake.n = 0;
    memset(fake.out, 0, sizeof fake.out);
    assert_int_equal(kl_lower(l, fd_block(99), all.c, all.n, &err), KL_OK);
    return fake.n;
}

/* Queries 0 to 1; keys 2 to 3 and to the cache 4; values 5 to the cache 6. */
static void step(void) {
    all.n = 0;
    rotate(fd_block(0), fd_block(1));
    rotate(fd_block(2), fd_block(3));
    write(fd_block(3), fd_block(4));
    write(fd_block(5), fd_block(6));
}

static void one_launch(void **state) {
    step();
    assert_int_equal(launches(), 1);
    assert_ptr_equal(fake.out[0][0], fd_block(1));
    assert_ptr_equal(fake.out[0][1], slice_of(4));
    assert_ptr_equal(fake.out[0][2], slice_of(6));
    all.n = 0; /* a write may come first */
    write(fd_block(5), fd_block(6));
    rotate(fd_block(0), fd_block(1));
    assert_int_equal(launches(), 1);
    all.n = 0;
    rotate(fd_block(0), fd_block(1));
    assert_int_equal(launches(), 1);
}

/* More than the parts of a launch: the others are a launch of their own. */
static void many(void **state) {
    all.n = 0;
    for (int i = 0; i < 6; i++) rotate(fd_block(2 * i), fd_block(2 * i + 1));
    assert_int_equal(launches(), 2);
    assert_ptr_equal(fake.out[0][3], fd_block(7));
    assert_ptr_equal(fake.out[1][1], fd_block(11));
}

static void stored(void **state) {
    step();
    all.c[2].dead = 1; /* the rotated keys are needed */
    assert_int_equal(launches(), 3);
    assert_ptr_equal(fake.out[0][1], fd_block(3));
    step();
    all.args[2][1].data = fd_block(7); /* other rows are written */
    assert_int_equal(launches(), 1);
    assert_ptr_equal(fake.out[0][1], fd_block(3));
    assert_ptr_equal(fake.out[0][2], slice_of(4));
    step();
    all.args[2][0].data = fd_block(8); /* the cache is copied first */
    assert_int_equal(launches(), 4);   /* both rotations, the cache, the row, the values */
    assert_ptr_equal(fake.out[0][1], fd_block(3));
}

static void apart(void **state) {
    step();
    all.args[1][2].data = fd_block(0); /* keys are stored where queries are read */
    all.args[2][1].data = fd_block(0);
    assert_int_equal(launches(), 2);
    assert_ptr_equal(fake.out[0][0], fd_block(1));
    assert_ptr_equal(fake.out[1][0], slice_of(4));
    step();
    all.args[1][0].data = fd_block(1); /* they are what was rotated before */
    assert_int_equal(launches(), 2);
    step();
    all.args[1][0].data = fd_block(4); /* the keys are in the cache: its write waits for them */
    assert_int_equal(launches(), 3);
    assert_ptr_equal(fake.out[0][1], fd_block(3));
    step();
    all.args[3][0].data = all.args[3][2].data = fd_block(2) - 64; /* written over the keys' input */
    assert_int_equal(launches(), 2);
    assert_ptr_equal(fake.out[0][1], slice_of(4));
    step();
    all.args[3][1].data = fd_block(4); /* reads what is written */
    assert_int_equal(launches(), 2);
}

/* Gives rotation i frequencies. */
static void give(int i, void *freqs) {
    static int n = WIDTH / 2;
    static int64_t one = 1;
    all.args[i][3] = all.args[i][2];
    all.args[i][2] = (struct kl_arg){.data = freqs,
                                     .dtype = KL_F32,
                                     .ndim = 1,
                                     .dims = &n,
                                     .strides = &one,
                                     .size = n,
                                     .layout = KL_ROW_CONTIGUOUS | KL_DENSE};
    all.c[i].n_in = 3;
}
static void frequencies(void **state) {
    step();
    give(0, fd_block(10));
    give(1, fd_block(10));
    assert_int_equal(launches(), 1);
    assert_ptr_equal(fake.out[0][1], slice_of(4));
    step();
    give(0, fd_block(10));
    assert_int_equal(launches(), 2);
    step();
    give(0, fd_block(10));
    give(1, fd_block(11));
    assert_int_equal(launches(), 2);
    step();
    give(0, fd_block(10));
    give(1, fd_block(4)); /* in the cache that is written */
    all.args[0][2].data = fd_block(4);
    assert_int_equal(launches(), 3);
}

static void unlike(void **state) {
    step();
    all.rope[1].base = 500;
    assert_int_equal(launches(), 2);
    step();
    all.rope[1].traditional = true;
    assert_int_equal(launches(), 2);
    step();
    all.rope[1].inverse = true;
    assert_int_equal(launches(), 2);
    step();
    all.rope[1].scale = 2;
    assert_int_equal(launches(), 2);
    step();
    for (int i = 0; i < 3; i++) all.args[3][i].dtype = KL_F16;
    assert_int_equal(launches(), 2);
    step();
    all.c[3].n_guards = 1;
    assert_int_equal(launches(), 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_launch),  cmocka_unit_test(many),
                                       cmocka_unit_test(stored),      cmocka_unit_test(apart),
                                       cmocka_unit_test(frequencies), cmocka_unit_test(unlike)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
