/* readers.h - threads that may block in a file or in a user's callback, so that nobody else has to.
 * They grow on demand: an item finds an idle thread or gets a new one, so that a blocked reader never delays another. */
#pragma once
#include "runtime/pool.h"

int kl_readers_start(struct kl_error **err); /* makes sure that one thread exists */
void kl_readers_push(struct kl_item *item);
int kl_readers_n_threads(void);

void kl_readers_fork_prepare(void);
void kl_readers_fork_parent(void);
void kl_readers_fork_child(void);
