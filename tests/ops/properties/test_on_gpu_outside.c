/* test_on_gpu_outside.c - KEEL_VALIDATE on a real device (KEEL_TEST_GPU: opencl unless set; cuda):
 * a kernel of a user that writes one element behind an array, or before it, is reported by name
 * every time, and kernels that run beside it are never reported. So is a kernel that writes beside
 * its workspace. */
#include "graph/graph_support.h"
#include "backend/gpu/gpu_internal.h"
#include "base/op/validate.h"
#include "ops/kernel.h"
#include "ops/ops.h"
#include "ops/support/ok.h"

enum { TIMES = 5 };
static struct kl_stream *stream;

static int set_up(void **state) {
    const char *want = getenv("KEEL_TEST_GPU");
    kl_test_set_validating(true);
    setenv("KEEL_GPU", want ? want : "opencl", 1);
    struct kl_error *e = NULL;
    if (kl_stream_new(&stream, KL_GPU, 0, &e)) print_error("%s\n", e ? e->message : "no device");
    return stream ? 0 : -1;
}

static int tear_down(void **state) {
    kl_stream_release(stream);
    return 0;
}

/* The kernel y = x, which also writes one element at index where[0] of y, or at where[1] of x. In
 * range that is no mistake. The guard has 64 bytes, so one element of any dtype next to the array
 * lies in it. The byte that it writes differs from the byte that was there, since a fixed byte
 * would be the same as in every 256th guard. */
static struct kl_kernel *writer(void) {
    static const char *const in[] = {"x", "where"}, *const out[] = {"y"};
    struct kl_kernel *k = NULL;
    const struct kl_kernel_def def = {.name = "careless",
                                      .source = "i64 i = gid();\n"
                                                "if (i < y_size) y[i] = x[i];\n"
                                                "GLOBAL T *to = where[1] ? (GLOBAL T *)x : y;\n"
                                                "if (i == 0) to[where[0]] = (T)~to[where[0]];\n",
                                      .in_names = in,
                                      .n_in = 2,
                                      .out_names = out,
                                      .n_out = 1};
    OK(kl_kernel_new(&k, &def, &err));
    return k;
}

static struct kl_array *apply(const struct kl_kernel *k, struct kl_array *x, int at,
                              bool in_input) {
    const int two = 2, where[] = {at, in_input};
    const struct kl_out_spec y = {x->t.dtype, 1, x->t.dims};
    const struct kl_kernel_template t = {"T", KL_TEMPLATE_DTYPE, (int)x->t.dtype};
    const struct kl_kernel_use use = {.outs = &y,
                                      .n_outs = 1,
                                      .templates = &t,
                                      .n_templates = 1,
                                      .grid = {(int)x->t.size, 1, 1},
                                      .group = {64, 1, 1}};
    struct kl_array *in[2] = {x}, *made = NULL;
    OK(kl_array_new_data(&in[1], where, KL_I32, 1, &two, &err));
    OK(kl_kernel_apply(&made, k, &use, in, 2, stream, &err));
    kl_array_release(in[1]);
    return made;
}

static void expect(struct kl_array *y, int at, int n, bool in_input) {
    if (at >= 0 && at < n) {
        void *p;
        OK(kl_array_host(y, &p, &err));
        return;
    }
    struct kl_error *e = t_error(y);
    assert_int_equal(e->code, KL_EVALIDATE);
    assert_string_equal(e->op, "careless");
    const char *const parts[] = {"'careless'", in_input ? "input 0" : "output 0",
                                 at < 0 ? "in front of its first byte" : "after its last byte"};
    for (int i = 0; i < 3; i++)
        if (!strstr(e->message, parts[i])) fail_msg("no \"%s\" in: %s", parts[i], e->message);
    kl_error_release(e);
}

/* The sizes end at every place relative to the alignment of a device. */
static void one_element_beyond(void **state) {
    static const int sizes[] = {1, 3, 16, 63, 64, 255, 1000, 4096, 65537};
    static const enum kl_dtype dtypes[] = {KL_U8, KL_I16, KL_I32, KL_I64};
    struct kl_kernel *k = writer();
    for (int s = 0; s < 9; s++) {
        enum kl_dtype t = dtypes[s % 4];
        int n = sizes[s];
        for (int where = 0; where < 3; where++)
            for (int in_input = 0; in_input < 2; in_input++) {
                int at = where == 0 ? n : where == 1 ? -1 : n - 1;
                for (int i = 0; i < TIMES; i++) {
                    struct kl_array *x, *beside, *y;
                    OK(kl_zeros(&x, &n, 1, (int)t, stream, &err));
                    y = apply(k, x, at, in_input);
                    OK(kl_zeros(&beside, &n, 1, (int)t, stream, &err));
                    struct kl_array *all[] = {y, beside};
                    OK(kl_async_eval(all, 2, &err)); /* both are in one command buffer */
                    expect(y, at, n, in_input);
                    OK(kl_eval(&beside, 1, &err));
                    kl_array_release(x);
                    kl_array_release(y);
                    kl_array_release(beside);
                }
            }
    }
    kl_kernel_free(k);
}

/* ---- workspaces ---- */

static const struct kl_driver_ops *real_ops;
static int shift; /* bytes by which the workspaces of commands are moved */

/* As kl_driver_submit of the real driver, but for the places of workspaces. */
static int submit_shifted(struct kl_driver *d, void *queue, const struct kl_command *commands,
                          int n, void *const *waits, int n_waits,
                          struct kl_fault_words *brings_back, void *signal, struct kl_error **err) {
    struct kl_command *moved = malloc((size_t)n * sizeof *moved);
    for (int i = 0; i < n; i++) {
        moved[i] = commands[i];
        if (moved[i].workspace) moved[i].workspace = (char *)moved[i].workspace + shift;
    }
    const struct kl_driver_ops *mine = d->ops;
    d->ops = real_ops;
    int rc = kl_driver_submit(d, queue, moved, n, waits, n_waits, brings_back, signal, err);
    d->ops = mine;
    free(moved);
    return rc;
}

/* A sort writes its whole workspace. When that begins too early or too late, the sort is reported,
 * and the operations beside it are not. */
static void workspaces(void **state) {
    enum { LENGTH = 1 << 17 };
    struct kl_driver *d = kl_gpu_device_of(stream->backend)->driver;
    struct kl_driver_ops mine = *d->ops;
    mine.run = submit_shifted;
    real_ops = d->ops;
    for (int i = 0; i < 3 * TIMES; i++) {
        struct kl_array *x, *sorted, *beside;
        OK(kl_arange(&x, 0, LENGTH, 1, KL_F32, stream, &err));
        OK(kl_eval(&x, 1, &err));
        shift = i % 3 == 0 ? 0 : i % 3 == 1 ? -16 : 16;
        OK(kl_sort(&sorted, x, stream, &err));
        OK(kl_negative(&beside, x, stream, &err));
        struct kl_array *all[] = {sorted, beside};
        d->ops = &mine;
        OK(kl_async_eval(all, 2, &err));
        OK(kl_eval(&beside, 1, &err));
        d->ops = real_ops;
        if (shift == 0) {
            OK(kl_eval(&sorted, 1, &err));
        } else {
            struct kl_error *e = t_error(sorted);
            assert_int_equal(e->code, KL_EVALIDATE);
            if (!strstr(e->message, "workspace of 'sort'") ||
                !strstr(e->message, shift < 0 ? "in front of" : "after"))
                fail_msg("%s", e->message);
            kl_error_release(e);
        }
        kl_array_release(x);
        kl_array_release(sorted);
        kl_array_release(beside);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_element_beyond),
                                       cmocka_unit_test(workspaces)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
