/* train.c - trains a convolutional network on handwritten digits (data/README.md), and shows what
 * errors do: a label out of range in one batch, a checkpoint that is cut off.
 *
 *     train [cpu | gpu] [--out DIR] [--epochs N] [--seed N]
 *
 * Writes digits-model.safetensors, loss.svg and confusion.svg into DIR (the current folder). The
 * exit status is 0 when every promise was kept and, after 10 epochs or more, at least 97.5 % of the
 * held-out digits are right. */
#include "training.h"

/* The network: two layers of 3 x 3 convolutions with a 2 x 2 maximum between them, then two layers
 * that connect everything. */
enum { SIDE = 8, HALF = SIDE / 2, WINDOW = 3, C1 = 32, C2 = 64, HIDDEN = 64, N_CLASSES = 10 };
enum { N_PARAMS = 8, BATCH = 64, EPOCHS = 40, MAX_EPOCHS = 400 };
/* Images are padded, so that a batch can take them shifted by up to one pixel. */
enum { SHIFT = 1, MARGIN = SHIFT, PADDED = SIDE + 2 * MARGIN };
enum { BAD_LABEL = 11, BAD_ROW = 17 };

struct options {
    bool gpu;
    const char *out;
    int epochs;
    uint64_t seed;
};

struct data {
    mlx_array images[2], labels[2]; /* for training and held out; images (n, PADDED, PADDED) */
    int n[2];
};
enum { TRAIN, TEST };

static bool promises_hold = true;
static void promise(bool held, const char *what) {
    if (held) return;
    promises_hold = false;
    printf("  NOT HELD  %s\n", what);
}

/* ---- data ---- */
static void load_data(struct data *d, mlx_stream s) {
    static const char *const names[] = {"train.images", "test.images", "train.labels",
                                        "test.labels"};
    mlx_vector_string list = mlx_vector_string_new_data((const char **)names, 4);
    mlx_vector_array tensors = mlx_vector_array_new();
    OK(keel_checkpoint_load(&tensors, NULL, (keel_optimizer){NULL},
                            path_in(data_folder(), "digits.safetensors"), list));
    for (int part = 0; part < 2; part++) {
        struct work work = work_begin(s), *w = &work;
        mlx_array pixels = DO(mlx_astype, item(w, tensors, (size_t)part), MLX_FLOAT32);
        d->n[part] = mlx_array_dim(pixels, 0);
        pixels = DO(mlx_divide, pixels, number(w, 16));
        pixels = DO(mlx_reshape, pixels, INTS(d->n[part], SIDE, SIDE));
        pixels = DO(mlx_pad, pixels, INTS(1, 2), INTS(MARGIN, MARGIN), INTS(MARGIN, MARGIN),
                    number(w, 0), "constant");
        d->images[part] = mlx_array_new();
        d->labels[part] = mlx_array_new();
        OK(mlx_array_set(&d->images[part], pixels));
        OK(mlx_vector_array_get(&d->labels[part], tensors, (size_t)(2 + part)));
        work_end(w);
    }
    mlx_vector_array_free(tensors);
    mlx_vector_string_free(list);
}

static void data_free(struct data *d) {
    for (int part = 0; part < 2; part++) {
        mlx_array_free(d->images[part]);
        mlx_array_free(d->labels[part]);
    }
}

/* n images of `rows` (n), each from its own place: image k is the square of SIDE x SIDE pixels at
 * (down[k], right[k]) of the padded one. One gather, of which every index is checked. */
static mlx_array take_images(struct work *w, mlx_array images, mlx_array rows, mlx_array down,
                             mlx_array right, int n) {
    int32_t inside[SIDE * SIDE];
    for (int i = 0; i < SIDE * SIDE; i++) inside[i] = i / SIDE * PADDED + i % SIDE;
    mlx_array grid = work_note(
        w, mlx_array_set_data(&w->made, inside, (int[]){1, SIDE * SIDE}, 2, MLX_INT32), "inside");
    mlx_array at = DO(mlx_multiply, rows, integer(w, PADDED * PADDED));
    at = DO(mlx_add, at, DO(mlx_add, DO(mlx_multiply, down, integer(w, PADDED)), right));
    at = DO(mlx_add, DO(mlx_reshape, at, INTS(n, 1)), grid);
    return DO(mlx_reshape, DO(mlx_take, images, at), INTS(n, SIDE, SIDE, 1));
}

/* ---- the network ---- */
static void build(struct model *m, mlx_stream s) {
    static const struct {
        const char *name;
        int in, out;
    } layers[] = {{"conv1", WINDOW * WINDOW, C1},
                  {"conv2", WINDOW * WINDOW * C1, C2},
                  {"dense", HALF * HALF * C2, HIDDEN},
                  {"scores", HIDDEN, N_CLASSES}};
    for (int i = 0; i < N_PARAMS / 2; i++) {
        struct work work = work_begin(s), *w = &work;
        char name[32];
        /* He, Zhang, Ren and Sun, "Delving Deep into Rectifiers", 2015 */
        float deviation = (float)sqrt(2.0 / layers[i].in);
        snprintf(name, sizeof name, "%s.weight", layers[i].name);
        param(m, w, name, INTS(layers[i].in, layers[i].out), 0, deviation);
        snprintf(name, sizeof name, "%s.bias", layers[i].name);
        param(m, w, name, INTS(layers[i].out), 0, 0);
        work_end(w);
    }
}

/* A convolution with a window of 3 x 3, as a product: as_strided shows each pixel's window as a
 * row. x (n, side, side, channels), weight (9 channels, out). */
static mlx_array convolve(struct work *w, mlx_array x, mlx_array weight, mlx_array bias, int n,
                          int side, int channels, int out) {
    const int wide = side + 2;
    const int64_t pixel = channels, row = (int64_t)wide * channels;
    x = DO(mlx_pad, x, INTS(1, 2), INTS(1, 1), INTS(1, 1), number(w, 0), "constant");
    x = DO(mlx_as_strided, x, INTS(n, side, side, WINDOW, WINDOW, channels),
           ((const int64_t[]){row * wide, row, pixel, row, pixel, 1}), 6, 0);
    x = DO(mlx_reshape, x, INTS(n * side * side, WINDOW * WINDOW * channels));
    x = DO(mlx_maximum, affine(w, x, weight, bias), number(w, 0));
    return DO(mlx_reshape, x, INTS(n, side, side, out));
}

/* Scores (n, N_CLASSES) of n images. The parameters are the first arrays of the list. */
static mlx_array network(struct work *w, mlx_vector_array params, mlx_array images, int n) {
    mlx_array p[N_PARAMS];
    for (int i = 0; i < N_PARAMS; i++) p[i] = item(w, params, (size_t)i);
    mlx_array x = convolve(w, images, p[0], p[1], n, SIDE, 1, C1);
    x = DO(mlx_reshape, x, INTS(n, HALF, 2, HALF, 2, C1));
    x = DO(mlx_max_axes, x, INTS(2, 4), false);
    x = convolve(w, x, p[2], p[3], n, HALF, C1, C2);
    x = DO(mlx_reshape, x, INTS(n, HALF * HALF * C2));
    x = DO(mlx_maximum, affine(w, x, p[4], p[5]), number(w, 0));
    return affine(w, x, p[6], p[7]);
}

/* The function that is differentiated: from the parameters, a batch of images and their labels to
 * the loss and the number of right answers. */
static int loss_of(mlx_vector_array *res, const mlx_vector_array in, void *payload) {
    struct work work = work_begin(*(mlx_stream *)payload), *w = &work;
    mlx_array images = item(w, in, N_PARAMS), labels = item(w, in, N_PARAMS + 1);
    mlx_array scores = network(w, in, images, BATCH);
    mlx_array right = DO(mlx_equal, DO(mlx_argmax_axis, scores, 1, false), labels);
    mlx_array out[] = {cross_entropy(w, scores, labels), DO(mlx_sum, right, false)};
    int rc = mlx_vector_array_set_data(res, out, 2);
    work_end(w);
    return rc;
}

/* ---- training ---- */
struct run {
    const struct options *options;
    mlx_stream s;
    struct model model;
    struct data data;
    keel_optimizer optimizer;
    mlx_closure_value_and_grad gradients;
    double loss[MAX_EPOCHS], right[MAX_EPOCHS]; /* the mean loss; % of the held-out digits */
};

static void prepare(struct run *r, int n_steps) {
    int argnums[N_PARAMS];
    for (int i = 0; i < N_PARAMS; i++) argnums[i] = i;
    mlx_closure f = mlx_closure_new_func_payload(loss_of, &r->s, NULL);
    r->gradients = mlx_closure_value_and_grad_new();
    OK(mlx_value_and_grad(&r->gradients, f, argnums, N_PARAMS));
    mlx_closure_free(f);

    const int warmup = n_steps / 20 + 1;
    keel_adam_options options = keel_adam_defaults();
    options.weight_decay = 0.02;
    keel_schedule parts[] = {keel_schedule_new_linear(0, 3e-3, warmup),
                             keel_schedule_new_cosine(3e-3, 0, n_steps)};
    keel_schedule rate = keel_schedule_new_join(parts, 2, (int64_t[]){warmup}, 1);
    r->optimizer = keel_optimizer_new_adamw(3e-3, &options);
    OK(r->optimizer.ctx == NULL || keel_optimizer_set_schedule(r->optimizer, rate));
    for (int i = 0; i < 2; i++) keel_schedule_free(parts[i]);
    keel_schedule_free(rate);
}

/* What the function gets: the parameters, then a batch of shifted images, and labels, of which one
 * is out of range if `bad`. */
static mlx_vector_array inputs(struct run *r, mlx_array order, int step, bool bad) {
    struct work work = work_begin(r->s), *w = &work;
    mlx_array rows = DO(mlx_slice, order, INTS(step * BATCH), INTS((step + 1) * BATCH), INTS(1));
    mlx_array low = integer(w, 0), high = integer(w, 2 * SHIFT + 1);
    mlx_array down =
        DO(mlx_random_randint, low, high, INTS(BATCH), MLX_INT32, next_key(&r->model, w));
    mlx_array right =
        DO(mlx_random_randint, low, high, INTS(BATCH), MLX_INT32, next_key(&r->model, w));
    mlx_array images = take_images(w, r->data.images[TRAIN], rows, down, right, BATCH);
    mlx_array labels = DO(mlx_take, r->data.labels[TRAIN], rows);
    if (bad) {
        mlx_array wrong = integer(w, BAD_LABEL);
        labels = DO(mlx_slice_update, labels, wrong, INTS(BAD_ROW), INTS(BAD_ROW + 1), INTS(1));
    }
    mlx_vector_array in = mlx_vector_array_new();
    OK(mlx_vector_array_set(&in, r->model.params) ||
       mlx_vector_array_append_data(in, (mlx_array[]){images, labels}, 2));
    work_end(w);
    return in;
}

/* The answers for the held-out digits: scores (n, N_CLASSES). */
static mlx_array answers(struct run *r, mlx_vector_array params) {
    struct work work = work_begin(r->s), *w = &work;
    const int n = r->data.n[TEST];
    mlx_array rows = DO(mlx_arange, 0, n, 1, MLX_INT32), scores = mlx_array_new();
    mlx_array place = DO(mlx_full, INTS(n), integer(w, MARGIN), MLX_INT32);
    mlx_array images = take_images(w, r->data.images[TEST], rows, place, place, n);
    mlx_array out = network(w, params, images, n);
    OK(mlx_array_set(&scores, out));
    work_end(w);
    return scores;
}

static double percent_right(struct run *r, mlx_vector_array params) {
    struct work work = work_begin(r->s), *w = &work;
    mlx_array scores = answers(r, params);
    mlx_array same = DO(mlx_equal, DO(mlx_argmax_axis, scores, 1, false), r->data.labels[TEST]);
    float share = float_of(DO(mlx_mean, same, false));
    mlx_array_free(scores);
    work_end(w);
    return 100 * (double)share;
}

/* A label out of range: the step fails by name, parameters and optimiser are as before. */
static void show_bad_label(struct run *r, mlx_vector_array grads, mlx_array loss,
                           const struct progress *p, int step) {
    keel_error_info e = {.size = sizeof e}, own = {.size = sizeof own};
    mlx_vector_array state = mlx_vector_array_new(), kept = mlx_vector_array_new();
    OK(mlx_vector_array_set(&kept, r->model.params));
    bool failed = keel_optimizer_step_checked(&r->model.params, r->optimizer, r->model.params,
                                              grads, r->s) != 0;
    promise(failed && keel_last_error(&e) == 0 && e.code == KEEL_EINDEX,
            "a step with a label out of range fails");
    if (!failed) exit(1);
    progress_interrupt(p);
    printf("  step %d has the label %d in its batch: it is left out. %s\n", step, BAD_LABEL,
           e.message);
    promise(e.index == BAD_LABEL && e.axis_size == N_CLASSES && e.position == BAD_ROW,
            "the error names the label, its place in the batch, and the number of classes");
    promise(mlx_array_eval(loss) != 0 && keel_array_error(&own, loss) == 0 &&
                own.code == KEEL_EINDEX && own.operation &&
                strcmp(own.operation, "take_along_axis") == 0,
            "the loss of that batch has failed by name");
    for (size_t i = 0; i < N_PARAMS; i++) {
        struct work work = work_begin(r->s), *w = &work;
        bool same = false;
        mlx_array equal = DO(mlx_array_equal, item(w, kept, i), item(w, r->model.params, i), false);
        OK(mlx_array_item_bool(&same, equal));
        promise(same, "a step that failed changes no parameter");
        work_end(w);
    }
    mlx_vector_array_free(state);
    mlx_vector_array_free(kept);
}

static void train(struct run *r) {
    const int epochs = r->options->epochs, per_epoch = r->data.n[TRAIN] / BATCH;
    const int n_steps = epochs * per_epoch, bad_step = n_steps / 2;
    prepare(r, n_steps);
    struct progress p = progress_begin(n_steps, per_epoch * (epochs > 10 ? epochs / 10 : 1));
    double shown = percent_right(r, r->model.params); /* of the held-out digits, after an epoch */
    for (int epoch = 0, step = 0; epoch < epochs; epoch++) {
        mlx_array order = mlx_array_new();
        struct work work = work_begin(r->s), *w = &work;
        OK(mlx_random_permutation_arange(&order, r->data.n[TRAIN], next_key(&r->model, w), r->s));
        double loss = 0;
        int n_good = 0, n_right = 0; /* steps; digits of these */
        for (int i = 0; i < per_epoch; i++) {
            mlx_vector_array in = inputs(r, order, i, step == bad_step);
            mlx_vector_array values = mlx_vector_array_new(), grads = mlx_vector_array_new();
            mlx_array now_loss = mlx_array_new();
            OK(mlx_closure_value_and_grad_apply(&values, &grads, r->gradients, in));
            OK(mlx_vector_array_get(&now_loss, values, 0));
            if (step == bad_step) {
                show_bad_label(r, grads, now_loss, &p, step);
            } else {
                OK(keel_optimizer_step_checked(&r->model.params, r->optimizer, r->model.params,
                                               grads, r->s));
                int32_t right;
                OK(mlx_array_item_int32(&right, item(w, values, 1)));
                loss += (double)float_of(now_loss);
                n_right += right;
                n_good++;
            }
            mlx_array_free(now_loss);
            mlx_vector_array_free(in);
            mlx_vector_array_free(values);
            mlx_vector_array_free(grads);
            step++;
            if (i + 1 == per_epoch) shown = percent_right(r, r->model.params);
            if (n_good && (i + 1 == per_epoch || p.terminal))
                progress_show(&p, step, "epoch %2d  loss %.4f  right %.1f %%, held out %.2f %%",
                              epoch + 1, loss / n_good, 100.0 * n_right / (n_good * BATCH), shown);
        }
        r->loss[epoch] = loss / n_good;
        r->right[epoch] = shown;
        mlx_array_free(order);
        work_end(w);
    }
}

/* ---- what is left behind ---- */
static void draw_loss(const struct run *r, const char *path) {
    const int n = r->options->epochs;
    double top = 0, low = 100;
    for (int i = 0; i < n; i++) {
        if (r->loss[i] > top) top = r->loss[i];
        if (r->right[i] < low) low = r->right[i];
    }
    top = ceil(2 * top) / 2;
    struct curve loss = {"mean loss of training", SVG_LINE, r->loss, n, n, 0, top, false};
    struct curve right = {"held-out digits that are right",  SVG_LINE_2, r->right, n, n,
                          low > 90 ? 90 : low > 50 ? 50 : 0, 100,        true};
    FILE *f = svg_begin(path, CHART_W, CHART_H, "Training on handwritten digits");
    svg_curve(f, &loss, 0, "");
    svg_curve(f, &right, 1, " %");
    svg_steps(f, "epoch", n);
    svg_end(f, path);
}

static void draw_confusion(struct run *r, mlx_array scores, const char *path) {
    enum { CELL = 34, X = 60, Y = 76 };
    struct work work = work_begin(r->s), *w = &work;
    int n[N_CLASSES][N_CLASSES] = {{0}};
    mlx_array answer = DO(mlx_astype, DO(mlx_argmax_axis, scores, 1, false), MLX_INT32);
    mlx_array digit = DO(mlx_contiguous, r->data.labels[TEST], false);
    OK(mlx_array_eval(answer) || mlx_array_eval(digit));
    const int32_t *a = mlx_array_data_int32(answer), *d = mlx_array_data_int32(digit);
    for (int i = 0; i < r->data.n[TEST]; i++) n[d[i]][a[i]]++;
    FILE *f =
        svg_begin(path, X + N_CLASSES * CELL + 24, Y + N_CLASSES * CELL + 20, "Held-out digits");
    fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">answered as</text>\n",
            X + N_CLASSES * CELL / 2, Y - 28);
    fprintf(f,
            "<text transform=\"translate(%d %d) rotate(-90)\" text-anchor=\"middle\">is</text>\n",
            X - 34, Y + N_CLASSES * CELL / 2);
    for (int i = 0; i < N_CLASSES; i++) {
        int total = 0;
        for (int j = 0; j < N_CLASSES; j++) total += n[i][j];
        fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%d</text>\n",
                X + i * CELL + CELL / 2, Y - 8, i);
        fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%d</text>\n", X - 10,
                Y + i * CELL + CELL / 2 + 4, i);
        for (int j = 0; j < N_CLASSES; j++) {
            double share = total ? (double)n[i][j] / total : 0;
            fprintf(f,
                    "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\" fill=\"%s\" "
                    "fill-opacity=\"%.2f\"/>\n",
                    X + j * CELL + 1, Y + i * CELL + 1, CELL - 2, CELL - 2,
                    i == j ? SVG_LINE : SVG_LINE_2, n[i][j] ? 0.25 + 0.6 * share : 0.06);
            if (n[i][j])
                fprintf(f, "<text x=\"%d\" y=\"%d\" fill=\"%s\" text-anchor=\"middle\">%d</text>\n",
                        X + j * CELL + CELL / 2, Y + i * CELL + CELL / 2 + 4,
                        i == j ? "#ffffff" : SVG_INK, n[i][j]);
        }
    }
    svg_end(f, path);
    work_end(w);
}

/* Saves the model, loads it back lazily, and compares the answers bit by bit. */
static void save_and_load(struct run *r, mlx_array scores, const char *path) {
    char text[32];
    mlx_map_string_to_string notes = mlx_map_string_to_string_new();
    snprintf(text, sizeof text, "%.2f", r->right[r->options->epochs - 1]);
    OK(mlx_map_string_to_string_insert(notes, "held out, % right", text));
    OK(keel_checkpoint_save(path, r->model.names, r->model.params, r->optimizer, notes));
    mlx_map_string_to_string_free(notes);

    mlx_vector_array loaded = mlx_vector_array_new();
    keel_optimizer optimizer = keel_optimizer_new_adamw(3e-3, NULL);
    OK(keel_checkpoint_load(&loaded, NULL, optimizer, path, r->model.names));
    struct work work = work_begin(r->s), *w = &work;
    mlx_array again = answers(r, loaded);
    bool same = false;
    OK(mlx_array_item_bool(&same, DO(mlx_array_equal, scores, again, false)));
    printf("  saved     %s: %zu numbers, and the state of the optimiser\n", path, r->model.size);
    printf("  loaded    lazily; the scores of the %d held-out digits are %s\n", r->data.n[TEST],
           same ? "the same bits" : "NOT THE SAME");
    promise(same, "the loaded model gives the same bits");
    mlx_array_free(again);
    work_end(w);
    mlx_vector_array_free(loaded);
    keel_optimizer_free(optimizer);
}

/* A copy of the checkpoint without its last byte: the tensor whose byte is missing fails, by name;
 * all others load. */
static void show_cut(struct run *r) {
    const char *cut = path_in(r->options->out, "digits-cut.safetensors");
    mlx_vector_array loaded = mlx_vector_array_new();
    OK(keel_checkpoint_save(cut, r->model.names, r->model.params, (keel_optimizer){NULL},
                            (mlx_map_string_to_string){NULL}));
    struct stat size;
    if (stat(cut, &size) || truncate(cut, size.st_size - 1)) {
        fprintf(stderr, "%s: cannot cut %s: %s\n", program, cut, strerror(errno));
        exit(1);
    }
    OK(keel_checkpoint_load(&loaded, NULL, (keel_optimizer){NULL}, cut, r->model.names));
    int n_failed = 0;
    printf("\nA checkpoint that is cut off after %lld of %lld bytes\n", (long long)size.st_size - 1,
           (long long)size.st_size);
    for (size_t i = 0; i < N_PARAMS; i++) {
        keel_error_info e = {.size = sizeof e};
        char *name;
        mlx_array a = mlx_array_new();
        OK(mlx_vector_string_get(&name, r->model.names, i) || mlx_vector_array_get(&a, loaded, i));
        if (mlx_array_eval(a)) {
            OK(keel_array_error(&e, a));
            printf("  %-14s  %s in tensor %s, bytes %lld to %lld\n", name, keel_code_name(e.code),
                   e.tensor ? e.tensor : "?", (long long)e.byte_begin, (long long)e.byte_end);
            promise(e.code == KEEL_ETRUNCATED && e.tensor && strcmp(e.tensor, name) == 0 &&
                        e.byte_end == size.st_size,
                    "the error names the tensor and its bytes");
            n_failed++;
        }
        mlx_array_free(a);
    }
    printf("  %d of %d tensors load\n", N_PARAMS - n_failed, N_PARAMS);
    promise(n_failed == 1, "exactly one tensor fails");
    keel_error_info e = {.size = sizeof e};
    mlx_array scores = answers(r, loaded);
    bool failed = mlx_array_eval(scores) != 0 && keel_array_error(&e, scores) == 0;
    printf("  answers         %s\n", failed ? e.message : "no error");
    promise(failed && e.code == KEEL_ETRUNCATED, "what needs that tensor fails with its error");
    mlx_array_free(scores);
    mlx_vector_array_free(loaded);
    unlink(cut);
}

/* ---- the program ---- */
static int usage(void) {
    fprintf(stderr, "usage: train [cpu | gpu] [--out DIR] [--epochs 1..%d] [--seed N]\n",
            MAX_EPOCHS);
    return 1;
}

static bool parse(struct options *o, int argc, char **argv) {
    *o = (struct options){.out = ".", .epochs = EPOCHS, .seed = 1};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "gpu") == 0 || strcmp(argv[i], "cpu") == 0)
            o->gpu = argv[i][0] == 'g';
        else if (value && strcmp(argv[i], "--out") == 0)
            o->out = argv[++i];
        else if (value && strcmp(argv[i], "--epochs") == 0)
            o->epochs = atoi(argv[++i]);
        else if (value && strcmp(argv[i], "--seed") == 0)
            o->seed = strtoull(argv[++i], NULL, 10);
        else
            return false;
    }
    return o->epochs >= 1 && o->epochs <= MAX_EPOCHS;
}

int main(int argc, char **argv) {
    struct options options;
    program = "train";
    if (!parse(&options, argc, argv)) return usage();
    keel_errors_return();
    mlx_device device = mlx_device_new_type(options.gpu ? MLX_GPU : MLX_CPU, 0);
    struct run run = {.options = &options, .s = mlx_stream_new_device(device)}, *r = &run;
    if (!r->s.ctx) {
        keel_error_info e = {.size = sizeof e};
        keel_last_error(&e);
        fprintf(stderr, "train: no %s to run on: %s\n", options.gpu ? "GPU" : "CPU", e.message);
        mlx_device_free(device);
        return 1;
    }
    make_folder(options.out);
    load_data(&r->data, r->s);
    r->model = model_new(options.seed);
    build(&r->model, r->s);
    mlx_string where = mlx_string_new();
    OK(mlx_device_tostring(&where, device));
    printf("Handwritten digits by a convolutional network of %zu numbers, on %s\n", r->model.size,
           mlx_string_data(where));
    printf("  %d digits for training, shifted at random; %d held out; %d epochs, seed %llu\n",
           r->data.n[TRAIN], r->data.n[TEST], options.epochs, (unsigned long long)options.seed);
    mlx_string_free(where);

    const double start = now();
    train(r);
    const double seconds = now() - start, right = r->right[options.epochs - 1];
    const char *path = path_in(options.out, "digits-model.safetensors");
    mlx_array scores = answers(r, r->model.params);
    printf("\n  trained   in %.1f s\n", seconds);
    printf("  accuracy  %.2f %% of the held-out digits\n", right);
    save_and_load(r, scores, path);
    draw_loss(r, path_in(options.out, "loss.svg"));
    draw_confusion(r, scores, path_in(options.out, "confusion.svg"));
    printf("  drawn     loss.svg, confusion.svg\n");
    show_cut(r);
    promise(r->loss[options.epochs - 1] < (options.epochs > 1 ? r->loss[0] : 2.3),
            "the loss falls");
    if (options.epochs >= 10) promise(right >= 97.5, "accuracy of at least 97.5 %");
    printf("\n%s\n", promises_hold ? "All as promised." : "NOT as promised: see above.");

    mlx_array_free(scores);
    mlx_closure_value_and_grad_free(r->gradients);
    keel_optimizer_free(r->optimizer);
    model_free(&r->model);
    data_free(&r->data);
    mlx_stream_free(r->s);
    mlx_device_free(device);
    return promises_hold ? 0 : 1;
}
