/* opencl_api.h - the part of OpenCL 1.2 (and a little of 2.0, where present) that the driver uses,
 * declared here and loaded at run time.
 *
 * No header of OpenCL is needed to build, and no library to start. Names and numbers are those of
 * the standard. Functions are called as kl_cl.clFlush(...), or through KL_CL, which turns a status
 * into one of our codes and names the call in the message. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef int32_t cl_int;
typedef uint32_t cl_uint, cl_bool;
typedef uint64_t cl_ulong, cl_bitfield;
typedef struct cl_platform_object *cl_platform_id;
typedef struct cl_device_object *cl_device_id;
typedef struct cl_context_object *cl_context;
typedef struct cl_queue_object *cl_command_queue;
typedef struct cl_mem_object *cl_mem;
typedef struct cl_program_object *cl_program;
typedef struct cl_kernel_object *cl_kernel;
typedef struct cl_event_object *cl_event;
typedef intptr_t cl_context_properties;

enum {
    CL_SUCCESS = 0,
    CL_DEVICE_NOT_FOUND = -1,
    CL_DEVICE_NOT_AVAILABLE = -2,
    CL_MEM_OBJECT_ALLOCATION_FAILURE = -4,
    CL_OUT_OF_RESOURCES = -5,
    CL_OUT_OF_HOST_MEMORY = -6,
    CL_BUILD_PROGRAM_FAILURE = -11,
    CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST = -14,
    CL_INVALID_COMMAND_QUEUE = -36,
    CL_INVALID_BINARY = -42,
    CL_INVALID_KERNEL_NAME = -46,
    CL_INVALID_BUFFER_SIZE = -61,
    CL_PLATFORM_NOT_FOUND_KHR = -1001,
    CL_NVIDIA_ILLEGAL_ACCESS =
        -9999, /* no header names it; NVIDIA's status for a kernel that crashed */

    CL_FALSE = 0,
    CL_TRUE = 1,
    CL_COMPLETE = 0,

    CL_PLATFORM_VERSION = 0x0901,
    CL_PLATFORM_NAME = 0x0902,
    CL_CONTEXT_PLATFORM = 0x1084,

    CL_DEVICE_TYPE = 0x1000,
    CL_DEVICE_MAX_COMPUTE_UNITS = 0x1002,
    CL_DEVICE_MAX_WORK_GROUP_SIZE = 0x1004,
    CL_DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010,
    CL_DEVICE_SINGLE_FP_CONFIG = 0x101B,
    CL_DEVICE_GLOBAL_MEM_SIZE = 0x101F,
    CL_DEVICE_LOCAL_MEM_SIZE = 0x1023,
    CL_DEVICE_ENDIAN_LITTLE = 0x1026,
    CL_DEVICE_AVAILABLE = 0x1027,
    CL_DEVICE_COMPILER_AVAILABLE = 0x1028,
    CL_DEVICE_NAME = 0x102B,
    CL_DEVICE_MAX_WORK_ITEM_SIZES = 0x1005,
    CL_DEVICE_VENDOR = 0x102C,
    CL_DRIVER_VERSION = 0x102D,
    CL_DEVICE_VERSION = 0x102F,
    CL_DEVICE_EXTENSIONS = 0x1030,
    CL_DEVICE_HOST_UNIFIED_MEMORY = 0x1035,
    CL_DEVICE_OPENCL_C_VERSION = 0x103D,
    CL_DEVICE_SVM_CAPABILITIES = 0x1053, /* since OpenCL 2.0 */

    CL_DEVICE_TYPE_GPU = 1 << 2,
    CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT = 1 << 7,

    CL_DEVICE_SVM_FINE_GRAIN_BUFFER = 1 << 1,

    CL_MAP_READ = 1 << 0,
    CL_MEM_READ_WRITE = 1 << 0,
    CL_MEM_READ_ONLY = 1 << 2,
    CL_MEM_USE_HOST_PTR = 1 << 3,
    CL_MEM_SVM_FINE_GRAIN_BUFFER = 1 << 10,
    CL_PROGRAM_BINARY_SIZES = 0x1165,
    CL_PROGRAM_BINARIES = 0x1166,
    CL_PROGRAM_BUILD_LOG = 0x1183,
    CL_KERNEL_WORK_GROUP_SIZE = 0x11B0,
    CL_KERNEL_COMPILE_WORK_GROUP_SIZE = 0x11B1,
    CL_KERNEL_LOCAL_MEM_SIZE = 0x11B2,
    CL_EVENT_COMMAND_EXECUTION_STATUS = 0x11D3,
};
#define CL_DEVICE_TYPE_ALL 0xFFFFFFFFu

/* F(name, return type, parameters) */
#define KL_OPENCL_FUNCTIONS(F)                                                                    \
    F(clGetPlatformIDs, cl_int, (cl_uint n, cl_platform_id * out, cl_uint * found))               \
    F(clGetPlatformInfo, cl_int,                                                                  \
      (cl_platform_id p, cl_uint what, size_t room, void *out, size_t *bytes))                    \
    F(clGetDeviceIDs, cl_int,                                                                     \
      (cl_platform_id p, cl_bitfield type, cl_uint n, cl_device_id * out, cl_uint * found))       \
    F(clGetDeviceInfo, cl_int,                                                                    \
      (cl_device_id d, cl_uint what, size_t room, void *out, size_t *bytes))                      \
    F(clCreateContext, cl_context,                                                                \
      (const cl_context_properties *properties, cl_uint n, const cl_device_id *devices,           \
       void (*notify)(const char *, const void *, size_t, void *), void *arg, cl_int *status))    \
    F(clReleaseContext, cl_int, (cl_context c))                                                   \
    F(clCreateCommandQueue, cl_command_queue,                                                     \
      (cl_context c, cl_device_id d, cl_bitfield properties, cl_int * status))                    \
    F(clReleaseCommandQueue, cl_int, (cl_command_queue q))                                        \
    F(clFlush, cl_int, (cl_command_queue q))                                                      \
    F(clFinish, cl_int, (cl_command_queue q))                                                     \
    F(clCreateBuffer, cl_mem,                                                                     \
      (cl_context c, cl_bitfield flags, size_t bytes, void *host, cl_int *status))                \
    F(clReleaseMemObject, cl_int, (cl_mem m))                                                     \
    F(clEnqueueReadBuffer, cl_int,                                                                \
      (cl_command_queue q, cl_mem m, cl_bool blocking, size_t offset, size_t bytes, void *dst,    \
       cl_uint n_waits, const cl_event *waits, cl_event *event))                                  \
    F(clEnqueueWriteBuffer, cl_int,                                                               \
      (cl_command_queue q, cl_mem m, cl_bool blocking, size_t offset, size_t bytes,               \
       const void *src, cl_uint n_waits, const cl_event *waits, cl_event *event))                 \
    F(clEnqueueMapBuffer, void *,                                                                 \
      (cl_command_queue q, cl_mem m, cl_bool blocking, cl_bitfield flags, size_t offset,          \
       size_t bytes, cl_uint n_waits, const cl_event *waits, cl_event *event, cl_int *status))    \
    F(clEnqueueUnmapMemObject, cl_int,                                                            \
      (cl_command_queue q, cl_mem m, void *mapped, cl_uint n_waits, const cl_event *waits,        \
       cl_event *event))                                                                          \
    F(clWaitForEvents, cl_int, (cl_uint n, const cl_event *events))                               \
    F(clEnqueueCopyBuffer, cl_int,                                                                \
      (cl_command_queue q, cl_mem src, cl_mem dst, size_t src_offset, size_t dst_offset,          \
       size_t bytes, cl_uint n_waits, const cl_event *waits, cl_event *event))                    \
    F(clEnqueueNDRangeKernel, cl_int,                                                             \
      (cl_command_queue q, cl_kernel k, cl_uint ndim, const size_t *offset, const size_t *global, \
       const size_t *local, cl_uint n_waits, const cl_event *waits, cl_event *event))             \
    F(clEnqueueMarkerWithWaitList, cl_int,                                                        \
      (cl_command_queue q, cl_uint n_waits, const cl_event *waits, cl_event *event))              \
    F(clEnqueueBarrierWithWaitList, cl_int,                                                       \
      (cl_command_queue q, cl_uint n_waits, const cl_event *waits, cl_event *event))              \
    F(clGetEventInfo, cl_int, (cl_event e, cl_uint what, size_t room, void *out, size_t *bytes))  \
    F(clSetEventCallback, cl_int,                                                                 \
      (cl_event e, cl_int when, void (*fn)(cl_event, cl_int, void *), void *arg))                 \
    F(clReleaseEvent, cl_int, (cl_event e))                                                       \
    F(clCreateProgramWithSource, cl_program,                                                      \
      (cl_context c, cl_uint n, const char **texts, const size_t *bytes, cl_int *status))         \
    F(clCreateProgramWithBinary, cl_program,                                                      \
      (cl_context c, cl_uint n, const cl_device_id *devices, const size_t *bytes,                 \
       const unsigned char **binaries, cl_int *statuses, cl_int *status))                         \
    F(clBuildProgram, cl_int,                                                                     \
      (cl_program p, cl_uint n, const cl_device_id *devices, const char *options,                 \
       void (*notify)(cl_program, void *), void *arg))                                            \
    F(clGetProgramInfo, cl_int,                                                                   \
      (cl_program p, cl_uint what, size_t room, void *out, size_t *bytes))                        \
    F(clGetProgramBuildInfo, cl_int,                                                              \
      (cl_program p, cl_device_id d, cl_uint what, size_t room, void *out, size_t *bytes))        \
    F(clReleaseProgram, cl_int, (cl_program p))                                                   \
    F(clCreateKernel, cl_kernel, (cl_program p, const char *name, cl_int *status))                \
    F(clGetKernelWorkGroupInfo, cl_int,                                                           \
      (cl_kernel k, cl_device_id d, cl_uint what, size_t room, void *out, size_t *bytes))         \
    F(clSetKernelArg, cl_int, (cl_kernel k, cl_uint i, size_t bytes, const void *value))

/* Functions of OpenCL 2.0. NULL in a library that does not have them. */
#define KL_OPENCL_LATER_FUNCTIONS(F)                                                          \
    F(clSVMAlloc, void *, (cl_context c, cl_bitfield flags, size_t bytes, cl_uint alignment)) \
    F(clSVMFree, void, (cl_context c, void *p))

struct kl_opencl_functions {
#define KL_OPENCL_FIELD(name, type, parameters) type(*name) parameters;
    KL_OPENCL_FUNCTIONS(KL_OPENCL_FIELD)
    KL_OPENCL_LATER_FUNCTIONS(KL_OPENCL_FIELD)
#undef KL_OPENCL_FIELD
};
extern struct kl_opencl_functions kl_cl; /* complete once kl_opencl_load has returned NULL */

/* Loads the library on the first call: $KEEL_OPENCL_LIBRARY, else kl_library_opencl. Returns NULL,
 * or immortal text for users that says why there is none. One thread at a time. */
const char *kl_opencl_load(void);

/* The text of a status: "out of resources" for -5, "unknown status" for a number that the standard
 * does not define. */
const char *kl_opencl_status_text(cl_int status);
/* Turns a status into one of our codes. A failure in the state of the queue is KL_EDEVICELOST; a
 * refusal of one call is KL_ESUBMIT. */
int kl_opencl_code(cl_int status);
/* 0, or the code with the message "<call> failed with <status> (<text>)". */
int kl_opencl_result(struct kl_error **err, const char *call, cl_int status);
/* KL_TRY(KL_CL(err, clFlush, q)): the code of a call; the message names the call. */
#define KL_CL(err, name, ...) kl_opencl_result(err, #name, kl_cl.name(__VA_ARGS__))
