/* cpu_backend.h - the CPU as a backend: its memory, and launching its kernels. Knows no streams. */
#pragma once
#include "backend/backend.h"

/* The one CPU backend; `parallel` is what kernels use for large work. Without a pool until kl_pool_attach. */
struct kl_backend *kl_cpu_backend(kl_parallel_fn *parallel);
const char *kl_cpu_architecture(void); /* "x86_64", ... */
