/* maps.c - mlx/c/map.h: handles on tables (map.c) and on their iterators. */
#include "api/handles/handles.h"

#include "base/alloc.h"

/* also for the end of an iteration; not an error: the handler is not called */
enum { NOT_FOUND = 2 };

/* ---- what both kinds share; a handle is passed as its ctx ---- */
static void *new_map(const char *func, const struct kl_map_kind *kind) {
    struct kl_call c = {.func = func};
    struct kl_map *m = kl_map_new(kind, &c.err);
    kl_call_end_plain(&c);
    return m;
}

static int set(const char *func, const struct kl_map_kind *kind, void **ctx, void *src) {
    struct kl_call c = kl_call_begin(func, ctx);
    const struct kl_map *from = kl_in_map(&c, src, "src");
    struct kl_map *fresh = c.err || *ctx ? NULL : kl_map_new(kind, &c.err);
    if (!c.err && kl_map_copy(fresh ? fresh : *ctx, from, &c.err) == 0 && fresh) {
        *ctx = fresh;
        fresh = NULL;
    }
    kl_map_release(fresh);
    return kl_call_end_plain(&c);
}

/* The entry with the given key. NULL when there is none, or with the error noted. */
static const struct kl_map_entry *find(struct kl_call *c, void *ctx, const char *key) {
    const struct kl_map *m = kl_in_map(c, ctx, "map");
    kl_need(c, key, "key");
    return c->err ? NULL : kl_map_find(m, key);
}

/* ---- iterators: a position in a table, which the iterator keeps alive ---- */
struct iterator {
    struct kl_map *map; /* one owned reference */
    size_t next;        /* the number of the next entry */
};

static struct iterator *iterator_new(const char *func, void *ctx) {
    struct kl_call c = {.func = func};
    struct kl_map *m = kl_in_map(&c, ctx, "map");
    struct iterator *it = c.err ? NULL : kl_malloc(sizeof *it);
    if (it)
        *it = (struct iterator){kl_map_retain(m), 0};
    else if (!c.err)
        kl_fail_nomem(&c.err);
    kl_call_end_plain(&c);
    return it;
}

static int iterator_free(struct iterator *it) {
    if (it) kl_map_release(it->map);
    kl_free(it);
    return 0;
}

/* The entry at the iterator, which does not advance. NULL at the end, or with the error noted. */
static const struct kl_map_entry *iterator_at(struct kl_call *c, const struct iterator *it) {
    if (!it) kl_fail(&c->err, KL_EARG, "the iterator is an empty handle");
    return !c->err && it->next < it->map->n ? &it->map->entries[it->next] : NULL;
}

/* ---- string to array ---- */
mlx_map_string_to_array mlx_map_string_to_array_new(void) {
    return (mlx_map_string_to_array){new_map(__func__, &kl_map_of_arrays)};
}

int mlx_map_string_to_array_set(mlx_map_string_to_array *map, const mlx_map_string_to_array src) {
    return set(__func__, &kl_map_of_arrays, map ? &map->ctx : NULL, src.ctx);
}

int mlx_map_string_to_array_free(mlx_map_string_to_array map) {
    kl_map_release(map.ctx);
    return 0;
}

int mlx_map_string_to_array_insert(mlx_map_string_to_array map, const char *key,
                                   const mlx_array value) {
    struct kl_call c = {.func = __func__};
    struct kl_map *m = kl_in_map(&c, map.ctx, "map");
    kl_need(&c, key, "key");
    struct kl_array *a = kl_in(&c, value, "value");
    if (!c.err) kl_map_insert(m, key, a, &c.err);
    return kl_call_end_plain(&c);
}

int mlx_map_string_to_array_get(mlx_array *value, const mlx_map_string_to_array map,
                                const char *key) {
    struct kl_call c = kl_call_begin(__func__, value);
    const struct kl_map_entry *e = find(&c, map.ctx, key);
    if (!c.err && !e) return NOT_FOUND;
    return kl_call_end(&c, value, e ? kl_array_retain(e->value) : NULL);
}

mlx_map_string_to_array_iterator mlx_map_string_to_array_iterator_new(mlx_map_string_to_array map) {
    struct iterator *it = iterator_new(__func__, map.ctx);
    return (mlx_map_string_to_array_iterator){it, it ? map.ctx : NULL};
}

int mlx_map_string_to_array_iterator_free(mlx_map_string_to_array_iterator it) {
    return iterator_free(it.ctx);
}

int mlx_map_string_to_array_iterator_next(const char **key, mlx_array *value,
                                          mlx_map_string_to_array_iterator it) {
    struct kl_call c = kl_call_begin(__func__, value);
    kl_need(&c, key, "key");
    const struct kl_map_entry *e = iterator_at(&c, it.ctx);
    if (!c.err && !e) return NOT_FOUND;
    const char *name = e ? e->key : NULL;
    int rc = kl_call_end(&c, value, e ? kl_array_retain(e->value) : NULL);
    if (rc) return rc;
    *key = name;
    ((struct iterator *)it.ctx)->next++;
    return 0;
}

/* ---- string to string ---- */
mlx_map_string_to_string mlx_map_string_to_string_new(void) {
    return (mlx_map_string_to_string){new_map(__func__, &kl_map_of_strings)};
}

int mlx_map_string_to_string_set(mlx_map_string_to_string *map,
                                 const mlx_map_string_to_string src) {
    return set(__func__, &kl_map_of_strings, map ? &map->ctx : NULL, src.ctx);
}

int mlx_map_string_to_string_free(mlx_map_string_to_string map) {
    kl_map_release(map.ctx);
    return 0;
}

int mlx_map_string_to_string_insert(mlx_map_string_to_string map, const char *key,
                                    const char *value) {
    struct kl_call c = {.func = __func__};
    struct kl_map *m = kl_in_map(&c, map.ctx, "map");
    kl_need(&c, key, "key");
    kl_need(&c, value, "value");
    if (!c.err) kl_map_insert(m, key, value, &c.err);
    return kl_call_end_plain(&c);
}

int mlx_map_string_to_string_get(const char **value, const mlx_map_string_to_string map,
                                 const char *key) {
    struct kl_call c = kl_call_begin(__func__, value);
    const struct kl_map_entry *e = find(&c, map.ctx, key);
    if (!c.err && !e) return NOT_FOUND;
    if (!c.err) *value = e->value;
    return kl_call_end_plain(&c);
}

mlx_map_string_to_string_iterator
mlx_map_string_to_string_iterator_new(mlx_map_string_to_string map) {
    struct iterator *it = iterator_new(__func__, map.ctx);
    return (mlx_map_string_to_string_iterator){it, it ? map.ctx : NULL};
}

int mlx_map_string_to_string_iterator_free(mlx_map_string_to_string_iterator it) {
    return iterator_free(it.ctx);
}

int mlx_map_string_to_string_iterator_next(const char **key, const char **value,
                                           mlx_map_string_to_string_iterator it) {
    struct kl_call c = kl_call_begin(__func__, value);
    kl_need(&c, key, "key");
    const struct kl_map_entry *e = iterator_at(&c, it.ctx);
    if (!c.err && !e) return NOT_FOUND;
    if (!c.err) {
        *key = e->key;
        *value = e->value;
        ((struct iterator *)it.ctx)->next++;
    }
    return kl_call_end_plain(&c);
}
