/* export.h - how a public function of Keel is declared. KEEL_API makes a function visible in the
 * shared library, whose other symbols are hidden. KEEL_PRINTF lets the compiler check a format
 * string. */
#ifndef KEEL_EXPORT_H
#define KEEL_EXPORT_H

#if defined(__GNUC__) || defined(__clang__)
#define KEEL_API __attribute__((visibility("default")))
#define KEEL_PRINTF(format_index, first_index) \
    __attribute__((format(printf, format_index, first_index)))
#else
#define KEEL_API
#define KEEL_PRINTF(format_index, first_index)
#endif

#endif
