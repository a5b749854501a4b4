/* test_nvrtc_made.c - the sources that the lowering generates at run time, compiled by NVRTC for
 * sm_90: gathers, scatters, scans, sorts and groups of element-wise operations. (test_nvrtc.c has
 * kernels of users.) Compiled are the independent parts of a source, since all combinations would
 * take hours: every operation with every dtype; every mode of a scatter with every dtype, checked
 * and unchecked by turns; every dtype of an index array, checked and not; every number of index
 * arrays, width of a move, layout and pack. A run with KEEL_DETERMINISTIC=1 compiles other
 * scatters. */
#include "backend/cuda/nvrtc_support.h"

#include "base/number/dtype.h"
#include "base/op/deterministic.h"
#include "base/op/op_params.h"
#include "base/value/tensor.h"

/* ---- commands ---- */

enum { DIMS = 10, MAX_ARGS = 12, MAX_COMMANDS = 64 };
struct operand {
    int dims[DIMS];
    int64_t strides[DIMS];
};
struct made { /* a command with its operands; their addresses are never read */
    struct kl_command c;
    struct kl_arg args[MAX_ARGS];
    struct operand operand[MAX_ARGS];
};

static struct kl_fault_words words = {.device = (void *)64};

static void *address(int n) {
    return (void *)(uintptr_t)((uint64_t)(n + 1) << 44);
}

/* Sets argument `at`: contiguous, or with gap > 1 elements that are so far apart. */
static void put(struct made *m, int at, enum kl_dtype dtype, int ndim, const int *dims, int gap) {
    struct operand *o = &m->operand[at];
    int64_t stride = gap, size = 1;
    for (int d = ndim - 1; d >= 0; d--) {
        o->dims[d] = dims[d];
        o->strides[d] = stride;
        stride *= dims[d];
        size *= dims[d];
    }
    m->args[at] = (struct kl_arg){.data = address(at),
                                  .dtype = (uint8_t)dtype,
                                  .ndim = ndim,
                                  .size = size,
                                  .dims = o->dims,
                                  .strides = o->strides,
                                  .layout = kl_layout_of(ndim, o->dims, o->strides)};
}

static void command(struct made *m, enum kl_op_id op, const void *params, int n_in, bool checked) {
    m->c = (struct kl_command){.kind = KL_CMD_LAUNCH,
                               .op = op,
                               .name = kl_op_name(op),
                               .params = params,
                               .n_in = n_in,
                               .n_out = 1,
                               .args = m->args,
                               .checked = checked,
                               .pos_end = INT64_MAX};
    if (checked) m->c.word = (struct kl_word_ref){&words, 1};
}

/* Lowers as the driver does: once when the operation is encoded, which compiles, and once for the
 * launch. */
static void lower(struct kl_command *commands, int n, const char *what) {
    struct kl_error *e = NULL;
    int rc = KL_OK, launched = n_launched;
    if (no_nvrtc(1)) return;
    for (int i = 0; i < n && !rc; i++) {
        rc = kl_lower_prepare(lowering, &commands[i], &commands[i].workspace_bytes, &e);
        /* an address that nothing reads */
        commands[i].workspace = (void *)(uintptr_t)(UINT64_C(1) << 60);
    }
    int compiled = n_made;
    if (!rc) rc = kl_lower(lowering, &driver, commands, n, &e);
    if (rc) fail_msg("%s: %s", what, e ? e->message : "no message");
    assert_true(n_launched > launched);
    if (!(kl_op_flags(commands[0].op) & (KL_OPF_ELEMENTWISE | KL_OPF_BEGINS_RUN)))
        assert_int_equal(n_made, compiled); /* nothing is compiled at the launch */
}

static void lower_one(struct made *m, const char *what) {
    if (!kl_test_takes("kernels", 3)) return;
    char text[160];
    int n = snprintf(text, sizeof text, "%s, %s%s:", kl_op_name(m->c.op), what,
                     m->c.checked ? ", checked" : "");
    for (int i = 0; i <= m->c.n_in; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, " %s",
                      kl_dtype_name((enum kl_dtype)m->args[i].dtype));
    lower(&m->c, 1, text);
}

/* Whether t is the dtype that stands for its storage class. A source depends on the dtype by its
 * class only. */
static bool of_each_class(enum kl_dtype t) {
    return t == KL_BOOL || t == KL_I8 || t == KL_F16 || t == KL_U32 || t == KL_F32 || t == KL_I64 ||
           t == KL_C64;
}

static bool is_index(enum kl_dtype t) {
    return kl_dtype_is_int(t) && t != KL_BOOL;
}

/* ---- gathers ---- */

enum { ROWS = 50, FEW = 70, MANY = 1 << 21, HUGE_ROWS = 1 << 30 };

/* Compiles a gather of (1, ..., 1, inner) elements by n_index arrays of n positions. gap: of the
 * source. */
static void gather(enum kl_dtype t, enum kl_dtype index, int n_index, int n, int inner, int gap,
                   bool checked, const char *what) {
    struct {
        struct kl_gather_params p;
        int v[2 * DIMS];
    } p = {.p = {.n_axes = n_index, .ndim = n_index + 1}};
    struct made m = {0};
    int source[DIMS], out[DIMS + 1] = {n};
    for (int k = 0; k < n_index; k++) {
        p.v[k] = k;
        source[k] = k ? 2 : ROWS;
        p.v[n_index + k] = out[1 + k] = 1;
        put(&m, 1 + k, index, 1, &n, 1);
    }
    source[n_index] = p.v[2 * n_index] = out[1 + n_index] = inner;
    put(&m, 0, t, n_index + 1, source, gap);
    put(&m, 1 + n_index, t, n_index + 2, out, 1);
    if (n_index == 0) put(&m, 1, t, 1, &inner, 1);
    command(&m, KL_OP_GATHER, &p, 1 + n_index, checked);
    lower_one(&m, what);
}

static void test_gather_indices(void **state) {
    for (int t = 0; t < KL_N_DTYPES; t++)
        for (int checked = 0; checked < 2 && is_index((enum kl_dtype)t); checked++)
            gather(KL_F32, (enum kl_dtype)t, 1, FEW, 3, 1, checked, "index");
    for (int n = 0; n <= 8; n++)
        for (int checked = 0; checked < 2; checked++)
            gather(KL_F32, KL_I32, n, FEW, 3, 1, checked, "index arrays");
}

static void test_gather_moves(void **state) {
    static const struct {
        enum kl_dtype dtype;
        int inner;
    } widths[] = {{KL_BOOL, 1}, {KL_BF16, 1}, {KL_F32, 1}, {KL_I64, 1}, {KL_C64, 2}};
    for (int w = 0; w < 5; w++)
        for (int checked = 0; checked < 2; checked++) {
            enum kl_dtype t = widths[w].dtype;
            int inner = widths[w].inner;
            gather(t, KL_I64, 1, FEW, inner, 1, checked, "few");
            gather(t, KL_I64, 1, MANY, inner, 1, checked, "many");
            if (checked == w % 2) continue;
            gather(t, KL_I64, 1, HUGE_ROWS, 2 * inner + 3, 1, checked, "over 2^31");
            gather(t, KL_I64, 1, FEW, inner == 1 ? 3 : inner, 2, checked, "gaps");
        }
}

static void test_gather_axis(void **state) {
    const int dims[] = {6, 5}, index[] = {6, 7};
    static const enum kl_dtype widths[] = {KL_U8, KL_F16, KL_F32, KL_F64};
    for (int t = 0; t < KL_N_DTYPES; t++)
        for (int checked = 0; checked < 2 && is_index((enum kl_dtype)t); checked++) {
            struct kl_axis_params p = {.axis = 1};
            struct made m = {0};
            put(&m, 0, widths[t % 4], 2, dims, 1);
            put(&m, 1, (enum kl_dtype)t, 2, index, 1);
            put(&m, 2, widths[t % 4], 2, index, 1);
            command(&m, KL_OP_GATHER_AXIS, &p, 2, checked);
            lower_one(&m, "index");
        }
}

/* ---- scatters ---- */

static const char *const modes[] = {"assign", "add", "prod", "max", "min", "add_denormal"};

static void scatter(int mode, enum kl_dtype t, enum kl_dtype index, int n_index, int n, int inner,
                    int gap, bool checked) {
    struct {
        struct kl_scatter_params p;
        int axes[DIMS];
    } p = {.p = {.mode = (enum kl_scatter_mode)mode, .n_axes = n_index}};
    struct made m = {0};
    int base[DIMS], updates[DIMS + 1] = {n};
    for (int k = 0; k < n_index; k++) {
        p.axes[k] = k;
        base[k] = k ? 2 : ROWS;
        updates[1 + k] = 1;
        put(&m, 2 + k, index, 1, &n, 1);
    }
    base[n_index] = updates[1 + n_index] = inner;
    put(&m, 0, t, n_index + 1, base, gap);
    put(&m, 1, t, n_index + 1 + (n_index > 0), n_index ? updates : updates + 1, 1);
    put(&m, 2 + n_index, t, n_index + 1, base, gap);
    m.args[2 + n_index].data = m.args[0].data; /* the output has the memory of the base */
    command(&m, KL_OP_SCATTER, &p, 2 + n_index, checked);
    lower_one(&m, modes[mode]);
}

static void scatter_axis(int mode, enum kl_dtype t, enum kl_dtype index, bool checked) {
    const int dims[] = {6, 5}, where[] = {6, 3};
    struct kl_scatter_axis_params p = {.mode = (enum kl_scatter_mode)mode, .axis = 1};
    struct made m = {0};
    put(&m, 0, t, 2, dims, 1);
    put(&m, 1, t, 2, where, 1);
    put(&m, 2, index, 2, where, 1);
    put(&m, 3, t, 2, dims, 1);
    m.args[3].data = m.args[0].data;
    command(&m, KL_OP_SCATTER_AXIS, &p, 3, checked);
    lower_one(&m, modes[mode]);
}

/* SCATTER and SCATTER_AXIS have one source with two entries, so the test compiles them by turns.
 * Deterministic scatters have two launches, so they are compiled for fewer dtypes. */
static void test_scatter_modes(void **state) {
    for (int mode = 0; mode <= KL_SCATTER_ADD_DENORMAL; mode++)
        for (int t = 0; t < KL_N_DTYPES; t++) {
            if (mode == KL_SCATTER_ADD_DENORMAL && t != KL_F32) continue;
            bool sample = of_each_class((enum kl_dtype)t), common = mode <= KL_SCATTER_ADD;
            if (kl_deterministic() && mode != KL_SCATTER_ADD && !sample) continue;
            for (int k = 0; k < (sample && common && !kl_deterministic() ? 2 : 1); k++) {
                bool checked = (mode + t + k) % 2;
                if (t % 3 == mode % 3)
                    scatter_axis(mode, (enum kl_dtype)t, KL_I32, checked);
                else
                    scatter(mode, (enum kl_dtype)t, KL_I32, 1, FEW, 1, 1, checked);
            }
        }
}

static void test_scatter_indices(void **state) {
    for (int t = 0; t < KL_N_DTYPES; t++) {
        if (!is_index((enum kl_dtype)t)) continue;
        scatter(KL_SCATTER_ADD, KL_F32, (enum kl_dtype)t, 1, FEW, 3, 1, t % 2);
        if (kl_deterministic()) continue;
        scatter(KL_SCATTER_ASSIGN, KL_F32, (enum kl_dtype)t, 1, FEW, 3, 1, !(t % 2));
        scatter_axis(KL_SCATTER_ADD, KL_U32, (enum kl_dtype)t, !(t % 2));
    }
    for (int n = 0; n <= 8; n += kl_deterministic() ? 4 : 1)
        scatter(n % 5, KL_U32, KL_I32, n, FEW, 3, 1, n % 2);
}

static void test_scatter_moves(void **state) {
    static const enum kl_dtype widths[] = {KL_U8, KL_F16, KL_F32, KL_F64, KL_C64};
    for (int w = 0; w < 5; w += kl_deterministic() ? 2 : 1)
        for (int add = 0; add < 2; add++) {
            int inner = w == 4 ? 2 : 1;
            scatter(add, widths[w], KL_I64, 1, MANY, inner, 1, w % 2);
            scatter(add, widths[w], KL_I64, 1, FEW, 3, 2, !(w % 2));
            scatter(add, widths[w], KL_I64, 1, HUGE_ROWS, 2 * inner + 3, 1, w % 2);
            if (kl_deterministic()) /* more than 2^31 places, which need wide sort keys */
                scatter(add, widths[w], KL_I64, 1, FEW, inner, 1 << 26, w % 2);
        }
    for (int inner = 1; inner <= 4; inner += 3)
        scatter(KL_SCATTER_ADD_DENORMAL, KL_F32, KL_I32, 1, MANY, inner, 1, true);
}

/* ---- element-wise ---- */

enum { UNARY = 1, BINARY = 2, COMPARISON = 3 };
static const struct {
    enum kl_op_id op;
    int kind;
} ops[] = {
#define KL_OP(...)
#define KL_UNARY(ID, ...) {KL_OP_##ID, UNARY},
#define KL_BINARY(ID, name, builder, function, takes, computes, gives, ...) \
    {KL_OP_##ID, KL_GIVES_##gives == KL_GIVES_BOOLEAN ? COMPARISON : BINARY},
#include "base/op/op_list.def"
    {KL_OP_COPY, UNARY}, {KL_OP_ROUND, UNARY}, {KL_OP_SILU_MUL, BINARY}};
enum { N_OPS = sizeof ops / sizeof *ops };

/* Whether the builders make this operation for dtype t. test_other_types has the operations whose
 * result has another dtype. */
static bool takes(enum kl_op_id op, enum kl_dtype t) {
    if (op == KL_OP_COPY) return true;
    if (op == KL_OP_ROUND) return kl_dtype_is_inexact(t);
    if (op == KL_OP_SILU_MUL) return kl_dtype_is_float(t);
    if (op == KL_OP_REAL || op == KL_OP_IMAG || op == KL_OP_TO_FP8) return false;
    return kl_op_has_kernel_for(op, t);
}

/* A chain of operations over FEW elements. Each result has an address of its own, and only the next
 * operation reads it. */
static struct made chain[MAX_COMMANDS];
static struct kl_command commands[MAX_COMMANDS];
static int n_chain;

static void begin_chain(void) {
    n_chain = 0;
}

static void operand_of_chain(struct made *m, int at, enum kl_dtype t, int where) {
    const int n = FEW;
    put(m, at, t, 1, &n, 1);
    m->args[at].data = address(where);
}

/* Adds an operation with a result of dtype `to`, and returns its number. from[i] is the number of
 * an earlier operation, or -1 - k for array k from outside of the chain. */
static int step(enum kl_op_id op, enum kl_dtype to, int n_in, const int *from,
                const enum kl_dtype *dtypes, uint32_t dead) {
    struct made *m = &chain[n_chain];
    for (int i = 0; i < n_in; i++)
        operand_of_chain(m, i, dtypes[i], from[i] < 0 ? -1 - from[i] : 100 + from[i]);
    operand_of_chain(m, n_in, to, 100 + n_chain);
    command(m, op, NULL, n_in, false);
    m->c.dead = dead;
    commands[n_chain] = m->c;
    return n_chain++;
}

static void test_operations(void **state) {
    for (int d = 0; d < KL_N_DTYPES; d++) {
        enum kl_dtype t = (enum kl_dtype)d;
        int at = -1; /* -1: the array x; -2: the array y */
        /* A number of each kind in any sample. */
        if (!of_each_class(t) && !kl_test_takes("kernels", 1)) continue;
        begin_chain();
        for (int k = 0; k < N_OPS; k++) {
            if (!takes(ops[k].op, t)) continue;
            if (ops[k].kind == UNARY && ops[k].op == KL_OP_ABS && t == KL_C64) {
                at = step(ops[k].op, KL_F32, 1, (int[]){at}, (enum kl_dtype[]){t}, 1);
                at = step(KL_OP_CAST, t, 1, (int[]){at}, (enum kl_dtype[]){KL_F32}, 1);
            } else if (ops[k].kind == UNARY) {
                at = step(ops[k].op, t, 1, (int[]){at}, (enum kl_dtype[]){t}, 1);
            } else if (ops[k].kind == BINARY) {
                at = step(ops[k].op, t, 2, (int[]){at, -2}, (enum kl_dtype[]){t, t}, 1);
            } else {
                int is = step(ops[k].op, KL_BOOL, 2, (int[]){at, -2}, (enum kl_dtype[]){t, t}, 0);
                at = step(KL_OP_WHERE, t, 3, (int[]){is, at, -2}, (enum kl_dtype[]){KL_BOOL, t, t},
                          t == KL_BOOL ? 1 : 3);
            }
        }
        int before = n_made;
        lower(commands, n_chain, kl_dtype_name(t));
        assert_in_range(n_made - before, 0, 4); /* the chain became a few kernels */
    }
}

/* Operations whose result has another dtype. */
static void test_other_types(void **state) {
    static const enum kl_dtype floats[] = {KL_F32, KL_F16, KL_BF16, KL_F64};
    for (int k = 0; k < 4; k++) {
        begin_chain();
        int code = step(KL_OP_TO_FP8, KL_U8, 1, (int[]){-1}, (enum kl_dtype[]){floats[k]}, 0);
        int x = step(KL_OP_FROM_FP8, KL_F32, 1, (int[]){code}, (enum kl_dtype[]){KL_U8}, 1);
        step(KL_OP_CAST, floats[k], 1, (int[]){x}, (enum kl_dtype[]){KL_F32}, 1);
        lower(commands, n_chain, "8-bit floats");
    }
    begin_chain();
    step(KL_OP_REAL, KL_F32, 1, (int[]){-1}, (enum kl_dtype[]){KL_C64}, 0);
    step(KL_OP_IMAG, KL_F32, 1, (int[]){-1}, (enum kl_dtype[]){KL_C64}, 0);
    lower(commands, n_chain, "parts");
}

/* Casts from every dtype to every other and back. */
static void test_casts(void **state) {
    for (int a = 0; a < KL_N_DTYPES; a++) {
        int at = -1;
        begin_chain();
        for (int b = a; b < KL_N_DTYPES; b++) {
            enum kl_dtype from = (enum kl_dtype)a, to = (enum kl_dtype)b;
            at = step(KL_OP_CAST, to, 1, (int[]){at}, &from, 1);
            at = step(KL_OP_CAST, from, 1, (int[]){at}, &to, 1);
        }
        lower(commands, n_chain, kl_dtype_name((enum kl_dtype)a));
    }
}

/* The layouts of an operand: row-major, a scalar that is broadcast, transposed, a row that is
 * broadcast, gaps between elements, gaps between rows, an unaligned address. */
enum layout { ROW_MAJOR, ONE, TRANSPOSED, BROADCAST_ROW, GAPS, PACKS, UNALIGNED, N_LAYOUTS };

static void lay(struct kl_arg *a, int64_t *strides, enum layout l) {
    int64_t rows = a->dims[0], columns = a->dims[1];
    switch (l) {
    case ONE: strides[0] = strides[1] = 0; break;
    case TRANSPOSED: strides[0] = 1, strides[1] = rows; break;
    case BROADCAST_ROW: strides[0] = 1, strides[1] = 0; break;
    case GAPS: strides[0] = 2 * columns, strides[1] = 2; break;
    case PACKS: strides[0] = 2 * columns, strides[1] = 1; break;
    case UNALIGNED: a->data = (char *)a->data + kl_dtype_size(a->dtype); break;
    default: break;
    }
    a->layout = kl_layout_of(a->ndim, a->dims, strides);
}

static void add_of(enum kl_dtype t, int ndim, const int *dims, enum layout x, enum layout y) {
    struct made m = {0};
    for (int i = 0; i < 3; i++) put(&m, i, t, ndim, dims, 1);
    if (ndim == 2) {
        lay(&m.args[0], m.operand[0].strides, x);
        lay(&m.args[1], m.operand[1].strides, y);
    }
    command(&m, KL_OP_ADD, NULL, 2, false);
    lower_one(&m, "layouts");
}

static void test_layouts(void **state) {
    static const enum kl_dtype sizes[] = {KL_U8, KL_BF16, KL_F32, KL_F64};
    const int dims[] = {6, 64}, large[] = {1 << 16, 1 << 16};
    for (int s = 0; s < 4; s++)
        for (int l = 0; l < N_LAYOUTS; l++)
            add_of(sizes[s], 2, dims, (enum layout)l, (enum layout)((l + s) % N_LAYOUTS));
    add_of(KL_C64, 2, dims, ROW_MAJOR, TRANSPOSED);
    add_of(KL_F32, 2, large, ROW_MAJOR, ROW_MAJOR);
    add_of(KL_F32, 2, large, PACKS, TRANSPOSED);
    for (int ndim = 1; ndim <= KL_SPACE_DIMS;
         ndim++) { /* No two axes can be merged, since every other one is broadcast. */
        int many[KL_SPACE_DIMS];
        struct made m = {0};
        for (int d = 0; d < ndim; d++) many[d] = 3;
        for (int i = 0; i < 3; i++) put(&m, i, KL_F32, ndim, many, 1);
        for (int d = 0; d < ndim; d += 2) m.operand[0].strides[d] = 0;
        if (ndim == 1) m.operand[0].strides[0] = 2;
        m.args[0].layout = kl_layout_of(ndim, m.args[0].dims, m.args[0].strides);
        command(&m, KL_OP_SUBTRACT, NULL, 2, false);
        lower_one(&m, "axes");
    }
}

/* One kernel with several results, as many as it may store, of several dtypes. */
static void test_several_results(void **state) {
    static const enum kl_dtype to[] = {KL_F16, KL_U8, KL_C64, KL_F64};
    begin_chain();
    for (int k = 0; k < 4; k++)
        step(KL_OP_CAST, to[k], 1, (int[]){-1}, (enum kl_dtype[]){KL_F32}, 0);
    int before = n_made;
    lower(commands, n_chain, "four results");
    if (have_nvrtc) assert_int_equal(n_made, before + 1);
}

/* ---- scans: one program per operation and dtype ---- */

static void test_scans(void **state) {
    for (int op = KL_OP_CUMSUM; op <= KL_OP_LOGCUMSUMEXP; op++)
        for (int t = 0; t < KL_N_DTYPES; t++) {
            bool is_inexact = kl_dtype_is_float((enum kl_dtype)t) || t == KL_C64;
            if (op == KL_OP_LOGCUMSUMEXP && !is_inexact) continue;
            struct kl_scan_params p = {t % 2, false, true};
            struct made m = {0};
            put(&m, 0, (enum kl_dtype)t, 2, (int[]){ROWS, FEW}, 1);
            put(&m, 1, op == KL_OP_CUMSUM && t == KL_BOOL ? KL_I32 : (enum kl_dtype)t, 2,
                (int[]){ROWS, FEW}, 1);
            command(&m, (enum kl_op_id)op, &p, 1, false);
            lower_one(&m, t % 2 ? "rows" : "columns");
        }
}

/* ---- long rows: every program that sorts them, in the groups and tiles that CUDA gets ---- */

static void test_sorts(void **state) {
    static const enum kl_op_id sorts[] = {KL_OP_SORT, KL_OP_ARGSORT, KL_OP_TOPK};
    for (int i = 0; i < 3; i++)
        for (int t = 0; t < KL_N_DTYPES; t++) {
            struct kl_partition_params p = {.axis = 1, .kth = 64};
            struct made m = {0};
            put(&m, 0, (enum kl_dtype)t, 2, (int[]){3, 100000}, 1);
            put(&m, 1, sorts[i] == KL_OP_ARGSORT ? KL_U32 : (enum kl_dtype)t, 2,
                (int[]){3, sorts[i] == KL_OP_TOPK ? 64 : 100000}, 1);
            command(&m, sorts[i], &p, 1, false);
            lower_one(&m, kl_op_name(sorts[i]));
        }
}

/* ---- a vector and rows ---- */

static void test_rows_and_a_vector(void **state) {
    static const enum kl_dtype dtypes[] = {KL_F16, KL_BF16, KL_F32};
    for (int i = 0; i < 3; i++)
        for (int rows = 1; rows <= ROWS; rows += ROWS - 1) {
            struct made m = {0};
            put(&m, 0, dtypes[i], 2, (int[]){rows, 4096}, 1);
            put(&m, 1, dtypes[i], 2, (int[]){4096, 1}, 1);
            put(&m, 2, dtypes[i], 2, (int[]){rows, 1}, 1);
            command(&m, KL_OP_MATMUL, NULL, 2, false);
            assert_true(kl_matmul_by_rows(&m.c));
            lower_one(&m, "by rows");
            m.operand[0].strides[1] = 2; /* no 16-byte pieces */
            assert_false(kl_matmul_by_rows(&m.c));
        }
}

/* ---- quantized products: what matrix units get, by type, format, rows and alignment ---- */

static void test_quantized_products(void **state) {
    static const struct {
        int m, n, k, bits, group;
        enum kl_dtype t;
        int batches, gap;       /* gap: of x */
        uint32_t groups, warps; /* of the last launch */
    } cases[] = {
        {1, 14336, 4096, 4, 64, KL_BF16, 1, 1, 896, 2},
        {1, 4096, 14336, 4, 64, KL_F16, 1, 1, 256, 8},
        {8, 14336, 4096, 8, 64, KL_F16, 1, 2, 896, 2},
        {9, 14336, 4096, 4, 64, KL_BF16, 1, 1, 448, 2},
        {64, 4096, 14336, 4, 64, KL_BF16, 1, 1, 128, 8},
        {33, 4097, 64, 2, 32, KL_BF16, 3, 3, 387, 1},
        {5, 17, 384, 4, 128, KL_F16, 2, 1, 4, 2},
        {1, 14336, 4096, 4, 64, KL_F32, 1, 1, 896, 4},
    };
    driver.has_matrix_units = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int b = cases[i].batches, m = cases[i].m, n = cases[i].n, k = cases[i].k;
        const struct kl_qmm_params p = {{KL_QUANT_AFFINE, cases[i].group, cases[i].bits}, true};
        struct made c = {0};
        put(&c, 0, cases[i].t, 3, (int[]){b, m, k}, cases[i].gap);
        put(&c, 1, KL_U32, 3, (int[]){b, n, k * cases[i].bits / 32}, 1);
        for (int a = 2; a < 4; a++) put(&c, a, cases[i].t, 3, (int[]){b, n, k / cases[i].group}, 1);
        put(&c, 4, cases[i].t, 3, (int[]){b, m, n}, 1);
        command(&c, KL_OP_QUANTIZED_MATMUL, &p, 4, false);
        if (no_nvrtc(1)) continue;
        const int before = n_launched;
        lower(&c.c, 1, "quantized product");
        assert_int_equal(n_launched - before, cases[i].gap > 1 ? 2 : 1); /* x is copied */
        assert_int_equal(last_launch.groups, cases[i].groups);
        assert_int_equal(last_launch.local, cases[i].warps * 32);
    }
    driver.has_matrix_units = false;
}

/* One row of whole stages: the groups that fill the device twice share the rows of w. */
static int n_shared; /* launches with dynamic shared memory */
static int row_launch(struct kl_driver *p, void *queue, void *kernel, const uint32_t *groups,
                      const uint32_t *local, size_t shared_bytes, const struct kl_karg *args,
                      int n_args, struct kl_error **err) {
    /* Two groups have room on a multiprocessor, and never a third one: the grid has two for each,
     * which must not land on a part of them. */
    assert_true(2 * shared_bytes <= driver.dynamic_bytes &&
                3 * shared_bytes > driver.dynamic_bytes);
    n_shared++;
    return nvrtc_launch(p, queue, kernel, groups[0], local[0], args, n_args, err);
}

/* The driver as one with matrix units and as much shared memory as an H200, or as before. */
static void set_wide(bool wide) {
    static struct kl_driver_ops row_ops;
    row_ops = nvrtc_ops;
    row_ops.launch_3d = row_launch;
    driver.ops = wide ? &row_ops : &nvrtc_ops;
    driver.dynamic_bytes = wide ? 227 << 10 : 0;
    driver.has_matrix_units = wide;
}

static void test_one_quantized_row(void **state) {
    static const struct {
        int n, k, bits, group, batches;
        uint32_t groups, warps;
    } cases[] = {{14336, 4096, 4, 64, 1, 224, 8},  {4096, 14336, 4, 64, 1, 256, 8},
                 {128256, 4096, 8, 64, 1, 259, 8}, {512, 4096, 4, 128, 3, 96, 8},
                 {512, 4096, 4, 32, 1, 32, 16},    {500, 4096, 4, 64, 1, 32, 16},
                 {512, 4160, 4, 64, 1, 32, 16},    {512, 1024, 4, 64, 1, 32, 8}};
    set_wide(true);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int b = cases[i].batches, n = cases[i].n, k = cases[i].k;
        const struct kl_qmm_params p = {{KL_QUANT_AFFINE, cases[i].group, cases[i].bits}, true};
        struct made c = {0};
        put(&c, 0, KL_BF16, 3, (int[]){b, 1, k}, 1);
        put(&c, 1, KL_U32, 3, (int[]){b, n, k * cases[i].bits / 32}, 1);
        for (int a = 2; a < 4; a++) put(&c, a, KL_BF16, 3, (int[]){b, n, k / cases[i].group}, 1);
        put(&c, 4, KL_BF16, 3, (int[]){b, 1, n}, 1);
        command(&c, KL_OP_QUANTIZED_MATMUL, &p, 4, false);
        if (no_nvrtc(1)) continue;
        lower(&c.c, 1, "one row");
        assert_int_equal(last_launch.groups, cases[i].groups);
        assert_int_equal(last_launch.local, cases[i].warps * 32);
    }
    set_wide(false);
}

/* A vector and long rows, as many as fill a device: whole stages of a ring, or not. */
static void test_rings(void **state) {
    static const struct {
        int n, k;
        enum kl_dtype t;
        uint32_t groups;
        bool ring;
    } cases[] = {{14336, 4096, KL_BF16, 256, true},  {4096, 14336, KL_F16, 256, true},
                 {528, 1024, KL_F32, 132, true},     {524, 4096, KL_BF16, 131, false},
                 {4097, 4096, KL_BF16, 1025, false}, {4096, 4160, KL_BF16, 1024, false}};
    set_wide(true);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct made m = {0};
        put(&m, 0, cases[i].t, 2, (int[]){cases[i].n, cases[i].k}, 1);
        put(&m, 1, cases[i].t, 2, (int[]){cases[i].k, 1}, 1);
        put(&m, 2, cases[i].t, 2, (int[]){cases[i].n, 1}, 1);
        command(&m, KL_OP_MATMUL, NULL, 2, false);
        if (no_nvrtc(1)) continue;
        n_shared = 0;
        lower(&m.c, 1, "long rows");
        assert_int_equal(n_shared, cases[i].ring);
        if (cases[i].ring) assert_int_equal(last_launch.groups, cases[i].groups);
    }
    set_wide(false);
}

/* ---- several products in one launch ---- */

static int n_merged;
static int merged_launch(struct kl_driver *p, void *queue, void *kernel, const uint32_t *groups,
                         const uint32_t *local, size_t shared_bytes, const struct kl_karg *args,
                         int n_args, struct kl_error **err) {
    n_merged++;
    n_launched++;
    assert_int_equal(groups[1], 2);
    assert_int_equal(n_args, 1);
    return KL_OK;
}

/* Two products of the same rows: by vectors and by tiles, dense and quantized. */
static void test_merged(void **state) {
    struct kl_driver_ops merging = nvrtc_ops;
    merging.launch_3d = merged_launch;
    driver.ops = &merging;
    driver.merges = driver.has_matrix_units = true;
    for (int kind = 0; kind < 6; kind++) {
        const int bits = kind < 4 ? 0 : 4, rows = kind & 1 ? 12 : 1, n = 512, k = 4096;
        const enum kl_dtype t = kind & 2 ? KL_F32 : KL_BF16;
        const struct kl_qmm_params p = {{KL_QUANT_AFFINE, 64, bits}, true};
        struct made both[2];
        struct kl_command pair[2];
        memset(both, 0, sizeof both);
        for (int i = 0; i < 2; i++) {
            struct made *m = &both[i];
            put(m, 0, t, 2, (int[]){rows, k}, 1);
            if (bits) {
                put(m, 1, KL_U32, 2, (int[]){n, k * bits / 32}, 1);
                for (int a = 2; a < 4; a++) put(m, a, t, 2, (int[]){n, k / 64}, 1);
                put(m, 4, t, 2, (int[]){rows, n}, 1);
                command(m, KL_OP_QUANTIZED_MATMUL, &p, 4, false);
            } else {
                put(m, 1, t, 2, (int[]){k, n}, 1);
                put(m, 2, t, 2, (int[]){rows, n}, 1);
                command(m, KL_OP_MATMUL, NULL, 2, false);
            }
            for (int a = 1; a <= m->c.n_in && i == 1; a++)
                m->args[a].data = address(MAX_ARGS + a); /* other matrices, the same rows */
            pair[i] = m->c;
        }
        if (no_nvrtc(1)) continue;
        struct kl_error *e = NULL;
        const int before = n_merged;
        for (int i = 0; i < 2; i++) {
            if (kl_lower_prepare(lowering, &pair[i], &pair[i].workspace_bytes, &e))
                fail_msg("kind %d: %s", kind, e->message);
            pair[i].workspace = address(2 * MAX_ARGS + i);
        }
        if (kl_lower(lowering, &driver, pair, 2, &e)) fail_msg("kind %d: %s", kind, e->message);
        /* What needs two kernels is launched one by one. */
        assert_int_equal(n_merged - before, pair[0].workspace_bytes ? 0 : 1);
    }
    driver.ops = &nvrtc_ops;
    driver.merges = driver.has_matrix_units = false;
    if (have_nvrtc) assert_true(n_merged > 3);
}

/* Reductions and softmax that compute what they read: a sum with a row, which is strided, or with a
 * scalar, of rows in vectors and not, and of columns. */
static void test_feeds(void **state) {
    static const struct {
        enum kl_op_id op;
        enum kl_dtype in, out;
    } readers[] = {{KL_OP_SOFTMAX, KL_F32, KL_F32},   {KL_OP_SOFTMAX, KL_BF16, KL_BF16},
                   {KL_OP_SOFTMAX, KL_F16, KL_F16},   {KL_OP_SUM, KL_F32, KL_F32},
                   {KL_OP_SUM, KL_BF16, KL_BF16},     {KL_OP_SUM, KL_I8, KL_I32},
                   {KL_OP_SUM, KL_F64, KL_F64},       {KL_OP_SUM, KL_C64, KL_C64},
                   {KL_OP_MAX, KL_F16, KL_F16},       {KL_OP_MIN, KL_U16, KL_U16},
                   {KL_OP_PROD, KL_I64, KL_I64},      {KL_OP_PROD, KL_C64, KL_C64},
                   {KL_OP_ALL, KL_BOOL, KL_BOOL},     {KL_OP_ANY, KL_F32, KL_BOOL},
                   {KL_OP_LOGSUMEXP, KL_F32, KL_F32}, {KL_OP_LOGSUMEXP, KL_C64, KL_C64},
                   {KL_OP_VAR, KL_F32, KL_F32},       {KL_OP_VAR, KL_C64, KL_F32}};
    const int feeds = kl_test_feeds();
    int cases = 0;
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        for (int how = 0; how < 4; how++) {
            struct {
                struct kl_var_params p;
                int axis[1];
            } var = {{.n_axes = 1}, {how == 2 ? 0 : 1}};
            struct {
                struct kl_reduce_params p;
                int axis[1];
            } reduce = {{.n_axes = 1}, {how == 2 ? 0 : 1}};
            const struct kl_softmax_params softmax = {.axis = 1};
            const int cols = how == 1 ? 71 : 64, dims[] = {300, cols}, row[] = {1, cols};
            const bool keeps = readers[i].op == KL_OP_SOFTMAX;
            struct made add = {0}, reader = {0};
            struct kl_command both[2];
            if (no_nvrtc(1)) return;
            if (!kl_test_takes("kernels", 2)) continue;
            put(&add, 0, readers[i].in, 2, dims, 1);
            put(&add, 1, readers[i].in, how == 3 ? 0 : 2, row, 1);
            put(&add, 2, readers[i].in, 2, dims, 1);
            if (how != 3) {
                add.operand[1].dims[0] = dims[0]; /* the row is repeated */
                add.operand[1].strides[0] = 0;
                add.args[1].size = add.args[0].size;
                add.args[1].layout = 0;
            }
            command(&add, KL_OP_ADD, NULL, 2, false);
            put(&reader, 0, readers[i].in, 2, dims, 1);
            reader.args[0].data = add.args[2].data;
            put(&reader, 1, readers[i].out, keeps ? 2 : 1, keeps ? dims : dims + (how == 2), 1);
            reader.args[1].data = address(7);
            const void *params = keeps                        ? (const void *)&softmax
                                 : readers[i].op == KL_OP_VAR ? (const void *)&var
                                                              : (const void *)&reduce;
            command(&reader, readers[i].op, params, 1, false);
            reader.c.dead = 1;
            both[0] = add.c;
            both[1] = reader.c;
            lower(both, 2, kl_op_name(readers[i].op));
            cases++;
        }
    assert_int_equal(kl_test_feeds() - feeds, cases);
}

/* Norms that compute what they read, a sum with a row or another array, in vectors and not, and
 * store it where others need it. */
static void test_row_feeds(void **state) {
    static const enum kl_dtype dtypes[] = {KL_F32, KL_BF16, KL_F16, KL_F64};
    const int feeds = kl_test_feeds();
    int cases = 0;
    for (size_t t = 0; t < sizeof dtypes / sizeof *dtypes; t++)
        for (int how = 0; how < 8; how++) {
            const bool centred = how & 1, kept = how & 2, odd = how & 4;
            const int cols = odd ? 71 : 256, dims[] = {3, cols}, row[] = {1, cols};
            const struct kl_norm_params params = {1e-5f, true, centred};
            const enum kl_op_id op = centred ? KL_OP_LAYER_NORM : KL_OP_RMS_NORM;
            struct made add = {0}, norm = {0};
            if (no_nvrtc(1)) return;
            if (!kl_test_takes("kernels", 2)) continue;
            put(&add, 0, dtypes[t], 2, dims, 1);
            put(&add, 1, dtypes[t], 2, centred ? row : dims, 1);
            put(&add, 2, dtypes[t], 2, dims, 1);
            if (centred) {
                add.operand[1].dims[0] = dims[0]; /* the row is repeated */
                add.operand[1].strides[0] = 0;
                add.args[1].size = add.args[0].size;
                add.args[1].layout = 0;
            }
            command(&add, KL_OP_ADD, NULL, 2, false);
            put(&norm, 0, dtypes[t], 2, dims, 1);
            norm.args[0].data = add.args[2].data;
            for (int i = 1; i < 2 + centred; i++) put(&norm, i, dtypes[t], 1, &cols, 1);
            for (int i = 1; i < 2 + centred; i++) norm.args[i].data = address(8 + i);
            put(&norm, 2 + centred, dtypes[t], 2, dims, 1);
            norm.args[2 + centred].data = address(7);
            command(&norm, op, &params, 2 + centred, false);
            norm.c.dead = !kept;
            struct kl_command both[] = {add.c, norm.c};
            lower(both, 2, kl_op_name(op));
            cases++;
        }
    assert_int_equal(kl_test_feeds() - feeds, cases);
}

/* Random bits in the kernel that makes numbers of every type of them, with and without a row. */
static void test_random(void **state) {
    for (int t = 0; t < KL_N_DTYPES; t++)
        for (int kept = 0; kept < 2; kept++) {
            const int dims[] = {6, 8}, two[] = {2};
            struct made bits = {0}, cast = {0};
            struct kl_command both[2];
            if (no_nvrtc(1)) return;
            if (t != KL_F32 && !kl_test_takes("kernels", 1)) continue;
            put(&bits, 0, KL_U32, 1, two, 1);
            put(&bits, 1, KL_U32, 2, dims, 1);
            command(&bits, KL_OP_RANDOM_BITS, NULL, 1, false);
            put(&cast, 0, KL_U32, 2, dims, 1);
            cast.args[0].data = bits.args[1].data;
            put(&cast, 1, (enum kl_dtype)t, 2, dims, 1);
            cast.args[1].data = address(7);
            command(&cast, KL_OP_CAST, NULL, 1, false);
            cast.c.dead = !kept;
            both[0] = bits.c;
            both[1] = cast.c;
            const int launched = n_launched;
            lower(both, 2, kl_dtype_name((enum kl_dtype)t));
            assert_int_equal(n_launched - launched, 1);
        }
}

/* The compiler's errors arrive: these sources do not compile. */
static void test_mistakes_are_seen(void **state) {
    static const char bad[] = "KERNEL(map)(i64 n) { no_such_name(n); }\n";
    struct kl_error *e = NULL;
    struct kl_emit emit = {.lowering = lowering, .driver = &driver, .dry = true, .err = &e};
    if (no_nvrtc(1)) return;
    assert_int_equal(kl_emit_source(&emit, "bad", bad, "map", 0, 256, NULL, 0), KL_ECOMPILE);
    kl_error_release(e);
    e = NULL;
    assert_int_equal(
        kl_emit_source(&emit, "other", "KERNEL(maps)(i64 n) {}\n", "map", 0, 256, NULL, 0),
        KL_ECOMPILE);
    assert_non_null(strstr(e->message, "'map'"));
    kl_error_release(e);
}

int main(void) {
    have_nvrtc = kl_nvrtc_api(NULL) != NULL;
    const struct CMUnitTest scatters[] = {
        cmocka_unit_test(test_scatter_modes),
        cmocka_unit_test(test_scatter_indices),
        cmocka_unit_test(test_scatter_moves),
    };
    const struct CMUnitTest others[] = {
        cmocka_unit_test(test_gather_indices),
        cmocka_unit_test(test_gather_moves),
        cmocka_unit_test(test_gather_axis),
        cmocka_unit_test(test_operations),
        cmocka_unit_test(test_other_types),
        cmocka_unit_test(test_casts),
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_several_results),
        cmocka_unit_test(test_scans),
        cmocka_unit_test(test_sorts),
        cmocka_unit_test(test_rows_and_a_vector),
        cmocka_unit_test(test_quantized_products),
        cmocka_unit_test(test_one_quantized_row),
        cmocka_unit_test(test_rings),
        cmocka_unit_test(test_merged),
        cmocka_unit_test(test_feeds),
        cmocka_unit_test(test_row_feeds),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_mistakes_are_seen),
    };
    int rc = cmocka_run_group_tests(scatters, nvrtc_setup, NULL);
    if (!kl_deterministic()) rc += cmocka_run_group_tests(others, NULL, NULL);
    return nvrtc_report(rc);
}
