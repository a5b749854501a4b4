/* functions_sort.c - sorting, parts of the order, the k largest */
#include "keel_python.h"

KP_FUNCTION(core, sort) {
    mlx_array out = mlx_array_new();
    return kp_done(c->v[1].given ? mlx_sort_axis(&out, c->v[0].array, (int)c->v[1].i, c->stream)
                                 : mlx_sort(&out, c->v[0].array, c->stream),
                   out);
}
KP_FUNCTION(core, argsort) {
    mlx_array out = mlx_array_new();
    return kp_done(c->v[1].given ? mlx_argsort_axis(&out, c->v[0].array, (int)c->v[1].i, c->stream)
                                 : mlx_argsort(&out, c->v[0].array, c->stream),
                   out);
}
#define KTH(name, with_axis, without)                                                             \
    PyObject *result;                                                                             \
    mlx_array out = mlx_array_new();                                                              \
    int k = (int)c->v[1].i;                                                                       \
    result = kp_done(c->v[2].given ? with_axis(&out, c->v[0].array, k, (int)c->v[2].i, c->stream) \
                                   : without(&out, c->v[0].array, k, c->stream),                  \
                     out);                                                                        \
    return result
KP_FUNCTION(core, partition) {
    KTH(partition, mlx_partition_axis, mlx_partition);
}
KP_FUNCTION(core, argpartition) {
    KTH(argpartition, mlx_argpartition_axis, mlx_argpartition);
}
KP_FUNCTION(core, topk) {
    KTH(topk, mlx_topk_axis, mlx_topk);
}
