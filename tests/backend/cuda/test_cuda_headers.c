/* test_cuda_headers.c - where the headers for kernels of users are found: beside an NVRTC that
 * Python installed, whole or in part. The NVRTC is the fake one. Each case runs in a process of its
 * own, since headers are looked for once. */
#include "backend/cuda/cuda_api.h"
#include "support.h"
#include "platform/self.h"

#include <libgen.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char fake[PATH_MAX];

static int setup(void **state) {
    static char self[4000];
    (void)t_self(self, sizeof self);
    snprintf(fake, sizeof fake, "%s/fake/lib64/libnvrtc.so", dirname(self));
    return 0;
}

/* Writes a file, and makes its folders; from NULL: the file is empty. */
static bool put(const char *root, const char *name, const char *from) {
    char path[PATH_MAX], block[4096];
    if (snprintf(path, sizeof path, "%s/%s", root, name) >= PATH_MAX) return false;
    for (char *slash = path + strlen(root); (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    FILE *in = from ? fopen(from, "rb") : NULL, *out = fopen(path, "wb");
    bool ok = out && (in || !from);
    for (size_t n; ok && in && (n = fread(block, 1, sizeof block, in)) > 0;)
        ok = fwrite(block, 1, n, out) == n;
    if (in) fclose(in);
    if (out && fclose(out)) ok = false;
    return ok;
}

struct layout {
    const char *name, *library; /* the folder of NVRTC */
    const char *files[3];       /* what there is of headers */
    const char *include,
        *cpp; /* the folders that must be found, as they end; NULL: others, or none */
};

#define CHECK(x)                                       \
    do {                                               \
        if (!(x)) {                                    \
            printf("line %d: not %s\n", __LINE__, #x); \
            bad = 1;                                   \
        }                                              \
    } while (0)

/* Whether a path names what lies at root/end, by another text perhaps. */
static bool leads_to(const char *path, const char *root, const char *end) {
    char wanted[PATH_MAX];
    struct stat a, b;
    snprintf(wanted, sizeof wanted, "%s/%s", root, end);
    return path && !stat(path, &a) && !stat(wanted, &b) && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

static bool is_whole(const char *include, const char *cpp) {
    char file[PATH_MAX];
    snprintf(file, sizeof file, "%s/cuda_fp16.h", include);
    if (access(file, R_OK)) return false;
    snprintf(file, sizeof file, "%s/nv/target", cpp);
    return access(file, R_OK) == 0;
}

static int child(const struct layout *l, const char *root) {
    int bad = 0;
    char folder[PATH_MAX], nvrtc[PATH_MAX];
    snprintf(nvrtc, sizeof nvrtc, "%s/libnvrtc.so", l->library);
    CHECK(put(root, nvrtc, fake));
    for (int i = 0; i < 3 && l->files[i]; i++) CHECK(put(root, l->files[i], NULL));
    /* NVRTC is looked for below it. */
    snprintf(folder, sizeof folder, "%s/%s/..", root, l->library);
    setenv("KEEL_CUDA_PATH", folder, 1);
    setenv("KEEL_CUDA_DRIVER", "/nonexistent/libcuda.so", 1);
    const char *cpp = "unset", *include = kl_nvrtc_include(&cpp);
    if (l->cpp) {
        CHECK(leads_to(include, root, l->include));
        CHECK(leads_to(cpp, root, l->cpp));
    } else if (cpp) {
        CHECK(include && is_whole(include, cpp)); /* a toolkit of this machine */
    } else if (l->include) {
        CHECK(leads_to(include, root, l->include)); /* better than nothing */
    }
    /* The error of a kernel that includes headers says what to install. */
    struct kl_error *e = NULL;
    void *binary = NULL;
    size_t bytes;
    CHECK(kl_nvrtc_compile(90, "#include <cooperative_groups.h>\nMISTAKE", "k", &binary, &bytes,
                           &e) == KL_ECOMPILE);
    CHECK(e && (strstr(e->message, "nvidia-cuda-cccl") != NULL) == !cpp);
    CHECK(e && (strstr(e->message, "nvidia-cuda-runtime") != NULL) == !include);
    kl_error_release(e);
    fflush(stdout);
    return bad;
}

static void headers_are_found(void **state) {
    static const char cu13[] = "nvidia/cu13/lib";
    static const struct layout layouts[] = {
        {"all-of-13",
         cu13,
         {"nvidia/cu13/include/cuda_fp16.h", "nvidia/cu13/include/cccl/nv/target"},
         "nvidia/cu13/include",
         "nvidia/cu13/include/cccl"},
        {"toolkit-of-12",
         "cuda/lib64",
         {"cuda/include/cuda_fp16.h", "cuda/include/nv/target"},
         "cuda/include",
         "cuda/include"},
        {"wheels-of-12",
         "nvidia/cuda_nvrtc/lib",
         {"nvidia/cuda_runtime/include/cuda_fp16.h", "nvidia/cuda_cccl/include/nv/target"},
         "nvidia/cuda_runtime/include",
         "nvidia/cuda_cccl/include"},
        {"13-without-cccl",
         cu13,
         {"nvidia/cu13/include/cuda_fp16.h", "nvidia/cu13/include/cooperative_groups.h"},
         "nvidia/cu13/include",
         NULL},
        {"13-compiler-only", cu13, {"nvidia/cu13/include/nvrtc.h"}, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        const char *root = kl_test_path(layouts[i].name);
        pid_t pid = fork();
        if (pid == 0) _exit(child(&layouts[i], root));
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (!WIFEXITED(status) || WEXITSTATUS(status)) fail_msg("%s", layouts[i].name);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(headers_are_found)};
    return cmocka_run_group_tests(tests, setup, NULL);
}
