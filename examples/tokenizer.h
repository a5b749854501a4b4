/* tokenizer.h - text to tokens and back by byte-level byte pair encoding (Sennrich, Haddow and
 * Birch, 2016; Radford and others, 2019), with the vocabulary and the merges of a GGUF file.
 * Bytes beyond ASCII count as letters where a text is cut into words. */
#pragma once
#include "training.h"

/* A table from strings, which it does not own, to numbers. */
struct table {
    size_t mask;
    struct entry {
        const char *key;
        int value;
    } * entries;
};

/* The entry of the key, or the empty one where it would be. */
static inline struct entry *table_at(const struct table *t, const char *key, size_t n) {
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < n; i++) hash = (hash ^ (unsigned char)key[i]) * 1099511628211u;
    size_t at = (size_t)(hash ^ hash >> 32) & t->mask;
    for (; t->entries[at].key; at = (at + 1) & t->mask)
        if (strncmp(t->entries[at].key, key, n) == 0 && !t->entries[at].key[n]) break;
    return &t->entries[at];
}

/* The number of the key, or -1. */
static inline int table_get(const struct table *t, const char *key, size_t n) {
    const struct entry *e = table_at(t, key, n);
    return e->key ? e->value : -1;
}

static inline struct table table_new(mlx_vector_string strings) {
    const size_t n = mlx_vector_string_size(strings);
    struct table t = {.mask = 1};
    while (t.mask < 2 * n) t.mask = 2 * t.mask + 1;
    t.entries = calloc(t.mask + 1, sizeof *t.entries);
    if (!t.entries) {
        fprintf(stderr, "%s: no memory for a table of %zu strings\n", program, n);
        exit(1);
    }
    for (size_t i = 0; i < n; i++) {
        char *key = NULL;
        OK(mlx_vector_string_get(&key, strings, i));
        struct entry *e = table_at(&t, key, strlen(key));
        if (!e->key) *e = (struct entry){key, (int)i}; /* of equal ones, the first */
    }
    return t;
}

struct tokenizer {
    mlx_vector_string tokens, merges;
    mlx_array types; /* of the tokens, int32; CONTROL ones are written <like this> in a text */
    struct table ids, ranks;
};
enum { CONTROL = 3 };

/* The vocabulary stands in visible characters: a byte that has none is moved to U+0100 and up. */
static inline int character_of(int byte) {
    const bool shown = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
    if (shown) return byte;
    return 256 + (byte <= 32 ? byte : byte <= 160 ? byte - 94 : 67);
}

/* The bytes of token `id`, to a file. */
static inline void token_write(const struct tokenizer *t, int id, FILE *to) {
    static short bytes[324];
    if (!bytes['A'])
        for (int byte = 0; byte < 256; byte++) bytes[character_of(byte)] = (short)byte;
    char *text = NULL;
    OK(mlx_vector_string_get(&text, t->tokens, (size_t)id));
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        int c = *p;
        if (c >= 0xc2 && c <= 0xc5 && p[1]) c = (c & 31) << 6 | (*++p & 63);
        fputc(c < 324 ? bytes[c] : '?', to);
    }
}

/* ---- text to tokens ---- */
/* How many bytes of the n at p are one word: a digit; letters or other signs with at most one space
 * in front; an ending like 've; or spaces, of which the last is left to the word behind them. */
static inline bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
static inline bool is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}
static inline bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (unsigned char)c >= 0x80;
}
static inline bool is_sign(char c) {
    return !is_digit(c) && !is_space(c) && !is_letter(c);
}

static inline size_t word_length(const char *p, size_t n) {
    static const char *const endings[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    if (is_digit(*p)) return 1;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const size_t long_ = strlen(endings[i]);
        if (long_ <= n && memcmp(p, endings[i], long_) == 0) return long_;
    }
    const size_t first = *p == ' ' && n > 1;
    size_t end = first;
    if (is_letter(p[first])) {
        while (end < n && is_letter(p[end])) end++;
    } else if (is_sign(p[first])) {
        while (end < n && is_sign(p[end])) end++;
    } else {
        for (end = 0; end < n && is_space(p[end]);) end++;
        if (end > 1 && end < n && !is_digit(p[end])) end--;
    }
    return end;
}

static inline void prompt_too_long(void) {
    fprintf(stderr, "%s: the prompt has too many tokens\n", program);
    exit(1);
}

/* Appends the tokens of one word to ids, of which there are *n and room for `room`. */
static inline void add_word(const struct tokenizer *t, const char *word, size_t length, int *ids,
                            int *n, int room) {
    enum { LONGEST = 512 };
    char text[2 * LONGEST + 1], pair[2 * LONGEST + 2];
    size_t begin[LONGEST + 1], n_parts = 0, size = 0; /* part i begins at begin[i] of text */
    if (length > LONGEST) {
        fprintf(stderr, "%s: the prompt has a word of %zu bytes; %d is the most\n", program, length,
                LONGEST);
        exit(1);
    }
    for (size_t i = 0; i < length; i++) {
        const int c = character_of((unsigned char)word[i]);
        begin[n_parts++] = size;
        if (c >= 128) text[size++] = (char)(0xc0 | c >> 6);
        text[size++] = (char)(c < 128 ? c : 0x80 | (c & 63));
    }
    begin[n_parts] = size;
    for (;;) { /* the pair that was merged first in training is merged first */
        int best = -1;
        size_t where = 0;
        for (size_t i = 0; i + 1 < n_parts; i++) {
            const size_t left = begin[i + 1] - begin[i], both = begin[i + 2] - begin[i];
            memcpy(pair, text + begin[i], left);
            pair[left] = ' ';
            memcpy(pair + left + 1, text + begin[i + 1], both - left);
            const int rank = table_get(&t->ranks, pair, both + 1);
            if (rank >= 0 && (best < 0 || rank < best)) best = rank, where = i;
        }
        if (best < 0) break;
        memmove(&begin[where + 1], &begin[where + 2], (n_parts - where - 1) * sizeof *begin);
        n_parts--;
    }
    for (size_t i = 0; i < n_parts; i++) {
        const int id = table_get(&t->ids, text + begin[i], begin[i + 1] - begin[i]);
        if (id < 0) {
            fprintf(stderr, "%s: no token for '%.*s'\n", program, (int)(begin[i + 1] - begin[i]),
                    text + begin[i]);
            exit(1);
        }
        if (*n == room) prompt_too_long();
        ids[(*n)++] = id;
    }
}

/* The control token that is written at p, which ends at *end, or -1. */
static inline int control_at(const struct tokenizer *t, const char *p, const char **end) {
    const char *close = *p == '<' ? strchr(p, '>') : NULL;
    if (!close) return -1;
    const int id = table_get(&t->ids, p, (size_t)(close + 1 - p));
    *end = close + 1;
    return id >= 0 && mlx_array_data_int32(t->types)[id] == CONTROL ? id : -1;
}

/* The tokens of a text into ids; returns how many. */
static inline int tokens_of(const struct tokenizer *t, const char *text, int *ids, int room) {
    int n = 0;
    for (const char *p = text, *end = text; *p;) {
        const char *behind = p; /* p to end is free of control tokens */
        int id = -1;
        for (end = p; *end && (id = control_at(t, end, &behind)) < 0;) end++;
        while (p < end) {
            const size_t length = word_length(p, (size_t)(end - p));
            add_word(t, p, length, ids, &n, room);
            p += length;
        }
        if (id < 0) break;
        if (n == room) prompt_too_long();
        ids[n++] = id;
        p = behind;
    }
    return n;
}
