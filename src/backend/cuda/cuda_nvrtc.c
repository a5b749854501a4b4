/* cuda_nvrtc.c - compiles CUDA C++ to programs by NVRTC. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cuda_api.h"
#include "base/alloc.h"
#include "base/exit_gate.h"

enum { LOG_QUOTED = 2000, MAX_ARCHS = 128, NVRTC_OUT_OF_MEMORY = 1, INCLUDE_BYTES = 640 };

/* The architecture to compile for: that of the device, or the newest older one that NVRTC knows,
 * whose PTX the driver translates. */
static int arch_for(const struct kl_nvrtc_api *api, int cc) {
    int n = 0, archs[MAX_ARCHS], best = cc;
    if (api->GetNumSupportedArchs(&n) || n <= 0 || n > MAX_ARCHS || api->GetSupportedArchs(archs))
        return cc;
    best = 0;
    for (int i = 0; i < n; i++)
        if (archs[i] <= cc && archs[i] > best) best = archs[i];
    return best ? best : cc;
}

int kl_nvrtc_arch(int cc) {
    const struct kl_nvrtc_api *api = kl_nvrtc_api(NULL);
    return api ? arch_for(api, cc) : 0;
}

/* Fails with the beginning of the log: compilers report the most important error first. */
static void fail_with_log(const struct kl_nvrtc_api *api, void *program, const char *name,
                          const char *note, struct kl_error **err) {
    size_t n = 0;
    char *log = NULL;
    if (api->GetProgramLogSize(program, &n) == 0 && n > 1 && (log = kl_calloc(1, n + 1)) &&
        api->GetProgramLog(program, log) == 0) {
        n = strlen(log);
        while (n > 0 && log[n - 1] == '\n') log[--n] = 0;
        kl_fail(err, KL_ECOMPILE, "kernel '%s' does not compile: %s%.*s%s", name, note, LOG_QUOTED,
                log, n > LOG_QUOTED ? " ..." : "");
    } else {
        kl_fail(err, KL_ECOMPILE, "kernel '%s' does not compile: %sNVRTC gives no reason", name,
                note);
    }
    kl_free(log);
}

/* The options for the folders of headers that a source includes: those of the toolkit and of its
 * C++ library. */
static int include_options(const char *source, char (*text)[INCLUDE_BYTES], const char **options) {
    const char *library, *folder = strstr(source, "#include") ? kl_nvrtc_include(&library) : NULL;
    if (!folder) return 0;
    snprintf(text[0], INCLUDE_BYTES, "--include-path=%s", folder);
    options[0] = text[0];
    if (!library) return 1;
    snprintf(text[1], INCLUDE_BYTES, "--include-path=%s", library);
    options[1] = text[1];
    return 2;
}

/* A possible reason why a source does not compile that was given n folders of headers. */
static const char *note_on_headers(const char *source, int n) {
    if (!strstr(source, "#include") || n == 2) return "";
    return n ? "it includes headers, and the toolkit's C++ library is not next to them (pip "
               "install "
               "nvidia-cuda-cccl, or KEEL_CUDA_PATH names a whole toolkit); "
             : "it includes headers, and no include folder of a CUDA toolkit is found (pip install "
               "nvidia-cuda-runtime nvidia-cuda-cccl, or KEEL_CUDA_PATH names the toolkit); ";
}

/* ---- the end of the process ---- */

/* NVRTC's own exit handlers release what a thread may be compiling with. */
static struct kl_exit_gate gate = KL_EXIT_GATE_INIT;
static pthread_once_t watched[2] = {PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT};

static void at_end(void) {
    kl_exit_gate_close(&gate);
}

/* After NVRTC is loaded, and again after the first program: handlers that NVRTC installs then would
 * run before the first of ours. Without memory for it the process may end badly, as before. */
static void watch_first(void) {
    kl_exit_gate_open(&gate);
    (void)atexit(at_end);
}
static void watch_again(void) {
    (void)atexit(at_end);
}

/* Inside all the time between kl_nvrtc_helper_begin and _end. */
static _Thread_local bool is_helper;

/* False: this thread ends the process. */
static bool begin_use(void) {
    pthread_once(&watched[0], watch_first);
    return is_helper || kl_exit_gate_enter(&gate);
}

static void end_use(void) {
    pthread_once(&watched[1], watch_again);
    if (!is_helper) kl_exit_gate_leave(&gate);
}

bool kl_nvrtc_helper_begin(void) {
    if (kl_nvrtc_api(NULL)) pthread_once(&watched[0], watch_first);
    return is_helper = kl_exit_gate_try(&gate);
}

void kl_nvrtc_helper_end(void) {
    is_helper = false;
    kl_exit_gate_leave(&gate);
}

static int compile(const struct kl_nvrtc_api *api, int cc, const char *source, const char *name,
                   void **binary, size_t *bytes, struct kl_error **err) {
    int arch = arch_for(api, cc);
    bool ptx = arch != cc;
    char arch_option[48];
    /* The instructions of the tensor cores of 9.0 are in that architecture alone ("a"). */
    snprintf(arch_option, sizeof arch_option, "--gpu-architecture=%s_%d%s", ptx ? "compute" : "sm",
             arch, !ptx && arch == 90 && strstr(source, "wgmma") ? "a" : "");
    /* Multiply and add are fused only where the source says so, as on the CPU. Denormals, division
     * and roots are IEEE by default. */
    const char *options[8] = {arch_option, "--fmad=false", "--std=c++17"};
    char headers[2][INCLUDE_BYTES];
    int n_headers = include_options(source, headers, options + 3), n_options = 3 + n_headers;
#ifdef KL_TEST_HOOKS
    /* The reason is in opencl_launch.c. Older compilers do not know the option. */
    if (getenv("KEEL_TEST_QUICK_KERNELS") && api->major >= 13)
        options[n_options++] = "--Ofast-compile=max";
#endif
    void *program = NULL;
    int rc = api->CreateProgram(&program, source, name, 0, NULL, NULL);
    if (rc == NVRTC_OUT_OF_MEMORY) return kl_fail_nomem(err);
    if (rc)
        return kl_fail(err, KL_ECOMPILE, "kernel '%s': nvrtcCreateProgram failed with %d", name,
                       rc);
    char *made = NULL;
    if ((rc = api->CompileProgram(program, n_options, options))) {
        fail_with_log(api, program, name, note_on_headers(source, n_headers), err);
        rc = KL_ECOMPILE;
        goto out;
    }
    if (ptx ? api->GetPTXSize(program, bytes) : api->GetCUBINSize(program, bytes)) *bytes = 0;
    if (!(made = kl_malloc(*bytes + 1))) {
        rc = kl_fail_nomem(err);
        goto out;
    }
    if (*bytes == 0 || (ptx ? api->GetPTX(program, made) : api->GetCUBIN(program, made))) {
        rc = kl_fail(err, KL_ECOMPILE, "kernel '%s': NVRTC made no program for sm_%d", name, arch);
        goto out;
    }
    *binary = made;
    made = NULL;
out:
    kl_free(made);
    api->DestroyProgram(&program);
    return rc;
}

int kl_nvrtc_compile(int cc, const char *source, const char *name, void **binary, size_t *bytes,
                     struct kl_error **err) {
    const char *why = NULL;
    const struct kl_nvrtc_api *api = kl_nvrtc_api(&why);
    if (!api) return kl_fail(err, KL_EUNSUPPORTED, "kernel '%s' cannot be compiled: %s", name, why);
    if (!begin_use())
        return kl_fail(err, KL_EUNSUPPORTED, "kernel '%s' cannot be compiled: the process ends",
                       name);
    const int rc = compile(api, cc, source, name, binary, bytes, err);
    end_use();
    return rc;
}
