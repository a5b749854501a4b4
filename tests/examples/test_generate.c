/* test_generate.c - the example generate on small random models: its scores are those of the
 * formulas in double, for floats and for packed weights, at once and token by token; what it
 * generates follows from them; texts become tokens; what is wrong with a file is said. */
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"
#include "platform/self.h"

#include <mlx/c/mlx.h>

/* ---- a model ---- */
enum { WIDTH = 64, HEADS = 4, KV_HEADS = 2, HEAD = 16, FF = 96, TOKENS = 48, BLOCKS = 2 };
enum { N_TENSORS = 4 + 9 * BLOCKS, CONTEXT = 40, GROUP = 32 };
enum type { F32 = 0, Q4_1 = 3, Q8_0 = 8 }; /* the numbers that the format has for them */
static const double eps = 1e-5, base = 500;

struct tensor {
    char name[40];
    int rows, cols; /* rows is 0 for a vector */
    enum type type;
    double value[FF * WIDTH];
    unsigned char q[FF * WIDTH]; /* of packed types: the number of each value */
};
static struct tensor tensors[N_TENSORS];
static int n_tensors;
static uint32_t state;

static double random_number(void) { /* from -1 to 1 */
    state = state * 1664525 + 1013904223;
    return (double)(state >> 8) / (1 << 23) - 1;
}

/* Packed numbers are q / 32 - 1/4 (Q4_1) and (q - 128) / 512 (Q8_0); scales of the file differ from
 * group to group by powers of two. */
static double factor_of(int group) {
    return group % 3 == 1 ? 0.5 : 1;
}

static void add_tensor(const char *name, int rows, int cols, enum type type) {
    struct tensor *t = &tensors[n_tensors++];
    snprintf(t->name, sizeof t->name, "%s", name);
    t->rows = rows;
    t->cols = cols;
    t->type = rows ? type : F32;
    for (int i = 0; i < (rows ? rows : 1) * cols; i++) {
        const double r = random_number(), factor = factor_of(i / GROUP);
        if (t->type == F32) t->value[i] = (double)(float)(rows ? r / 4 : 1 + r / 4);
        if (t->type == Q4_1)
            t->value[i] = ((t->q[i] = (unsigned char)(8 + 8 * r)) / 32.0 - 0.25) * factor;
        if (t->type == Q8_0)
            t->value[i] = ((t->q[i] = (unsigned char)(128 + 127 * r)) - 128) / 512.0 * factor;
    }
}

static void make_model(enum type type, bool tied) {
    static const struct {
        const char *name;
        int rows, cols;
    } parts[] = {{"attn_norm", 0, WIDTH},
                 {"attn_q", HEADS * HEAD, WIDTH},
                 {"attn_k", KV_HEADS * HEAD, WIDTH},
                 {"attn_v", KV_HEADS * HEAD, WIDTH},
                 {"attn_output", WIDTH, HEADS * HEAD},
                 {"ffn_norm", 0, WIDTH},
                 {"ffn_gate", FF, WIDTH},
                 {"ffn_up", FF, WIDTH},
                 {"ffn_down", WIDTH, FF}};
    n_tensors = 0;
    state = 7 + (uint32_t)type;
    add_tensor("token_embd.weight", TOKENS, WIDTH, type);
    for (int b = 0; b < BLOCKS; b++) {
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            char name[40];
            snprintf(name, sizeof name, "blk.%d.%s.weight", b, parts[i].name);
            add_tensor(name, parts[i].rows, parts[i].cols, type);
        }
    }
    add_tensor("output_norm.weight", 0, WIDTH, F32);
    if (!tied) add_tensor("output.weight", TOKENS, WIDTH, type);
    if (tied) add_tensor("rope_freqs.weight", 0, HEAD / 2, F32); /* divides the angles */
}

static const struct tensor *tensor(const char *name, int block) {
    char full[64];
    snprintf(full, sizeof full, block < 0 ? "%s.weight" : "blk.%2$d.%1$s.weight", name, block);
    for (int i = 0; i < n_tensors; i++)
        if (strcmp(tensors[i].name, full) == 0) return &tensors[i];
    return NULL;
}

/* ---- the formulas, in double ---- */
static void multiply(double *out, const struct tensor *m, const double *x) {
    for (int r = 0; r < m->rows; r++) {
        out[r] = 0;
        for (int c = 0; c < m->cols; c++) out[r] += m->value[r * m->cols + c] * x[c];
    }
}

static void normalize(double *out, const struct tensor *weight, const double *x) {
    double sum = 0;
    for (int i = 0; i < WIDTH; i++) sum += x[i] * x[i];
    for (int i = 0; i < WIDTH; i++) out[i] = x[i] / sqrt(sum / WIDTH + eps) * weight->value[i];
}

static void rotate(double *x, int heads, int position) {
    for (int i = 0; i < heads * HEAD; i += 2) {
        const struct tensor *factors = tensor("rope_freqs", -1);
        const double factor = factors ? factors->value[i % HEAD / 2] : 1;
        const double angle = position * pow(base, -(double)(i % HEAD) / HEAD) / factor;
        const double a = x[i], b = x[i + 1];
        x[i] = a * cos(angle) - b * sin(angle);
        x[i + 1] = a * sin(angle) + b * cos(angle);
    }
}

static void expected_scores(double (*out)[TOKENS], const int *ids, int n) {
    static double keys[BLOCKS][CONTEXT][KV_HEADS * HEAD], values[BLOCKS][CONTEXT][KV_HEADS * HEAD];
    for (int at = 0; at < n; at++) {
        double x[WIDTH], y[WIDTH], q[HEADS * HEAD], mixed[HEADS * HEAD], gate[FF], up[FF];
        memcpy(x, &tensor("token_embd", -1)->value[ids[at] * WIDTH], sizeof x);
        for (int b = 0; b < BLOCKS; b++) {
            normalize(y, tensor("attn_norm", b), x);
            multiply(q, tensor("attn_q", b), y);
            multiply(keys[b][at], tensor("attn_k", b), y);
            multiply(values[b][at], tensor("attn_v", b), y);
            rotate(q, HEADS, at);
            rotate(keys[b][at], KV_HEADS, at);
            memset(mixed, 0, sizeof mixed);
            for (int h = 0; h < HEADS; h++) {
                const int shared = h / (HEADS / KV_HEADS) * HEAD;
                double weight[CONTEXT], sum = 0;
                for (int t = 0; t <= at; t++) {
                    double dot = 0;
                    for (int i = 0; i < HEAD; i++) dot += q[h * HEAD + i] * keys[b][t][shared + i];
                    sum += weight[t] = exp(dot / sqrt(HEAD));
                }
                for (int t = 0; t <= at; t++)
                    for (int i = 0; i < HEAD; i++)
                        mixed[h * HEAD + i] += weight[t] / sum * values[b][t][shared + i];
            }
            multiply(y, tensor("attn_output", b), mixed);
            for (int i = 0; i < WIDTH; i++) x[i] += y[i];
            normalize(y, tensor("ffn_norm", b), x);
            multiply(gate, tensor("ffn_gate", b), y);
            multiply(up, tensor("ffn_up", b), y);
            for (int i = 0; i < FF; i++) gate[i] = gate[i] / (1 + exp(-gate[i])) * up[i];
            multiply(y, tensor("ffn_down", b), gate);
            for (int i = 0; i < WIDTH; i++) x[i] += y[i];
        }
        normalize(y, tensor("output_norm", -1), x);
        const struct tensor *output = tensor("output", -1);
        multiply(out[at], output ? output : tensor("token_embd", -1), y);
    }
}

/* ---- the file ---- */
struct file {
    FILE *f;
    uint64_t n_metadata;
    uint32_t end; /* the token that ends a text, END unless given */
    const char *without, *architecture, *tokenizer, *scaling; /* a key or tensor that is left out */
};

static void put(struct file *f, const void *data, size_t n) {
    assert_int_equal(fwrite(data, 1, n, f->f), n);
}
static void put_u32(struct file *f, uint32_t x) {
    put(f, &x, 4);
}
static void put_u64(struct file *f, uint64_t x) {
    put(f, &x, 8);
}
static void put_text(struct file *f, const char *text) {
    put_u64(f, strlen(text));
    put(f, text, strlen(text));
}
enum { U32_VALUE = 4, I32_VALUE = 5, F32_VALUE = 6, TEXT_VALUE = 8, LIST_VALUE = 9 };
static bool put_key(struct file *f, const char *key, uint32_t kind) {
    if (f->without && strcmp(f->without, key) == 0) return false;
    f->n_metadata++;
    put_text(f, key);
    put_u32(f, kind);
    return true;
}
static void meta_count(struct file *f, const char *key, uint32_t x) {
    if (put_key(f, key, U32_VALUE)) put_u32(f, x);
}
static void meta_float(struct file *f, const char *key, double x) {
    if (put_key(f, key, F32_VALUE)) put(f, &(float){(float)x}, 4);
}
static void meta_text(struct file *f, const char *key, const char *text) {
    if (put_key(f, key, TEXT_VALUE)) put_text(f, text);
}

/* Tokens from 0 on; the rest are "t<number>". The last one is a control token. */
static const char *const tokens[] = {"a",
                                     "b",
                                     "c",
                                     "\xc4\xa0",
                                     "ab",
                                     "\xc4\xa0"
                                     "ab",
                                     "\xc4\x8a",
                                     "1",
                                     "2",
                                     "'",
                                     "s",
                                     "'s",
                                     "!",
                                     "\xc3\x83",
                                     "\xc2\xa9",
                                     "\xc3\x83"
                                     "\xc2\xa9",
                                     "abc",
                                     "\xc4\xa0\xc4\xa0"};
enum { N_NAMED = sizeof tokens / sizeof *tokens, END = 30, CONTROL = 3 };
static const char *const merges[] = {"\xc3\x83 \xc2\xa9", "a b", "\xc4\xa0 ab", "' s", "b c",
                                     "\xc4\xa0 \xc4\xa0"};

static void put_metadata(struct file *f) {
    meta_text(f, "general.architecture", f->architecture ? f->architecture : "llama");
    meta_count(f, "llama.block_count", BLOCKS);
    meta_count(f, "llama.embedding_length", WIDTH);
    meta_count(f, "llama.attention.head_count", HEADS);
    meta_count(f, "llama.attention.head_count_kv", KV_HEADS);
    meta_count(f, "llama.context_length", CONTEXT);
    meta_float(f, "llama.attention.layer_norm_rms_epsilon", eps);
    meta_float(f, "llama.rope.freq_base", base);
    if (f->scaling) meta_text(f, "llama.rope.scaling.type", f->scaling);
    meta_count(f, "tokenizer.ggml.eos_token_id", f->end ? f->end : END);
    if (!f->tokenizer) return;
    meta_text(f, "tokenizer.ggml.model", f->tokenizer);
    meta_text(f, "tokenizer.ggml.pre", "smollm");
    put_key(f, "tokenizer.ggml.tokens", LIST_VALUE);
    put_u32(f, TEXT_VALUE);
    put_u64(f, TOKENS);
    for (int i = 0; i < TOKENS; i++) {
        char name[16];
        snprintf(name, sizeof name, i == TOKENS - 1 ? "<|x|>" : "t%d", i);
        put_text(f, i < N_NAMED ? tokens[i] : name);
    }
    put_key(f, "tokenizer.ggml.token_type", LIST_VALUE);
    put_u32(f, I32_VALUE);
    put_u64(f, TOKENS);
    for (int i = 0; i < TOKENS; i++) put_u32(f, i == TOKENS - 1 ? CONTROL : 1);
    if (put_key(f, "tokenizer.ggml.merges", LIST_VALUE)) {
        put_u32(f, TEXT_VALUE);
        put_u64(f, sizeof merges / sizeof *merges);
        for (size_t i = 0; i < sizeof merges / sizeof *merges; i++) put_text(f, merges[i]);
    }
}

static void pad(struct file *f) {
    while (ftell(f->f) % 32) put(f, "", 1);
}

/* 2^-e as a float16. */
static uint16_t half_of_power(int e) {
    return (uint16_t)((15 - e) << 10);
}

static void put_values(struct file *f, const struct tensor *t) {
    const int n = (t->rows ? t->rows : 1) * t->cols;
    for (int i = 0; t->type == F32 && i < n; i++) put(f, &(float){(float)t->value[i]}, 4);
    for (int i = 0; t->type != F32 && i < n; i += GROUP) {
        const int half = factor_of(i / GROUP) < 1;
        if (t->type == Q8_0) {
            put(f, &(uint16_t){half_of_power(9 + half)}, 2);
            for (int k = 0; k < GROUP; k++)
                put(f, &(signed char){(signed char)(t->q[i + k] - 128)}, 1);
        } else {
            put(f, &(uint16_t){half_of_power(5 + half)}, 2);
            put(f, &(uint16_t){(uint16_t)(0x8000 | half_of_power(2 + half))}, 2);
            for (int k = 0; k < GROUP / 2; k++)
                put(f,
                    &(unsigned char){(unsigned char)(t->q[i + k] | t->q[i + k + GROUP / 2] << 4)},
                    1);
        }
    }
}

static uint64_t bytes_of(const struct tensor *t) {
    const uint64_t n = (uint64_t)((t->rows ? t->rows : 1) * t->cols);
    const uint64_t raw = t->type == F32 ? 4 * n : n / GROUP * (t->type == Q8_0 ? 34 : 20);
    return (raw + 31) / 32 * 32;
}

static const char *write_model(const char *name, struct file f) {
    const char *path = kl_test_path(name);
    f.f = fopen(path, "w+b");
    assert_non_null(f.f);
    put(&f, "GGUF", 4);
    put_u32(&f, 3);
    uint64_t n_kept = 0, offset = 0;
    for (int i = 0; i < n_tensors; i++) n_kept += !f.without || strcmp(f.without, tensors[i].name);
    put_u64(&f, n_kept);
    put_u64(&f, 0); /* the number of metadata, when it is known */
    put_metadata(&f);
    for (int i = 0; i < n_tensors; i++) {
        const struct tensor *t = &tensors[i];
        if (f.without && strcmp(f.without, t->name) == 0) continue;
        put_text(&f, t->name);
        put_u32(&f, t->rows ? 2 : 1);
        put_u64(&f, (uint64_t)t->cols);
        if (t->rows) put_u64(&f, (uint64_t)t->rows);
        put_u32(&f, (uint32_t)t->type);
        put_u64(&f, offset);
        offset += bytes_of(t);
    }
    pad(&f);
    for (int i = 0; i < n_tensors; i++) {
        if (f.without && strcmp(f.without, tensors[i].name) == 0) continue;
        put_values(&f, &tensors[i]);
        pad(&f);
    }
    assert_int_equal(fseek(f.f, 16, SEEK_SET), 0);
    put_u64(&f, f.n_metadata);
    assert_int_equal(fclose(f.f), 0);
    return path;
}

/* ---- the program ---- */
static char said[1 << 16];

/* Its path: beside the tests' folder, or, where programs are brought elsewhere, in theirs. */
static const char *program_path(void) {
    static char path[1024];
    static const char *const places[] = {"../examples/generate", "generate"};
    char self[512];
    assert_true(t_self(self, sizeof self) > 0);
    *strrchr(self, '/') = 0;
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", self, places[i]);
        if (access(path, X_OK) == 0) return path;
    }
    fail_msg("there is no program generate beside %s", self);
    return NULL;
}

/* Runs it with these arguments, which a shell reads; what it says is in `said`. Returns the exit
 * status. */
static int run(const char *format, ...) {
    char command[4096];
    va_list args;
    va_start(args, format);
    const int n = snprintf(command, sizeof command, "%s'%s' ", kl_test_emulator(), program_path());
    vsnprintf(command + n, sizeof command - (size_t)n, format, args);
    va_end(args);
    strncat(command, " 2>&1", sizeof command - strlen(command) - 1);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    said[fread(said, 1, sizeof said - 1, f)] = 0;
    const int status = pclose(f);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Where models run: on the device that KEEL_TEST_GPU names, if any. */
static const char *where(void) {
    const char *gpu = getenv("KEEL_TEST_GPU");
    if (!gpu) return "cpu";
    setenv("KEEL_GPU", gpu, 1);
    return "gpu";
}

static void assert_said(const char *what) {
    if (!strstr(said, what)) fail_msg("'%s' is not in: %s", what, said);
}

static const char list[] = "3,41,17,0,29,8,8,46,5";
static const int ids[] = {3, 41, 17, 0, 29, 8, 8, 46, 5};
enum { N = sizeof ids / sizeof *ids };

static void check_scores(const char *path) {
    static double expected[CONTEXT][TOKENS];
    expected_scores(expected, ids, N);
    const char *saved = kl_test_path("logits.npy");
    for (int step = 0; step < 2; step++) {
        if (run("'%s' %s --ids %s --logits '%s' %s", path, where(), list, saved,
                step ? "--step" : ""))
            fail_msg("%s", said);
        mlx_stream s = mlx_default_cpu_stream_new();
        mlx_array got = mlx_array_new();
        assert_int_equal(mlx_load(&got, saved, s), 0);
        assert_int_equal(mlx_array_ndim(got), 2);
        assert_int_equal(mlx_array_dim(got, 0), N);
        assert_int_equal(mlx_array_dim(got, 1), TOKENS);
        const float *x = mlx_array_data_float32(got);
        assert_non_null(x);
        double off = 0, most = 0;
        for (int i = 0; i < N * TOKENS; i++) {
            const double right = expected[i / TOKENS][i % TOKENS];
            assert_true(isfinite(x[i]));
            off = fmax(off, fabs((double)x[i] - right));
            most = fmax(most, fabs(right));
        }
        print_message("largest difference %.2g of scores up to %.2g\n", off, most);
        assert_true(most > 0.5);
        assert_true(off <= 1e-5 * most);
        mlx_array_free(got);
        mlx_stream_free(s);
    }
}

static void scores_are_those_of_the_formulas(void **unused) {
    (void)unused;
    static const enum type types[] = {F32, Q4_1, Q8_0};
    for (int i = 0; i < 6; i++) { /* on a device, where each run loads kernels, every other one */
        const bool device = strcmp(where(), "gpu") == 0;
        if (i % 2 != i / 2 % 2 && device) continue;
        /* Another test has Q8_0; there is one more type in any sample. */
        if (types[i / 2] != Q4_1 && device && !kl_test_takes("kernels", 1)) continue;
        make_model(types[i / 2], i % 2);
        check_scores(write_model("model.gguf", (struct file){0}));
    }
}

/* Each token is the best one after all before it; the end token ends the text. */
static void generates_the_best_tokens(void **unused) {
    (void)unused;
    static double expected[CONTEXT][TOKENS];
    int all[CONTEXT], n = N;
    char text[512] = "\nids ";
    make_model(Q8_0, false);
    memcpy(all, ids, sizeof ids);
    for (int i = 0; i < 20; i++) {
        expected_scores(expected, all, n);
        int best = 0;
        for (int t = 1; t < TOKENS; t++)
            if (expected[n - 1][t] > expected[n - 1][best]) best = t;
        all[n++] = best;
        snprintf(text + strlen(text), sizeof text - strlen(text), i ? ",%d" : "%d", best);
    }
    const char *path = write_model("model.gguf", (struct file){0});
    assert_int_equal(run("'%s' %s --ids %s --generate 20 --through-end", path, where(), list), 0);
    strcat(text, "\n");
    assert_said(text);
    assert_said("19 tokens in ");
    assert_int_equal(run("'%s' --ids %s --generate 20 --step --through-end", path, list), 0);
    assert_said(text);
    /* The fourth one ends the text and is not written. */
    char *stop = text + strlen("\nids ");
    for (int i = 0; i < 3; i++) {
        assert_int_not_equal(all[N + i], all[N + 3]);
        stop = strchr(stop, ',') + 1;
    }
    strcpy(stop - 1, "\n");
    path = write_model("model.gguf", (struct file){.end = (uint32_t)all[N + 3]});
    assert_int_equal(run("'%s' --ids %s --generate 20", path, list), 0);
    assert_said(text);
    /* Nothing is generated when it is not asked for. */
    assert_int_equal(run("'%s' --ids %s --generate 0", path, list), 0);
    assert_null(strstr(said, "\nids "));
}

static void texts_become_tokens(void **unused) {
    (void)unused;
    static const struct {
        const char *text, *ids;
    } cases[] = {
        {"ab", "4"},
        {"ab ab", "4,5"},
        {"abc", "4,2"},
        {"12", "7,8"},
        {"ab 1", "4,3,7"},
        {"ab  ab", "4,3,5"},
        {"ab\n\nab", "4,6,6,4"},
        {"ab<|x|>ab", "4,47,4"},
        {"ab!<|x|>", "4,12,47"},
        {"<ab>", NULL},
        {"b'\\''s!", "1,11,12"},
        {"\xc3\xa9", "15"},
        {"a  1", "0,17,7"},
    };
    make_model(F32, true);
    const char *path = write_model("model.gguf", (struct file){.tokenizer = "gpt2"});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[64];
        const int status = run("'%s' --prompt '%s' --generate 0", path, cases[i].text);
        snprintf(line, sizeof line, "\nprompt %s\n", cases[i].ids ? cases[i].ids : "");
        assert_int_equal(status, cases[i].ids ? 0 : 1);
        assert_said(cases[i].ids ? line : "generate: no token for '<'");
    }
    assert_int_equal(run("'%s' --prompt ''", path), 1);
    assert_said("generate: the prompt is empty\n");
    /* Tokens of the vocabulary are written as text. */
    assert_int_equal(run("'%s' --ids 1 --generate 4 --through-end", path), 0);
    assert_said("\nids ");
}

static void what_is_wrong_is_said(void **unused) {
    (void)unused;
    static const struct {
        const char *without, *says;
    } missing[] = {
        {"blk.1.ffn_up.weight", "has no tensor blk.1.ffn_up.weight"},
        {"output_norm.weight", "has no tensor output_norm.weight"},
        {"token_embd.weight", "has no tensor token_embd.weight"},
        {"llama.block_count", "has no metadata llama.block_count"},
        {"llama.attention.layer_norm_rms_epsilon", "has no metadata llama.attention.layer_norm"},
        {"general.architecture", "has the architecture ''; only llama is taken"},
    };
    make_model(F32, true);
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++) {
        const char *path = write_model("model.gguf", (struct file){.without = missing[i].without});
        assert_int_equal(run("'%s' --ids 1", path), 1);
        assert_said(missing[i].says);
        assert_said("model.gguf");
    }
    const char *path = write_model("model.gguf", (struct file){.architecture = "falcon"});
    assert_int_equal(run("'%s' --ids 1", path), 1);
    assert_said("has the architecture 'falcon'; only llama is taken");
    path = write_model("model.gguf", (struct file){.scaling = "yarn"});
    assert_int_equal(run("'%s' --ids 1", path), 1);
    assert_said("scales positions by the method 'yarn'");
    path = write_model("model.gguf", (struct file){.tokenizer = "bert"});
    path = write_model("model.gguf",
                       (struct file){.tokenizer = "gpt2", .without = "tokenizer.ggml.merges"});

    path = write_model("model.gguf", (struct file){0});
    assert_int_equal(run("'%s.no' --ids 1", path), 1);
    assert_said("generate: ");
    assert_said("model.gguf.no");
    assert_int_equal(run("'%s' --ids 1,48", path), 1);
    assert_said("generate: 48 is out of range: ");
    assert_said("has tokens 0 to 47\n");
    assert_int_equal(run("'%s' --ids=-1", path), 1);
    assert_said("usage: generate MODEL.gguf");
    assert_int_equal(run("'%s' --ids -1", path), 1);
    assert_said("generate: -1 is out of range: ");
    assert_int_equal(run("'%s' --ids 1,,2", path), 1);
    assert_said("--ids takes numbers with commas between them, not '1,,2'");
    assert_int_equal(run("'%s' --ids 1 --generate 40", path), 1);
    assert_said("1 tokens and 40 more are beyond the 40");
    assert_int_equal(run("'%s'", path), 1);
    assert_said("usage: generate MODEL.gguf");
    setenv("KEEL_GPU", "none", 1);
    assert_int_equal(run("'%s' gpu --ids 1", path), 1);
    assert_said("generate: no GPU to run on: ");
}

/* A file that is cut off: the tensors whose bytes are missing fail by name. */
static void a_cut_file_fails_by_name(void **unused) {
    (void)unused;
    make_model(Q4_1, false);
    const char *path = write_model("model.gguf", (struct file){0});
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, -64, SEEK_END), 0);
    const long size = ftell(f);
    fclose(f);
    assert_int_equal(truncate(path, size), 0);
    assert_int_equal(run("'%s' --ids 1", path), 1);
    assert_said("output.weight");
    assert_said("model.gguf");
}

int main(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(scores_are_those_of_the_formulas),
        cmocka_unit_test(generates_the_best_tokens),
        cmocka_unit_test(texts_become_tokens),
        cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(a_cut_file_fails_by_name),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}
