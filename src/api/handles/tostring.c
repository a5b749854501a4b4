/* tostring.c - mlx_array_tostring: arrays as text.
 *
 * The form is MLX's: nested brackets, one line per row of the last axis, rows indented to their
 * bracket, and 3 elements at each end of an axis of more than 6. Numbers have 6 significant digits
 * in every locale. The walk keeps one counter per axis and does not recurse: an array of many axes
 * costs memory, not stack. */
#include "api/handles/handles.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

enum { SHOWN_WHOLE = 6, SHOWN_AT_END = 3 };

/* ---- a text that grows ---- */
struct text {
    char *chars; /* n of cap bytes, without a 0 byte at the end */
    size_t n, cap;
    bool failed; /* out of memory: later appends do nothing */
};

static void put(struct text *t, const char *s, size_t n) {
    if (t->failed) return;
    if (n > t->cap - t->n) {
        size_t cap = t->n + n > 2 * t->cap ? t->n + n : 2 * t->cap;
        char *chars = kl_realloc(t->chars, cap);
        if (!chars) {
            t->failed = true;
            return;
        }
        t->chars = chars;
        t->cap = cap;
    }
    memcpy(t->chars + t->n, s, n);
    t->n += n;
}

static void put_text(struct text *t, const char *s) {
    put(t, s, strlen(s));
}

static void put_repeated(struct text *t, char c, size_t n) {
    for (size_t i = 0; i < n; i++) put(t, &c, 1);
}

/* A locale may put any characters between the digits. Every character that cannot be part of a
 * number becomes '.'. */
static void put_number(struct text *t, double x) {
    char raw[48], clean[48];
    size_t n = 0;
    snprintf(raw, sizeof raw, "%.6g", x);
    for (const char *p = raw; *p;) {
        if (strchr("0123456789+-einfa", *p)) {
            clean[n++] = *p++;
        } else {
            clean[n++] = '.';
            while (*p && !strchr("0123456789", *p)) p++;
        }
    }
    put(t, clean, n);
}

/* ---- elements ---- */
static void put_element(struct text *t, enum kl_dtype dtype, const void *p) {
    char raw[32];
    union {
        uint8_t u8;
        uint16_t u16;
        uint32_t u32;
        uint64_t u64;
        int8_t i8;
        int16_t i16;
        int32_t i32;
        int64_t i64;
        float f32[2];
        double f64;
    } v;
    memcpy(&v, p, kl_dtype_size(dtype));
    switch (dtype) {
    case KL_BOOL: put_text(t, v.u8 ? "True" : "False"); return;
    case KL_U8: snprintf(raw, sizeof raw, "%" PRIu8, v.u8); break;
    case KL_U16: snprintf(raw, sizeof raw, "%" PRIu16, v.u16); break;
    case KL_U32: snprintf(raw, sizeof raw, "%" PRIu32, v.u32); break;
    case KL_U64: snprintf(raw, sizeof raw, "%" PRIu64, v.u64); break;
    case KL_I8: snprintf(raw, sizeof raw, "%" PRId8, v.i8); break;
    case KL_I16: snprintf(raw, sizeof raw, "%" PRId16, v.i16); break;
    case KL_I32: snprintf(raw, sizeof raw, "%" PRId32, v.i32); break;
    case KL_I64: snprintf(raw, sizeof raw, "%" PRId64, v.i64); break;
    case KL_F16: put_number(t, (double)kl_f16_to_f32(v.u16)); return;
    case KL_BF16: put_number(t, (double)kl_bf16_to_f32(v.u16)); return;
    case KL_F32: put_number(t, (double)v.f32[0]); return;
    case KL_F64: put_number(t, v.f64); return;
    case KL_C64:
        put_number(t, (double)v.f32[0]);
        if (!(v.f32[1] < 0)) put_text(t, "+"); /* NaN and -0.0 also get a plus sign */
        put_number(t, (double)v.f32[1]);
        put_text(t, "j");
        return;
    default: put_text(t, "?"); return;
    }
    put_text(t, raw);
}

/* ---- nesting ---- */
static const char lead[] = "array(";

/* The text between two elements of axis d: a comma, and between rows also a new line that is
 * indented to their bracket. */
static void put_separator(struct text *t, int d, int ndim) {
    put_text(t, ",");
    if (d == ndim - 1) {
        put_text(t, " ");
    } else {
        put_text(t, "\n");
        put_repeated(t, ' ', sizeof lead - 1 + (size_t)d + 1);
    }
}

static void put_elements(struct text *t, const struct kl_tensor *a, const void *data,
                         int *at /* one counter per axis */) {
    enum kl_dtype dtype = (enum kl_dtype)a->dtype;
    int64_t item_bytes = (int64_t)kl_dtype_size(dtype);
    const char *p = data;
    int d = 0;        /* the innermost axis that is open */
    bool down = true; /* whether axis d is opened next */
    for (;;) {
        if (down && d < a->ndim && a->dims[d] > 0) {
            put_text(t, "[");
            at[d++] = 0;
            continue;
        }
        if (down && d < a->ndim)
            put_text(t, "[]"); /* an empty axis ends the nesting, whatever axes follow */
        else if (down)
            put_element(t, dtype, p);
        if (t->failed) return;
        /* One element of axis d - 1 is complete: continue with the next one, or close the axis. */
        if (--d < 0) return;
        if (++at[d] == a->dims[d]) {
            put_text(t, "]");
            p -= (a->dims[d] - 1) * a->strides[d] * item_bytes;
            down = false;
            continue;
        }
        put_separator(t, d, a->ndim);
        p += a->strides[d] * item_bytes;
        if (a->dims[d] > SHOWN_WHOLE && at[d] == SHOWN_AT_END) {
            int left_out = a->dims[d] - 2 * SHOWN_AT_END;
            put_text(t, "...");
            put_separator(t, d, a->ndim);
            at[d] += left_out;
            p += left_out * a->strides[d] * item_bytes;
        }
        d++;
        down = true;
    }
}

int mlx_array_tostring(mlx_string *str, const mlx_array arr) {
    struct kl_call c = kl_call_begin(__func__, str);
    struct kl_array *a = kl_in(&c, arr, "arr");
    void *data = NULL;
    int *at = NULL;
    struct text t = {0};
    if (!c.err && kl_array_host(a, &data, &c.err) == 0) {
        at = kl_malloc((size_t)a->t.ndim * sizeof *at);
        if (!at) kl_fail_nomem(&c.err);
    }
    if (!c.err) {
        put_text(&t, lead);
        put_elements(&t, &a->t, data, at);
        put_text(&t, ", dtype=");
        put_text(&t, kl_dtype_name((enum kl_dtype)a->t.dtype));
        put(&t, ")", 2); /* 2 bytes, with the 0 byte */
        if (t.failed) kl_fail_nomem(&c.err);
    }
    kl_free(at);
    if (c.err) {
        kl_free(t.chars);
        t.chars = NULL;
    }
    return kl_call_end_text(&c, str, t.chars);
}
