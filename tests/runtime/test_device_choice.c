/* test_device_choice.c - which devices KEEL_GPU and KEEL_GPU_DEVICE give, and the errors when there
 * are none. Each case runs in a process of its own, since devices are opened once. The drivers are
 * the fake ones of tests/backend/cuda, or missing. */
#include "backend/cuda/cuda.h"
#include "backend/opencl/opencl.h"
#include "runtime/device.h"
#include "support.h"
#include "platform/self.h"

#include <dlfcn.h>
#include <libgen.h>
#include <sys/wait.h>
#include <unistd.h>

static char fake_driver[4200], fake_path[4200];

static int setup(void **state) {
    static char self[4096];
    (void)t_self(self, sizeof self);
    const char *dir = dirname(self);
    snprintf(fake_driver, sizeof fake_driver, "%s/fake/lib64/libcuda.so", dir);
    snprintf(fake_path, sizeof fake_path, "%s/fake", dir);
    return 0;
}

struct choice {
    const char *gpu, *device, *driver, *n_fakes; /* environment variables; NULL: unset */
    int n;                                       /* the number of GPUs that this gives */
    const char *name;                            /* the name of GPU 0 */
    /* Parts of the error for GPU 0, when there is no GPU. */
    const char *says[3];
};

#define CHECK(x)                                       \
    do {                                               \
        if (!(x)) {                                    \
            printf("line %d: not %s\n", __LINE__, #x); \
            bad = 1;                                   \
        }                                              \
    } while (0)

static void set(const char *name, const char *value) {
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static const char *fact(enum kl_device_type type, const char *key) {
    const struct kl_device_fact *f;
    size_t n;
    if (kl_device_facts(type, 0, &f, &n, NULL)) return NULL;
    for (size_t i = 0; i < n; i++)
        if (strcmp(f[i].key, key) == 0) return f[i].string;
    return NULL;
}

static int child(const struct choice *c) {
    int bad = 0;
    set("KEEL_GPU", c->gpu);
    set("KEEL_GPU_DEVICE", c->device);
    set("KEEL_CUDA_DRIVER", c->driver);
    set("KEEL_CUDA_PATH", fake_path);
    set("FAKE_CUDA_DEVICES", c->n_fakes);
    /* Hides the OpenCL devices of this machine. */
    set("KEEL_OPENCL_LIBRARY", "/nonexistent/libOpenCL.so");
    /* Where a case names a device, NVIDIA's other libraries are missing. */
    set("KEEL_CUBLASLT", c->device ? "/nonexistent/libcublasLt.so" : NULL);
    set("KEEL_CUDNN", c->device ? "/nonexistent/libcudnn.so" : NULL);
    set("KEEL_CUFFT", c->device ? "/nonexistent/libcufft.so" : NULL);
    struct kl_backend *b = NULL;
    struct kl_error *e = NULL;
    /* Opening the CPU loads no driver. */
    CHECK(kl_device_backend(KL_CPU, 0, &b, NULL) == KL_OK);
    CHECK(!c->driver || !dlopen(c->driver, RTLD_NOW | RTLD_NOLOAD));
    CHECK(kl_device_count(KL_GPU) == c->n);
    for (int i = 0; i < c->n; i++) {
        CHECK(kl_device_backend(KL_GPU, i, &b, NULL) == KL_OK);
        CHECK(b->index == i);
    }
    int rc = kl_device_backend(KL_GPU, 0, &b, &e);
    CHECK((rc == KL_OK) == (c->n > 0));
    if (rc) CHECK(rc == KL_EDEVICE);
    for (int i = 0; i < 3 && c->says[i]; i++)
        if (!e || !strstr(e->message, c->says[i])) {
            printf("no '%s' in: %s\n", c->says[i], e ? e->message : "no error");
            bad = 1;
        }
    if (c->name) {
        const char *name = fact(KL_GPU, "device_name");
        CHECK(name && strcmp(name, c->name) == 0);
        CHECK(fact(KL_GPU, "architecture") && fact(KL_GPU, "driver"));
    }
    bool fake = c->driver == fake_driver && (!c->gpu || !*c->gpu || strcmp(c->gpu, "cuda") == 0) &&
                strcmp(c->n_fakes, "0") != 0;
    CHECK((fact(KL_CPU, "missing_cuda") == NULL) == fake);
    const char *slow = fact(KL_CPU, "missing_cublaslt");
    CHECK((slow != NULL) == (fake && c->device));
    CHECK(!slow || strstr(slow, "KEEL_CUBLASLT=/nonexistent"));
    slow = fact(KL_CPU, "missing_cudnn");
    CHECK((slow != NULL) == (fake && c->device));
    CHECK(!slow || strstr(slow, "KEEL_CUDNN=/nonexistent"));
    slow = fact(KL_CPU, "missing_cufft");
    CHECK((slow != NULL) == (fake && c->device));
    CHECK(!slow || strstr(slow, "KEEL_CUFFT=/nonexistent"));
    CHECK(fact(KL_CPU, "device_name"));
    fflush(stdout);
    return bad;
}

static void test_choices(void **state) {
    const struct choice cases[] = {
        {"none", NULL, fake_driver, "2", 0, NULL, {"KEEL_GPU=none"}},
        {"nonsense",
         NULL,
         fake_driver,
         "2",
         0,
         NULL,
         {"KEEL_GPU=nonsense names no driver", "cuda", "opencl"}},
        {"cuda", NULL, fake_driver, "2", 2, "Fake 0", {NULL}},
        {NULL, NULL, fake_driver, "1", 1, "Fake 0", {NULL}},
        {"", NULL, fake_driver, "3", 3, "Fake 0", {NULL}},
        {"cuda", "1", fake_driver, "3", 1, "Fake 1", {NULL}},
        {NULL, "2", fake_driver, "3", 1, "Fake 2", {NULL}},
        {"cuda", "3", fake_driver, "3", 0, NULL, {"KEEL_GPU_DEVICE=3", "there are 3"}},
        {"cuda", "one", fake_driver, "3", 0, NULL, {"KEEL_GPU_DEVICE=one is no number"}},
        {"cuda", NULL, fake_driver, "0", 0, NULL, {"KEEL_GPU=cuda", "libcuda.so has no device"}},
        {"cuda", NULL, fake_driver, "99", 8, "Fake 0", {NULL}},
        {"cuda",
         NULL,
         "/nonexistent/libcuda.so",
         "1",
         0,
         NULL,
         {"KEEL_GPU=cuda: /nonexistent/libcuda.so not found"}},
        {"sim", NULL, "/nonexistent/libcuda.so", "1", 1, "sim0", {NULL}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pid_t pid = fork();
        if (pid == 0) _exit(child(&cases[i]));
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (!WIFEXITED(status) || WEXITSTATUS(status)) fail_msg("case %zu", i);
    }
}

/* Before processes meet the default GPU is the one that the launcher's variables say, modulo how
 * many there are; unless the program sets another than GPU 0. */
static void test_gpu_of_launcher(void **state) {
    static const char *const all[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                      "SLURM_LOCALID", "MLX_RANK", "NCCL_HOST_IP"};
    static const struct {
        const char *variable, *value, *host;
        int sets, index; /* sets: the GPU that the program sets; -1: none */
    } cases[] = {{"OMPI_COMM_WORLD_LOCAL_RANK", "1", NULL, -1, 1},
                 {"OMPI_COMM_WORLD_LOCAL_RANK", "5", NULL, -1, 2},
                 {"OMPI_COMM_WORLD_LOCAL_RANK", "1", NULL, 0, 1},
                 {"OMPI_COMM_WORLD_LOCAL_RANK", "1", NULL, 2, 2},
                 {"OMPI_COMM_WORLD_LOCAL_RANK", "one", NULL, -1, 0},
                 {"MPI_LOCALRANKID", "2", NULL, -1, 2},
                 {"SLURM_LOCALID", "1", NULL, -1, 1},
                 {"MLX_RANK", "1", NULL, -1, 0},
                 {"MLX_RANK", "1", "10.0.0.1", -1, 0},
                 {"MLX_RANK", "1", "127.0.0.1", -1, 1},
                 {"MLX_RANK", "2", "localhost", -1, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            enum kl_device_type type;
            int index, bad = 0;
            bool gpu;
            set("KEEL_GPU", "sim");
            set("KEEL_SIM_DEVICES", "3");
            for (size_t k = 0; k < sizeof all / sizeof *all; k++) unsetenv(all[k]);
            set(cases[i].variable, cases[i].value);
            set("NCCL_HOST_IP", cases[i].host);
            CHECK(cases[i].sets > 0 || kl_device_own_gpu() == cases[i].index);
            CHECK(kl_device_choose(&gpu, NULL) == KL_OK && gpu);
            if (cases[i].sets >= 0)
                CHECK(kl_device_set_default(KL_GPU, cases[i].sets, NULL) == KL_OK);
            kl_device_default(&type, &index);
            CHECK(type == KL_GPU && index == cases[i].index);
            CHECK(kl_device_own_gpu() == index);
            fflush(stdout);
            _exit(bad);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (!WIFEXITED(status) || WEXITSTATUS(status)) fail_msg("case %zu", i);
    }
}

/* Where nothing is asked for and no GPU is found, the error says what was tried. On a machine with
 * a GPU that OpenCL finds there is no error. */
static void test_nothing_found(void **state) {
    pid_t pid = fork();
    if (pid == 0) {
        struct kl_backend *b;
        struct kl_error *e = NULL;
        unsetenv("KEEL_GPU");
        unsetenv("KEEL_GPU_DEVICE");
        setenv("KEEL_CUDA_DRIVER", "/nonexistent/libcuda.so", 1);
        int rc = kl_device_backend(KL_GPU, 0, &b, &e);
        bool ok =
            rc == KL_OK || (rc == KL_EDEVICE &&
                            strstr(e->message, "no GPU (cuda: /nonexistent/libcuda.so not found") &&
                            strstr(e->message, "; opencl: "));
        if (!ok) printf("%s\n", e ? e->message : "no message");
        fflush(stdout);
        _exit(!ok);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Devices of OpenCL that are no GPUs, as PoCL's, are not taken by themselves: the facts say so, and
 * how to take them. */
static void test_opencl_without_gpus(void **state) {
    kl_test_skip_under_emulator("PoCL");
    pid_t pid = fork();
    if (pid == 0) {
        int bad = 0;
        unsetenv("KEEL_GPU");
        unsetenv("KEEL_GPU_DEVICE");
        setenv("KEEL_CUDA_DRIVER", "/nonexistent/libcuda.so", 1);
        const char *said = fact(KL_CPU, "missing_opencl");
        const int n = kl_opencl_count(NULL);
        CHECK(n > 0);
        bool gpus = false;
        for (int i = 0; i < n; i++) gpus = gpus || kl_opencl_is_gpu(i);
        CHECK(gpus == !said);
        CHECK(gpus || strstr(said, "but no GPU (KEEL_GPU=opencl takes "));
        fflush(stdout);
        _exit(bad);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    pid = fork();
    if (pid == 0) {
        int bad = 0;
        setenv("KEEL_GPU", "opencl", 1);
        CHECK(!fact(KL_CPU, "missing_opencl"));
        fflush(stdout);
        _exit(bad);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Whether the GPU becomes the default device, with which drivers, and whether OpenCL was loaded. */
static void test_default(void **state) {
    static const char *const none = "/nonexistent/libcuda.so";
    const struct {
        const char *gpu, *driver, *n_fakes, *path;
        bool yes;
    } cases[] = {
        {NULL, fake_driver, "1", fake_path, true},
        {"", fake_driver, "2", fake_path, true},
        {"cuda", fake_driver, "1", fake_path, true},
        {"sim", none, "1", fake_path, true},
        {NULL, fake_driver, "1", "/nonexistent", false}, /* unless the machine has a compiler */
        {"cuda", fake_driver, "1", "/nonexistent", true},
        {NULL, fake_driver, "0", fake_path, false},
        {"cuda", fake_driver, "0", fake_path, false},
        {NULL, none, "1", fake_path, false},
        {"none", fake_driver, "1", fake_path, false},
        {"nonsense", fake_driver, "1", fake_path, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            int bad = 0, index;
            bool yes = cases[i].yes, gpu = !yes;
            const char *why;
            enum kl_device_type type;
            set("KEEL_GPU", cases[i].gpu);
            set("KEEL_GPU_DEVICE", NULL);
            set("KEEL_CUDA_DRIVER", cases[i].driver);
            set("KEEL_CUDA_PATH", cases[i].path);
            set("FAKE_CUDA_DEVICES", cases[i].n_fakes);
            CHECK(kl_device_choose(&gpu, NULL) == KL_OK);
            if (cases[i].path != fake_path && kl_cuda_count(&why) > 0 && !why) yes = true;
            CHECK(gpu == yes);
            kl_device_default(&type, &index);
            CHECK(type == (gpu ? KL_GPU : KL_CPU) && index == 0);
            /* What a machine has of OpenCL is loaded only on request. */
            CHECK(!dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_NOLOAD));
            fflush(stdout);
            _exit(bad);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (!WIFEXITED(status) || WEXITSTATUS(status)) fail_msg("case %zu", i);
    }
}

/* Opening fails at every allocation that fails, and then works when tried again. */
static void test_memory(void **state) {
    bool worked = false;
    for (int64_t n = 0; !worked; n++) {
        pid_t pid = fork();
        if (pid == 0) {
            struct kl_backend *b;
            struct kl_error *e = NULL;
            set("KEEL_GPU", "cuda");
            set("KEEL_CUDA_DRIVER", fake_driver);
            set("KEEL_CUDA_PATH", fake_path);
            set("FAKE_CUDA_DEVICES", "2");
            kl_test_fail_alloc_at(n);
            int rc = kl_device_backend(KL_GPU, 1, &b, &e);
            bool fired = kl_test_alloc_failed();
            kl_test_fail_alloc_at(-1);
            bool ok = fired ? rc == KL_ENOMEM : rc == KL_OK;
            ok = ok && kl_device_backend(KL_GPU, 1, &b, NULL) == KL_OK && b->index == 1 &&
                 kl_device_count(KL_GPU) == 2;
            if (!ok) printf("allocation %d: %d %s\n", (int)n, rc, e ? e->message : "");
            fflush(stdout);
            _exit(!ok ? 1 : fired ? 0 : 2);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 1);
        worked = WEXITSTATUS(status) == 2;
        assert_true(n < 200);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choices),       cmocka_unit_test(test_gpu_of_launcher),
        cmocka_unit_test(test_nothing_found), cmocka_unit_test(test_opencl_without_gpus),
        cmocka_unit_test(test_default),       cmocka_unit_test(test_memory)};
    return cmocka_run_group_tests(tests, setup, NULL);
}
