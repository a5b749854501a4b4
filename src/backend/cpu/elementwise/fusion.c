/* fusion.c - several element-wise operations in one pass: tile by tile, each step works on the tile
 * that earlier steps have left in the L1 cache. A step does to its tile what elementwise.c does
 * when the operation runs alone, in the same types with the same roundings, so a fusion changes no
 * bit. An output that only steps of the fusion read never reaches memory; what only the next step
 * reads may stay in registers (chain.h). The results of a reduction before them, and a sum after
 * them, are taken and given tile by tile too. */
#include "backend/cpu/operand/patch.h"
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/elementwise/chain.h"
#include "backend/cpu/elementwise/map.h"
#include "backend/cpu/operand/nontemporal.h"
#include "backend/cpu/operand/scratch.h"
#include "backend/cpu/reduce/reduce_streamed.h"
#include "base/thread.h"

/* LARGE: bytes of all results; LINE: of a cache line. */
enum { NONE = -1, MAX_CURSORS = KL_FUSION_INPUTS, LARGE = 1 << 22, LINE = 64, FEW_TURNS = 4 };

struct step {
    const struct kl_cpu_step *given;
    struct kl_cpu_map map;
    int slot;          /* the tile that holds its output, until no later step needs it */
    int order[3];      /* operand k of the map is input order[k] */
    int cursor[3];     /* the cursors of inputs in memory; else NONE */
    enum kl_dtype out; /* the dtype in memory */
    /* A chain is steps of which each takes the value of the one before, which nothing else reads:
     * they are computed together when the last one's turn comes. */
    enum kl_chain_op link; /* what it does to input 0, if chains have it; else KL_CHAIN_NONE */
    int before;            /* the step that it continues; NONE: it begins a chain */
    int squared;           /* the step whose square is its other operand, taken with it; or NONE */
    bool goes_on;          /* a later step takes its value, which never is in a tile */
    int turn;              /* the step at whose turn its operands are read */
};

struct fusion {
    int n, n_turns, n_cursors;
    int64_t size, chunk, tile; /* elements */
    bool large;                /* operands and results together do not fit into a cache */
    struct step steps[KL_FUSION_STEPS];
    struct kl_grid grid; /* describes the operands that are stored transposed */
    int summed;          /* the step whose output a SUM after all steps reads; or NONE */
    struct kl_row_sums sums;
};

/* Several operations take longer than the distance of the processor's own prefetching, so operands
 * are prefetched one tile ahead, a few lines after each step: a processor waits for about sixteen
 * lines at a time, and cannot compute while it cannot ask for one more. Where the operands are in a
 * cache, prefetching takes longer than waiting. */
struct ahead {
    bool wanted;
    int n, first;        /* pieces of memory asked for; the first one with lines left */
    int64_t done, share; /* lines of the first one that are prefetched; lines after each step */
    struct {
        const char *from;
        int64_t lines;
    } piece[MAX_CURSORS + KL_FUSION_STEPS];
};

/* The memory that one chunk needs. It is much too large for the fusion's header, and small enough
 * for a thread's stack. */
struct work {
    union {
        struct {
            struct kl_cursor in[MAX_CURSORS], out[KL_FUSION_STEPS];
        };
        struct {
            struct kl_patches in_patches[MAX_CURSORS], out_patches[KL_FUSION_STEPS];
        };
    };
    struct ahead ahead;
    const struct kl_patch *patch;        /* the patch to read; NULL: the next run of the cursors */
    int64_t begin;                       /* the first element, of what is in place; else NONE */
    union kl_tile gathered[MAX_CURSORS]; /* holds operands that are not contiguous in memory */
    union kl_tile slots[KL_FUSION_STEPS], converted[3], result;
};

/* Asks for the next tile of an operand, whose memory begins at `from`. */
static void ask(struct ahead *a, const char *from, int64_t bytes) {
    if (!a->wanted) return;
    for (int i = 0; i < a->n; i++)
        if (a->piece[i].from == from)
            return; /* read twice, or the block of an input that is done */
    a->piece[a->n].from = from;
    a->piece[a->n++].lines = kl_ceil_div(bytes, LINE);
}

/* Whether the next m elements lie close together, most of the time. */
static bool runs_on(const struct kl_cursor *c, int64_t m) {
    return c->ndim && c->strides[c->ndim - 1] == c->item_bytes && c->dims[c->ndim - 1] >= m;
}

/* Prefetches up to n lines of what was asked for. */
static void prefetch(struct ahead *a, int64_t n) {
    while (n > 0 && a->first < a->n) {
        const int64_t left = a->piece[a->first].lines - a->done, some = kl_min64(left, n);
        const char *from = a->piece[a->first].from + LINE * a->done;
        for (int64_t i = 0; i < some; i++) __builtin_prefetch(from + LINE * i);
        n -= some;
        a->done += some;
        if (some < left) return;
        a->first++;
        a->done = 0;
    }
}

/* Prefetches what is left, and begins to ask for another tile; `steps` share its lines. */
static void prefetch_rest(struct ahead *a, int steps) {
    int64_t lines = 0;
    prefetch(a, INT64_MAX);
    for (int i = 0; i < a->n; i++) lines += a->piece[i].lines;
    a->share = lines / steps;
    a->n = a->first = 0;
}

static char *in_place(const struct kl_arg *a, const struct work *w) {
    return (char *)a->data + w->begin * (int64_t)kl_dtype_size(a->dtype);
}

static const void *operand(const struct step *s, int k, const void *const *values, struct work *w,
                           int64_t m) {
    int i = s->order[k], from = s->given->from[i];
    enum kl_dtype has = s->given->in[i].dtype, wants = s->map.in_type[k];
    if (from < 0) {
        if (w->begin != NONE) return in_place(&s->given->in[i], w);
        int c = s->cursor[i];
        if (w->patch) {
            kl_patch_read(&w->in_patches[c], w->patch, w->gathered[c].bytes);
            if (has == wants) return w->gathered[c].bytes;
            kl_convert(wants, w->converted[k].bytes, has, w->gathered[c].bytes, m);
            return w->converted[k].bytes;
        }
        const void *x =
            kl_cursor_next_as(&w->in[c], m, has, wants, &w->gathered[c], &w->converted[k]);
        if (runs_on(&w->in[c], m)) ask(&w->ahead, w->in[c].next, m * w->in[c].item_bytes);
        return x;
    }
    if (has == wants) return values[from];
    kl_convert(wants, w->converted[k].bytes, has, values[from], m);
    return w->converted[k].bytes;
}

/* The link of a step that continues a chain. */
static enum kl_chain_op link_to_before(const struct step *s) {
    const bool right = s->given->n_in == 2 && s->given->from[1] == s->before;
    switch (s->link) {
    case KL_CHAIN_ADD: return s->squared != NONE ? KL_CHAIN_ADD_SQUARE : KL_CHAIN_ADD;
    case KL_CHAIN_SUBTRACT:
        if (s->squared != NONE)
            return right ? KL_CHAIN_SUBTRACT_FROM_SQUARE : KL_CHAIN_SUBTRACT_SQUARE;
        return right ? KL_CHAIN_SUBTRACT_FROM : KL_CHAIN_SUBTRACT;
    case KL_CHAIN_DIVIDE: return right ? KL_CHAIN_DIVIDE_INTO : KL_CHAIN_DIVIDE;
    default: return s->link;
    }
}

static void run_chain(const struct step *steps, const void *const *values, struct work *w, int last,
                      int64_t m, float *out) {
    struct kl_chain_link links[KL_FUSION_STEPS];
    struct kl_chain_link *link = links + KL_FUSION_STEPS;
    const void *first = NULL;
    for (int at = last; at != NONE; at = steps[at].before) {
        const struct step *s = &steps[at];
        const bool begins = s->before == NONE, two = s->given->n_in == 2;
        const int other = !begins && two && s->given->from[1] == s->before ? 0 : 1;
        if (begins) first = operand(s, 0, values, w, m);
        *--link =
            (struct kl_chain_link){begins ? s->link : link_to_before(s),
                                   s->squared != NONE ? operand(&steps[s->squared], 0, values, w, m)
                                   : two              ? operand(s, other, values, w, m)
                                                      : NULL};
    }
    kl_cpu_chain_f32(m, out, first, link, (int)(links + KL_FUSION_STEPS - link));
}

static const void *run_step(const struct fusion *g, const void *const *values, struct work *w,
                            int at, int64_t m) {
    const struct step *s = &g->steps[at];
    const void *x[3] = {NULL, NULL, NULL};
    for (int k = 0; k < s->given->n_in && s->before == NONE; k++)
        x[k] = operand(s, k, values, w, m);
    void *memory = s->given->stored && !w->patch ? kl_cursor_claim(&w->out[at], m) : NULL;
    if (memory) ask(&w->ahead, w->out[at].next, m * w->out[at].item_bytes);
    void *store = memory ? memory : w->slots[s->slot].bytes;
    void *calc = s->map.out_type == s->out ? store : w->result.bytes;
    if (s->before != NONE)
        run_chain(g->steps, values, w, at, m, calc);
    else if (s->map.fn)
        s->map.fn(m, calc, x[0], x[1], x[2]);
    else
        kl_convert(s->map.out_type, calc, s->map.in_type[0], x[0], m);
    if (calc != store) kl_convert(s->out, store, s->map.out_type, calc, m);
    if (s->given->stored && w->patch)
        kl_patch_write(&w->out_patches[at], w->patch, store);
    else if (s->given->stored && !memory)
        kl_cursor_write(&w->out[at], m, store);
    return store;
}

/* One chain, of which each chunk is computed at once. */
static void run_in_place(void *arg, int64_t index) {
    const struct fusion *g = arg;
    struct work w;
    w.patch = NULL;
    w.begin = index * g->chunk;
    run_chain(g->steps, NULL, &w, g->n - 1, kl_min64(g->chunk, g->size - w.begin),
              (float *)(void *)in_place(g->steps[g->n - 1].given->out, &w));
}

/* Begins to read operands, and to write results, at element `begin`. */
static void seek(const struct fusion *g, struct work *w, int64_t begin) {
    w->patch = NULL;
    w->begin = NONE;
    for (int j = 0; j < g->n; j++) {
        const struct step *s = &g->steps[j];
        for (int i = 0; i < s->given->n_in; i++) {
            if (s->cursor[i] == NONE) continue;
            kl_cursor_init_arg(&w->in[s->cursor[i]], &s->given->in[i]);
            kl_cursor_seek(&w->in[s->cursor[i]], begin);
        }
        if (!s->given->stored) continue;
        kl_cursor_init_arg(&w->out[j], s->given->out);
        kl_cursor_seek(&w->out[j], begin);
    }
}

/* The next n elements. sum: takes those of step g->summed; or NULL. */
static void run_tiles(const struct fusion *g, struct work *w, int64_t n, struct kl_row_sum *sum) {
    for (int64_t left = n; left > 0; left -= g->tile) {
        int64_t m = kl_min64(left, g->tile);
        const void *values[KL_FUSION_STEPS];
        for (int j = 0; j < g->n; j++) {
            if (g->steps[j].goes_on) continue;
            values[j] = run_step(g, values, w, j, m);
            prefetch(&w->ahead, w->ahead.share);
        }
        if (sum) kl_row_sum_add(sum, values[g->summed], m);
        prefetch_rest(&w->ahead, g->n_turns);
    }
}

static void run_chunk(void *arg, int64_t index) {
    const struct fusion *g = arg;
    struct work w;
    int64_t begin = index * g->chunk, n = kl_min64(g->chunk, g->size - begin);
    w.ahead = (struct ahead){.wanted = g->large};
    seek(g, &w, begin);
    run_tiles(g, &w, n, NULL);
}

/* The rows of one segment of the sum that is the last step. */
static void run_segment(void *arg, int64_t segment) {
    const struct fusion *g = arg;
    const int64_t begin = segment * g->chunk;
    struct work w;
    struct kl_row_sum sum;
    w.ahead = (struct ahead){.wanted = g->large};
    seek(g, &w, begin);
    kl_row_sum_begin(&sum, &g->sums);
    run_tiles(g, &w, kl_min64(g->chunk, g->size - begin), &sum);
    kl_row_sum_end(&sum, segment);
}

/* Elements [begin, begin + n), of which `results` are those of the first step. */
static void run_after(void *arg, int64_t begin, int64_t n, const void *results) {
    const struct fusion *g = arg;
    const int64_t item = (int64_t)kl_dtype_size(g->steps[0].out);
    struct work w;
    w.ahead = (struct ahead){.wanted = false};
    seek(g, &w, begin);
    for (int64_t at = 0; at < n; at += g->tile) {
        const int64_t m = kl_min64(n - at, g->tile);
        const void *values[KL_FUSION_STEPS] = {(const char *)results + at * item};
        if (g->steps[0].given->stored) kl_cursor_write(&w.out[0], m, values[0]);
        for (int j = 1; j < g->n; j++)
            if (!g->steps[j].goes_on) values[j] = run_step(g, values, &w, j, m);
    }
}

static void run_patches(void *arg, int64_t task) {
    const struct fusion *g = arg;
    struct work w;
    struct kl_patch at;
    w.patch = &at;
    w.begin = NONE;
    for (int j = 0; j < g->n; j++) {
        const struct step *s = &g->steps[j];
        for (int i = 0; i < s->given->n_in; i++)
            if (s->cursor[i] != NONE)
                kl_patches_init(&w.in_patches[s->cursor[i]], &g->grid, &s->given->in[i], task);
        if (s->given->stored) kl_patches_init(&w.out_patches[j], &g->grid, s->given->out, task);
    }
    for (int64_t i = 0; kl_patch_of(&at, &g->grid, task, i); i++) {
        const void *values[KL_FUSION_STEPS];
        for (int j = 0; j < g->n; j++)
            if (!g->steps[j].goes_on) values[j] = run_step(g, values, &w, j, at.rows * at.cols);
    }
    kl_nontemporal_end();
}

static enum kl_chain_op link_of(const struct step *s) {
    const bool floats = s->out == KL_F32 && s->given->in[0].dtype == KL_F32;
    if (!floats || (s->given->n_in == 2 && s->given->in[1].dtype != KL_F32)) return KL_CHAIN_NONE;
    switch (s->given->op) {
    case KL_OP_ADD: return KL_CHAIN_ADD;
    case KL_OP_SUBTRACT: return KL_CHAIN_SUBTRACT;
    case KL_OP_MULTIPLY: return KL_CHAIN_MULTIPLY;
    case KL_OP_DIVIDE: return KL_CHAIN_DIVIDE;
    case KL_OP_SQUARE: return KL_CHAIN_SQUARE;
    case KL_OP_NEGATIVE: return KL_CHAIN_NEGATIVE;
    default: return KL_CHAIN_NONE;
    }
}

/* The other operand of a sum or difference in a chain, if it is a square that nothing else reads;
 * else NONE. */
static int other_square(const struct fusion *g, const struct step *s, const int *uses, int stored) {
    if (s->link != KL_CHAIN_ADD && s->link != KL_CHAIN_SUBTRACT) return NONE;
    const int from = s->given->from[s->given->from[0] == s->before];
    if (from <= stored || uses[from] > 1 || g->steps[from].before != NONE) return NONE;
    return g->steps[from].link == KL_CHAIN_SQUARE ? from : NONE;
}

/* A result that is stored may take the memory of an operand that no later step reads, so no chain
 * reads operands after a result is stored that its steps would have read before. */
static void find_chains(struct fusion *g) {
    int uses[KL_FUSION_STEPS] = {0}, stored = NONE; /* the last step before j whose output is */
    for (int j = 0; j < g->n; j++)
        for (int i = 0; i < g->steps[j].given->n_in; i++)
            if (g->steps[j].given->from[i] >= 0) uses[g->steps[j].given->from[i]]++;
    if (g->summed != NONE) uses[g->summed]++;
    g->n_turns = g->n;
    for (int j = 0; j < g->n; j++) {
        struct step *s = &g->steps[j];
        s->link = link_of(s);
        s->before = s->squared = NONE;
        s->goes_on = false;
        for (int i = 0; i < s->given->n_in && s->link && s->before == NONE; i++) {
            const int from = s->given->from[i];
            if (from <= stored || !g->steps[from].link || uses[from] > 1) continue;
            s->before = from;
            g->steps[from].goes_on = true;
            g->n_turns--;
        }
        if (s->before != NONE) s->squared = other_square(g, s, uses, stored);
        if (s->squared != NONE) {
            g->steps[s->squared].goes_on = true;
            g->n_turns--;
        }
        if (s->given->stored) stored = j;
    }
    for (int j = g->n - 1; j >= 0; j--) {
        const int before = g->steps[j].before, squared = g->steps[j].squared;
        if (!g->steps[j].goes_on) g->steps[j].turn = j;
        if (before != NONE) g->steps[before].turn = g->steps[j].turn;
        if (squared != NONE) g->steps[squared].turn = g->steps[j].turn;
    }
}

/* A tile is reused as soon as no later step reads it. The fewer tiles, the more of the L1 cache is
 * left for operands. */
static void assign_slots(struct fusion *g) {
    int last_use[KL_FUSION_STEPS];
    bool busy[KL_FUSION_STEPS] = {false};
    for (int j = 0; j < g->n; j++) {
        const struct step *s = &g->steps[j];
        last_use[j] = j;
        for (int i = 0; i < s->given->n_in; i++) {
            const int from = s->given->from[i];
            if (from >= 0 && last_use[from] < s->turn) last_use[from] = s->turn;
        }
    }
    if (g->summed != NONE) last_use[g->summed] = g->n;
    for (int j = 0; j < g->n; j++) {
        int slot = 0;
        if (g->steps[j].goes_on) continue; /* its value never is in a tile */
        while (busy[slot]) slot++;
        g->steps[j].slot = slot;
        busy[slot] = true;
        for (int k = 0; k <= j; k++)
            if (last_use[k] == j && !g->steps[k].goes_on) busy[g->steps[k].slot] = false;
    }
}

/* Whether all steps are one chain over contiguous operands: then there are no tiles, unless what
 * is large is prefetched, a tile ahead. */
static bool is_in_place(const struct fusion *g) {
    if (g->n_turns > 1 || g->n == 1) return false;
    bool contiguous = (g->steps[g->n - 1].given->out->layout & KL_ROW_CONTIGUOUS) != 0;
    for (int j = 0; j < g->n; j++)
        for (int i = 0; i < g->steps[j].given->n_in; i++)
            if (g->steps[j].cursor[i] != NONE)
                contiguous = contiguous && (g->steps[j].given->in[i].layout & KL_ROW_CONTIGUOUS);
    return contiguous;
}

/* Half a tile's memory, but at least KL_TILE elements: the tiles of all steps share the L1 cache.
 * Chains need fewer of them, so few turns have whole ones. */
static int64_t tile_of(const struct fusion *g) {
    size_t widest = 2;
    for (int j = 0; j < g->n; j++) {
        const struct step *s = &g->steps[j];
        const size_t stored = kl_dtype_size(s->out), wide = kl_dtype_size(s->map.out_type);
        if (stored * 2 > widest) widest = stored * 2;
        if (wide * 2 > widest) widest = wide * 2;
        for (int i = 0; i < s->given->n_in; i++) {
            const size_t given = kl_dtype_size(s->given->in[i].dtype),
                         taken = kl_dtype_size(s->map.in_type[i]);
            if (given * 2 > widest) widest = given * 2;
            if (taken * 2 > widest) widest = taken * 2;
        }
    }
    if (g->n_turns < g->n && g->n_turns <= FEW_TURNS) return kl_tile_elements(widest / 2);
    return kl_tile_elements(widest > 8 ? 8 : widest);
}

static bool is_elementwise(const struct kl_cpu_step *s) {
    return (kl_op_flags(s->op) & KL_OPF_ELEMENTWISE) != 0;
}

/* The first step is a reduction, whose results become those of the other steps while they are in a
 * cache. */
static bool run_led(struct fusion *g, kl_parallel_for *parallel) {
    const struct kl_cpu_step *first = g->steps[0].given;
    struct kl_error *err = NULL;
    const struct kl_takes_results taker = {run_after, g};
    struct kl_launch l = {.op = first->op,
                          .params = first->params,
                          .n_in = 1,
                          .n_out = 1,
                          .in = first->in,
                          .out = first->out,
                          .err = &err,
                          .taker = &taker,
                          .parallel = parallel};
    if (kl_cpu_along(&l) == KL_OK) return true;
    kl_error_release(err);
    return false;
}

/* The tiles of one of the steps go to `sum` while they are in a cache. */
static bool run_summed(struct fusion *g, const struct kl_cpu_step *sum, kl_parallel_for *parallel) {
    const bool alone = g->size <= KL_MAP_PARALLEL_FROM || !parallel;
    struct kl_launch l = {.op = sum->op,
                          .params = sum->params,
                          .n_in = 1,
                          .n_out = 1,
                          .in = sum->in,
                          .out = sum->out,
                          .parallel = alone ? NULL : parallel};
    if (!kl_row_sums_init(&g->sums, &l)) return false;
    g->chunk = g->sums.rows * g->sums.columns;
    kl_run_tasks(&l, g->sums.job.segments, run_segment, g);
    kl_row_sums_store(&g->sums);
    return true;
}

bool kl_cpu_variant_run_fusion(const struct kl_cpu_step *steps, int n, kl_parallel_for *parallel) {
    if (steps[0].out->size == 0) return true;
    struct fusion g = {.n = n, .size = steps[0].out->size, .summed = NONE};
    if (!is_elementwise(&steps[n - 1])) {
        g.summed = steps[n - 1].from[0];
        g.n = --n;
    }
    for (int j = 0; j < n; j++) {
        struct step *s = &g.steps[j];
        enum kl_dtype types[3];
        s->given = &steps[j];
        s->out = steps[j].out->dtype;
        for (int i = 0; i < steps[j].n_in; i++) {
            types[i] = steps[j].in[i].dtype;
            s->cursor[i] = steps[j].from[i] < 0 ? g.n_cursors++ : NONE;
            s->order[i] = i;
        }
        if (!is_elementwise(&steps[j])) { /* its kernel reads its operand */
            s->cursor[0] = NONE;
            g.n_cursors = 0;
            s->map = (struct kl_cpu_map){.in_type = {types[0]}, .out_type = s->out};
            continue;
        }
        bool found = kl_cpu_find_map(&s->map, steps[j].op, steps[j].n_in, types, s->out);
        kl_assert(found && g.n_cursors <= MAX_CURSORS);
        (void)found;
        if (s->map.swap) {
            s->order[0] = 1;
            s->order[1] = 0;
        }
    }
    find_chains(&g);
    assign_slots(&g);
    g.tile = tile_of(&g);
    if (!is_elementwise(&steps[0])) return run_led(&g, parallel);
    const struct kl_arg *memory[KL_FUSION_INPUTS];
    int n_memory = 0;
    int64_t bytes = 0;
    for (int j = 0; j < n; j++) {
        for (int i = 0; i < steps[j].n_in; i++) {
            if (steps[j].from[i] >= 0) continue;
            memory[n_memory++] = &steps[j].in[i];
            if (g.summed != NONE && (steps[j].in[i].layout & KL_ROW_CONTIGUOUS))
                bytes += g.size * (int64_t)kl_dtype_size((enum kl_dtype)steps[j].in[i].dtype);
        }
        if (steps[j].stored) bytes += g.size * (int64_t)kl_dtype_size(g.steps[j].out);
    }
    g.large = bytes >= LARGE;
    if (g.summed != NONE) return run_summed(&g, &steps[n], parallel);
    if (kl_grid_of(&g.grid, memory, n_memory)) {
        if (g.size <= KL_MAP_PARALLEL_FROM || !parallel)
            for (int64_t t = 0; t < g.grid.tasks; t++) run_patches(&g, t);
        else
            parallel(g.grid.tasks, run_patches, &g);
        return true;
    }
    const bool alone = g.size <= KL_MAP_PARALLEL_FROM || !parallel;
    void (*const run)(void *, int64_t) = is_in_place(&g) && !g.large ? run_in_place : run_chunk;
    g.chunk = alone ? g.size : KL_MAP_CHUNK;
    if (alone)
        run(&g, 0);
    else
        parallel(kl_ceil_div(g.size, g.chunk), run, &g);
    return true;
}
