/* memory.h - the memory of the machine, its pages, and the blocks of malloc. */
#pragma once
#include <stddef.h>

/* The bytes of memory that the machine has. 0: the system does not tell. */
size_t kl_memory_installed(void);
/* Asks that whole pages of 2 MB, with the first at `p`, back n bytes. It is a wish. */
void kl_memory_prefer_large_pages(void *p, size_t n);

/* The bytes of a block of malloc, at least those asked for. 0: the C library does not tell. */
size_t kl_heap_block_bytes(void *p);
/* Gives back to the system what malloc keeps for later calls. */
void kl_heap_give_back(void);
