/* sim_objects.m - what stands for Foundation: counted objects, pools, strings, errors, lists. */
#import "sim_objects.h"

#include <stdlib.h>
#include <string.h>

static void sim_pool_add(id object);

/* What a block of the global kind points to. */
void *_NSConcreteGlobalBlock[32];

/* GCC's runtime has this function in a header alone, Apple's in its library. */
Class sim_class_of(id object) __asm__("object_getClass");
Class sim_class_of(id object) {
    return object_getClass(object);
}

@implementation SimObject
+ (id)alloc {
    /* Not by class_createInstance: leaks of the runtime itself are suppressed (tests/support.c). */
    SimObject *o = calloc(1, class_getInstanceSize((Class)self));
    object_setClass(o, (Class)self);
    o->references = 1;
    return o;
}
- (id)init {
    return self;
}
- (id)retain {
    __atomic_add_fetch(&references, 1, __ATOMIC_RELAXED);
    return self;
}
- (void)release {
    if (__atomic_sub_fetch(&references, 1, __ATOMIC_ACQ_REL) == 0) [self dealloc];
}
- (void)dealloc {
    free(self);
}
- (id)autorelease {
    sim_pool_add(self);
    return self;
}
@end

/* ---- pools: a stack of each thread ---- */

static __thread NSAutoreleasePool *top;

@implementation NSAutoreleasePool
- (id)init {
    below = top;
    top = self;
    return self;
}
- (void)drain {
    if (top != self) abort(); /* pools are popped in order, on the thread that pushed them */
    top = below;
    for (int i = 0; i < n; i++) [objects[i] release];
    free(objects);
    [self release];
}
@end

static void sim_pool_add(id object) {
    NSAutoreleasePool *p = top;
    if (!p) abort(); /* the object would never be released */
    if (p->n == p->room)
        p->objects = realloc(p->objects, (size_t)(p->room = 2 * p->room + 8) * sizeof(id));
    p->objects[p->n++] = object;
}

/* ---- strings, errors ---- */

@implementation NSString
+ (id)stringWithUTF8String:(const char *)s {
    NSString *o = [NSString alloc];
    o->text = strdup(s);
    return [o autorelease];
}
- (const char *)UTF8String {
    return text;
}
- (void)dealloc {
    free(text);
    [super dealloc];
}
@end

@implementation NSError
+ (id)errorWithCode:(long)c text:(const char *)s {
    NSError *e = [NSError alloc];
    e->code = c;
    e->words = [[NSString stringWithUTF8String:s] retain];
    return [e autorelease];
}
- (long)code {
    return code;
}
- (id)localizedDescription {
    return words;
}
- (void)dealloc {
    [words release];
    [super dealloc];
}
@end

@implementation NSURL
+ (id)fileURLWithPath:(NSString *)p {
    NSURL *u = [NSURL alloc];
    u->path = [p retain];
    return [u autorelease];
}
- (id)path {
    return path;
}
- (void)dealloc {
    [path release];
    [super dealloc];
}
@end

/* ---- the system ---- */

struct sim_version {
    long major, minor, patch;
};

@interface NSProcessInfo : SimObject
+ (id)processInfo;
- (struct sim_version)operatingSystemVersion;
@end
@implementation NSProcessInfo
+ (id)processInfo {
    static NSProcessInfo *one;
    if (!one) one = [[NSProcessInfo alloc] init];
    return one;
}
- (struct sim_version)operatingSystemVersion {
    const char *e = getenv("KEEL_METAL_SIM_MACOS");
    struct sim_version v = {e ? atol(e) : 14, 2, 1};
    return v;
}
@end
