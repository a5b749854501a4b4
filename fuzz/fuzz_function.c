/* fuzz_function.c - reads any bytes as a file of functions, calls each function for the arguments
 * that it takes, and evaluates what is small. There must be no crash, no leak and no hang, and
 * every failure has a message. */
#include <stdlib.h>

#include "graph/node.h"
#include "transforms/export.h"
#include "transforms/plan.h"

enum { SMALL = 4096, MOST_ARGUMENTS = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* Whether a and everything from which it is made has few elements: a file may ask for much work by
 * right, which is not what is looked for here. The files are short, so this may recurse. */
static bool is_small(const struct kl_array *a, uint64_t mark) {
    if (a->t.size > SMALL) return false;
    struct kl_node *node = a->node;
    if (!node || node->mark == mark) return true;
    node->mark = mark;
    for (int i = 0; i < node->n_in; i++)
        if (!is_small(node->in[i], mark)) return false;
    return true;
}

static void need_message(struct kl_error *err) {
    if (!err || !err->message || !err->message[0]) abort();
    kl_error_release(err);
}

static void evaluate(struct kl_array *a) {
    struct kl_error *err = NULL;
    kl_commit_lock();
    bool small = is_small(a, kl_walk_number());
    kl_commit_unlock();
    if (small && kl_eval(&a, 1, &err)) need_message(err);
}

/* Small numbers, which are good indices or just not. */
static int argument(struct kl_array **out, const struct kl_plan_spec *s) {
    int64_t size;
    void *bytes;
    if (!kl_shape_size(s->ndim, s->dims, kl_dtype_size(s->dtype), &size) || size > SMALL) return 1;
    if (kl_array_new_data(out, NULL, s->dtype, s->ndim, s->dims, NULL)) return 1;
    if (kl_array_host(*out, &bytes, NULL)) abort();
    const size_t width = kl_dtype_size(s->dtype);
    for (size_t i = 0; i < (size_t)size * width; i++)
        ((unsigned char *)bytes)[i] =
            i % width == 0 ? (unsigned char)(i / width % (s->dtype == KL_BOOL ? 2 : 4)) : 0;
    return 0;
}

static void call(const struct kl_imported *m, const struct kl_plan *p, struct kl_names names) {
    struct kl_array *args[MOST_ARGUMENTS];
    struct kl_arrays outs = {0};
    struct kl_error *err = NULL;
    int made = 0;
    while (made < p->n_args && made < MOST_ARGUMENTS && !argument(&args[made], &p->args[made]))
        made++;
    if (made == p->n_args) {
        if (kl_imported_call(m, args, (size_t)made, names, &outs, &err)) need_message(err);
        for (size_t i = 0; i < outs.n; i++) evaluate(outs.v[i]);
        kl_arrays_free(&outs);
    }
    while (made > 0) kl_array_release(args[--made]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct kl_imported *m;
    struct kl_error *err = NULL;
    struct kl_names names;
    if (kl_import_bytes(&m, data, n, "fuzz", &err)) {
        need_message(err);
        return 0;
    }
    const struct kl_plan *p;
    for (size_t i = 0; i < 8 && (p = kl_imported_plan(m, i, &names)); i++) call(m, p, names);
    kl_imported_release(m);
    return 0;
}
