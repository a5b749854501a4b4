/* arrange.c - see arrange.h. A walk goes depth first, so it meets the product of keys only after
 * what is made of the product of queries. A product moves forward to one that reads the same array,
 * when its other inputs are made by then; views among these, which do nothing, move with it. */
#include "graph/arrange.h"

#include <string.h>

#include "runtime/device.h"

enum {
    WINDOW = 40,    /* the number of following nodes that are looked at */
    MOST_MOVED = 8, /* a product and its views */
};

/* Larger results fill a device, and would keep their memory longer. */
static bool is_small_product(const struct kl_node *n) {
    return kl_op_flags(n->task.op) & KL_OPF_ROWS_BY_MATRIX && n->out[0] &&
           n->out[0]->t.size <= KL_SMALL_RESULT && kl_stream_device_type(n->stream) == KL_GPU;
}

/* The array that a is a view of, as far as this walk knows. */
static const struct kl_array *source_of(const struct kl_array *a) {
    while (a->node && !a->node->claimed && kl_op_flags(a->node->task.op) & KL_OPF_VIEW)
        a = a->node->in[0];
    return a;
}

/* Puts n, and the nodes at the places after `from` that it needs, into `moved`, producers first;
 * false when one that n needs is no view. A node that is not of this walk is made already. */
static bool collect(struct kl_node *n, struct kl_node *const *order, size_t n_order, size_t from,
                    struct kl_node **moved, int *n_moved) {
    for (int i = 0; i < n->n_in; i++) {
        struct kl_node *maker = n->in[i]->node;
        if (!maker || maker->claimed || (size_t)maker->index <= from) continue;
        kl_assert((size_t)maker->index < n_order && order[maker->index] == maker);
        bool here = false;
        for (int k = 0; k < *n_moved; k++) here = here || moved[k] == maker;
        if (here) continue;
        if (!(kl_op_flags(maker->task.op) & KL_OPF_VIEW) ||
            !collect(maker, order, n_order, from, moved, n_moved))
            return false;
    }
    if (*n_moved == MOST_MOVED) return false;
    moved[(*n_moved)++] = n;
    return true;
}

/* Moves the nodes of `moved`, which are between `from` and `to`, to the places after `from`. */
static void move(struct kl_node **order, size_t from, size_t to, struct kl_node *const *moved,
                 int n_moved) {
    size_t at = to;
    for (size_t k = to + 1; k-- > from + 1;) {
        bool leaves = false;
        for (int m = 0; m < n_moved; m++) leaves = leaves || order[k] == moved[m];
        if (!leaves) order[at--] = order[k];
    }
    memcpy(order + from + 1, moved, (size_t)n_moved * sizeof *order);
    for (size_t k = from + 1; k <= to; k++) order[k]->index = (int32_t)k;
}

void kl_arrange(struct kl_node **order, size_t n) {
    if (n > INT32_MAX) return;
    for (size_t i = 0; i < n; i++) order[i]->index = (int32_t)i;
    for (size_t i = 0; i < n; i++) {
        const struct kl_node *first = order[i];
        if (!is_small_product(first)) continue;
        for (size_t j = i + 1; j < n && j <= i + WINDOW; j++) {
            struct kl_node *other = order[j], *moved[MOST_MOVED];
            int n_moved = 0;
            if (other->task.op != first->task.op || other->stream != first->stream ||
                !is_small_product(other) || source_of(other->in[0]) != source_of(first->in[0]) ||
                !collect(other, order, n, i, moved, &n_moved))
                continue;
            move(order, i, j, moved, n_moved);
            i += (size_t)n_moved; /* the product that was moved; the next one goes after it */
            j = i;
        }
    }
}

/* The place after which n, at place `at`, can be made: its own, or for a single number that of the
 * last node it needs; -1: before all others. */
static int32_t place_of(const struct kl_node *n, int32_t at) {
    if (!kl_is_scalar_work(n)) return at;
    int32_t last = -1;
    for (int i = 0; i < n->n_in; i++) {
        const struct kl_node *maker = n->in[i]->node;
        if (maker && !maker->claimed && maker->index > last) last = maker->index;
    }
    return last;
}

void kl_scalars_early(struct kl_node *const *order, size_t n, struct kl_node **out,
                      int32_t *places) {
    kl_assert(n < INT32_MAX);
    memset(places, 0, (n + 1) * sizeof *places);
    for (size_t i = 0; i < n; i++) {
        order[i]->index = place_of(order[i], (int32_t)i);
        if (kl_is_scalar_work(order[i])) places[order[i]->index + 1]++;
    }
    /* Counts become the places at which the single numbers after each node begin. */
    int32_t at = places[0];
    places[0] = 0;
    for (size_t i = 0; i < n; i++) {
        if (!kl_is_scalar_work(order[i])) out[at++] = order[i];
        const int32_t follow = places[i + 1];
        places[i + 1] = at;
        at += follow;
    }
    kl_assert((size_t)at == n);
    for (size_t i = 0; i < n; i++)
        if (kl_is_scalar_work(order[i])) out[places[order[i]->index + 1]++] = order[i];
}
