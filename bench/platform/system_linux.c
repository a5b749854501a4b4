/* system_linux.c - see system.h. */
#include "platform/system.h"

#include <limits.h>
#include <malloc.h>
#include <spawn.h>
#include <sys/mman.h>
#include <unistd.h>

const char b_library[] = "libkeel.so";

size_t b_self(char *path, size_t room) {
    const ssize_t n = readlink("/proc/self/exe", path, room - 1);
    path[n > 0 ? n : 0] = 0;
    return n > 0 ? (size_t)n : 0;
}

pid_t b_spawn(const char *path, char *const *args) {
    pid_t pid;
    return posix_spawn(&pid, path, NULL, NULL, args, environ) ? -1 : pid;
}

void b_prefer_large_pages(void *p, size_t n) {
    madvise(p, n, MADV_HUGEPAGE);
}

void b_heap_keep(void) {
    mallopt(M_TRIM_THRESHOLD, INT_MAX);
    mallopt(M_MMAP_THRESHOLD, INT_MAX);
}
