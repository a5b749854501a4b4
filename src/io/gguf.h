/* gguf.h - the .gguf format: typed metadata, and blocks of quantized numbers. */
#pragma once
#include "io/file.h"

/* Bytes of a key and of a tensor's name, and axes, at most. The format itself has 4 axes so far. */
enum { KL_GGUF_MAX_KEY = 65535, KL_GGUF_MAX_NAME = 1024, KL_GGUF_MAX_DIMS = 8 };
/* Types of the metadata that are neither numbers nor bool. */
enum { KL_GGUF_TYPE_STRING = 8, KL_GGUF_TYPE_ARRAY = 9 };

/* A value of the metadata. Strings are in the memory of the file and end with a 0. */
enum kl_gguf_kind { KL_GGUF_ARRAY, KL_GGUF_STRING, KL_GGUF_STRINGS };
struct kl_gguf_value {
    const char *key;
    uint8_t kind;  /* enum kl_gguf_kind */
    uint8_t dtype; /* ARRAY: enum kl_dtype */
    bool is_list;  /* ARRAY: one axis of n elements; else a number, and n is 1 */
    uint32_t n;    /* ARRAY, STRINGS */
    union {
        const void *data;         /* ARRAY: n elements */
        const char *const *texts; /* STRING: one; STRINGS: n */
    };
};

/* How a type of the format stores `elements` numbers in `bytes` bytes. */
struct kl_gguf_type {
    const char *name;
    uint32_t id;
    int elements, bytes;
    enum kl_dtype dtype; /* what it becomes; KL_F16 for blocks */
    int bits;            /* 4 or 8: a .weight stays packed, as quantize packs it; else 0 */
    void (*values)(float *to, const unsigned char *block); /* NULL: the bytes are the numbers */
};
/* NULL: not a type that is taken. *name: the name of any type that is known, else NULL. */
const struct kl_gguf_type *kl_gguf_type(uint32_t id, const char **name);
/* The type whose bytes are numbers of dtype; NULL: the format has none. */
const struct kl_gguf_type *kl_gguf_plain_type(enum kl_dtype dtype);
/* The number of the type of metadata that are numbers of dtype; -1: the format has none. */
int kl_gguf_value_type(enum kl_dtype dtype);

/* The part of a tensor's blocks that an array is made of. The first three are the parts of affine
 * quantization with groups of 32: w = scale * code + bias. */
enum kl_gguf_part { KL_GGUF_CODES, KL_GGUF_SCALES, KL_GGUF_BIASES, KL_GGUF_VALUES };
/* Bytes that this part of a block becomes. */
size_t kl_gguf_part_bytes(const struct kl_gguf_type *t, enum kl_gguf_part part);
/* Converts n blocks. */
void kl_gguf_convert(void *to, const unsigned char *blocks, size_t n, const struct kl_gguf_type *t,
                     enum kl_gguf_part part);

/* The alignment of tensors that the metadata asks for, 32 if it does not. False: not a uint32 that
 * is a multiple of 8 and at most 2^20. */
bool kl_gguf_alignment(const struct kl_gguf_value *values, size_t n, uint32_t *alignment);

/* ---- saving ---- */
/* Writes a file of version 3. Tensors are int8 to int64 or real floats and have at most 8 axes.
 * Fails like kl_save_npy; KL_EDTYPE for another dtype, KL_ESHAPE for more axes, KL_EARG for a name
 * that is empty, not UTF-8, longer than 1,024 bytes (keys: 65,535), or given twice, and for a wrong
 * general.alignment. */
int kl_save_gguf(const char *path, const struct kl_named *tensors, size_t n,
                 const struct kl_gguf_value *metadata, size_t n_metadata, struct kl_error **err);
