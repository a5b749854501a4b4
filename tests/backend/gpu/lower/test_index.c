/* test_index.c - GATHER and SCATTER on a device against the CPU, with wrong indices at
 * chosen positions: the same elements bit for bit, and the same smallest position reported,
 * wherever a tile or a work-group of the device's kernel begins. */
#include "lower_support.h"

enum { AXES = 3, MOST_BAD = 2, MOST_INDEX = 3 };

struct indexing {
    enum kl_op_id op; /* op: GATHER or SCATTER */
    enum kl_scatter_mode mode;
    enum kl_dtype dtype, index_dtype;
    int n_index; /* the index arrays belong to axes 0, 1, ... */
    int dims[AXES], slice[AXES];
    enum layout layout; /* layout: of the source, or of a scatter's updates */
    int n;              /* n: number of positions */
    int cut;            /* where the first of two launches ends; 0: one launch */
};

static bool is_unsigned(enum kl_dtype t) {
    return t == KL_U8 || t == KL_U16 || t == KL_U32 || t == KL_U64;
}
static void put_index(struct operand *o, int i, int64_t v) {
    size_t item = kl_dtype_size(o->arg.dtype);
    memcpy(o->block + (size_t)i * item, &v, item);
}

/* An index in range, sometimes counted from the end. The indices of a scatter are all different. */
static int64_t good_index(const struct indexing *x, int k, int i) {
    int places = x->dims[k] - x->slice[k] + 1;
    int64_t v = x->op == KL_OP_SCATTER ? i % places : (int64_t)(ls_draw() % (unsigned)places);
    return !is_unsigned(x->index_dtype) && i % 3 == 0 ? v - x->dims[k] : v;
}
static int64_t bad_index(const struct indexing *x, int k, int i) {
    int places = x->dims[k] - x->slice[k] + 1;
    /* As an unsigned number, -1 is the largest. */
    if (is_unsigned(x->index_dtype)) return i % 2 ? places : -1;
    switch (i % 4) {
    case 0: return places;
    case 1: return -x->dims[k] - 1;
    case 2: return x->dims[k] > places ? -1 : places; /* the slice would end beyond the axis */
    default: return kl_dtype_size(x->index_dtype) == 4 ? INT32_MIN : -30000;
    }
}

/* Runs one launch of positions [begin, end) on each side. */
static void launch(const struct indexing *x, const void *params, int n_in, struct operand *in,
                   struct operand *out, int64_t begin, int64_t end, const char *what) {
    struct kl_arg host[2 + MOST_INDEX + 1], device[2 + MOST_INDEX + 1];
    struct kl_error *err = NULL;
    for (int i = 0; i <= n_in; i++) {
        struct operand *o = i < n_in ? &in[i] : out;
        host[i] = device[i] = o->arg;
        device[i].data = (char *)o->device + (size_t)o->first * kl_dtype_size(o->arg.dtype);
    }
    uint32_t clear[2] = {UINT32_MAX, UINT32_MAX}, got[2];
    struct kl_fault_words words = {.device = kh_new(sizeof clear)};
    kh_write(words.device, clear, sizeof clear);
    struct kl_launch l = {.op = x->op,
                          .params = params,
                          .n_in = n_in,
                          .n_out = 1,
                          .in = host,
                          .out = &host[n_in],
                          .checked = true,
                          .pos_begin = begin,
                          .pos_end = end,
                          .fault = KL_NO_FAULT,
                          .err = &err};
    assert_int_equal(kl_cpu_kernel(x->op)(&l), KL_OK);
    struct kl_command c = {.kind = KL_CMD_LAUNCH,
                           .op = x->op,
                           .name = kl_op_name(x->op),
                           .params = params,
                           .n_in = n_in,
                           .n_out = 1,
                           .args = device,
                           .checked = true,
                           .pos_begin = begin,
                           .pos_end = end,
                           .word = {&words, 1}};
    int rc = kh_lower(&c, &err);
    if (rc) fail_msg("%s: %s", what, err->message);
    kh_read(got, words.device, sizeof got);
    uint32_t want = l.fault == KL_NO_FAULT ? UINT32_MAX : (uint32_t)(l.fault - begin);
    if (got[1] != want || got[0] != (l.fault == KL_NO_FAULT ? UINT32_MAX : 1))
        fail_msg("%s: fault at %u, not at %u (summary %u)", what, got[1], want, got[0]);
    kh_free(words.device, sizeof clear);
}

static void check(const struct indexing *x, const int *bad, int n_bad) {
    struct operand in[2 + MOST_INDEX], out;
    bool scatter = x->op == KL_OP_SCATTER;
    int first = scatter ? 2 : 1, n_in = first + x->n_index, index_dims[] = {x->n};
    int rows[1 + AXES] = {x->n, x->slice[0], x->slice[1], x->slice[2]};
    char what[200];
    snprintf(what, sizeof what, "%s %d of %s by %d %s, layout %d, slice %d %d %d, bad %d %d",
             kl_op_name(x->op), x->mode, kl_dtype_name(x->dtype), x->n,
             kl_dtype_name(x->index_dtype), x->layout, x->slice[0], x->slice[1], x->slice[2],
             n_bad > 0 ? bad[0] : -1, n_bad > 1 ? bad[1] : -1);
    ls_make(&in[0], x->dtype, AXES, x->dims, scatter ? DENSE : x->layout, PLAIN);
    if (scatter) ls_make(&in[1], x->dtype, 1 + AXES, rows, x->layout, PLAIN);
    for (int k = 0; k < x->n_index; k++) {
        struct operand *o = &in[first + k];
        ls_make(o, x->index_dtype, 1, index_dims, DENSE, PLAIN);
        for (int i = 0; i < x->n; i++) put_index(o, i, good_index(x, k, i));
        for (int i = 0; i < n_bad; i++) /* a wrong index in one of the arrays */
            if ((bad[i] + i) % x->n_index == k) put_index(o, bad[i], bad_index(x, k, bad[i] + i));
        kh_write(o->device, o->block, o->bytes);
    }
    if (scatter)
        ls_make_out(&out, x->dtype, AXES, x->dims);
    else
        ls_make_out(&out, x->dtype, 1 + AXES, rows);
    struct {
        struct kl_gather_params p;
        int v[MOST_INDEX + AXES];
    } g = {.p = {x->n_index, AXES}};
    struct {
        struct kl_scatter_params p;
        int v[MOST_INDEX];
    } s = {.p = {x->mode, x->n_index}};
    for (int k = 0; k < x->n_index; k++) g.v[k] = s.v[k] = k;
    for (int d = 0; d < AXES; d++) g.v[x->n_index + d] = x->slice[d];
    const void *params = scatter ? (const void *)&s : &g;
    int cut = x->cut ? x->cut : x->n;
    launch(x, params, n_in, in, &out, 0, cut, what);
    if (cut < x->n) launch(x, params, n_in, in, &out, cut, x->n, what);
    char *got = malloc(out.bytes);
    kh_read(got, out.device, out.bytes);
    ls_same(&out, got, what);
    for (size_t i = (size_t)out.arg.size * kl_dtype_size(x->dtype); i < out.bytes; i++)
        assert_int_equal((unsigned char)got[i], 0xA5);
    free(got);
    for (int i = 0; i < n_in; i++) ls_drop(&in[i]);
    ls_drop(&out);
}

/* Places wrong indices: none; at both ends; on both sides of where a work-group of 256 positions
 * begins, or a group of another size; and two at a time. */
static void bad_everywhere(const struct indexing *x) {
    int n = x->n,
        at[] = {0, 1, 255, 256, 257, 511, 512, n / 2 - 1, n / 2, n - n % 256, n - 2, n - 1};
    check(x, NULL, 0);
    for (size_t i = 0; i < sizeof at / sizeof *at; i++)
        if (at[i] >= 0 && at[i] < n) check(x, &at[i], 1);
    for (int k = 2; k <= 16; k += 7)
        for (int side = -1; side <= 0; side++) {
            int part = (n + k - 1) / k, two[] = {n - 1 - part / 2, part + side};
            if (two[0] >= 0 && two[0] != two[1] && part < n) check(x, two, 2);
        }
}

/* Gathers of items of every width, and of rows that are moved 16, 32 and 64 bytes at a time. */
static void gathers(void **state) {
    static const enum kl_dtype of_width[] = {KL_U8, KL_BF16, KL_F32, KL_C64};
    struct indexing x = {.op = KL_OP_GATHER, .index_dtype = KL_I32, .n_index = 1, .n = 5003};
    for (int width = 0; width < 4; width++) {
        static const int rows[4][3] = {{1, 5, 64}, {1, 3, 32}, {1, 7, 24}, {1, 3, 6}};
        x.dtype = of_width[width];
        for (int r = 0; r < 3; r++) {
            memcpy(x.dims, (int[]){300, 1, rows[width][r]}, sizeof x.dims);
            memcpy(x.slice, (int[]){1, 1, rows[width][r]}, sizeof x.slice);
            bad_everywhere(&x);
        }
    }
}

static void rows_that_are_not_flat(void **state) {
    static const enum layout layouts[] = {DENSE, TRANSPOSED, REVERSED, GAPPED};
    for (int l = 0; l < 4; l++) {
        struct indexing x = {KL_OP_GATHER, 0,         KL_F32,     KL_I32, 1,
                             {60, 9, 7},   {3, 4, 7}, layouts[l], 1200,   0};
        bad_everywhere(&x);
        struct indexing y = {KL_OP_GATHER, 0,         KL_U16,     KL_I32, 1,
                             {60, 9, 8},   {1, 4, 4}, layouts[l], 1200,   700};
        bad_everywhere(&y);
    }
}

static void several_index_arrays(void **state) {
    static const enum kl_dtype types[] = {KL_U8, KL_U16, KL_U32, KL_U64,
                                          KL_I8, KL_I16, KL_I32, KL_I64};
    for (int t = 0; t < 8; t++) {
        int n = 3 - t % 3;
        struct indexing x = {.op = KL_OP_GATHER,
                             .dtype = KL_F32,
                             .index_dtype = types[t],
                             .n_index = n,
                             .dims = {70, 30, 40},
                             .slice = {1, n > 1 ? 2 : 30, n > 2 ? 1 : 40},
                             .n = n == 1 ? 600 : 1100};
        bool small = kl_dtype_size(types[t]) == 1; /* each wrong index must be representable */
        int bad[] = {t == 4 ? 513 : 512, 1};
        check(&x, NULL, 0);
        if (!small || t == 0) check(&x, bad, 1);
        if (!small) check(&x, bad, 2);
    }
}

/* With few positions, several work-items share the rows of a position. */
static void wide_rows(void **state) {
    for (int n = 1; n <= 17; n += 4) {
        struct indexing x = {KL_OP_GATHER,  0,     KL_F32, KL_I32, 1, {4, 1, 70001},
                             {1, 1, 70001}, DENSE, n,      0};
        check(&x, NULL, 0);
        check(&x, (int[]){n - 1}, 1);
        x.dims[2] = x.slice[2] = 65536;
        x.cut = n / 2;
        check(&x, (int[]){n / 2}, 1);
        x.op = KL_OP_SCATTER;
        x.dims[0] = 20;
        check(&x, (int[]){n / 2}, 1);
    }
}

static void position_ranges(void **state) {
    for (int cut = 1; cut < 1500; cut += 250) {
        struct indexing x = {KL_OP_GATHER, 0,          KL_F32, KL_I32, 1,
                             {900, 1, 24}, {1, 1, 24}, DENSE,  1500,   cut};
        bad_everywhere(&x);
    }
}

static void scatters(void **state) {
    static const enum kl_dtype of_width[] = {KL_U8, KL_I16, KL_I32, KL_I64};
    static const int rows[] = {1, 3, 16};
    for (int mode = KL_SCATTER_ASSIGN; mode <= KL_SCATTER_ADD_DENORMAL; mode++)
        for (int width = 0; width < 4; width++) {
            if (mode > KL_SCATTER_ADD && width != mode % 4) continue;
            /* One width of each mode in any sample. */
            if (width != mode % 4 && !kl_test_takes("kernels", 1)) continue;
            for (int r = 0; r < 3; r++) {
                struct indexing x = {.op = KL_OP_SCATTER,
                                     .mode = (enum kl_scatter_mode)mode,
                                     .dtype = of_width[width],
                                     .index_dtype = KL_I32,
                                     .n_index = 1,
                                     .dims = {5003, 1, rows[r]},
                                     .slice = {1, 1, rows[r]},
                                     .n = 5003,
                                     .cut = r % 2 ? 3000 : 0};
                if (r == mode % 2)
                    bad_everywhere(&x);
                else
                    check(&x, (int[]){x.n - 1, 4096}, 2);
            }
            struct indexing apart = {KL_OP_SCATTER,
                                     (enum kl_scatter_mode)mode,
                                     of_width[width],
                                     KL_I32,
                                     1,
                                     {2000, 9, 7},
                                     {1, 4, 7},
                                     TRANSPOSED,
                                     2000,
                                     0};
            check(&apart, (int[]){1999, 256}, 2);
            apart.slice[2] = 5;
            check(&apart, (int[]){255, 1000}, 2);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gathers),
        cmocka_unit_test(rows_that_are_not_flat),
        cmocka_unit_test(several_index_arrays),
        cmocka_unit_test(wide_rows),
        cmocka_unit_test(position_ranges),
        cmocka_unit_test(scatters),
    };
    return cmocka_run_group_tests(tests, kh_setup, NULL);
}
