/* rendezvous.h - how processes that no launcher of MPI started find each other: the first one
 * listens at an address that all of them are told. */
#pragma once
#include "backend/collective/control.h"

struct kl_rendezvous;
/* Connects all `size` processes with that of rank 0, which listens at `host` (a name or a number)
 * and `port`. It waits for all of them, for at most limit_ns. KL_EGROUP. */
int kl_rendezvous_open(struct kl_rendezvous **out, const char *host, int port, int rank, int size,
                       int64_t limit_ns, struct kl_error **err);
/* As in struct kl_gathering; its state is the rendezvous. */
int kl_rendezvous_gather(const struct kl_gathering *g, const void *from, void *to, size_t n,
                         struct kl_error **err);
bool kl_rendezvous_all_here(const struct kl_gathering *g);
void kl_rendezvous_close(struct kl_rendezvous *r); /* NULL is fine */
