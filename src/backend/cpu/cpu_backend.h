/* cpu_backend.h - the CPU as a backend: its memory, and launching its kernels. It knows no
 * streams. */
#pragma once
#include "backend/backend.h"

/* The one CPU backend. Kernels use `parallel` for large work and `of_short_work` for some ten
 * microseconds of it. It runs on the calling thread alone until kl_pool_attach. */
struct kl_backend *kl_cpu_backend(kl_parallel_fn *parallel, kl_parallel_fn *of_short_work);
const char *kl_cpu_architecture(void); /* the machine's name, as "x86_64" */
