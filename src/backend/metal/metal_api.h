/* metal_api.h - Metal in C. The Objective-C runtime, Foundation and Metal are opened at run time;
 * methods are found by class_getMethodImplementation and called through typed pointers, so that
 * the library has no line of Objective-C and links nothing of Apple's.
 *
 * A function below sends the message of its selector. Objects are never nil: a caller looks at what
 * it got before it sends it anything. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef void *kl_metal_id;
typedef unsigned long kl_metal_uint; /* NSUInteger */

struct kl_metal_size {
    kl_metal_uint width, height, depth;
};
struct kl_metal_version {
    long major, minor, patch;
};
/* A block of the global kind, which captures nothing and is never copied. */
struct kl_metal_block {
    void *isa;
    int flags, reserved;
    void (*invoke)(struct kl_metal_block *self, kl_metal_id argument);
    const void *descriptor;
};

/* Numbers of Apple's headers. */
enum {
    KL_METAL_STORAGE_SHARED_UNTRACKED = 0 << 4 | 1 << 8,
    KL_METAL_DISPATCH_SERIAL = 0,
    KL_METAL_STATUS_COMPLETED = 4,
    KL_METAL_FAMILY_APPLE7 = 1007,
    KL_METAL_LANGUAGE_3_1 = (3 << 16) + 1,
    KL_METAL_MATH_SAFE = 0,
    KL_METAL_CAPTURE_TO_FILE = 2,
    KL_METAL_MOST_BUFFERS = 31, /* in the table of arguments of a kernel */
    KL_METAL_MOST_BYTES = 4096, /* of setBytes */
};

/* A method, found when the first object takes it. */
struct kl_metal_method {
    const char *text; /* of the selector */
    void *selector;
    /* The class of that object, and what implements the method there; cls is written last. */
    _Atomic(void *) cls;
    void (*function)(void);
};
enum {
#define M0(type, name, ...) which_##name,
#define M1 M0
#define M2 M0
#define M3 M0
#define M4 M0
#define M5 M0
#include "backend/metal/metal_methods.def"
    KL_METAL_N_METHODS
};
extern struct kl_metal_method kl_metal_methods[KL_METAL_N_METHODS];

/* Opens the libraries once; NULL, or why Metal cannot be used, in words for users. The caller holds
 * a lock. KEEL_METAL_LIBRARY names one file that stands for all of them. */
const char *kl_metal_load(void);
/* NULL: there is no such class. */
kl_metal_id kl_metal_class(const char *name);
bool kl_metal_responds(kl_metal_id object, int which);
/* An NSArray of all devices, which the caller releases. */
kl_metal_id kl_metal_all_devices(void);
/* Makes `block` one of the global kind, which calls `invoke` with the argument. */
void kl_metal_block_init(struct kl_metal_block *block,
                         void (*invoke)(struct kl_metal_block *self, kl_metal_id argument));
/* Objects that Metal makes for a call live until the pool of the thread is popped. NULL: no
 * memory. */
void *kl_metal_pool_push(void);
void kl_metal_pool_pop(void *pool);
/* The words of an NSError, cut to `room`; `text` keeps what it has when there are none. */
void kl_metal_error_text(kl_metal_id error, char *text, size_t room);
/* The implementation of a method for the class of the object. */
void (*kl_metal_find(struct kl_metal_method *m, kl_metal_id object))(void);

#define SEND(type, name, types, ...)                             \
    struct kl_metal_method *m = &kl_metal_methods[which_##name]; \
    return ((type(*) types)kl_metal_find(m, o))(o, m->selector, ##__VA_ARGS__)
#define M0(type, name, text)                     \
    static inline type name(kl_metal_id o) {     \
        SEND(type, name, (kl_metal_id, void *)); \
    }
#define M1(type, name, text, A)                        \
    static inline type name(kl_metal_id o, A a) {      \
        SEND(type, name, (kl_metal_id, void *, A), a); \
    }
#define M2(type, name, text, A, B)                           \
    static inline type name(kl_metal_id o, A a, B b) {       \
        SEND(type, name, (kl_metal_id, void *, A, B), a, b); \
    }
#define M3(type, name, text, A, B, C)                              \
    static inline type name(kl_metal_id o, A a, B b, C c) {        \
        SEND(type, name, (kl_metal_id, void *, A, B, C), a, b, c); \
    }
#define M4(type, name, text, A, B, C, D)                                 \
    static inline type name(kl_metal_id o, A a, B b, C c, D d) {         \
        SEND(type, name, (kl_metal_id, void *, A, B, C, D), a, b, c, d); \
    }
#define M5(type, name, text, A, B, C, D, E)                                    \
    static inline type name(kl_metal_id o, A a, B b, C c, D d, E e) {          \
        SEND(type, name, (kl_metal_id, void *, A, B, C, D, E), a, b, c, d, e); \
    }
#include "backend/metal/metal_methods.def"
#undef SEND
