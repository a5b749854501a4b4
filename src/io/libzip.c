/* libzip.c - loads libzip once; see libzip.h. */
#include "io/libzip.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/platform/libraries.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct kl_libzip functions;
static const char *missing; /* the name of a function that was not found; NULL: all were found */

static void find(void *lib, const char *name, void *slot) {
    void *p = dlsym(lib, name);
    if (!p && !missing) missing = name;
    memcpy(slot, &p, sizeof p); /* POSIX: a function pointer fits into a void * */
}

static void load(void) {
    const char *given = getenv("KEEL_LIBZIP");
    void *lib = given ? dlopen(given, RTLD_NOW | RTLD_LOCAL) : NULL;
    for (const char *const *name = kl_libraries_zip; *name && !given && !lib; name++)
        lib = dlopen(*name, RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        missing = "the library itself";
        return;
    }
    find(lib, "zip_open", &functions.open);
    find(lib, "zip_open_from_source", &functions.open_from_source);
    find(lib, "zip_close", &functions.close);
    find(lib, "zip_discard", &functions.discard);
    find(lib, "zip_get_error", &functions.get_error);
    find(lib, "zip_get_num_entries", &functions.get_num_entries);
    find(lib, "zip_stat_index", &functions.stat_index);
    find(lib, "zip_fopen_index", &functions.fopen_index);
    find(lib, "zip_fread", &functions.fread);
    find(lib, "zip_fclose", &functions.fclose);
    find(lib, "zip_file_get_error", &functions.file_get_error);
    find(lib, "zip_source_function_create", &functions.source_function_create);
    find(lib, "zip_source_free", &functions.source_free);
    find(lib, "zip_file_add", &functions.file_add);
    find(lib, "zip_set_file_compression", &functions.set_file_compression);
    find(lib, "zip_file_set_dostime", &functions.file_set_dostime);
    find(lib, "zip_error_init", &functions.error_init);
    find(lib, "zip_error_init_with_code", &functions.error_init_with_code);
    find(lib, "zip_error_fini", &functions.error_fini);
    find(lib, "zip_error_strerror", &functions.error_strerror);
}

int kl_libzip_get(const struct kl_libzip **out, struct kl_error **err) {
    pthread_once(&once, load);
    if (missing)
        return kl_fail(err, KL_EUNSUPPORTED,
                       "npz: needs libzip (%s), but it cannot be loaded: %s is missing",
                       kl_install_zip, missing);
    *out = &functions;
    return KL_OK;
}
