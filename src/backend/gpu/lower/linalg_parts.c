/* linalg_parts.c - see linalg.h. */
#include "backend/gpu/lower/linalg.h"

#include "backend/gpu/lower/axes.h"
#include "backend/gpu/lower/kernels.h"
#include "base/number/dtype.h"

const struct kl_family kl_family_linalg_parts = {
    .name = "linalg_parts", .source = kl_source_linalg_parts, .defines = {"T:TYPE"}};

enum { LOCAL = 256 };

/* The type of the numbers of which elements are made. */
static int number_of(enum kl_dtype dtype) {
    return dtype == KL_F64 ? KL_F64 : KL_F32;
}

static size_t size_of(enum kl_dtype dtype) {
    return kl_dtype_size((enum kl_dtype)number_of(dtype));
}

static int emit(struct kl_emit *e, enum kl_dtype dtype, const char *entry, int64_t groups,
                const struct kl_karg *args, int n_args) {
    const int values[] = {number_of(dtype)};
    return kl_emit(e, &kl_family_linalg_parts, values, entry, groups, kl_local_size(e, LOCAL), args,
                   n_args);
}

static int64_t groups_of(const struct kl_emit *e, int64_t n) {
    return kl_groups_for(n, kl_local_size(e, LOCAL));
}

struct kl_matrix_range kl_matrix_range_of(const struct kl_command *c) {
    const struct kl_arg *a = &c->args[0];
    const int64_t each = KL_MATRIX_POSITIONS;
    struct kl_matrix_range r = {.end = 1};
    for (int i = 0; i < a->ndim - 2; i++) r.end *= a->dims[i];
    if (!(kl_op_flags(c->op) & KL_OPF_CHECKED)) return r;
    if (c->pos_end < each * r.end) r.end = kl_groups_for(c->pos_end, each);
    r.begin = kl_groups_for(c->pos_begin, each);
    r.origin = c->pos_begin;
    return r;
}

char *kl_matrix_at(const struct kl_arg *a, int64_t matrix) {
    int64_t at = 0;
    for (int d = a->ndim - 3; d >= 0; d--) {
        at += matrix % a->dims[d] * a->strides[d];
        matrix /= a->dims[d];
    }
    return (char *)a->data + at * (int64_t)kl_dtype_size((enum kl_dtype)a->dtype);
}

int kl_matrix_look(struct kl_emit *e, enum kl_dtype dtype, void *a, int m, int n,
                   enum kl_triangle which, void *flags, int64_t at) {
    const int64_t count = (int64_t)m * n, columns = n;
    const int32_t parts = dtype == KL_C64 ? 2 : 1, part = (int32_t)which;
    const int64_t numbers = count * parts;
    const struct kl_karg args[] = {KL_KARG_PTR(a, size_of(dtype)),
                                   KL_KARG_PTR(flags, sizeof(uint32_t)),
                                   KL_KARG(at),
                                   KL_KARG(count),
                                   KL_KARG(columns),
                                   KL_KARG(parts),
                                   KL_KARG(part)};
    const struct kl_karg all[] = {args[0], args[1], args[2], KL_KARG(numbers)};
    KL_TRY(emit(e, dtype, "look", groups_of(e, count), args, sizeof args / sizeof *args));
    return emit(e, dtype, "clear_flagged", groups_of(e, numbers), all, sizeof all / sizeof *all);
}

int kl_matrix_diagonal(struct kl_emit *e, enum kl_dtype dtype, const void *a, int n, bool fresh,
                       void *infos, int64_t at) {
    const int64_t count = n, step = (int64_t)n + 1;
    const int32_t anew = fresh;
    const struct kl_karg args[] = {KL_KARG_PTR(a, size_of(dtype)),
                                   KL_KARG_PTR(infos, sizeof(uint32_t)),
                                   KL_KARG(at),
                                   KL_KARG(count),
                                   KL_KARG(step),
                                   KL_KARG(anew)};
    return emit(e, dtype, "look_at_diagonal", 1, args, sizeof args / sizeof *args);
}

int kl_matrix_triangle(struct kl_emit *e, enum kl_dtype dtype, void *a, int m, int n,
                       enum kl_triangle which, void *infos, int64_t at) {
    const int64_t count = (int64_t)m * n, columns = n;
    const int32_t upper = which == KL_UPPER, positive = infos != NULL;
    const struct kl_karg args[] = {KL_KARG_PTR(a, size_of(dtype)),
                                   KL_KARG_PTR(infos ? infos : a, sizeof(uint32_t)),
                                   KL_KARG(at),
                                   KL_KARG(count),
                                   KL_KARG(columns),
                                   KL_KARG(upper),
                                   KL_KARG(positive)};
    return emit(e, dtype, "clear_triangle", groups_of(e, count), args, sizeof args / sizeof *args);
}

int kl_matrix_places(struct kl_emit *e, enum kl_dtype dtype, const void *exchanges, void *out,
                     int m, int k) {
    const int64_t rows = m, count = k;
    const struct kl_karg args[] = {KL_KARG_PTR(exchanges, sizeof(int64_t)),
                                   KL_KARG_PTR(out, size_of(dtype)), KL_KARG(rows), KL_KARG(count)};
    return emit(e, dtype, "places", groups_of(e, rows), args, sizeof args / sizeof *args);
}

int kl_matrix_permute(struct kl_emit *e, enum kl_dtype dtype, const void *places, const void *b,
                      const int64_t *strides, int m, int columns, void *to) {
    const size_t item = size_of(dtype);
    const int64_t rows = m, wide = columns, down = b ? strides[0] : 0, along = b ? strides[1] : 0;
    const int32_t identity = !b;
    const struct kl_karg args[] = {KL_KARG_PTR(places, item),
                                   KL_KARG_PTR(b ? b : places, item),
                                   KL_KARG_PTR(to, item),
                                   KL_KARG(rows),
                                   KL_KARG(wide),
                                   KL_KARG(down),
                                   KL_KARG(along),
                                   KL_KARG(identity)};
    return emit(e, dtype, "permute", groups_of(e, rows * wide), args, sizeof args / sizeof *args);
}

int kl_matrix_widen(struct kl_emit *e, const void *from, void *to, int n) {
    const int64_t count = n;
    const struct kl_karg args[] = {KL_KARG_PTR(from, sizeof(float)),
                                   KL_KARG_PTR(to, kl_dtype_size(KL_C64)), KL_KARG(count)};
    return emit(e, KL_F32, "widen", groups_of(e, count), args, sizeof args / sizeof *args);
}

int kl_matrix_adjoint(struct kl_emit *e, const void *from, void *to, int n) {
    const int64_t rows = n;
    const size_t item = kl_dtype_size(KL_C64);
    const struct kl_karg args[] = {KL_KARG_PTR(from, item), KL_KARG_PTR(to, item), KL_KARG(rows)};
    return emit(e, KL_F32, "adjoint", groups_of(e, rows * rows), args, sizeof args / sizeof *args);
}

int kl_matrix_pseudoinverse(struct kl_emit *e, enum kl_dtype dtype, const void *u, const void *s,
                            const void *vt, void *out, int m, int n, bool by_columns) {
    const int64_t rows = m, columns = n, k = m < n ? m : n;
    const size_t item = size_of(dtype);
    const double eps = dtype == KL_F64 ? 0x1p-52 : 0x1p-23;
    const float least = (float)(10 * eps * (m > n ? m : n));
    const int32_t order = by_columns;
    const struct kl_karg args[] = {KL_KARG_PTR(u, item),
                                   KL_KARG_PTR(s, item),
                                   KL_KARG_PTR(vt, item),
                                   KL_KARG_PTR(out, item),
                                   KL_KARG(rows),
                                   KL_KARG(columns),
                                   KL_KARG(k),
                                   KL_KARG(least),
                                   KL_KARG(order)};
    return emit(e, dtype, "pseudoinverse", groups_of(e, rows * columns), args,
                sizeof args / sizeof *args);
}

int kl_matrix_judge(struct kl_emit *e, const struct kl_command *c, const void *infos,
                    const void *flags) {
    const struct kl_arg *out = &c->args[c->n_in];
    const struct kl_fault_args f = kl_fault_args(c);
    const struct kl_matrix_range r = kl_matrix_range_of(c);
    const int32_t word = f.checked ? c->word.index : -1;
    int64_t batch = 1;
    for (int i = 0; i < c->args[0].ndim - 2; i++) batch *= c->args[0].dims[i];
    const int64_t each =
        out->size / batch * (int64_t)(kl_dtype_size((enum kl_dtype)out->dtype) / sizeof(uint32_t));
    const struct kl_karg args[] = {KL_KARG_PTR(infos, sizeof(uint32_t)),
                                   KL_KARG_PTR(flags, sizeof(uint32_t)),
                                   KL_KARG_PTR(out->data, sizeof(uint32_t)),
                                   f.ptr,
                                   KL_KARG(word),
                                   KL_KARG(r.begin),
                                   KL_KARG(r.origin),
                                   KL_KARG(each)};
    return emit(e, KL_F32, "judge", r.end - r.begin, args, sizeof args / sizeof *args);
}
