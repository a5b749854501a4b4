/* empty_driver.h - a driver that supports nothing; see empty_driver.c. The functions are those that
 * a row of runtime/device.c names. */
#pragma once
#include "backend/gpu/gpu.h"

int empty_count(const char **why);
/* One thread at a time. KL_ENOMEM. */
int empty_open(int index, struct kl_backend **out, struct kl_error **err);
void empty_facts(int index, struct kl_gpu_facts *out);
