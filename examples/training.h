/* training.h - what the larger examples share: formulas in which a failure is noted once; for those
 * that train, the progress of a run on a terminal or as plain lines, and charts in SVG. */
#pragma once
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <keel/error.h>
#include <keel/train.h>
#include <mlx/c/mlx.h>

#ifndef KEEL_EXAMPLES_DATA
#define KEEL_EXAMPLES_DATA "examples/data"
#endif

static const char *program = "example"; /* the name in messages */

/* Ends the program with the last error. */
static inline void give_up(const char *call) {
    keel_error_info e = {.size = sizeof e};
    keel_last_error(&e);
    fprintf(stderr, "%s: %s\n        in %s\n", program, e.message, call);
    exit(1);
}
/* Around a call that must not fail. */
#define OK(call)                  \
    do {                          \
        if (call) give_up(#call); \
    } while (0)

static inline double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- formulas ----
 * A formula makes many arrays, of which it needs each for a moment. They live in a `struct work`
 * until work_end. DO(f, a, b) calls f(&result, a, b, stream) and gives the result. A formula that
 * cannot be built is a mistake in the program and ends it; what fails when it is evaluated is
 * another matter, and is what the examples show. */
enum { WORK_ROOM = 256 };
struct work {
    mlx_stream stream;
    mlx_array made; /* where a call puts its result */
    int n;
    mlx_array all[WORK_ROOM];
};

static inline struct work work_begin(mlx_stream s) {
    struct work w = {.stream = s};
    return w;
}

static inline void work_end(struct work *w) {
    for (int i = 0; i < w->n; i++) mlx_array_free(w->all[i]);
    w->n = 0;
}

static inline mlx_array work_note(struct work *w, int rc, const char *call) {
    if (rc || w->n == WORK_ROOM) give_up(call);
    mlx_array made = w->made;
    w->made = mlx_array_new();
    return w->all[w->n++] = made;
}
#define DO(f, ...) work_note(w, f(&w->made, __VA_ARGS__, w->stream), #f)
/* The arguments that a list of ints takes. */
#define INTS(...) (const int[]){__VA_ARGS__}, sizeof((const int[]){__VA_ARGS__}) / sizeof(int)

static inline mlx_array number(struct work *w, float x) {
    return work_note(w, mlx_array_set_float32(&w->made, x), "mlx_array_set_float32");
}

static inline mlx_array integer(struct work *w, int x) {
    return work_note(w, mlx_array_set_int(&w->made, x), "mlx_array_set_int");
}

/* Element i of a list. */
static inline mlx_array item(struct work *w, mlx_vector_array list, size_t i) {
    return work_note(w, mlx_vector_array_get(&w->made, list, i), "mlx_vector_array_get");
}

/* x weight + bias */
static inline mlx_array affine(struct work *w, mlx_array x, mlx_array weight, mlx_array bias) {
    return DO(mlx_add, DO(mlx_matmul, x, weight), bias);
}

/* The mean over all rows of -log softmax(scores)[label]; scores (n, classes), labels (n). */
static inline mlx_array cross_entropy(struct work *w, mlx_array scores, mlx_array labels) {
    mlx_array all = DO(mlx_logsumexp_axis, scores, 1, true);
    mlx_array own = DO(mlx_take_along_axis, scores, DO(mlx_expand_dims, labels, 1), 1);
    return DO(mlx_mean, DO(mlx_subtract, all, own), false);
}

static inline float float_of(mlx_array a) {
    float x;
    OK(mlx_array_item_float32(&x, a));
    return x;
}

/* ---- parameters ---- */
enum { MAX_PARAMS = 64 };
struct model {
    mlx_vector_string names;
    mlx_vector_array params;
    mlx_array key; /* of the random numbers */
    size_t size;   /* numbers in all parameters */
};

/* A key for the next random numbers; the model's own key moves on. */
static inline mlx_array next_key(struct model *m, struct work *w) {
    int rc = mlx_random_split(&w->made, &m->key, m->key, w->stream);
    return work_note(w, rc, "mlx_random_split");
}

/* Adds a parameter of normal numbers with the given deviation around the mean. */
static inline void param(struct model *m, struct work *w, const char *name, const int *shape,
                         size_t ndim, float mean, float deviation) {
    size_t n = 1;
    for (size_t i = 0; i < ndim; i++) n *= (size_t)shape[i];
    mlx_array a = DO(mlx_random_normal, shape, ndim, MLX_FLOAT32, mean, deviation, next_key(m, w));
    OK(mlx_vector_array_append_value(m->params, a));
    OK(mlx_vector_string_append_value(m->names, name));
    m->size += n;
}

static inline struct model model_new(uint64_t seed) {
    struct model m = {.names = mlx_vector_string_new(), .params = mlx_vector_array_new()};
    m.key = mlx_array_new();
    OK(mlx_random_key(&m.key, seed));
    return m;
}

static inline void model_free(struct model *m) {
    mlx_vector_string_free(m->names);
    mlx_vector_array_free(m->params);
    mlx_array_free(m->key);
}

/* ---- progress ---- */
struct progress {
    bool terminal;
    int n_steps, every; /* plain lines: one for each `every` steps */
    double start;
};

static inline struct progress progress_begin(int n_steps, int every) {
    struct progress p = {isatty(STDOUT_FILENO) == 1, n_steps, every, now()};
    return p;
}

/* `step` steps are done. On a terminal: a bar that is drawn over the last one. */
static inline void progress_show(struct progress *p, int step, const char *format, ...) {
    enum { WIDTH = 24 };
    char text[160];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    double spent = now() - p->start;
    int left = (int)(spent / step * (p->n_steps - step) + 0.5);
    if (p->terminal) {
        int full = WIDTH * step / p->n_steps;
        printf("\r  %.*s%.*s %3d %%  %s  %d:%02d left \033[K", full, "########################",
               WIDTH - full, "........................", 100 * step / p->n_steps, text, left / 60,
               left % 60);
        if (step == p->n_steps) printf("\n");
    } else if (step % p->every == 0 || step == p->n_steps) {
        printf("  step %4d of %d  %s  %.1f s\n", step, p->n_steps, text, spent);
    }
    fflush(stdout);
}

/* Begins a line of its own, below a bar that is not full. */
static inline void progress_interrupt(const struct progress *p) {
    if (p->terminal) printf("\r\033[K");
}

/* ---- files ---- */
/* The folder of the data: where the program was built, unless the environment names another. */
static inline const char *data_folder(void) {
    const char *named = getenv("KEEL_EXAMPLES_DATA");
    return named && *named ? named : KEEL_EXAMPLES_DATA;
}

static inline void make_folder(const char *path) {
    if (mkdir(path, 0777) == 0 || errno == EEXIST) return;
    fprintf(stderr, "%s: cannot make the folder %s: %s\n", program, path, strerror(errno));
    exit(1);
}

/* dir/name, in a buffer that the next three calls do not overwrite. */
static inline const char *path_in(const char *dir, const char *name) {
    static char paths[4][512];
    static unsigned next;
    char *path = paths[next++ % 4];
    if (snprintf(path, sizeof paths[0], "%s/%s", dir, name) >= (int)sizeof paths[0]) {
        fprintf(stderr, "%s: the path of %s is too long\n", program, name);
        exit(1);
    }
    return path;
}

/* ---- charts ----
 * Colours that read on a light and on a dark background; no background of their own. */
#define SVG_INK "#7f8790"
#define SVG_LINE "#3b82f6"
#define SVG_LINE_2 "#f59e0b"

static inline FILE *svg_begin(const char *path, int width, int height, const char *title) {
    FILE *f = fopen(path, "w");
    if (!f) {
        fprintf(stderr, "%s: cannot write %s: %s\n", program, path, strerror(errno));
        exit(1);
    }
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
            "height=\"%d\" role=\"img\" font-family=\"system-ui, sans-serif\" font-size=\"12\" "
            "fill=\"" SVG_INK "\">\n<title>%s</title>\n"
            "<text x=\"%d\" y=\"22\" font-size=\"15\" font-weight=\"600\" text-anchor=\"middle\">"
            "%s</text>\n",
            width, height, width, height, title, width / 2, title);
    return f;
}

static inline void svg_end(FILE *f, const char *path) {
    fprintf(f, "</svg>\n");
    bool failed = ferror(f) != 0;
    if (fclose(f) || failed) {
        fprintf(stderr, "%s: cannot write %s\n", program, path);
        exit(1);
    }
}

/* One curve: n values, the i-th at x = i + 1 of `across`, against an axis from low to high. */
struct curve {
    const char *name, *colour;
    const double *values;
    int n, across;
    double low, high;
    bool on_right; /* its axis is the right one */
};

enum { CHART_W = 640, CHART_H = 360, CHART_LEFT = 56, CHART_RIGHT = 584, CHART_TOP = 44 };
enum { CHART_BOTTOM = 312 };

static inline double svg_y(const struct curve *c, double value) {
    double part = (value - c->low) / (c->high - c->low);
    part = part < 0 ? 0 : part > 1 ? 1 : part;
    return CHART_BOTTOM - part * (CHART_BOTTOM - CHART_TOP);
}

static inline void svg_curve(FILE *f, const struct curve *c, int number_of, const char *unit) {
    for (int i = 0; i <= 4; i++) {
        double value = c->low + (c->high - c->low) * i / 4, y = svg_y(c, value);
        if (!c->on_right)
            fprintf(f,
                    "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"" SVG_INK
                    "\" stroke-opacity=\"0.25\"/>\n",
                    CHART_LEFT, y, CHART_RIGHT, y);
        fprintf(f, "<text x=\"%d\" y=\"%.1f\" fill=\"%s\" text-anchor=\"%s\">%.3g%s</text>\n",
                c->on_right ? CHART_RIGHT + 8 : CHART_LEFT - 8, y + 4, c->colour,
                c->on_right ? "start" : "end", value, unit);
    }
    fprintf(f,
            "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" stroke-linejoin=\"round\" "
            "points=\"",
            c->colour);
    for (int i = 0; i < c->n; i++)
        fprintf(f, "%.1f,%.1f ",
                CHART_LEFT + (CHART_RIGHT - CHART_LEFT) * (double)(i + 1) / c->across,
                svg_y(c, c->values[i]));
    fprintf(f, "\"/>\n<text x=\"%d\" y=\"%d\" fill=\"%s\" text-anchor=\"%s\">%s</text>\n",
            number_of ? CHART_RIGHT : CHART_LEFT, CHART_BOTTOM + 38, c->colour,
            number_of ? "end" : "start", c->name);
}

static inline void svg_steps(FILE *f, const char *what, int n) {
    for (int i = 0; i <= 4; i++)
        fprintf(f, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d</text>\n",
                CHART_LEFT + (CHART_RIGHT - CHART_LEFT) * i / 4.0, CHART_BOTTOM + 18, n * i / 4);
    fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", CHART_W / 2,
            CHART_BOTTOM + 38, what);
}
