/* compiled.c - the tables of compiled kernels: finds the kernel for a launch, and makes it from its
 * source when it is new. */
#include <stdio.h>
#include <string.h>

#include "backend/gpu/lower/kernel_cache.h"
#include "backend/gpu/lower/kernels.h"
#include "backend/gpu/lower/lowering.h"
#include "base/alloc.h"
#include "base/number/dtype.h"
#include "base/op/quant_mode.h"

enum { NAME_ROOM = 64 };

uint64_t kl_hash_bytes(const void *data, size_t n) {
    const char *s = data;
    uint64_t h = n, v;
    for (; n >= sizeof v; s += sizeof v, n -= sizeof v) {
        memcpy(&v, s, sizeof v);
        h = kl_hash_mix(h, v);
    }
    for (v = 0; n > 0; n--) v = v << 8 | (unsigned char)s[n - 1];
    return kl_hash_mix(h, v);
}

int kl_n_defines(const struct kl_family *f) {
    int n = 0;
    while (n < KL_MAX_DEFINES && f->defines[n]) n++;
    return n;
}

static bool same(const struct kl_compiled *a, const struct kl_compiled *b) {
    if (a->hash != b->hash || a->family != b->family || a->local != b->local ||
        a->merged != b->merged || a->merged_bytes != b->merged_bytes ||
        strcmp(a->name, b->name) != 0)
        return false;
    if (a->key_bytes != b->key_bytes || memcmp(a->values, b->values, sizeof a->values) != 0)
        return false;
    return a->key_bytes == 0 || memcmp(a->key, b->key, a->key_bytes) == 0;
}

static struct kl_compiled *look_up(struct kl_lowering *l, const struct kl_compiled *want) {
    struct kl_compiled *e =
        atomic_load_explicit(&l->bucket[want->hash % KL_COMPILED_BUCKETS], memory_order_acquire);
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

static const char *const mode_defines[KL_N_QUANT_MODES] = {
#define KL_QUANT_MODE(ID, name, group_sizes, bits, group_size, n_bits, scales, numbers) \
    [KL_QUANT_##ID] = "#define SCALES_" #scales "\n#define NUMBERS_" #numbers "\n",
#include "base/op/quant_mode.def"
};

/* alone: the kernel is the only one of its source that is wanted. */
static size_t defines_of(const struct kl_compiled *want, bool alone, char *text, size_t room) {
    size_t n = (size_t)snprintf(text, room, "#define LOCAL %u\n", want->local);
    if (alone)
        n += (size_t)snprintf(text + n, room - n, "#define ONE_KERNEL\n#define ONLY_%s , MADE\n",
                              want->name);
    if (want->merged)
        n += (size_t)snprintf(text + n, room - n, "#define MERGED %d\n#define MERGED_BYTES %zu\n",
                              want->merged, want->merged_bytes);
    if (want->family && want->key_bytes) n += (size_t)snprintf(text + n, room - n, "#define FED\n");
    for (int i = 0; want->family && i < kl_n_defines(want->family); i++) {
        const char *name = want->family->defines[i];
        int v = want->values[i];
        if (strncmp(name, "T:", 2) == 0)
            n += (size_t)snprintf(text + n, room - n, "#define %s %s\n#define %s_ID %d\n", name + 2,
                                  type_names[v], name + 2, v);
        else if (strncmp(name, "Q:", 2) == 0)
            n += (size_t)snprintf(text + n, room - n, "%s", mode_defines[v]);
        else
            n += (size_t)snprintf(text + n, room - n, "#define %s %d\n", name, v);
    }
    return n;
}

/* The complete source of a wanted kernel; malloc'd. In a source made at run time the line numbers
 * of messages count from its own first line. */
static char *source_of(struct kl_lowering *l, const struct kl_wanted *w) {
    char defines[1024], *made = w->source ? w->source(w->ctx) : NULL;
    if (w->source && !made) return NULL;
    const bool alone = l->driver->leaves_out && !w->library && *w->e.name;
    size_t n = defines_of(&w->e, alone, defines, sizeof defines);
    if (w->bare) return kl_strdup(w->e.key);
    const char *body = w->e.family ? w->e.family->source : made ? made : w->e.key;
    const char *library = w->e.family ? w->e.family->library : w->library;
    const char *feed = w->e.family && made ? made : "";
    if (!library) library = "";
    size_t room = n + strlen(l->driver->prelude) + strlen(kl_source_prelude) + strlen(feed) +
                  strlen(library) + strlen(body) + strlen(w->e.name) + 64;
    char *s = kl_malloc(room);
    if (s)
        n = (size_t)snprintf(s, room, "%s%s%s%s%s\n#line 1\n%s", defines, l->driver->prelude,
                             kl_source_prelude, feed, library, body);
    if (s && w->e.merged) snprintf(s + n, room - n, "\nMERGED_KERNEL(%s)\n", w->e.name);
    kl_free(made);
    return s;
}

/* A copy of e that owns its key and name. */
static struct kl_compiled *entry_copy(const struct kl_compiled *e) {
    size_t name_bytes = e->family ? 0 : strlen(e->name) + 1;
    struct kl_compiled *copy = kl_malloc(sizeof *copy + e->key_bytes + name_bytes);
    if (!copy) return NULL;
    *copy = *e;
    if (e->key_bytes) copy->key = memcpy(copy + 1, e->key, e->key_bytes);
    if (!e->family) copy->name = memcpy((char *)(copy + 1) + e->key_bytes, e->name, name_bytes);
    return copy;
}

struct kl_compiled kl_compiled_like(const struct kl_compiled *e) {
    struct kl_compiled like = {.hash = e->hash,
                               .family = e->family,
                               .local = e->local,
                               .key = e->key,
                               .key_bytes = e->key_bytes,
                               .name = e->name};
    memcpy(like.values, e->values, sizeof like.values);
    return like;
}

/* ---- making ---- */

static int find_in(struct kl_lowering *l, struct kl_compiled *e, void *module,
                   struct kl_error **err) {
    char merged[NAME_ROOM];
    snprintf(merged, sizeof merged, "merged_%s", e->name);
    KL_TRY(l->driver->ops->find(l->driver, module, e->merged ? merged : e->name, &e->kernel, err));
    return l->driver->ops->limits ? l->driver->ops->limits(l->driver, e->kernel, &e->limits, err)
                                  : KL_OK;
}

int kl_compiled_make(struct kl_lowering *l, struct kl_compiled *e, const char *source,
                     const char *file, struct kl_error **err) {
    void *module = NULL;
    KL_TRY(kl_kernel_cache_module(l->driver, source, file, &module, err));
    return find_in(l, e, module, err);
}

static int make_program(struct kl_lowering *l, struct kl_compiled *e, const char *file,
                        struct kl_error **err) {
    void *module = NULL;
    KL_TRY(kl_driver_load_program(l->driver, e->key, e->key_bytes, file, &module, err));
    return find_in(l, e, module, err);
}

/* The caller holds l->mu. */
static void append(struct kl_lowering *l, struct kl_compiled *e) {
    _Atomic(struct kl_compiled *) *bucket = &l->bucket[e->hash % KL_COMPILED_BUCKETS];
    e->next = atomic_load_explicit(bucket, memory_order_relaxed);
    atomic_store_explicit(bucket, e, memory_order_release);
}

/* On the calling thread. Nothing is remembered of a kernel that cannot be made. */
static int make(struct kl_lowering *l, const struct kl_wanted *w, struct kl_compiled **out,
                struct kl_error **err) {
    struct kl_compiled *e = entry_copy(&w->e);
    char *source = e && !w->is_program ? source_of(l, w) : NULL;
    int rc = e && (source || w->is_program) ? KL_OK : kl_fail_nomem(err);
    if (!rc)
        rc = w->is_program ? make_program(l, e, w->file, err)
                           : kl_compiled_make(l, e, source, w->file, err);
    kl_free(source);
    if (rc) {
        kl_free(e);
        return rc;
    }
    kl_mutex_lock(&l->mu);
    append(l, e);
    kl_mutex_unlock(&l->mu);
    *out = e;
    return KL_OK;
}

/* The entry of a kernel that another thread compiles. NULL: out of memory. */
static struct kl_compiled *entry_for(struct kl_lowering *l, const struct kl_wanted *w) {
    struct kl_compiled *e = look_up(l, &w->e), *fresh = e ? NULL : entry_copy(&w->e);
    if (e || !fresh) return e;
    fresh->lowering = l;
    atomic_init(&fresh->state, KL_KERNEL_NEW);
    kl_mutex_lock(&l->mu);
    if (!(e = look_up(l, &w->e))) append(l, e = fresh);
    kl_mutex_unlock(&l->mu);
    if (e != fresh) kl_free(fresh);
    return e;
}

/* Kernels of users are compiled by the thread that needs them: whether their groups fit is known
 * only then, and the sources that fail are many and of all kinds. */
static bool by_helpers(const struct kl_lowering *l, const struct kl_wanted *w) {
    return l->driver->ops->helper_begin && !w->is_program && !w->bare && !w->library;
}

int kl_compiled_start(struct kl_lowering *l, const struct kl_wanted *w, struct kl_compiled **out,
                      struct kl_error **err) {
    if (!by_helpers(l, w)) return kl_compiled_get(l, w, out, err);
    struct kl_compiled *e = entry_for(l, w);
    if (!(*out = e)) return kl_fail_nomem(err);
    const enum kl_compiled_state state = atomic_load_explicit(&e->state, memory_order_acquire);
    if (state != KL_KERNEL_NEW && (state != KL_KERNEL_FAILED || w->once)) return KL_OK;
    char *source = source_of(l, w), *file = source ? kl_strdup(w->file) : NULL;
    if (file) {
        kl_compiling_start(e, source, file);
        return KL_OK;
    }
    kl_free(source);
    return kl_fail_nomem(err);
}

int kl_compiled_get(struct kl_lowering *l, const struct kl_wanted *w, struct kl_compiled **out,
                    struct kl_error **err) {
    if ((*out = look_up(l, &w->e)) && kl_compiled_is_ready(*out)) return KL_OK;
    if (by_helpers(l, w)) {
        KL_TRY(kl_compiled_start(l, w, out, err));
        return kl_compiling_wait(*out, err);
    }
    const bool begun = !*out && kl_driver_stall_begin(); /* as kl_compiling_wait does */
    kl_mutex_lock(&l->compiling);
    int rc = (*out = look_up(l, &w->e)) ? KL_OK : make(l, w, out, err);
    kl_mutex_unlock(&l->compiling);
    kl_driver_stall_end(begun);
    return rc;
}

int kl_compiled_check(const struct kl_compiled *e, struct kl_error **err) {
    const uint32_t most = e->limits.max_local;
    if (!most || e->local <= most) return KL_OK;
    return kl_fail(err, KL_EUNSUPPORTED,
                   "%s: groups of %u work-items; this device takes %u of this kernel", e->name,
                   e->local, most);
}

void kl_lowering_forked(struct kl_lowering *l) {
    kl_compiling_forked();
    for (int i = 0; i < KL_COMPILED_BUCKETS; i++)
        for (struct kl_compiled *e = l->bucket[i]; e; e = e->next) kl_compiling_fail_forked(e);
}
