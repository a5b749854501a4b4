/* metal_api.c - see metal_api.h. */
#include "backend/metal/metal_api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"

struct kl_metal_method kl_metal_methods[KL_METAL_N_METHODS] = {
#define M0(type, name, words, ...) [which_##name] = {.text = words},
#define M1 M0
#define M2 M0
#define M3 M0
#define M4 M0
#define M5 M0
#include "backend/metal/metal_methods.def"
};

static struct {
    void *(*sel_registerName)(const char *name);
    void *(*objc_getClass)(const char *name);
    void *(*object_getClass)(void *object);
    void (*(*class_getMethodImplementation)(void *cls, void *selector))(void);
    bool (*class_respondsToSelector)(void *cls, void *selector);
    void *(*MTLCopyAllDevices)(void);
    void *_NSConcreteGlobalBlock;
    void *pool_class;
} objc;

/* ---- loading ---- */

enum { RUNTIME, FOUNDATION, METAL, N_LIBRARIES };
static const char *const files[N_LIBRARIES] = {
    "/usr/lib/libobjc.A.dylib", "/System/Library/Frameworks/Foundation.framework/Foundation",
    "/System/Library/Frameworks/Metal.framework/Metal"};

static const struct {
    int library;
    const char *name;
    void **to;
} symbols[] = {
    {RUNTIME, "sel_registerName", (void **)&objc.sel_registerName},
    {RUNTIME, "objc_getClass", (void **)&objc.objc_getClass},
    {RUNTIME, "object_getClass", (void **)&objc.object_getClass},
    {RUNTIME, "class_getMethodImplementation", (void **)&objc.class_getMethodImplementation},
    {RUNTIME, "class_respondsToSelector", (void **)&objc.class_respondsToSelector},
    {METAL, "MTLCopyAllDevices", (void **)&objc.MTLCopyAllDevices},
    /* It is in a library that the others need. */
    {FOUNDATION, "_NSConcreteGlobalBlock", (void **)&objc._NSConcreteGlobalBlock}};

static const char *load(void) {
    static char why[512];
    const char *one = getenv("KEEL_METAL_LIBRARY");
    void *library[N_LIBRARIES];
    /* The libraries are never closed: their threads may run after every use that we know of. */
    for (int i = 0; i < N_LIBRARIES; i++) {
        const char *file = one && *one ? one : files[i];
        if ((library[i] = dlopen(file, RTLD_NOW | RTLD_LOCAL))) continue;
        const char *reason = dlerror();
        snprintf(why, sizeof why, "Metal is a part of macOS, and cannot be opened here: %.200s",
                 reason ? reason : file);
        return why;
    }
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        if ((*symbols[i].to = dlsym(library[symbols[i].library], symbols[i].name))) continue;
        snprintf(why, sizeof why, "%s is no library of Metal: it has no %s",
                 one && *one ? one : files[symbols[i].library], symbols[i].name);
        return why;
    }
    for (int i = 0; i < KL_METAL_N_METHODS; i++)
        kl_metal_methods[i].selector = objc.sel_registerName(kl_metal_methods[i].text);
    if ((objc.pool_class = objc.objc_getClass("NSAutoreleasePool"))) return NULL;
    return "Metal cannot be used: Foundation has no class NSAutoreleasePool";
}

const char *kl_metal_load(void) {
    static bool tried;
    static const char *why;
    if (!tried) why = load();
    tried = true;
    return why;
}

/* ---- methods ---- */

void (*kl_metal_find(struct kl_metal_method *m, kl_metal_id object))(void) {
    static struct kl_mutex mu = KL_MUTEX_INIT;
    void *cls = objc.object_getClass(object);
    if (atomic_load_explicit(&m->cls, memory_order_acquire) == cls) return m->function;
    void (*function)(void) = objc.class_getMethodImplementation(cls, m->selector);
    /* Another class has the method too; it stays with the first one, so that `function` never
     * changes while a thread reads it. */
    kl_mutex_lock(&mu);
    if (!atomic_load_explicit(&m->cls, memory_order_relaxed)) {
        m->function = function;
        atomic_store_explicit(&m->cls, cls, memory_order_release);
    }
    kl_mutex_unlock(&mu);
    return function;
}

kl_metal_id kl_metal_class(const char *name) {
    return objc.objc_getClass(name);
}

bool kl_metal_responds(kl_metal_id object, int which) {
    return objc.class_respondsToSelector(objc.object_getClass(object),
                                         kl_metal_methods[which].selector);
}

kl_metal_id kl_metal_all_devices(void) {
    return objc.MTLCopyAllDevices();
}

void kl_metal_block_init(struct kl_metal_block *block,
                         void (*invoke)(struct kl_metal_block *self, kl_metal_id argument)) {
    static const struct { unsigned long reserved, size; } descriptor = {0, sizeof *block};
    enum { IS_GLOBAL = 1 << 28 };
    *block =
        (struct kl_metal_block){objc._NSConcreteGlobalBlock, IS_GLOBAL, 0, invoke, &descriptor};
}

void *kl_metal_pool_push(void) {
    kl_metal_id pool = kl_metal_alloc_object(objc.pool_class);
    return pool ? kl_metal_init(pool) : NULL;
}

void kl_metal_pool_pop(void *pool) {
    if (pool) kl_metal_drain(pool);
}

void kl_metal_error_text(kl_metal_id error, char *text, size_t room) {
    kl_metal_id words = error ? kl_metal_description(error) : NULL;
    const char *s = words ? kl_metal_utf8(words) : NULL;
    if (s && *s) snprintf(text, room, "%s", s);
}
