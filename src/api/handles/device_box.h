/* device_box.h - the functions for device handles that streams need; api/handles/device.c defines
 * them. */
#pragma once
#include "api/handles/handles.h"

/* The box of a handle. NULL, with the error noted, when the handle is empty. */
struct kl_device_box *kl_in_device(struct kl_call *c, mlx_device dev, const char *what);
/* Assigns the device and ends the call, as kl_call_end does. */
int kl_call_end_device(struct kl_call *c, mlx_device *res, enum kl_device_type type, int index);
/* Writes a text such as "Device(cpu, 0)"; sizes and return value are as for snprintf. */
int kl_device_text(char *text, size_t bytes, enum kl_device_type type, int index);
