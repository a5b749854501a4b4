/* tile.c - cursors; see tile.h. Conversions are in convert.c. */
#include "backend/cpu/operand/tile.h"

#include <string.h>

enum {
    SHORT_ROW =
        16, /* elements of rows that lie apart: shorter ones are not copied by a call each */
    SHORT_COPY = 256 /* bytes; the same for rows of neighbouring elements */
};

/* Elements of any dtype and of any alignment. */
typedef uint8_t any_1 __attribute__((may_alias));
typedef uint16_t any_2 __attribute__((may_alias, aligned(1)));
typedef uint32_t any_4 __attribute__((may_alias, aligned(1)));
typedef uint64_t any_8 __attribute__((may_alias, aligned(1)));

void kl_cursor_init(struct kl_cursor *c, void *data, int item_bytes, int ndim, const int *dims,
                    const int64_t *strides) {
    int n = 0;
    for (int i = 0; i < ndim; i++) {
        if (dims[i] == 1) continue;
        int64_t step = strides[i] * item_bytes;
        if (n && c->strides[n - 1] == step * dims[i]) {
            c->dims[n - 1] *= dims[i];
            c->strides[n - 1] = step;
        } else if (n < KL_LONG_AXES) {
            c->dims[n] = dims[i];
            c->strides[n] = step;
            n++;
        }
    }
    if (n == 1 && c->strides[0] == 0) n = 0;
    c->data = c->next = data;
    c->item_bytes = item_bytes;
    c->ndim = n;
    c->filled = 0;
    for (int i = 0; i < n; i++) c->at[i] = 0;
}

void kl_cursor_init_arg(struct kl_cursor *c, const struct kl_arg *a) {
    int bytes = (int)kl_dtype_size(a->dtype);
    if (a->layout & KL_ROW_CONTIGUOUS) {
        c->data = c->next = a->data;
        c->item_bytes = bytes;
        c->ndim = a->size == 1 ? 0 : 1;
        c->filled = 0;
        c->dims[0] = a->size;
        c->strides[0] = bytes;
        c->at[0] = 0;
        return;
    }
    kl_cursor_init(c, a->data, bytes, a->ndim, a->dims, a->strides);
}

void kl_cursor_seek(struct kl_cursor *c, int64_t pos) {
    c->next = c->data;
    c->filled = 0;
    for (int i = c->ndim - 1; i >= 0; i--) {
        int64_t q = pos / c->dims[i];
        c->at[i] = pos - q * c->dims[i];
        c->next += c->at[i] * c->strides[i];
        pos = q;
    }
}

/* Moves the cursor n elements forward; they do not cross the end of the last axis. */
static inline void advance(struct kl_cursor *c, int64_t n) {
    int i = c->ndim - 1;
    c->at[i] += n;
    c->next += n * c->strides[i];
    while (c->at[i] == c->dims[i] && i > 0) {
        c->at[i] = 0;
        c->next += c->strides[i - 1] - c->dims[i] * c->strides[i];
        i--;
        c->at[i]++;
    }
}

/* Eight bytes of copies of an element. */
static inline uint64_t eight_of(int item, const void *from) {
    return item == 1   ? *(const any_1 *)from * UINT64_C(0x0101010101010101)
           : item == 2 ? *(const any_2 *)from * UINT64_C(0x0001000100010001)
           : item == 4 ? *(const any_4 *)from * UINT64_C(0x0000000100000001)
                       : *(const any_8 *)from;
}

/* n copies of one element, side by side. */
static void repeat(int item, int64_t n, void *to, const void *from) {
    if (item == 1) {
        memset(to, *(const any_1 *)from, (size_t)n);
        return;
    }
    const uint64_t eight = eight_of(item, from);
    const int64_t bytes = n * item, whole = bytes / 8;
    any_8 *dst = to;
    KL_EACH(i, whole) dst[i] = eight;
    if (bytes & 4) memcpy((char *)to + 8 * whole, &eight, 4);
    if (bytes & 2) memcpy((char *)to + bytes - 2, &eight, 2);
}

/* n elements from the last to the first; from is the address of the last one. */
static void reverse(int item, int64_t n, void *to, const void *from) {
#define REVERSE(T)                      \
    do {                                \
        T *dst = to;                    \
        const T *src = from;            \
        KL_EACH(i, n) dst[i] = src[-i]; \
    } while (0)
    switch (item) {
    case 1: REVERSE(any_1); break;
    case 2: REVERSE(any_2); break;
    case 4: REVERSE(any_4); break;
    default: REVERSE(any_8); break;
    }
#undef REVERSE
}

/* n elements of which each has one after it that is left out: the compiler makes shuffles of whole
 * vectors, where single loads would take longer. */
static void every_second(int item, int64_t n, void *to, const void *from) {
#define EVERY_SECOND(T)                    \
    do {                                   \
        T *dst = to;                       \
        const T *src = from;               \
        KL_EACH(i, n) dst[i] = src[2 * i]; \
    } while (0)
    switch (item) {
    case 1: EVERY_SECOND(any_1); break;
    case 2: EVERY_SECOND(any_2); break;
    case 4: EVERY_SECOND(any_4); break;
    default: EVERY_SECOND(any_8); break;
    }
#undef EVERY_SECOND
}

void kl_interleave(int item, int64_t n, void *to, const void *even, const void *odd) {
#define INTERLEAVE(T)                \
    do {                             \
        T *dst = to;                 \
        const T *a = even, *b = odd; \
        KL_EACH(i, n) {              \
            dst[2 * i] = a[i];       \
            dst[2 * i + 1] = b[i];   \
        }                            \
    } while (0)
    switch (item) {
    case 1: INTERLEAVE(any_1); break;
    case 2: INTERLEAVE(any_2); break;
    case 4: INTERLEAVE(any_4); break;
    default: INTERLEAVE(any_8); break;
    }
#undef INTERLEAVE
}

void kl_copy_rows(int64_t rows, int64_t bytes, void *to, int64_t to_step, const void *from,
                  int64_t from_step) {
    char *dst = to;
    const char *src = from;
    /* The first SIZE bytes of a row and the last SIZE bytes, which may overlap, are all of it. */
#define ENDS(SIZE)                                                         \
    for (int64_t r = 0; r < rows; r++, src += from_step, dst += to_step) { \
        struct {                                                           \
            char room[SIZE];                                               \
        } first, last;                                                     \
        memcpy(&first, src, SIZE);                                         \
        memcpy(&last, src + bytes - SIZE, SIZE);                           \
        memcpy(dst, &first, SIZE);                                         \
        memcpy(dst + bytes - SIZE, &last, SIZE);                           \
    }
    if (bytes > 64 || bytes < 2)
        for (int64_t r = 0; r < rows; r++)
            memcpy(dst + r * to_step, src + r * from_step, (size_t)bytes);
    else if (bytes > 32)
        ENDS(32)
    else if (bytes > 16)
        ENDS(16)
    else if (bytes >= 8)
        ENDS(8)
    else if (bytes >= 4)
        ENDS(4)
    else
        ENDS(2)
#undef ENDS
}

/* `rows` neighbouring elements, each `copies` times, more than once. */
static void repeat_each(int item, int64_t rows, int64_t copies, void *to, const void *from) {
    if (copies == 2) {
        kl_interleave(item, rows, to, from, from);
        return;
    }
    const int64_t step = copies * item;
    char *dst = to;
    const char *src = from;
    /* Eight bytes may reach into the next elements, which are written afterwards. */
    for (; rows > 1 + 7 / step; rows--, src += item, dst += step) {
        const uint64_t eight = eight_of(item, src);
        for (int64_t at = 0; at < step; at += 8) *(any_8 *)(dst + at) = eight;
    }
    for (; rows > 0; rows--, src += item, dst += step) kl_copy_run(item, copies, dst, item, src, 0);
}

/* rows x cols elements, row by row; steps in bytes. A row may be too short for a call. */
static void copy_rows(int item, int64_t rows, int64_t cols, void *to, const void *from,
                      int64_t row_step, int64_t col_step) {
    if (row_step == item && col_step == 0) {
        repeat_each(item, rows, cols, to, from);
        return;
    }
    if (col_step == item) {
        kl_copy_rows(rows, cols * item, to, cols * item, from, row_step);
        return;
    }
    char *dst = to;
    const char *src = from;
#define ROWS(BYTES)                                     \
    for (int64_t r = 0; r < rows; r++, src += row_step) \
        for (int64_t c = 0; c < cols; c++, dst += BYTES) memcpy(dst, src + c * col_step, BYTES)
    switch (item) {
    case 1: ROWS(1); break;
    case 2: ROWS(2); break;
    case 4: ROWS(4); break;
    default: ROWS(8); break;
    }
#undef ROWS
}

void kl_copy_run(int item, int64_t n, void *to, int64_t dst_step, const void *from,
                 int64_t src_step) {
    char *dst = to;
    const char *src = from;
    if (n == 0) return; /* an operand without elements may have no address */
    if (dst_step == item && src_step == item) {
        memcpy(dst, src, (size_t)n * (size_t)item);
        return;
    }
    if (dst_step == item && src_step == 0) {
        repeat(item, n, dst, src);
        return;
    }
    if (dst_step == item && src_step == -item) {
        reverse(item, n, dst, src);
        return;
    }
    if (dst_step == item && src_step == 2 * item) {
        every_second(item, n, dst, src);
        return;
    }
    switch (item) {
    case 1:
        for (int64_t i = 0; i < n; i++) dst[i * dst_step] = src[i * src_step];
        break;
    case 2:
        for (int64_t i = 0; i < n; i++) memcpy(dst + i * dst_step, src + i * src_step, 2);
        break;
    case 4:
        for (int64_t i = 0; i < n; i++) memcpy(dst + i * dst_step, src + i * src_step, 4);
        break;
    default:
        for (int64_t i = 0; i < n; i++) memcpy(dst + i * dst_step, src + i * src_step, 8);
        break;
    }
}

/* The length of the rest of the last axis, at most n. */
static inline int64_t run_of(const struct kl_cursor *c, int64_t n) {
    int i = c->ndim - 1;
    return kl_min64(n, c->dims[i] - c->at[i]);
}

/* Whether rows of the last axis are too short to be copied by a call each. */
static inline bool short_rows(const struct kl_cursor *c) {
    const int last = c->ndim - 1;
    return last > 0 &&
           (c->dims[last] <= SHORT_ROW ||
            (c->strides[last] == c->item_bytes && c->dims[last] * c->item_bytes <= SHORT_COPY));
}

/* The elements of those rows of the last axis, from the next element on, that are whole among the
 * next n and follow each other along one axis. */
static inline int64_t whole_rows(const struct kl_cursor *c, int64_t n) {
    const int i = c->ndim - 1;
    return kl_min64(n / c->dims[i], c->dims[i - 1] - c->at[i - 1]) * c->dims[i];
}

void kl_cursor_read(struct kl_cursor *c, int64_t n, void *dst) {
    char *to = dst;
    if (c->ndim == 0) {
        kl_copy_run(c->item_bytes, n, to, c->item_bytes, c->data, 0);
        return;
    }
    const int last = c->ndim - 1;
    const bool few = short_rows(c);
    while (n > 0) {
        int64_t m = few && c->at[last] == 0 ? whole_rows(c, n) : 0;
        if (m) {
            const int64_t rows = m / c->dims[last];
            copy_rows(c->item_bytes, rows, c->dims[last], to, c->next, c->strides[last - 1],
                      c->strides[last]);
            c->at[last - 1] += rows - 1;
            c->next += (rows - 1) * c->strides[last - 1];
            advance(c, c->dims[last]);
        } else {
            m = run_of(c, n);
            kl_copy_run(c->item_bytes, m, to, c->item_bytes, c->next, c->strides[last]);
            advance(c, m);
        }
        to += m * c->item_bytes;
        n -= m;
    }
}

void kl_cursor_write(struct kl_cursor *c, int64_t n, const void *src) {
    const char *from = src;
    if (c->ndim == 0) {
        memcpy(c->data, from + (n - 1) * c->item_bytes, (size_t)c->item_bytes);
        return;
    }
    while (n > 0) {
        int64_t m = run_of(c, n);
        kl_copy_run(c->item_bytes, m, c->next, c->strides[c->ndim - 1], from, c->item_bytes);
        from += m * c->item_bytes;
        n -= m;
        advance(c, m);
    }
}

void *kl_cursor_claim(struct kl_cursor *c, int64_t n) {
    if (c->ndim == 0) return n == 1 ? c->data : NULL;
    int last = c->ndim - 1;
    if (c->strides[last] != c->item_bytes || c->dims[last] - c->at[last] < n) return NULL;
    void *p = c->next;
    advance(c, n);
    return p;
}

/* The same row everywhere: the tile keeps copies of it, so that most calls copy nothing. NULL: the
 * next n elements do not fit into it, with those of the row that come before them. */
static const void *repeated_row(struct kl_cursor *c, int64_t n, union kl_tile *tile) {
    const int64_t row = c->dims[1], first = c->at[1], end = first + n;
    if (end > (int64_t)sizeof tile->bytes / c->item_bytes) return NULL;
    while (c->filled < end) {
        const int64_t at = c->filled % row, some = kl_min64(row - at, end - c->filled);
        memcpy(tile->bytes + c->filled * c->item_bytes, c->data + at * c->item_bytes,
               (size_t)(some * c->item_bytes));
        c->filled += some;
    }
    c->at[0] += end / row;
    c->at[1] = end % row;
    c->next = c->data + c->at[1] * c->item_bytes;
    return tile->bytes + first * c->item_bytes;
}

const void *kl_cursor_next(struct kl_cursor *c, int64_t n, union kl_tile *tile) {
    if (c->ndim == 0) {
        if (n == 1) return c->data;
        if (c->filled < n) { /* no more than needed: most operations of a small net need few */
            kl_copy_run(c->item_bytes, n - c->filled, tile->bytes + c->filled * c->item_bytes,
                        c->item_bytes, c->data, 0);
            c->filled = n;
        }
        return tile->bytes;
    }
    const void *p = kl_cursor_claim(c, n);
    if (!p && c->ndim == 2 && c->strides[0] == 0 && c->strides[1] == c->item_bytes)
        p = repeated_row(c, n, tile);
    if (p) return p;
    c->filled = 0;
    kl_cursor_read(c, n, tile->bytes);
    return tile->bytes;
}

void kl_offsets(int ndim, const int *dims, const int64_t *strides, int64_t pos, int64_t n,
                int64_t *out) {
    int64_t at[KL_LONG_AXES], len[KL_LONG_AXES], step[KL_LONG_AXES], offset = 0;
    int m = 0;
    for (int i = 0; i < ndim; i++) {
        if (dims[i] == 1 || m == KL_LONG_AXES) continue;
        len[m] = dims[i];
        step[m++] = strides[i];
    }
    for (int i = m - 1; i >= 0; i--) {
        at[i] = pos % len[i];
        pos /= len[i];
        offset += at[i] * step[i];
    }
    if (m == 0) {
        for (int64_t k = 0; k < n; k++) out[k] = offset;
        return;
    }
    for (int64_t k = 0; k < n;) { /* run by run along the last axis */
        int64_t run = kl_min64(n - k, len[m - 1] - at[m - 1]), along = step[m - 1];
        KL_EACH(i, run) out[k + i] = offset + i * along;
        k += run;
        at[m - 1] += run;
        offset += run * along;
        for (int i = m - 1; i >= 0 && at[i] == len[i]; i--) {
            offset -= len[i] * step[i];
            at[i] = 0;
            if (i == 0) break;
            offset += step[i - 1];
            at[i - 1]++;
        }
    }
}

void kl_copy_strided(int item_bytes, int ndim, const int *dims, void *dst,
                     const int64_t *dst_strides, const void *src, const int64_t *src_strides) {
    /* Merges axes that are contiguous in both operands, as kl_cursor_init does. */
    int64_t len[KL_LONG_AXES], ds[KL_LONG_AXES], ss[KL_LONG_AXES], at[KL_LONG_AXES];
    int n = 0;
    for (int i = 0; i < ndim; i++) {
        if (dims[i] == 0) return;
        if (dims[i] == 1) continue;
        int64_t d = dst_strides[i] * item_bytes, s = src_strides[i] * item_bytes;
        if (n && ds[n - 1] == d * dims[i] && ss[n - 1] == s * dims[i]) {
            len[n - 1] *= dims[i];
            ds[n - 1] = d;
            ss[n - 1] = s;
        } else if (n < KL_LONG_AXES) {
            len[n] = dims[i];
            ds[n] = d;
            ss[n] = s;
            at[n++] = 0;
        }
    }
    char *to = dst;
    const char *from = src;
    if (n == 0) {
        memcpy(to, from, (size_t)item_bytes);
        return;
    }
    const bool rows = n > 1 && ds[n - 1] == item_bytes && ss[n - 1] == item_bytes;
    for (;;) {
        int i = n - 2;
        if (rows) {
            kl_copy_rows(len[i], len[i + 1] * item_bytes, to, ds[i], from, ss[i]);
            i--;
        } else {
            kl_copy_run(item_bytes, len[n - 1], to, ds[n - 1], from, ss[n - 1]);
        }
        for (; i >= 0; i--) {
            to += ds[i];
            from += ss[i];
            if (++at[i] < len[i]) break;
            to -= len[i] * ds[i];
            from -= len[i] * ss[i];
            at[i] = 0;
        }
        if (i < 0) return;
    }
}
