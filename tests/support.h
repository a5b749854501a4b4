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

/* A fresh directory for files of this test process, removed at exit. */
const char *kl_test_dir(void);
/* kl_test_dir()/name, in a static buffer that the next 8 calls leave alone. */
const char *kl_test_path(const char *name);
