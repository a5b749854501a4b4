/* stream.h - streams: ordered queues of work on one device.
 *
 * Operations on one stream run in the order in which they are evaluated; those on different
 * streams may overlap. Any thread may use any stream. A stream has no thread of its own and
 * costs little. Each thread has a default stream per device. */
#ifndef MLX_STREAM_H
#define MLX_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "keel/export.h"
#include "mlx/c/device.h"
#include "mlx/c/string.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A reference to a stream. An empty handle does not mean the default stream: it is an error in
 * place of a stream. */
typedef struct mlx_stream_ {
    void *ctx;
} mlx_stream;

/* An empty handle, for functions that fill a stream. */
KEEL_API mlx_stream mlx_stream_new(void);
/* Makes a new stream on dev. Returns an empty handle, and raises an error, when dev is empty or not
 * available, or when out of memory. */
KEEL_API mlx_stream mlx_stream_new_device(mlx_device dev);
/* Makes *stream refer to the stream of src. Fails when src is empty. */
KEEL_API int mlx_stream_set(mlx_stream *stream, const mlx_stream src);
/* Drops the reference; work on the stream goes on. An empty handle is allowed. Returns 0. */
KEEL_API int mlx_stream_free(mlx_stream stream);
/* Puts a text such as "Stream(Device(cpu, 0), 0)" into *str. */
KEEL_API int mlx_stream_tostring(mlx_string *str, mlx_stream stream);
/* Whether both handles refer to one stream. False, without an error, when a handle is empty. */
KEEL_API bool mlx_stream_equal(mlx_stream lhs, mlx_stream rhs);
KEEL_API int mlx_stream_get_device(mlx_device *dev, mlx_stream stream);
/* The number of the stream, which is unique in the process. */
KEEL_API int mlx_stream_get_index(int *index, mlx_stream stream);
/* Waits until all work submitted to the stream is settled. Then fails with the oldest failure on
 * the stream that this thread submitted and that was not reported to the thread before, if there is
 * one. This function reports each failure once; every array that depends on the failed operation
 * reports it each time. */
KEEL_API int mlx_synchronize(mlx_stream stream);
/* The calling thread's default stream of dev, which is made at first use. Other threads may use it
 * too. */
KEEL_API int mlx_get_default_stream(mlx_stream *stream, mlx_device dev);
/* Makes `stream` the calling thread's default stream of its device. */
KEEL_API int mlx_set_default_stream(mlx_stream stream);
/* A handle on the calling thread's default stream of CPU 0. It is empty when out of memory. */
KEEL_API mlx_stream mlx_default_cpu_stream_new(void);
/* A handle on the calling thread's default stream of GPU 0. When there is no GPU it is empty, and
 * an error is raised. */
KEEL_API mlx_stream mlx_default_gpu_stream_new(void);

#ifdef __cplusplus
}
#endif
#endif
