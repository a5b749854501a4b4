/* opencl_launch.c - programs and launches. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/gpu/lower/kernels.h"
#include "backend/opencl/opencl_internal.h"
#include "base/alloc.h"

enum { LOG_QUOTED = 2000 };

/* ---- programs ---- */

/* Fails with the compiler's log, cut to the length of a message: when the log is long, from its
 * first error on. */
static int build_failed(struct kl_opencl *d, cl_program program, const char *name, cl_int status,
                        struct kl_error **err) {
    size_t n = 0;
    char *log = NULL;
    if (kl_opencl_code(status) == KL_ENOMEM) return kl_opencl_result(err, "clBuildProgram", status);
    if (!kl_cl.clGetProgramBuildInfo(program, d->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &n) &&
        (log = kl_calloc(n + 1, 1)))
        kl_cl.clGetProgramBuildInfo(program, d->device, CL_PROGRAM_BUILD_LOG, n, log, NULL);
    const char *from = log ? log : "(no log)";
    const char *first = strlen(from) > LOG_QUOTED ? strstr(from, "error") : NULL;
    while (first && first > from && first[-1] != '\n') first--;
    if (first) from = first;
    int rc = kl_fail(err, KL_ECOMPILE,
                     "kernels '%s' do not compile for %s; clBuildProgram: %d (%s)\n%.*s", name,
                     d->facts.name, (int)status, kl_opencl_status_text(status), LOG_QUOTED, from);
    kl_free(log);
    return rc;
}

/* Stores the source itself, after the line that names its file. */
static int source_of(const char *line, const char *source, void **binary, size_t *bytes,
                     struct kl_error **err) {
    size_t n = strlen(line), m = strlen(source);
    char *text = kl_malloc(n + m + 1);
    if (!text) return kl_fail_nomem(err);
    memcpy(text, line, n);
    memcpy(text + n, source, m + 1);
    *binary = text;
    *bytes = n + m;
    return KL_OK;
}

/* PoCL reads clang's declarations of all built-in functions, 18,000 lines, for every program that
 * it compiles or finds in its cache: 110 ms of the 125 that a small one takes. It leaves them out
 * where the macro that guards them is defined. A kernel that calls a function which the prelude
 * does not declare, or another version of PoCL, makes that fail; then the program is built in the
 * usual way. */
static cl_int build_briefly(struct kl_opencl *d, cl_program program) {
    if (!d->brief_options[0]) return CL_BUILD_PROGRAM_FAILURE;
    return kl_cl.clBuildProgram(program, 1, &d->device, d->brief_options, NULL, NULL);
}

static int build(struct kl_opencl *d, cl_program program, const char *name, struct kl_error **err) {
    cl_int status = build_briefly(d, program);
    if (status) status = kl_cl.clBuildProgram(program, 1, &d->device, d->options, NULL, NULL);
    return status ? build_failed(d, program, name, status, err) : KL_OK;
}

static int binary_of(cl_program program, void **binary, size_t *bytes, struct kl_error **err) {
    size_t n = 0;
    KL_TRY(KL_CL(err, clGetProgramInfo, program, CL_PROGRAM_BINARY_SIZES, sizeof n, &n, NULL));
    if (n == 0) return kl_fail(err, KL_ECOMPILE, "OpenCL's compiler gives no binary");
    unsigned char *b = kl_malloc(n);
    if (!b) return kl_fail_nomem(err);
    int rc = KL_CL(err, clGetProgramInfo, program, CL_PROGRAM_BINARIES, sizeof b, &b, NULL);
    if (rc) {
        kl_free(b);
        return rc;
    }
    *binary = b;
    *bytes = n;
    return KL_OK;
}

int kl_opencl_compile(struct kl_driver *driver, const char *source, const char *name, void **binary,
                      size_t *bytes, struct kl_error **err) {
    struct kl_opencl *d = kl_opencl_of(driver);
    char line[160]; /* names the file in the compiler's messages */
    snprintf(line, sizeof line, "#line 1 \"%.120s\"\n", name);
    for (char *c = line + strlen("#line 1 \""); c[1] && c[1] != '\n'; c++)
        if (*c == '"' || *c == '\\' || *c == '\n') *c = '_';
    const char *texts[] = {line, source};
    cl_int status;
    KL_TRY(kl_opencl_usable(d, err));
    cl_program program = kl_cl.clCreateProgramWithSource(d->context, 2, texts, NULL, &status);
    KL_TRY(kl_opencl_result(err, "clCreateProgramWithSource", status));
    int rc = build(d, program, name, err);
    if (!rc)
        rc = d->keeps_programs ? source_of(line, source, binary, bytes, err)
                               : binary_of(program, binary, bytes, err);
    kl_cl.clReleaseProgram(program);
    return rc;
}

int kl_opencl_load_binary(struct kl_driver *driver, const void *binary, size_t bytes, void **module,
                          struct kl_error **err) {
    struct kl_opencl *d = kl_opencl_of(driver);
    const unsigned char *b = binary;
    const char *text = binary;
    cl_int status, taken;
    KL_TRY(kl_opencl_usable(d, err));
    cl_program program =
        d->keeps_programs ? kl_cl.clCreateProgramWithSource(d->context, 1, &text, &bytes, &status)
                          : kl_cl.clCreateProgramWithBinary(d->context, 1, &d->device, &bytes, &b,
                                                            &taken, &status);
    if (status) {
        int code = kl_opencl_code(status) == KL_ENOMEM ? KL_ENOMEM : KL_ECOMPILE;
        return kl_fail(err, code, "%s failed with %d (%s)",
                       d->keeps_programs ? "clCreateProgramWithSource"
                                         : "clCreateProgramWithBinary",
                       (int)status, kl_opencl_status_text(status));
    }
    int rc = build(d, program, "stored binary", err);
    if (rc) {
        kl_cl.clReleaseProgram(program);
        return rc;
    }
    *module = program;
    return KL_OK;
}

int kl_opencl_find(struct kl_driver *driver, void *module, const char *entry, void **kernel,
                   struct kl_error **err) {
    cl_int status;
    KL_TRY(kl_opencl_usable(kl_opencl_of(driver), err));
    *kernel = kl_cl.clCreateKernel(module, entry, &status);
    if (!status) return KL_OK;
    int code = kl_opencl_code(status) == KL_ENOMEM ? KL_ENOMEM : KL_ECOMPILE;
    return kl_fail(err, code, "kernel '%s': clCreateKernel failed with %d (%s)", entry, (int)status,
                   kl_opencl_status_text(status));
}

/* OpenCL would count the shared memory of arguments that are already set, but none is set yet. A
 * kernel that is compiled for one group size runs with it, whatever limit is reported: NVIDIA
 * reports 256 for kernels that it compiled for 1024, and runs them. */
int kl_opencl_limits(struct kl_driver *driver, void *kernel, struct kl_kernel_limits *limits,
                     struct kl_error **err) {
    struct kl_opencl *d = kl_opencl_of(driver);
    size_t most = 0, compiled_for[3] = {0};
    cl_ulong shared = 0;
    KL_TRY(kl_opencl_usable(d, err));
    KL_TRY(KL_CL(err, clGetKernelWorkGroupInfo, kernel, d->device, CL_KERNEL_WORK_GROUP_SIZE,
                 sizeof most, &most, NULL));
    KL_TRY(KL_CL(err, clGetKernelWorkGroupInfo, kernel, d->device,
                 CL_KERNEL_COMPILE_WORK_GROUP_SIZE, sizeof compiled_for, compiled_for, NULL));
    size_t own = compiled_for[0] * compiled_for[1] * compiled_for[2];
    if (own > most) most = own;
    KL_TRY(KL_CL(err, clGetKernelWorkGroupInfo, kernel, d->device, CL_KERNEL_LOCAL_MEM_SIZE,
                 sizeof shared, &shared, NULL));
    *limits = (struct kl_kernel_limits){most < UINT32_MAX ? (uint32_t)most : UINT32_MAX, shared};
    return KL_OK;
}

/* ---- launches ---- */

/* A device address is two arguments, buffer and offset, for PTR(x) of the dialect. */
static int set_address(struct kl_opencl *d, cl_kernel k, cl_uint *i, const void *address,
                       struct kl_error **err) {
    cl_mem mem = NULL;
    size_t at = 0;
    if (address) KL_TRY(kl_opencl_place(d, address, &mem, &at, err));
    cl_ulong offset = at;
    KL_TRY(KL_CL(err, clSetKernelArg, k, (*i)++, sizeof mem, mem ? &mem : NULL));
    return KL_CL(err, clSetKernelArg, k, (*i)++, sizeof offset, &offset);
}

/* *at: the index of the next argument. */
static int set_args(struct kl_opencl *d, cl_kernel k, cl_uint *at, const struct kl_karg *args,
                    int n_args, struct kl_error **err) {
    for (int i = 0; i < n_args; i++) {
        if (args[i].bytes == 0)
            KL_TRY(set_address(d, k, at, args[i].value, err));
        else
            KL_TRY(KL_CL(err, clSetKernelArg, k, (*at)++, args[i].bytes, args[i].value));
    }
    return KL_OK;
}

static int run(struct kl_opencl *d, struct kl_opencl_queue *q, cl_kernel kernel, cl_uint ndim,
               const size_t *all, const size_t *in_group, size_t shared_bytes,
               const struct kl_karg *args, int n_args, struct kl_error **err) {
    cl_uint at = 0;
    KL_TRY(kl_opencl_usable(d, err));
    kl_mutex_lock(&d->launching);
    int rc = set_args(d, kernel, &at, args, n_args, err);
    if (!rc && shared_bytes) rc = KL_CL(err, clSetKernelArg, kernel, at, shared_bytes, NULL);
    if (!rc)
        rc = KL_CL(err, clEnqueueNDRangeKernel, q->cl, kernel, ndim, NULL, all, in_group, 0, NULL,
                   NULL);
    kl_mutex_unlock(&d->launching);
    return rc;
}

int kl_opencl_launch(struct kl_driver *driver, void *queue, void *kernel, uint32_t groups,
                     uint32_t local, const struct kl_karg *args, int n_args,
                     struct kl_error **err) {
    size_t in_group = local, all = (size_t)groups * local;
    return run(kl_opencl_of(driver), queue, kernel, 1, &all, &in_group, 0, args, n_args, err);
}

int kl_opencl_launch_3d(struct kl_driver *driver, void *queue, void *kernel, const uint32_t *groups,
                        const uint32_t *local, size_t shared_bytes, const struct kl_karg *args,
                        int n_args, struct kl_error **err) {
    size_t in_group[3], all[3];
    for (int i = 0; i < 3; i++) {
        in_group[i] = local[i];
        all[i] = (size_t)groups[i] * local[i];
    }
    return run(kl_opencl_of(driver), queue, kernel, 3, all, in_group, shared_bytes, args, n_args,
               err);
}

int kl_opencl_copy(struct kl_driver *driver, void *queue, void *dst, const void *src, size_t bytes,
                   struct kl_error **err) {
    struct kl_opencl *d = kl_opencl_of(driver);
    cl_mem to, from;
    size_t to_at, from_at;
    KL_TRY(kl_opencl_usable(d, err));
    if (bytes == 0) return KL_OK;
    KL_TRY(kl_opencl_place(d, dst, &to, &to_at, err));
    KL_TRY(kl_opencl_place(d, src, &from, &from_at, err));
    return KL_CL(err, clEnqueueCopyBuffer, ((struct kl_opencl_queue *)queue)->cl, from, to, from_at,
                 to_at, bytes, 0, NULL, NULL);
}

/* ---- what the device supports ---- */

static bool has_word(const char *text, const char *word) {
    size_t n = strlen(word);
    for (const char *at = text; (at = strstr(at, word)); at += n)
        if ((at == text || at[-1] == ' ') && (at[n] == 0 || at[n] == ' ')) return true;
    return false;
}

static uint64_t hash_text(uint64_t h, const char *s) {
    for (; *s; s++) h = (h ^ (unsigned char)*s) * 1099511628211u;
    return (h ^ '\n') * 1099511628211u;
}

/* A hash of everything that a binary depends on, since the full text would not fit. The names in
 * front are for people who look into the file. */
static void identify(struct kl_opencl *d) {
    char platform[512] = "", platform_version[512] = "", c_version[256];
    kl_cl.clGetPlatformInfo(d->platform, CL_PLATFORM_NAME, sizeof platform - 1, platform, NULL);
    kl_cl.clGetPlatformInfo(d->platform, CL_PLATFORM_VERSION, sizeof platform_version - 1,
                            platform_version, NULL);
    kl_opencl_device_text(d->device, CL_DEVICE_OPENCL_C_VERSION, c_version, sizeof c_version);
    d->keeps_programs = strcmp(platform, "Portable Computing Language") == 0;
    uint64_t h = 14695981039346656037u;
    h = hash_text(h, d->keeps_programs ? "source" : "binary");
    h = hash_text(h, platform);
    h = hash_text(h, platform_version);
    h = hash_text(h, c_version);
    h = hash_text(h, d->facts.name);
    h = hash_text(h, d->facts.vendor);
    h = hash_text(h, d->facts.driver);
    h = hash_text(h, d->facts.architecture);
    h = hash_text(h, d->options);
    snprintf(d->driver.identity, sizeof d->driver.identity, "opencl %016llx %.60s, %.100s, %.60s",
             (unsigned long long)h, platform, d->facts.name, d->facts.driver);
}

void kl_opencl_programs_init(struct kl_opencl *d) {
    char extensions[8192];
    kl_opencl_device_text(d->device, CL_DEVICE_EXTENSIONS, extensions, sizeof extensions);
    uint32_t max_local =
        (uint32_t)kl_opencl_device_number(d->device, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof(size_t));
    d->driver.prelude = kl_source_prelude_opencl;
    d->driver.max_local = max_local ? max_local : 1;
    d->driver.local_bytes = kl_opencl_device_number(d->device, CL_DEVICE_LOCAL_MEM_SIZE, 8);
    d->driver.n_units = d->facts.units ? d->facts.units : 1;
    d->driver.subgroup = 1;
    d->driver.has_f64 = has_word(extensions, "cl_khr_fp64");
    d->driver.has_atomic64 = has_word(extensions, "cl_khr_int64_base_atomics");
    d->driver.on_processor = !d->is_gpu;
    d->driver.argument_bytes = 1 << 10; /* that every device of OpenCL takes */
    size_t most[3] = {0, 0, 0}; /* a device with more than three dimensions reports nothing here */
    kl_cl.clGetDeviceInfo(d->device, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof most, most, NULL);
    for (int i = 0; i < 3; i++)
        d->driver.max_group[i] = most[i] < UINT32_MAX ? (uint32_t)most[i] : UINT32_MAX;
    bool exact = kl_opencl_device_number(d->device, CL_DEVICE_SINGLE_FP_CONFIG, 8) &
                 CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT;
    snprintf(d->options, sizeof d->options, "-cl-std=CL1.2%s%s%s%s",
             exact ? " -cl-fp32-correctly-rounded-divide-sqrt" : "",
             d->driver.has_f64 ? " -DHAS_F64" : "", d->driver.has_atomic64 ? " -DHAS_ATOMIC64" : "",
             d->driver.on_processor ? " -DON_PROCESSOR" : "");
#ifdef KL_TEST_HOOKS
    /* Tests only: halves the time of compiling, or better. No test asks how fast a kernel is. */
    if (getenv("KEEL_TEST_QUICK_KERNELS")) strcat(d->options, " -cl-opt-disable");
#endif
    identify(d);
    if (d->keeps_programs)
        snprintf(d->brief_options, sizeof d->brief_options, "%s -D_OPENCL_H_ -DDECLARE_BUILTINS",
                 d->options);
}
