/* listener.c - see listener.h. */
#include "backend/collective/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/platform/clock.h"
#include "base/platform/sockets.h"

int kl_ms_until(int64_t until) {
    /* Rounded up: else what waits for less than a millisecond does not sleep. */
    int64_t ms = (until - kl_clock_ns() + 999999) / 1000000;
    return ms < 0 ? 0 : ms > 60000 ? 60000 : (int)ms;
}

static void close_keeping_errno(int fd) {
    const int why = errno;
    close(fd);
    errno = why;
}

/* A socket that does not block. */
static int socket_new(void) {
    if (!kl_alloc_should_fail()) return kl_socket_new(false);
    errno = ENOMEM;
    return -1;
}

/* ---- listening ---- */

int kl_listener_open(struct kl_listener *l, uint32_t address, uint32_t *port, int backlog,
                     size_t bytes) {
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_addr = {address}, .sin_port = htons((uint16_t)*port)};
    socklen_t length = sizeof a;
    const int on = 1;
    l->n_waiting = 0;
    l->bytes = bytes;
    if ((l->fd = socket_new()) < 0) return -1;
    if (*port) (void)setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(l->fd, (struct sockaddr *)(void *)&a, sizeof a) || listen(l->fd, backlog) ||
        getsockname(l->fd, (struct sockaddr *)(void *)&a, &length)) {
        close_keeping_errno(l->fd);
        l->fd = -1;
        return -1;
    }
    *port = ntohs(a.sin_port);
    return 0;
}

static void forget(struct kl_listener *l, int i) {
    l->n_waiting--;
    memmove(&l->waiting[i], &l->waiting[i + 1], (size_t)(l->n_waiting - i) * sizeof l->waiting[0]);
}

/* Takes a new connection in. 0, or -1 with errno. */
static int welcome(struct kl_listener *l) {
    const int fd = kl_socket_accept(l->fd);
    if (fd < 0) /* it may have ended since poll saw it */
        return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED ? 0 : -1;
    if (l->n_waiting == KL_LISTENER_WAITING) {
        close(l->waiting[0].fd);
        forget(l, 0);
    }
    l->waiting[l->n_waiting].fd = fd;
    l->waiting[l->n_waiting++].n = 0;
    return 0;
}

/* Reads what waiting connection i says. true: it has said all. One that ended is forgotten. */
static bool has_said(struct kl_listener *l, int i) {
    const size_t n = l->waiting[i].n;
    const ssize_t k = recv(l->waiting[i].fd, l->waiting[i].hello + n, l->bytes - n, MSG_DONTWAIT);
    if (k < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (k <= 0) {
        close(l->waiting[i].fd);
        forget(l, i);
        return false;
    }
    l->waiting[i].n += (size_t)k;
    return l->waiting[i].n == l->bytes;
}

/* The first connection that has said all, taken from those that wait; -1: none has. */
static int take(struct kl_listener *l, void *hello, const struct pollfd *p) {
    const int n = l->n_waiting;
    /* Where one is forgotten p is that of others, and poll tells of them once more. */
    for (int i = 0; i < n && l->n_waiting == n; i++) {
        if (!p[i].revents || !has_said(l, i)) continue;
        const int fd = l->waiting[i].fd;
        memcpy(hello, l->waiting[i].hello, l->bytes);
        forget(l, i);
        return fd;
    }
    return -1;
}

int kl_listener_next(struct kl_listener *l, void *hello, int64_t until) {
    for (;;) {
        struct pollfd p[KL_LISTENER_WAITING + 1];
        for (int i = 0; i < l->n_waiting; i++)
            p[i] = (struct pollfd){.fd = l->waiting[i].fd, .events = POLLIN};
        struct pollfd *new = &p[l->n_waiting];
        *new = (struct pollfd){.fd = l->fd, .events = POLLIN};
        const int ready = poll(p, (nfds_t)l->n_waiting + 1, kl_ms_until(until));
        if (ready < 0 && errno != EINTR) return -1;
        if (ready == 0 && kl_clock_ns() >= until) {
            errno = ETIMEDOUT;
            return -1;
        }
        if (ready <= 0) continue;
        const int fd = take(l, hello, p);
        if (fd >= 0) return fd;
        if (new->revents && welcome(l)) return -1;
    }
}

void kl_listener_close(struct kl_listener *l) {
    for (int i = 0; l->fd >= 0 && i < l->n_waiting; i++) close(l->waiting[i].fd);
    if (l->fd >= 0) close(l->fd);
    l->fd = -1;
}

/* ---- connections ---- */

static int finish_connecting(int fd, int64_t until) {
    int code = 0, ready;
    socklen_t bytes = sizeof code;
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    do ready = poll(&p, 1, kl_ms_until(until));
    while ((ready < 0 && errno == EINTR) || (ready == 0 && kl_clock_ns() < until));
    if (ready == 0) errno = ETIMEDOUT;
    if (ready <= 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &bytes)) return -1;
    if (code) errno = code;
    return code ? -1 : 0;
}

/* A socket that looks for a port on its own host where nobody listens may be given that very port,
 * and is then connected with itself. */
static bool is_own_end(int fd) {
    struct sockaddr_in here, there;
    socklen_t n = sizeof here, m = sizeof there;
    return !getsockname(fd, (struct sockaddr *)(void *)&here, &n) &&
           !getpeername(fd, (struct sockaddr *)(void *)&there, &m) &&
           here.sin_port == there.sin_port && here.sin_addr.s_addr == there.sin_addr.s_addr;
}

int kl_connect_until(uint32_t address, uint32_t port, int64_t until) {
    const struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_addr = {address}, .sin_port = htons((uint16_t)port)};
    const int fd = socket_new();
    if (fd < 0) return -1;
    const bool now = !connect(fd, (const struct sockaddr *)(const void *)&a, sizeof a);
    if (now || ((errno == EINPROGRESS || errno == EINTR) && !finish_connecting(fd, until))) {
        if (!is_own_end(fd)) return fd;
        errno = ECONNREFUSED;
    }
    close_keeping_errno(fd);
    return -1;
}

int kl_move_whole(int fd, void *data, size_t n, bool sends, int64_t until) {
    char *at = data;
    while (n) {
        struct pollfd p = {.fd = fd, .events = sends ? POLLOUT : POLLIN};
        const int ready = poll(&p, 1, kl_ms_until(until));
        if ((ready < 0 && errno == EINTR) || (ready == 0 && kl_clock_ns() < until)) continue;
        if (ready == 0) errno = ETIMEDOUT;
        if (ready <= 0) return -1;
        ssize_t k = sends ? kl_socket_send(fd, at, n) : recv(fd, at, n, MSG_DONTWAIT);
        if (k < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (k == 0) errno = ECONNRESET;
        if (k <= 0) return -1;
        at += k;
        n -= (size_t)k;
    }
    return 0;
}

bool kl_connection_has_ended(int fd) {
    char c;
    const ssize_t n = recv(fd, &c, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}
