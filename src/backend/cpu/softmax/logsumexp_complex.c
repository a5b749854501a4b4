/* logsumexp_complex.c - LOGSUMEXP of complex64, one output after another, around the largest real
 * part. Sums in double. */
#include "backend/cpu/math/complex.h"
#include "backend/cpu/math/extremes.h"
#include "backend/cpu/softmax/logsumexp.h"

struct job {
    const struct kl_launch *l;
    struct kl_split s;
};

static void output_c64(void *arg, int64_t o) {
    const struct job *j = arg;
    const struct kl_arg *in = j->l->in;
    struct kl_c64 *out = (struct kl_c64 *)j->l->out->data + o, total;
    int64_t offset;
    float top = -INFINITY;
    double re = 0, im = 0;
    struct kl_cursor c;
    union kl_tile tile;
    kl_offsets(j->s.n_kept, j->s.kept_dims, j->s.kept_strides, o, 1, &offset);
    kl_cursor_init(&c, (struct kl_c64 *)in->data + offset, (int)sizeof total, j->s.n_gone,
                   j->s.gone_dims, j->s.gone_strides);
    for (int pass = 0; pass < 2; pass++) {
        kl_cursor_seek(&c, 0);
        for (int64_t at = 0; at < j->s.n_red; at += KL_TILE) {
            int64_t n = kl_min64(KL_TILE, j->s.n_red - at);
            const struct kl_c64 *x = kl_cursor_next(&c, n, &tile);
            for (int64_t i = 0; i < n; i++) {
                if (pass == 0) {
                    top = kl_max_f32(top, x[i].re);
                    continue;
                }
                struct kl_c64 e = kl_c64_exp((struct kl_c64){x[i].re - top, x[i].im});
                re += (double)e.re;
                im += (double)e.im;
            }
        }
        if (fabsf(top) == INFINITY) {
            *out = (struct kl_c64){top, 0};
            return;
        }
    }
    total = kl_c64_log((struct kl_c64){(float)re, (float)im});
    *out = (struct kl_c64){total.re + top, total.im};
}

void kl_logsumexp_complex(const struct kl_launch *l, const struct kl_split *s) {
    struct job j = {.l = l, .s = *s};
    struct kl_launch alone = {.parallel = l->in->size >= KL_CHUNK ? l->parallel : NULL};
    struct kl_c64 *out = l->out->data;
    if (s->n_red) {
        kl_run_tasks(&alone, s->n_out, output_c64, &j);
        return;
    }
    for (int64_t o = 0; o < s->n_out; o++) /* the logarithm of a sum without terms */
        out[o] = (struct kl_c64){-INFINITY, 0};
}
