/* index.h - a key of a[key], parsed: what the files of indexing share.
 *
 * A key becomes a list of items, one for each axis of the array and one for each None. The layout
 * of the result says where each of its axes comes from. */
#ifndef KEEL_INDEX_H
#define KEEL_INDEX_H

#include "keel_python.h"

enum { KP_MAX_AXES = 64, KP_MAX_ITEMS = 2 * KP_MAX_AXES };
enum kp_item_kind { KP_INT, KP_SLICE, KP_NEW, KP_ARRAY };

struct kp_item {
    enum kp_item_kind kind;
    int axis;             /* of the array; none for KP_NEW */
    int start, step, len; /* of KP_SLICE and KP_INT, within the axis; step may be negative */
    int first, stop, by;  /* the same as it was written, for mlx_slice: it holds for any extent */
    bool whole;           /* a slice of all the axis, in its order, whatever its extent is */
    mlx_array array;      /* of KP_ARRAY: integers; the key's own handle */
};

struct kp_key {
    int n, n_arrays, n_ints, n_new;
    bool part;       /* there is an int, or a slice that is not written as the whole axis */
    bool on_nothing; /* an index array, without elements, counts on an axis without elements */
    bool masked;     /* the key is a mask alone, in `mask`, the key's own handle */
    mlx_array mask;
    int n_index, index[KP_MAX_AXES]; /* the shape to which the arrays broadcast */
    struct kp_item item[KP_MAX_ITEMS];
};

/* Parses a key of an array, which the caller holds (kp_hold): parts of the key may run code of
 * Python, which may assign to the array, and masks are evaluated. A mask becomes the indices of its
 * true elements; whole_mask: one that is the whole key stays a mask. 0, or -1 with an exception;
 * the caller calls kp_free_key in both cases. */
int kp_parse_key(struct kp_key *k, mlx_array a, PyObject *key, bool whole_mask);
void kp_free_key(struct kp_key *k);

/* The axes of a result in their order: where each one comes from, and its extent. */
enum { KP_FROM_NEW = -1, KP_FROM_INDEX = -2 }; /* KP_FROM_INDEX - i: axis i of the index shape */
struct kp_layout {
    int n;
    bool front; /* the axes of the index arrays come first, since other axes separate them */
    int from[KP_MAX_AXES], dims[KP_MAX_AXES];
};
/* ints_count: whether ints count as index arrays, as in NumPy, where there is an array as well. */
int kp_layout_of(struct kp_layout *l, const struct kp_key *k, bool ints_count);

/* Start, stop and step of mlx_slice for the items that are slices and ints; the whole of the other
 * axes. */
struct kp_bounds {
    size_t n;
    int start[KP_MAX_AXES], stop[KP_MAX_AXES], step[KP_MAX_AXES];
};
void kp_bounds_of(struct kp_bounds *b, const struct kp_key *k, mlx_array a);
/* Says that numbers of the key become a part of what is made of a: see keel/array.h. */
void kp_use_extents(const struct kp_key *k, mlx_array a);
/* *out, which is a, = what a key with arrays reads of it, in the layout l. */
int kp_read_arrays(mlx_array *out, mlx_array a, const struct kp_key *k, const struct kp_layout *l,
                   mlx_stream s);

/* a[i] for an i that is in range; it may count from the end. */
PyObject *kp_row(mlx_array a, int i);

/* The ways to write a value: to replace what is there, or to combine it. */
enum kp_write { KP_ASSIGN, KP_ADD, KP_SUBTRACT, KP_MULTIPLY, KP_DIVIDE, KP_MAXIMUM, KP_MINIMUM };
/* *out = the array a with the value written at the key. 0, or -1 with an exception. */
int kp_write_at(mlx_array *out, mlx_array a, PyObject *key, PyObject *value, enum kp_write how);

#endif
