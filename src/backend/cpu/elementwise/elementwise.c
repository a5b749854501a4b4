/* elementwise.c - the kernel of every element-wise operation: finds the map and brings the operands
 * to it. Contiguous operands of a compute type go to the map directly. All others pass through
 * tiles: they are gathered, converted to the compute type, computed, converted back and scattered.
 * Element i of the output depends on element i of each input only, and a tile is read before it is
 * written, so out may be one of the inputs with the same layout. */
#include "backend/cpu/operand/patch.h"
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/elementwise/map.h"
#include "backend/cpu/operand/nontemporal.h"
#include "backend/cpu/operand/scratch.h"

struct job {
    const struct kl_launch *l;
    struct kl_cpu_map map;
    bool direct; /* no operand needs a tile */
    /* In the order in which the map takes them; NULL beyond the last operand. */
    const struct kl_arg *in[3];
    int64_t size, chunk, tile; /* elements */
    struct kl_grid grid;       /* describes the operands that are stored transposed */
};

static const void *address(const struct kl_arg *a, int64_t pos) {
    return a ? (const char *)a->data + pos * (int64_t)kl_dtype_size(a->dtype) : NULL;
}

static void run_direct(const struct job *j, int64_t begin, int64_t n) {
    const struct kl_arg *out = j->l->out;
    void *to = (char *)out->data + begin * (int64_t)kl_dtype_size(out->dtype);
    if (j->map.fn)
        j->map.fn(n, to, address(j->in[0], begin), address(j->in[1], begin),
                  address(j->in[2], begin));
    else
        kl_convert(j->map.out_type, to, j->map.in_type[0], address(j->in[0], begin), n);
}

static void compute(const struct job *j, int64_t n, void *out, const void *const *x) {
    if (j->map.fn)
        j->map.fn(n, out, x[0], x[1], x[2]);
    else
        kl_convert(j->map.out_type, out, j->map.in_type[0], x[0], n);
}

/* Copies elements without a tile between, where the results are contiguous. */
static bool run_copy(const struct job *j, int64_t begin, int64_t n) {
    struct kl_cursor in, to;
    if (j->l->op != KL_OP_COPY || j->l->out->data == j->in[0]->data) return false;
    kl_cursor_init_arg(&to, j->l->out);
    kl_cursor_seek(&to, begin);
    void *y = kl_cursor_claim(&to, n);
    if (!y) return false;
    kl_cursor_init_arg(&in, j->in[0]);
    kl_cursor_seek(&in, begin);
    kl_cursor_read(&in, n, y);
    return true;
}

static void run_tiles(const struct job *j, int64_t begin, int64_t n) {
    const struct kl_arg *out = j->l->out;
    if (run_copy(j, begin, n)) return;
    struct kl_cursor in[3], to;
    union kl_tile raw[3], tile[3], result, stored;
    for (int k = 0; k < 3; k++) {
        if (!j->in[k]) continue;
        kl_cursor_init_arg(&in[k], j->in[k]);
        kl_cursor_seek(&in[k], begin);
    }
    kl_cursor_init_arg(&to, out);
    kl_cursor_seek(&to, begin);
    for (int64_t left = n; left > 0; left -= j->tile) {
        int64_t m = kl_min64(left, j->tile);
        const void *x[3] = {NULL, NULL, NULL};
        for (int k = 0; k < 3; k++)
            if (j->in[k])
                x[k] = kl_cursor_next_as(&in[k], m, j->in[k]->dtype, j->map.in_type[k], &raw[k],
                                         &tile[k]);
        void *y = kl_cursor_claim(&to, m);
        void *store = y ? y : stored.bytes;
        void *calc = j->map.out_type == out->dtype ? store : result.bytes;
        compute(j, m, calc, x);
        if (calc != store) kl_convert(out->dtype, store, j->map.out_type, calc, m);
        if (!y) kl_cursor_write(&to, m, store);
    }
}

static void run_patches(void *arg, int64_t task) {
    const struct job *j = arg;
    const struct kl_arg *out = j->l->out;
    struct kl_patches in[3], to;
    struct kl_patch at;
    union kl_tile raw[3], tile[3], result, stored;
    for (int k = 0; k < 3; k++)
        if (j->in[k]) kl_patches_init(&in[k], &j->grid, j->in[k], task);
    kl_patches_init(&to, &j->grid, out, task);
    for (int64_t i = 0; kl_patch_of(&at, &j->grid, task, i); i++) {
        int64_t m = at.rows * at.cols;
        const void *x[3] = {NULL, NULL, NULL};
        for (int k = 0; k < 3; k++) {
            if (!j->in[k]) continue;
            kl_patch_read(&in[k], &at, raw[k].bytes);
            x[k] = raw[k].bytes;
            if (j->map.in_type[k] == j->in[k]->dtype) continue;
            kl_convert(j->map.in_type[k], tile[k].bytes, j->in[k]->dtype, raw[k].bytes, m);
            x[k] = tile[k].bytes;
        }
        void *calc = j->map.out_type == out->dtype ? stored.bytes : result.bytes;
        compute(j, m, calc, x);
        if (calc != stored.bytes) kl_convert(out->dtype, stored.bytes, j->map.out_type, calc, m);
        kl_patch_write(&to, &at, stored.bytes);
    }
    kl_nontemporal_end();
}

static void run_chunk(void *arg, int64_t i) {
    const struct job *j = arg;
    int64_t begin = i * j->chunk, n = kl_min64(j->chunk, j->size - begin);
    if (j->direct)
        run_direct(j, begin, n);
    else
        run_tiles(j, begin, n);
}

/* Operations of one operand and of several have separate tables. */
static kl_map_fn *map_of(enum kl_op_id op, int n_in, enum kl_dtype dtype, bool *swap) {
    typedef kl_map_fn *finder(enum kl_op_id, enum kl_dtype);
    static finder *const of_one[] = {
        kl_cpu_unary_map,    kl_cpu_transcendental_map, kl_cpu_float64_map, kl_cpu_complex_map,
        kl_cpu_rounding_map, kl_cpu_bitwise_map,        kl_cpu_half_map};
    static finder *const of_several[] = {
        kl_cpu_binary_map, kl_cpu_transcendental_map, kl_cpu_float64_map, kl_cpu_complex_map,
        kl_cpu_power_map,  kl_cpu_division_map,       kl_cpu_bitwise_map, kl_cpu_half_map};
    enum {
        OF_ONE = sizeof of_one / sizeof *of_one,
        OF_SEVERAL = sizeof of_several / sizeof *of_several
    };
    for (int k = 0; k < (n_in == 1 ? OF_ONE : OF_SEVERAL); k++) {
        kl_map_fn *map = (n_in == 1 ? of_one : of_several)[k](op, dtype);
        if (map) return map;
    }
    return n_in == 2 ? kl_cpu_compare_map(op, dtype, swap) : NULL;
}

/* Logical operations take operands of any dtypes, each its own, and compute with bools; bytes that
 * are not 0 are true as they are. */
static bool find_logical_map(struct kl_cpu_map *m, enum kl_op_id op, int n_in,
                             const enum kl_dtype *in) {
    if (op != KL_OP_LOGICAL_NOT && op != KL_OP_LOGICAL_AND && op != KL_OP_LOGICAL_OR) return false;
    m->fn = map_of(op, n_in, KL_BOOL, &m->swap);
    for (int k = 0; k < n_in; k++) m->in_type[k] = kl_dtype_size(in[k]) == 1 ? in[k] : KL_BOOL;
    return true;
}

bool kl_cpu_find_map(struct kl_cpu_map *m, enum kl_op_id op, int n_in, const enum kl_dtype *in,
                     enum kl_dtype out) {
    enum kl_dtype value = in[op == KL_OP_WHERE ? 1 : 0], compute = value;
    *m = (struct kl_cpu_map){.out_type = out};
    if (op == KL_OP_CAST) {
        m->in_type[0] = value;
        return true;
    }
    if (find_logical_map(m, op, n_in, in)) return true;
    /* Some maps take 16-bit floats without widening. */
    for (int attempt = 0; attempt < 2; attempt++) {
        m->fn = map_of(op, n_in, compute, &m->swap);
        if (m->fn) break;
        compute = kl_compute_dtype(value);
    }
    if (!m->fn) return false;
    for (int k = 0; k < 3; k++) m->in_type[k] = compute;
    if (op == KL_OP_WHERE) m->in_type[0] = KL_BOOL;
    if (out == value) m->out_type = compute;
    return true;
}

static size_t widest_of(const struct job *j) {
    size_t widest = kl_dtype_size(j->l->out->dtype), own = kl_dtype_size(j->map.out_type);
    if (own > widest) widest = own;
    for (int k = 0; k < 3; k++) {
        if (!j->in[k]) continue;
        const size_t stored = kl_dtype_size(j->in[k]->dtype),
                     wide = kl_dtype_size(j->map.in_type[k]);
        if (stored > widest) widest = stored;
        if (wide > widest) widest = wide;
    }
    return widest;
}

int kl_cpu_elementwise(struct kl_launch *l) {
    struct job j;
    enum kl_dtype types[3];
    j.l = l;
    if (l->out->size == 0) return KL_OK;
    for (int k = 0; k < 3; k++) {
        j.in[k] = k < l->n_in ? &l->in[k] : NULL;
        if (j.in[k]) types[k] = j.in[k]->dtype;
    }
    if (!kl_cpu_find_map(&j.map, l->op, l->n_in, types, l->out->dtype))
        return kl_fail(l->err, KL_EDTYPE, "no kernel for dtype %s", kl_dtype_name(l->in[0].dtype));
    if (j.map.swap) {
        j.in[0] = &l->in[1];
        j.in[1] = &l->in[0];
    }
    const struct kl_arg *const all[] = {l->out, j.in[0], j.in[1], j.in[2]};
    if (kl_grid_of(&j.grid, all, 4)) {
        struct kl_launch alone = {.parallel =
                                      l->out->size > KL_MAP_PARALLEL_FROM ? l->parallel : NULL};
        kl_run_tasks(&alone, j.grid.tasks, run_patches, &j);
        return KL_OK;
    }
    j.size = l->out->size;
    j.tile = kl_tile_elements(widest_of(&j));
    j.direct = (l->out->layout & KL_ROW_CONTIGUOUS) && j.map.out_type == l->out->dtype;
    for (int k = 0; k < 3; k++)
        if (j.in[k])
            j.direct = j.direct && (j.in[k]->layout & KL_ROW_CONTIGUOUS) &&
                       j.map.in_type[k] == j.in[k]->dtype;
    if (j.size <= KL_MAP_PARALLEL_FROM || !l->parallel) {
        j.chunk = j.size;
        run_chunk(&j, 0);
        return KL_OK;
    }
    j.chunk = KL_MAP_CHUNK;
    kl_run_tasks(l, kl_ceil_div(j.size, KL_MAP_CHUNK), run_chunk, &j);
    return KL_OK;
}
