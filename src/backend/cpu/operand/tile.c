/* tile.c - cursors; see tile.h. Conversions are in convert.c. */
#include "backend/cpu/operand/tile.h"

#include <string.h>

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

/* n copies of one element, side by side. */
static void repeat(int item, int64_t n, void *to, const void *from) {
    uint8_t b;
    uint16_t h;
    uint32_t w;
    uint64_t d;
    switch (item) {
    case 1:
        memcpy(&b, from, 1);
        memset(to, b, (size_t)n);
        break;
    case 2:
        memcpy(&h, from, 2);
        KL_EACH(i, n) memcpy((char *)to + 2 * i, &h, 2);
        break;
    case 4:
        memcpy(&w, from, 4);
        KL_EACH(i, n) memcpy((char *)to + 4 * i, &w, 4);
        break;
    default:
        memcpy(&d, from, 8);
        KL_EACH(i, n) memcpy((char *)to + 8 * i, &d, 8);
        break;
    }
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

void kl_cursor_read(struct kl_cursor *c, int64_t n, void *dst) {
    char *to = dst;
    if (c->ndim == 0) {
        kl_copy_run(c->item_bytes, n, to, c->item_bytes, c->data, 0);
        return;
    }
    while (n > 0) {
        int64_t m = run_of(c, n);
        kl_copy_run(c->item_bytes, m, to, c->item_bytes, c->next, c->strides[c->ndim - 1]);
        to += m * c->item_bytes;
        n -= m;
        advance(c, m);
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
    if (p) return p;
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
    for (;;) {
        kl_copy_run(item_bytes, len[n - 1], to, ds[n - 1], from, ss[n - 1]);
        int i = n - 2;
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
