/* test_attention_parts.c - the arithmetic of attend_parts (attention_parts_matrix.kl): float32 as
 * two TF32 parts, multiplied by matrix units that cut sums off, next to the chain of multiply-adds
 * in float32 that it stands for, and to float64. The units are computed here as they are known to
 * be at worst: four products and the sum so far are cut off at a place that the largest of them
 * sets, 24 (A100) or 25 (H100) binary digits after its first one, and so is their sum, at 24
 * digits. */
#include "support.h"

#include <float.h>
#include <math.h>

static uint32_t seed;
static double draw(void) {
    seed = seed * 1664525u + 1013904223u;
    return (double)(seed >> 8) / (1 << 24);
}
static double draw_normal(void) {
    return sqrt(-2 * log(draw() + 0x1p-25)) * cos(6.283185307179586 * draw());
}

/* ---- the unit ---- */
struct parts {
    float high, low;
};
static float masked_to(float x, uint32_t add, uint32_t mask) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits + add) & mask;
    memcpy(&x, &bits, sizeof x);
    return x;
}
/* As `split` there. The unit does not see the lowest 13 digits of what it is given. */
static struct parts split(float x) {
    struct parts p = {.high = masked_to(x, 0x1000, 0xffffe000u)};
    p.low = masked_to(x - p.high, 0, 0xffffe000u);
    return p;
}

static int exponent_of(double x) {
    int e;
    frexp(x, &e);
    return x == 0 ? -150 : e - 1;
}
static double cut(double x, int exponent) {
    return ldexp(trunc(ldexp(x, -exponent)), exponent);
}
/* c plus the products of four elements. */
static float add_four(float c, const float *a, const float *b, int digits) {
    int most = exponent_of((double)c);
    for (int i = 0; i < 4; i++) {
        const int e = exponent_of((double)a[i] * (double)b[i]);
        if (e > most) most = e;
    }
    if (most < -126) most = -126;
    double sum = cut((double)c, most - digits);
    for (int i = 0; i < 4; i++) sum += cut((double)a[i] * (double)b[i], most - digits);
    const int e = exponent_of(sum);
    return (float)cut(sum, (e < -126 ? -126 : e) - 23);
}
static float add_products(float c, const float *a, const float *b, int n, int digits) {
    for (int i = 0; i < n; i += 4) c = add_four(c, a + i, b + i, digits);
    return c;
}

/* ---- sums of products: by parts, and by a chain ---- */
enum { MOST = 4096, OF_SCORES = 32, OF_VALUES = 64 };
struct terms {
    float a[MOST], b[MOST];
    int n; /* a multiple of 64 */
};
struct split_terms {
    float high[2][OF_VALUES], low[2][OF_VALUES];
};
static void split_terms(struct split_terms *s, const struct terms *t, int first, int n) {
    for (int i = 0; i < n; i++) {
        const struct parts a = split(t->a[first + i]), b = split(t->b[first + i]);
        s->high[0][i] = a.high, s->low[0][i] = a.low;
        s->high[1][i] = b.high, s->low[1][i] = b.low;
    }
}
/* A score: products with low parts have a sum of their own, and so have each 32 of the others. */
static float score_by_parts(const struct terms *t, int digits) {
    float score = 0, lower = 0;
    for (int first = 0; first < t->n; first += OF_SCORES) {
        struct split_terms s;
        split_terms(&s, t, first, OF_SCORES);
        for (int i = 0; i < OF_SCORES; i += 8) {
            lower = add_products(lower, s.low[0] + i, s.high[1] + i, 8, digits);
            lower = add_products(lower, s.high[0] + i, s.low[1] + i, 8, digits);
        }
        score += add_products(0, s.high[0], s.high[1], OF_SCORES, digits);
    }
    return score + lower;
}
/* A result: in each tile of 64 keys products with low parts have a sum of their own, and so have
 * the others of each half. */
static float result_by_parts(const struct terms *t, int digits) {
    float result = 0;
    for (int first = 0; first < t->n; first += OF_VALUES) {
        struct split_terms s;
        float lower = 0;
        split_terms(&s, t, first, OF_VALUES);
        for (int i = 0; i < OF_VALUES; i += 8) {
            lower = add_products(lower, s.low[0] + i, s.high[1] + i, 8, digits);
            lower = add_products(lower, s.high[0] + i, s.low[1] + i, 8, digits);
        }
        for (int i = 0; i < OF_VALUES; i += OF_VALUES / 2)
            result += add_products(0, s.high[0] + i, s.high[1] + i, OF_VALUES / 2, digits);
        result += lower;
    }
    return result;
}
static float by_chain(const struct terms *t) {
    float sum = 0;
    for (int i = 0; i < t->n; i++) sum = fmaf(t->a[i], t->b[i], sum);
    return sum;
}

/* ---- what is multiplied ---- */
enum kind { NORMAL, POSITIVE, SCALED, CANCELLING, WEIGHTS, N_KINDS };
static const char *const names[] = {"normal", "positive", "badly scaled", "cancelling", "weights"};
static void draw_terms(struct terms *t, enum kind kind, int n) {
    t->n = n;
    for (int i = 0; i < n; i++) {
        const int before = i - 1;
        t->a[i] = (float)draw_normal();
        t->b[i] = (float)draw_normal();
        switch (kind) {
        case POSITIVE:
            t->a[i] = (float)(0.5 + draw());
            t->b[i] = (float)(0.5 + draw());
            break;
        case SCALED:
            t->a[i] *= (float)exp2(floor(40 * draw()) - 20);
            t->b[i] *= (float)exp2(floor(40 * draw()) - 20);
            break;
        case CANCELLING: /* each second product takes most of the one before away */
            if (i % 2 == 0) break;
            t->a[i] = t->a[before] * (1 + 0x1p-12F * (float)draw());
            t->b[i] = -t->b[before];
            break;
        case WEIGHTS: /* exponentials, as they meet values */
            t->a[i] = expf(-10 * (float)draw());
            break;
        default: break;
        }
    }
}

/* The root of the mean of squared errors, over that of a chain, is at most 2.5, of long sums 1; and
 * no error is beyond what docs/numerics.md says. */
static void compare(enum kind kind, int n, bool scores, int digits) {
    enum { TRIALS = 300 };
    static struct terms t;
    double squares[2] = {0, 0}, worst = 0;
    seed = 7;
    for (int trial = 0; trial < TRIALS; trial++) {
        double right = 0, sizes = 0;
        draw_terms(&t, kind, n);
        for (int i = 0; i < n; i++) {
            right += (double)t.a[i] * (double)t.b[i];
            sizes += fabs((double)t.a[i] * (double)t.b[i]);
        }
        const double got = (double)(scores ? score_by_parts : result_by_parts)(&t, digits),
                     chain = (double)by_chain(&t);
        squares[0] += (got - right) * (got - right) / sizes / sizes;
        squares[1] += (chain - right) * (chain - right) / sizes / sizes;
        worst = fmax(worst, fabs(got - right) / sizes);
    }
    const double ratio = sqrt(squares[0] / squares[1]);
    print_message("%s, %d terms, %s, %d digits: %.2f of a chain's error, at most 2^%.1f\n",
                  names[kind], n, scores ? "scores" : "results", digits, ratio, log2(worst));
    /* Where products cancel in pairs, a chain's sum stays so small that its roundings are too. */
    if (ratio > (kind == CANCELLING ? 4 : n > 128 ? 1 : 2.5))
        fail_msg("%s, %d terms: %g times a chain's error", names[kind], n, ratio);
    if (worst > 0x1p-17 + n * 0x1p-28) fail_msg("%s, %d terms: %g", names[kind], n, worst);
}

static void scores(void **state) {
    for (int kind = NORMAL; kind < WEIGHTS; kind++)
        for (int n = 64; n <= 128; n += 64)
            for (int digits = 24; digits <= 25; digits++) compare((enum kind)kind, n, true, digits);
}
static void results(void **state) {
    for (int kind = NORMAL; kind < N_KINDS; kind++)
        for (int n = 64; n <= MOST; n *= 8)
            for (int digits = 24; digits <= 25; digits++)
                compare((enum kind)kind, n, false, digits);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(scores), cmocka_unit_test(results)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
