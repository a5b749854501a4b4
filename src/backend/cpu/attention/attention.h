/* attention.h - what the parts of ATTENTION share: attention.c, which chooses the method,
 * attention_many.c, attention_few.c and attention_backward.c. */
#pragma once
#include <float.h>
#include <stdatomic.h>

#include "backend/cpu/operand/tile.h"
#include "base/op/launch.h"

enum {
    /* The most queries of a task: the more queries, the fewer times keys are packed. */
    KL_ATTENTION_QUERIES = 512,
    KL_ATTENTION_CHUNK = 512 /* keys of a task of few queries */
};
/* The score of a masked key. Where all keys are masked, all weigh the same, as in MLX. Keys that a
 * causal mask hides from a query that sees others have -infinity. */
#define KL_ATTENTION_MASKED (-FLT_MAX)

struct kl_attention_job {
    const struct kl_launch *l;
    const struct kl_arg *q, *k, *v, *mask, *sinks;
    float scale;
    float power; /* kl_attention_power, for queries of bfloat16 in tile registers */
    bool causal;
    int bf16_parts; /* bfloat16 parts of an element in tile registers; 0: computed in vectors */
    int64_t heads, kv_heads, group, n, m, d, e;
    /* Queries of a task; the number of tasks for each batch element and kv head. */
    int64_t queries, tasks_each;
    /* Few queries: for each task and query the largest score, the sum of weights, and e sums of
     * values. */
    float *parts;
    /* The backward pass: the result, and what kl_attention_note keeps of each query. Otherwise
     * NULL. */
    const struct kl_arg *result;
    float *numbers;
    _Atomic(bool) no_memory;
};

static inline const char *kl_attention_row(const struct kl_arg *a, int64_t batch, int64_t head,
                                           int64_t row) {
    static const double nothing[8]; /* stands for rows of width 0, which may have no address */
    if (a->size == 0) return (const char *)nothing;
    return (const char *)a->data +
           (batch * a->strides[0] + head * a->strides[1] + row * a->strides[2]) *
               (int64_t)kl_dtype_size(a->dtype);
}

/* One query of those that share keys, given by its number r. */
struct kl_attention_query {
    int64_t head, row;
};
static inline struct kl_attention_query kl_attention_query_of(const struct kl_attention_job *j,
                                                              int64_t kv_head, int64_t r) {
    return (struct kl_attention_query){kv_head * j->group + r / j->n, r % j->n};
}
/* The last key that a query sees. Without a causal mask that is the last of all keys. */
static inline int64_t kl_attention_last_seen(const struct kl_attention_job *j, int64_t row) {
    return j->causal ? row + j->m - j->n : j->m - 1;
}

/* Loads n elements as float32. */
void kl_attention_load(const struct kl_arg *a, const char *from, int64_t n, float *to);
/* Reads rows first .. first + n - 1 as float32, `width` elements each: in place where they are
 * contiguous float32, else copied to `room`. *line becomes the number of elements from one row to
 * the next. */
const float *kl_attention_rows(const struct kl_arg *a, int64_t batch, int64_t head, int64_t first,
                               int64_t n, int64_t width, float *room, int64_t *line);
/* Applies the mask of one query to its scores of n <= KL_ATTENTION_CHUNK keys from `first` on; the
 * scores are `step` apart. */
void kl_attention_mask(const struct kl_attention_job *j, int64_t batch, struct kl_attention_query q,
                       int64_t first, int64_t n, float *scores, int64_t step);
/* The score of a head's sink. */
float kl_attention_sink(const struct kl_attention_job *j, int64_t head);
/* Stores e weighted sums, which are `step` apart, divided by the sum of the weights. */
void kl_attention_store(const struct kl_attention_job *j, int64_t batch,
                        struct kl_attention_query q, const float *sums, int64_t step, float total);

/* For the backward pass: keeps the largest score of a query and the sum of its weights
 * (attention_backward.c). */
void kl_attention_note(const struct kl_attention_job *j, int64_t batch, struct kl_attention_query q,
                       float top, float total);

/* Many queries share keys: one task of up to j->queries of them. */
void kl_attention_many_task(void *arg, int64_t task);
/* Few queries share keys: the whole operation. */
int kl_attention_few(struct kl_attention_job *j, int64_t batches);
