/* graph_support.h - small graphs for tests of the core: int32 scalars and vectors made by CALL
 * operations, gates that hold a kernel until the test opens them, and the four combinations of CPU
 * and device for two streams. */
#pragma once
#include "support.h"

#include <pthread.h>

#include "backend/sim/sim.h"
#include "base/op/launch.h"
#include "base/op/op_params.h"
#include "graph/array.h"
#include "runtime/executor.h"

/* A gate holds the kernels that arrive at it until it is opened. */
struct gate {
    pthread_mutex_t mu;
    pthread_cond_t changed;
    bool open;
    int n_inside; /* kernels that have arrived */
};
void gate_init(struct gate *g);
void gate_pass(struct gate *g); /* arrives, and waits until the gate is open */
void gate_open(struct gate *g);
void gate_wait_arrived(struct gate *g, int n); /* waits until n kernels have arrived */

/* Builders, which abort the test on failure. A NULL stream means the default CPU stream. */
struct kl_array *t_const(struct kl_stream *s, int value);        /* int32 0-d */
struct kl_array *t_inc(struct kl_stream *s, struct kl_array *a); /* a + 1 */
struct kl_array *t_add(struct kl_stream *s, struct kl_array *a, struct kl_array *b);
struct kl_array *t_fail(struct kl_stream *s, struct kl_array *a /* or NULL */);
struct kl_array *t_gated(struct kl_stream *s, struct kl_array *a /* or NULL */, struct gate *g,
                         bool fail);
void t_pair(struct kl_stream *s, struct kl_array *a, bool fail,
            struct kl_array *out[2]);                             /* a + 1, a + 2 */
struct kl_array *t_vector(struct kl_stream *s, int n, int value); /* int32 (n,), all `value` */
struct kl_array *t_call(struct kl_stream *s, const struct kl_call_params *p,
                        struct kl_array *const *in, int n_in, enum kl_dtype dtype, int ndim,
                        const int *dims);

int t_value(struct kl_array *a); /* evaluates a; an error fails the test */
/* evaluates a; the test fails unless a fails; the caller owns the error */
struct kl_error *t_error(struct kl_array *a);
void t_expect_error(struct kl_array *a, int code);
/* async_eval, then waits until a is settled, without reading the error */
void t_settle(struct kl_array *a);

/* Makes a stream per letter of kinds, "c" or "g": "cg" gives a CPU stream and a stream of the
 * simulated device. */
void t_streams(const char *kinds, struct kl_stream **out);
void t_streams_free(int n, struct kl_stream **s);

/* Runs the body once for each placement of two streams: CPU and device in all four combinations. */
#define FOR_EACH_PLACEMENT(a, b)                                                              \
    for (int t_i_ = 0; t_i_ < 4; t_i_++)                                                      \
        for (struct kl_stream * t_s_[2], *a = (t_streams(t_placements[t_i_], t_s_), t_s_[0]), \
                                         *b = t_s_[1];                                        \
             a && b; t_streams_free(2, t_s_), a = NULL)
extern const char *const t_placements[4];

/* cmocka group set-up: the simulated device is the GPU. */
int t_use_sim(void **state);
