/* values_buffer.c - arrays of objects with a buffer, and checks of numbers that others give */
#include "keel_python.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static int dtype_of_format(const char *f, Py_ssize_t itemsize, mlx_dtype *out, mlx_dtype *shown) {
    if (*f == '@' || *f == '=' || *f == '<' || *f == '|') f++;
    mlx_dtype d;
    if (!strcmp(f, "?"))
        d = MLX_BOOL;
    else if (!strcmp(f, "e"))
        d = MLX_FLOAT16;
    else if (!strcmp(f, "f"))
        d = MLX_FLOAT32;
    else if (!strcmp(f, "d"))
        d = MLX_FLOAT64;
    else if (!strcmp(f, "Zf"))
        d = MLX_COMPLEX64;
    else if (strlen(f) == 1 && strchr("bhilqn", *f))
        d = itemsize == 1   ? MLX_INT8
            : itemsize == 2 ? MLX_INT16
            : itemsize == 4 ? MLX_INT32
                            : MLX_INT64;
    else if (strlen(f) == 1 && strchr("BHILQN", *f))
        d = itemsize == 1   ? MLX_UINT8
            : itemsize == 2 ? MLX_UINT16
            : itemsize == 4 ? MLX_UINT32
                            : MLX_UINT64;
    else
        return -1;
    *out = d;
    *shown = d == MLX_FLOAT64 ? MLX_FLOAT32 : d;
    return (size_t)itemsize == mlx_dtype_size(d) ? 0 : -1;
}

bool kp_count(const int64_t *extents, int ndim, size_t itemsize, size_t *n) {
    size_t count = 1, bytes = itemsize;
    for (int i = 0; i < ndim; i++) {
        if (extents[i] < 0) return false;
        if (!extents[i]) {
            *n = 0;
            return true; /* whatever the other extents are */
        }
    }
    for (int i = 0; i < ndim; i++)
        if (__builtin_mul_overflow(bytes, (size_t)extents[i], &bytes) || bytes > PTRDIFF_MAX)
            return false;
    for (int i = 0; i < ndim; i++) count *= (size_t)extents[i];
    *n = count;
    return true;
}

int kp_extents(int *shape, const int64_t *extents, int ndim) {
    for (int i = 0; i < ndim; i++) {
        if (extents[i] < 0 || extents[i] > INT_MAX) {
            PyErr_Format(extents[i] < 0 ? PyExc_ValueError : PyExc_OverflowError,
                         "an axis has %lld elements; 0 to %d are possible", (long long)extents[i],
                         INT_MAX);
            return -1;
        }
        shape[i] = (int)extents[i];
    }
    return 0;
}

bool kp_bools_are_plain(const char *data, size_t n) {
    uint64_t all = 0;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) { /* a byte at a time takes eight times as long */
        uint64_t word;
        memcpy(&word, data + i, 8);
        all |= word;
    }
    for (; i < n; i++) all |= (unsigned char)data[i];
    return (all & UINT64_C(0xfefefefefefefefe)) == 0;
}

void kp_normalise_bools(char *data, size_t n) {
    for (size_t i = 0; i < n; i++) data[i] = data[i] != 0;
}

/* rows x cols elements of any strides, row-major: in squares, so that each cache line is read while
 * it is in the cache, in whichever order memory has the elements. */
static void gather_rows(char *to, const char *from, Py_ssize_t item, Py_ssize_t rows,
                        Py_ssize_t cols, Py_ssize_t row, Py_ssize_t col) {
    enum { SIDE = 32 };
#define GATHER(BYTES)                        \
    for (Py_ssize_t r = r0; r < r1; r++)     \
        for (Py_ssize_t c = c0; c < c1; c++) \
    memcpy(to + (r * cols + c) * item, from + r * row + c * col, (size_t)(BYTES))
    for (Py_ssize_t r0 = 0; r0 < rows; r0 += SIDE)
        for (Py_ssize_t c0 = 0; c0 < cols; c0 += SIDE) {
            const Py_ssize_t r1 = r0 + SIDE < rows ? r0 + SIDE : rows;
            const Py_ssize_t c1 = c0 + SIDE < cols ? c0 + SIDE : cols;
            switch (item) {
            case 1: GATHER(1); break;
            case 2: GATHER(2); break;
            case 4: GATHER(4); break;
            case 8: GATHER(8); break;
            default: GATHER(item); break;
            }
        }
#undef GATHER
}

/* Takes the elements of a view in row-major order. */
static void gather_view(char **to, const char *from, const Py_buffer *v, int axis) {
    const int left = v->ndim - axis;
    if (left <= 2) {
        const Py_ssize_t rows = left == 2 ? v->shape[axis] : 1;
        const Py_ssize_t cols = left ? v->shape[v->ndim - 1] : 1;
        gather_rows(*to, from, v->itemsize, rows, cols, left == 2 ? v->strides[axis] : 0,
                    left ? v->strides[v->ndim - 1] : 0);
        *to += rows * cols * v->itemsize;
        return;
    }
    for (Py_ssize_t i = 0; i < v->shape[axis]; i++)
        gather_view(to, from + i * v->strides[axis], v, axis + 1);
}

/* n float64 as float32; both may be at the same address, which is aligned to nothing. */
static void narrow_doubles(char *to, const char *from, size_t n) {
    for (size_t i = 0; i < n; i++) {
        double d;
        memcpy(&d, from + 8 * i, 8);
        memcpy(to + 4 * i, &(float){(float)d}, 4);
    }
}

/* A copy of elements held as `held`, cast to `to`. */
static int array_as(mlx_array *out, const void *data, const int *shape, int ndim, mlx_dtype held,
                    mlx_dtype to) {
    mlx_array a = mlx_array_new_data(data, shape, ndim, held);
    if (!a.ctx) return kp_check(1);
    const int rc = to == held ? 0 : kp_constant(&a, a, to);
    *out = a;
    return rc;
}

/* The elements of a view as an array; the view stays the caller's. */
static int view_array(mlx_array *out, const Py_buffer *v, const mlx_dtype *dtype) {
    int shape[KP_MAX_NESTING], rc = -1;
    int64_t extents[KP_MAX_NESTING];
    size_t n;
    mlx_dtype held = MLX_UINT8, shown = MLX_UINT8;
    const char *format = v->format ? v->format : "B";
    bool double_complex = v->itemsize == 16 && (!strcmp(format, "Zd") || !strcmp(format, "<Zd") ||
                                                !strcmp(format, "=Zd"));
    if (v->ndim > KP_MAX_NESTING ||
        (!double_complex && dtype_of_format(format, v->itemsize, &held, &shown))) {
        PyErr_Format(PyExc_ValueError,
                     "no dtype has the buffer format '%s' of %zd bytes and %d axes", format,
                     v->itemsize, v->ndim);
        return -1;
    }
    for (int i = 0; i < v->ndim; i++) extents[i] = v->shape[i];
    if (kp_extents(shape, extents, v->ndim)) return -1;
    if (!kp_count(extents, v->ndim, (size_t)v->itemsize, &n)) {
        PyErr_NoMemory();
        return -1;
    }
    const mlx_dtype to = dtype ? *dtype : double_complex ? MLX_COMPLEX64 : shown;
    const bool contiguous = PyBuffer_IsContiguous(v, 'C');
    const bool narrows = held == MLX_FLOAT64 && to == MLX_FLOAT32;
    if (contiguous && !double_complex && !narrows &&
        (held != MLX_BOOL || kp_bools_are_plain(v->buf, n))) /* the usual case needs no copy here */
        return array_as(out, n ? v->buf : "", shape, v->ndim, held, to);
    char *data = malloc(n * (size_t)v->itemsize + 1), *at = data;
    if (!data) {
        PyErr_NoMemory();
        return -1;
    }
    const bool doubles = double_complex || narrows, in_place = contiguous && doubles;
    if (contiguous && !doubles)
        memcpy(data, v->buf, n * (size_t)v->itemsize);
    else if (!contiguous && n)
        gather_view(&at, v->buf, v, 0);
    if (doubles) { /* complex128 becomes complex64, and float64 float32 */
        narrow_doubles(data, in_place ? v->buf : data, double_complex ? 2 * n : n);
        held = double_complex ? MLX_COMPLEX64 : MLX_FLOAT32;
    }
    if (held == MLX_BOOL) kp_normalise_bools(data, n);
    rc = array_as(out, data, shape, v->ndim, held, to);
    free(data);
    return rc;
}

int kp_buffer_to_array(mlx_array *out, PyObject *o, const mlx_dtype *dtype) {
    Py_buffer v;
    if (PyObject_GetBuffer(o, &v, PyBUF_RECORDS_RO)) return -1;
    int rc = view_array(out, &v, dtype);
    /* Releasing may call code of Python, which must not see the exception, nor lose it. */
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyBuffer_Release(&v);
    PyErr_Restore(type, value, trace);
    return rc;
}
