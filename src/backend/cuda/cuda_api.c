/* cuda_api.c - see cuda_api.h. */
#include "backend/cuda/cuda_api.h"

#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WHY_BYTES = 256, PATH_BYTES = 512 };

/* ---- symbols ---- */

struct symbol {
    const char *name;
    size_t at; /* offset of the pointer in the table */
};

/* Fills the table. Returns the name of the first symbol that the library lacks, or NULL. */
static const char *bind(void *library, const struct symbol *symbols, int n, void *table) {
    for (int i = 0; i < n; i++) {
        void *p = dlsym(library, symbols[i].name);
        if (!p) return symbols[i].name;
        memcpy((char *)table + symbols[i].at, &p, sizeof p);
    }
    return NULL;
}

#define CUDA_SYMBOL(name, symbol, params) {symbol, offsetof(struct kl_cuda_api, name)},
#define GRAPH_SYMBOL(name, symbol, params) {symbol, offsetof(struct kl_cuda_graph_api, name)},
#define EDGE_SYMBOL(name, symbol, params) {symbol, offsetof(struct kl_cuda_edge_api, name)},
#define CAPTURE_SYMBOL(name, symbol, params) {symbol, offsetof(struct kl_cuda_capture_api, name)},
#define MAP_SYMBOL(name, symbol, params) {symbol, offsetof(struct kl_cuda_map_api, name)},
#define NVRTC_SYMBOL(name, symbol, params) {symbol, offsetof(struct kl_nvrtc_api, name)},
#define KL_BLAS_SYMBOL(name, symbol, params) {symbol, offsetof(struct kl_blas_api, name)},
#define KL_DNN_SYMBOL(name, symbol, params) {symbol, offsetof(struct kl_dnn_api, name)},
#define SOLVER_SYMBOL(name, symbol, params) {symbol, offsetof(struct kl_solver_api, name)},
#define TRIANGLE_SYMBOL(name, symbol, params) {symbol, offsetof(struct kl_triangle_api, name)},
#define KL_CUFFT_SYMBOL(name, symbol, params) {symbol, offsetof(struct kl_cufft_api, name)},
#define KL_NCCL_SYMBOL(name, symbol, params) {symbol, offsetof(struct kl_nccl_api, name)},
static const struct symbol cuda_symbols[] = {KL_CUDA_FUNCTIONS(CUDA_SYMBOL)};
static const struct symbol graph_symbols[] = {KL_CUDA_GRAPH_FUNCTIONS(GRAPH_SYMBOL)};
static const struct symbol edge_symbols[] = {KL_CUDA_EDGE_FUNCTIONS(EDGE_SYMBOL)};
static const struct symbol capture_symbols[] = {KL_CUDA_CAPTURE_FUNCTIONS(CAPTURE_SYMBOL)};
static const struct symbol map_symbols[] = {KL_CUDA_MAP_FUNCTIONS(MAP_SYMBOL)};
static const struct symbol nvrtc_symbols[] = {KL_NVRTC_FUNCTIONS(NVRTC_SYMBOL)};
static const struct symbol blas_symbols[] = {KL_BLAS_FUNCTIONS(KL_BLAS_SYMBOL)};
static const struct symbol dnn_symbols[] = {KL_DNN_FUNCTIONS(KL_DNN_SYMBOL)};
static const struct symbol cufft_symbols[] = {KL_CUFFT_FUNCTIONS(KL_CUFFT_SYMBOL)};
static const struct symbol nccl_symbols[] = {KL_NCCL_FUNCTIONS(KL_NCCL_SYMBOL)};
static const struct symbol solver_symbols[] = {KL_SOLVER_FUNCTIONS(SOLVER_SYMBOL)};
static const struct symbol triangle_symbols[] = {KL_TRIANGLE_FUNCTIONS(TRIANGLE_SYMBOL)};

/* ---- the driver ---- */

static struct {
    pthread_once_t once;
    struct kl_cuda_api api;
    bool ok;
    char why[WHY_BYTES];
} cuda = {.once = PTHREAD_ONCE_INIT};

const char *kl_cuda_error_name(int result, char *text, size_t room) {
    const char *name = NULL;
    if (cuda.api.GetErrorName) cuda.api.GetErrorName(result, &name);
    snprintf(text, room, "%s (%d)", name ? name : "CUDA error", result);
    return text;
}

bool kl_cuda_is_fatal(int result) {
    switch (result) {
    case 4:   /* DEINITIALIZED: the process is exiting */
    case 214: /* ECC_UNCORRECTABLE */
    case 220: /* NVLINK_UNCORRECTABLE */
    case 226: /* CONTAINED */
    case 700: /* ILLEGAL_ADDRESS */
    case 702: /* LAUNCH_TIMEOUT */
    case 709: /* CONTEXT_IS_DESTROYED */
    case 710: /* ASSERT */
    case 714: /* HARDWARE_STACK_ERROR */
    case 715: /* ILLEGAL_INSTRUCTION */
    case 716: /* MISALIGNED_ADDRESS */
    case 717: /* INVALID_ADDRESS_SPACE */
    case 718: /* INVALID_PC */
    case 719: /* LAUNCH_FAILED */
    case 721: /* TENSOR_MEMORY_LEAK */
    case 809: /* MPS_CLIENT_TERMINATED */
    case 999: /* UNKNOWN */ return true;
    default: return false;
    }
}

static bool start_driver(const char *file) {
    struct kl_cuda_api *a = &cuda.api;
    char text[64];
    const char *call = "cuInit";
    int rc = a->Init(0);
    if (!rc && (call = "cuDriverGetVersion")) rc = a->DriverGetVersion(&a->version);
    if (!rc && (call = "cuDeviceGetCount")) rc = a->DeviceGetCount(&a->n_devices);
    if (rc)
        snprintf(cuda.why, sizeof cuda.why, "%s: %s failed with %s", file, call,
                 kl_cuda_error_name(rc, text, sizeof text));
    else if (a->n_devices == 0)
        snprintf(cuda.why, sizeof cuda.why, "%s has no device", file);
    return !rc && a->n_devices > 0;
}

static void load_driver(void) {
    const char *named = getenv("KEEL_CUDA_DRIVER");
    const char *file = named && *named ? named : "libcuda.so.1";
    /* Else streams beyond the eighth share queues of the device, and wait for each other: also for
     * an exchange that another process has not begun. CUDA looks when it is initialised. */
    (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *reason = dlerror(), *colon = reason ? strstr(reason, ": ") : NULL;
        snprintf(cuda.why, sizeof cuda.why, "%.64s not found: NVIDIA's driver brings it (%s)", file,
                 colon ? colon + 2 : "no reason given");
        return;
    }
    const char *lacks =
        bind(library, cuda_symbols, sizeof cuda_symbols / sizeof *cuda_symbols, &cuda.api);
    if (lacks) {
        snprintf(cuda.why, sizeof cuda.why,
                 "%s has no %s: a driver of CUDA 11.2 or later is needed", file, lacks);
        return;
    }
    if (bind(library, graph_symbols, sizeof graph_symbols / sizeof *graph_symbols,
             &cuda.api.graphs))
        memset(&cuda.api.graphs, 0, sizeof cuda.api.graphs);
    if (bind(library, edge_symbols, sizeof edge_symbols / sizeof *edge_symbols, &cuda.api.edges))
        memset(&cuda.api.edges, 0, sizeof cuda.api.edges);
    if (bind(library, capture_symbols, sizeof capture_symbols / sizeof *capture_symbols,
             &cuda.api.capture))
        memset(&cuda.api.capture, 0, sizeof cuda.api.capture);
    if (bind(library, map_symbols, sizeof map_symbols / sizeof *map_symbols, &cuda.api.maps))
        memset(&cuda.api.maps, 0, sizeof cuda.api.maps);
    cuda.ok = start_driver(file);
}

const struct kl_cuda_api *kl_cuda_api(const char **why) {
    pthread_once(&cuda.once, load_driver);
    if (!cuda.ok && why) *why = cuda.why;
    return cuda.ok ? &cuda.api : NULL;
}

/* ---- where the toolkit's libraries are ---- */

enum { MAX_NAMES = 4 };
struct library {
    /* Candidates for the name, the preferred one first; NULL after the last of fewer. */
    const char *names[MAX_NAMES];
    bool (*try)(const struct library *l, const char *file);
};

/* Tries each folder that matches the pattern. pattern NULL: uses the search path of the dynamic
 * loader. */
static bool try_folder(const struct library *l, const char *pattern) {
    for (int i = 0; i < MAX_NAMES && l->names[i]; i++) {
        if (!pattern) {
            if (l->try(l, l->names[i])) return true;
            continue;
        }
        char file[PATH_BYTES];
        if (snprintf(file, sizeof file, "%s/%s", pattern, l->names[i]) >= (int)sizeof file)
            continue;
        glob_t found;
        if (glob(file, 0, NULL, &found)) continue;
        bool ok = false;
        for (size_t k = 0; k < found.gl_pathc && !ok; k++) ok = l->try(l, found.gl_pathv[k]);
        globfree(&found);
        if (ok) return true;
    }
    return false;
}

/* Tries folders below the folder `prefix`; NULL: the variable that would name it is not set. */
static bool try_under(const struct library *l, const char *prefix, const char *const *below,
                      int n) {
    char folder[PATH_BYTES];
    for (int i = 0; prefix && *prefix && i < n; i++)
        if (snprintf(folder, sizeof folder, "%s/%s", prefix, below[i]) < (int)sizeof folder &&
            try_folder(l, folder))
            return true;
    return false;
}

static bool find_library(const struct library *l) {
    static const char *const toolkit[] = {"lib64", "lib"};
    static const char *const wheels[] = {
        "lib/python3*/site-packages/nvidia/cu13/lib",
        "lib/python3*/site-packages/nvidia/cuda_nvrtc/lib",
        "lib/python3*/site-packages/nvidia/cublas/lib",
        "lib/python3*/site-packages/nvidia/cudnn/lib",
        "lib/python3*/site-packages/nvidia/cusolver/lib",
        "lib/python3*/site-packages/nvidia/cufft/lib",
        "lib/python3*/site-packages/nvidia/nccl/lib",
        "lib/python3*/dist-packages/nvidia/cu13/lib",
        "lib/python3*/dist-packages/nvidia/cuda_nvrtc/lib",
        "lib/python3*/dist-packages/nvidia/cublas/lib",
        "lib/python3*/dist-packages/nvidia/cudnn/lib",
        "lib/python3*/dist-packages/nvidia/cusolver/lib",
        "lib/python3*/dist-packages/nvidia/cufft/lib",
        "lib/python3*/dist-packages/nvidia/nccl/lib",
        "lib", /* the layout of conda */
    };
    enum { N_WHEELS = sizeof wheels / sizeof *wheels };
    const char *home = getenv("HOME");
    char local[PATH_BYTES] = "";
    if (home && *home) snprintf(local, sizeof local, "%s/.local", home);
    return try_under(l, getenv("KEEL_CUDA_PATH"), toolkit, 2) || try_folder(l, NULL) ||
           try_under(l, "/usr/local/cuda", toolkit, 2) ||
           try_under(l, getenv("VIRTUAL_ENV"), wheels, N_WHEELS) ||
           try_under(l, getenv("CONDA_PREFIX"), wheels, N_WHEELS) ||
           try_under(l, local, wheels, N_WHEELS) || try_under(l, "/usr/local", wheels, N_WHEELS) ||
           try_under(l, "/usr", wheels, N_WHEELS);
}
/* package: what pip calls the package of Python that brings the library. */
#define NOT_FOUND(versions, package)                                                              \
    " (" versions ") not found in the loader's path, /usr/local/cuda, or Python's packages (pip " \
    "install " package "); KEEL_CUDA_PATH names the folder of a CUDA toolkit"

/* Whether the driver is older than CUDA 13: then libraries of CUDA 12 are tried first, since a
 * library of the toolkit that is newer than the driver may not work with it. */
static bool driver_is_old(void) {
    const struct kl_cuda_api *driver = kl_cuda_api(NULL);
    return driver && driver->version < 13000;
}

/* ---- the compiler ---- */

static struct {
    pthread_once_t once;
    struct kl_nvrtc_api api;
    bool ok;
    char why[WHY_BYTES];
} nvrtc = {.once = PTHREAD_ONCE_INIT};

/* NVRTC loads its library of built-in functions by name alone. Outside the loader's search path
 * that fails unless the library is loaded already. */
static void load_builtins(const char *file) {
    char pattern[PATH_BYTES];
    const char *slash = strrchr(file, '/');
    if (!slash) return;
    snprintf(pattern, sizeof pattern, "%.*s/libnvrtc-builtins.so.*", (int)(slash - file), file);
    glob_t found;
    if (glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) dlopen(found.gl_pathv[i], RTLD_NOW);
        globfree(&found);
    }
}

static bool try_nvrtc(const struct library *l, const char *file) {
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library) return false;
    const char *lacks =
        bind(library, nvrtc_symbols, sizeof nvrtc_symbols / sizeof *nvrtc_symbols, &nvrtc.api);
    if (!lacks && nvrtc.api.Version(&nvrtc.api.major, &nvrtc.api.minor) == 0) {
        load_builtins(file);
        return nvrtc.ok = true;
    }
    snprintf(nvrtc.why, sizeof nvrtc.why, "%s has no %s: NVRTC 11.2 or later is needed", file,
             lacks ? lacks : "version");
    dlclose(library);
    return false;
}

static void load_nvrtc(void) {
    bool old = driver_is_old();
    const struct library l = {{old ? "libnvrtc.so.12" : "libnvrtc.so.13",
                               old ? "libnvrtc.so.13" : "libnvrtc.so.12", "libnvrtc.so",
                               "libnvrtc.so.11.2"},
                              try_nvrtc};
    if (!find_library(&l) && !nvrtc.why[0])
        snprintf(nvrtc.why, sizeof nvrtc.why,
                 "libnvrtc.so" NOT_FOUND(".13, .12", "nvidia-cuda-nvrtc"));
}

const struct kl_nvrtc_api *kl_nvrtc_api(const char **why) {
    pthread_once(&nvrtc.once, load_nvrtc);
    if (!nvrtc.ok && why) *why = nvrtc.why;
    return nvrtc.ok ? &nvrtc.api : NULL;
}

/* ---- the toolkit's headers, for kernels of users ---- */

static struct {
    pthread_once_t once;
    char path[PATH_BYTES]; /* "": there is none */
    char library
        [PATH_BYTES]; /* that of the C++ library, without which most headers do not compile */
} include = {.once = PTHREAD_ONCE_INIT};

/* Writes the folder base/below. False: it does not have this header. */
static bool has_header(char *folder, const char *base, const char *below, const char *header) {
    char file[PATH_BYTES + 16];
    if (!base || !*base || snprintf(folder, PATH_BYTES, "%s/%s", base, below) >= PATH_BYTES)
        return false;
    snprintf(file, sizeof file, "%s/%s", folder, header);
    return access(file, R_OK) == 0;
}

/* Finds the C++ library that belongs to include.path: that of CUDA 13 has a folder of its own,
 * older ones lie among the other headers, or in the Python wheel for CUDA 12. */
static bool find_cpp_library(void) {
    static const char *const below[] = {"cccl", ".", "../../cuda_cccl/include"};
    for (int i = 0; i < 3; i++)
        if (has_header(include.library, include.path, below[i], "nv/target")) return true;
    include.library[0] = 0;
    return false;
}

static void find_include(void) {
    Dl_info where;
    char *folder = NULL, *slash;
    if (nvrtc.ok && dladdr(*(void **)&nvrtc.api.Version, &where))
        folder = realpath(where.dli_fname, NULL);
    if (folder && (slash = strrchr(folder, '/'))) *slash = 0;
    /* Next to the compiler: the layouts of a toolkit and of the Python wheels for CUDA 13; of the
     * wheels for CUDA 12. Then other installations. */
    const struct {
        const char *base, *below;
    } places[] = {{getenv("KEEL_CUDA_PATH"), "include"},
                  {folder, "../include"},
                  {folder, "../../cuda_runtime/include"},
                  {"/usr/local/cuda", "include"},
                  {"/usr", "include"}};
    enum { N_PLACES = sizeof places / sizeof *places };
    int first = -1;
    bool whole = false;
    /* Wheels are often installed without the C++ library: a whole toolkit elsewhere is better. */
    for (int i = 0; i < N_PLACES && !whole; i++) {
        if (!has_header(include.path, places[i].base, places[i].below, "cuda_fp16.h")) continue;
        if (first < 0) first = i;
        whole = find_cpp_library();
    }
    if (!whole) {
        include.path[0] = 0;
        if (first >= 0)
            (void)has_header(include.path, places[first].base, places[first].below, "cuda_fp16.h");
    }
    free(folder);
}

const char *kl_nvrtc_include(const char **library) {
    if (library) *library = NULL;
    if (!kl_nvrtc_api(NULL)) return NULL;
    pthread_once(&include.once, find_include);
    if (library && include.library[0]) *library = include.library;
    return include.path[0] ? include.path : NULL;
}

/* ---- libraries that Keel can do without ---- */

struct vendor {
    struct library library;           /* first: what try_vendor is given */
    const char *old_names[MAX_NAMES]; /* in place of names where the driver is old; or none */
    const char *variable;             /* of the environment, which names the file */
    const struct symbol *symbols;
    int n_symbols;
    void *api;           /* the table that is filled */
    const char *needs;   /* the least version, in words */
    const char *missing; /* what is said when no file is found */
    /* Whether the version is too old, and what the message then says of the file. NULL: any version
     * that has the symbols is taken. */
    bool (*too_old)(char *text, size_t room);
    bool ok;
    char why[WHY_BYTES];
};
#define SYMBOLS(list) .symbols = list, .n_symbols = sizeof list / sizeof *list

static bool try_vendor(const struct library *l, const char *file) {
    struct vendor *v = (struct vendor *)l;
    char text[64] = "";
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library) return false;
    const char *lacks = bind(library, v->symbols, v->n_symbols, v->api);
    if (!lacks && !(v->too_old && v->too_old(text, sizeof text))) return v->ok = true;
    if (lacks)
        snprintf(v->why, sizeof v->why, "%.128s has no %s: %s or later is needed", file, lacks,
                 v->needs);
    else
        snprintf(v->why, sizeof v->why, "%.128s %s", file, text);
    dlclose(library);
    return false;
}

static void load_vendor(struct vendor *v) {
    const char *named = getenv(v->variable);
    const bool is_named = named && *named;
    if (v->old_names[0] && driver_is_old())
        memcpy(v->library.names, v->old_names, sizeof v->old_names);
    if ((is_named ? try_vendor(&v->library, named) : find_library(&v->library)) || v->why[0])
        return;
    if (is_named)
        snprintf(v->why, sizeof v->why, "%s=%.128s cannot be loaded", v->variable, named);
    else
        snprintf(v->why, sizeof v->why, "%s", v->missing);
}

static const void *api_of(const struct vendor *v, const char **why) {
    if (!v->ok && why) *why = v->why;
    return v->ok ? v->api : NULL;
}

/* ---- products ---- */

static struct kl_blas_api blas_api;
static struct vendor blas = {
    .library = {{"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so", "libcublasLt.so.11"},
                try_vendor},
    .old_names = {"libcublasLt.so.12", "libcublasLt.so.13", "libcublasLt.so", "libcublasLt.so.11"},
    .variable = "KEEL_CUBLASLT",
    SYMBOLS(blas_symbols),
    .api = &blas_api,
    .needs = "cuBLAS 11",
    .missing = "libcublasLt.so" NOT_FOUND(".13, .12", "nvidia-cublas")};
static void load_blas(void) {
    load_vendor(&blas);
}
const struct kl_blas_api *kl_blas_api(const char **why) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_blas);
    return api_of(&blas, why);
}

/* ---- convolutions ---- */

static struct kl_dnn_api dnn_api;
static bool is_old_dnn(char *text, size_t room) {
    int major = 0;
    if (dnn_api.GetProperty(0, &major) == 0 && major >= 9) return false;
    snprintf(text, room, "is cuDNN %d: 9 or later is needed", major);
    return true;
}
static struct vendor dnn = {
    .library = {{"libcudnn.so.9", "libcudnn.so"}, try_vendor},
    .variable = "KEEL_CUDNN",
    SYMBOLS(dnn_symbols),
    .api = &dnn_api,
    .needs = "cuDNN 9",
    .missing = "libcudnn.so" NOT_FOUND(".9", "nvidia-cudnn-cu13") ", and KEEL_CUDNN the file",
    .too_old = is_old_dnn};
static void load_dnn(void) {
    load_vendor(&dnn);
}
const struct kl_dnn_api *kl_dnn_api(const char **why) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_dnn);
    return api_of(&dnn, why);
}

/* ---- factorisations ---- */

/* That of CUDA 13 is number 12, that of CUDA 12 and of CUDA 11 number 11. */
static struct kl_solver_api solver_api;
static struct vendor solver = {
    .library = {{"libcusolver.so.12", "libcusolver.so.11", "libcusolver.so"}, try_vendor},
    .old_names = {"libcusolver.so.11", "libcusolver.so.12", "libcusolver.so"},
    .variable = "KEEL_CUSOLVER",
    SYMBOLS(solver_symbols),
    .api = &solver_api,
    .needs = "cuSOLVER 11.1",
    .missing = "libcusolver.so" NOT_FOUND(".12, .11", "nvidia-cusolver")};
static void load_solver(void) {
    load_vendor(&solver);
}
const struct kl_solver_api *kl_solver_api(const char **why) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_solver);
    return api_of(&solver, why);
}

static struct kl_triangle_api triangle_api;
static struct vendor triangles = {
    .library = {{"libcublas.so.13", "libcublas.so.12", "libcublas.so", "libcublas.so.11"},
                try_vendor},
    .old_names = {"libcublas.so.12", "libcublas.so.13", "libcublas.so", "libcublas.so.11"},
    .variable = "KEEL_CUBLAS",
    SYMBOLS(triangle_symbols),
    .api = &triangle_api,
    .needs = "cuBLAS 11",
    .missing = "libcublas.so" NOT_FOUND(".13, .12", "nvidia-cublas")};
static void load_triangles(void) {
    load_vendor(&triangles);
}
const struct kl_triangle_api *kl_triangle_api(const char **why) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_triangles);
    return api_of(&triangles, why);
}

/* ---- Fourier transforms ---- */

static struct kl_cufft_api cufft_api;
static struct vendor cufft = {
    .library = {{"libcufft.so.12", "libcufft.so.11", "libcufft.so", "libcufft.so.10"}, try_vendor},
    .old_names = {"libcufft.so.11", "libcufft.so.12", "libcufft.so", "libcufft.so.10"},
    .variable = "KEEL_CUFFT",
    SYMBOLS(cufft_symbols),
    .api = &cufft_api,
    .needs = "cuFFT 10",
    .missing = "libcufft.so" NOT_FOUND(".12, .11", "nvidia-cufft")};
static void load_cufft(void) {
    load_vendor(&cufft);
}
const struct kl_cufft_api *kl_cufft_api(const char **why) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_cufft);
    return api_of(&cufft, why);
}

/* ---- communication ---- */

static struct kl_nccl_api nccl_api;
static bool is_old_nccl(char *text, size_t room) {
    int version = 0;
    if (!nccl_api.GetVersion(&version) && version >= KL_NCCL_CONFIG_VERSION) return false;
    snprintf(text, room, "is older than NCCL 2.18.3, which is needed");
    return true;
}
static struct vendor nccl = {.library = {{"libnccl.so.2", "libnccl.so"}, try_vendor},
                             .variable = "KEEL_NCCL",
                             SYMBOLS(nccl_symbols),
                             .api = &nccl_api,
                             .needs = "NCCL 2.18.3",
                             .missing = "libnccl.so" NOT_FOUND(".2", "nvidia-nccl-cu13"),
                             .too_old = is_old_nccl};
static void load_nccl(void) {
    /* All ways of exchanging are connected when a communicator is made: a way that is connected at
     * its first use waits for the other processes then. */
    (void)setenv("NCCL_RUNTIME_CONNECT", "0", 0);
    (void)setenv("NCCL_GRAPH_REGISTER", "0", 0);
    load_vendor(&nccl);
}
const struct kl_nccl_api *kl_nccl_api(const char **why) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_nccl);
    return api_of(&nccl, why);
}
