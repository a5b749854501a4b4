/* test_cuda.c - mlx_cuda_is_available with the fake driver of tests/backend/cuda, without it,
 * and on other devices. Each case runs in a process of its own, since devices are opened once. */
#include "api/api_support.h"
#include "platform/self.h"

#include <dlfcn.h>
#include <keel/device.h>
#include <libgen.h>
#include <sys/wait.h>
#include <unistd.h>

static char fake_driver[4200], fake_path[4200];

static int find_fakes(void **state) {
    static char self[4096];
    (void)t_self(self, sizeof self);
    const char *dir = dirname(self);
    snprintf(fake_driver, sizeof fake_driver, "%s/fake/lib64/libcuda.so", dir);
    snprintf(fake_path, sizeof fake_path, "%s/fake", dir);
    return access(fake_driver, R_OK);
}

/* Asks in a new process: 0 or 1 is the answer; 2: the call failed; 3: it loaded OpenCL. */
static int answer(const char *gpu, const char *driver, const char *n_fakes) {
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        bool yes = false;
        setenv("KEEL_GPU", gpu, 1);
        setenv("KEEL_CUDA_DRIVER", driver, 1);
        setenv("KEEL_CUDA_PATH", fake_path, 1);
        setenv("FAKE_CUDA_DEVICES", n_fakes, 1);
        if (mlx_cuda_is_available(&yes)) _exit(2);
        /* Where there is no CUDA, no other driver is loaded to find that out. */
        _exit(!yes && dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_NOLOAD) ? 3 : yes);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_answers(void **state) {
    assert_int_equal(answer("cuda", fake_driver, "2"), 1);
    assert_int_equal(answer("", fake_driver, "1"), 1); /* CUDA is tried first */
    assert_int_equal(answer("cuda", fake_driver, "0"), 0);
    assert_int_equal(answer("", fake_driver, "0"), 0);
    assert_int_equal(answer("", "/nonexistent/libcuda.so", "1"), 0);
    assert_int_equal(answer("cuda", "/nonexistent/libcuda.so", "1"), 0);
    assert_int_equal(answer("none", fake_driver, "2"), 0);
    assert_int_equal(answer("sim", fake_driver, "2"), 0);
}

/* 0: the CPU stays the default device; 1: the GPU is; 2: the call failed. */
static int chosen(const char *gpu, const char *driver) {
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        bool yes = false;
        mlx_device d = mlx_device_new();
        mlx_device_type type;
        setenv("KEEL_GPU", gpu, 1);
        setenv("KEEL_CUDA_DRIVER", driver, 1);
        setenv("KEEL_CUDA_PATH", fake_path, 1);
        setenv("FAKE_CUDA_DEVICES", "1", 1);
        if (keel_device_choose(&yes) || mlx_get_default_device(&d) ||
            mlx_device_get_type(&type, d) || yes != (type == MLX_GPU))
            _exit(2);
        _exit(yes);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_choice(void **state) {
    assert_int_equal(chosen("", fake_driver), 1);
    assert_int_equal(chosen("cuda", fake_driver), 1);
    assert_int_equal(chosen("", "/nonexistent/libcuda.so"), 0);
    assert_int_equal(chosen("none", fake_driver), 0);
}

static void test_null(void **state) {
    mlx_set_error_handler(remember, NULL, NULL);
    FAILS(mlx_cuda_is_available(NULL), KEEL_EARG, "NULL");
    FAILS(keel_device_choose(NULL), KEEL_EARG, "NULL");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_null),
    };
    return cmocka_run_group_tests(tests, find_fakes, NULL);
}
