/* lower.c - finds the kernel for a launch: the tables of compiled kernels, and the table that says
 * which family lowers which operation. */
#include "backend/gpu/lower/lower.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/gpu/lower/kernel_cache.h"
#include "backend/gpu/lower/kernels.h"
#include "backend/gpu/lower/side_by_side.h"
#include "base/alloc.h"
#include "base/fork_locks.h"
#include "base/number/dtype.h"
#include "base/op/validate.h"

/* ---- what is compiled ---- */

/* A compiled kernel, found by what it was made from: an entry of a family with its values, or a key
 * that stands for a source made at run time. Immortal. */
struct entry {
    struct entry *next; /* next entry of its bucket */
    uint64_t hash;
    const struct kl_family *family; /* NULL: found by `key` */
    int values[KL_MAX_DEFINES];
    uint32_t local;
    const void *key; /* a copy of the key, for entries without a family */
    size_t key_bytes;
    const char *name; /* of the kernel; a copy for entries without a family */
    /* So many launches in one, each with so many bytes of arguments; 0: one launch. */
    int merged;
    size_t merged_bytes;
    void *kernel;
    struct kl_kernel_limits limits;
};
struct wanted { /* an entry to find, and how to make it when it is new */
    struct entry e;
    const char *file; /* what messages call the source */
    /* malloc'd result; NULL: the source is the family's, or the key is the source itself */
    char *(*source)(void *ctx);
    void *ctx;
    const char *library; /* for entries without a family; may be NULL */
    bool bare;           /* the source stands alone, without preludes and library */
    bool is_program;     /* the key is a compiled program */
};
enum {
    BUCKETS = 1024,
    PREPARED = 256,
    ALIGNMENTS = 1024, /* no kernel depends on an alignment above this */
    /* Merged launches; prelude_cuda.kl has the same alignment. A kernel of CUDA takes 4 KB. */
    MERGED_ALIGN = 16,
    MERGED_MOST = 3 << 10, /* bytes of the arguments of all */
    NAME_ROOM = 64,
#ifdef KL_TEST_HOOKS
    ALWAYS_MERGES = true, /* launches wait for each other on every device that is tested */
#else
    ALWAYS_MERGES = false,
#endif
};

/* A command that was prepared lately. Threads write both numbers without a lock; the first is the
 * command's signature only together with the second. */
struct prepared {
    _Atomic(uint64_t) key;  /* the signature, exclusive or `size` times MIX_SIZE */
    _Atomic(uint64_t) size; /* of the workspace */
};
#define MIX_SIZE 0x9E3779B97F4A7C15u

struct kl_lowering {
    struct kl_driver *driver;
    struct kl_mutex mu; /* a leaf; guards what is appended to the buckets */
    _Atomic(struct entry *) bucket[BUCKETS];
    /* Held while compiling, so that a kernel which two threads want is compiled once. Taken before
     * mu. */
    struct kl_mutex compiling;
    _Atomic(bool) one_by_one; /* a merged kernel could not be made: launches stay apart */
    struct prepared prepared[PREPARED];
};

static uint64_t mix(uint64_t h, uint64_t v) {
    h ^= v + 0x9E3779B97F4A7C15u + (h << 6) + (h >> 2);
    return h * 0xBF58476D1CE4E5B9u;
}

static uint64_t hash_bytes(const void *data, size_t n) {
    const char *s = data;
    uint64_t h = n, v;
    for (; n >= sizeof v; s += sizeof v, n -= sizeof v) {
        memcpy(&v, s, sizeof v);
        h = mix(h, v);
    }
    for (v = 0; n > 0; n--) v = v << 8 | (unsigned char)s[n - 1];
    return mix(h, v);
}

static int n_defines(const struct kl_family *f) {
    int n = 0;
    while (n < KL_MAX_DEFINES && f->defines[n]) n++;
    return n;
}

static bool same(const struct entry *a, const struct entry *b) {
    if (a->hash != b->hash || a->family != b->family || a->local != b->local ||
        a->merged != b->merged || a->merged_bytes != b->merged_bytes ||
        strcmp(a->name, b->name) != 0)
        return false;
    if (!a->family)
        return a->key_bytes == b->key_bytes && memcmp(a->key, b->key, a->key_bytes) == 0;
    return memcmp(a->values, b->values, sizeof a->values) == 0;
}

static struct entry *look_up(struct kl_lowering *l, const struct entry *want) {
    struct entry *e = atomic_load_explicit(&l->bucket[want->hash % BUCKETS], memory_order_acquire);
    while (e && !same(e, want)) e = e->next;
    return e;
}

/* ---- sources ---- */

static const char *const type_names[KL_N_DTYPES] = {
#define KL_DTYPE(ID, mlx, name, bytes, kind, dialect, ...) [KL_##ID] = #dialect,
#include "base/number/dtype.def"
};

const char *kl_dialect_type(enum kl_dtype dtype) {
    return type_names[dtype];
}

const char *kl_dialect_compute_type(enum kl_dtype dtype) {
    return kl_dialect_type(dtype == KL_F16 || dtype == KL_BF16 ? KL_F32 : dtype);
}

static size_t defines_of(const struct entry *want, char *text, size_t room) {
    size_t n = (size_t)snprintf(text, room, "#define LOCAL %u\n", want->local);
    if (want->merged)
        n += (size_t)snprintf(text + n, room - n, "#define MERGED %d\n#define MERGED_BYTES %zu\n",
                              want->merged, want->merged_bytes);
    for (int i = 0; want->family && i < n_defines(want->family); i++) {
        const char *name = want->family->defines[i];
        int v = want->values[i];
        if (strncmp(name, "T:", 2) == 0)
            n += (size_t)snprintf(text + n, room - n, "#define %s %s\n#define %s_ID %d\n", name + 2,
                                  type_names[v], name + 2, v);
        else
            n += (size_t)snprintf(text + n, room - n, "#define %s %d\n", name, v);
    }
    return n;
}

/* The complete source of what is wanted; malloc'd. In a source made at run time the line numbers of
 * messages count from its own first line. */
static char *source_of(struct kl_lowering *l, const struct wanted *w) {
    char defines[1024], *made = w->source ? w->source(w->ctx) : NULL;
    if (w->source && !made) return NULL;
    size_t n = defines_of(&w->e, defines, sizeof defines);
    if (w->bare) return kl_strdup(w->e.key);
    const char *body = made ? made : w->e.family ? w->e.family->source : w->e.key;
    const char *library = w->e.family ? w->e.family->library : w->library;
    if (!library) library = "";
    size_t room = n + strlen(l->driver->prelude) + strlen(kl_source_prelude) + strlen(library) +
                  strlen(body) + strlen(w->e.name) + 64;
    char *s = kl_malloc(room);
    if (s)
        n = (size_t)snprintf(s, room, "%s%s%s%s\n#line 1\n%s", defines, l->driver->prelude,
                             kl_source_prelude, library, body);
    if (s && w->e.merged) snprintf(s + n, room - n, "\nMERGED_KERNEL(%s)\n", w->e.name);
    kl_free(made);
    return s;
}

/* A copy of e that owns its key and name. */
static struct entry *entry_copy(const struct entry *e) {
    size_t name_bytes = e->family ? 0 : strlen(e->name) + 1;
    struct entry *copy = kl_malloc(sizeof *copy + e->key_bytes + name_bytes);
    if (!copy) return NULL;
    *copy = *e;
    if (!e->family) {
        copy->key = memcpy(copy + 1, e->key, e->key_bytes);
        copy->name = memcpy((char *)(copy + 1) + e->key_bytes, e->name, name_bytes);
    }
    return copy;
}

static int make(struct kl_lowering *l, const struct wanted *w, struct entry **out,
                struct kl_error **err) {
    struct entry *e = entry_copy(&w->e);
    char *source = e && !w->is_program ? source_of(l, w) : NULL;
    void *module = NULL;
    int rc = e && (source || w->is_program) ? KL_OK : kl_fail_nomem(err);
    if (!rc && w->is_program)
        rc = l->driver->ops->load_program(l->driver, w->e.key, w->e.key_bytes, w->file, &module,
                                          err);
    else if (!rc)
        rc = kl_kernel_cache_module(l->driver, source, w->file, &module, err);
    char merged[NAME_ROOM];
    if (!rc) snprintf(merged, sizeof merged, "merged_%s", e->name);
    if (!rc)
        rc = l->driver->ops->find(l->driver, module, e->merged ? merged : e->name, &e->kernel, err);
    if (!rc && l->driver->ops->limits)
        rc = l->driver->ops->limits(l->driver, e->kernel, &e->limits, err);
    kl_free(source);
    if (rc) {
        kl_free(e);
        return rc;
    }
    kl_mutex_lock(&l->mu);
    _Atomic(struct entry *) *bucket = &l->bucket[e->hash % BUCKETS];
    e->next = atomic_load_explicit(bucket, memory_order_relaxed);
    atomic_store_explicit(bucket, e, memory_order_release);
    kl_mutex_unlock(&l->mu);
    *out = e;
    return KL_OK;
}

static int find_or_make(struct kl_lowering *l, const struct wanted *w, struct entry **out,
                        struct kl_error **err) {
    if ((*out = look_up(l, &w->e))) return KL_OK;
    kl_mutex_lock(&l->compiling);
    int rc = (*out = look_up(l, &w->e)) ? KL_OK : make(l, w, out, err);
    kl_mutex_unlock(&l->compiling);
    return rc;
}

/* Test builds check every launch; other builds check under KEEL_VALIDATE=1. */
static bool checks_addresses(void) {
#ifdef KL_TEST_HOOKS
    return true;
#else
    return kl_validating();
#endif
}

/* A kernel needs each address aligned to the items that it reads or writes there. CUDA loses the
 * device where an address is not aligned, and processors do not notice. This check finds mistakes
 * in the division of scratch memory. */
static int check_addresses(struct kl_emit *e, const char *kernel, const struct kl_karg *args,
                           int n_args) {
    for (int i = 0; i < n_args && checks_addresses(); i++) {
        if (args[i].bytes || !args[i].value) continue;
        if (args[i].item == 0)
            return kl_fail(e->err, KL_EINTERNAL,
                           "kernel '%s': argument %d is an address without the size of its items",
                           kernel, i);
        if ((uintptr_t)args[i].value % args[i].item)
            return kl_fail(e->err, KL_EVALIDATE,
                           "kernel '%s': argument %d, the address %#llx, is not aligned to its "
                           "items of %u bytes",
                           kernel, i, (unsigned long long)(uintptr_t)args[i].value, args[i].item);
    }
    return KL_OK;
}

/* ---- launches, and several in one ---- */

/* A launch that waits for those of the commands beside its own, with copies of the arguments. */
struct waiting {
    struct entry *kernel;
    uint32_t groups;
    size_t shared_bytes;
    int n_args;
    struct kl_karg args[KL_MAX_KARGS];
    _Alignas(MERGED_ALIGN) char values[MERGED_MOST]; /* of the arguments that are no addresses */
    size_t value_bytes;
};
struct kl_side {
    struct waiting launch[KL_MOST_BESIDE];
    int n;
    bool again; /* the command at hand has a launch here already */
};

static int hand_over(struct kl_emit *e, void *kernel, uint32_t groups, uint32_t local,
                     size_t shared_bytes, const struct kl_karg *args, int n_args) {
    if (shared_bytes)
        return e->driver->ops->launch_3d(
            e->driver, e->queue, kernel, (const uint32_t[]){groups, 1, 1},
            (const uint32_t[]){local, 1, 1}, shared_bytes, args, n_args, e->err);
    return e->driver->ops->launch(e->driver, e->queue, kernel, groups, local, args, n_args, e->err);
}

static size_t padded(size_t bytes) {
    return (bytes + MERGED_ALIGN - 1) / MERGED_ALIGN * MERGED_ALIGN;
}

/* The bytes of the arguments as a merged kernel takes them: each parameter at a multiple of
 * MERGED_ALIGN; an address is two parameters. */
static size_t merged_bytes_of(const struct waiting *l) {
    size_t bytes = 0;
    for (int i = 0; i < l->n_args; i++)
        bytes += l->args[i].bytes ? padded(l->args[i].bytes) : 2 * MERGED_ALIGN;
    return bytes;
}

static void put_merged(char *to, const struct waiting *l) {
    for (int i = 0; i < l->n_args; i++) {
        const struct kl_karg *a = &l->args[i];
        memcpy(to, a->bytes ? a->value : &a->value, a->bytes ? a->bytes : sizeof a->value);
        to += a->bytes ? padded(a->bytes) : 2 * MERGED_ALIGN;
    }
}

static int launch_alone(struct kl_emit *e, const struct waiting *l) {
    return hand_over(e, l->kernel->kernel, l->groups, l->kernel->local, l->shared_bytes, l->args,
                     l->n_args);
}

/* Launches n launches of one kernel as one: 1; 0: that is not possible. The groups of each are one
 * row of a grid in two dimensions. */
static int launch_merged(struct kl_emit *e, const struct waiting *const *launches, int n) {
    const struct waiting *first = launches[0];
    const size_t each = merged_bytes_of(first);
    struct { /* prelude_cuda.kl has the same */
        uint32_t groups[KL_MOST_BESIDE];
        _Alignas(MERGED_ALIGN) char values[MERGED_MOST];
    } all;
    uint32_t most = 0;
    if (n < 2 || !e->driver->merges || !first->kernel->family ||
        (size_t)n * each > sizeof all.values || atomic_load(&e->lowering->one_by_one))
        return 0;
    memset(&all, 0, sizeof all.groups + (size_t)n * each);
    for (int i = 0; i < n; i++) {
        all.groups[i] = launches[i]->groups;
        if (most < launches[i]->groups) most = launches[i]->groups;
        put_merged(all.values + (size_t)i * each, launches[i]);
    }
    struct wanted w = {.e = *first->kernel, .file = first->kernel->family->name};
    struct entry *found;
    w.e.merged = n;
    w.e.merged_bytes = each;
    w.e.hash = mix(mix(w.e.hash, (uint64_t)n), each);
    /* What cannot be merged is launched one by one; an attempt at every command buffer would cost
     * more than merging gains. */
    struct kl_error *ignored = NULL;
    const int made = find_or_make(e->lowering, &w, &found, &ignored);
    if (made) {
        if (made != KL_ENOMEM) atomic_store(&e->lowering->one_by_one, true);
        kl_error_release(ignored);
        return 0;
    }
    if (found->limits.max_local && w.e.local > found->limits.max_local) return 0;
    struct kl_karg arg = {&all, sizeof all.groups + (size_t)n * each, 0};
    const int rc = e->driver->ops->launch_3d(
        e->driver, e->queue, found->kernel, (const uint32_t[]){most, (uint32_t)n, 1},
        (const uint32_t[]){w.e.local, 1, 1}, first->shared_bytes, &arg, 1, e->err);
    return rc ? rc : 1;
}

/* Launches what waits, those of one kernel together. */
static int launch_side(struct kl_emit *e, const struct kl_side *s) {
    bool done[KL_MOST_BESIDE] = {false};
    for (int i = 0; i < s->n; i++) {
        const struct waiting *same[KL_MOST_BESIDE];
        int n = 0;
        for (int k = i; k < s->n; k++) {
            if (done[k] || s->launch[k].kernel != s->launch[i].kernel ||
                s->launch[k].shared_bytes != s->launch[i].shared_bytes)
                continue;
            same[n++] = &s->launch[k];
            done[k] = true;
        }
        if (n == 0) continue;
        const int rc = launch_merged(e, same, n);
        if (rc < 0) return rc;
        for (int k = 0; k < n && rc == 0; k++) KL_TRY(launch_alone(e, same[k]));
    }
    return KL_OK;
}

/* Launches one by one what waits; what follows does not wait. */
static int settle(struct kl_emit *e) {
    struct kl_side *s = e->side;
    e->side = NULL;
    for (int i = 0; s && i < s->n; i++) KL_TRY(launch_alone(e, &s->launch[i]));
    if (s) s->n = 0;
    return KL_OK;
}

/* Keeps a launch; false when it cannot wait. */
static bool keep(struct kl_side *s, struct entry *kernel, uint32_t groups, size_t shared_bytes,
                 const struct kl_karg *args, int n_args) {
    if (s->again || s->n == KL_MOST_BESIDE) return false;
    struct waiting *l = &s->launch[s->n];
    l->kernel = kernel;
    l->groups = groups;
    l->shared_bytes = shared_bytes;
    l->n_args = n_args;
    l->value_bytes = 0;
    for (int i = 0; i < n_args; i++) {
        l->args[i] = args[i];
        if (args[i].bytes == 0) continue;
        if (l->value_bytes + padded(args[i].bytes) > sizeof l->values) return false;
        l->args[i].value = memcpy(l->values + l->value_bytes, args[i].value, args[i].bytes);
        l->value_bytes += padded(args[i].bytes);
    }
    s->n++;
    s->again = true;
    return true;
}

static int launch(struct kl_emit *e, const struct wanted *w, int64_t groups, size_t shared_bytes,
                  const struct kl_karg *args, int n_args) {
    struct entry *found;
    if (e->sizes_only) return KL_OK;
    KL_TRY(find_or_make(e->lowering, w, &found, e->err));
    uint32_t most = found->limits.max_local;
    if (most && w->e.local > most)
        return kl_fail(e->err, KL_EUNSUPPORTED,
                       "%s: groups of %u work-items; this device takes %u of this kernel",
                       w->e.name, w->e.local, most);
    if (e->dry || groups <= 0) return KL_OK;
    if (groups > INT32_MAX)
        return kl_fail(e->err, KL_EUNSUPPORTED, "%s: %lld work-groups, more than a device takes",
                       w->e.name, (long long)groups);
    KL_TRY(check_addresses(e, w->e.name, args, n_args));
    if (e->side && keep(e->side, found, (uint32_t)groups, shared_bytes, args, n_args)) return KL_OK;
    KL_TRY(settle(e));
    return hand_over(e, found->kernel, (uint32_t)groups, w->e.local, shared_bytes, args, n_args);
}

int kl_emit_plain_copy(struct kl_emit *e, void *to, const void *from, size_t bytes) {
    KL_TRY(settle(e));
    return e->driver->ops->copy(e->driver, e->queue, to, from, bytes, e->err);
}

int kl_emit(struct kl_emit *e, const struct kl_family *f, const int *values, const char *entry,
            int64_t groups, uint32_t local, const struct kl_karg *args, int n_args) {
    return kl_emit_shared(e, f, values, entry, groups, local, 0, args, n_args);
}

int kl_emit_shared(struct kl_emit *e, const struct kl_family *f, const int *values,
                   const char *entry, int64_t groups, uint32_t local, size_t shared_bytes,
                   const struct kl_karg *args, int n_args) {
    struct wanted w = {.e = {.family = f, .local = local, .name = entry}, .file = f->name};
    int n = n_defines(f);
    w.e.hash = mix((uintptr_t)f, local);
    for (int i = 0; i < n; i++) {
        w.e.values[i] = values[i];
        w.e.hash = mix(w.e.hash, (uint64_t)(int64_t)values[i]);
        if (strncmp(f->defines[i], "T:", 2) == 0 && values[i] == KL_F64 && !e->driver->has_f64)
            return kl_fail(e->err, KL_EUNSUPPORTED, "%s: this device has no float64", entry);
    }
    w.e.hash = mix(w.e.hash, hash_bytes(entry, strlen(entry)));
    return launch(e, &w, groups, shared_bytes, args, n_args);
}

static int emit_made(struct kl_emit *e, const char *file, const void *key, size_t key_bytes,
                     char *(*source)(void *ctx), void *ctx, const char *entry, int64_t groups,
                     uint32_t local, const struct kl_karg *args, int n_args) {
    struct wanted w = {.e = {.local = local, .name = entry, .key = key, .key_bytes = key_bytes},
                       .file = file,
                       .source = source,
                       .ctx = ctx};
    w.e.hash = mix(mix(hash_bytes(key, key_bytes), local), hash_bytes(entry, strlen(entry)));
    return launch(e, &w, groups, 0, args, n_args);
}

int kl_emit_made(struct kl_emit *e, const void *key, size_t key_bytes, char *(*source)(void *ctx),
                 void *ctx, const char *entry, int64_t groups, uint32_t local,
                 const struct kl_karg *args, int n_args) {
    return emit_made(e, entry, key, key_bytes, source, ctx, entry, groups, local, args, n_args);
}

int kl_emit_source(struct kl_emit *e, const char *name, const char *source, const char *entry,
                   int64_t groups, uint32_t local, const struct kl_karg *args, int n_args) {
    return emit_made(e, name, source, strlen(source) + 1, NULL, NULL, entry, groups, local, args,
                     n_args);
}

/* Whether the compiled kernel can run in groups of the wanted size. A driver would refuse a wrong
 * size only at hand-over, together with the whole command buffer. */
static int check_grid(struct kl_emit *e, const struct kl_grid_launch *g,
                      const struct kl_kernel_limits *limits) {
    size_t has = e->driver->dynamic_bytes && g->shared_bytes ? e->driver->dynamic_bytes
                                                             : e->driver->local_bytes;
    uint32_t in_group = g->local[0] * g->local[1] * g->local[2];
    if (limits->max_local && in_group > limits->max_local)
        return kl_fail(e->err, KL_EARG,
                       "kernel '%s': thread group (%u, %u, %u) is %u threads; this device takes %u "
                       "of this kernel, by what each of them needs",
                       g->name, g->local[0], g->local[1], g->local[2], in_group, limits->max_local);
    if (limits->shared_bytes + g->shared_bytes > has)
        return kl_fail(e->err, KL_EARG,
                       "kernel '%s': %zu bytes of shared memory in its source and %zu in the call; "
                       "this device has %zu per group",
                       g->name, limits->shared_bytes, g->shared_bytes, has);
    return KL_OK;
}

int kl_emit_grid(struct kl_emit *e, const struct kl_grid_launch *g, const struct kl_karg *args,
                 int n_args) {
    const bool is_program = g->program_bytes != 0;
    /* A program is the same for all groups: 0 stands for them, which no source has. */
    struct wanted w = {.e = {.local = is_program ? 0 : g->local[0] * g->local[1] * g->local[2],
                             .name = g->entry,
                             .key = g->source,
                             .key_bytes = is_program ? g->program_bytes : strlen(g->source) + 1},
                       .file = g->name,
                       .library = g->library,
                       .bare = g->bare,
                       .is_program = is_program};
    struct entry *found;
    w.e.hash = mix(mix(hash_bytes(w.e.key, w.e.key_bytes), w.e.local + (uint64_t)g->bare),
                   hash_bytes(g->entry, strlen(g->entry)));
    KL_TRY(find_or_make(e->lowering, &w, &found, e->err));
    if (e->dry) return check_grid(e, g, &found->limits);
    KL_TRY(check_addresses(e, g->name, args, n_args));
    KL_TRY(settle(e));
    return (is_program ? e->driver->ops->launch_program : e->driver->ops->launch_3d)(
        e->driver, e->queue, found->kernel, g->groups, g->local, g->shared_bytes, args, n_args,
        e->err);
}

int kl_emit_workspace(struct kl_emit *e, size_t bytes, void **ptr) {
    *ptr = NULL;
    if (bytes == 0) return KL_OK;
    const size_t at = e->used;
    if (bytes > SIZE_MAX / 2 || at > SIZE_MAX / 2)
        return kl_fail(e->err, KL_ENOMEM, "out of memory: a workspace of %zu bytes", bytes);
    e->used += kl_scratch_bytes(bytes);
    if (e->dry) return KL_OK;
    if (e->used > e->room)
        return kl_fail(e->err, KL_EINTERNAL, "a workspace of %zu bytes, where %zu were given",
                       e->used, e->room);
    *ptr = e->workspace + at;
    return KL_OK;
}

/* ---- what was stored before ---- */

bool kl_emit_unwritten(const struct kl_emit *e, const struct kl_arg *a) {
    const struct kl_extent wanted = kl_extent_of(a);
    const uintptr_t own = (uintptr_t)e->workspace; /* earlier kernels of the command store there */
    if (e->dry || kl_extents_overlap(wanted, (struct kl_extent){own, own + e->room})) return false;
    for (int i = 0; i < e->n_before; i++) {
        const struct kl_command *c = &e->before[i];
        for (int k = 0; k < c->n_out && c->kind == KL_CMD_LAUNCH; k++)
            if (kl_extents_overlap(wanted, kl_extent_of(&c->args[c->n_in + k]))) return false;
    }
    return true;
}

/* ---- which family ---- */

static kl_lower_fn *const by_op[KL_N_OPS] = {
#define KL_OP(ID, name, n_in, flags, kernel, lowering, ...) [KL_OP_##ID] = lowering,
#include "base/op/op_list.def"
};

/* Copies between different layouts have kernels of their own; a copy between row-major arrays is
 * lowered as an element-wise operation. */
static bool is_move(const struct kl_command *c) {
    return c->op == KL_OP_COPY && !(c->args[0].layout & c->args[1].layout & KL_ROW_CONTIGUOUS);
}

/* 1 when the driver runs c in a way of its own. */
static int by_driver(struct kl_emit *e, const struct kl_command *c) {
    if (c->kind != KL_CMD_LAUNCH || !e->driver->ops->override) return 0;
    return e->driver->ops->override(e, c);
}

static int by_family(struct kl_emit *e, const struct kl_command *c) {
    if (c->kind != KL_CMD_LAUNCH) return kl_lower_guards(e, c);
    kl_lower_fn *f = by_op[c->op];
    if (kl_op_flags(c->op) & KL_OPF_ELEMENTWISE && !is_move(c)) f = kl_lower_elementwise;
    if (!f)
        return kl_fail(e->err, KL_EUNSUPPORTED, "%s cannot run on this device",
                       c->name ? c->name : kl_op_name(c->op));
    return f(e, c);
}

static int lower_one(struct kl_emit *e, const struct kl_command *c) {
    const int rc = by_driver(e, c);
    if (rc) return rc < 0 ? rc : KL_OK;
    return by_family(e, c);
}

int kl_emit_command(struct kl_emit *e, const struct kl_command *c) {
    KL_TRY(settle(e)); /* a driver's own way does not wait */
    return lower_one(e, c);
}

/* A hash of everything that decides which kernels c needs. 0: not known, as for kernels of users,
 * whose sources come and go. */
static uint64_t signature(const struct kl_command *c) {
    if (c->kind != KL_CMD_LAUNCH || c->op == KL_OP_KERNEL || c->op == KL_OP_CALL) return 0;
    if (c->params && !c->params_bytes) return 0;
    uint64_t h = mix(c->op, (uint64_t)c->checked << 1 | (c->word.words != NULL));
    if (c->params_bytes) h = mix(h, hash_bytes(c->params, c->params_bytes));
    for (int i = 0; i < c->n_in + c->n_out; i++) {
        const struct kl_arg *a = &c->args[i];
        size_t n = (size_t)a->ndim;
        h = mix(h, (uint64_t)a->dtype << 32 | (uint64_t)a->layout << 8 | (uint64_t)n);
        if (n)
            h = mix(mix(h, hash_bytes(a->dims, n * sizeof *a->dims)),
                    hash_bytes(a->strides, n * sizeof *a->strides));
        h = mix(h, (uintptr_t)a->data % ALIGNMENTS);
        for (int k = 0; k < i; k++) h = mix(h, c->args[k].data == a->data);
    }
    return mix(h, (uint64_t)(c->pos_end - c->pos_begin)) | 1;
}

/* A command with the signature of one that was prepared lately is not prepared again: looking up
 * the signature costs less than choosing the kernels. Two different commands collide once in 2^63;
 * then the second is compiled when it is handed over, and a failure of that compilation fails its
 * whole command buffer. */
int kl_lower_prepare(struct kl_lowering *l, const struct kl_command *c, size_t *workspace_bytes,
                     struct kl_error **err) {
    struct kl_emit e = {.lowering = l, .driver = l->driver, .dry = true, .err = err};
    uint64_t s = signature(c);
    struct prepared *p = &l->prepared[(s >> 32) % PREPARED];
    uint64_t size = atomic_load_explicit(&p->size, memory_order_relaxed);
    if (s && atomic_load_explicit(&p->key, memory_order_relaxed) == (s ^ size * MIX_SIZE)) {
        *workspace_bytes = (size_t)size;
        return KL_OK;
    }
    KL_TRY(lower_one(&e, c));
    *workspace_bytes = e.used;
    if (!s) return KL_OK;
    atomic_store_explicit(&p->size, e.used, memory_order_relaxed);
    atomic_store_explicit(&p->key, s ^ (uint64_t)e.used * MIX_SIZE, memory_order_relaxed);
    return KL_OK;
}

static struct kl_emit emit_of(struct kl_lowering *l, void *queue, const struct kl_command *commands,
                              int at, struct kl_error **err) {
    return (struct kl_emit){.lowering = l,
                            .driver = l->driver,
                            .queue = queue,
                            .err = err,
                            .before = commands,
                            .n_before = at,
                            .workspace = commands[at].workspace,
                            .room = commands[at].workspace_bytes};
}

/* Lowers n commands from `first` on that may run side by side: as one launch when each is a launch
 * of the same kernel. */
static int lower_side_by_side(struct kl_lowering *l, void *queue, const struct kl_command *commands,
                              int first, int n, struct kl_error **err) {
    struct kl_side side; /* of 15 KB, which are not cleared for each group */
    side.n = 0;
    for (int i = first; i < first + n; i++) {
        struct kl_emit e = emit_of(l, queue, commands, i, err);
        const int rc = by_driver(&e, &commands[i]);
        if (rc < 0) return rc;
        if (rc > 0) continue;
        e.side = &side;
        side.again = false;
        KL_TRY(by_family(&e, &commands[i]));
    }
    struct kl_emit e = emit_of(l, queue, commands, first, err);
    return launch_side(&e, &side);
}

int kl_lower(struct kl_lowering *l, void *queue, const struct kl_command *commands, int n,
             struct kl_error **err) {
    for (int i = 0; i < n;) {
        const int beside = l->driver->merges || ALWAYS_MERGES ? kl_beside(commands + i, n - i) : 1;
        if (beside > 1) {
            KL_TRY(lower_side_by_side(l, queue, commands, i, beside, err));
            i += beside;
            continue;
        }
        struct kl_emit e = emit_of(l, queue, commands, i, err);
        /* A run of element-wise operations becomes one kernel, as far as the run goes. */
        int fused = kl_lower_fused(&e, commands + i, n - i);
        if (fused < 0) return fused;
        if (fused == 0) KL_TRY(lower_one(&e, &commands[i]));
        i += fused ? fused : 1;
    }
    return KL_OK;
}

const struct kl_family *const *kl_families(int *n) {
    static const struct kl_family *const families[] = {
#define KL_FAMILY(name) &kl_family_##name,
#include "backend/gpu/lower/families.def"
    };
    *n = sizeof families / sizeof *families;
    return families;
}

struct kl_lowering *kl_lowering_new(struct kl_driver *d, struct kl_error **err) {
    struct kl_lowering *l = kl_calloc(1, sizeof *l);
    if (!l) {
        kl_fail_nomem(err);
        return NULL;
    }
    l->driver = d;
    kl_mutex_init(&l->mu);
    kl_mutex_init(&l->compiling);
    kl_fork_lock_add(&l->compiling);
    kl_fork_lock_add(&l->mu);
    return l;
}
