/* sim_device.m - the device: memory within a budget, libraries, pipelines; and what tests tell it. */
#import "sim_objects.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

pthread_mutex_t sim_mu = PTHREAD_MUTEX_INITIALIZER;
static int refuse_after = -1;            /* guarded by sim_mu, as what follows */
static size_t budget = (size_t)1 << 30, used;
static BOOL removed;
static uint64_t *living, n_serials;      /* serials of buffers that exist */
static size_t n_living, living_room;

BOOL sim_refuses(void) {
    pthread_mutex_lock(&sim_mu);
    BOOL now = removed || refuse_after == 0;
    if (refuse_after >= 0) refuse_after--;
    pthread_mutex_unlock(&sim_mu);
    return now;
}
BOOL sim_is_removed(void) {
    return removed;
}
void metal_sim_refuse_after(int n) {
    pthread_mutex_lock(&sim_mu);
    refuse_after = n;
    pthread_mutex_unlock(&sim_mu);
}
void metal_sim_budget(size_t bytes) {
    pthread_mutex_lock(&sim_mu);
    budget = bytes;
    pthread_mutex_unlock(&sim_mu);
}
size_t metal_sim_bytes(void) {
    return used;
}
void metal_sim_remove(void) {
    pthread_mutex_lock(&sim_mu);
    removed = YES;
    pthread_cond_broadcast(&sim_changed);
    pthread_mutex_unlock(&sim_mu);
}

BOOL sim_lives(uint64_t serial) {
    for (size_t i = 0; i < n_living; i++)
        if (living[i] == serial) return YES;
    return NO;
}

BOOL sim_buffer_comes(SimBuffer *b) {
    pthread_mutex_lock(&sim_mu);
    BOOL fits = b->charged <= budget && used <= budget - b->charged;
    if (fits) {
        used += b->charged;
        b->serial = ++n_serials;
        if (n_living == living_room)
            living = realloc(living, (living_room = 2 * living_room + 64) * sizeof *living);
        living[n_living++] = b->serial;
    }
    pthread_mutex_unlock(&sim_mu);
    return fits;
}

/* ---- buffers ---- */

@implementation SimBuffer
- (void *)contents {
    return memory;
}
- (unsigned long)length {
    return length;
}
- (void)dealloc {
    pthread_mutex_lock(&sim_mu);
    for (size_t i = 0; i < n_living; i++)
        if (living[i] == serial) {
            living[i] = living[--n_living];
            used -= charged;
            break;
        }
    pthread_mutex_unlock(&sim_mu);
    sim_buffer_goes(self);
    [super dealloc];
}
@end

/* ---- programs ---- */

/* Drivers keep modules for ever; the list keeps leak checkers from reporting them. */
static SimLibrary *libraries;

@interface MTLCompileOptions : SimObject {
@public
    BOOL fast_math;
    unsigned long language;
}
- (void)setFastMathEnabled:(BOOL)fast;
- (void)setLanguageVersion:(unsigned long)version;
@end
@implementation MTLCompileOptions
- (id)init {
    fast_math = YES;
    return self;
}
- (void)setFastMathEnabled:(BOOL)fast {
    fast_math = fast;
}
- (void)setLanguageVersion:(unsigned long)version {
    language = version;
}
@end

@implementation SimLibrary
- (id)newFunctionWithName:(NSString *)name {
    for (int i = 0; i < program->n_kernels; i++) {
        if (strcmp(program->kernels[i].name, [name UTF8String]) != 0) continue;
        if (sim_refuses()) return nil;
        SimFunction *f = [SimFunction alloc];
        f->program = program;
        f->kernel = &program->kernels[i];
        return f;
    }
    return nil;
}
@end
@implementation SimFunction
@end
@implementation SimPipeline
- (unsigned long)maxTotalThreadsPerThreadgroup {
    return kernel->max_threads ? (unsigned long)kernel->max_threads : SIM_THREADS;
}
- (unsigned long)staticThreadgroupMemoryLength {
    return kernel->static_shared;
}
- (unsigned long)threadExecutionWidth {
    return SIM_WIDTH;
}
@end

@implementation SimSharedEvent
- (uint64_t)signaledValue {
    pthread_mutex_lock(&sim_mu);
    uint64_t v = value;
    pthread_mutex_unlock(&sim_mu);
    return v;
}
- (void)setSignaledValue:(uint64_t)v {
    pthread_mutex_lock(&sim_mu);
    if (v > value) value = v;
    pthread_cond_broadcast(&sim_changed);
    pthread_mutex_unlock(&sim_mu);
}
@end
@implementation SimFence
@end

/* ---- the device ---- */

@interface SimArchitecture : SimObject
- (id)name;
@end
@implementation SimArchitecture
- (id)name {
    return [NSString stringWithUTF8String:"simulated_g13"];
}
@end

@interface SimDevice : SimObject
@end
@implementation SimDevice
- (id)name {
    return [NSString stringWithUTF8String:"Simulated M1"];
}
- (id)architecture {
    return [[SimArchitecture alloc] autorelease];
}
- (BOOL)hasUnifiedMemory {
    return YES;
}
- (BOOL)supportsFamily:(long)family {
    return family <= (getenv("KEEL_METAL_SIM_INTEL") ? 1000 : 1007);
}
- (uint64_t)recommendedMaxWorkingSetSize {
    return (uint64_t)1 << 30;
}
- (unsigned long)maxBufferLength {
    return (unsigned long)1 << 29;
}
- (struct sim_size)maxThreadsPerThreadgroup {
    struct sim_size s = {1024, 1024, 1024};
    return s;
}
- (unsigned long)maxThreadgroupMemoryLength {
    return SIM_SHARED;
}

- (id)newBufferWithLength:(unsigned long)length options:(unsigned long)options {
    if (sim_refuses() || length == 0 || length > [self maxBufferLength]) return nil;
    SimBuffer *b = [SimBuffer alloc];
    b->is_owner = YES;
    b->length = b->charged = length;
    if (posix_memalign((void **)&b->memory, length < 65536 ? 256 : 16384, length)) b->memory = NULL;
    if (b->memory && sim_buffer_comes(b)) {
        memset(b->memory, 0xa5, length < 4096 ? length : 4096);
        return b;
    }
    free(b->memory);
    b->memory = NULL;
    free(b);
    return nil;
}
- (id)newBufferWithBytesNoCopy:(void *)pointer
                        length:(unsigned long)length
                       options:(unsigned long)options
                   deallocator:(id)deallocator {
    unsigned long page = (unsigned long)sysconf(_SC_PAGESIZE);
    if (sim_refuses() || length == 0 || (unsigned long)pointer % page || length % page) return nil;
    SimBuffer *b = [SimBuffer alloc];
    b->memory = pointer;
    b->length = length;
    sim_buffer_comes(b);
    return b;
}
- (id)newCommandQueueWithMaxCommandBufferCount:(unsigned long)n {
    return sim_refuses() ? nil : [SimQueue alloc];
}
- (id)newSharedEvent {
    return sim_refuses() ? nil : [SimSharedEvent alloc];
}
- (id)newFence {
    return sim_refuses() ? nil : [SimFence alloc];
}
- (id)newLibraryWithSource:(NSString *)source
                   options:(MTLCompileOptions *)options
                     error:(NSError **)error {
    char *log = NULL;
    struct sim_program *p = NULL;
    if (sim_refuses())
        log = strdup("Compiler is not available");
    else if (options->fast_math || options->language < (3 << 16) + 1)
        log = strdup("the kernels need safe math and language 3.1");
    else
        p = sim_compile([source UTF8String], &log);
    if (!p && error) *error = [NSError errorWithCode:3 text:log ? log : ""];
    free(log);
    if (!p) return nil;
    SimLibrary *l = [SimLibrary alloc];
    l->program = p;
    l->next = libraries;
    libraries = l;
    return l;
}
- (id)newComputePipelineStateWithFunction:(SimFunction *)f error:(NSError **)error {
    const char *why = NULL;
    if (sim_refuses()) why = "Compiler is not available";
    if (f->kernel->static_shared > SIM_SHARED)
        why = "Threadgroup memory size exceeds the maximum threadgroup memory allowed (32768)";
    if (f->kernel->n_buffers > SIM_BUFFERS) why = "a kernel has at most 31 buffers";
    if (why) {
        if (error) *error = [NSError errorWithCode:3 text:why];
        return nil;
    }
    SimPipeline *p = [SimPipeline alloc];
    p->program = f->program;
    p->kernel = f->kernel;
    return p;
}
@end

/* ---- recordings ---- */

@interface MTLCaptureDescriptor : SimObject {
@public
    id object;
    long destination;
    id url;
}
- (void)setCaptureObject:(id)o;
- (void)setDestination:(long)d;
- (void)setOutputURL:(id)u;
@end
@implementation MTLCaptureDescriptor
- (void)setCaptureObject:(id)o {
    object = o;
}
- (void)setDestination:(long)d {
    destination = d;
}
- (void)setOutputURL:(id)u {
    url = u;
}
@end

@interface MTLCaptureManager : SimObject
+ (id)sharedCaptureManager;
- (BOOL)startCaptureWithDescriptor:(MTLCaptureDescriptor *)d error:(NSError **)error;
- (void)stopCapture;
@end
static MTLCaptureManager *manager;
static BOOL is_recording;
@implementation MTLCaptureManager
+ (id)sharedCaptureManager {
    if (!manager) manager = [MTLCaptureManager alloc];
    return manager;
}
- (BOOL)startCaptureWithDescriptor:(MTLCaptureDescriptor *)d error:(NSError **)error {
    const char *why = NULL, *path = d->url ? [[d->url path] UTF8String] : "";
    if (!getenv("METAL_CAPTURE_ENABLED")) why = "Capturing is not supported.";
    if (is_recording) why = "Capture already in progress.";
    if (access(path, F_OK) == 0) why = "The output file already exists.";
    if (!d->object || d->destination != 2) why = "Nothing to capture.";
    if (why) *error = [NSError errorWithCode:1 text:why];
    is_recording = is_recording || !why;
    return !why;
}
- (void)stopCapture {
    is_recording = NO;
}
@end

/* The list of devices, which the caller releases. */
@interface SimDevices : SimObject
- (unsigned long)count;
- (id)objectAtIndex:(unsigned long)i;
@end
static SimDevice *the_device;
@implementation SimDevices
- (unsigned long)count {
    return getenv("KEEL_METAL_SIM_NONE") ? 0 : 1;
}
- (id)objectAtIndex:(unsigned long)i {
    return the_device;
}
@end

id MTLCopyAllDevices(void) {
    if (!the_device) the_device = [SimDevice alloc];
    return [SimDevices alloc];
}
