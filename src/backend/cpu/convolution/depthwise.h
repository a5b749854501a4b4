/* depthwise.h - the inner loops of convolutions whose groups have one channel, for
 * convolution_task.c, which includes it. Vectors run along the channels. */
enum { SIDE_ROWS = 8 }; /* positions, or vectors of them, at once */

/* Elements of the kernel that read x at equal distances, for positions along one axis: in bytes,
 * from one position and from one element of the kernel to the next. */
struct side_line {
    const char *at;
    int64_t step, tap;
};
struct side {
    struct side_line *line;
    int64_t n_lines, taps; /* lines, and the elements of the kernel of each */
    int64_t n, channels;   /* from one element of the packed kernel to the next; channels */
};

#define T float
#define NAME f32
/* defines side_rows_f32, side_channels_f32, side_f32 */
#include "backend/cpu/convolution/depthwise.inc"
#define T double
#define NAME f64
/* defines side_rows_f64, side_channels_f64, side_f64 */
#include "backend/cpu/convolution/depthwise.inc"
