/* digits.c - recognises handwritten digits by their k nearest neighbours, through the public API
 * alone. On the same data it shows what errors do: a file that is cut off, a label out of range.
 *
 *     digits [cpu | gpu] [file]
 *
 * data/README.md describes the file. The exit status is 0 when more than 97 % of the answers are
 * right and every promise below was kept, else 1, so the example is a test as well. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <keel/error.h>
#include <keel/load.h>
#include <mlx/c/mlx.h>

#ifndef KEEL_EXAMPLES_DATA
#define KEEL_EXAMPLES_DATA "examples/data"
#endif

enum { K = 5, N_CLASSES = 10 };

static const char *const names[] = {"train.images", "train.labels", "test.images", "test.labels"};
enum { TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS, N_TENSORS };

struct data {
    mlx_array tensor[N_TENSORS];
    mlx_map_string_to_string metadata;
};

/* ---- checking ---- */
static bool promises_hold = true;
static char copy_path[256]; /* path of the truncated copy; "" while there is none */

static void remove_copy(void) {
    if (copy_path[0]) unlink(copy_path);
    copy_path[0] = '\0';
}

/* Around a call that must not fail: prints the error and ends the program. */
#define OK(call)                  \
    do {                          \
        if (call) give_up(#call); \
    } while (0)

static void give_up(const char *call) {
    keel_error_info e = {.size = sizeof e};
    keel_last_error(&e);
    fprintf(stderr, "digits: %s\n        in %s\n", e.message, call);
    exit(1);
}

static void promise(bool held, const char *what) {
    if (held) return;
    promises_hold = false;
    printf("  NOT HELD        %s\n", what);
}

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* ---- arrays ---- */
static void load(struct data *d, const char *path, mlx_stream s) {
    mlx_map_string_to_array tensors = mlx_map_string_to_array_new();
    d->metadata = mlx_map_string_to_string_new();
    OK(mlx_load_safetensors(&tensors, &d->metadata, path, s));
    for (int i = 0; i < N_TENSORS; i++) {
        d->tensor[i] = mlx_array_new();
        int rc = mlx_map_string_to_array_get(&d->tensor[i], tensors, names[i]);
        if (rc == 2) {
            fprintf(stderr, "digits: %s has no tensor %s\n", path, names[i]);
            exit(1);
        }
        OK(rc);
    }
    OK(mlx_map_string_to_array_free(tensors));
}

static void data_free(struct data *d) {
    for (int i = 0; i < N_TENSORS; i++) mlx_array_free(d->tensor[i]);
    mlx_map_string_to_string_free(d->metadata);
}

static void ones(mlx_array *res, const int *shape, size_t ndim, mlx_stream s) {
    OK(mlx_ones(res, shape, ndim, MLX_INT32, s));
}

static void zeros(mlx_array *res, int rows, int columns, mlx_stream s) {
    OK(mlx_zeros(res, (int[]){rows, columns}, 2, MLX_INT32, s));
}

/* Adds 1 to table[i, j] for each pair of indices, which broadcast to the shape (rows, columns), or
 * to (rows) when columns is 0. */
static void count(mlx_array *table, mlx_array i, mlx_array j, int rows, int columns, mlx_stream s) {
    mlx_vector_array at = mlx_vector_array_new_data((mlx_array[]){i, j}, 2);
    mlx_array one = mlx_array_new();
    if (columns)
        ones(&one, (int[]){rows, columns, 1, 1}, 4, s);
    else
        ones(&one, (int[]){rows, 1, 1}, 3, s);
    OK(mlx_scatter_add(table, *table, at, one, (int[]){0, 1}, 2, s));
    mlx_array_free(one);
    mlx_vector_array_free(at);
}

/* Finds the labels of the K nearest training digits of each test digit, and the number of test
 * digits whose K-th distance is confirmed by a second way to compute it. All numbers are whole and
 * far below 2^24, so float32 is exact. */
static void neighbours(mlx_array *labels, mlx_array *n_confirmed, const struct data *d,
                       mlx_stream s) {
    mlx_array train = mlx_array_new(), test = mlx_array_new(), norms = mlx_array_new();
    mlx_array distance = mlx_array_new(), near = mlx_array_new(), kth = mlx_array_new();
    mlx_array two = mlx_array_new_float32(2);
    OK(mlx_astype(&train, d->tensor[TRAIN_IMAGES], MLX_FLOAT32, s));
    OK(mlx_astype(&test, d->tensor[TEST_IMAGES], MLX_FLOAT32, s));
    const int n = mlx_array_dim(test, 0);

    /* |a - b|^2 = |a|^2 + |b|^2 - 2 a b: one matrix product for all pairs */
    OK(mlx_square(&norms, train, s));
    OK(mlx_sum_axis(&norms, norms, 1, false, s));
    OK(mlx_transpose(&train, train, s));
    OK(mlx_matmul(&distance, test, train, s));
    OK(mlx_multiply(&distance, distance, two, s));
    OK(mlx_subtract(&distance, norms, distance, s));
    OK(mlx_square(&norms, test, s));
    OK(mlx_sum_axis(&norms, norms, 1, true, s));
    OK(mlx_add(&distance, distance, norms, s));

    OK(mlx_argsort_axis(&near, distance, 1, s));
    OK(mlx_slice(&near, near, (int[]){0, 0}, 2, (int[]){n, K}, 2, (int[]){1, 1}, 2, s));
    OK(mlx_take(labels, d->tensor[TRAIN_LABELS], near, s));

    /* The K largest of the negated distances are the K smallest distances. */
    OK(mlx_take_along_axis(&near, distance, near, 1, s));
    OK(mlx_max_axis(&near, near, 1, false, s));
    OK(mlx_negative(&distance, distance, s));
    OK(mlx_topk_axis(&kth, distance, K, 1, s));
    OK(mlx_min_axis(&kth, kth, 1, false, s));
    OK(mlx_negative(&kth, kth, s));
    OK(mlx_equal(&kth, kth, near, s));
    OK(mlx_sum(n_confirmed, kth, false, s));

    mlx_array_free(train);
    mlx_array_free(test);
    mlx_array_free(norms);
    mlx_array_free(distance);
    mlx_array_free(near);
    mlx_array_free(kth);
    mlx_array_free(two);
}

/* The labels of each row vote. The class with most votes wins, and the lowest one of equal
 * classes. */
static void elect(mlx_array *answer, mlx_array labels, mlx_stream s) {
    const int n = mlx_array_dim(labels, 0);
    mlx_array votes = mlx_array_new(), row = mlx_array_new();
    zeros(&votes, n, N_CLASSES, s);
    OK(mlx_arange(&row, 0, n, 1, MLX_INT32, s));
    OK(mlx_expand_dims(&row, row, 1, s));
    count(&votes, row, labels, n, K, s);
    OK(mlx_argmax_axis(answer, votes, 1, false, s));
    mlx_array_free(row);
    mlx_array_free(votes);
}

static void confuse(mlx_array *confusion, mlx_array digit, mlx_array answer, mlx_stream s) {
    zeros(confusion, N_CLASSES, N_CLASSES, s);
    count(confusion, digit, answer, mlx_array_dim(digit, 0), 0, s);
}

static int n_equal(mlx_array a, mlx_array b, mlx_stream s) {
    mlx_array same = mlx_array_new();
    int32_t n;
    OK(mlx_equal(&same, a, b, s));
    OK(mlx_sum(&same, same, false, s));
    OK(mlx_array_item_int32(&n, same));
    mlx_array_free(same);
    return n;
}

/* ---- the job ---- */
static const char *fact(const struct data *d, const char *key) {
    const char *text = NULL;
    return mlx_map_string_to_string_get(&text, d->metadata, key) == 0 ? text : "?";
}

static void print_confusion(mlx_array confusion) {
    const int32_t *n = mlx_array_data_int32(confusion);
    if (!n) give_up("mlx_array_data_int32(confusion)");
    printf("\n  digit | answer");
    for (int j = 0; j < N_CLASSES; j++) printf(j ? "%5d" : " %2d", j);
    printf("\n  ------+----------%.*s\n", 5 * (N_CLASSES - 1),
           "--------------------------------------------------");
    for (int i = 0; i < N_CLASSES; i++) {
        printf("  %5d |       ", i);
        for (int j = 0; j < N_CLASSES; j++) {
            int32_t v = n[i * N_CLASSES + j];
            if (v)
                printf("%5d", v);
            else
                printf("    .");
        }
        printf("\n");
    }
}

/* Classifies the held-out digits. *answer and *labels (of the neighbours) serve the other parts. */
static void run_job(mlx_array *answer, mlx_array *labels, const struct data *d, mlx_stream s) {
    mlx_array confirmed = mlx_array_new(), confusion = mlx_array_new();
    neighbours(labels, &confirmed, d, s);
    elect(answer, *labels, s);
    confuse(&confusion, d->tensor[TEST_LABELS], *answer, s);

    mlx_vector_array outputs =
        mlx_vector_array_new_data((mlx_array[]){*answer, confusion, confirmed}, 3);
    const double start = now_ms();
    OK(mlx_eval(outputs));
    const double ms = now_ms() - start;
    mlx_vector_array_free(outputs);

    const int n = mlx_array_dim(*answer, 0), n_train = mlx_array_dim(d->tensor[TRAIN_LABELS], 0);
    const int right = n_equal(*answer, d->tensor[TEST_LABELS], s);
    const double percent = 100.0 * right / n;
    int32_t n_confirmed;
    OK(mlx_array_item_int32(&n_confirmed, confirmed));
    printf("  data      %s\n", fact(d, "title"));
    printf("            %s, %s, %s\n", fact(d, "authors"), fact(d, "source"), fact(d, "licence"));
    printf("  job       %d held-out digits, each by its %d nearest of %d others\n", n, K, n_train);
    printf("  accuracy  %.2f %%: %d right, %d wrong\n", percent, right, n - right);
    printf("  check     distance %d by argsort and by topk: equal for %d of %d\n", K, n_confirmed,
           n);
    printf("  time      %.1f ms to evaluate, reading the file included\n", ms);
    print_confusion(confusion);
    promise(percent > 97, "accuracy above 97 %");
    promise(n_confirmed == n, "argsort and topk agree");
    mlx_array_free(confusion);
    mlx_array_free(confirmed);
}

/* ---- promise: an error reaches exactly the arrays that depend on what failed ---- */
/* Copies the file up to `size` bytes. */
static void copy_start(const char *path, uint64_t size) {
    const char *dir = getenv("TMPDIR");
    int n = snprintf(copy_path, sizeof copy_path, "%s/digits-XXXXXX.safetensors",
                     dir && *dir ? dir : "/tmp");
    int fd = n < (int)sizeof copy_path ? mkstemps(copy_path, (int)strlen(".safetensors")) : -1;
    FILE *to = fd < 0 ? NULL : fdopen(fd, "wb"), *from = fopen(path, "rb");
    bool good = to && from;
    char chunk[4096];
    while (good && size) {
        size_t want = size < sizeof chunk ? (size_t)size : sizeof chunk;
        good = fread(chunk, 1, want, from) == want && fwrite(chunk, 1, want, to) == want;
        size -= want;
    }
    if (from) fclose(from);
    if (to && fclose(to)) good = false;
    if (good) return;
    fprintf(stderr, "digits: cannot copy %s to %s\n", path, copy_path);
    exit(1);
}

static void show_truncated(const char *path, mlx_array answer, mlx_stream s) {
    keel_tensor last = {.size = sizeof last};
    keel_file file = keel_file_open(path, KEEL_FORMAT_SAFETENSORS);
    OK(file.ctx == NULL);
    OK(keel_file_tensor(&last, file, keel_file_n_tensors(file) - 1));
    const uint64_t kept = last.byte_begin + (last.byte_end - last.byte_begin) / 2;
    copy_start(path, kept);
    printf("\nA copy of the file, cut off after %llu of %llu bytes\n", (unsigned long long)kept,
           (unsigned long long)last.byte_end);

    struct data d;
    load(&d, copy_path, s);
    mlx_array again = mlx_array_new(), labels = mlx_array_new(), confirmed = mlx_array_new();
    mlx_array confusion = mlx_array_new();
    neighbours(&labels, &confirmed, &d, s);
    elect(&again, labels, s);
    confuse(&confusion, d.tensor[TEST_LABELS], again, s);
    int n_failed = 0;
    keel_error_info e = {.size = sizeof e};
    for (int i = 0; i < N_TENSORS; i++) {
        if (mlx_array_eval(d.tensor[i]) == 0) {
            printf("  %-14s  loads\n", names[i]);
            continue;
        }
        n_failed++;
        OK(keel_array_error(&e, d.tensor[i]));
        printf("  %-14s  %s (%d) in tensor %s, bytes %lld to %lld\n", names[i],
               keel_code_name(e.code), e.code, e.tensor ? e.tensor : "?", (long long)e.byte_begin,
               (long long)e.byte_end);
        printf("  %-14s  of %s\n", "", e.file ? e.file : "?");
        promise(e.code == KEEL_ETRUNCATED && e.tensor && strcmp(e.tensor, last.name) == 0 &&
                    strcmp(names[i], last.name) == 0 && e.file && strcmp(e.file, copy_path) == 0 &&
                    (e.has & KEEL_HAS_BYTES) && e.byte_begin == (int64_t)last.byte_begin &&
                    e.byte_end == (int64_t)last.byte_end,
                "the error names the tensor, the file and its bytes");
    }
    promise(n_failed == 1, "exactly one tensor fails");

    const int n = mlx_array_dim(answer, 0), same = n_equal(again, answer, s);
    printf("  %-14s  from the good tensors: %d of %d as before\n", "answers", same, n);
    promise(same == n, "the good tensors give the same answers");
    const bool failed = mlx_array_eval(confusion) != 0 && keel_array_error(&e, confusion) == 0;
    printf("  %-14s  needs the cut tensor too: %s in tensor %s\n", "confusion",
           failed ? keel_code_name(e.code) : "no error", failed && e.tensor ? e.tensor : "?");
    promise(failed && e.code == KEEL_ETRUNCATED && e.tensor && strcmp(e.tensor, last.name) == 0,
            "what needs the failed tensor fails with its error");

    mlx_array_free(confusion);
    mlx_array_free(confirmed);
    mlx_array_free(labels);
    mlx_array_free(again);
    data_free(&d);
    keel_file_free(file);
    remove_copy();
}

/* ---- promise: no index goes out of bounds, and the program goes on ---- */
static void show_bad_label(mlx_array labels, mlx_array answer, mlx_stream s) {
    enum { WRONG = 11, ROW = 123, COLUMN = 2 };
    mlx_array wrong = mlx_array_new_int(WRONG), with_wrong = mlx_array_new();
    mlx_array bad = mlx_array_new(), good = mlx_array_new();
    OK(mlx_slice_update(&with_wrong, labels, wrong, (int[]){ROW, COLUMN}, 2,
                        (int[]){ROW + 1, COLUMN + 1}, 2, (int[]){1, 1}, 2, s));
    elect(&bad, with_wrong, s);
    elect(&good, labels, s);
    mlx_vector_array both = mlx_vector_array_new_data((mlx_array[]){bad, good}, 2);
    printf("\nA vote for digit %d, neighbour %d of digit %d, beside the right votes\n", WRONG,
           COLUMN, ROW);

    keel_error_info e = {.size = sizeof e}, seen = {.size = sizeof seen};
    const bool failed = mlx_eval(both) != 0 && keel_last_error(&seen) == 0;
    promise(failed, "the evaluation fails");
    if (failed && keel_array_error(&e, bad) == 0) {
        printf("  %-14s  %s\n", "with it", e.message);
        printf("  %-14s  %s (%d), operation %s, index %lld, axis %lld, size %lld, position %lld\n",
               "", keel_code_name(e.code), e.code, e.operation ? e.operation : "?",
               (long long)e.index, (long long)e.axis, (long long)e.axis_size,
               (long long)e.position);
        const unsigned all = KEEL_HAS_INDEX | KEEL_HAS_AXIS | KEEL_HAS_SIZE | KEEL_HAS_POSITION;
        promise(e.code == KEEL_EINDEX && seen.code == e.code && (e.has & all) == all &&
                    e.operation && strcmp(e.operation, "scatter_add") == 0 && e.index == WRONG &&
                    e.axis == 1 && e.axis_size == N_CLASSES && e.position == ROW * K + COLUMN,
                "the error names the operation, index, axis, size and position");
    } else {
        promise(false, "the array has the error");
    }
    const int n = mlx_array_dim(answer, 0), same = n_equal(good, answer, s);
    printf("  %-14s  %d of %d as before\n", "without it", same, n);
    promise(same == n, "the good array of the same evaluation is right");

    mlx_vector_array_free(both);
    mlx_array_free(good);
    mlx_array_free(bad);
    mlx_array_free(with_wrong);
    mlx_array_free(wrong);
}

static void print_title(mlx_device device) {
    mlx_string version = mlx_string_new(), name = mlx_string_new();
    OK(mlx_version(&version));
    OK(mlx_device_tostring(&name, device));
    printf("Handwritten digits by nearest neighbours, on %s, version %s\n", mlx_string_data(name),
           mlx_string_data(version));
    mlx_string_free(name);
    mlx_string_free(version);
}

int main(int argc, char **argv) {
    const char *kind = argc > 1 ? argv[1] : "cpu";
    const char *path = argc > 2 ? argv[2] : KEEL_EXAMPLES_DATA "/digits.safetensors";
    const bool gpu = strcmp(kind, "gpu") == 0;
    if (argc > 3 || (!gpu && strcmp(kind, "cpu") != 0)) {
        fprintf(stderr, "usage: digits [cpu | gpu] [file]\n");
        return 1;
    }
    keel_errors_return();
    atexit(remove_copy);
    mlx_device device = mlx_device_new_type(gpu ? MLX_GPU : MLX_CPU, 0);
    mlx_stream s = mlx_stream_new_device(device);
    if (!s.ctx) {
        keel_error_info e = {.size = sizeof e};
        keel_last_error(&e);
        fprintf(stderr, "digits: no %s to run on: %s\n", gpu ? "GPU" : "CPU", e.message);
        mlx_device_free(device);
        return 1;
    }

    print_title(device);
    struct data d;
    load(&d, path, s);
    mlx_array answer = mlx_array_new(), labels = mlx_array_new();
    run_job(&answer, &labels, &d, s);
    show_truncated(path, answer, s);
    show_bad_label(labels, answer, s);
    printf("\n%s\n", promises_hold ? "All as promised." : "NOT as promised: see above.");

    mlx_array_free(labels);
    mlx_array_free(answer);
    data_free(&d);
    mlx_stream_free(s);
    mlx_device_free(device);
    return promises_hold ? 0 : 1;
}
