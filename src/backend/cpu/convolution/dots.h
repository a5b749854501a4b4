/* dots.h - convolutions of float32 to a few output channels, for convolution_task.c, which includes
 * it. Vectors run along the input channels: each output has DOT_LANES partial sums (channel c goes
 * to sum c % DOT_LANES), which are joined by halving in the end. */
enum {
    DOT_LANES = KL_CONVOLUTION_LANES,
    DOT_PARTS = DOT_LANES / (KL_VECTOR / 4), /* vectors for the sums of one output */
    DOT_ROWS = 4                             /* positions at a time: as many chains of additions */
};

/* Adds to the sums of `rows` (a constant) positions, `step` elements of the window and `between`
 * sums apart, for one output channel, whose kernel b is. */
static inline __attribute__((always_inline)) void dots_at(int rows, const struct window *w,
                                                          const float *a, int64_t step,
                                                          const float *b, float *c, int64_t between,
                                                          bool add) {
    enum { LANES = KL_VECTOR / 4 };
    kl_vec_f32 sum[DOT_ROWS][DOT_PARTS];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < DOT_PARTS; v++)
            sum[r][v] = add ? *(const kl_vec_f32 *)(c + r * between + v * LANES) : (kl_vec_f32){0};
    for (int64_t i = 0; i < w->runs; i++, b += w->length) {
        const float *x = a + w->at[i];
        for (int64_t k = 0; k < w->length; k += DOT_LANES)
#pragma GCC unroll 4
            for (int v = 0; v < DOT_PARTS; v++) {
                const kl_vec_f32 y = *(const kl_loose_f32 *)(b + k + v * LANES);
#pragma GCC unroll 4
                for (int r = 0; r < rows; r++)
                    sum[r][v] = kl_madd_f32(*(const kl_loose_f32 *)(x + r * step + k + v * LANES),
                                            y, sum[r][v]);
            }
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < DOT_PARTS; v++)
            *(kl_vec_f32 *)(c + r * between + v * LANES) = sum[r][v];
}
static __attribute__((noinline)) void dots_many(const struct window *w, const float *a,
                                                int64_t step, const float *b, float *c,
                                                int64_t between, bool add) {
    dots_at(DOT_ROWS, w, a, step, b, c, between, add);
}
static __attribute__((noinline)) void dots_one(const struct window *w, const float *a,
                                               const float *b, float *c, bool add) {
    dots_at(1, w, a, 0, b, c, 0, add);
}

/* n positions of one output channel. */
static void dots(const struct window *w, int64_t n, const float *a, int64_t step, const float *b,
                 float *c, int64_t between, bool add) {
    int64_t i = 0;
    for (; i + DOT_ROWS <= n; i += DOT_ROWS)
        dots_many(w, a + i * step, step, b, c + i * between, between, add);
    for (; i < n; i++) dots_one(w, a + i * step, b, c + i * between, add);
}

/* Joins the partial sums of `outputs` neighbouring outputs, which then follow each other. */
static void join_dots(float *sums, int64_t outputs) {
    for (int64_t o = 0; o < outputs; o++) {
        float lane[DOT_LANES];
        memcpy(lane, sums + o * DOT_LANES, sizeof lane);
        for (int half = DOT_LANES / 2; half; half /= 2)
            for (int k = 0; k < half; k++) lane[k] += lane[k + half];
        sums[o] = lane[0];
    }
}
