/* readers.h - threads that may block in a file or in a callback of the user, so that no other
 * thread has to. Their number grows on demand: an item goes to an idle thread or to a new one, so
 * that a blocked reader never delays another. */
#pragma once
#include "runtime/pool.h"

int kl_readers_start(struct kl_error **err); /* makes sure that at least one thread exists */
void kl_readers_push(struct kl_item *item);
int kl_readers_n_threads(void);

void kl_readers_fork_prepare(void);
void kl_readers_fork_parent(void);
void kl_readers_fork_child(void);
