/* support.c - see support.h. */
#include "support.h"

#include "platform/self.h"

#include <ftw.h>
#include <sched.h>
#include <unistd.h>

static pid_t test_pid;

static unsigned long n_cases, n_taken, seed;
/* Of the draws of "cpu", of "device" and of all others. Each name has draws of its own, so that
 * what a stage draws of one does not depend on whether it samples another: fewer of the same
 * cases. */
enum { CPU, DEVICE, OTHERS, N_DRAWS };
static uint64_t states[N_DRAWS];

static void report_sample(void) {
    if (getpid() == test_pid)
        printf("SAMPLE: %lu of %lu cases, KEEL_TEST_SEED=%lu\n", n_taken, n_cases, seed);
}

/* By how much the sample of `what` is thinned: the number behind its name in KEEL_TEST_SAMPLE, or 1
 * without one; 0 when the variable does not name it. */
static unsigned thinned_by(const char *what) {
    const size_t n = strlen(what);
    for (const char *at = getenv("KEEL_TEST_SAMPLE"); at; at = strchr(at, ',')) {
        if (*at == ',') at++;
        if (strncmp(at, what, n) != 0) continue;
        if (at[n] == 0 || at[n] == ',') return 1;
        const unsigned long by = at[n] == '/' ? strtoul(at + n + 1, NULL, 10) : 0;
        if (by) return (unsigned)by;
    }
    return 0;
}

bool kl_test_samples(const char *what) {
    return thinned_by(what) != 0;
}

static void count_cases(void) {
    const char *given = getenv("KEEL_TEST_SEED");
    if (n_cases) return;
    seed = given ? strtoul(given, NULL, 10) : 1;
    for (int i = 0; i < N_DRAWS; i++) states[i] = seed * UINT64_C(0x9E3779B97F4A7C15);
    test_pid = getpid();
    atexit(report_sample);
}

bool kl_test_takes(const char *what, unsigned one_in) {
    uint64_t *state = &states[strcmp(what, "cpu") == 0      ? CPU
                              : strcmp(what, "device") == 0 ? DEVICE
                                                            : OTHERS];
    const unsigned by = thinned_by(what);
    if (!by) return true;
    count_cases();
    kl_test_random(state);
    bool taken = (*state >> 33) % (one_in * by) == 0;
    n_cases++;
    n_taken += taken;
    return taken;
}

unsigned kl_test_share(const char *what, unsigned n) {
    const unsigned by = thinned_by(what), share = by < n ? n / (by ? by : 1) : 1;
    if (!by || !n) return n;
    count_cases();
    n_cases += n;
    n_taken += share;
    return share;
}

/* ---- the simulated Metal ---- */

enum { NOT_RUN = 77 }; /* the exit status by which CTest knows that a test was skipped */

/* Where a variable names the device metal, the library in the folder fake/ next to this program
 * stands for it. It is not built where there is Metal itself; a machine that has neither runs no
 * such test. */
__attribute__((constructor)) static void find_metal(void) {
    const char *gpu = getenv("KEEL_TEST_GPU"), *driver = getenv("KEEL_TEST_DRIVER");
    char path[4200];
    if (!t_self(path, 4096)) return;
    const bool wanted = (gpu && strcmp(gpu, "metal") == 0) ||
                        (driver && strcmp(driver, "metal") == 0) ||
                        strstr(path, "/test_backend_metal");
    if (!wanted || getenv("KEEL_METAL_LIBRARY")) return;
    char *name = strrchr(path, '/');
    snprintf(name, sizeof path - (size_t)(name - path), "/fake/libmetal.so");
    if (access(path, R_OK) == 0) {
        setenv("KEEL_METAL_LIBRARY", path, 1);
    } else if (access("/System/Library/Frameworks/Metal.framework", F_OK)) {
        const char *required = getenv("KEEL_TEST_REQUIRED");
        printf("NOT RUN: the simulated Metal needs gobjc, which was not there when the tests were "
               "built\n");
        exit(required && strcmp(required, "1") == 0 ? EXIT_FAILURE : NOT_RUN);
    }
}

const char *kl_test_emulator(void) {
    static char command[1024];
    const char *given = getenv("KEEL_TEST_EMULATOR");
    snprintf(command, sizeof command, "%s%s", given ? given : "", given && *given ? " " : "");
    return command;
}

void kl_test_run_again(const char *const *args) {
    static char self[4096], words[1024];
    char *argv[24], *rest = words;
    int n = 0;
    strcpy(words, kl_test_emulator());
    for (char *word; n < 16 && (word = strtok_r(rest, " ", &rest));) argv[n++] = word;
    if (t_self(self, sizeof self)) argv[n++] = self;
    for (int i = 0; i < 5 && args[i]; i++) argv[n++] = (char *)(uintptr_t)args[i];
    argv[n] = NULL;
    execvp(argv[0], argv);
    _exit(127);
}

void kl_test_skip_under_emulator(const char *what) {
    if (!*kl_test_emulator()) return;
    printf("NOT RUN under the emulator: %s\n", what);
    skip();
}

static char test_dir[64];

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    return remove(path);
}

static void remove_dir(void) {
    if (getpid() == test_pid) nftw(test_dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

const char *kl_test_dir(void) {
    if (!test_dir[0]) {
        strcpy(test_dir, "/tmp/keel-test-XXXXXX");
        if (!mkdtemp(test_dir)) abort();
        test_pid = getpid();
        atexit(remove_dir);
    }
    return test_dir;
}

const char *kl_test_path(const char *name) {
    static char ring[8][256];
    static unsigned next;
    char *p = ring[next++ % 8];
    snprintf(p, sizeof ring[0], "%s/%s", kl_test_dir(), name);
    return p;
}

#ifdef __SANITIZE_ADDRESS__
/* PoCL, its compiler and the Objective-C runtime keep some memory for ever; their leaks are not
 * Keel's. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
    return "leak:libpocl\nleak:libLLVM\nleak:libclang\nleak:libOpenCL\n"
           "leak:libobjc.so\n";
}
#endif

void kl_test_wait_for_live(int64_t most) {
    while (kl_test_n_live() > most) sched_yield();
}
