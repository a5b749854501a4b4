/* list.h - an intrusive doubly linked ring. The link is a member of the object, so that queueing
 * never allocates. The caller locks. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct kl_link {
    struct kl_link *prev, *next;
};
struct kl_list {
    struct kl_link head;
};

#define kl_container(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

static inline void kl_list_init(struct kl_list *l) {
    l->head.prev = l->head.next = &l->head;
}
static inline bool kl_list_empty(const struct kl_list *l) {
    return l->head.next == &l->head;
}
static inline void kl_list_push(struct kl_list *l, struct kl_link *n) { /* at the end */
    n->prev = l->head.prev;
    n->next = &l->head;
    l->head.prev->next = n;
    l->head.prev = n;
}
static inline void kl_list_push_front(struct kl_list *l, struct kl_link *n) {
    n->next = l->head.next;
    n->prev = &l->head;
    l->head.next->prev = n;
    l->head.next = n;
}
static inline void kl_list_remove(struct kl_link *n) { /* n becomes unlinked: both NULL */
    n->prev->next = n->next;
    n->next->prev = n->prev;
    n->prev = n->next = NULL;
}
static inline bool kl_list_linked(const struct kl_link *n) {
    return n->next != NULL;
}
static inline struct kl_link *kl_list_first(const struct kl_list *l) { /* NULL when empty */
    return kl_list_empty(l) ? NULL : l->head.next;
}
static inline struct kl_link *kl_list_pop(struct kl_list *l) {
    struct kl_link *n = kl_list_first(l);
    if (n) kl_list_remove(n);
    return n;
}
/* Moves all elements of `from` to the end of `to`; `from` is empty afterwards. */
static inline void kl_list_splice(struct kl_list *to, struct kl_list *from) {
    if (kl_list_empty(from)) return;
    from->head.next->prev = to->head.prev;
    to->head.prev->next = from->head.next;
    from->head.prev->next = &to->head;
    to->head.prev = from->head.prev;
    kl_list_init(from);
}
