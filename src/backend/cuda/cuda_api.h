/* cuda_api.h - the parts of the CUDA driver API, of NVRTC, cuBLASLt, cuDNN, cuSOLVER, cuBLAS
 * and NCCL that Keel uses. They are declared here and loaded at run time.
 *
 * No header and no library of the toolkit is needed to build. For a library that is missing there
 * is a reason in words. Any thread may call. */
#pragma once
#include "base/error.h"

#include <stddef.h>

/* Numbers of the ABI, the same as in cuda.h. */
enum {
    KL_CU_SUCCESS = 0,
    KL_CU_OUT_OF_MEMORY = 2,
    KL_CU_NOT_FOUND = 500,
    KL_CU_NOT_READY = 600,

    KL_CU_ATTR_MAX_THREADS_PER_BLOCK = 1,
    KL_CU_ATTR_SHARED_BYTES_PER_BLOCK = 8,
    KL_CU_ATTR_MULTIPROCESSORS = 16,
    KL_CU_ATTR_INTEGRATED = 18,
    KL_CU_ATTR_PCI_BUS = 33,
    KL_CU_ATTR_PCI_DEVICE = 34,
    KL_CU_ATTR_PCI_DOMAIN = 50,
    KL_CU_ATTR_CC_MAJOR = 75,
    KL_CU_ATTR_CC_MINOR = 76,
    KL_CU_ATTR_PAGEABLE_ACCESS = 88,
    KL_CU_ATTR_CONCURRENT_MANAGED = 89,

    KL_CU_ATTR_MAX_BLOCK_X = 2,
    KL_CU_ATTR_MAX_BLOCK_Y = 3,
    KL_CU_ATTR_MAX_BLOCK_Z = 4,
    KL_CU_ATTR_MAX_GRID_X = 5,
    KL_CU_ATTR_MAX_GRID_Y = 6,
    KL_CU_ATTR_MAX_GRID_Z = 7,
    KL_CU_ATTR_SHARED_BYTES_OPTIN = 97,

    KL_CU_FUNC_MAX_THREADS_PER_BLOCK = 0,
    KL_CU_FUNC_SHARED_BYTES = 1,
    KL_CU_FUNC_MAX_DYNAMIC_SHARED_BYTES = 8,

    KL_CU_MEM_ATTACH_GLOBAL = 1,
    KL_CU_STREAM_IS_NON_BLOCKING = 1,
    KL_CU_EVENT_HAS_NO_TIMING = 2,
};
typedef uint64_t kl_cuda_address;

/* F(name, symbol, parameters): functions of libcuda; all return a CUresult. The symbols are those
 * of the ABI, whose names include a version. */
#define KL_CUDA_FUNCTIONS(F)                                                                       \
    F(Init, "cuInit", (unsigned flags))                                                            \
    F(DriverGetVersion, "cuDriverGetVersion", (int *version))                                      \
    F(GetErrorName, "cuGetErrorName", (int result, const char **name))                             \
    F(DeviceGetCount, "cuDeviceGetCount", (int *n))                                                \
    F(DeviceGet, "cuDeviceGet", (int *device, int index))                                          \
    F(DeviceGetName, "cuDeviceGetName", (char *name, int room, int device))                        \
    F(DeviceGetAttribute, "cuDeviceGetAttribute", (int *value, int attribute, int device))         \
    F(DeviceTotalMem, "cuDeviceTotalMem_v2", (size_t * bytes, int device))                         \
    F(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (void **context, int device))            \
    F(CtxSetCurrent, "cuCtxSetCurrent", (void *context))                                           \
    F(MemAlloc, "cuMemAlloc_v2", (kl_cuda_address * address, size_t bytes))                        \
    F(MemAllocManaged, "cuMemAllocManaged",                                                        \
      (kl_cuda_address * address, size_t bytes, unsigned flags))                                   \
    F(MemFree, "cuMemFree_v2", (kl_cuda_address address))                                          \
    F(MemHostAlloc, "cuMemHostAlloc", (void **p, size_t bytes, unsigned flags))                    \
    F(MemFreeHost, "cuMemFreeHost", (void *p))                                                     \
    F(MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2",                                                     \
      (void *dst, kl_cuda_address src, size_t bytes, void *stream))                                \
    F(MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2",                                                     \
      (kl_cuda_address dst, const void *src, size_t bytes, void *stream))                          \
    F(MemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2",                                                     \
      (kl_cuda_address dst, kl_cuda_address src, size_t bytes, void *stream))                      \
    F(MemsetD32Async, "cuMemsetD32Async",                                                          \
      (kl_cuda_address dst, unsigned v, size_t n, void *stream))                                   \
    F(StreamCreate, "cuStreamCreate", (void **stream, unsigned flags))                             \
    F(StreamDestroy, "cuStreamDestroy_v2", (void *stream))                                         \
    F(StreamSynchronize, "cuStreamSynchronize", (void *stream))                                    \
    F(StreamWaitEvent, "cuStreamWaitEvent", (void *stream, void *event, unsigned flags))           \
    F(LaunchHostFunc, "cuLaunchHostFunc", (void *stream, void (*fn)(void *), void *arg))           \
    F(EventCreate, "cuEventCreate", (void **event, unsigned flags))                                \
    F(EventRecord, "cuEventRecord", (void *event, void *stream))                                   \
    F(EventQuery, "cuEventQuery", (void *event))                                                   \
    F(EventSynchronize, "cuEventSynchronize", (void *event))                                       \
    F(ModuleLoadData, "cuModuleLoadData", (void **module, const void *image))                      \
    F(ModuleGetFunction, "cuModuleGetFunction", (void **function, void *module, const char *name)) \
    F(FuncGetAttribute, "cuFuncGetAttribute", (int *value, int attribute, void *function))         \
    F(FuncSetAttribute, "cuFuncSetAttribute", (void *function, int attribute, int value))          \
    F(LaunchKernel, "cuLaunchKernel",                                                              \
      (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,            \
       unsigned bz, unsigned shared_bytes, void *stream, void **params, void **extra))

/* The launch that a node of a graph makes; the layout is that of cuda.h (version 2). */
struct kl_cuda_node {
    void *function;
    unsigned grid[3], block[3], shared_bytes;
    void **params, **extra;
    void *kernel, *context; /* NULL: `function` determines both */
};

/* Either all of these are loaded or none: a driver before CUDA 12 lacks some. */
#define KL_CUDA_GRAPH_FUNCTIONS(F)                                       \
    F(GraphCreate, "cuGraphCreate", (void **graph, unsigned flags))      \
    F(GraphDestroy, "cuGraphDestroy", (void *graph))                     \
    F(GraphAddKernelNode, "cuGraphAddKernelNode_v2",                     \
      (void **node, void *graph, void *const *after, size_t n_after,     \
       const struct kl_cuda_node *what))                                 \
    F(GraphInstantiate, "cuGraphInstantiateWithFlags",                   \
      (void **exec, void *graph, unsigned long long flags))              \
    F(GraphExecDestroy, "cuGraphExecDestroy", (void *exec))              \
    F(GraphExecKernelNodeSetParams, "cuGraphExecKernelNodeSetParams_v2", \
      (void *exec, void *node, const struct kl_cuda_node *what))         \
    F(GraphLaunch, "cuGraphLaunch", (void *exec, void *stream))

/* An edge of a graph, as in cuda.h. From the port below a kernel may start when all groups of the
 * one before have said so (kernels/prelude_cuda.kl). Not in drivers before CUDA 12.3. */
enum { KL_CU_EDGE_PORT_PROGRAMMATIC = 1, KL_CU_EDGE_PROGRAMMATIC = 1 };
struct kl_cuda_edge {
    unsigned char from_port, to_port, type, reserved[5];
};
#define KL_CUDA_EDGE_FUNCTIONS(F)                                                         \
    F(GraphAddDependencies, "cuGraphAddDependencies_v2",                                  \
      (void *graph, void *const *from, void *const *to, const struct kl_cuda_edge *edges, \
       size_t n))

/* To take apart a graph that another library's calls were captured in. Either all of these are
 * loaded or none. The numbers are those of cuda.h. */
enum {
    KL_CU_CAPTURE_OF_THREAD = 1, /* calls of other threads are not affected */
    KL_CU_NODE_KERNEL = 0,
    KL_CU_NODE_WAIT = 6,
    KL_CU_NODE_RECORD = 7,
};
#define KL_CUDA_CAPTURE_FUNCTIONS(F)                                                              \
    F(StreamBeginCapture, "cuStreamBeginCapture_v2", (void *stream, int mode))                    \
    F(StreamEndCapture, "cuStreamEndCapture", (void *stream, void **graph))                       \
    F(GraphGetNodes, "cuGraphGetNodes", (void *graph, void **nodes, size_t *n))                   \
    F(GraphNodeGetType, "cuGraphNodeGetType", (void *node, int *type))                            \
    F(GraphKernelNodeGetParams, "cuGraphKernelNodeGetParams_v2",                                  \
      (void *node, struct kl_cuda_node *what))                                                    \
    F(GraphKernelNodeCopyAttributes, "cuGraphKernelNodeCopyAttributes", (void *to, void *from))   \
    F(GraphEventRecordNodeGetEvent, "cuGraphEventRecordNodeGetEvent", (void *node, void **event)) \
    F(GraphAddEventRecordNode, "cuGraphAddEventRecordNode",                                       \
      (void **node, void *graph, void *const *after, size_t n_after, void *event))

/* Describes a tensor to the tensor memory accelerator. Not in drivers before CUDA 12. The numbers
 * are those of cuda.h. */
enum {
    KL_CU_MAP_F16 = 6,
    KL_CU_MAP_BF16 = 9,
    KL_CU_MAP_SWIZZLE_128 = 3,
    KL_CU_MAP_L2_256 = 3,
};
#define KL_CUDA_MAP_FUNCTIONS(F)                                                            \
    F(TensorMapEncodeTiled, "cuTensorMapEncodeTiled",                                       \
      (void *map, int type, uint32_t n_dims, void *address, const uint64_t *dims,           \
       const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave, \
       int swizzle, int l2, int fill))

#define KL_NVRTC_FUNCTIONS(F)                                                                 \
    F(Version, "nvrtcVersion", (int *major, int *minor))                                      \
    F(GetNumSupportedArchs, "nvrtcGetNumSupportedArchs", (int *n))                            \
    F(GetSupportedArchs, "nvrtcGetSupportedArchs", (int *archs))                              \
    F(CreateProgram, "nvrtcCreateProgram",                                                    \
      (void **program, const char *source, const char *name, int n_headers,                   \
       const char *const *headers, const char *const *names))                                 \
    F(DestroyProgram, "nvrtcDestroyProgram", (void **program))                                \
    F(CompileProgram, "nvrtcCompileProgram", (void *program, int n, const char *const *opts)) \
    F(GetProgramLogSize, "nvrtcGetProgramLogSize", (void *program, size_t *bytes))            \
    F(GetProgramLog, "nvrtcGetProgramLog", (void *program, char *log))                        \
    F(GetCUBINSize, "nvrtcGetCUBINSize", (void *program, size_t *bytes))                      \
    F(GetCUBIN, "nvrtcGetCUBIN", (void *program, char *cubin))                                \
    F(GetPTXSize, "nvrtcGetPTXSize", (void *program, size_t *bytes))                          \
    F(GetPTX, "nvrtcGetPTX", (void *program, char *ptx))

/* ---- cuBLASLt ---- */

/* Numbers of the ABI, the same as in cublas_api.h, cublasLt.h and library_types.h. */
enum {
    KL_BLAS_ALLOC_FAILED = 3,
    KL_BLAS_INVALID_VALUE = 7,
    KL_BLAS_ARCH_MISMATCH = 8,
    KL_BLAS_NOT_SUPPORTED = 15,

    KL_BLAS_OP_N = 0,
    KL_BLAS_OP_T = 1,

    KL_BLAS_COMPUTE_F32 = 68, /* multiplies with all 24 bits; reduced precision has other numbers */
    KL_BLAS_COMPUTE_F32_PEDANTIC = 69,
    KL_BLAS_COMPUTE_F64 = 70,

    KL_BLAS_R_F32 = 0,
    KL_BLAS_R_F64 = 1,
    KL_BLAS_R_F16 = 2,
    KL_BLAS_C_F32 = 4,
    KL_BLAS_R_BF16 = 14,

    KL_BLAS_DESC_TRANS_A = 3, /* int32_t, a KL_BLAS_OP */
    KL_BLAS_DESC_TRANS_B = 4,
    KL_BLAS_LAYOUT_BATCHES = 5,      /* int32_t */
    KL_BLAS_LAYOUT_BATCH_STRIDE = 6, /* int64_t, elements */
    KL_BLAS_PREF_WORKSPACE = 1,      /* uint64_t, bytes */
    KL_BLAS_PREF_REDUCTIONS = 3,     /* uint32_t, a set of KL_BLAS_REDUCTION */
    KL_BLAS_PREF_ALIGNMENT_A = 5,    /* uint32_t, bytes; B, C and D follow */

    /* How the partial sums of a sum are added. The values 1 and 4 add them in the output, which
     * rounds each partial sum to the output's type. */
    KL_BLAS_REDUCTION_COMPUTE_TYPE = 2,
};
struct kl_blas_algo {
    uint64_t data[8];
};
struct kl_blas_choice { /* an answer of the heuristic */
    struct kl_blas_algo algo;
    size_t workspace_bytes;
    int state; /* 0: the other fields are valid */
    float waves;
    int reserved[4];
};

/* All of these return a status; 0 is success. Descriptors are opaque. */
#define KL_BLAS_FUNCTIONS(F)                                                                      \
    F(Create, "cublasLtCreate", (void **handle))                                                  \
    F(DescCreate, "cublasLtMatmulDescCreate", (void **desc, int compute, int scale_type))         \
    F(DescDestroy, "cublasLtMatmulDescDestroy", (void *desc))                                     \
    F(DescSet, "cublasLtMatmulDescSetAttribute",                                                  \
      (void *desc, int attribute, const void *value, size_t bytes))                               \
    F(LayoutCreate, "cublasLtMatrixLayoutCreate",                                                 \
      (void **layout, int type, uint64_t rows, uint64_t cols, int64_t ld))                        \
    F(LayoutDestroy, "cublasLtMatrixLayoutDestroy", (void *layout))                               \
    F(LayoutSet, "cublasLtMatrixLayoutSetAttribute",                                              \
      (void *layout, int attribute, const void *value, size_t bytes))                             \
    F(PrefCreate, "cublasLtMatmulPreferenceCreate", (void **pref))                                \
    F(PrefDestroy, "cublasLtMatmulPreferenceDestroy", (void *pref))                               \
    F(PrefSet, "cublasLtMatmulPreferenceSetAttribute",                                            \
      (void *pref, int attribute, const void *value, size_t bytes))                               \
    F(Heuristic, "cublasLtMatmulAlgoGetHeuristic",                                                \
      (void *handle, void *desc, void *a, void *b, void *c, void *d, void *pref, int n,           \
       struct kl_blas_choice *choices, int *n_found))                                             \
    F(Matmul, "cublasLtMatmul",                                                                   \
      (void *handle, void *desc, const void *alpha, const void *a, void *a_layout, const void *b, \
       void *b_layout, const void *beta, const void *c, void *c_layout, void *d, void *d_layout,  \
       const struct kl_blas_algo *algo, void *workspace, size_t workspace_bytes, void *stream))

/* ---- cuDNN ---- */

/* Numbers of the ABI, the same as in cudnn_graph_v9.h. */
enum {
    KL_DNN_F32 = 0, /* types of elements */
    KL_DNN_F16 = 2,
    KL_DNN_BF16 = 9,
    KL_DNN_CROSS_CORRELATION = 1, /* the filter is read from its first element on */

    KL_DNN_TYPE_HANDLE = 0, /* types of attributes */
    KL_DNN_TYPE_DATA_TYPE = 1,
    KL_DNN_TYPE_INT64 = 3,
    KL_DNN_TYPE_FLOAT = 4,
    KL_DNN_TYPE_POINTER = 6,
    KL_DNN_TYPE_MODE = 7,
    KL_DNN_TYPE_HEURISTIC = 8,
    KL_DNN_TYPE_NOTE = 11,
    KL_DNN_TYPE_DESC = 15,
    KL_DNN_TYPE_BEHAVIOUR = 19,

    KL_DNN_CONVOLUTION = 1, /* kinds of descriptors */
    KL_DNN_ENGINE = 2,
    KL_DNN_CONFIG = 3,
    KL_DNN_HEURISTIC = 4,
    KL_DNN_PLAN = 5,
    KL_DNN_FORWARD = 10,
    KL_DNN_FILTER_GRADIENT = 11,
    KL_DNN_DATA_GRADIENT = 12,
    KL_DNN_GRAPH = 15,
    KL_DNN_PACK = 16,
    KL_DNN_TENSOR = 17,

    KL_DNN_CONVOLUTION_COMPUTE = 100, /* attributes */
    KL_DNN_CONVOLUTION_MODE = 101,
    KL_DNN_CONVOLUTION_DILATIONS = 102,
    KL_DNN_CONVOLUTION_STRIDES = 103,
    KL_DNN_CONVOLUTION_POST_PADDINGS = 104,
    KL_DNN_CONVOLUTION_PRE_PADDINGS = 105,
    KL_DNN_CONVOLUTION_N_AXES = 106,
    KL_DNN_HEURISTIC_MODE = 200,
    KL_DNN_HEURISTIC_GRAPH = 201,
    KL_DNN_HEURISTIC_RESULTS = 202,
    KL_DNN_CONFIG_ENGINE = 300,
    KL_DNN_PLAN_HANDLE = 400,
    KL_DNN_PLAN_CONFIG = 401,
    KL_DNN_PLAN_WORKSPACE = 402,
    KL_DNN_GRAPH_HANDLE = 800,
    KL_DNN_GRAPH_OPERATIONS = 801,
    KL_DNN_TENSOR_ALIGNMENT = 900,
    KL_DNN_TENSOR_TYPE = 901,
    KL_DNN_TENSOR_DIMS = 902,
    KL_DNN_TENSOR_STRIDES = 903,
    KL_DNN_TENSOR_ID = 906,
    KL_DNN_PACK_IDS = 1000,
    KL_DNN_PACK_POINTERS = 1001,
    KL_DNN_PACK_WORKSPACE = 1003,
    KL_DNN_ENGINE_NOTES = 1303,
    KL_DNN_ENGINE_BEHAVIOURS = 1305,

    KL_DNN_HEURISTIC_B = 1, /* a model of running times; modes of heuristics */
    KL_DNN_HEURISTIC_FALLBACK = 2,

    KL_DNN_NOTE_TENSOR_CORE = 0, /* what is said of an engine's numbers */
    KL_DNN_NOTE_DOWN_CONVERTS = 1,
    KL_DNN_NOTE_REDUCED_PRECISION = 2,
    KL_DNN_NOTE_FFT = 3,
    KL_DNN_NOTE_NONDETERMINISTIC = 4,
    KL_DNN_NOTE_WINOGRAD = 5,
    KL_DNN_NOTE_WINOGRAD_LAST = 8,
    KL_DNN_BEHAVIOUR_COMPILES = 0, /* at run time */

    KL_DNN_ALLOC_FAILED = 4003,
    KL_DNN_DEVICE_ALLOC_FAILED = 4004,
};

/* All of these return a status; 0 is success. Descriptors are opaque. */
#define KL_DNN_FUNCTIONS(F)                                                          \
    F(GetProperty, "cudnnGetProperty", (int which, int *value))                      \
    F(Create, "cudnnCreate", (void **handle))                                        \
    F(SetStream, "cudnnSetStream", (void *handle, void *stream))                     \
    F(DescCreate, "cudnnBackendCreateDescriptor", (int kind, void **desc))           \
    F(DescDestroy, "cudnnBackendDestroyDescriptor", (void *desc))                    \
    F(DescSet, "cudnnBackendSetAttribute",                                           \
      (void *desc, int attribute, int type, int64_t n, const void *values))          \
    F(DescGet, "cudnnBackendGetAttribute",                                           \
      (void *desc, int attribute, int type, int64_t room, int64_t *n, void *values)) \
    F(DescFinish, "cudnnBackendFinalize", (void *desc))                              \
    F(Execute, "cudnnBackendExecute", (void *handle, void *plan, void *pack))

/* ---- cuSOLVER, and the triangular systems of cuBLAS ---- */

/* Numbers of the ABI, the same as in cusolver_common.h and cublas_api.h; types of elements are
 * KL_BLAS_R_F32 and the like. */
enum {
    KL_SOLVER_ALLOC_FAILED = 2,

    KL_SOLVER_LOWER = 0, /* which triangle is read */
    KL_SOLVER_UPPER = 1,
    KL_SOLVER_LEFT = 0,     /* the side of the triangle */
    KL_SOLVER_NON_UNIT = 0, /* what the diagonal is */
    KL_SOLVER_UNIT = 1,
};

/* All of these return a status; 0 is success. Matrices are in the order of columns. `host` is
 * workspace on the host. */
#define KL_SOLVER_FUNCTIONS(F)                                                                     \
    F(Create, "cusolverDnCreate", (void **handle))                                                 \
    F(SetStream, "cusolverDnSetStream", (void *handle, void *stream))                              \
    F(CreateParams, "cusolverDnCreateParams", (void **params))                                     \
    F(PotrfSize, "cusolverDnXpotrf_bufferSize",                                                    \
      (void *handle, void *params, int triangle, int64_t n, int type, const void *a, int64_t ld,   \
       int compute, size_t *bytes, size_t *host_bytes))                                            \
    F(Potrf, "cusolverDnXpotrf",                                                                   \
      (void *handle, void *params, int triangle, int64_t n, int type, void *a, int64_t ld,         \
       int compute, void *work, size_t bytes, void *host, size_t host_bytes, int *info))           \
    F(GetrfSize, "cusolverDnXgetrf_bufferSize",                                                    \
      (void *handle, void *params, int64_t m, int64_t n, int type, const void *a, int64_t ld,      \
       int compute, size_t *bytes, size_t *host_bytes))                                            \
    F(Getrf, "cusolverDnXgetrf",                                                                   \
      (void *handle, void *params, int64_t m, int64_t n, int type, void *a, int64_t ld,            \
       int64_t *exchanges, int compute, void *work, size_t bytes, void *host, size_t host_bytes,   \
       int *info))                                                                                 \
    F(GeqrfSize, "cusolverDnXgeqrf_bufferSize",                                                    \
      (void *handle, void *params, int64_t m, int64_t n, int type, const void *a, int64_t ld,      \
       int tau_type, const void *tau, int compute, size_t *bytes, size_t *host_bytes))             \
    F(Geqrf, "cusolverDnXgeqrf",                                                                   \
      (void *handle, void *params, int64_t m, int64_t n, int type, void *a, int64_t ld,            \
       int tau_type, void *tau, int compute, void *work, size_t bytes, void *host,                 \
       size_t host_bytes, int *info))                                                              \
    F(SorgqrSize, "cusolverDnSorgqr_bufferSize",                                                   \
      (void *handle, int m, int n, int k, const float *a, int ld, const float *tau, int *count))   \
    F(Sorgqr, "cusolverDnSorgqr",                                                                  \
      (void *handle, int m, int n, int k, float *a, int ld, const float *tau, float *work,         \
       int count, int *info))                                                                      \
    F(DorgqrSize, "cusolverDnDorgqr_bufferSize",                                                   \
      (void *handle, int m, int n, int k, const double *a, int ld, const double *tau, int *count)) \
    F(Dorgqr, "cusolverDnDorgqr",                                                                  \
      (void *handle, int m, int n, int k, double *a, int ld, const double *tau, double *work,      \
       int count, int *info))                                                                      \
    F(SyevdSize, "cusolverDnXsyevd_bufferSize",                                                    \
      (void *handle, void *params, int vectors, int triangle, int64_t n, int type, const void *a,  \
       int64_t ld, int w_type, const void *w, int compute, size_t *bytes, size_t *host_bytes))     \
    F(Syevd, "cusolverDnXsyevd",                                                                   \
      (void *handle, void *params, int vectors, int triangle, int64_t n, int type, void *a,        \
       int64_t ld, int w_type, void *w, int compute, void *work, size_t bytes, void *host,         \
       size_t host_bytes, int *info))                                                              \
    F(GesvdSize, "cusolverDnXgesvd_bufferSize",                                                    \
      (void *handle, void *params, signed char u_job, signed char vt_job, int64_t m, int64_t n,    \
       int type, const void *a, int64_t ld, int s_type, const void *s, int u_type, const void *u,  \
       int64_t u_ld, int vt_type, const void *vt, int64_t vt_ld, int compute, size_t *bytes,       \
       size_t *host_bytes))                                                                        \
    F(Gesvd, "cusolverDnXgesvd",                                                                   \
      (void *handle, void *params, signed char u_job, signed char vt_job, int64_t m, int64_t n,    \
       int type, void *a, int64_t ld, int s_type, void *s, int u_type, void *u, int64_t u_ld,      \
       int vt_type, void *vt, int64_t vt_ld, int compute, void *work, size_t bytes, void *host,    \
       size_t host_bytes, int *info))

#define KL_TRIANGLE_FUNCTIONS(F)                                                                  \
    F(Create, "cublasCreate_v2", (void **handle))                                                 \
    F(SetStream, "cublasSetStream_v2", (void *handle, void *stream))                              \
    F(Strsm, "cublasStrsm_v2",                                                                    \
      (void *handle, int side, int triangle, int op, int unit, int m, int n, const float *alpha,  \
       const float *a, int ld, float *b, int b_ld))                                               \
    F(Dtrsm, "cublasDtrsm_v2",                                                                    \
      (void *handle, int side, int triangle, int op, int unit, int m, int n, const double *alpha, \
       const double *a, int ld, double *b, int b_ld))

/* ---- cuFFT ---- */

/* Numbers of the ABI, the same as in cufft.h. */
enum {
    KL_CUFFT_R2C = 0x2a,
    KL_CUFFT_C2R = 0x2c,
    KL_CUFFT_C2C = 0x29,
    KL_CUFFT_FORWARD = -1,
    KL_CUFFT_INVERSE = 1,
};

/* All of these return a status; 0 is success. A plan is a number. */
#define KL_CUFFT_FUNCTIONS(F)                                                                    \
    F(Create, "cufftCreate", (int *plan))                                                        \
    F(Destroy, "cufftDestroy", (int plan))                                                       \
    F(SetAutoAllocation, "cufftSetAutoAllocation", (int plan, int on))                           \
    F(MakePlan, "cufftMakePlanMany64",                                                           \
      (int plan, int rank, long long *n, long long *in_dims, long long in_stride,                \
       long long in_distance, long long *out_dims, long long out_stride, long long out_distance, \
       int type, long long batch, size_t *workspace_bytes))                                      \
    F(SetWorkArea, "cufftSetWorkArea", (int plan, void *workspace))                              \
    F(SetStream, "cufftSetStream", (int plan, void *stream))                                     \
    F(ExecC2C, "cufftExecC2C", (int plan, void *in, void *out, int direction))                   \
    F(ExecR2C, "cufftExecR2C", (int plan, void *in, void *out))                                  \
    F(ExecC2R, "cufftExecC2R", (int plan, void *in, void *out))

/* ---- NCCL ---- */

/* Numbers of the ABI, the same as in nccl.h. */
enum {
    KL_NCCL_SUCCESS = 0,

    KL_NCCL_I8 = 0,
    KL_NCCL_U8 = 1,
    KL_NCCL_I32 = 2,
    KL_NCCL_U32 = 3,
    KL_NCCL_I64 = 4,
    KL_NCCL_U64 = 5,
    KL_NCCL_F16 = 6,
    KL_NCCL_F32 = 7,
    KL_NCCL_F64 = 8,
    KL_NCCL_BF16 = 9,

    KL_NCCL_SUM = 0,
    KL_NCCL_MAX = 2,
    KL_NCCL_MIN = 3,

    KL_NCCL_MAGIC = (int)0xcafebeef,
    KL_NCCL_CONFIG_VERSION = 21803, /* of the fields below: 2.18.3 */
    KL_NCCL_UNSET = -2147483647 - 1,
};
struct kl_nccl_id {
    char bytes[128];
};
struct kl_nccl_config {
    size_t size;
    int magic, version;
    int blocking, cga_cluster_size, min_ctas, max_ctas;
    const char *net_name;
    int split_share;
};

/* All of these return a status; 0 is success. */
#define KL_NCCL_FUNCTIONS(F)                                                                  \
    F(GetVersion, "ncclGetVersion", (int *version))                                           \
    F(GetUniqueId, "ncclGetUniqueId", (struct kl_nccl_id * id))                               \
    F(CommInit, "ncclCommInitRankConfig",                                                     \
      (void **comm, int size, struct kl_nccl_id id, int rank, struct kl_nccl_config *config)) \
    F(CommState, "ncclCommGetAsyncError", (void *comm, int *state))                           \
    F(CommFinalize, "ncclCommFinalize", (void *comm))                                         \
    F(CommDestroy, "ncclCommDestroy", (void *comm))                                           \
    F(CommAbort, "ncclCommAbort", (void *comm))                                               \
    F(GroupStart, "ncclGroupStart", (void))                                                   \
    F(GroupEnd, "ncclGroupEnd", (void))                                                       \
    F(AllReduce, "ncclAllReduce",                                                             \
      (const void *from, void *to, size_t n, int dtype, int op, void *comm, void *stream))    \
    F(ReduceScatter, "ncclReduceScatter",                                                     \
      (const void *from, void *to, size_t n, int dtype, int op, void *comm, void *stream))    \
    F(AllGather, "ncclAllGather",                                                             \
      (const void *from, void *to, size_t n, int dtype, void *comm, void *stream))            \
    F(Send, "ncclSend",                                                                       \
      (const void *from, size_t n, int dtype, int peer, void *comm, void *stream))            \
    F(Recv, "ncclRecv", (void *to, size_t n, int dtype, int peer, void *comm, void *stream))

#define KL_CUDA_FIELD(name, symbol, params) int(*name) params;
struct kl_cuda_graph_api {
    KL_CUDA_GRAPH_FUNCTIONS(KL_CUDA_FIELD)
};
struct kl_cuda_edge_api {
    KL_CUDA_EDGE_FUNCTIONS(KL_CUDA_FIELD)
};
struct kl_cuda_capture_api {
    KL_CUDA_CAPTURE_FUNCTIONS(KL_CUDA_FIELD)
};
struct kl_cuda_map_api {
    KL_CUDA_MAP_FUNCTIONS(KL_CUDA_FIELD)
};
struct kl_cuda_api {
    KL_CUDA_FUNCTIONS(KL_CUDA_FIELD)
    struct kl_cuda_map_api maps;        /* NULL when this driver lacks it */
    struct kl_cuda_capture_api capture; /* all NULL when this driver lacks one of them */
    struct kl_cuda_edge_api edges;      /* NULL when this driver lacks it */
    struct kl_cuda_graph_api graphs;    /* all NULL when this driver lacks one of them */
    int version;                        /* of the driver: 1000 * major + 10 * minor */
    int n_devices;
};
struct kl_nvrtc_api {
    KL_NVRTC_FUNCTIONS(KL_CUDA_FIELD)
    int major, minor;
};
struct kl_blas_api {
    KL_BLAS_FUNCTIONS(KL_CUDA_FIELD)
};
struct kl_dnn_api {
    KL_DNN_FUNCTIONS(KL_CUDA_FIELD)
};
struct kl_solver_api {
    KL_SOLVER_FUNCTIONS(KL_CUDA_FIELD)
};
struct kl_triangle_api {
    KL_TRIANGLE_FUNCTIONS(KL_CUDA_FIELD)
};
struct kl_cufft_api {
    KL_CUFFT_FUNCTIONS(KL_CUDA_FIELD)
};
struct kl_nccl_api {
    KL_NCCL_FUNCTIONS(KL_CUDA_FIELD)
};
#undef KL_CUDA_FIELD

/* The driver, initialised. NULL, with *why as immortal text, when there is no driver or no device.
 * The first call loads it. */
const struct kl_cuda_api *kl_cuda_api(const char **why);
/* The compiler. NULL with a reason. The first call loads it; it needs no driver and no device. */
const struct kl_nvrtc_api *kl_nvrtc_api(const char **why);
/* cuBLASLt, for products of matrices. NULL with a reason. The first call loads it; it needs no
 * device. */
const struct kl_blas_api *kl_blas_api(const char **why);
/* cuDNN, for convolutions. NULL with a reason. The first call loads it; it needs no device. */
const struct kl_dnn_api *kl_dnn_api(const char **why);
/* cuFFT, for Fourier transforms. NULL with a reason. The first call loads it; it needs no device.
 */
const struct kl_cufft_api *kl_cufft_api(const char **why);
/* cuSOLVER, for factorisations of matrices, and the part of cuBLAS for triangular systems. NULL
 * with a reason. The first call loads it; it needs no device. */
const struct kl_solver_api *kl_solver_api(const char **why);
const struct kl_triangle_api *kl_triangle_api(const char **why);

/* NCCL, which moves values between the devices of several processes. NULL with a reason. The first
 * call loads it; it needs no device. */
const struct kl_nccl_api *kl_nccl_api(const char **why);

/* The folder of the toolkit's headers: where KEEL_CUDA_PATH says, next to the compiler, or that of
 * another toolkit; one to which its C++ library belongs comes first. NULL when there is none.
 * *library (unless library is NULL) is the folder of that library (with nv/target), or NULL. */
const char *kl_nvrtc_include(const char **library);

/* The architecture for which kl_nvrtc_compile compiles for such devices: cc, or an older one that
 * this NVRTC knows. 0: there is no NVRTC. */
int kl_nvrtc_arch(int cc);

/* Compiles a complete source for devices of compute capability cc (90 is 9.0): to machine code, or
 * to PTX when this NVRTC does not know the device. *binary is kl_malloc'd for the caller. The
 * source may include headers of the toolkit. KL_ECOMPILE quotes the log; KL_EUNSUPPORTED: there is
 * no NVRTC. */
int kl_nvrtc_compile(int cc, const char *source, const char *name, void **binary, size_t *bytes,
                     struct kl_error **err);

/* A thread of the library compiles, and loads what it has compiled, between these two. false: not
 * any more, since the process ends. */
bool kl_nvrtc_helper_begin(void);
void kl_nvrtc_helper_end(void);

/* Writes a text such as "CUDA_ERROR_INVALID_VALUE (1)" into `text` and returns it. */
const char *kl_cuda_error_name(int result, char *text, size_t room);
/* Whether the result means that the context is destroyed, so that no later call in this process can
 * succeed. */
bool kl_cuda_is_fatal(int result);
