/* generate.c - a language model from a GGUF file: loads it lazily, keeps packed weights packed,
 * and writes on from a prompt, always with the most likely token.
 *
 *     generate MODEL.gguf [cpu | gpu] (--ids 1,2,3 | --prompt TEXT) [--generate N] [--step]
 *              [--logits FILE.npy] [--through-end]
 *
 * --logits saves and shows the scores of all tokens after each of the prompt. --step feeds the
 * prompt token by token. --through-end goes on behind the token that ends a text. */
#include "tokenizer.h"

enum { MAX_BLOCKS = 1024, MAX_TOKENS = 8192, GROUP = 32, UNSAID = -1 };

struct options {
    const char *model, *ids, *prompt, *logits;
    bool gpu, step, through_end;
    int n_generate; /* UNSAID when not given */
};

/* A matrix (out, in), as it is in the file: floats, or numbers of a few bits with a scale and a
 * bias for each group of 32 (mlx_quantize). */
struct linear {
    mlx_array weight, scales, biases; /* the last two are empty unless packed */
    mlx_array offset;                 /* added to the product; may be empty */
};

struct block {
    mlx_array attn_norm, ffn_norm;
    struct linear q, k, v, out, gate, up, down;
    mlx_array keys, values; /* the cache: (1, kv heads, tokens so far, head); empty at first */
};

struct llama {
    const char *path;
    mlx_io_gguf file;
    int n_blocks, width, n_heads, n_kv_heads, head, rotated, n_tokens, context, end;
    float eps, base;
    struct linear embedding, output;
    mlx_array output_norm;
    mlx_array periods; /* of rotation, by pair; empty when `base` tells them */
    struct block *blocks;
};

_Noreturn static void refuse(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s: ", program);
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    exit(1);
}

/* ---- metadata ---- */
/* A number of the metadata under llama.<name>; `otherwise`, unless that is negative, when it is not
 * there. */
static double metadata(const struct llama *m, struct work *w, const char *name, double otherwise) {
    char key[96];
    snprintf(key, sizeof key, "llama.%s", name);
    mlx_array value = mlx_array_new();
    const int rc = mlx_io_gguf_get_metadata_array(&value, m->file, key);
    double x = otherwise;
    if (rc == 0 && mlx_array_size(value) == 1) {
        x = (double)float_of(DO(mlx_astype, value, MLX_FLOAT32));
    } else if (rc != 2) {
        refuse("%s: the metadata %s is not one number", m->path, key);
    } else if (otherwise < 0) {
        refuse("%s has no metadata %s", m->path, key);
    }
    mlx_array_free(value);
    return x;
}

static int count(const struct llama *m, struct work *w, const char *name, int otherwise, int most) {
    const double x = metadata(m, w, name, otherwise);
    if (!(x >= 1 && x <= most) || x != floor(x))
        refuse("%s: the metadata llama.%s is %g; a count from 1 to %d is taken", m->path, name, x,
               most);
    return (int)x;
}

/* The text of the metadata under the key, or "" when it is not there; for the caller to free. */
static mlx_string text_of(const struct llama *m, const char *key) {
    mlx_string text = mlx_string_new();
    const int rc = mlx_io_gguf_get_metadata_string(&text, m->file, key);
    if (rc == 3) refuse("%s: the metadata %s is not a text", m->path, key);
    if (rc == 2)
        text = mlx_string_new_data("");
    else
        OK(rc);
    return text;
}

static void read_metadata(struct llama *m, mlx_stream s) {
    struct work work = work_begin(s), *w = &work;
    mlx_string kind = text_of(m, "general.architecture");
    if (strcmp(mlx_string_data(kind), "llama") != 0)
        refuse("%s has the architecture '%s'; only llama is taken", m->path, mlx_string_data(kind));
    mlx_string scaling = text_of(m, "llama.rope.scaling.type");
    if (mlx_string_data(scaling)[0] && strcmp(mlx_string_data(scaling), "none") != 0)
        refuse("%s scales positions by the method '%s'; only models without are taken", m->path,
               mlx_string_data(scaling));
    mlx_string_free(kind);
    mlx_string_free(scaling);
    if (metadata(m, w, "expert_count", 0) > 0)
        refuse("%s is a mixture of experts, which is not taken", m->path);
    m->n_blocks = count(m, w, "block_count", -1, MAX_BLOCKS);
    m->width = count(m, w, "embedding_length", -1, 1 << 20);
    m->n_heads = count(m, w, "attention.head_count", -1, m->width);
    m->n_kv_heads = count(m, w, "attention.head_count_kv", m->n_heads, m->n_heads);
    m->head = count(m, w, "attention.key_length", m->width / m->n_heads, m->width);
    m->rotated = count(m, w, "rope.dimension_count", m->head, m->head);
    m->context = count(m, w, "context_length", -1, 1 << 24);
    m->eps = (float)metadata(m, w, "attention.layer_norm_rms_epsilon", -1);
    m->base = (float)metadata(m, w, "rope.freq_base", 10000);
    mlx_array end = mlx_array_new();
    m->end = -1;
    if (mlx_io_gguf_get_metadata_array(&end, m->file, "tokenizer.ggml.eos_token_id") == 0)
        m->end = (int)float_of(DO(mlx_astype, end, MLX_FLOAT32));
    mlx_array_free(end);
    work_end(w);
}

/* ---- weights ---- */
/* The array block.name, or name without a block; an empty one when it is not there. */
static mlx_array find(const struct llama *m, int block, const char *name, const char *part) {
    char key[96];
    if (block >= 0)
        snprintf(key, sizeof key, "blk.%d.%s.%s", block, name, part);
    else
        snprintf(key, sizeof key, "%s.%s", name, part);
    mlx_array found = mlx_array_new();
    const int rc = mlx_io_gguf_get_array(&found, m->file, key);
    const bool optional = strcmp(name, "output") == 0 || strcmp(name, "rope_freqs") == 0;
    if (rc == 2 && strcmp(part, "weight") == 0 && !optional)
        refuse("%s has no tensor %s", m->path, key);
    if (rc != 2) OK(rc);
    if (found.ctx && mlx_array_size(found) == 0) refuse("%s: the tensor %s is empty", m->path, key);
    return found;
}

/* Scales are as in the file, mostly float16; products with float32 would convert them each time. */
static mlx_array as_float32(mlx_array a, mlx_stream s) {
    if (a.ctx) OK(mlx_astype(&a, a, MLX_FLOAT32, s));
    return a;
}

static struct linear linear(const struct llama *m, int block, const char *name, mlx_stream s) {
    return (struct linear){.weight = find(m, block, name, "weight"),
                           .scales = as_float32(find(m, block, name, "scales"), s),
                           .biases = as_float32(find(m, block, name, "biases"), s),
                           .offset = find(m, block, name, "bias")};
}

static void linear_free(struct linear *l) {
    mlx_array_free(l->weight);
    mlx_array_free(l->scales);
    mlx_array_free(l->biases);
    mlx_array_free(l->offset);
}

/* base^(2 k / d) for each pair k, times the factors of the file. */
static mlx_array periods(const struct llama *m, mlx_stream s) {
    mlx_array factors = find(m, -1, "rope_freqs", "weight");
    if (!factors.ctx) return factors;
    struct work work = work_begin(s), *w = &work;
    mlx_array exponents = DO(mlx_arange, 0, 1, 2.0 / m->rotated, MLX_FLOAT32);
    mlx_array plain = DO(mlx_power, number(w, m->base), exponents);
    OK(mlx_multiply(&factors, plain, factors, s));
    work_end(w);
    return factors;
}

static struct llama llama_load(const char *path, mlx_stream s) {
    struct llama m = {.path = path, .file = mlx_io_gguf_new()};
    OK(mlx_load_gguf(&m.file, path, s));
    read_metadata(&m, s);
    m.embedding = linear(&m, -1, "token_embd", s);
    m.n_tokens = mlx_array_dim(m.embedding.weight, 0);
    m.output = linear(&m, -1, "output", s);
    m.output_norm = find(&m, -1, "output_norm", "weight");
    m.periods = periods(&m, s);
    m.blocks = calloc((size_t)m.n_blocks, sizeof *m.blocks);
    if (!m.blocks) refuse("no memory for %d blocks", m.n_blocks);
    for (int i = 0; i < m.n_blocks; i++) {
        m.blocks[i] = (struct block){.attn_norm = find(&m, i, "attn_norm", "weight"),
                                     .ffn_norm = find(&m, i, "ffn_norm", "weight"),
                                     .q = linear(&m, i, "attn_q", s),
                                     .k = linear(&m, i, "attn_k", s),
                                     .v = linear(&m, i, "attn_v", s),
                                     .out = linear(&m, i, "attn_output", s),
                                     .gate = linear(&m, i, "ffn_gate", s),
                                     .up = linear(&m, i, "ffn_up", s),
                                     .down = linear(&m, i, "ffn_down", s)};
    }
    return m;
}

static void llama_free(struct llama *m) {
    for (int i = 0; i < m->n_blocks; i++) {
        struct block *b = &m->blocks[i];
        struct linear *all[] = {&b->q, &b->k, &b->v, &b->out, &b->gate, &b->up, &b->down};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++) linear_free(all[k]);
        mlx_array_free(b->attn_norm);
        mlx_array_free(b->ffn_norm);
        mlx_array_free(b->keys);
        mlx_array_free(b->values);
    }
    free(m->blocks);
    linear_free(&m->embedding);
    linear_free(&m->output);
    mlx_array_free(m->output_norm);
    mlx_array_free(m->periods);
    mlx_io_gguf_free(m->file);
}

/* ---- the network (Touvron and others, "LLaMA", 2023) ---- */
/* Words of 32 bits for a group of 32 numbers: as many as a number has bits. */
static mlx_optional_int bits_of(const struct linear *l) {
    return (mlx_optional_int){mlx_array_dim(l->weight, -1) / mlx_array_dim(l->scales, -1), true};
}
static const mlx_optional_int group = {GROUP, true};

/* x (n, in) times the transpose of the matrix: (n, out). */
static mlx_array apply(struct work *w, const struct linear *l, mlx_array x) {
    mlx_array y = l->scales.ctx ? DO(mlx_quantized_matmul, x, l->weight, l->scales, l->biases, true,
                                     group, bits_of(l), "affine")
                                : DO(mlx_matmul, x, DO(mlx_transpose, l->weight));
    return l->offset.ctx ? DO(mlx_add, y, l->offset) : y;
}

/* The rows of the table for these tokens: only they are unpacked. */
static mlx_array embed(struct work *w, const struct linear *table, mlx_array ids) {
    mlx_array rows = DO(mlx_take_axis, table->weight, ids, 0);
    if (!table->scales.ctx) return DO(mlx_astype, rows, MLX_FLOAT32);
    return DO(mlx_dequantize, rows, DO(mlx_take_axis, table->scales, ids, 0),
              DO(mlx_take_axis, table->biases, ids, 0), group, bits_of(table), "affine",
              (mlx_array){NULL}, (mlx_optional_dtype){MLX_FLOAT32, true});
}

/* (n, heads * head) as (1, heads, n, head). */
static mlx_array heads_of(struct work *w, const struct llama *m, mlx_array x, int n, int heads) {
    x = DO(mlx_reshape, x, INTS(1, n, heads, m->head));
    return DO(mlx_swapaxes, x, 1, 2);
}

/* Files of this architecture have the rows of q and k in the order in which the pair that is
 * rotated together stands side by side (`traditional`). */
static mlx_array rotate(struct work *w, const struct llama *m, mlx_array x, int position) {
    const mlx_optional_float base = {m->base, !m->periods.ctx};
    return DO(mlx_fast_rope, x, m->rotated, true, base, 1.0f, position, m->periods);
}

/* Appends what is new to the cache, along the axis of tokens. */
static void remember(struct work *w, mlx_array *cache, mlx_array new) {
    if (!cache->ctx) {
        OK(mlx_array_set(cache, new));
        return;
    }
    mlx_vector_array both = mlx_vector_array_new_data((mlx_array[]){*cache, new}, 2);
    OK(mlx_concatenate_axis(cache, both, 2, w->stream));
    mlx_vector_array_free(both);
}

static mlx_array attention(struct work *w, const struct llama *m, struct block *b, mlx_array x,
                           int n, int position) {
    mlx_array q = heads_of(w, m, apply(w, &b->q, x), n, m->n_heads);
    mlx_array k = heads_of(w, m, apply(w, &b->k, x), n, m->n_kv_heads);
    mlx_array v = heads_of(w, m, apply(w, &b->v, x), n, m->n_kv_heads);
    remember(w, &b->keys, rotate(w, m, k, position));
    remember(w, &b->values, v);
    x = DO(mlx_fast_scaled_dot_product_attention, rotate(w, m, q, position), b->keys, b->values,
           1 / sqrtf((float)m->head), "causal", (mlx_array){NULL}, (mlx_array){NULL});
    x = DO(mlx_reshape, DO(mlx_swapaxes, x, 1, 2), INTS(n, m->n_heads * m->head));
    return apply(w, &b->out, x);
}

static mlx_array feed_forward(struct work *w, const struct block *b, mlx_array x) {
    mlx_array gate = apply(w, &b->gate, x);
    gate = DO(mlx_multiply, gate, DO(mlx_sigmoid, gate));
    return apply(w, &b->down, DO(mlx_multiply, gate, apply(w, &b->up, x)));
}

/* Scores (n, tokens) of what comes after each of n tokens, the first of which is at `position`;
 * for the last token alone if only_last. The result is the caller's. */
static mlx_array scores(struct llama *m, const int *ids, int n, int position, bool only_last,
                        mlx_stream s) {
    mlx_array x = mlx_array_new();
    struct work work = work_begin(s), *w = &work;
    mlx_array tokens =
        work_note(w, mlx_array_set_data(&w->made, ids, &n, 1, MLX_INT32), "token ids");
    OK(mlx_array_set(&x, embed(w, &m->embedding, tokens)));
    for (int i = 0; i < m->n_blocks; i++) {
        struct block *b = &m->blocks[i];
        mlx_array y = DO(mlx_fast_rms_norm, x, b->attn_norm, m->eps);
        mlx_array with = DO(mlx_add, x, attention(w, m, b, y, n, position));
        y = DO(mlx_fast_rms_norm, with, b->ffn_norm, m->eps);
        OK(mlx_add(&x, with, feed_forward(w, b, y), s));
        work_end(w);
    }
    mlx_array last =
        only_last ? DO(mlx_slice, x, INTS(n - 1, 0), INTS(n, m->width), INTS(1, 1)) : x;
    last = DO(mlx_fast_rms_norm, last, m->output_norm, m->eps);
    OK(mlx_array_set(&x, apply(w, m->output.weight.ctx ? &m->output : &m->embedding, last)));
    work_end(w);
    return x;
}

/* ---- the program ---- */
static int tokens_from_list(const char *list, int *ids) {
    int n = 0;
    for (const char *p = list; n < MAX_TOKENS; p++) {
        char *end;
        errno = 0;
        const long id = strtol(p, &end, 10);
        if (end == p || errno || id < INT32_MIN || id > INT32_MAX || (*end && *end != ','))
            refuse("--ids takes numbers with commas between them, not '%s'", list);
        ids[n++] = (int)id;
        p = end;
        if (!*p) return n;
    }
    refuse("--ids takes at most %d tokens", MAX_TOKENS);
}

/* The vocabulary of the file, if it is of the byte-level kind. */
static bool load_tokenizer(struct tokenizer *t, const struct llama *m, bool needed) {
    *t = (struct tokenizer){.tokens = mlx_vector_string_new(), .merges = mlx_vector_string_new()};
    mlx_string kind = text_of(m, "tokenizer.ggml.model"), words = text_of(m, "tokenizer.ggml.pre");
    bool known =
        strcmp(mlx_string_data(kind), "gpt2") == 0 &&
        mlx_io_gguf_get_metadata_vector_string(&t->tokens, m->file, "tokenizer.ggml.tokens") == 0 &&
        mlx_vector_string_size(t->tokens) >= (size_t)m->n_tokens;
    if (needed) {
        if (!known || strcmp(mlx_string_data(words), "smollm") != 0)
            refuse("%s has the tokenizer '%s', '%s'; --prompt takes 'gpt2', 'smollm': give --ids",
                   m->path, mlx_string_data(kind), mlx_string_data(words));
        if (mlx_io_gguf_get_metadata_vector_string(&t->merges, m->file, "tokenizer.ggml.merges") ||
            mlx_io_gguf_get_metadata_array(&t->types, m->file, "tokenizer.ggml.token_type") ||
            mlx_array_dtype(t->types) != MLX_INT32 ||
            mlx_array_size(t->types) != mlx_vector_string_size(t->tokens))
            refuse("%s has no tokenizer.ggml.merges and token_type for --prompt: give --ids",
                   m->path);
        t->ids = table_new(t->tokens);
        t->ranks = table_new(t->merges);
    }
    mlx_string_free(kind);
    mlx_string_free(words);
    return known;
}

static void tokenizer_free(struct tokenizer *t) {
    mlx_vector_string_free(t->tokens);
    mlx_vector_string_free(t->merges);
    mlx_array_free(t->types);
    free(t->ids.entries);
    free(t->ranks.entries);
}

/* Scores of the whole prompt, at once or token by token. */
static mlx_array prompt_scores(struct llama *m, const int *ids, int n, bool step, mlx_stream s) {
    if (!step) return scores(m, ids, n, 0, false, s);
    mlx_vector_array rows = mlx_vector_array_new();
    for (int i = 0; i < n; i++) {
        mlx_array row = scores(m, &ids[i], 1, i, false, s);
        OK(mlx_array_eval(row));
        OK(mlx_vector_array_append_value(rows, row));
        mlx_array_free(row);
    }
    mlx_array all = mlx_array_new();
    OK(mlx_concatenate_axis(&all, rows, 0, s));
    mlx_vector_array_free(rows);
    return all;
}

static void show_scores(mlx_array all, const int *ids, int n) {
    enum { SHOWN = 5 };
    const float *row = mlx_array_data_float32(all);
    if (!row) give_up("mlx_array_data_float32");
    const int n_tokens = mlx_array_dim(all, 1);
    for (int i = 0; i < n; i++, row += n_tokens) {
        printf("after %6d ", ids[i]);
        int best[SHOWN], n_best = 0;
        for (int t = 0; t < n_tokens; t++) {
            int at = n_best;
            while (at > 0 && row[t] > row[best[at - 1]]) at--;
            if (at == SHOWN) continue;
            if (n_best < SHOWN) n_best++;
            memmove(&best[at + 1], &best[at], (size_t)(n_best - 1 - at) * sizeof *best);
            best[at] = t;
        }
        for (int k = 0; k < n_best; k++) printf("  %d: %.4f", best[k], (double)row[best[k]]);
        printf("\n");
    }
}

/* Writes n tokens after the prompt, of which `all` has the scores. */
static void generate(struct llama *m, const struct options *o, const struct tokenizer *t,
                     mlx_array all, int n_prompt, mlx_stream s) {
    static int made[MAX_TOKENS];
    int n = 0;
    double start = 0;
    mlx_array row = mlx_array_new();
    for (; n < o->n_generate; n++) {
        struct work work = work_begin(s), *w = &work;
        if (n)
            row = scores(m, &made[n - 1], 1, n_prompt + n - 1, true, s);
        else
            OK(mlx_slice(&row, all, INTS(n_prompt - 1, 0), INTS(n_prompt, m->n_tokens), INTS(1, 1),
                         s));
        mlx_array best = DO(mlx_astype, DO(mlx_argmax, row, false), MLX_INT32);
        OK(mlx_array_item_int32(&made[n], best));
        mlx_array_free(row);
        row = mlx_array_new();
        work_end(w);
        if (!n) start = now();
        if (made[n] == m->end && !o->through_end) break;
        if (t) token_write(t, made[n], stdout);
        fflush(stdout);
    }
    const double seconds = now() - start;
    if (t) printf("\n");
    printf("ids ");
    for (int i = 0; i < n; i++) printf(i ? ",%d" : "%d", made[i]);
    printf("\n");
    if (n > 1) /* the first token is the prompt's */
        printf("%d tokens in %.2f s: %.1f tokens a second\n", n - 1, seconds, (n - 1) / seconds);
    mlx_array_free(row);
}

static bool parse(struct options *o, int argc, char **argv) {
    *o = (struct options){.n_generate = UNSAID};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "gpu") == 0 || strcmp(argv[i], "cpu") == 0)
            o->gpu = argv[i][0] == 'g';
        else if (strcmp(argv[i], "--step") == 0)
            o->step = true;
        else if (strcmp(argv[i], "--through-end") == 0)
            o->through_end = true;
        else if (value && strcmp(argv[i], "--ids") == 0)
            o->ids = argv[++i];
        else if (value && strcmp(argv[i], "--prompt") == 0)
            o->prompt = argv[++i];
        else if (value && strcmp(argv[i], "--logits") == 0)
            o->logits = argv[++i];
        else if (value && strcmp(argv[i], "--generate") == 0 && sscanf(value, "%d", &o->n_generate))
            i++;
        else if (argv[i][0] != '-' && !o->model)
            o->model = argv[i];
        else
            return false;
    }
    return o->model && !o->ids != !o->prompt && o->n_generate >= UNSAID &&
           o->n_generate <= MAX_TOKENS;
}

int main(int argc, char **argv) {
    struct options options, *o = &options;
    program = "generate";
    if (!parse(o, argc, argv)) {
        fprintf(stderr,
                "usage: generate MODEL.gguf [cpu | gpu] (--ids 1,2,3 | --prompt TEXT) [--generate "
                "0..%d] [--step] [--logits FILE.npy] [--through-end]\n",
                MAX_TOKENS);
        return 1;
    }
    keel_errors_return();
    mlx_device device = mlx_device_new_type(o->gpu ? MLX_GPU : MLX_CPU, 0);
    mlx_stream s = mlx_stream_new_device(device);
    if (!s.ctx) {
        keel_error_info e = {.size = sizeof e};
        keel_last_error(&e);
        refuse("no %s to run on: %s", o->gpu ? "GPU" : "CPU", e.message);
    }
    struct llama model = llama_load(o->model, s), *m = &model;
    struct tokenizer tokenizer, *t = &tokenizer;
    const bool readable = load_tokenizer(t, m, o->prompt != NULL);
    static int ids[MAX_TOKENS];
    const int n = o->ids ? tokens_from_list(o->ids, ids) : tokens_of(t, o->prompt, ids, MAX_TOKENS);
    if (n == 0) refuse("the prompt is empty");
    for (int i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= m->n_tokens)
            refuse("%d is out of range: %s has tokens 0 to %d", ids[i], m->path, m->n_tokens - 1);
    if (o->n_generate == UNSAID) {
        const int room = m->context - n;
        o->n_generate = o->logits || room < 0 ? 0 : room < 64 ? room : 64;
    }
    if (n + o->n_generate > m->context)
        refuse("%d tokens and %d more are beyond the %d that %s was made for", n, o->n_generate,
               m->context, m->path);
    printf("%s: %d blocks of width %d, %d heads over %d, %d tokens\n", m->path, m->n_blocks,
           m->width, m->n_heads, m->n_kv_heads, m->n_tokens);
    if (o->prompt) {
        printf("prompt ");
        for (int i = 0; i < n; i++) printf(i ? ",%d" : "%d", ids[i]);
        printf("\n");
    }
    const double start = now();
    mlx_array all = prompt_scores(m, ids, n, o->step, s);
    OK(mlx_array_eval(all));
    printf("loaded, and %d tokens read, in %.2f s\n", n, now() - start);
    if (o->logits) {
        show_scores(all, ids, n);
        OK(mlx_save(o->logits, all));
    }
    if (o->n_generate) generate(m, o, readable ? t : NULL, all, n, s);
    mlx_array_free(all);
    tokenizer_free(t);
    llama_free(m);
    mlx_stream_free(s);
    mlx_device_free(device);
    return 0;
}
