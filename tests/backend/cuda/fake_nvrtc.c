/* fake_nvrtc.c - an NVRTC for tests, used with fake_cuda.c: a program is its source, and a source
 * that contains MISTAKE does not compile. */
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int nvrtcVersion(int *major, int *minor) {
    *major = 13;
    *minor = 99;
    return 0;
}
EXPORT int nvrtcGetNumSupportedArchs(int *n) {
    *n = 1;
    return 0;
}
EXPORT int nvrtcGetSupportedArchs(int *archs) {
    *archs = 90;
    return 0;
}
EXPORT int nvrtcCreateProgram(void **p, const char *source, const char *name, int n,
                              const char *const *headers, const char *const *names) {
    return (*p = strdup(source)) ? 0 : 1;
}
EXPORT int nvrtcDestroyProgram(void **p) {
    free(*p);
    return 0;
}
EXPORT int nvrtcCompileProgram(void *p, int n, const char *const *options) {
    return strstr(p, "MISTAKE") ? 6 : 0;
}
static const char log_text[] = "(2): error: MISTAKE is undefined\n";
EXPORT int nvrtcGetProgramLogSize(void *p, size_t *n) {
    *n = sizeof log_text;
    return 0;
}
EXPORT int nvrtcGetProgramLog(void *p, char *log) {
    memcpy(log, log_text, sizeof log_text);
    return 0;
}
EXPORT int nvrtcGetCUBINSize(void *p, size_t *n) {
    *n = strlen(p) + 1;
    return 0;
}
EXPORT int nvrtcGetCUBIN(void *p, char *out) {
    strcpy(out, p);
    return 0;
}
EXPORT int nvrtcGetPTXSize(void *p, size_t *n) {
    return nvrtcGetCUBINSize(p, n);
}
EXPORT int nvrtcGetPTX(void *p, char *out) {
    return nvrtcGetCUBIN(p, out);
}
