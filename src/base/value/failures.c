/* failures.c - see failures.h. Failures are rare, so one lock, plain lists, and linear searches
 * over at most 64 records per stream are enough. */
#include "base/value/failures.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"

enum { MAX_PER_STREAM = 64, MAX_PRINTED = 10 };

struct record {
    struct kl_link link;    /* in list.records, oldest first */
    struct kl_error *error; /* owned */
    uint64_t submitter;     /* number of the thread that must be told */
};
struct list {
    struct kl_list records; /* of record.link */
    int n;
    uint64_t n_more; /* failures that did not fit into the list */
};

static struct {
    struct kl_mutex mu;  /* leaf */
    struct list *lists;  /* by stream index; guarded by mu */
    int64_t n_lists;     /* guarded by mu */
    struct list orphans; /* of streams that have a new owner; guarded by mu */
    /* failures that are in no list, and were unseen when they were dropped; guarded by mu */
    uint64_t n_dropped_unseen;
    bool at_exit;                /* the report is registered; guarded by mu */
    _Atomic(uint64_t) n_records; /* lets the common path skip the lock */
} all = {.mu = KL_MUTEX_INIT,
         .orphans = {.records = {{&all.orphans.records.head, &all.orphans.records.head}}}};

/* The list of stream i; for i = n_lists, the orphans. */
static struct list *list_at(int64_t i) {
    return i < all.n_lists ? &all.lists[i] : &all.orphans;
}

static struct list *list_of(int64_t stream) {
    if (stream < 0) return NULL;
    if (stream >= all.n_lists) {
        int64_t n = stream + 16;
        struct list *more = kl_malloc((size_t)n * sizeof *more);
        if (!more) return NULL;
        for (int64_t i = 0; i < n; i++) {
            kl_list_init(&more[i].records);
            more[i].n = i < all.n_lists ? all.lists[i].n : 0;
            more[i].n_more = i < all.n_lists ? all.lists[i].n_more : 0;
            if (i < all.n_lists) kl_list_splice(&more[i].records, &all.lists[i].records);
        }
        kl_free(all.lists);
        all.lists = more;
        all.n_lists = n;
    }
    return &all.lists[stream];
}

static void record_free(struct list *l, struct record *r) {
    kl_list_remove(&r->link);
    l->n--;
    atomic_fetch_sub(&all.n_records, 1);
    kl_error_release(r->error);
    kl_free(r);
}

/* The values of kl_error.seen. WALKED: unseen, and already counted by walk_unseen. UNSEEN_COUNTED:
 * unseen, and counted in n_dropped_unseen. */
enum { UNSEEN = 0, SEEN = 1, WALKED = 2, UNSEEN_COUNTED = 3 };

static void count_dropped(struct kl_error *e) {
    uint32_t unseen = UNSEEN;
    /* A static error stands for many failures; each of them is counted. */
    if (e->is_static || atomic_compare_exchange_strong(&e->seen, &unseen, UNSEEN_COUNTED))
        all.n_dropped_unseen++;
}

void kl_failures_note(int64_t stream_index, struct kl_error *e, uint64_t submitter) {
    if (e->code == KL_ECANCELLED) return;
    kl_mutex_lock(&all.mu);
    if (!all.at_exit) {
        all.at_exit = true;
        atexit(kl_failures_report);
    }
    struct list *l = list_of(stream_index);
    struct record *r = NULL;
    /* Many values fail for one cause: one record is enough. */
    if (l && !kl_list_empty(&l->records)) {
        struct record *last = kl_container(l->records.head.prev, struct record, link);
        if (last->error == e && last->submitter == submitter) goto out;
    }
    if (l && l->n < MAX_PER_STREAM) r = kl_malloc(sizeof *r);
    if (r) {
        r->error = kl_error_retain(e);
        r->submitter = submitter;
        kl_list_push(&l->records, &r->link);
        l->n++;
        atomic_fetch_add(&all.n_records, 1);
    } else {
        if (l) l->n_more++;
        count_dropped(e);
    }
out:
    kl_mutex_unlock(&all.mu);
}

void kl_failures_delivered(struct kl_error *e) {
    /* A static error stands for many failures: only the records tell which of them were not
     * delivered yet. */
    uint32_t before = e->is_static ? SEEN : atomic_exchange(&e->seen, SEEN);
    if (before == UNSEEN_COUNTED) {
        kl_mutex_lock(&all.mu);
        all.n_dropped_unseen--;
        kl_mutex_unlock(&all.mu);
    }
    if (atomic_load(&all.n_records) == 0) return;
    uint64_t self = kl_thread_id();
    kl_mutex_lock(&all.mu);
    for (int64_t i = 0; i <= all.n_lists; i++) {
        struct list *l = list_at(i);
        for (struct kl_link *n = l->records.head.next, *next; n != &l->records.head; n = next) {
            next = n->next;
            struct record *r = kl_container(n, struct record, link);
            if (r->error != e) continue;
            bool mine = r->submitter == self || !kl_thread_alive(r->submitter);
            if (mine) record_free(l, r);
        }
    }
    kl_mutex_unlock(&all.mu);
}

struct kl_error *kl_failures_oldest(int64_t stream_index) {
    if (atomic_load(&all.n_records) == 0) return NULL;
    uint64_t self = kl_thread_id();
    struct kl_error *found = NULL;
    kl_mutex_lock(&all.mu);
    if (stream_index >= 0 && stream_index < all.n_lists) {
        struct list *l = &all.lists[stream_index];
        for (struct kl_link *n = l->records.head.next; n != &l->records.head && !found;
             n = n->next) {
            struct record *r = kl_container(n, struct record, link);
            if (r->submitter == self || !kl_thread_alive(r->submitter))
                found = kl_error_retain(r->error);
        }
    }
    kl_mutex_unlock(&all.mu);
    return found;
}

void kl_failures_orphan(int64_t stream_index) {
    if (atomic_load(&all.n_records) == 0) return;
    kl_mutex_lock(&all.mu);
    struct list *l = stream_index < all.n_lists ? &all.lists[stream_index] : NULL;
    while (l && !kl_list_empty(&l->records)) {
        struct record *r = kl_container(kl_list_first(&l->records), struct record, link);
        if (all.orphans.n < MAX_PER_STREAM) {
            kl_list_remove(&r->link);
            l->n--;
            kl_list_push(&all.orphans.records, &r->link);
            all.orphans.n++;
        } else {
            count_dropped(r->error);
            record_free(l, r);
        }
    }
    kl_mutex_unlock(&all.mu);
}

/* Counts the distinct unseen errors and prints the first of them if asked. A static error may stand
 * for several failures, but is printed once. */
static uint64_t walk_unseen(bool print) {
    kl_assert(kl_mutex_held(&all.mu));
    uint64_t n = all.n_dropped_unseen;
    int printed = 0;
    for (int64_t i = 0; i <= all.n_lists; i++) {
        struct kl_link *head = &list_at(i)->records.head;
        for (struct kl_link *k = head->next; k != head; k = k->next) {
            struct kl_error *e = kl_container(k, struct record, link)->error;
            if (atomic_load(&e->seen)) continue;
            atomic_store(&e->seen, WALKED); /* an error in several lists counts once */
            n++;
            if (print && printed++ < MAX_PRINTED)
                fprintf(stderr, "keel: nobody saw this error: %s\n", e->message);
        }
    }
    for (int64_t i = 0; i <= all.n_lists; i++) {
        struct kl_link *head = &list_at(i)->records.head;
        for (struct kl_link *k = head->next; k != head; k = k->next) {
            struct kl_error *e = kl_container(k, struct record, link)->error;
            uint32_t walked = WALKED;
            atomic_compare_exchange_strong(&e->seen, &walked, UNSEEN);
        }
    }
    return n;
}

uint64_t kl_failures_n_unseen(void) {
    kl_mutex_lock(&all.mu);
    uint64_t n = walk_unseen(false);
    kl_mutex_unlock(&all.mu);
    return n;
}

void kl_failures_report(void) {
    kl_mutex_lock(&all.mu);
    uint64_t n = walk_unseen(true);
    if (n > MAX_PRINTED) fprintf(stderr, "keel: %" PRIu64 " errors in all that nobody saw\n", n);
    kl_mutex_unlock(&all.mu);
}

void kl_failures_fork_prepare(void) {
    kl_mutex_lock(&all.mu);
}

void kl_failures_fork_parent(void) {
    kl_mutex_unlock(&all.mu);
}

void kl_failures_fork_child(void) {
    for (int64_t i = 0; i <= all.n_lists; i++)
        while (!kl_list_empty(&list_at(i)->records))
            record_free(list_at(i),
                        kl_container(kl_list_first(&list_at(i)->records), struct record, link));
    all.n_dropped_unseen = 0;
    kl_mutex_unlock(&all.mu);
}
