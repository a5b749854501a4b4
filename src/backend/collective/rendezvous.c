/* rendezvous.c - see rendezvous.h. Whoever reaches the address may take the place of a process that
 * has not come yet, so it is for networks that are trusted, as NCCL's own beginning is. */
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

#include "base/platform/clock.h"
#include "backend/collective/control_connect.h"
#include "base/alloc.h"
#include "base/platform/sockets.h"

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
static const char magic[8] = "keel-1";

static int fail(struct kl_error **err, const char *what, const char *host, int port) {
    return kl_fail(err, KL_EGROUP, "the processes cannot meet at %s, port %d: %s: %s", host, port,
                   what, strerror(errno));
}

static int listener_at(const struct addrinfo *a, int size) {
    const int on = 1;
    int fd = kl_socket_new(true);
    if (fd < 0) return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (!bind(fd, a->ai_addr, a->ai_addrlen) && !listen(fd, size)) return fd;
    close(fd);
    return -1;
}

/* The first process waits until all others have come. */
static int meet(struct kl_rendezvous *r, int listener, int64_t until, struct kl_error **err) {
    for (int left = r->size - 1; left;) {
        struct pollfd p = {.fd = listener, .events = POLLIN};
        struct hello h;
        const int ready = poll(&p, 1, kl_ms_until(until));
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0)
            return kl_fail(err, KL_EGROUP,
                           "%d of %d processes did not come to the first one within "
                           "KEEL_DIST_TIMEOUT",
                           left, r->size);
        int fd = kl_socket_accept(listener);
        if (fd < 0) continue;
        if (!kl_move_whole(fd, &h, sizeof h, false, until) &&
            !memcmp(h.magic, magic, sizeof magic) && h.size == r->size && h.rank > 0 &&
            h.rank < r->size && r->fd[h.rank] < 0) {
            r->fd[h.rank] = fd;
            left--;
        } else {
            close(fd);
        }
    }
    return KL_OK;
}

/* The others connect; the first one may not listen yet. */
static int come(struct kl_rendezvous *r, const struct addrinfo *a, int64_t until) {
    struct hello h = {.rank = r->rank, .size = r->size};
    memcpy(h.magic, magic, sizeof magic);
    for (; kl_clock_ns() < until; poll(NULL, 0, 20)) {
        int fd = kl_socket_new(true);
        if (fd < 0) return -1;
        if (!connect(fd, a->ai_addr, a->ai_addrlen) &&
            !kl_move_whole(fd, &h, sizeof h, true, until)) {
            r->fd[0] = fd;
            return 0;
        }
        close(fd);
    }
    errno = ETIMEDOUT;
    return -1;
}

static int open_at(struct kl_rendezvous *r, const struct addrinfo *a, const char *host, int port,
                   struct kl_error **err) {
    const int64_t until = kl_clock_ns() + r->limit_ns;
    if (r->rank) return come(r, a, until) ? fail(err, "connect", host, port) : KL_OK;
    int listener = listener_at(a, r->size);
    if (listener < 0) return fail(err, "listen", host, port);
    int rc = meet(r, listener, until, err);
    close(listener);
    return rc;
}

int kl_rendezvous_open(struct kl_rendezvous **out, const char *host, int port, int rank, int size,
                       int64_t limit_ns, struct kl_error **err) {
    const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    char service[16];
    struct kl_rendezvous *r = kl_malloc(sizeof *r + (size_t)size * sizeof r->fd[0]);
    if (!r) return kl_fail_nomem(err);
    *r = (struct kl_rendezvous){.rank = rank, .size = size, .limit_ns = limit_ns};
    for (int i = 0; i < size; i++) r->fd[i] = -1;
    snprintf(service, sizeof service, "%d", port);
    const int code = getaddrinfo(host, service, &hints, &found);
    int rc = code ? kl_fail(err, KL_EGROUP, "NCCL_HOST_IP=%.64s is no address: %s", host,
                            gai_strerror(code))
                  : open_at(r, found, host, port, err);
    if (!code) freeaddrinfo(found);
    const int on = 1;
    for (int i = 0; i < size && !rc; i++)
        if (r->fd[i] >= 0) (void)setsockopt(r->fd[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (rc)
        kl_rendezvous_close(r);
    else
        *out = r;
    return rc;
}

/* Rank 0 gets the bytes of all, and sends all to each. */
int kl_rendezvous_gather(void *arg, const void *from, void *to, size_t n, struct kl_error **err) {
    struct kl_rendezvous *r = arg;
    const int64_t until = kl_clock_ns() + r->limit_ns;
    const size_t all = n * (size_t)r->size;
    char *place = to;
    int bad = 0;
    memmove(place + (size_t)r->rank * n, from, n);
    if (r->rank) {
        bad = kl_move_whole(r->fd[0], place + (size_t)r->rank * n, n, true, until) ||
              kl_move_whole(r->fd[0], to, all, false, until);
    } else {
        for (int i = 1; i < r->size && !bad; i++)
            bad = kl_move_whole(r->fd[i], place + (size_t)i * n, n, false, until);
        for (int i = 1; i < r->size && !bad; i++)
            bad = kl_move_whole(r->fd[i], to, all, true, until);
    }
    return bad ? kl_fail(err, KL_EGROUP, "a process ended, or stood still, during init") : KL_OK;
}

void kl_rendezvous_close(struct kl_rendezvous *r) {
    for (int i = 0; r && i < r->size; i++)
        if (r->fd[i] >= 0) close(r->fd[i]);
    kl_free(r);
}
