/* launcher.h - tests of several processes. A test program for which KEEL_TEST_MPI names a launcher
 * (open_mpi, mpich, or meeting: without MPI) starts itself again with it, as several ranks, each of
 * which then runs the same cases; so the cases of all ranks call the operations of groups together.
 * A launcher that is not installed skips the test, by its name, unless KEEL_TEST_REQUIRED=1 makes
 * that a failure. */
#pragma once
#include "support.h"
#include "platform/self.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct launcher {
    const char *name, *command; /* command NULL: launch_by_variables */
    const char *args[4];        /* the number of ranks follows */
    const char *goes_on; /* lets the others live when a rank dies; its exit status says nothing */
    const char *with[4]; /* before the program, where the others are to live */
};
/* MPICH's launcher kills the process groups of all ranks when one dies, whatever it is told, so
 * each rank has a session of its own. */
static const struct launcher launchers[] = {
    {"open_mpi", "mpirun.openmpi", {"--oversubscribe"}, "--enable-recovery", {NULL}},
    {"mpich", "mpiexec.mpich", {NULL}, "-disable-auto-cleanup", {"setsid", "-w"}},
    {"meeting", NULL, {NULL}, NULL, {NULL}},
};

/* Whether the command is in a folder of PATH. */
static inline bool is_there(const char *command) {
    char text[256];
    snprintf(text, sizeof text, "command -v %s >/dev/null", command);
    return system(text) == 0;
}

static inline void become(const struct launcher *l, const char *self, const char *ranks,
                          bool goes_on) {
    const char *argv[20];
    int n = 0;
    argv[n++] = l->command;
    for (int i = 0; l->args[i]; i++) argv[n++] = l->args[i];
    if (goes_on) argv[n++] = l->goes_on;
    argv[n++] = "-n";
    argv[n++] = ranks;
    for (int i = 0; goes_on && l->with[i]; i++) argv[n++] = l->with[i];
    argv[n++] = self;
    argv[n] = NULL;
    setenv("KEEL_TEST_RANKS", ranks, 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    execvp(l->command, (char **)(uintptr_t)argv);
    _exit(127);
}

/* A port of this machine at which nobody listens. */
static inline int free_port(void) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof a;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)(void *)&a, sizeof a), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)(void *)&a, &n), 0);
    close(fd);
    return ntohs(a.sin_port);
}

static inline void set_number(const char *variable, int value) {
    char text[12];
    snprintf(text, sizeof text, "%d", value);
    setenv(variable, text, 1);
}

/* Starts one process with the variables that MLX's launcher sets for the backend nccl. */
static inline pid_t start_by_variables(int r, int ranks, int port) {
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid) return pid;
    setenv("NCCL_HOST_IP", "127.0.0.1", 1);
    set_number("NCCL_PORT", port);
    set_number("MLX_RANK", r);
    set_number("MLX_WORLD_SIZE", ranks);
    set_number("KEEL_TEST_RANKS", ranks);
    kl_test_run_again((const char *[]){NULL});
}

static inline int wait_for(pid_t pid) {
    int status = 0;
    while (waitpid(pid, &status, 0) < 0) continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The exit status of one of them that is not 0, or 0. */
static inline int launch_by_variables(int ranks) {
    enum { MOST = 64 };
    pid_t pids[MOST];
    const int port = free_port();
    int status = 0;
    assert_true(ranks <= MOST);
    for (int r = 0; r < ranks; r++) pids[r] = start_by_variables(r, ranks, port);
    for (int r = 0; r < ranks; r++) {
        const int one = wait_for(pids[r]);
        if (one) status = one;
    }
    return status;
}

/* Starts this program with the launcher; its exit status. goes_on: when a rank dies, the others
 * live. */
static inline int launch(const struct launcher *l, int ranks, bool goes_on) {
    char self[4096] = "", count[12];
    if (!l->command) return launch_by_variables(ranks);
    assert_true(t_self(self, sizeof self) > 0);
    snprintf(count, sizeof count, "%d", ranks);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) become(l, self, count, goes_on);
    return wait_for(pid);
}

enum { NOT_RUN = 77 }; /* the exit status by which CTest knows that a test was skipped */

/* The launcher of this name. NULL: it is not installed, and the test ends with *status. */
static inline const struct launcher *launcher_named(const char *name, int *status) {
    const char *required = getenv("KEEL_TEST_REQUIRED");
    *status = 1;
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const struct launcher *l = &launchers[i];
        if (strcmp(l->name, name) != 0) continue;
        if (l->command && *kl_test_emulator()) {
            printf("NOT RUN: %s does not start programs under an emulator\n", name);
            *status = NOT_RUN;
            return NULL;
        }
        if (!l->command || is_there(l->command)) return l;
        printf("NOT RUN: %s is not installed (%s)\n", name, l->command);
        *status = required && strcmp(required, "1") == 0 ? 1 : NOT_RUN;
    }
    return NULL;
}

/* Whether the program is to start ranks; then *status is what it ends with. */
static inline bool starts_ranks(int ranks, int *status) {
    const char *name = getenv("KEEL_TEST_MPI");
    if (!name || getenv("KEEL_TEST_RANKS")) return false;
    const struct launcher *l = launcher_named(name, status);
    if (l) *status = launch(l, ranks, false);
    return true;
}

/* Without MPI groups have devices alone: they move no values of the host. */
static inline bool has_no_mpi(void) {
    const char *name = getenv("KEEL_TEST_MPI");
    return name && strcmp(name, "meeting") == 0;
}

static inline bool is_a_rank(void) {
    return getenv("KEEL_TEST_RANKS") != NULL;
}
