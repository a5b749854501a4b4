/* test_memory.c - the machine's memory, large pages and malloc's blocks. */
#include "support.h"

#include <stdlib.h>
#include <string.h>

#include "base/platform/memory.h"

static void is_installed(void **state) {
    assert_true(kl_memory_installed() >= (size_t)16 << 20);
    assert_true(kl_memory_installed() == kl_memory_installed());
}

static void blocks_hold_what_was_asked_for(void **state) {
    assert_true(kl_heap_block_bytes(NULL) == 0);
    for (size_t n = 1; n < (size_t)1 << 22; n = n * 3 + 1) {
        void *p = malloc(n);
        assert_non_null(p);
        const size_t bytes = kl_heap_block_bytes(p);
        assert_true(bytes == 0 || bytes >= n);
        free(p);
    }
    kl_heap_give_back();
}

static void wishes_change_no_byte(void **state) {
    const size_t page = (size_t)2 << 20, n = 2 * page;
    void *p = NULL;
    assert_int_equal(posix_memalign(&p, page, n), 0);
    memset(p, 5, n);
    kl_memory_prefer_large_pages(p, n);
    for (size_t i = 0; i < n; i += 4096) assert_int_equal(((char *)p)[i], 5);
    kl_heap_give_back();
    assert_int_equal(((char *)p)[n - 1], 5);
    free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_installed),
        cmocka_unit_test(blocks_hold_what_was_asked_for),
        cmocka_unit_test(wishes_change_no_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
