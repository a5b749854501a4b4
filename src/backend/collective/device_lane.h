/* device_lane.h - the lanes of a group on its devices: streams, communicators, gates. For device.c.
 * All under the lock of the progress, unless the comment says otherwise. */
#pragma once
#include "backend/collective/device.h"

/* KEEL_DIST_IN_LINE=1: small operations of all ranks run on the user's stream, which saves two
 * changes of streams. Later work of the stream then waits for the other ranks too, so
 * all ranks must evaluate in the same order also what does not depend on each other. */
bool kl_runs_in_line(void);

/* Makes what a lane needs at first use. mine: a stream of the user, for the lane in line, which
 * has none of its own; NULL for others. Without the lock. */
int kl_device_lane_open(struct kl_group *g, int lane, struct kl_stream *mine,
                        struct kl_error **err);
/* Releases all of that but the communicator. Without the lock. */
void kl_device_lane_close(struct kl_group *g, int lane);
/* The lane is to be connected, unless that has begun. */
void kl_device_lane_want(const struct kl_group *g, struct kl_device_lane *l);
/* Begins or goes on with connecting it, and lets go what waits at its gate where that is open. */
int kl_device_lane_advance(struct kl_group *g, int lane, struct kl_error **err);
/* The group is broken: nothing waits for the lane any more. */
void kl_device_lane_end(struct kl_device_lane *l);

/* Adds to the number that kl_device_n_changing returns. Any thread. */
void kl_device_count_changing(int more);
