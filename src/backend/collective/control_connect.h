/* control_connect.h - makes the connections of control.h. */
#pragma once
#include "backend/collective/control.h"

/* fds[i]: a connected socket to process i that does not block; -1 for `rank` itself. On failure
 * those that were made are the caller's. *on_host: how many lower ranks are on this host. */
int kl_control_connect(int *fds, int *on_host, int rank, int size, const struct kl_gathering *by,
                       struct kl_error **err);

enum { KL_HOST_BYTES = 128 };
/* The name of the host, and the number of its start: names alone are not unique everywhere. */
void kl_host_name(char host[KL_HOST_BYTES]);
