/* sim_run.c - runs the groups of a launch: work-items are fibres that stop at barriers and at
 * exchanges of a SIMD group. An item that never stops costs a call: the next one runs on the same
 * stack. Items that do not all come to a barrier, and loops that never end, are errors. */
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "sim.h"

enum { STACK = 256 << 10, STEPS = 20 << 20 };
enum state { READY, AT_BARRIER, AT_SIMD, DONE };

struct fibre {
    void *sp; /* where its registers are saved */
    char *stack;
    int item; /* that it runs or stopped in */
};

static __thread struct {
    const struct sim_launch *l;
    struct sim_size group;
    int n, next; /* items of the group; the first that was not started */
    enum state state[SIM_THREADS];
    int fibre_of[SIM_THREADS];
    struct fibre fibre[SIM_THREADS];
    int n_fibres, idle[SIM_THREADS], n_idle;
    int running; /* the fibre; -1: the loop */
    void *loop_sp;
    uint32_t word[2][SIM_THREADS]; /* what items exchange, in turn */
    unsigned turn[SIM_THREADS];
    /* Matrices of SIMD groups: their elements as the lanes bring them, in turn; what each item has
     * called so far, as one number; and which elements a lane holds, from launch to launch. */
    float matrix[2][2][SIM_THREADS / SIM_WIDTH][64];
    uint64_t trail[SIM_THREADS];
    uint32_t layout;
    void *shared;
    long steps;
    uint32_t random;
    int code;
    const char *why;
} r;

/* ---- switching ---- */

#ifdef __x86_64__
/* Saves what a function must keep, and goes on where `to` was left. */
void sim_switch(void **from, void *to);
__asm__(".globl sim_switch\n.hidden sim_switch\n.type sim_switch, @function\nsim_switch:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
        ".size sim_switch, .-sim_switch\n");
static void *prepare(char *stack, void (*body)(void)) {
    void **top = (void **)(stack + STACK);
    *--top = NULL; /* where body would return to; it never does */
    *--top = (void *)body;
    for (int i = 0; i < 6; i++) *--top = NULL;
    return top;
}
#else
static void sim_switch(void **from, void *to) {
    ucontext_t here;
    *from = &here;
    swapcontext(&here, to);
}
static void *prepare(char *stack, void (*body)(void)) {
    ucontext_t *c = (ucontext_t *)stack;
    getcontext(c);
    c->uc_stack.ss_sp = stack + sizeof *c;
    c->uc_stack.ss_size = STACK - sizeof *c;
    c->uc_link = NULL;
    makecontext(c, body, 0);
    return c;
}
#endif

static void to_loop(void) {
    struct fibre *f = &r.fibre[r.running];
    r.running = -1;
    sim_switch(&f->sp, r.loop_sp);
}

/* ---- an item ---- */

static struct sim_size position_of(int item) {
    const struct sim_size *n = &r.l->local;
    const unsigned long i = (unsigned long)item;
    return (struct sim_size){i % n->width, i / n->width % n->height, i / (n->width * n->height)};
}

static void set_builtin(const struct sim_builtin *b, int item) {
    const struct sim_size *n = &r.l->local, at = position_of(item);
    struct sim_size v = {(unsigned long)item, 0, 0};
    switch (b->attribute) {
    case POSITION_IN_GROUP: v = at; break;
    case GROUP_POSITION: v = r.group; break;
    case GROUP_SIZE: v = *n; break;
    case N_GROUPS: v = r.l->groups; break;
    case POSITION_IN_GRID:
        v = (struct sim_size){r.group.width * n->width + at.width,
                              r.group.height * n->height + at.height,
                              r.group.depth * n->depth + at.depth};
        break;
    case LANE: v.width %= SIM_WIDTH; break;
    case SIMD_GROUP: v.width /= SIM_WIDTH; break;
    case N_SIMD_GROUPS: v.width = (unsigned long)(r.n + SIM_WIDTH - 1) / SIM_WIDTH; break;
    case SIMD_WIDTH: v.width = SIM_WIDTH; break;
    default: break;
    }
    const uint32_t numbers[3] = {(uint32_t)v.width, (uint32_t)v.height, (uint32_t)v.depth};
    memcpy(b->at, numbers, (size_t)b->n * sizeof *numbers);
}

static void set_item(int item) {
    for (int i = 0; i < r.l->program->n_builtins; i++)
        set_builtin(&r.l->program->builtins[i], item);
}

static void call(void) {
    typedef void (*kernel)(void *, void *, void *, void *, void *, void *, void *, void *, void *,
                           void *, void *, void *, void *, void *, void *, void *, void *, void *,
                           void *, void *, void *, void *, void *, void *, void *, void *, void *,
                           void *, void *, void *, void *, void *);
    const struct sim_kernel *k = r.l->kernel;
    void *a[SIM_BUFFERS + 1] = {0};
    memcpy(a, r.l->args, (size_t)k->n_buffers * sizeof *a);
    if (k->has_shared) a[k->n_buffers] = r.shared;
    ((kernel)k->function)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11],
                          a[12], a[13], a[14], a[15], a[16], a[17], a[18], a[19], a[20], a[21],
                          a[22], a[23], a[24], a[25], a[26], a[27], a[28], a[29], a[30], a[31]);
}

/* Runs items that were not started, one after the other, until one of them stops; then it goes on
 * with that one alone. */
static void fibre_body(void) {
    for (;;) {
        const int me = r.running;
        while (r.next < r.n && !r.code) {
            int item = r.next++;
            r.fibre[me].item = item;
            r.fibre_of[item] = me;
            r.state[item] = READY;
            set_item(item);
            call();
            r.state[item] = DONE;
            /* Another fibre went on with the items meanwhile, where this one stopped. */
        }
        r.idle[r.n_idle++] = me;
        to_loop();
    }
}

/* ---- what kernels call ---- */

static void stop(enum state s) {
    int me = r.running, item = r.fibre[me].item;
    r.state[item] = s;
    to_loop();
    if (r.code) { /* the launch failed: this item ends here, and never goes on */
        r.state[item] = DONE;
        to_loop();
    }
}

void sim_barrier(void) {
    stop(AT_BARRIER);
}
void sim_simd_barrier(void) {
    stop(AT_SIMD);
}
uint32_t sim_lane(void) {
    return (uint32_t)r.fibre[r.running].item % SIM_WIDTH;
}
uint32_t sim_exchange(uint32_t word, uint32_t from) {
    int item = r.fibre[r.running].item, first = item / SIM_WIDTH * SIM_WIDTH;
    unsigned turn = r.turn[item]++ % 2;
    r.word[turn][item] = word;
    stop(AT_SIMD);
    int other = first + (int)(from % SIM_WIDTH);
    return other < r.n ? r.word[turn][other] : 0xdeadbeefu;
}
uint64_t sim_ballot(uint32_t bit) {
    int item = r.fibre[r.running].item, first = item / SIM_WIDTH * SIM_WIDTH;
    unsigned turn = r.turn[item]++ % 2;
    uint64_t all = 0;
    r.word[turn][item] = bit;
    stop(AT_SIMD);
    for (int i = 0; i < SIM_WIDTH && first + i < r.n; i++)
        all |= (uint64_t)(r.word[turn][first + i] != 0) << i;
    return all;
}
/* ---- matrices that a SIMD group holds together ---- */

static void fail_in_item(const char *why) {
    r.code = SIM_FAULT;
    r.why = why;
    stop(READY);
}
static uint32_t place_in_matrix(int lane, uint32_t i) {
    return ((uint32_t)lane * 2 + i) * (r.layout | 1) % 64;
}
uint32_t sim_matrix_place(uint32_t i) {
    return place_in_matrix(r.fibre[r.running].item % SIM_WIDTH, i);
}
/* All lanes must call the same, with the same addresses: release_items compares. */
void sim_matrix_used(uint32_t what, uint64_t where, uint64_t pitch) {
    int item = r.fibre[r.running].item;
    const uint64_t called[] = {what + 1, where, pitch};
    for (int i = 0; i < 3; i++) r.trail[item] = (r.trail[item] ^ called[i]) * 0x9e3779b97f4a7c15u;
    if (item / SIM_WIDTH * SIM_WIDTH + SIM_WIDTH > r.n)
        fail_in_item("a matrix of a SIMD group that is not whole");
}
static long n_multiplied;
long metal_sim_multiplied(void) {
    return __atomic_load_n(&n_multiplied, __ATOMIC_RELAXED);
}
/* sums += a b, of which each lane has two elements. */
void sim_matrix_multiply(float *sums, const float *a, const float *b) {
    int item = r.fibre[r.running].item, group = item / SIM_WIDTH;
    if (item % SIM_WIDTH == 0) __atomic_add_fetch(&n_multiplied, 1, __ATOMIC_RELAXED);
    unsigned turn = r.turn[item]++ % 2;
    float *all_a = r.matrix[turn][0][group], *all_b = r.matrix[turn][1][group];
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t place = place_in_matrix(item % SIM_WIDTH, i);
        all_a[place] = a[i];
        all_b[place] = b[i];
    }
    stop(AT_SIMD);
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t place = place_in_matrix(item % SIM_WIDTH, i);
        for (int k = 0; k < 8; k++)
            sums[i] = fmaf(all_a[place / 8 * 8 + k], all_b[k * 8 + place % 8], sums[i]);
    }
}

/* Metal's weak compare-and-swap may fail although nothing has changed. */
int sim_fails_for_no_reason(void) {
    r.random = r.random * 1664525u + 1013904223u;
    return r.random >> 28 == 0;
}
/* An item that takes more steps than this in compare-and-swap hangs. */
void sim_step(void) {
    if (--r.steps > 0) return;
    r.code = SIM_TIMEOUT;
    r.why = "Caused GPU Timeout Error (00000002:kIOAccelCommandBufferCallbackErrorTimeout)";
    stop(READY);
}

/* ---- halves, and sines of multiples of pi ---- */

float sim_float_of_half(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 0x3ff, bits;
    float x;
    if (e == 0) {
        x = (float)m * 0x1p-24f;
        return sign ? -x : x;
    }
    bits = sign | (e == 31 ? 0x7f800000u : (e + 112) << 23) | m << 13;
    memcpy(&x, &bits, sizeof x);
    return x;
}
uint16_t sim_half_of_float(float x) {
    uint32_t b;
    memcpy(&b, &x, sizeof b);
    uint16_t sign = (uint16_t)(b >> 16 & 0x8000);
    b &= 0x7fffffff;
    if (b > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (b >> 13 & 0x3ff));
    if (b >= 0x477ff000) return sign | 0x7c00;
    if (b < 0x38800000) return (uint16_t)(sign | (uint16_t)lrintf(fabsf(x) * 0x1p24f));
    b += 0xfff + (b >> 13 & 1);
    return (uint16_t)(sign | (b - 0x38000000) >> 13);
}
/* Exact at multiples of a half. */
static double sine_of_turns(double x) {
    double half_turns = fmod(x, 2), a = fabs(half_turns), sign = half_turns < 0 ? -1 : 1;
    if (a >= 1) a -= 1, sign = -sign;
    if (a > 0.5) a = 1 - a;
    return a == 0 ? copysign(0, x) : sign * sin(M_PI * a);
}
float sim_sinpi(float x) {
    return (float)sine_of_turns(x);
}
float sim_cospi(float x) {
    return (float)sine_of_turns(fabs(fmod(x, 2)) + 0.5);
}

/* ---- the groups ---- */

static int new_fibre(void) {
    if (r.n_idle > 0) return r.idle[--r.n_idle];
    struct fibre *f = &r.fibre[r.n_fibres];
    if (!f->stack)
        f->stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (f->stack == MAP_FAILED) abort();
    f->sp = prepare(f->stack, fibre_body);
    return r.n_fibres++;
}

static void go(int fibre) {
    r.running = fibre;
    sim_switch(&r.loop_sp, r.fibre[fibre].sp);
}

/* Whether the lanes of each SIMD group have called the same functions of matrices. */
static bool same_matrices(int from, int to) {
    for (int i = from; i < to; i++)
        if (r.trail[i] != r.trail[i / SIM_WIDTH * SIM_WIDTH]) return false;
    return true;
}

/* Lets the items of [from, to) go on that all stopped in the same way; false: they did not. */
static bool release_items(int from, int to, enum state at) {
    for (int i = from; i < to; i++)
        if (r.state[i] != at) return false;
    if (!same_matrices(from, to)) return false;
    for (int i = from; i < to; i++) r.state[i] = READY;
    return true;
}

static bool release_some(void) {
    bool any = release_items(0, r.n, AT_BARRIER);
    for (int i = 0; !any && i < r.n; i += SIM_WIDTH)
        if (r.state[i] == AT_SIMD)
            any = release_items(i, i + SIM_WIDTH < r.n ? i + SIM_WIDTH : r.n, AT_SIMD);
    return any;
}

static bool all_done(void) {
    for (int i = 0; i < r.n; i++)
        if (r.state[i] != DONE) return false;
    return true;
}

static const char divergent[] = "lanes of a SIMD group called different functions of its matrices";

static void run_group(void) {
    r.next = 0;
    memset(r.turn, 0, sizeof r.turn);
    memset(r.trail, 0, sizeof r.trail);
    while (r.next < r.n && !r.code) go(new_fibre());
    while (!r.code && !all_done()) {
        if (!release_some()) {
            r.code = SIM_FAULT;
            r.why = same_matrices(0, r.n)
                        ? "work-items of a group stopped at different barriers, or some at none"
                        : divergent;
            break;
        }
        for (int i = 0; i < r.n && !r.code; i++)
            if (r.state[i] == READY) {
                set_item(i);
                go(r.fibre_of[i]);
            }
    }
    if (!r.code && !same_matrices(0, r.n)) {
        r.code = SIM_FAULT;
        r.why = divergent;
    }
}

int sim_run(const struct sim_launch *l, const char **why) {
    const struct sim_size *g = &l->groups;
    r.l = l;
    r.n = (int)(l->local.width * l->local.height * l->local.depth);
    r.code = 0;
    r.n_fibres = r.n_idle = 0;
    r.running = -1;
    r.layout += 2;
    r.shared = l->shared_bytes ? aligned_alloc(16, l->shared_bytes) : NULL;
    pthread_mutex_lock(l->program->mu);
    for (r.group.depth = 0; r.group.depth < g->depth && !r.code; r.group.depth++)
        for (r.group.height = 0; r.group.height < g->height && !r.code; r.group.height++)
            for (r.group.width = 0; r.group.width < g->width && !r.code; r.group.width++) {
                if (r.shared) memset(r.shared, 0x5a, l->shared_bytes);
                r.steps = STEPS;
                run_group();
            }
    pthread_mutex_unlock(l->program->mu);
    free(r.shared);
    *why = r.why;
    return r.code;
}
