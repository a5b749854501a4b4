/* support.c - see support.h. */
#include "support.h"

#include <ftw.h>
#include <unistd.h>

static char test_dir[64];
static pid_t test_pid;

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
/* What PoCL and the compiler in it never give back is not ours to mend. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
    return "leak:libpocl\nleak:libLLVM\nleak:libclang\nleak:libOpenCL\n";
}
#endif
