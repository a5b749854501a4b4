/* device_gate.h - the exchanges of this process at the gates of their lanes (gate.h), and calls
 * that wait for the device. Under the lock of the progress, unless the comment says otherwise. */
#pragma once
#include "backend/collective/device.h"

/* The lane is about to be used. KL_ELIMIT. */
int kl_device_gate_open(struct kl_group *g, int lane, struct kl_error **err);
void kl_device_gate_close(struct kl_group *g, int lane);

/* Exchange `number` of the lane, which is `what`, is encoded. KL_GATE_AHEAD may be at once. Without
 * the lock. */
void kl_device_gate_arrive(struct kl_device_lane *l, int64_t number, int64_t what);
/* Whether exchange `number` may be handed over; then the caller does so, and calls
 * kl_device_gate_passed. *is_unlike: another rank comes with *theirs. patient: looks for a few
 * microseconds. The caller holds the role of the lane's stream, and not the lock. */
bool kl_device_gate_pass(struct kl_group *g, struct kl_device_lane *l, int64_t number, bool patient,
                         bool *is_unlike, int64_t *theirs);
/* It may not: *w says for what to wait. Without the lock. */
void kl_device_gate_hold(struct kl_group *g, struct kl_device_lane *l, struct kl_wait *w);
/* It has been handed over. Without the lock. */
void kl_device_gate_passed(struct kl_device_lane *l);
/* Lets go what waits for the gate, where it is open now. */
void kl_device_gate_advance(struct kl_group *g, struct kl_device_lane *l);
/* The group is broken: nothing waits. */
void kl_device_gate_end(struct kl_device_lane *l);

/* Around a call that waits for all that runs on the device: first hands over what other ranks count
 * on, and keeps back the rest. Without the lock; begin returns what end takes. */
bool kl_device_stall_begin(void);
void kl_device_stall_end(bool begun);
