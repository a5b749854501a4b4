/* kernel.c - KERNEL: fills the outputs, merges guards into one word, and launches the user's
 * kernel, which is made from source or is in a program that the user compiled.
 * base/op/kernel_desc.h describes its arguments. */
#include <string.h>

#include "backend/gpu/lower/kernels.h"
#include "backend/gpu/lower/lower.h"
#include "backend/gpu/lower/side_by_side.h"
#include "base/number/half.h"
#include "base/op/op_params.h"

enum {
    LOCAL = 256,
    MAX_BLOCK = 4096, /* bytes of arguments; no device takes more */
    RAISED_HEAD = 4,  /* words; guards.kl has the same */
    RAISED_GROUPS = 256,
};

/* ---- filling ---- */

/* The bits of an element of dtype with the value v, which dtype can represent. */
static uint64_t bits_of(enum kl_dtype dtype, float v) {
    double wide = v;
    uint64_t bits = 0;
    switch (dtype) {
    case KL_BOOL: return v != 0;
    case KL_F16: return kl_f32_to_f16(v);
    case KL_BF16: return kl_f32_to_bf16(v);
    case KL_F32:
    /* The imaginary part, in the upper half, is 0. */
    case KL_C64: memcpy(&bits, &v, sizeof v); return bits;
    case KL_F64: memcpy(&bits, &wide, sizeof wide); return bits;
    default: return v < 0 ? (uint64_t)(int64_t)v : (uint64_t)v;
    }
}

static int fill_outputs(struct kl_emit *e, const struct kl_command *c,
                        const struct kl_kernel_desc *d) {
    for (int i = c->n_in; d->has_init && i < c->n_in + c->n_out; i++) {
        const struct kl_arg *a = &c->args[i];
        KL_TRY(kl_emit_fill(e, a->data, kl_dtype_size(a->dtype), a->size,
                            bits_of(a->dtype, d->init_value)));
    }
    return KL_OK;
}

/* ---- whether the device can ---- */

static int check_device(struct kl_emit *e, const struct kl_kernel_desc *d, uint32_t *groups) {
    const struct kl_driver *p = e->driver;
    size_t most = p->dynamic_bytes ? p->dynamic_bytes : p->local_bytes;
    if (d->is_cuda && !p->compiles_cuda)
        return kl_fail(e->err, KL_EUNSUPPORTED,
                       "kernel '%s' is CUDA source, and this device is not one of CUDA", d->name);
    if (d->is_metal && !p->compiles_metal)
        return kl_fail(e->err, KL_EUNSUPPORTED,
                       "kernel '%s' is Metal source, and this device is not one of Metal", d->name);
    if (d->uses_f64 && !p->has_f64)
        return kl_fail(e->err, KL_EUNSUPPORTED, "kernel '%s': this device has no float64", d->name);
    uint64_t in_group = 1;
    for (int i = 0; i < 3; i++) {
        uint32_t limit = p->max_group[i] ? p->max_group[i] : p->max_local;
        in_group *= (uint64_t)d->group[i];
        if ((uint32_t)d->group[i] > limit || in_group > p->max_local)
            return kl_fail(
                e->err, KL_EARG,
                "kernel '%s': thread group (%d, %d, %d): this device takes %u threads, and "
                "%u along axis %d",
                d->name, d->group[0], d->group[1], d->group[2], p->max_local, limit, i);
        groups[i] = ((uint32_t)d->grid[i] - 1) / (uint32_t)d->group[i] + 1;
        if (p->max_groups[i] && groups[i] > p->max_groups[i])
            return kl_fail(e->err, KL_EARG,
                           "kernel '%s': grid (%d, %d, %d): %u groups along axis %d; this device "
                           "takes %u",
                           d->name, d->grid[0], d->grid[1], d->grid[2], groups[i], i,
                           p->max_groups[i]);
    }
    if (d->shared_bytes > most)
        return kl_fail(e->err, KL_EARG,
                       "kernel '%s': %zu bytes of shared memory; this device has %zu per group",
                       d->name, d->shared_bytes, most);
    return KL_OK;
}

/* ---- arguments ---- */

/* The struct that the kernel takes by value; kernel_desc.h describes it. */
struct block {
    size_t bytes;
    union {
        char v[MAX_BLOCK];
        int64_t align;
    };
};

static void put(struct block *b, const void *v, size_t bytes) {
    if (b->bytes + bytes <= MAX_BLOCK) memcpy(b->v + b->bytes, v, bytes);
    b->bytes += bytes;
}

static int make_block(struct kl_emit *e, const struct kl_command *c, const struct kl_kernel_desc *d,
                      int guard_at, struct block *b) {
    static const int64_t none[1] = {0};
    b->bytes = 0;
    for (int i = 0; i < c->n_in + c->n_out; i++) {
        const struct kl_arg *a = &c->args[i];
        if (!(d->described >> i & 1)) continue;
        put(b, &a->size, sizeof a->size);
        put(b, a->ndim ? a->strides : none, (size_t)(a->ndim ? a->ndim : 1) * sizeof *a->strides);
    }
    put(b, d->grid, sizeof d->grid);
    put(b, &guard_at, sizeof guard_at);
    put(b, &c->word.index, sizeof c->word.index);
    for (int i = 0; i < c->n_in + c->n_out; i++) {
        const struct kl_arg *a = &c->args[i];
        if (!(d->described >> i & 1)) continue;
        put(b, a->ndim ? (const void *)a->dims : none,
            (size_t)(a->ndim ? a->ndim : 1) * sizeof *a->dims);
    }
    /* Pads the struct to its full size; without a 64-bit member its alignment is 4. NVIDIA's OpenCL
     * refuses any other size. */
    while (b->bytes % (d->described ? 8 : 4)) put(b, "", 1);
    size_t addresses = (size_t)(c->n_in + c->n_out + 2) * 16;
    size_t most = e->driver->argument_bytes;
    if (b->bytes + addresses > most)
        return kl_fail(
            e->err, KL_EUNSUPPORTED,
            "kernel '%s': its arguments take %zu bytes, with the shapes and strides that it "
            "asks for; a device takes %zu",
            d->name, b->bytes + addresses, most);
    return KL_OK;
}

/* Finds one word that is clear when all guards are clear, and its index; -1: there are no
 * guards. */
static int join_guards(struct kl_emit *e, const struct kl_command *c, const void **words,
                       int *index) {
    *words = NULL;
    *index = -1;
    if (c->n_guards == 0) return KL_OK;
    if (c->n_guards == 1) {
        *words = c->guards[0].words->device;
        *index = c->guards[0].index;
        return KL_OK;
    }
    void *scratch = NULL; /* two words: a summary that nobody reads, and the merged word */
    KL_TRY(kl_emit_workspace(e, 2 * sizeof(uint32_t), &scratch));
    KL_TRY(kl_emit_fill(e, scratch, sizeof(uint32_t), 2, KL_WORD_CLEAR));
    KL_TRY(kl_emit_merge(e, KL_KARG_PTR(scratch, sizeof(uint32_t)), 1, c->guards, c->n_guards));
    *words = scratch;
    *index = 1;
    return KL_OK;
}

/* ---- what kernels raise ---- */

/* Where a device compares 64 bits at once kernels raise into two fault words. Elsewhere each
 * work-item has two words of the workspace: `at`, n of them. */
struct raised {
    void *at;
    int64_t n;
};

static int room_to_raise(struct kl_emit *e, const struct kl_grid_launch *g, struct raised *r) {
    const int64_t most = INT64_MAX / 64;
    r->n = 1;
    for (int i = 0; i < 3; i++) {
        const int64_t items = (int64_t)g->groups[i] * g->local[i];
        if (items > most / r->n) return kl_fail_nomem(e->err);
        r->n *= items;
    }
    const int64_t n_cleared = RAISED_HEAD + r->n; /* positions without a code mean nothing */
    KL_TRY(kl_emit_workspace(e, (size_t)(n_cleared + r->n) * sizeof(uint32_t), &r->at));
    return kl_emit_fill(e, r->at, sizeof(uint32_t), n_cleared, 0);
}

static int find_raised(struct kl_emit *e, const struct kl_command *c, const struct raised *r) {
    static const char *const entries[] = {"raised_first", "raised_code"};
    int64_t groups = (r->n + LOCAL - 1) / LOCAL;
    if (groups > RAISED_GROUPS) groups = RAISED_GROUPS;
    struct kl_karg args[] = {KL_KARG_PTR(r->at, sizeof(uint32_t)), KL_KARG(r->n),
                             KL_KARG_PTR(c->word.words->device, KL_WORDS_ITEM),
                             KL_KARG(c->word.index)};
    for (int i = 0; i < 2; i++)
        KL_TRY(kl_emit(e, &kl_family_guards, NULL, entries[i], groups, LOCAL, args, 4));
    return KL_OK;
}

/* ---- compiled programs ---- */

/* A kernel that knows no guards gets copies of its inputs where a guard may be set: they are zero
 * then, since what a failed operation leaves may be anything, and the kernel may use it as an
 * index. *data: the address of the copy's first element. */
static int guarded_copy(struct kl_emit *e, const struct kl_arg *a, const void *guard, int guard_at,
                        const void **data) {
    const struct kl_extent from = kl_extent_of(a);
    const int64_t bytes = (int64_t)(from.end - from.begin);
    char *copy = NULL;
    KL_TRY(kl_emit_workspace(e, (size_t)bytes, (void **)&copy));
    struct kl_karg args[] = {KL_KARG_PTR(copy, 1), KL_KARG_PTR((void *)from.begin, 1),
                             KL_KARG(bytes), KL_KARG_PTR(guard, sizeof(uint32_t)),
                             KL_KARG(guard_at)};
    *data = copy ? copy + ((uintptr_t)a->data - from.begin) : NULL;
    return kl_emit(e, &kl_family_guards, NULL, "copy_if_clear", (bytes + LOCAL - 1) / LOCAL, LOCAL,
                   args, 5);
}

static int launch_program(struct kl_emit *e, const struct kl_command *c,
                          const struct kl_kernel_desc *d, const struct kl_grid_launch *g) {
    _Static_assert((int)KL_KERNEL_MAX_PARAMS <= (int)KL_MAX_KARGS, "arguments of one launch");
    struct kl_karg args[KL_KERNEL_MAX_PARAMS];
    const void *data[KL_KERNEL_MAX_ARGS], *guard;
    int n = 0, guard_at;
    KL_TRY(join_guards(e, c, &guard, &guard_at));
    for (; n < c->n_in + c->n_out; n++) {
        const struct kl_arg *a = &c->args[n];
        data[n] = a->data;
        if (n < c->n_in && guard_at >= 0 && a->size > 0)
            KL_TRY(guarded_copy(e, a, guard, guard_at, &data[n]));
        args[n] = KL_KARG(data[n]); /* one parameter, without the offset of the dialect */
    }
    for (int i = 0; i < d->n_scalars; i++)
        args[n++] = (struct kl_karg){d->scalars[i].value, d->scalars[i].bytes, 0};
    return kl_emit_grid(e, g, args, n);
}

int kl_lower_kernel(struct kl_emit *e, const struct kl_command *c) {
    const struct kl_kernel_desc *d = ((const struct kl_kernel_params *)c->params)->desc;
    struct kl_grid_launch g = {
        .name = d->name,
        .source = d->source,
        .entry = d->entry,
        .program_bytes = d->program_bytes,
        .library = kl_source_kernel,
        .bare = d->is_cuda || d->is_metal,
        .local = {(uint32_t)d->group[0], (uint32_t)d->group[1], (uint32_t)d->group[2]},
        .shared_bytes = d->shared_bytes};
    struct kl_karg args[KL_MAX_KARGS];
    struct block block;
    const void *guard;
    int n = 0, guard_at;
    KL_TRY(check_device(e, d, g.groups));
    KL_TRY(fill_outputs(e, c, d));
    if (d->program_bytes) return launch_program(e, c, d, &g);
    KL_TRY(join_guards(e, c, &guard, &guard_at));
    KL_TRY(make_block(e, c, d, guard_at, &block));
    for (int i = 0; i < c->n_in + c->n_out; i++)
        args[n++] = KL_KARG_PTR(c->args[i].data, kl_dtype_size(c->args[i].dtype));
    args[n++] = KL_KARG_PTR(guard, sizeof(uint32_t));
    struct raised raised = {NULL, 0};
    const bool apart = d->raises && !e->driver->has_atomic64;
    if (apart) KL_TRY(room_to_raise(e, &g, &raised));
    if (apart)
        args[n++] = KL_KARG_PTR(raised.at, sizeof(uint32_t));
    else if (d->raises)
        args[n++] = KL_KARG_PTR(c->word.words->device, KL_WORDS_ITEM);
    args[n++] = (struct kl_karg){block.v, block.bytes, 0};
    KL_TRY(kl_emit_grid(e, &g, args, n));
    return apart ? find_raised(e, c, &raised) : KL_OK;
}
