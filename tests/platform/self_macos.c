/* self_macos.c - see self.h. */
#include "platform/self.h"

#include <crt_externs.h>
#include <mach-o/dyld.h>
#include <stdint.h>
#include <string.h>
#include <sys/sysctl.h>

const bool t_metal_is_simulated = false;

size_t t_self(char *path, size_t room) {
    uint32_t bytes = (uint32_t)room;
    if (_NSGetExecutablePath(path, &bytes)) path[0] = 0;
    return strlen(path);
}

char **t_environment(void) {
    return *_NSGetEnviron();
}

int t_n_processors(void) {
    int n = -1;
    size_t bytes = sizeof n;
    return sysctlbyname("hw.activecpu", &n, &bytes, NULL, 0) ? -1 : n;
}

int t_bind_to_one(void) {
    return -1;
}
