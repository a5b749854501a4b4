/* support.h - what every test file includes: cmocka and the few things tests share. */
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

/* Whether this stage of the tests runs only a sample of `what`: "kernels" (cases of which each
 * compiles kernels of its own) or "cpu" (cases of the CPU's kernels), whichever KEEL_TEST_SAMPLE
 * names. Without that variable every case runs. CONTRIBUTING.md says which stage runs which. */
bool kl_test_samples(const char *what);
/* Whether the next case runs: always, but in a sample about one in `one_in`, drawn by
 * KEEL_TEST_SEED (a number, 1 unless set). The program says at its end how many did. */
bool kl_test_takes(const char *what, unsigned one_in);

/* A fresh directory for files of this test process, removed at exit. */
const char *kl_test_dir(void);
/* kl_test_dir()/name, in a static buffer that the next 8 calls leave alone. */
const char *kl_test_path(const char *name);
