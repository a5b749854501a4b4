/* cuda_program.c - programs of CUDA that the user compiled: PTX, CUBINs and fatbins.
 *
 * The driver takes such a program by its address alone. Therefore the length that the program
 * itself states is compared with the bytes that there are before the driver reads it. */
#include <elf.h>
#include <stdio.h>
#include <string.h>

#include "backend/cuda/cuda_internal.h"
#include "base/alloc.h"

/* A CUBIN is an ELF file of 64 bits. It is complete when its tables and all that they name are
 * within the bytes. */
static bool elf_is_complete(const char *image, size_t n) {
    Elf64_Ehdr h;
    if (n < sizeof h) return false;
    memcpy(&h, image, sizeof h);
    if (h.e_ident[EI_CLASS] != ELFCLASS64) return false;
    if (h.e_phnum && (h.e_phentsize != sizeof(Elf64_Phdr) || h.e_phoff > n ||
                      h.e_phnum * sizeof(Elf64_Phdr) > n - h.e_phoff))
        return false;
    if (h.e_shentsize != sizeof(Elf64_Shdr) || h.e_shnum == 0 || h.e_shoff > n ||
        h.e_shnum * sizeof(Elf64_Shdr) > n - h.e_shoff)
        return false;
    for (int i = 0; i < h.e_phnum; i++) {
        Elf64_Phdr p;
        memcpy(&p, image + h.e_phoff + (size_t)i * sizeof p, sizeof p);
        if (p.p_offset > n || p.p_filesz > n - p.p_offset) return false;
    }
    for (int i = 0; i < h.e_shnum; i++) {
        Elf64_Shdr s;
        memcpy(&s, image + h.e_shoff + (size_t)i * sizeof s, sizeof s);
        if (s.sh_type == SHT_NOBITS || s.sh_type == SHT_NULL) continue;
        if (s.sh_offset > n || s.sh_size > n - s.sh_offset) return false;
    }
    return true;
}

/* The head of a fatbin, as nvcc writes it; the programs follow. */
struct fatbin {
    uint32_t magic;
    uint16_t version, head_bytes;
    uint64_t bytes; /* that follow the head */
};
static const uint32_t fatbin_magic = 0xBA55ED50;

static bool is_complete(const char *image, size_t n) {
    struct fatbin f;
    if (n >= SELFMAG && memcmp(image, ELFMAG, SELFMAG) == 0) return elf_is_complete(image, n);
    memcpy(&f, image, n < sizeof f ? n : sizeof f);
    if (n >= sizeof f && f.magic == fatbin_magic)
        return f.head_bytes <= n && f.bytes <= n - f.head_bytes;
    const size_t text = strnlen(image, n); /* of PTX, which has a version and a target */
    return memmem(image, text, ".version", 8) && memmem(image, text, ".target", 7);
}

int kl_cuda_load_program(struct kl_driver *driver, const void *program, size_t bytes,
                         const char *name, void **module, struct kl_error **err) {
    char what[160];
    if (!is_complete(program, bytes))
        return kl_fail(
            err, KL_ECOMPILE,
            "kernel '%s': its program of %zu bytes is no PTX, CUBIN or fatbin, or only a "
            "part of one",
            name, bytes);
    char *image = kl_malloc(bytes + 1); /* PTX ends with a zero byte */
    if (!image) return kl_fail_nomem(err);
    memcpy(image, program, bytes);
    image[bytes] = 0;
    snprintf(what, sizeof what, "the program of kernel '%s'", name);
    const int rc = kl_cuda_module(kl_cuda_of(driver), what, image, module, err);
    kl_free(image);
    return rc;
}
