/* characters.c - trains a small transformer to continue text, one character after the other, on
 * Shakespeare's sonnets (data/README.md), and lets it write.
 *
 *     characters [cpu | gpu] [--out DIR] [--steps N] [--seed N] [--write N]
 *
 * Writes characters-model.safetensors and the exported function characters.keelfn into DIR (the
 * current folder). The exit status is 0 when the loss of text that it has not seen falls, after 300
 * steps or more below 2.2, and the exported function writes the same. */
#include "training.h"

enum { CONTEXT = 64, WIDTH = 96, HEADS = 4, HEAD = WIDTH / HEADS, WIDER = 4 * WIDTH, LAYERS = 2 };
enum { BATCH = 16, STEPS = 800, MAX_STEPS = 100000, MAX_WRITTEN = 10000, MAX_TEXT = 200000 };
/* Where the parameters of the network lie in the list; a layer has eight. */
enum { EMBEDDING, POSITION, FIRST_LAYER, PER_LAYER = 8 };
enum { LAST_NORM = FIRST_LAYER + LAYERS * PER_LAYER, SCORES, N_PARAMS };

struct options {
    bool gpu;
    const char *out;
    int steps, written; /* steps of training; characters that it writes */
    uint64_t seed;
};

/* ---- the text ---- */
struct text {
    mlx_array codes; /* (n), int32: the number of each character in `letters` */
    int n, n_train;  /* the last tenth is held out */
    int n_letters;
    char letters[256];
};

static void load_text(struct text *t, const char *path) {
    static char bytes[MAX_TEXT];
    static int32_t codes[MAX_TEXT];
    int code_of[256];
    FILE *f = fopen(path, "rb");
    if (!f) {
        fprintf(stderr, "%s: cannot read %s: %s\n", program, path, strerror(errno));
        exit(1);
    }
    t->n = (int)fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    for (int c = 0; c < 256; c++) code_of[c] = -1;
    for (int i = 0; i < t->n; i++) code_of[(unsigned char)bytes[i]] = 0;
    t->n_letters = 0;
    for (int c = 0; c < 256; c++)
        if (code_of[c] == 0) t->letters[code_of[c] = t->n_letters++] = (char)c;
    for (int i = 0; i < t->n; i++) codes[i] = code_of[(unsigned char)bytes[i]];
    t->n_train = t->n - t->n / 10;
    t->codes = mlx_array_new_data(codes, (int[]){t->n}, 1, MLX_INT32);
    OK(t->codes.ctx == NULL);
}

static int32_t code_of(const struct text *t, char c) {
    return (int32_t)((const char *)memchr(t->letters, c, (size_t)t->n_letters) - t->letters);
}

/* ---- the network ---- */
static void build(struct model *m, const struct text *t, mlx_stream s) {
    static const struct {
        const char *name;
        int in, out; /* out 0: a norm, whose weights begin at 1 */
    } layer[PER_LAYER] = {{"norm1", WIDTH, 0},     {"query", WIDTH, WIDTH}, {"key", WIDTH, WIDTH},
                          {"value", WIDTH, WIDTH}, {"join", WIDTH, WIDTH},  {"norm2", WIDTH, 0},
                          {"widen", WIDTH, WIDER}, {"narrow", WIDER, WIDTH}};
    struct work work = work_begin(s), *w = &work;
    param(m, w, "embedding", INTS(t->n_letters, WIDTH), 0, 0.5f);
    param(m, w, "position", INTS(CONTEXT, WIDTH), 0, 0.1f);
    for (int l = 0; l < LAYERS; l++)
        for (int i = 0; i < PER_LAYER; i++) {
            char name[64];
            snprintf(name, sizeof name, "layers.%d.%s", l, layer[i].name);
            if (layer[i].out)
                param(m, w, name, INTS(layer[i].in, layer[i].out), 0,
                      (float)(0.7 / sqrt(layer[i].in)));
            else
                param(m, w, name, INTS(layer[i].in), 1, 0);
        }
    param(m, w, "norm", INTS(WIDTH), 1, 0);
    param(m, w, "scores", INTS(WIDTH, t->n_letters), 0, (float)(0.3 / sqrt(WIDTH)));
    work_end(w);
}

/* x (n, CONTEXT, WIDTH) times weight, as (n, HEADS, CONTEXT, HEAD) */
static mlx_array heads(struct work *w, mlx_array x, mlx_array weight, int n) {
    x = DO(mlx_reshape, DO(mlx_matmul, x, weight), INTS(n, CONTEXT, HEADS, HEAD));
    return DO(mlx_transpose_axes, x, INTS(0, 2, 1, 3));
}

/* One layer: attention to what came before, then two products with a gate between them, each added
 * to what it is given. p: its parameters. */
static mlx_array layer(struct work *w, mlx_array x, const mlx_array *p, int n) {
    mlx_array y = DO(mlx_fast_rms_norm, x, p[0], 1e-5f);
    y = DO(mlx_fast_scaled_dot_product_attention, heads(w, y, p[1], n), heads(w, y, p[2], n),
           heads(w, y, p[3], n), (float)(1 / sqrt(HEAD)), "causal", mlx_array_empty,
           mlx_array_empty);
    y = DO(mlx_reshape, DO(mlx_transpose_axes, y, INTS(0, 2, 1, 3)), INTS(n, CONTEXT, WIDTH));
    x = DO(mlx_add, x, DO(mlx_matmul, y, p[4]));
    y = DO(mlx_matmul, DO(mlx_fast_rms_norm, x, p[5], 1e-5f), p[6]);
    y = DO(mlx_multiply, y, DO(mlx_sigmoid, y));
    return DO(mlx_add, x, DO(mlx_matmul, y, p[7]));
}

/* codes (n, CONTEXT): for each place the scores of the next character, (n * CONTEXT, letters). The
 * parameters are the first arrays of the list. */
static mlx_array network(struct work *w, mlx_vector_array params, mlx_array codes, int n) {
    mlx_array p[N_PARAMS];
    for (int i = 0; i < N_PARAMS; i++) p[i] = item(w, params, (size_t)i);
    mlx_array x = DO(mlx_add, DO(mlx_take_axis, p[EMBEDDING], codes, 0), p[POSITION]);
    for (int l = 0; l < LAYERS; l++) x = layer(w, x, p + FIRST_LAYER + l * PER_LAYER, n);
    x = DO(mlx_fast_rms_norm, x, p[LAST_NORM], 1e-5f);
    return DO(mlx_matmul, DO(mlx_reshape, x, INTS(n * CONTEXT, WIDTH)), p[SCORES]);
}

/* The function that is differentiated: from the parameters, codes and the codes that follow them to
 * the loss. */
static int loss_of(mlx_vector_array *res, const mlx_vector_array in, void *payload) {
    struct work work = work_begin(*(mlx_stream *)payload), *w = &work;
    mlx_array codes = item(w, in, N_PARAMS), next = item(w, in, N_PARAMS + 1);
    const int n = mlx_array_dim(codes, 0);
    mlx_array scores = network(w, in, codes, n);
    mlx_array loss = cross_entropy(w, scores, DO(mlx_reshape, next, INTS(n * CONTEXT)));
    int rc = mlx_vector_array_set_value(res, loss);
    work_end(w);
    return rc;
}

/* ---- training ---- */
struct run {
    const struct options *options;
    mlx_stream s;
    struct text text;
    struct model model;
    keel_optimizer optimizer;
    mlx_closure loss;
    mlx_closure_value_and_grad gradients;
};

static void prepare(struct run *r) {
    const int n_steps = r->options->steps, warmup = n_steps / 10 + 1;
    int argnums[N_PARAMS];
    for (int i = 0; i < N_PARAMS; i++) argnums[i] = i;
    r->loss = mlx_closure_new_func_payload(loss_of, &r->s, NULL);
    r->gradients = mlx_closure_value_and_grad_new();
    OK(mlx_value_and_grad(&r->gradients, r->loss, argnums, N_PARAMS));
    keel_adam_options options = keel_adam_defaults();
    options.beta2 = 0.99;
    options.weight_decay = 0.05;
    keel_schedule parts[] = {keel_schedule_new_linear(0, 4e-3, warmup),
                             keel_schedule_new_cosine(4e-3, 4e-4, n_steps)};
    keel_schedule rate = keel_schedule_new_join(parts, 2, (int64_t[]){warmup}, 1);
    r->optimizer = keel_optimizer_new_adamw(4e-3, &options);
    OK(r->optimizer.ctx == NULL || keel_optimizer_set_schedule(r->optimizer, rate));
    for (int i = 0; i < 2; i++) keel_schedule_free(parts[i]);
    keel_schedule_free(rate);
}

/* The parameters, then pieces of the text that begin at `starts` (n), then the characters that
 * follow each. */
static mlx_vector_array inputs(struct run *r, struct work *w, mlx_array starts, int n) {
    mlx_array at =
        DO(mlx_add, DO(mlx_reshape, starts, INTS(n, 1)), DO(mlx_arange, 0, CONTEXT, 1, MLX_INT32));
    mlx_array codes = DO(mlx_take, r->text.codes, at);
    mlx_array next = DO(mlx_take, r->text.codes, DO(mlx_add, at, integer(w, 1)));
    mlx_vector_array in = mlx_vector_array_new();
    OK(mlx_vector_array_set(&in, r->model.params) ||
       mlx_vector_array_append_data(in, (mlx_array[]){codes, next}, 2));
    return in;
}

/* The mean loss of the text that is held out. */
static double held_out(struct run *r) {
    struct work work = work_begin(r->s), *w = &work;
    const int n = (r->text.n - r->text.n_train - 1) / CONTEXT;
    mlx_array starts =
        DO(mlx_arange, r->text.n_train, r->text.n_train + n * CONTEXT, CONTEXT, MLX_INT32);
    mlx_vector_array in = inputs(r, w, starts, n), out = mlx_vector_array_new();
    OK(mlx_closure_apply(&out, r->loss, in));
    double loss = (double)float_of(item(w, out, 0));
    mlx_vector_array_free(in);
    mlx_vector_array_free(out);
    work_end(w);
    return loss;
}

static double train_step(struct run *r) {
    struct work work = work_begin(r->s), *w = &work;
    mlx_array starts = DO(mlx_random_randint, integer(w, 0), integer(w, r->text.n_train - CONTEXT),
                          INTS(BATCH), MLX_INT32, next_key(&r->model, w));
    mlx_vector_array in = inputs(r, w, starts, BATCH), values = mlx_vector_array_new();
    mlx_vector_array grads = mlx_vector_array_new();
    OK(mlx_closure_value_and_grad_apply(&values, &grads, r->gradients, in));
    OK(keel_clip_by_global_norm(&grads, NULL, grads, 1, r->s));
    OK(keel_optimizer_step_checked(&r->model.params, r->optimizer, r->model.params, grads, r->s));
    double loss = (double)float_of(item(w, values, 0));
    mlx_vector_array_free(in);
    mlx_vector_array_free(values);
    mlx_vector_array_free(grads);
    work_end(w);
    return loss;
}

static void train(struct run *r) {
    const int n = r->options->steps;
    struct progress p = progress_begin(n, n > 8 ? n / 8 : 1);
    double mean = 0;
    for (int step = 1; step <= n; step++) {
        double loss = train_step(r);
        mean = step == 1 ? loss : 0.95 * mean + 0.05 * loss;
        progress_show(&p, step, "loss %.3f", mean);
    }
}

/* ---- writing ---- */
/* From codes (1, CONTEXT) to scores (CONTEXT, letters), with the parameters as constants. */
static int scores_of(mlx_vector_array *res, const mlx_vector_array in, void *payload) {
    struct run *r = payload;
    struct work work = work_begin(r->s), *w = &work;
    mlx_array scores = network(w, r->model.params, item(w, in, 0), 1);
    int rc = mlx_vector_array_set_value(res, scores);
    work_end(w);
    return rc;
}

/* Continues `begin` to options.written characters, each drawn from the scores that `writer` gives,
 * a little sharpened. The same seed draws the same text. */
static void write_text(struct run *r, mlx_closure writer, const char *begin,
                       char text[MAX_WRITTEN + 1]) {
    struct model dice = model_new(r->options->seed);
    int n = (int)strlen(begin);
    memcpy(text, begin, (size_t)n);
    for (; n < r->options->written; n++) {
        struct work work = work_begin(r->s), *w = &work;
        int32_t window[CONTEXT] = {0}, code;
        /* Behind the last character the window is not looked at. */
        int used = n < CONTEXT ? n : CONTEXT;
        for (int i = 0; i < used; i++) window[i] = code_of(&r->text, text[n - used + i]);
        int rc = mlx_array_set_data(&w->made, window, (int[]){1, CONTEXT}, 2, MLX_INT32);
        mlx_array codes = work_note(w, rc, "mlx_array_set_data");
        mlx_vector_array in = mlx_vector_array_new_value(codes), out = mlx_vector_array_new();
        OK(mlx_closure_apply(&out, writer, in));
        mlx_array scores = DO(mlx_slice, item(w, out, 0), INTS(used - 1, 0),
                              INTS(used, r->text.n_letters), INTS(1, 1));
        scores = DO(mlx_divide, scores, number(w, 0.7f));
        mlx_array drawn = DO(mlx_random_categorical, scores, 1, next_key(&dice, w));
        mlx_array as_int = DO(mlx_astype, DO(mlx_reshape, drawn, NULL, 0), MLX_INT32);
        OK(mlx_array_item_int32(&code, as_int));
        text[n] = r->text.letters[code];
        mlx_vector_array_free(in);
        mlx_vector_array_free(out);
        work_end(w);
    }
    text[n] = '\0';
    model_free(&dice);
}

static int apply_imported(mlx_vector_array *res, const mlx_vector_array in, void *payload) {
    return mlx_imported_function_apply(res, *(mlx_imported_function *)payload, in);
}

/* Exports the function that gives the scores, with the parameters inside; whether the function that
 * is read back writes the same text. */
static bool export_and_write(struct run *r, mlx_closure writer, const char *path, const char *begin,
                             const char *text) {
    static char again[MAX_WRITTEN + 1];
    struct work work = work_begin(r->s), *w = &work;
    mlx_array codes = DO(mlx_zeros, INTS(1, CONTEXT), MLX_INT32);
    mlx_vector_array in = mlx_vector_array_new_value(codes);
    OK(mlx_export_function(path, writer, in, false));
    mlx_imported_function imported = mlx_imported_function_new(path);
    OK(imported.ctx == NULL);
    mlx_closure f = mlx_closure_new_func_payload(apply_imported, &imported, NULL);
    write_text(r, f, begin, again);
    mlx_closure_free(f);
    mlx_imported_function_free(imported);
    mlx_vector_array_free(in);
    work_end(w);
    return strcmp(text, again) == 0;
}

/* ---- the program ---- */
static bool parse(struct options *o, int argc, char **argv) {
    *o = (struct options){.out = ".", .steps = STEPS, .written = 400, .seed = 1};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "gpu") == 0 || strcmp(argv[i], "cpu") == 0)
            o->gpu = argv[i][0] == 'g';
        else if (value && strcmp(argv[i], "--out") == 0)
            o->out = argv[++i];
        else if (value && strcmp(argv[i], "--steps") == 0)
            o->steps = atoi(argv[++i]);
        else if (value && strcmp(argv[i], "--write") == 0)
            o->written = atoi(argv[++i]);
        else if (value && strcmp(argv[i], "--seed") == 0)
            o->seed = strtoull(argv[++i], NULL, 10);
        else
            return false;
    }
    return o->steps >= 1 && o->steps <= MAX_STEPS && o->written >= 0 && o->written <= MAX_WRITTEN;
}

int main(int argc, char **argv) {
    struct options options;
    program = "characters";
    if (!parse(&options, argc, argv)) {
        fprintf(stderr,
                "usage: characters [cpu | gpu] [--out DIR] [--steps 1..%d] [--seed N] [--write "
                "0..%d]\n",
                MAX_STEPS, MAX_WRITTEN);
        return 1;
    }
    keel_errors_return();
    mlx_device device = mlx_device_new_type(options.gpu ? MLX_GPU : MLX_CPU, 0);
    struct run run = {.options = &options, .s = mlx_stream_new_device(device)}, *r = &run;
    if (!r->s.ctx) {
        keel_error_info e = {.size = sizeof e};
        keel_last_error(&e);
        fprintf(stderr, "characters: no %s to run on: %s\n", options.gpu ? "GPU" : "CPU",
                e.message);
        mlx_device_free(device);
        return 1;
    }
    OK(mlx_set_default_device(device) || mlx_set_default_stream(r->s)); /* of imported functions */
    make_folder(options.out);
    load_text(&r->text, path_in(data_folder(), "sonnets.txt"));
    r->model = model_new(options.seed);
    build(&r->model, &r->text, r->s);
    printf("Shakespeare's sonnets, character by character: a transformer of %zu numbers\n",
           r->model.size);
    printf("  %d characters of %d kinds, the last tenth held out; %d steps of %d x %d\n", r->text.n,
           r->text.n_letters, options.steps, BATCH, CONTEXT);
    prepare(r);
    const double before = held_out(r), start = now();
    train(r);
    const double seconds = now() - start, after = held_out(r);
    printf("\n  trained   in %.1f s\n", seconds);
    printf("  loss      of the text it has not seen: %.3f before, %.3f after (%.2f bits a "
           "character)\n",
           before, after, after / 0.69314718);

    const char *path = path_in(options.out, "characters-model.safetensors");
    OK(keel_checkpoint_save(path, r->model.names, r->model.params, r->optimizer,
                            (mlx_map_string_to_string){NULL}));
    printf("  saved     %s\n\n", path);
    static char text[MAX_WRITTEN + 1];
    mlx_closure writer = mlx_closure_new_func_payload(scores_of, r, NULL);
    const char *begin = "Shall I compare thee to a ";
    write_text(r, writer, begin, text);
    printf("%s\n", text);
    path = path_in(options.out, "characters.keelfn");
    const bool same = export_and_write(r, writer, path, begin, text);
    printf("\n  exported  %s; imported again it writes %s\n", path,
           same ? "the same" : "SOMETHING ELSE");

    const bool good = same && after < before && (options.steps < 300 || after < 2.2);
    if (!good) printf("\n  NOT GOOD: see above\n");
    mlx_closure_free(writer);
    mlx_closure_free(r->loss);
    mlx_closure_value_and_grad_free(r->gradients);
    keel_optimizer_free(r->optimizer);
    model_free(&r->model);
    mlx_array_free(r->text.codes);
    mlx_stream_free(r->s);
    mlx_device_free(device);
    return good ? 0 : 1;
}
