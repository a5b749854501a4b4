/* rendezvous.c - see rendezvous.h. Whoever reaches the address may take the place of a process that
 * has not come yet, so it is for networks that are trusted, as NCCL's own beginning is.
 *
 * A process says its rank and how many there are, and gets one answer: refused, at once; or, when
 * all have come or the first one has waited long enough, how it ended. So all of them know why. */
#include "backend/collective/rendezvous.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/collective/listener.h"
#include "base/alloc.h"
#include "base/platform/clock.h"

struct kl_rendezvous {
    int rank, size;
    int64_t limit_ns;
    int fd[]; /* of rank 0: to each other rank; of others: [0] to rank 0; -1: none */
};

/* How a connection begins. */
struct hello {
    char magic[8];
    int32_t rank, size;
};
/* The answer of the first process. */
struct answer {
    char magic[8];
    char why_not[248]; /* "": all have come */
};
static const char hello_magic[8] = "keel-2?", answer_magic[8] = "keel-2!";

/* Where the processes meet, for messages. */
struct meeting {
    const char *host;
    int port;
    double limit; /* seconds */
};

static int fail(struct kl_error **err, const struct meeting *m, const char *what) {
    return kl_fail(err, KL_EGROUP, "the processes cannot meet at %.64s, port %d: %s", m->host,
                   m->port, what);
}

static int fail_errno(struct kl_error **err, const struct meeting *m, const char *what) {
    char text[200];
    snprintf(text, sizeof text, "%s: %s", what, strerror(errno));
    return fail(err, m, text);
}

/* ---- the first process ---- */

/* Why the process that says this cannot be let in; "": it can. */
static void judge(struct kl_rendezvous *r, const struct hello *h, char *text, size_t n) {
    *text = 0;
    if (h->size != r->size) {
        snprintf(text, n,
                 "a process says that it is rank %d of %d, the first one that there are %d",
                 h->rank, h->size, r->size);
    } else if (h->rank < 0 || h->rank >= r->size) {
        snprintf(text, n, "a process says that it is rank %d of %d", h->rank, h->size);
    } else if (h->rank == 0) {
        snprintf(text, n, "a second process says that it is rank 0 of %d", h->size);
    } else if (r->fd[h->rank] >= 0) {
        /* The one that came before may have ended meanwhile: then this one takes its place. */
        if (kl_connection_has_ended(r->fd[h->rank])) {
            close(r->fd[h->rank]);
            r->fd[h->rank] = -1;
        } else {
            snprintf(text, n, "a second process says that it is rank %d of %d", h->rank, h->size);
        }
    }
}

static void answer(int fd, const char *why_not, int64_t until) {
    struct answer a = {.why_not = ""};
    memcpy(a.magic, answer_magic, sizeof a.magic);
    snprintf(a.why_not, sizeof a.why_not, "%s", why_not);
    (void)kl_move_whole(fd, &a, sizeof a, true, until); /* who does not read is missed later */
}

/* Takes a connection in, or ends it; refused: why, unless it is not one of ours. */
static void let_in(struct kl_rendezvous *r, int fd, const struct hello *h, char *refused,
                   size_t n) {
    char text[160];
    if (memcmp(h->magic, hello_magic, sizeof h->magic) != 0) {
        close(fd);
        return;
    }
    judge(r, h, text, sizeof text);
    if (!*text) {
        r->fd[h->rank] = fd;
        return;
    }
    snprintf(refused, n, "%s", text);
    answer(fd, text, kl_clock_ns());
    close(fd);
}

/* "2", or "1, 3, 4 and 9 more": those that are not here. */
static void name_missing(const struct kl_rendezvous *r, char *text, size_t n) {
    enum { MOST = 8 };
    int missing = 0;
    size_t at = 0;
    for (int i = 1; i < r->size; i++) {
        if (r->fd[i] >= 0 || ++missing > MOST) continue;
        at += (size_t)snprintf(text + at, n - at, at ? ", %d" : "%d", i);
    }
    if (missing > MOST) snprintf(text + at, n - at, " and %d more", missing - MOST);
}

static int count_missing(struct kl_rendezvous *r) {
    int missing = 0;
    for (int i = 1; i < r->size; i++) {
        if (r->fd[i] >= 0 && kl_connection_has_ended(r->fd[i])) {
            close(r->fd[i]);
            r->fd[i] = -1;
        }
        missing += r->fd[i] < 0;
    }
    return missing;
}

/* Waits until all others have come. On failure `why` says why not all have. */
static int wait_for_all(struct kl_rendezvous *r, struct kl_listener *l, const struct meeting *m,
                        int64_t until, char *why, size_t n) {
    const int64_t often = 100000000; /* how often those that came are looked at */
    char refused[160] = "", ranks[128];
    while (count_missing(r)) {
        struct hello h;
        const int64_t now = kl_clock_ns();
        const int fd = kl_listener_next(l, &h, now + often < until ? now + often : until);
        if (fd < 0 && errno == ETIMEDOUT && now < until) continue;
        if (fd < 0 && errno != ETIMEDOUT) {
            snprintf(why, n, "accept: %s", strerror(errno));
            return -1;
        }
        if (fd < 0) {
            name_missing(r, ranks, sizeof ranks);
            snprintf(why, n,
                     "of %d processes these did not come within %g s (KEEL_DIST_TIMEOUT): "
                     "%s%s%s",
                     r->size, m->limit, ranks, *refused ? "; refused: " : "", refused);
            return -1;
        }
        let_in(r, fd, &h, refused, sizeof refused);
    }
    return 0;
}

static int receive_all(struct kl_rendezvous *r, uint32_t address, const struct meeting *m,
                       int64_t until, struct kl_error **err) {
    struct kl_listener *l = kl_malloc(sizeof *l);
    char why[512] = "";
    uint32_t port = (uint32_t)m->port;
    if (!l) return kl_fail_nomem(err);
    int rc = kl_listener_open(l, address, &port, r->size, sizeof(struct hello))
                 ? fail_errno(err, m, "listen")
                 : KL_OK;
    if (!rc && wait_for_all(r, l, m, until, why, sizeof why)) rc = fail(err, m, why);
    /* The answer is small, so a process that reads nothing makes nobody wait. */
    for (int i = 1; i < r->size; i++)
        if (r->fd[i] >= 0) answer(r->fd[i], why, kl_clock_ns());
    kl_listener_close(l);
    kl_free(l);
    return rc;
}

/* ---- the others ---- */

/* Connects and says who it is; the first process may not listen yet. */
static int come(struct kl_rendezvous *r, uint32_t address, const struct meeting *m, int64_t until,
                struct kl_error **err) {
    struct hello h = {.rank = r->rank, .size = r->size};
    memcpy(h.magic, hello_magic, sizeof h.magic);
    do {
        const int fd = kl_connect_until(address, (uint32_t)m->port, until);
        if (fd < 0 && (errno == ENOMEM || errno == EMFILE || errno == ENFILE))
            return fail_errno(err, m, "connect");
        if (fd >= 0 && !kl_move_whole(fd, &h, sizeof h, true, until)) {
            r->fd[0] = fd;
            return KL_OK;
        }
        if (fd >= 0) close(fd);
        const int why = errno;
        poll(NULL, 0, 20);
        errno = why;
    } while (kl_clock_ns() < until);
    char text[100];
    snprintf(text, sizeof text, "within %g s (KEEL_DIST_TIMEOUT) no connection with rank 0, there",
             m->limit);
    return fail_errno(err, m, text);
}

/* Reads the answer. KL_OK; 1: the connection ended, so perhaps another attempt helps. */
static int read_answer(struct kl_rendezvous *r, const struct meeting *m, int64_t until,
                       struct kl_error **err) {
    struct answer a;
    if (kl_move_whole(r->fd[0], &a, sizeof a, false, until)) {
        if (errno == ETIMEDOUT)
            return fail(err, m,
                        "rank 0 did not say within KEEL_DIST_TIMEOUT that all processes have come");
        close(r->fd[0]);
        r->fd[0] = -1;
        return 1;
    }
    if (memcmp(a.magic, answer_magic, sizeof a.magic) != 0)
        return fail(err, m, "what listens there is not the first process of the group");
    a.why_not[sizeof a.why_not - 1] = 0;
    return *a.why_not ? fail(err, m, a.why_not) : KL_OK;
}

static int join(struct kl_rendezvous *r, uint32_t address, const struct meeting *m, int64_t until,
                struct kl_error **err) {
    /* The first process may have begun to wait a little later, and says who is missing. */
    const int64_t later = until + r->limit_ns / 4;
    for (;;) {
        KL_TRY(come(r, address, m, until, err));
        const int rc = read_answer(r, m, later, err);
        if (rc <= 0) return rc;
        if (kl_clock_ns() >= until)
            return fail(err, m, "the connection with rank 0 ended before all processes had come");
        poll(NULL, 0, 20);
    }
}

/* ---- */

static int find_address(const struct meeting *m, uint32_t *address, struct kl_error **err) {
    const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    const int code = getaddrinfo(m->host, NULL, &hints, &found);
    if (code)
        return kl_fail(err, KL_EGROUP, "NCCL_HOST_IP=%.64s is no address: %s", m->host,
                       gai_strerror(code));
    *address = ((const struct sockaddr_in *)(const void *)found->ai_addr)->sin_addr.s_addr;
    freeaddrinfo(found);
    return KL_OK;
}

int kl_rendezvous_open(struct kl_rendezvous **out, const char *host, int port, int rank, int size,
                       int64_t limit_ns, struct kl_error **err) {
    const struct meeting m = {host, port, (double)limit_ns / 1e9};
    const int64_t until = kl_clock_ns() + limit_ns;
    const int on = 1;
    uint32_t address = 0;
    struct kl_rendezvous *r = kl_malloc(sizeof *r + (size_t)size * sizeof r->fd[0]);
    if (!r) return kl_fail_nomem(err);
    *r = (struct kl_rendezvous){.rank = rank, .size = size, .limit_ns = limit_ns};
    for (int i = 0; i < size; i++) r->fd[i] = -1;
    int rc = find_address(&m, &address, err);
    if (!rc) rc = (rank ? join : receive_all)(r, address, &m, until, err);
    for (int i = 0; i < size && !rc; i++)
        if (r->fd[i] >= 0) (void)setsockopt(r->fd[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (rc)
        kl_rendezvous_close(r);
    else
        *out = r;
    return rc;
}

static int fail_gather(struct kl_error **err, int rank) {
    return kl_fail(err, KL_EGROUP, "rank %d ended, or stood still, during init: %s", rank,
                   strerror(errno));
}

/* Rank 0 gets the bytes of all, and sends all to each. */
int kl_rendezvous_gather(const struct kl_gathering *g, const void *from, void *to, size_t n,
                         struct kl_error **err) {
    struct kl_rendezvous *r = g->state;
    const int64_t until = kl_clock_ns() + g->limit_ns;
    const size_t all = n * (size_t)r->size;
    char *place = to;
    memmove(place + (size_t)r->rank * n, from, n);
    if (r->rank) {
        if (kl_move_whole(r->fd[0], place + (size_t)r->rank * n, n, true, until) ||
            kl_move_whole(r->fd[0], to, all, false, until))
            return fail_gather(err, 0);
        return KL_OK;
    }
    for (int i = 1; i < r->size; i++)
        if (kl_move_whole(r->fd[i], place + (size_t)i * n, n, false, until))
            return fail_gather(err, i);
    for (int i = 1; i < r->size; i++)
        if (kl_move_whole(r->fd[i], to, all, true, until)) return fail_gather(err, i);
    return KL_OK;
}

/* Rank 0 sees that a process has gone, and goes too, which the others see. */
bool kl_rendezvous_all_here(const struct kl_gathering *g) {
    const struct kl_rendezvous *r = g->state;
    for (int i = 0; i < r->size; i++)
        if (r->fd[i] >= 0 && kl_connection_has_ended(r->fd[i])) return false;
    return true;
}

void kl_rendezvous_close(struct kl_rendezvous *r) {
    for (int i = 0; r && i < r->size; i++)
        if (r->fd[i] >= 0) close(r->fd[i]);
    kl_free(r);
}
