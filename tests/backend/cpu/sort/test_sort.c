/* test_sort.c - SORT, ARGSORT, PARTITION and ARGPARTITION: sizes near those at which the method
 * changes, several distributions of keys, every kind of key, every variant. */
#include "backend/cpu/kernel_support.h"

#include "base/alloc.h"

static uint64_t seed = 3;
static uint64_t next_random(void) {
    kl_test_random(&seed);
    return seed >> 20 ^ seed << 24;
}

enum manner { ANY, FEW, OUTLIERS, SMALL, SHRINKING, SORTED, REVERSED, EQUAL, CLUSTERS, N_MANNERS };

static uint64_t bits_of(enum manner m, int64_t i, int64_t n) {
    switch (m) {
    case ANY: return next_random();
    case FEW: return (next_random() & 3) * UINT64_C(0x2000200020002000);
    case OUTLIERS: return i == n / 3 ? UINT64_C(0x7f017f017f017f01) : next_random() & 0x3f;
    case SMALL: return next_random() % 1000;
    case SHRINKING: return next_random() >> next_random() % 64;
    case SORTED: return (uint64_t)i;
    case REVERSED: return (uint64_t)(n - i);
    case CLUSTERS: return (next_random() & UINT64_C(0x4000400040004000)) | (next_random() & 0x300);
    default: return 77;
    }
}

/* A number whose order as unsigned integer is the order of the keys. */
static uint64_t order_of(enum kl_dtype dtype, const void *x, int64_t i) {
    if (dtype == KL_U8) return ((const uint8_t *)x)[i];
    if (dtype == KL_U16) return ((const uint16_t *)x)[i];
    if (dtype == KL_U32) return ((const uint32_t *)x)[i];
    return ((const uint64_t *)x)[i];
}

/* Checks a partition of contiguous or of every other element against one of a sorted order: those
 * below the kth, those equal to it and those above, each in the order of the input. */
static void check_partition(enum kl_dtype dtype, enum manner m, int64_t n, const void *x,
                            const void *kth_element, int64_t kth, bool apart) {
    const size_t item = kl_dtype_size(dtype), step = apart ? 2 : 1;
    const uint64_t middle = order_of(dtype, kth_element, 0);
    char *parted = malloc((size_t)n * item * step), *spread = calloc((size_t)n, item * step);
    uint32_t *places = malloc((size_t)n * 4);
    struct kl_partition_params p = {0, (int)kth};
    struct operand a, y, o;
    for (int64_t i = 0; i < n; i++)
        memcpy(spread + (size_t)i * step * item, (const char *)x + (size_t)i * item, item);
    strided_operand(&a, spread, dtype, DIMS((int)n), (int64_t[]){(int64_t)step});
    strided_operand(&y, parted, dtype, DIMS((int)n), (int64_t[]){(int64_t)step});
    dense(&o, places, KL_U32, DIMS((int)n));
    RUN(KL_OP_PARTITION, &p, &y, IN(&a), false);
    RUN(KL_OP_ARGPARTITION, &p, &o, IN(&a), false);
    int64_t at = 0;
    for (int kind = 0; kind < 3; kind++)
        for (int64_t i = 0; i < n; i++) {
            const uint64_t now = order_of(dtype, x, i);
            if (kind != (now >= middle) + (now > middle)) continue;
            if (places[at] != i ||
                memcmp(parted + (size_t)at * step * item, (const char *)x + (size_t)i * item, item))
                fail_msg("%s: partition of %lld elements of %s, manner %d, differs at %lld",
                         kl_cpu_variant_name(kl_cpu_variant()), (long long)n, kl_dtype_name(dtype),
                         m, (long long)at);
            at++;
        }
    free(places);
    free(spread);
    free(parted);
}

/* Checks that the result is sorted, that equal elements keep their order, that each index occurs
 * once, and that SORT and ARGSORT agree. */
static void check(enum kl_dtype dtype, enum manner m, int64_t n, const void *x, bool alone) {
    size_t item = kl_dtype_size(dtype);
    char *sorted = malloc((size_t)n * item), *seen = calloc((size_t)n, 1);
    uint32_t *order = malloc((size_t)n * 4);
    struct kl_axis_params p = {0};
    struct operand a, s, o;
    dense(&a, (void *)x, dtype, DIMS((int)n));
    dense(&s, sorted, dtype, DIMS((int)n));
    dense(&o, order, KL_U32, DIMS((int)n));
    RUN(KL_OP_SORT, &p, &s, IN(&a), !alone);
    RUN(KL_OP_ARGSORT, &p, &o, IN(&a), !alone);
    for (int64_t i = 0; i < n; i++) {
        bool right =
            order[i] < n && !seen[order[i]]++ &&
            memcmp(sorted + (size_t)i * item, (const char *)x + order[i] * item, item) == 0;
        if (right && i > 0) {
            uint64_t before = order_of(dtype, sorted, i - 1), now = order_of(dtype, sorted, i);
            right = before < now || (before == now && order[i - 1] < order[i]);
        }
        if (!right)
            fail_msg("%s: %lld elements of %s, manner %d, differ at %lld",
                     kl_cpu_variant_name(kl_cpu_variant()), (long long)n, kl_dtype_name(dtype), m,
                     (long long)i);
    }
    const int64_t kths[] = {n - 1, n / 2, n / 7};
    for (int k = 0; k < 3; k++)
        check_partition(dtype, m, n, x, sorted + (size_t)kths[k] * item, kths[k], k == 1);
    free(sorted);
    free(seen);
    free(order);
}

static void fill(void *x, enum kl_dtype dtype, enum manner m, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        uint64_t v = bits_of(m, i, n);
        memcpy((char *)x + (size_t)i * kl_dtype_size(dtype), &v, kl_dtype_size(dtype));
    }
}

static const enum kl_dtype types[] = {KL_U8, KL_U16, KL_U32, KL_U64};

/* Every number of elements from one to a few vectors, which are sorted without partitions, and
 * more, which are partitioned. */
static void few(void **state) {
    uint64_t x[300];
    for (int v = 0; v < kl_cpu_n_variants(); v++) {
        kl_cpu_use_variant(v);
        for (int t = 0; t < 4; t++)
            for (int m = 0; m < N_MANNERS; m++)
                for (int64_t n = 1; n <= 300; n += n < 140 ? 1 : 13) {
                    if (!kl_test_takes("cpu", 2)) continue;
                    fill(x, types[t], (enum manner)m, n);
                    check(types[t], (enum manner)m, n, x, true);
                }
    }
    kl_cpu_use_variant(-1);
}

static uint32_t middle(const uint32_t *of) {
    const uint32_t a = of[0], b = of[1], c = of[2], low = a < b ? a : b, high = a < b ? b : a;
    return c < low ? low : c > high ? high : c;
}

/* Elements of which the pivots (sort/sort_quick_avx512.h) split off a few each time, until the
 * kernel falls back to another method. `left` elements or fewer are sorted without pivots. */
static void make_bad(uint32_t *x, int n, int left) {
    enum { MOST = 1024, NINE = 256 }; /* of more elements than NINE nine are looked at */
    uint32_t known = 0, levels = 0;
    int ids[MOST];
    const int all = n;
    memset(x, 0, (size_t)n * sizeof *x);
    for (int i = 0; i < n; i++) ids[i] = i;
    /* An element without a value yet counts as larger than all others. */
    for (; n > left; levels++) {
        const int s = n / 8, places[] = {s, 4 * s, 7 * s, 0, 2 * s, 5 * s, 3 * s, 6 * s, n - 1};
        uint32_t of_three[3];
        int kept = 0;
        for (int g = 0; g < (n > NINE ? 3 : 1); g++) {
            uint32_t seen[3];
            for (int k = 0; k < 3; k++) {
                uint32_t *here = &x[ids[places[3 * g + k]]];
                if (!*here && g < 2 && k < 2) *here = ++known;
                seen[k] = *here ? *here : UINT32_MAX;
            }
            of_three[g] = middle(seen);
        }
        const uint32_t pivot = n > NINE ? middle(of_three) : of_three[0];
        bool smaller = false;
        for (int i = 0; i < n; i++) smaller |= x[ids[i]] && x[ids[i]] < pivot;
        for (int i = 0; i < n; i++) {
            bool parted = x[ids[i]] && (smaller ? x[ids[i]] < pivot : x[ids[i]] <= pivot);
            if (!parted) ids[kept++] = ids[i];
        }
        n = kept;
    }
    assert_true(levels > 60);
    for (int i = 0; i < all; i++)
        if (!x[i]) x[i] = ++known;
}

static void bad_pivots(void **state) {
    enum { N = 1024 };
    uint32_t x[N];
    uint64_t wide[N];
    make_bad(x, N, 256);
    for (int i = 0; i < N; i++) wide[i] = (uint64_t)x[i] << 33 | (uint64_t)x[i] << 3;
    check(KL_U64, N_MANNERS, N, wide, true);
    make_bad(x, N, 512);
    check(KL_U32, N_MANNERS, N, x, true);
    /* The same elements as one bucket of many more elements: in the same order, and not among the
     * elements that are sampled to choose the buckets. */
    enum { MANY = 1 << 15 };
    uint32_t *y = malloc(MANY * sizeof *y);
    for (int i = 0; i < MANY; i++) y[i] = 5000;
    for (int i = 0; i < N; i++) y[MANY / N * i + 1] = x[i];
    check(KL_U32, N_MANNERS, MANY, y, true);
    free(y);
}

static void each_method(void **state) {
    static const int64_t sizes[] = {1,    2,    127,  128,   129,   193,   255,   256,
                                    257,  384,  385,  400,   511,   512,   513,   2047,
                                    2048, 2049, 9999, 32767, 32768, 32769, 49153, 100003};
    char *x = malloc(100003 * 8);
    for (int v = 0; v < kl_cpu_n_variants(); v++) {
        kl_cpu_use_variant(v);
        for (int t = 0; t < 4; t++)
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
                for (int m = 0; m < N_MANNERS; m++) {
                    if (!kl_test_takes("cpu", 2)) continue;
                    fill(x, types[t], (enum manner)m, sizes[s]);
                    check(types[t], (enum manner)m, sizes[s], x, m % 2);
                }
    }
    kl_cpu_use_variant(kl_cpu_n_variants() - 1);
    free(x);
}

/* Results so large that they are written by non-temporal stores. */
static void large(void **state) {
    enum { N = (1 << 22) + 77 };
    char *x = malloc((size_t)N * 8);
    for (int m = ANY; m <= OUTLIERS; m++) {
        if (!kl_test_takes("cpu", 1)) continue;
        fill(x, KL_U32, (enum manner)m, N);
        check(KL_U32, (enum manner)m, N, x, false);
    }
    for (int m = 0; m < N_MANNERS; m++) { /* just above the smallest size of a task */
        if (!kl_test_takes("cpu", 1)) continue;
        fill(x, KL_U32, (enum manner)m, 262145);
        check(KL_U32, (enum manner)m, 262145, x, false);
    }
    if (kl_test_takes("cpu", 1)) {
        fill(x, KL_U32, ANY, 1 << 22);
        check(KL_U32, ANY, 1 << 22, x, false);
    }
    fill(x, KL_U64, SHRINKING, 1100000);
    check(KL_U64, SHRINKING, 1100000, x, false);
    /* A bucket that is itself so large, and does not begin where a cache line does. */
    const bool taken = kl_test_takes("cpu", 1);
    for (int64_t i = 0; i < N && taken; i++) {
        const uint64_t low = (uint64_t)i % 3, high = UINT64_C(1) << 63 | (uint64_t)i % 5;
        memcpy(x + 8 * i, i % 7 == 1 ? &low : &high, 8);
    }
    if (taken) check(KL_U64, N_MANNERS, N, x, false);
    free(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(few), cmocka_unit_test(bad_pivots),
                                       cmocka_unit_test(each_method), cmocka_unit_test(large)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
