/* metal_program.c - programs. A binary is the source itself: the system keeps what it compiled. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/gpu/lower/kernels.h"
#include "backend/metal/metal_internal.h"
#include "base/alloc.h"

enum { LOG_QUOTED = 2000 };

static kl_metal_id string_of(const char *text) {
    return kl_metal_string_with(kl_metal_class("NSString"), text);
}

/* The library of a source, which ends with a 0. The caller has a pool. */
static int library_of(struct kl_metal *d, const char *source, const char *name, kl_metal_id *out,
                      struct kl_error **err) {
    kl_metal_id error = NULL, text = string_of(source);
    if (!text) return kl_fail_nomem(err);
    if ((*out = kl_metal_new_library(d->device, text, d->options, &error))) return KL_OK;
    char *log = kl_calloc(1, LOG_QUOTED);
    if (log) kl_metal_error_text(error, log, LOG_QUOTED);
    int rc = kl_fail(err, KL_ECOMPILE, "kernels '%s' do not compile for %s\n%s", name,
                     d->facts.name, log && *log ? log : "(no log)");
    kl_free(log);
    return rc;
}

/* The source after a line that names its file in the compiler's messages. */
static char *named_source(const char *source, const char *name, size_t *bytes) {
    char line[160];
    snprintf(line, sizeof line, "#line 1 \"%.120s\"\n", name);
    for (char *c = line + strlen("#line 1 \""); c[1] && c[1] != '\n'; c++)
        if (*c == '"' || *c == '\\' || *c == '\n') *c = '_';
    size_t n = strlen(line), m = strlen(source);
    char *text = kl_malloc(n + m + 1);
    if (!text) return NULL;
    memcpy(text, line, n);
    memcpy(text + n, source, m + 1);
    *bytes = n + m;
    return text;
}

/* Keeps the library for the `load` that follows; it is the caller's no more. */
static void keep_fresh(struct kl_metal *d, const char *source, size_t bytes, kl_metal_id library) {
    char *copy = kl_malloc(bytes);
    kl_mutex_lock(&d->fresh_mu);
    char *old_source = d->fresh_source;
    kl_metal_id old = d->fresh;
    if (copy) memcpy(copy, source, bytes);
    d->fresh_source = copy;
    d->fresh_bytes = bytes;
    d->fresh = copy ? library : NULL;
    kl_mutex_unlock(&d->fresh_mu);
    kl_free(old_source);
    if (old) kl_metal_release(old);
    if (!copy) kl_metal_release(library);
}

static kl_metal_id take_fresh(struct kl_metal *d, const void *source, size_t bytes) {
    kl_metal_id library = NULL;
    char *kept = NULL;
    kl_mutex_lock(&d->fresh_mu);
    if (d->fresh && d->fresh_bytes == bytes && memcmp(d->fresh_source, source, bytes) == 0) {
        library = d->fresh;
        kept = d->fresh_source;
        d->fresh = NULL;
        d->fresh_source = NULL;
    }
    kl_mutex_unlock(&d->fresh_mu);
    kl_free(kept);
    return library;
}

int kl_metal_compile(struct kl_driver *driver, const char *source, const char *name, void **binary,
                     size_t *bytes, struct kl_error **err) {
    struct kl_metal *d = kl_metal_of(driver);
    kl_metal_id library;
    KL_TRY(kl_metal_usable(d, err));
    char *text = named_source(source, name, bytes);
    if (!text) return kl_fail_nomem(err);
    void *pool = kl_metal_pool_push();
    int rc = pool ? library_of(d, text, name, &library, err) : kl_fail_nomem(err);
    if (!rc) keep_fresh(d, text, *bytes, library);
    kl_metal_pool_pop(pool);
    if (rc)
        kl_free(text);
    else
        *binary = text;
    return rc;
}

int kl_metal_load_source(struct kl_driver *driver, const void *binary, size_t bytes, void **module,
                         struct kl_error **err) {
    struct kl_metal *d = kl_metal_of(driver);
    KL_TRY(kl_metal_usable(d, err));
    if ((*module = take_fresh(d, binary, bytes))) return KL_OK;
    char *text = kl_malloc(bytes + 1);
    if (!text) return kl_fail_nomem(err);
    memcpy(text, binary, bytes);
    text[bytes] = 0;
    void *pool = kl_metal_pool_push();
    int rc = pool ? library_of(d, text, "stored source", module, err) : kl_fail_nomem(err);
    kl_metal_pool_pop(pool);
    kl_free(text);
    return rc;
}

static int pipeline_of(struct kl_metal *d, void *module, const char *entry, void **kernel,
                       struct kl_error **err) {
    kl_metal_id name = string_of(entry), error = NULL;
    if (!name) return kl_fail_nomem(err);
    kl_metal_id function = kl_metal_new_function(module, name);
    if (!function)
        return kl_fail(err, KL_ECOMPILE, "kernel '%s': newFunctionWithName gave nil", entry);
    *kernel = kl_metal_new_pipeline(d->device, function, &error);
    kl_metal_release(function);
    if (*kernel) return KL_OK;
    char text[256] = "no reason was given";
    kl_metal_error_text(error, text, sizeof text);
    return kl_fail(err, KL_ECOMPILE, "kernel '%s': newComputePipelineStateWithFunction failed: %s",
                   entry, text);
}

int kl_metal_find_kernel(struct kl_driver *driver, void *module, const char *entry, void **kernel,
                         struct kl_error **err) {
    struct kl_metal *d = kl_metal_of(driver);
    KL_TRY(kl_metal_usable(d, err));
    void *pool = kl_metal_pool_push();
    int rc = pool ? pipeline_of(d, module, entry, kernel, err) : kl_fail_nomem(err);
    kl_metal_pool_pop(pool);
    return rc;
}

int kl_metal_limits(struct kl_driver *driver, void *kernel, struct kl_kernel_limits *limits,
                    struct kl_error **err) {
    struct kl_metal *d = kl_metal_of(driver);
    KL_TRY(kl_metal_usable(d, err));
    /* The dialect was told at compile time how many work-items run in step. */
    if (kl_metal_pipeline_width(kernel) != driver->subgroup)
        return kl_fail(err, KL_ECOMPILE, "a kernel of SIMD groups of %lu on device '%s', not of %u",
                       kl_metal_pipeline_width(kernel), d->name, driver->subgroup);
    limits->max_local = (uint32_t)kl_metal_pipeline_threads(kernel);
    limits->shared_bytes = kl_metal_pipeline_shared(kernel);
    return KL_OK;
}

/* ---- what the device supports ---- */

static uint64_t hash_text(uint64_t h, const char *s) {
    for (; *s; s++) h = (h ^ (unsigned char)*s) * 1099511628211u;
    return (h ^ '\n') * 1099511628211u;
}

int kl_metal_programs_init(struct kl_metal *d, struct kl_error **err) {
    struct kl_driver *driver = &d->driver;
    kl_metal_id object = kl_metal_alloc_object(kl_metal_class("MTLCompileOptions"));
    if (!object || !(d->options = kl_metal_init(object))) return kl_fail_nomem(err);
    kl_metal_set_language(d->options, KL_METAL_LANGUAGE_3_1);
    /* macOS 15 has modes; before, fast math is on or off. */
    if (kl_metal_responds(d->options, which_kl_metal_set_math_mode))
        kl_metal_set_math_mode(d->options, KL_METAL_MATH_SAFE);
    else
        kl_metal_set_fast_math(d->options, false);
    struct kl_metal_size most = kl_metal_max_threads(d->device);
    driver->prelude = kl_source_prelude_metal;
    driver->max_local = most.width < 1024 ? (uint32_t)most.width : 1024;
    driver->local_bytes = kl_metal_max_shared(d->device);
    driver->n_units = d->facts.units ? d->facts.units : 8;
    driver->subgroup = 32;
    driver->has_sub_matrix = true;
    driver->max_args = KL_METAL_MOST_BUFFERS;
    driver->compiles_metal = true;
    driver->argument_bytes = KL_METAL_MOST_BYTES;
    driver->max_group[0] = (uint32_t)most.width;
    driver->max_group[1] = (uint32_t)most.height;
    driver->max_group[2] = (uint32_t)most.depth;
    uint64_t h = hash_text(14695981039346656037u, d->facts.name);
    h = hash_text(h, d->facts.driver);
    h = hash_text(h, d->facts.architecture);
    snprintf(driver->identity, sizeof driver->identity, "metal source %016llx %.80s, %.80s",
             (unsigned long long)h, d->facts.name, d->facts.driver);
    return KL_OK;
}
