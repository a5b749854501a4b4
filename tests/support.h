/* support.h - what every test file includes: cmocka and helpers that all tests share. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"

/* Whether this stage of the tests runs only a sample of `what`, because KEEL_TEST_SAMPLE names it.
 * `what` is "kernels" (cases that compile kernels of their own) or "device" (cases of devices where
 * running is what takes the time) or "cpu" (cases of the CPU's kernels) or "storm" (rounds of the
 * storms of faults and of threads). The variable has these names with commas between them, each as
 * `name` or as `name/3`, which draws a third as many cases. Without it every case runs.
 * CONTRIBUTING.md says which stage samples what. */
bool kl_test_samples(const char *what);
/* Whether the next case runs. In a sample about one case in `one_in` runs (with `name/3` one in
 * three times that), drawn by KEEL_TEST_SEED (a number, 1 unless set); otherwise every case runs.
 * At its end the program prints how many cases ran. */
bool kl_test_takes(const char *what, unsigned one_in);
/* How many of n alike cases run, as the rounds of a storm: n, or where `what` is sampled as
 * `name/3` a third of them, and at least one. */
unsigned kl_test_share(const char *what, unsigned n);

/* The next number of a linear congruential generator (Knuth, "The Art of Computer Programming",
 * 3.3.4: the constants of MMIX), which is also its state; the high bits are the random ones. */
static inline uint64_t kl_test_random(uint64_t *state) {
    return *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
}

/* A fresh directory for files of this test process, removed at exit. */
const char *kl_test_dir(void);
/* The path kl_test_dir()/name, in a static buffer that the next 8 calls do not overwrite. */
const char *kl_test_path(const char *name);
/* Becomes this program again, with these arguments (at most five), of which the last is NULL; for a
 * child process. KEEL_TEST_EMULATOR is the command by which this system runs the program, if it
 * does not by itself. */
_Noreturn void kl_test_run_again(const char *const *args);
/* That command, with a space behind it; "" where there is none. */
const char *kl_test_emulator(void);
/* Skips the case under an emulator, which lacks `what`: PoCL, which does not know the emulated
 * processor, or children of fork that start threads, which qemu 7.2 ends by an assertion. */
void kl_test_skip_under_emulator(const char *what);
/* Waits until at most so many allocations live: other threads release what a device has used. A
 * block that nobody releases lets the test run into its time limit. */
void kl_test_wait_for_live(int64_t most);
