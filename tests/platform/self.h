/* self.h - what the tests ask a system for, and the library does not: the program that runs, and a
 * process that is bound to one processor. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* Whether a simulation stands for Metal: macOS has Metal itself. */
extern const bool t_metal_is_simulated;

/* Writes the path of the program that runs. Its length; 0: it is not known, or has no room. */
size_t t_self(char *path, size_t room);
/* The variables of the environment, as the C library keeps them. */
char **t_environment(void);
/* The number of processors to which the process is bound, or that there are. */
int t_n_processors(void);
/* Binds the process to one of them. -1: this system cannot. */
int t_bind_to_one(void);
