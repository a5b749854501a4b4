/* system_macos.c - see system.h. */
#include "platform/system.h"

#include <crt_externs.h>
#include <mach-o/dyld.h>
#include <spawn.h>
#include <stdint.h>
#include <string.h>

const char b_library[] = "libkeel.dylib";

size_t b_self(char *path, size_t room) {
    uint32_t bytes = (uint32_t)room;
    if (_NSGetExecutablePath(path, &bytes)) path[0] = 0;
    return strlen(path);
}

pid_t b_spawn(const char *path, char *const *args) {
    pid_t pid;
    return posix_spawn(&pid, path, NULL, NULL, args, *_NSGetEnviron()) ? -1 : pid;
}

void b_prefer_large_pages(void *p, size_t n) {
    (void)p;
}

void b_heap_keep(void) {
}
