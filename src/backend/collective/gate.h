/* gate.h - says when all ranks of a group are about to launch an exchange of their devices.
 *
 * An exchange is handed over only when every rank has encoded its part of it: then it ends by
 * itself (device_gate.c). The ranks of one host see gates in memory that they share. Where ranks
 * are on several hosts there are none. */
#pragma once
#include "backend/collective/control.h"

/* One lane of a group, made by the process that comes first in it. */
struct kl_gate;

enum kl_gate_state { KL_GATE_CLOSED, KL_GATE_OPEN, KL_GATE_UNLIKE };

/* Shares memory with the others of `size` processes, when all are on this host. All call it.
 * Without memory for it there are no gates. */
int kl_gates_share(int rank, int size, kl_control_gather_fn *gather, void *arg,
                   struct kl_error **err);
bool kl_gates_are_shared(void);
/* A gate with a name that is the same on all ranks. NULL: there are too many. Under the lock of the
 * progress. */
struct kl_gate *kl_gate_new(uint64_t name);
/* That which another process has made, or NULL when it has not yet. */
struct kl_gate *kl_gate_find(int process, uint64_t name);
/* Called by its maker when it is needed no more. NULL is fine. */
void kl_gate_end(struct kl_gate *g);

/* This rank, one of `size`, is ready for exchange `number`, which is `what` (KL_WORD_WHAT). OPEN:
 * it was the last one. UNLIKE: another rank came with the other thing *theirs; this one has not
 * arrived. */
enum kl_gate_state kl_gate_arrive(struct kl_gate *g, uint64_t name, int size, int64_t number,
                                  int64_t what, int64_t *theirs);
/* Whether all have arrived for it. */
bool kl_gate_is_open(const struct kl_gate *g, uint64_t name, int64_t number);
/* As if this rank had not arrived; false: the gate is open. */
bool kl_gate_withdraw(struct kl_gate *g, uint64_t name, int64_t number);
