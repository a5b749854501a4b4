/* opencl_api.c - see opencl_api.h. */
#include "backend/opencl/opencl_api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/platform/libraries.h"

struct kl_opencl_functions kl_cl;

/* ---- loading ---- */

static const char *load(void) {
    static char why[512];
    const char *file = getenv("KEEL_OPENCL_LIBRARY");
    if (!file || !*file) file = kl_library_opencl;
    /* The library is never closed, because its threads and exit handlers may run after every use
     * that we know of. */
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *reason = dlerror();
        snprintf(why, sizeof why, "OpenCL's library could not be loaded (%s): %.200s",
                 kl_install_opencl, reason ? reason : file);
        return why;
    }
    struct kl_opencl_functions found;
#define LOOK_UP(name, type, parameters)                                                            \
    if (!(*(void **)&found.name = dlsym(library, #name))) {                                        \
        snprintf(why, sizeof why, "%s is not a library of OpenCL 1.2: it has no %s", file, #name); \
        dlclose(library);                                                                          \
        return why;                                                                                \
    }
    KL_OPENCL_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
#define LOOK_UP(name, type, parameters) *(void **)&found.name = dlsym(library, #name);
    KL_OPENCL_LATER_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
    kl_cl = found;
    return NULL;
}

const char *kl_opencl_load(void) {
    static bool tried;
    static const char *why;
    if (!tried) why = load();
    tried = true;
    return why;
}

/* ---- statuses ---- */

const char *kl_opencl_status_text(cl_int status) {
    static const struct {
        cl_int status;
        const char *text;
    } texts[] = {{CL_SUCCESS, "success"},
                 {CL_DEVICE_NOT_FOUND, "device not found"},
                 {CL_DEVICE_NOT_AVAILABLE, "device not available"},
                 {-3, "compiler not available"},
                 {CL_MEM_OBJECT_ALLOCATION_FAILURE, "memory object allocation failure"},
                 {CL_OUT_OF_RESOURCES, "out of resources"},
                 {CL_OUT_OF_HOST_MEMORY, "out of host memory"},
                 {-8, "memory copy overlap"},
                 {CL_BUILD_PROGRAM_FAILURE, "build program failure"},
                 {-13, "misaligned sub-buffer offset"},
                 {CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, "an event waited for has failed"},
                 {-15, "compile program failure"},
                 {-16, "linker not available"},
                 {-17, "link program failure"},
                 {-30, "invalid value"},
                 {-32, "invalid platform"},
                 {-33, "invalid device"},
                 {-34, "invalid context"},
                 {CL_INVALID_COMMAND_QUEUE, "invalid command queue"},
                 {-38, "invalid memory object"},
                 {CL_INVALID_BINARY, "invalid binary"},
                 {-43, "invalid build options"},
                 {-44, "invalid program"},
                 {-45, "invalid program executable"},
                 {CL_INVALID_KERNEL_NAME, "invalid kernel name"},
                 {-47, "invalid kernel definition"},
                 {-48, "invalid kernel"},
                 {-49, "invalid argument index"},
                 {-50, "invalid argument value"},
                 {-51, "invalid argument size"},
                 {-52, "invalid kernel arguments"},
                 {-54, "invalid work-group size"},
                 {-55, "invalid work-item size"},
                 {-57, "invalid event wait list"},
                 {-58, "invalid event"},
                 {-59, "invalid operation"},
                 {CL_INVALID_BUFFER_SIZE, "invalid buffer size"},
                 {-63, "invalid global work size"},
                 {CL_PLATFORM_NOT_FOUND_KHR, "no platform found"},
                 {CL_NVIDIA_ILLEGAL_ACCESS, "a kernel read or wrote outside its memory"}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].status == status) return texts[i].text;
    return "unknown status";
}

int kl_opencl_code(cl_int status) {
    switch (status) {
    case CL_SUCCESS: return KL_OK;
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_HOST_MEMORY: return KL_ENOMEM;
    case CL_DEVICE_NOT_AVAILABLE:
    /* An earlier command has failed, so the state of the queue is unknown. */
    case CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST:
    /* Our queues are valid until the driver has given up the device. */
    case CL_INVALID_COMMAND_QUEUE:
    case CL_NVIDIA_ILLEGAL_ACCESS: return KL_EDEVICELOST;
    default: return KL_ESUBMIT;
    }
}

int kl_opencl_result(struct kl_error **err, const char *call, cl_int status) {
    if (status == CL_SUCCESS) return KL_OK;
    return kl_fail(err, kl_opencl_code(status), "%s failed with %d (%s)", call, (int)status,
                   kl_opencl_status_text(status));
}
