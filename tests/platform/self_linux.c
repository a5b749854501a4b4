/* self_linux.c - see self.h. */
#include "platform/self.h"

#include <sched.h>
#include <unistd.h>

const bool t_metal_is_simulated = true;

size_t t_self(char *path, size_t room) {
    const ssize_t n = readlink("/proc/self/exe", path, room - 1);
    path[n > 0 ? n : 0] = 0;
    return n > 0 ? (size_t)n : 0;
}

char **t_environment(void) {
    return environ;
}

int t_n_processors(void) {
    cpu_set_t mine;
    return sched_getaffinity(0, sizeof mine, &mine) ? -1 : CPU_COUNT(&mine);
}

int t_bind_to_one(void) {
    cpu_set_t mine, one;
    int first = 0;
    if (sched_getaffinity(0, sizeof mine, &mine)) return -1;
    while (!CPU_ISSET(first, &mine)) first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    return sched_setaffinity(0, sizeof one, &one);
}
