/* sim_compile.c - compiles MSL with clang, as C++ for OpenCL with the headers of this folder, to a
 * library, which is kept by the hash of its source in $KEEL_CACHE_DIR/metal-sim. Which kernels and
 * variables the source has is read from its preprocessed text. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim.h"

static const char flags[] = "-x clcpp -cl-std=clc++2021 -cl-no-stdinc -O1 -fPIC -ffp-contract=off "
                            "-fno-math-errno -Wno-unknown-attributes -Wno-duplicate-decl-specifier "
                            "-Wno-unused-function -Wno-unknown-pragmas";

static char *read_file(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    char *s = malloc(*n + 1);
    *n = fread(s, 1, *n, f);
    s[*n] = 0;
    fclose(f);
    return s;
}

static bool write_file(const char *path, const char *text) {
    FILE *f = fopen(path, "wb");
    if (!f) return false;
    bool well = fputs(text, f) >= 0;
    return fclose(f) == 0 && well;
}

/* ---- the text ---- */

static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* The word at s; its length. */
static size_t word(const char *s) {
    size_t n = 0;
    while (is_name(s[n])) n++;
    return n;
}

static bool is_word(const char *text, const char *at, const char *w) {
    size_t n = strlen(w);
    return strncmp(at, w, n) == 0 && !is_name(at[n]) && (at == text || !is_name(at[-1]));
}

/* The parameters of a kernel, from behind the parenthesis. */
static void count_parameters(struct sim_kernel *k, const char *s) {
    int depth = 0;
    bool any = false, shared = false;
    for (;; s++) {
        if (*s == '(' || *s == '[') depth++;
        bool end = *s == ')' && depth == 0;
        if (end || (*s == ',' && depth == 0)) {
            if (any && shared) k->has_shared = true;
            if (any && !shared) k->n_buffers++;
            any = shared = false;
            if (end) return;
            continue;
        }
        if (*s == ')' || *s == ']') depth--;
        if (!any && is_word(s, s, "__local")) shared = true;
        if (*s > ' ') any = true;
    }
}

static void found_kernel(struct sim_program *p, const char *text, const char *at) {
    const char *open = strchr(at, '('), *end = open;
    struct sim_kernel *k = &p->kernels[p->n_kernels];
    while (end > at && !is_name(end[-1])) end--;
    const char *name = end;
    while (name > at && is_name(name[-1])) name--;
    if (p->n_kernels == 64 || end - name >= (long)sizeof k->name) return;
    memset(k, 0, sizeof *k);
    memcpy(k->name, name, (size_t)(end - name));
    count_parameters(k, open + 1);
    /* [[max_total_threads_per_threadgroup(n)]] stands before it. */
    const char *from = at - text > 80 ? at - 80 : text;
    for (const char *s = from; s < at; s++)
        if (is_word(text, s, "max_total_threads_per_threadgroup")) {
            const char *n = strchr(s, '(') + 1;
            int product = 1;
            for (char *next; *n != ')'; n = next + strspn(next, " *")) {
                product *= (int)strtol(n, &next, 0);
                if (next == n) break;
            }
            k->max_threads = product;
        }
    p->n_kernels++;
}

static const struct {
    const char *name;
    int attribute;
} attributes[] = {{"thread_position_in_threadgroup", POSITION_IN_GROUP},
                  {"threadgroup_position_in_grid", GROUP_POSITION},
                  {"threads_per_threadgroup", GROUP_SIZE},
                  {"threadgroups_per_grid", N_GROUPS},
                  {"thread_position_in_grid", POSITION_IN_GRID},
                  {"thread_index_in_threadgroup", INDEX_IN_GROUP},
                  {"thread_index_in_simdgroup", LANE},
                  {"simdgroup_index_in_threadgroup", SIMD_GROUP},
                  {"simdgroups_per_threadgroup", N_SIMD_GROUPS},
                  {"threads_per_simdgroup", SIMD_WIDTH}};
_Static_assert(sizeof attributes / sizeof *attributes == N_ATTRIBUTES, "each has a name");

/* uint3 name [[attribute]]; */
static void found_builtin(struct sim_program *p, const char *at, int n_numbers) {
    const char *name = at + strspn(at, " ");
    size_t n = word(name);
    const char *open = name + n + strspn(name + n, " ");
    struct sim_builtin *b = &p->builtins[p->n_builtins];
    if (n == 0 || n >= sizeof b->name || strncmp(open, "[[", 2) != 0 || p->n_builtins == 16) return;
    const char *attribute = open + 2;
    size_t m = word(attribute);
    int which = 0;
    while (which < N_ATTRIBUTES &&
           (strlen(attributes[which].name) != m || strncmp(attributes[which].name, attribute, m)))
        which++;
    if (which == N_ATTRIBUTES) return;
    memset(b, 0, sizeof *b);
    memcpy(b->name, name, n);
    b->attribute = attributes[which].attribute;
    b->n = n_numbers;
    p->n_builtins++;
}

static void read_text(struct sim_program *p, const char *text) {
    for (const char *s = text; *s; s++) {
        if (is_word(text, s, "__kernel")) found_kernel(p, text, s);
        if (is_word(text, s, "uint3")) found_builtin(p, s + word(s), 3);
        if (is_word(text, s, "uint")) found_builtin(p, s + word(s), 1);
    }
}

/* The shared arrays that a kernel declares are variables of its function: of each symbol readelf
 * writes number, address, size, kind, where it is seen (twice), section and name. */
static void read_symbols(struct sim_program *p, const char *text) {
    for (const char *line = text; line && *line; line = strchr(line, '\n') + 1) {
        long size;
        char name[256];
        if (sscanf(line, " %*d: %*x %li %*s %*s %*s %*s %255s", &size, name) == 2)
            for (int q = 0; q < p->n_kernels; q++) {
                char prefix[128];
                snprintf(prefix, sizeof prefix, "_ZZ%zu%sE", strlen(p->kernels[q].name),
                         p->kernels[q].name);
                if (strncmp(name, prefix, strlen(prefix)) == 0)
                    p->kernels[q].static_shared += ((size_t)size + 15) / 16 * 16;
            }
        if (!strchr(line, '\n')) break;
    }
}

/* ---- compiling ---- */

static uint64_t hash(uint64_t h, const char *s) {
    for (; *s; s++) h = (h ^ (unsigned char)*s) * 1099511628211u;
    return h;
}

/* Runs a command of the shell; false: it failed, and *log has what it wrote. */
static bool command(const char *line, const char *log_path, char **log) {
    size_t n;
    int status = system(line);
    if (status == 0) return true;
    *log = read_file(log_path, &n);
    if (!*log) *log = strdup("clang was not run");
    return false;
}

static const char *const ends[] = {"i", "symbols", "so"};

/* The shell's line. The text that is read is preprocessed by GCC (the headers define all names),
 * and symbols are read by readelf: clang and nm load LLVM, which takes longer than what they do. */
static const char compile[] =
    "exec 2>'%1$s.log'; cpp -undef -nostdinc -isystem '%2$s' -P '%1$s.metal' '%1$s.i' && "
    "clang %3$s -isystem '%2$s' -c '%1$s.metal' -o '%1$s.o' && "
    "readelf -sW '%1$s.o' >'%1$s.symbols' && "
    "ld -shared -z now '%1$s.o' '%4$s' -lm -o '%1$s.so'; status=$?; rm -f '%1$s.o'; exit $status";

static bool make(const char *base, const char *temporary, const char *source, char **log) {
    char path[600], out[600], messages[600], line[4096];
    Dl_info self;
    dladdr((void *)make, &self);
    snprintf(path, sizeof path, "%s.metal", temporary);
    snprintf(messages, sizeof messages, "%s.log", temporary);
    if (!write_file(path, source)) {
        *log = strdup("the source cannot be written");
        return false;
    }
    snprintf(line, sizeof line, compile, temporary, KEEL_METAL_SIM_HEADERS, flags, self.dli_fname);
    bool well = command(line, messages, log);
    for (int i = 0; i < 3 && well; i++) {
        snprintf(path, sizeof path, "%s.%s", temporary, ends[i]);
        snprintf(out, sizeof out, "%s.%s", base, ends[i]);
        well = rename(path, out) == 0;
    }
    snprintf(path, sizeof path, "%s.metal", temporary);
    unlink(path);
    unlink(messages);
    return well;
}

/* Whether all files of a compiled source are there; the library comes last. */
static bool is_whole(const char *base) {
    char path[600];
    bool whole = true;
    for (int i = 0; i < 3 && whole; i++) {
        snprintf(path, sizeof path, "%s.%s", base, ends[i]);
        whole = access(path, R_OK) == 0;
    }
    return whole;
}

static bool find_symbols(struct sim_program *p, void *library) {
    for (int i = 0; i < p->n_kernels; i++)
        if (!(*(void **)&p->kernels[i].function = dlsym(library, p->kernels[i].name))) return false;
    for (int i = 0; i < p->n_builtins; i++)
        if (!(*(void **)&p->builtins[i].at = dlsym(library, p->builtins[i].name))) return false;
    return true;
}

/* Programs of one source have one library, whose variables say which work-item runs: only one of
 * them may run at a time. */
static pthread_mutex_t *lock_of(void *library) {
    static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
    static struct lock {
        void *library;
        pthread_mutex_t mu;
        struct lock *next;
    } * locks;
    pthread_mutex_lock(&mu);
    struct lock *l = locks;
    while (l && l->library != library) l = l->next;
    if (!l && (l = malloc(sizeof *l))) {
        *l = (struct lock){library, PTHREAD_MUTEX_INITIALIZER, locks};
        locks = l;
    }
    pthread_mutex_unlock(&mu);
    return l ? &l->mu : NULL;
}

struct sim_program *sim_compile(const char *source, char **log) {
    static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
    static unsigned serial;
    const char *folder = getenv("KEEL_CACHE_DIR");
    char dir[400], base[480], temporary[520], path[600];
    size_t n;
    if (!folder || !*folder) folder = "/tmp";
    mkdir(folder, 0700);
    snprintf(dir, sizeof dir, "%s/metal-sim", folder);
    mkdir(dir, 0700);
    static const char *const headers[] = {KEEL_METAL_SIM_HEADERS "/metal_stdlib",
                                          KEEL_METAL_SIM_HEADERS "/metal_simdgroup_matrix"};
    /* Not of this library's path: what is compiled asks for it by its soname, and so one build of
     * the tests finds what another has compiled. */
    uint64_t h = hash(hash(14695981039346656037u, flags), compile);
    for (int i = 0; i < 2; i++) {
        char *header = read_file(headers[i], &n);
        h = hash(h, header ? header : "");
        free(header);
    }
    snprintf(base, sizeof base, "%s/%016llx%08zx", dir, (unsigned long long)hash(h, source),
             strlen(source));
    snprintf(temporary, sizeof temporary, "%s.%d.%u", base, (int)getpid(),
             __atomic_add_fetch(&serial, 1, __ATOMIC_RELAXED));
    snprintf(path, sizeof path, "%s.so", base);
    struct sim_program *p = calloc(1, sizeof *p);
    *log = NULL;
    pthread_mutex_lock(&mu);
    bool well = is_whole(base) || make(base, temporary, source, log);
    pthread_mutex_unlock(&mu);
    void *library = well ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (well && !library) *log = strdup(dlerror());
    char *text = NULL, *symbols = NULL;
    if (library) {
        snprintf(path, sizeof path, "%s.i", base);
        text = read_file(path, &n);
        snprintf(path, sizeof path, "%s.symbols", base);
        symbols = read_file(path, &n);
        if (text && symbols) {
            read_text(p, text);
            read_symbols(p, symbols);
        }
        if (!text || !symbols || !find_symbols(p, library)) {
            *log = strdup("the library lacks what its source has");
            library = NULL;
        }
    }
    free(text);
    free(symbols);
    p->mu = library ? lock_of(library) : NULL;
    if (library && !p->mu) *log = strdup("no memory for the lock of the library");
    if (p->mu) return p;
    free(p);
    return NULL;
}
