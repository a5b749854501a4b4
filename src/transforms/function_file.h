/* function_file.h - what export.c and import.c agree on; docs/function-files.md has the format. */
#pragma once

#define KL_FUNCTION_FILE_MAGIC "KEELFUNC"
enum {
    KL_FUNCTION_FILE_MAGIC_BYTES = 8,
    KL_FUNCTION_FILE_VERSION = 2,
    /* The first version with metadata, and with functions for any shapes that say which extents
     * they saw. A file without either is written as version 1, which older libraries read. */
    KL_FUNCTION_FILE_EXTENTS = 2,
    KL_FUNCTION_FILE_NAME_BYTES = 1000, /* of the name of an argument or operation */
};
