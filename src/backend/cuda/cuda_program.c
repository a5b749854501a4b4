/* cuda_program.c - programs of CUDA that the user compiled: PTX, CUBINs and fatbins.
 *
 * The driver takes such a program by its address alone. Therefore the length that the program
 * itself states is compared with the bytes that there are before the driver reads it. */
#include <stdio.h>
#include <string.h>

#include "backend/cuda/cuda_internal.h"
#include "base/alloc.h"

/* The format of ELF files of 64 bits, as far as their lengths go. */
struct elf_head {
    unsigned char magic[4], is_64, rest[11]; /* is_64: 2 */
    uint16_t type, machine;
    uint32_t version;
    uint64_t entry, segments_at, sections_at;
    uint32_t flags;
    uint16_t head_bytes, segment_bytes, n_segments, section_bytes, n_sections, names;
};
struct elf_segment {
    uint32_t type, flags;
    uint64_t at, address, physical, bytes, memory_bytes, alignment;
};
struct elf_section {
    uint32_t name, type;
    uint64_t flags, address, at, bytes;
    uint32_t link, info;
    uint64_t alignment, entry_bytes;
};
_Static_assert(sizeof(struct elf_head) == 64, "the layout of the format");
_Static_assert(sizeof(struct elf_segment) == 56, "the layout of the format");
_Static_assert(sizeof(struct elf_section) == 64, "the layout of the format");
static const unsigned char elf_magic[4] = {0x7F, 'E', 'L', 'F'};
enum { ELF_64 = 2, NO_SECTION = 0, SECTION_OF_ZEROS = 8 };

static bool within(uint64_t at, uint64_t bytes, size_t n) {
    return at <= n && bytes <= n - at;
}

/* A CUBIN is an ELF file of 64 bits. It is complete when its tables and all that they name are
 * within the bytes. */
static bool elf_is_complete(const char *image, size_t n) {
    struct elf_head h;
    if (n < sizeof h) return false;
    memcpy(&h, image, sizeof h);
    if (h.is_64 != ELF_64) return false;
    if (h.n_segments && (h.segment_bytes != sizeof(struct elf_segment) ||
                         !within(h.segments_at, h.n_segments * sizeof(struct elf_segment), n)))
        return false;
    if (h.section_bytes != sizeof(struct elf_section) || h.n_sections == 0 ||
        !within(h.sections_at, h.n_sections * sizeof(struct elf_section), n))
        return false;
    for (int i = 0; i < h.n_segments; i++) {
        struct elf_segment s;
        memcpy(&s, image + h.segments_at + (size_t)i * sizeof s, sizeof s);
        if (!within(s.at, s.bytes, n)) return false;
    }
    for (int i = 0; i < h.n_sections; i++) {
        struct elf_section s;
        memcpy(&s, image + h.sections_at + (size_t)i * sizeof s, sizeof s);
        if (s.type == SECTION_OF_ZEROS || s.type == NO_SECTION) continue;
        if (!within(s.at, s.bytes, n)) return false;
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
    if (n >= sizeof elf_magic && memcmp(image, elf_magic, sizeof elf_magic) == 0)
        return elf_is_complete(image, n);
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
