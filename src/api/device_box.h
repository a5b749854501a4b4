/* device_box.h - what streams need of device handles; the functions are in api_device.c. */
#pragma once
#include "api/handles.h"

/* NULL, with the error noted, when the handle is empty. */
struct kl_device_box *kl_in_device(struct kl_call *c, mlx_device dev, const char *what);
/* Assigns and ends the call, as kl_call_end does. */
int kl_call_end_device(struct kl_call *c, mlx_device *res, enum kl_device_type type, int index);
/* "Device(cpu, 0)"; as snprintf. */
int kl_device_text(char *text, size_t bytes, enum kl_device_type type, int index);
