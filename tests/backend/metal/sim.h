/* sim.h - the simulated Metal: what its files share, and what tests call (by dlsym).
 *
 * The library has the classes that the driver uses, on GCC's Objective-C runtime. It is strict
 * where Metal is silent: command buffers run in a seeded random order unless an event orders them,
 * encoders unless a fence does, and memory that is freed in flight fails them. */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SIM_BUFFERS = 31,      /* arguments of a kernel */
    SIM_BYTES = 4096,      /* of setBytes */
    SIM_WIDTH = 32,        /* of a SIMD group */
    SIM_THREADS = 1024,    /* of a group */
    SIM_SHARED = 32 << 10, /* bytes of shared memory of a group */
};
/* Codes of MTLCommandBufferError. */
enum { SIM_TIMEOUT = 2, SIM_FAULT = 3, SIM_NO_MEMORY = 8, SIM_INVALID = 9, SIM_REMOVED = 11 };

struct sim_size {
    unsigned long width, height, depth;
};

/* ---- programs: sim_compile.c ---- */
struct sim_kernel {
    char name[96];
    void (*function)(void);
    int n_buffers;
    bool has_shared; /* its last argument is shared memory */
    size_t static_shared;
    int max_threads; /* that the source declares; 0: none */
};
/* Attributes of the grid, and a variable at program scope that has one. */
enum sim_attribute {
    POSITION_IN_GROUP,
    GROUP_POSITION,
    GROUP_SIZE,
    N_GROUPS,
    POSITION_IN_GRID,
    INDEX_IN_GROUP,
    LANE,
    SIMD_GROUP,
    N_SIMD_GROUPS,
    SIMD_WIDTH,
    N_ATTRIBUTES
};
struct sim_builtin {
    char name[64];
    int attribute; /* which of sim_attributes */
    int n;         /* numbers: 1 or 3 */
    uint32_t *at;
};
struct sim_program {
    struct sim_kernel kernels[64];
    struct sim_builtin builtins[16];
    int n_kernels, n_builtins;
    pthread_mutex_t *mu; /* held by the thread that runs a group of it; of its library */
};
/* NULL: the source does not compile; *log, malloc'd, says why. */
struct sim_program *sim_compile(const char *source, char **log);

/* ---- running: sim_run.c ---- */
struct sim_launch {
    struct sim_program *program;
    const struct sim_kernel *kernel;
    struct sim_size groups, local;
    size_t shared_bytes;
    void *args[SIM_BUFFERS];
};
/* 0, or the code with which the command buffer fails; *why says it in words. */
int sim_run(const struct sim_launch *l, const char **why);

/* ---- for tests ---- */
/* While it is held, the device begins no command buffer. */
void metal_sim_hold(bool held);
/* The command buffer that is committed as the n-th from now on (0: the next one) fails. */
void metal_sim_fail_after(int n, int code);
/* The device is removed: what is in flight and all later work fails. */
void metal_sim_remove(void);
/* Bytes that buffers may have in all. */
void metal_sim_budget(size_t bytes);
/* Bytes that buffers have. */
size_t metal_sim_bytes(void);
/* Command buffers that were committed, and those of them that failed by memory freed in flight. */
int metal_sim_committed(void);
int metal_sim_invalid(void);
/* Products of two matrices of SIMD groups that kernels have made. */
long metal_sim_multiplied(void);
/* The n-th `new...` or command buffer from now on is nil (0: the next one; -1: none). */
void metal_sim_refuse_after(int n);
