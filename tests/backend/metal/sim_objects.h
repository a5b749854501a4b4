/* sim_objects.h - the classes of the simulated Metal, and of Foundation what they use. */
#import <objc/objc.h>
#import <objc/runtime.h>

#include "sim.h"

__attribute__((objc_root_class))
@interface SimObject {
    Class isa;
    int references;
}
+ (id)alloc;
- (id)init;
- (id)retain;
- (void)release;
- (id)autorelease;
- (void)dealloc;
@end

@interface NSAutoreleasePool : SimObject {
  @public
    NSAutoreleasePool *below;
    id *objects;
    int n, room;
}
- (void)drain;
@end

@interface NSString : SimObject {
  @public
    char *text;
}
+ (id)stringWithUTF8String:(const char *)text;
- (const char *)UTF8String;
@end

@interface NSError : SimObject {
    long code;
    NSString *words;
}
+ (id)errorWithCode:(long)code text:(const char *)text;
- (long)code;
- (id)localizedDescription;
@end

@interface NSURL : SimObject {
    NSString *path;
}
+ (id)fileURLWithPath:(NSString *)path;
- (id)path;
@end

@interface SimBuffer : SimObject {
  @public
    uint64_t serial; /* no two buffers have the same */
    char *memory;
    size_t length, charged;
    BOOL is_owner;
}
- (void *)contents;
- (unsigned long)length;
@end

@interface SimSharedEvent : SimObject {
  @public
    uint64_t value; /* guarded by sim_mu */
}
- (uint64_t)signaledValue;
- (void)setSignaledValue:(uint64_t)value;
@end

@interface SimFence : SimObject
@end

@interface SimLibrary : SimObject {
  @public
    struct sim_program *program;
    SimLibrary *next;
}
- (id)newFunctionWithName:(NSString *)name;
@end

@interface SimFunction : SimObject {
  @public
    struct sim_program *program;
    const struct sim_kernel *kernel;
}
@end

@interface SimPipeline : SimFunction
- (unsigned long)maxTotalThreadsPerThreadgroup;
- (unsigned long)staticThreadgroupMemoryLength;
- (unsigned long)threadExecutionWidth;
@end

@interface SimQueue : SimObject
- (id)commandBufferWithUnretainedReferences;
@end

extern pthread_mutex_t sim_mu;
extern pthread_cond_t sim_changed;
/* Whether the next object is refused; sim_mu is not held. */
BOOL sim_refuses(void);
/* Whether the device was removed. */
BOOL sim_is_removed(void);
/* Buffers that exist, by serial; the caller holds sim_mu. */
BOOL sim_lives(uint64_t serial);
/* A buffer of these bytes came, or goes with its memory, which is kept while a command buffer that
 * may use it is in flight. */
BOOL sim_buffer_comes(SimBuffer *b);
void sim_buffer_goes(SimBuffer *b);
