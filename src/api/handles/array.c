/* array.c - mlx/c/array.h: making arrays and reading their properties. Reading elements is in
 * api/handles/array_data.c, printing in api/handles/tostring.c. */
#include <keel/array.h>

#include "api/handles/handles.h"
#include "graph/trace.h"

#define KL_DTYPE(ID, mlx, ...) _Static_assert((int)mlx == (int)KL_##ID, "one number");
#include "base/number/dtype.def"

size_t mlx_dtype_size(mlx_dtype dtype) {
    if (kl_dtype_valid((int)dtype)) return kl_dtype_size((enum kl_dtype)dtype);
    struct kl_call c = {.func = __func__};
    kl_fail(&c.err, KL_EDTYPE, "%d is no dtype", (int)dtype);
    kl_call_end_plain(&c);
    return 0;
}

/* ---- handles ---- */
mlx_array mlx_array_new(void) {
    return (mlx_array){NULL};
}

int mlx_array_free(mlx_array arr) {
    kl_array_box_free(arr.ctx);
    return 0;
}

int mlx_array_set(mlx_array *arr, const mlx_array src) {
    struct kl_call c = kl_call_begin(__func__, arr);
    struct kl_array *a = kl_in(&c, src, "src");
    return kl_call_end(&c, arr, c.err ? NULL : kl_array_retain(a));
}

/* ---- arrays from values ---- */
static mlx_array new_scalar(const char *func, const void *value, enum kl_dtype dtype) {
    struct kl_call c = {.func = func};
    struct kl_array *out = NULL;
    kl_array_new_data(&out, value, dtype, 0, NULL, &c.err);
    return (mlx_array){kl_call_end_new_array(&c, out)};
}

static int set_scalar(const char *func, mlx_array *arr, const void *value, enum kl_dtype dtype) {
    struct kl_call c = kl_call_begin(func, arr);
    struct kl_array *out = NULL;
    if (!c.err) kl_array_new_data(&out, value, dtype, 0, NULL, &c.err);
    return kl_call_end(&c, arr, out);
}

mlx_array mlx_array_new_bool(bool val) {
    return new_scalar(__func__, &(uint8_t){val}, KL_BOOL);
}

mlx_array mlx_array_new_int(int val) {
    return new_scalar(__func__, &(int32_t){val}, KL_I32);
}

mlx_array mlx_array_new_float32(float val) {
    return new_scalar(__func__, &val, KL_F32);
}

mlx_array mlx_array_new_float(float val) {
    return new_scalar(__func__, &val, KL_F32);
}

mlx_array mlx_array_new_float64(double val) {
    return new_scalar(__func__, &val, KL_F64);
}

mlx_array mlx_array_new_double(double val) {
    return new_scalar(__func__, &val, KL_F64);
}

mlx_array mlx_array_new_complex(float real_val, float imag_val) {
    return new_scalar(__func__, (float[]){real_val, imag_val}, KL_C64);
}

int mlx_array_set_bool(mlx_array *arr, bool val) {
    return set_scalar(__func__, arr, &(uint8_t){val}, KL_BOOL);
}

int mlx_array_set_int(mlx_array *arr, int val) {
    return set_scalar(__func__, arr, &(int32_t){val}, KL_I32);
}

int mlx_array_set_float32(mlx_array *arr, float val) {
    return set_scalar(__func__, arr, &val, KL_F32);
}

int mlx_array_set_float(mlx_array *arr, float val) {
    return set_scalar(__func__, arr, &val, KL_F32);
}

int mlx_array_set_float64(mlx_array *arr, double val) {
    return set_scalar(__func__, arr, &val, KL_F64);
}

int mlx_array_set_double(mlx_array *arr, double val) {
    return set_scalar(__func__, arr, &val, KL_F64);
}

int mlx_array_set_complex(mlx_array *arr, float real_val, float imag_val) {
    return set_scalar(__func__, arr, (float[]){real_val, imag_val}, KL_C64);
}

/* ---- arrays from memory ---- */
/* Checks everything that the caller says about the memory. */
static void check_data(struct kl_call *c, const void *data, const int *shape, int dim,
                       mlx_dtype dtype) {
    int64_t size = 1;
    if (!kl_dtype_valid((int)dtype)) {
        kl_fail(&c->err, KL_EDTYPE, "%d is no dtype", (int)dtype);
        return;
    }
    if (dim < 0) kl_fail(&c->err, KL_EARG, "the number of axes is %d", dim);
    if (dim > 0 && !shape) kl_fail(&c->err, KL_EARG, "shape is NULL and dim is %d", dim);
    for (int i = 0; !c->err && i < dim; i++)
        if (shape[i] < 0) kl_fail(&c->err, KL_ESHAPE, "extent %d of the shape is %d", i, shape[i]);
    if (c->err) return;
    if (!kl_shape_size(dim, shape, kl_dtype_size((enum kl_dtype)dtype), &size))
        kl_fail(&c->err, KL_ELIMIT, "the shape has too many elements");
    else if (size > 0 && !data)
        kl_fail(&c->err, KL_EARG, "data is NULL and the shape has %lld elements", (long long)size);
}

/* kl_array_new_data takes NULL as "uninitialised". An array without elements needs a non-NULL
 * address, which is never read. */
static const void *some_address(const void *data) {
    return data ? data : "";
}

mlx_array mlx_array_new_data(const void *data, const int *shape, int dim, mlx_dtype dtype) {
    struct kl_call c = {.func = __func__};
    struct kl_array *out = NULL;
    check_data(&c, data, shape, dim, dtype);
    if (!c.err)
        kl_array_new_data(&out, some_address(data), (enum kl_dtype)dtype, dim, shape, &c.err);
    return (mlx_array){kl_call_end_new_array(&c, out)};
}

int mlx_array_set_data(mlx_array *arr, const void *data, const int *shape, int dim,
                       mlx_dtype dtype) {
    struct kl_call c = kl_call_begin(__func__, arr);
    struct kl_array *out = NULL;
    check_data(&c, data, shape, dim, dtype);
    if (!c.err)
        kl_array_new_data(&out, some_address(data), (enum kl_dtype)dtype, dim, shape, &c.err);
    return kl_call_end(&c, arr, out);
}

/* The box is made first: once the array owns the memory, releasing the array would call dtor, but
 * after a failed call the caller still owns the memory. */
static mlx_array new_managed(const char *func, void *data, const int *shape, int dim,
                             mlx_dtype dtype, void *payload, void (*dtor)(void *)) {
    struct kl_call c = {.func = func};
    check_data(&c, data, shape, dim, dtype);
    struct kl_array_box *box = c.err ? NULL : kl_array_box_new(NULL, &c.err);
    if (!c.err)
        kl_array_new_user(&box->array, data, (enum kl_dtype)dtype, dim, shape, payload, dtor,
                          &c.err);
    if (c.err) {
        kl_array_box_free(box);
        box = NULL;
    }
    kl_call_end_plain(&c);
    return (mlx_array){box};
}

mlx_array mlx_array_new_data_managed(void *data, const int *shape, int dim, mlx_dtype dtype,
                                     void (*dtor)(void *)) {
    return new_managed(__func__, data, shape, dim, dtype, data, dtor);
}

mlx_array mlx_array_new_data_managed_payload(void *data, const int *shape, int dim, mlx_dtype dtype,
                                             void *payload, void (*dtor)(void *)) {
    return new_managed(__func__, data, shape, dim, dtype, payload, dtor);
}

/* ---- facts about an array ---- */
/* The array's tensor. For an empty handle it is NULL, and the error is raised. */
static const struct kl_tensor *tensor_of(const char *func, mlx_array arr) {
    struct kl_call c = {.func = func};
    struct kl_array *a = kl_in(&c, arr, "arr");
    kl_call_end_plain(&c);
    return a ? &a->t : NULL;
}

size_t mlx_array_itemsize(const mlx_array arr) {
    const struct kl_tensor *t = tensor_of(__func__, arr);
    return t ? kl_dtype_size((enum kl_dtype)t->dtype) : 0;
}

/* The same for functions that tell extents: a trace for any shapes notes what was seen. */
static const struct kl_tensor *read_tensor(const char *func, mlx_array arr) {
    struct kl_call c = {.func = func};
    struct kl_array *a = kl_in(&c, arr, "arr");
    kl_call_end_plain(&c);
    if (a && a->shapeless) kl_trace_note_read(a, KL_ALL_AXES);
    return a ? &a->t : NULL;
}

size_t mlx_array_size(const mlx_array arr) {
    const struct kl_tensor *t = read_tensor(__func__, arr);
    return t ? (size_t)t->size : 0;
}

size_t mlx_array_nbytes(const mlx_array arr) {
    const struct kl_tensor *t = read_tensor(__func__, arr);
    return t ? (size_t)t->size * kl_dtype_size((enum kl_dtype)t->dtype) : 0;
}

size_t mlx_array_ndim(const mlx_array arr) {
    const struct kl_tensor *t = tensor_of(__func__, arr);
    return t ? (size_t)t->ndim : 0;
}

const int *mlx_array_shape(const mlx_array arr) {
    const struct kl_tensor *t = read_tensor(__func__, arr);
    return t ? t->dims : NULL;
}

const int *keel_array_shape_unread(const mlx_array arr) {
    const struct kl_array *a = kl_in_optional(arr);
    return a ? a->t.dims : NULL;
}

bool keel_array_is_shapeless(const mlx_array arr) {
    return kl_is_shapeless(kl_in_optional(arr));
}

const size_t *mlx_array_strides(const mlx_array arr) {
    _Static_assert(sizeof(size_t) == sizeof(int64_t), "strides are handed out as they lie");
    const struct kl_tensor *t = read_tensor(__func__, arr);
    return t ? (const size_t *)t->strides : NULL;
}

int mlx_array_dim(const mlx_array arr, int dim) {
    struct kl_call c = {.func = __func__};
    struct kl_array *a = kl_in(&c, arr, "arr");
    int n = a ? a->t.ndim : 0;
    if (a && (dim < -n || dim >= n))
        kl_fail_axis(&c.err, dim, "axis %d is out of range for an array with %d axes", dim, n);
    if (kl_call_end_plain(&c)) return 0;
    if (dim < 0) dim += n;
    if (a->shapeless) kl_trace_note_read(a, dim);
    return a->t.dims[dim];
}

mlx_dtype mlx_array_dtype(const mlx_array arr) {
    const struct kl_tensor *t = tensor_of(__func__, arr);
    return t ? (mlx_dtype)t->dtype : (mlx_dtype)0;
}

/* ---- functions for language bindings ---- */
static int layout_has(const char *func, bool *res, mlx_array arr, unsigned flag) {
    struct kl_call c = kl_call_begin(func, res);
    struct kl_array *a = kl_in(&c, arr, "arr");
    if (!c.err) *res = (a->t.layout & flag) != 0;
    return kl_call_end_plain(&c);
}

int _mlx_array_is_contiguous(bool *res, const mlx_array arr) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *a = kl_in(&c, arr, "arr");
    if (!c.err) *res = kl_fills_memory(&a->t);
    return kl_call_end_plain(&c);
}

int _mlx_array_is_row_contiguous(bool *res, const mlx_array arr) {
    return layout_has(__func__, res, arr, KL_ROW_CONTIGUOUS);
}

int _mlx_array_is_col_contiguous(bool *res, const mlx_array arr) {
    return layout_has(__func__, res, arr, KL_COL_CONTIGUOUS);
}

int _mlx_array_is_available(bool *res, const mlx_array arr) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *a = kl_in(&c, arr, "arr");
    if (!c.err) *res = kl_array_settled(a);
    return kl_call_end_plain(&c);
}
