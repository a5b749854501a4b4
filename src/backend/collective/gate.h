/* gate.h - says when all ranks of a group are about to launch an exchange of their devices.
 *
 * An exchange is handed over only when every rank has encoded its part of it: then it ends by
 * itself (device_gate.c). The ranks of one host see gates in memory that they share. Where ranks
 * are on several hosts there are none. */
#pragma once
#include "backend/collective/control.h"

/* One lane of a group, made by the process that comes first in it. */
struct kl_gate;

/* Exchanges for which a rank may have arrived at once, ranks of a lane, bytes of a file's name. */
enum { KL_GATE_AHEAD = 8, KL_GATE_RANKS = 16, KL_GATES_NAME = 64 };

/* The memory of gates: one process of `size` makes a file, all map it, and all agree: without
 * memory for it in one of them (not all_have) there are no gates. A file that could not be made
 * has an empty name. */
void kl_gates_make(char file[KL_GATES_NAME], int size);
void kl_gates_map(const char *file, int rank, int size);
bool kl_gates_are_shared(void);
void kl_gates_agree(bool all_have);

/* A gate with a name that is the same on all ranks. NULL: there are too many. Under the lock of the
 * progress. */
struct kl_gate *kl_gate_new(uint64_t name);
/* The gate of this name that another process has made, or NULL when it has not yet. */
struct kl_gate *kl_gate_find(int process, uint64_t name);
/* Called by its maker when it is needed no more. NULL is fine. */
void kl_gate_end(struct kl_gate *g);

/* Rank `member` of the lane is ready for exchange `number`, which is `what` (KL_WORD_WHAT). It is
 * through number - KL_GATE_AHEAD. */
void kl_gate_arrive(struct kl_gate *g, int member, int64_t number, int64_t what);
/* Whether all `size` ranks have arrived for it. */
bool kl_gate_is_open(const struct kl_gate *g, uint64_t name, int size, int64_t number);
/* As if this rank had not arrived; false: the gate is open. */
bool kl_gate_withdraw(struct kl_gate *g, uint64_t name, int size, int64_t number);
/* All have arrived, and this rank has not handed the exchange over yet: whether another rank came
 * with another thing, *theirs. */
bool kl_gate_is_unlike(const struct kl_gate *g, uint64_t name, int size, int64_t number,
                       int64_t what, int64_t *theirs);
