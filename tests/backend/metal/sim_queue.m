/* sim_queue.m - command buffers, and the threads that run them.
 *
 * Of the command buffers whose next step may run, a seeded generator picks one, whatever their queue
 * and order of commit: only events order them. Two encoders side by side in a command buffer change
 * places now and then unless the second one waits for a fence that the first one updates. */
#import "sim_objects.h"

#include <stdlib.h>
#include <string.h>

pthread_cond_t sim_changed = PTHREAD_COND_INITIALIZER;

enum kind { WAIT, SIGNAL, COMPUTE, COPY };

struct dispatch {
    struct sim_launch launch;
    uint64_t serials[SIM_BUFFERS];
    char *bytes[SIM_BUFFERS]; /* of setBytes */
    struct dispatch *next;
};
struct step {
    enum kind kind;
    SimSharedEvent *event;
    uint64_t value;
    struct dispatch *first, *last;
    SimFence *waits[4], *updates[4];
    int n_waits, n_updates;
    uint64_t serials[2];
    char *from, *to;
    size_t n;
};

struct sim_block {
    void *isa;
    int flags, reserved;
    void (*invoke)(struct sim_block *self, id argument);
    const void *descriptor;
};

@interface SimCommandBuffer : SimObject {
@public
    struct step *steps;
    int n_steps, room, at; /* at: the step that is next */
    struct sim_block *handlers[4];
    int n_handlers;
    int code; /* of the error */
    const char *why;
    BOOL committed, running, encoding;
    unsigned long status;
    NSError *error;
    SimCommandBuffer *next;
}
@end

static SimCommandBuffer *flight; /* committed and not complete; guarded by sim_mu, as what follows */
static struct grave {
    void *memory;
    struct grave *next;
} *graves; /* memory of buffers that ended while something was in flight */
static BOOL held;
static int fail_after = -1, fail_code, n_committed, n_invalid;
static uint64_t seed;
static BOOL started;

static unsigned draw(unsigned n) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % n;
}

void metal_sim_hold(bool on) {
    pthread_mutex_lock(&sim_mu);
    held = on;
    pthread_cond_broadcast(&sim_changed);
    pthread_mutex_unlock(&sim_mu);
}
void metal_sim_fail_after(int n, int code) {
    pthread_mutex_lock(&sim_mu);
    fail_after = n;
    fail_code = code;
    pthread_mutex_unlock(&sim_mu);
}
int metal_sim_committed(void) {
    return n_committed;
}
int metal_sim_invalid(void) {
    return n_invalid;
}

static BOOL uses(const struct step *s, uint64_t serial) {
    for (struct dispatch *d = s->first; d; d = d->next)
        for (int i = 0; i < SIM_BUFFERS; i++)
            if (d->serials[i] == serial) return YES;
    return serial && (s->serials[0] == serial || s->serials[1] == serial);
}

static void fail(SimCommandBuffer *b, int code, const char *why) {
    if (b->code) return;
    b->code = code;
    b->why = why;
    if (code == SIM_INVALID) n_invalid++;
}

/* What is in flight and uses the buffer fails, as on the device, where its pages are gone. Its
 * memory stays until nothing is in flight, so that the test goes on to see the error. */
void sim_buffer_goes(SimBuffer *buffer) {
    pthread_mutex_lock(&sim_mu);
    for (SimCommandBuffer *b = flight; b; b = b->next)
        for (int i = 0; i < b->n_steps; i++)
            if (uses(&b->steps[i], buffer->serial))
                fail(b, SIM_INVALID, "Invalid Resource (00000009:kIOAccelCommandBufferCallback"
                                     "ErrorInvalidResource)");
    if (buffer->is_owner && buffer->memory && flight) {
        struct grave *g = malloc(sizeof *g);
        *g = (struct grave){buffer->memory, graves};
        graves = g;
    } else if (buffer->is_owner) {
        free(buffer->memory);
    }
    pthread_mutex_unlock(&sim_mu);
}

/* ---- running; the caller holds sim_mu ---- */

static BOOL may_go_on(const SimCommandBuffer *b) {
    if (b->running) return NO;
    if (b->at == b->n_steps || b->code || sim_is_removed()) return YES;
    const struct step *s = &b->steps[b->at];
    return s->kind != WAIT || s->event->value >= s->value;
}

static BOOL ordered(const struct step *a, const struct step *b) {
    for (int i = 0; i < a->n_updates; i++)
        for (int k = 0; k < b->n_waits; k++)
            if (a->updates[i] == b->waits[k]) return YES;
    return NO;
}

static BOOL is_encoder(const struct step *s) {
    return s->kind == COMPUTE || s->kind == COPY;
}

/* Memory that was freed before the command buffer was committed. */
static BOOL all_live(const struct step *s) {
    for (struct dispatch *d = s->first; d; d = d->next)
        for (int i = 0; i < SIM_BUFFERS; i++)
            if (d->serials[i] && !sim_lives(d->serials[i])) return NO;
    for (int i = 0; i < 2; i++)
        if (s->serials[i] && !sim_lives(s->serials[i])) return NO;
    return YES;
}

static void run_step(SimCommandBuffer *b, const struct step *s) {
    int code = 0;
    const char *why = NULL;
    pthread_mutex_unlock(&sim_mu);
    for (struct dispatch *d = s->first; d && !code; d = d->next) code = sim_run(&d->launch, &why);
    if (s->kind == COPY) memmove(s->to, s->from, s->n);
    pthread_mutex_lock(&sim_mu);
    if (code) fail(b, code, why);
}

static void complete(SimCommandBuffer *b) {
    SimCommandBuffer **at = &flight;
    if (sim_is_removed()) fail(b, SIM_REMOVED, "Device removed");
    while (*at != b) at = &(*at)->next;
    *at = b->next;
    if (!flight)
        for (struct grave *g; (g = graves);) {
            graves = g->next;
            free(g->memory);
            free(g);
        }
    b->status = b->code ? 5 : 4;
    pthread_mutex_unlock(&sim_mu);
    NSAutoreleasePool *pool = [[NSAutoreleasePool alloc] init];
    if (b->code) b->error = [[NSError errorWithCode:b->code text:b->why] retain];
    for (int i = 0; i < b->n_handlers; i++) b->handlers[i]->invoke(b->handlers[i], b);
    [b release];
    [pool drain];
    pthread_mutex_lock(&sim_mu);
}

static void go_on(SimCommandBuffer *b) {
    b->running = YES;
    if (b->at < b->n_steps && !b->code && !sim_is_removed()) {
        struct step *s = &b->steps[b->at];
        if (s->kind == SIGNAL) {
            if (s->value > s->event->value) s->event->value = s->value;
        } else if (is_encoder(s)) {
            if (b->at + 1 < b->n_steps && is_encoder(s + 1) && !ordered(s, s + 1) && draw(2)) {
                struct step swapped = s[0];
                s[0] = s[1];
                s[1] = swapped;
            }
            if (!all_live(s))
                fail(b, SIM_INVALID, "Invalid Resource (00000009:kIOAccelCommandBufferCallback"
                                     "ErrorInvalidResource)");
            else
                run_step(b, s);
        }
        b->at++;
        b->running = NO;
    } else {
        complete(b);
    }
    pthread_cond_broadcast(&sim_changed);
}

static void *worker(void *unused) {
    pthread_mutex_lock(&sim_mu);
    for (;;) {
        int n = 0;
        SimCommandBuffer *ready[256];
        for (SimCommandBuffer *b = flight; b && n < 256 && !held; b = b->next)
            if (may_go_on(b)) ready[n++] = b;
        if (n > 0)
            go_on(ready[draw((unsigned)n)]);
        else
            pthread_cond_wait(&sim_changed, &sim_mu);
    }
    return NULL;
}

static void start(void) {
    if (started) return;
    started = YES;
    const char *e = getenv("KEEL_METAL_SIM_SEED");
    seed = e ? strtoull(e, NULL, 0) : 1;
    for (int i = 0; i < 2; i++) {
        pthread_t t;
        pthread_attr_t a;
        pthread_attr_init(&a);
        pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
        if (pthread_create(&t, &a, worker, NULL)) abort();
    }
}

/* ---- encoders ---- */

@interface SimEncoder : SimObject {
@public
    SimCommandBuffer *buffer;
    int step;
    SimPipeline *pipeline;
    struct dispatch bound;
    int lengths[SIM_BUFFERS];
    BOOL ended;
}
@end

static struct step *step_of(SimEncoder *e) {
    if (e->ended) abort(); /* an encoder takes nothing after endEncoding */
    return &e->buffer->steps[e->step];
}

@implementation SimEncoder
- (void)setComputePipelineState:(SimPipeline *)p {
    pipeline = p;
}
- (void)setBuffer:(SimBuffer *)b offset:(unsigned long)offset atIndex:(unsigned long)i {
    if (i >= SIM_BUFFERS || (b && offset > b->length)) abort();
    bound.serials[i] = b ? b->serial : 0;
    bound.launch.args[i] = b ? b->memory + offset : NULL;
    free(bound.bytes[i]);
    bound.bytes[i] = NULL;
}
- (void)setBytes:(const void *)bytes length:(unsigned long)n atIndex:(unsigned long)i {
    if (i >= SIM_BUFFERS || n == 0 || n > SIM_BYTES) abort();
    free(bound.bytes[i]);
    bound.serials[i] = 0;
    bound.bytes[i] = aligned_alloc(16, (n + 15) / 16 * 16);
    memcpy(bound.bytes[i], bytes, n);
    lengths[i] = (int)n;
}
- (void)setThreadgroupMemoryLength:(unsigned long)n atIndex:(unsigned long)i {
    if (i != 0 || n % 16 || n > SIM_SHARED) abort();
    bound.launch.shared_bytes = n;
}
- (void)dispatchThreadgroups:(struct sim_size)groups threadsPerThreadgroup:(struct sim_size)local {
    struct step *s = step_of(self);
    struct dispatch *d = malloc(sizeof *d);
    unsigned long n = local.width * local.height * local.depth;
    if (!pipeline || n == 0 || n > [pipeline maxTotalThreadsPerThreadgroup]) abort();
    if (bound.launch.shared_bytes + pipeline->kernel->static_shared > SIM_SHARED) abort();
    *d = bound;
    d->next = NULL;
    d->launch.program = pipeline->program;
    d->launch.kernel = pipeline->kernel;
    d->launch.groups = groups;
    d->launch.local = local;
    for (int i = 0; i < SIM_BUFFERS; i++)
        if (bound.bytes[i]) {
            size_t room = ((size_t)lengths[i] + 15) / 16 * 16;
            d->bytes[i] = aligned_alloc(16, room);
            memcpy(d->bytes[i], bound.bytes[i], (size_t)lengths[i]);
            d->launch.args[i] = d->bytes[i];
        }
    for (int i = pipeline->kernel->n_buffers; i < SIM_BUFFERS; i++) d->serials[i] = 0;
    if (s->last)
        s->last->next = d;
    else
        s->first = d;
    s->last = d;
}
- (void)copyFromBuffer:(SimBuffer *)from
          sourceOffset:(unsigned long)from_at
              toBuffer:(SimBuffer *)to
     destinationOffset:(unsigned long)to_at
                  size:(unsigned long)n {
    struct step *s = step_of(self);
    if (from_at + n > from->length || to_at + n > to->length) abort();
    s->serials[0] = from->serial;
    s->serials[1] = to->serial;
    s->from = from->memory + from_at;
    s->to = to->memory + to_at;
    s->n = n;
}
- (void)updateFence:(SimFence *)fence {
    struct step *s = step_of(self);
    if (s->n_updates < 4) s->updates[s->n_updates++] = fence;
}
- (void)waitForFence:(SimFence *)fence {
    struct step *s = step_of(self);
    if (s->n_waits < 4) s->waits[s->n_waits++] = fence;
}
- (void)endEncoding {
    step_of(self);
    ended = YES;
    buffer->encoding = NO;
}
- (void)dealloc {
    if (!ended) abort(); /* as Metal does */
    for (int i = 0; i < SIM_BUFFERS; i++) free(bound.bytes[i]);
    [super dealloc];
}
@end

/* ---- command buffers ---- */

@implementation SimCommandBuffer
- (struct step *)add:(enum kind)kind {
    if (committed || encoding) abort();
    if (n_steps == room) steps = realloc(steps, (size_t)(room = 2 * room + 4) * sizeof *steps);
    struct step *s = &steps[n_steps++];
    memset(s, 0, sizeof *s);
    s->kind = kind;
    return s;
}
- (void)encodeWaitForEvent:(SimSharedEvent *)event value:(uint64_t)value {
    struct step *s = [self add:WAIT];
    s->event = event;
    s->value = value;
}
- (void)encodeSignalEvent:(SimSharedEvent *)event value:(uint64_t)value {
    struct step *s = [self add:SIGNAL];
    s->event = event;
    s->value = value;
}
- (id)encoder:(enum kind)kind {
    if (sim_refuses()) return nil;
    [self add:kind];
    SimEncoder *e = [SimEncoder alloc];
    e->buffer = self;
    e->step = n_steps - 1;
    encoding = YES;
    return [e autorelease];
}
- (id)computeCommandEncoderWithDispatchType:(unsigned long)type {
    return [self encoder:COMPUTE];
}
- (id)blitCommandEncoder {
    return [self encoder:COPY];
}
- (void)addCompletedHandler:(struct sim_block *)block {
    if (committed || n_handlers == 4 || !(block->flags & 1 << 28)) abort();
    handlers[n_handlers++] = block;
}
- (void)commit {
    if (committed || encoding) abort();
    [self retain];
    pthread_mutex_lock(&sim_mu);
    start();
    committed = YES;
    n_committed++;
    if (fail_after == 0) fail(self, fail_code, "Internal Error (0000000e:simulated)");
    if (fail_after >= 0) fail_after--;
    status = 2;
    next = flight;
    flight = self;
    pthread_cond_broadcast(&sim_changed);
    pthread_mutex_unlock(&sim_mu);
}
- (unsigned long)status {
    return status;
}
- (id)error {
    return error;
}
- (void)dealloc {
    for (int i = 0; i < n_steps; i++)
        for (struct dispatch *d = steps[i].first, *after; d; d = after) {
            after = d->next;
            for (int k = 0; k < SIM_BUFFERS; k++) free(d->bytes[k]);
            free(d);
        }
    free(steps);
    [error release];
    [super dealloc];
}
@end

@implementation SimQueue
- (id)commandBufferWithUnretainedReferences {
    return sim_refuses() ? nil : [[SimCommandBuffer alloc] autorelease];
}
@end
