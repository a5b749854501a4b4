/* reduce.h - what the parts of a reduction have in common: reduce.c plans it and stores the
 * results; reduce_rows.c, reduce_columns.c and reduce_few.c walk through memory, reduce_streamed.c
 * takes what comes from elsewhere; reduce_joins.c has the functions of each dtype, and
 * reduce_tree.c joins leaves. */
#pragma once
#include "backend/cpu/math/order.h"
#include "backend/cpu/operand/axes.h"
#include "backend/cpu/operand/tile.h"

enum {
    KL_REDUCE_LANES = 16,
    KL_REDUCE_LEAF = 128,
    KL_REDUCE_SEGMENT = 1 << 16, /* reduced elements; KL_REDUCE_LEAF times a power of two */
    KL_REDUCE_SEGMENT_LEVELS = 10,
    KL_REDUCE_WIDTH =
        4096, /* bytes of values that are computed side by side: KL_TILE of the widest type */
    KL_REDUCE_ROWS = KL_TILE,
    /* Bytes of outputs that are computed side by side; more are computed by columns. */
    KL_REDUCE_NARROW = 512,
};
_Static_assert(KL_REDUCE_LEAF << (KL_REDUCE_SEGMENT_LEVELS - 1) == KL_REDUCE_SEGMENT,
               "the levels of a segment's counter");

/* ---- reduce_joins.c ---- */
/* run: adds n contiguous elements, the next leaves of one reduction, to its counter. lane: out[i]
 * is the join of element i of each row. fold: a[i] is joined with b[i], which comes after it. */
struct kl_reduce_join {
    void (*run)(void *levels, int64_t *leaves, const void *x, int64_t n);
    void (*lane)(void *out, const void *const *rows, int n_rows, int64_t n);
    void (*fold)(void *a, const void *b, int64_t n);
};
/* By the type that is computed in; sums of 16-bit floats give float32. run is NULL where there is
 * no such reduction. */
extern const struct kl_reduce_join kl_reduce_sums[KL_N_DTYPES], kl_reduce_products[KL_N_DTYPES],
    kl_reduce_maxima[KL_N_DTYPES], kl_reduce_minima[KL_N_DTYPES];

/* The same for extremes of floats, by the type of their keys: int16 or int32. They are joined as
 * integers, by kl_reduce_maxima. */
struct kl_reduce_keyed {
    void (*run)(struct kl_order order, void *levels, int64_t *leaves, const void *x, int64_t n);
    void (*lane)(struct kl_order order, void *out, const void *const *rows, int n_rows, int64_t n);
};
extern const struct kl_reduce_keyed kl_reduce_keys[KL_N_DTYPES];

/* Sums of squared distances, by the dtype of the elements; other functions are those of sums of
 * float32. run is NULL where distances are computed separately. */
struct kl_reduce_squared {
    void (*run)(const float *means, void *levels, int64_t *leaves, const void *x, int64_t n);
    void (*lane)(const float *means, void *out, const void *const *rows, int n_rows, int64_t n);
};
extern const struct kl_reduce_squared kl_reduce_squares[KL_N_DTYPES];

enum kl_reduce_way {
    KL_REDUCE_BY_ROWS,
    KL_REDUCE_BY_COLUMNS,
    KL_REDUCE_BY_NARROW,
    KL_REDUCE_BY_FEW
};

/* The reduction of one launch. */
struct kl_reduce_job {
    const struct kl_launch *l;
    struct kl_reduce_join join;
    enum kl_dtype type; /* the compute type: the type of intermediate values */
    int bytes;          /* the size of a value of `type` */
    enum kl_dtype
        /* The dtype that elements are converted to when they are read: `type`, or no conversion
         * (the data's dtype) where distances are taken of them or the functions read that dtype. */
        read;
    bool keyed; /* extremes of floats; then `type` is the type of their keys */
    bool sums;  /* sums of floats, which are read without conversion */
    /* Extremes of truth values: the first `stop`, true for maxima, is the result, and what follows
     * it is not read where elements are contiguous. */
    bool truths, stop;
    struct kl_order order;
    /* The mean for each output, of type `read`. Each element is replaced by its squared distance
     * from the mean. NULL: elements are used as they are. */
    const char *means;
    struct kl_reduce_squared squares; /* their functions; NULL: distances are computed separately */
    struct kl_split s;
    enum kl_reduce_way way;
    bool dense;  /* runs of elements are contiguous and can be read in place */
    int64_t run; /* The number of outputs that are contiguous; 0: outputs have any place. */
    int64_t group, run_groups;  /* outputs of one task; tasks for each run (or for all outputs) */
    int64_t n_groups, segments; /* tasks of each segment; segments of the reduction */
    char *partial;              /* [segments][n_out] of `type`, where segments > 1 */
    char *to;                   /* [n_out] of `type`: where results go; NULL: to the output */
    bool divides;
    double divisor; /* of the results, where they are divided (means, variances) */
};

/* The mean of this output. */
static inline const char *kl_reduce_mean_of(const struct kl_reduce_job *j, int64_t output) {
    return j->means ? j->means + output * (int64_t)kl_dtype_size(j->squares.run ? KL_F32 : j->read)
                    : NULL;
}

/* ---- reduce.c ---- */
/* Joins the results of the segments in j->partial, and stores them. They are subtrees of the same
 * size, except the last one. */
void kl_reduce_join_segments(const struct kl_reduce_job *j);

/* ---- reduce_tree.c ---- */
/* The values of finished leaves as a binary counter, `width` values side by side. Bit k of `leaves`
 * says that level k holds a subtree of 2^k leaves. */
struct kl_reduce_counter {
    char *level;
    int64_t width, leaves;
};

/* Adds a finished leaf to the counter; overwrites `value`. */
void kl_reduce_push(const struct kl_reduce_job *j, struct kl_reduce_counter *c, char *value);
/* Joins the remaining subtrees, starting with the last one. There is at least one leaf. */
void kl_reduce_finish(const struct kl_reduce_job *j, struct kl_reduce_counter *c, char *out);
/* y[i] = |x[i] - mean[i * step]|^2 */
void kl_reduce_distances(const struct kl_reduce_job *j, void *out, const void *in, const void *mean,
                         int64_t step, int64_t n);

/* Whether n contiguous truth values have one that is `wanted`. */
bool kl_reduce_finds(const uint8_t *x, int64_t n, bool wanted);

/* ---- reduce_rows.c, reduce_columns.c: elements [from, from + count) of each of the outputs
 * [begin, begin + n), which lie in one segment, give n results of the job's type ---- */
/* One output after another. */
void kl_reduce_rows(const struct kl_reduce_job *j, int64_t begin, int64_t n, int64_t from,
                    int64_t count, char *results);
/* The outputs side by side. */
void kl_reduce_columns(const struct kl_reduce_job *j, int64_t begin, int64_t n, int64_t from,
                       int64_t count, char *results);
/* The n outputs of one run, whose rows are contiguous. */
void kl_reduce_narrow(const struct kl_reduce_job *j, int64_t begin, int64_t n, int64_t from,
                      int64_t count, char *results);
/* Whole runs, whose outputs reduce at most KL_REDUCE_LANES elements, all of one segment. */
void kl_reduce_few(const struct kl_reduce_job *j, int64_t begin, int64_t n, char *results);
