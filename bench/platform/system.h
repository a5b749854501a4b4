/* system.h - what the benchmarks ask a system for, and the library does not. */
#pragma once
#include <stddef.h>
#include <sys/types.h>

extern const char b_library[]; /* the file of the library */

/* Writes the path of the program that runs. Its length; 0: it is not known, or has no room. */
size_t b_self(char *path, size_t room);
/* Starts a program, of which nothing of this process is copied; -1: it cannot be started. */
pid_t b_spawn(const char *path, char *const *args);
/* Asks for large pages behind n bytes at p. */
void b_prefer_large_pages(void *p, size_t n);
/* Lets malloc keep all memory that is freed, where it can be told. */
void b_heap_keep(void);
