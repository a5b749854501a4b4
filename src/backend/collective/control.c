/* control.c - see control.h. control_connect.c makes the connections. */
#include "backend/collective/control.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/collective/control_connect.h"
#include "base/alloc.h"
#include "base/platform/clock.h"
#include "base/platform/sockets.h"
#include "base/thread.h"

/* A message is at most MESSAGE bytes, and so is what waits to be sent of an earlier one; a process
 * that leaves more than that unread does not run any more. */
enum { MESSAGE = sizeof(struct kl_control_message) + KL_CONTROL_TEXT, UNSENT = 8 * MESSAGE };

struct peer {
    int fd; /* -1: of this process itself, or lost */
    _Atomic(bool) lost;
    int64_t heard;      /* when something came last */
    size_t n_in, n_out; /* bytes of a part of a message, and bytes to be sent */
    char in[MESSAGE], *out;
};

struct kl_control {
    int rank, size, on_host;
    int64_t limit_ns, said; /* said: when signs of life were sent last */
    int wake[2];            /* a pipe */
    _Atomic(bool) woken;
    void (*on_message)(int from, const struct kl_control_message *m, const char *text);
    void (*on_lost)(int process, const char *why);
    struct pollfd *poll; /* of the thread that sleeps: size + 1 */
    struct peer peer[];
};

static void lose(struct kl_control *c, int process, const char *why) {
    struct peer *p = &c->peer[process];
    if (p->lost) return;
    p->lost = true;
    /* The sleeping thread may be looking at it: it is shut, and stays open. */
    if (p->fd >= 0) (void)shutdown(p->fd, SHUT_RDWR);
    c->on_lost(process, why);
}

/* ---- sending ---- */

static void flush(struct kl_control *c, int to) {
    struct peer *p = &c->peer[to];
    while (p->n_out && !p->lost) {
        ssize_t n = kl_socket_send(p->fd, p->out, p->n_out);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        if (n <= 0) {
            lose(c, to, "its connection ended");
            return;
        }
        p->n_out -= (size_t)n;
        memmove(p->out, p->out + n, p->n_out);
    }
}

void kl_control_send(struct kl_control *c, int to, const struct kl_control_message *m,
                     const char *text) {
    struct peer *p = &c->peer[to];
    struct kl_control_message head = *m;
    const size_t length = text ? strlen(text) : 0;
    if (to == c->rank || p->lost) return;
    head.text_bytes = (uint32_t)(length < KL_CONTROL_TEXT - 1 ? length : KL_CONTROL_TEXT - 1);
    if (p->n_out + sizeof head + head.text_bytes > UNSENT) {
        lose(c, to, "it does not read what it is sent");
        return;
    }
    memcpy(p->out + p->n_out, &head, sizeof head);
    if (head.text_bytes) memcpy(p->out + p->n_out + sizeof head, text, head.text_bytes);
    p->n_out += sizeof head + head.text_bytes;
    flush(c, to);
}

/* ---- receiving ---- */

/* Takes whole messages off the front of what has come from a process. */
static void take_messages(struct kl_control *c, int from) {
    struct peer *p = &c->peer[from];
    struct kl_control_message head;
    size_t at = 0;
    while (!p->lost && p->n_in - at >= sizeof head) {
        memcpy(&head, p->in + at, sizeof head);
        if (head.text_bytes >= KL_CONTROL_TEXT) {
            lose(c, from, "it sent what is no message");
            return;
        }
        if (p->n_in - at < sizeof head + head.text_bytes) break;
        char text[KL_CONTROL_TEXT];
        memcpy(text, p->in + at + sizeof head, head.text_bytes);
        text[head.text_bytes] = 0;
        at += sizeof head + head.text_bytes;
        if (head.kind != KL_CONTROL_ALIVE) c->on_message(from, &head, text);
    }
    p->n_in -= at;
    memmove(p->in, p->in + at, p->n_in);
}

static void receive(struct kl_control *c, int from, int64_t now) {
    struct peer *p = &c->peer[from];
    while (!p->lost) {
        ssize_t n = recv(p->fd, p->in + p->n_in, sizeof p->in - p->n_in, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        if (n <= 0) {
            lose(c, from, "its connection ended");
            return;
        }
        p->heard = now;
        p->n_in += (size_t)n;
        take_messages(c, from);
    }
}

void kl_control_poll(struct kl_control *c) {
    const int64_t now = kl_clock_ns();
    const bool says = now - c->said > c->limit_ns / 8;
    const struct kl_control_message alive = {.kind = KL_CONTROL_ALIVE};
    if (says) {
        /* After a pause of this process itself, the silence of others says nothing. */
        if (now - c->said > c->limit_ns / 2)
            for (int i = 0; i < c->size; i++) c->peer[i].heard = now;
        c->said = now;
    }
    for (int i = 0; i < c->size; i++) {
        struct peer *p = &c->peer[i];
        if (i == c->rank || p->lost) continue;
        receive(c, i, now);
        if (p->lost) continue;
        if (says)
            kl_control_send(c, i, &alive, NULL);
        else
            flush(c, i);
        if (!p->lost && now - p->heard > c->limit_ns)
            lose(c, i, "nothing was heard of it within KEEL_DIST_TIMEOUT");
    }
}

void kl_control_sleep(struct kl_control *c, int ms) {
    char bytes[64];
    const int64_t often = c->limit_ns / 8 / 1000000;
    if (ms > often) ms = (int)often;
    for (int i = 0; i < c->size; i++) {
        const bool open = i != c->rank && c->peer[i].fd >= 0 && !c->peer[i].lost;
        c->poll[i] = (struct pollfd){.fd = open ? c->peer[i].fd : -1, .events = POLLIN};
    }
    c->poll[c->size] = (struct pollfd){.fd = c->wake[0], .events = POLLIN};
    (void)poll(c->poll, (nfds_t)c->size + 1, ms > 0 ? ms : 1);
    atomic_store(&c->woken, false);
    while (read(c->wake[0], bytes, sizeof bytes) > 0) continue;
}

void kl_control_wake(struct kl_control *c) {
    if (atomic_exchange(&c->woken, true)) return;
    while (write(c->wake[1], "", 1) < 0 && errno == EINTR) continue;
}

bool kl_control_is_lost(const struct kl_control *c, int process) {
    return c->peer[process].lost;
}

bool kl_control_any_lost(const struct kl_control *c) {
    bool any = false;
    for (int i = 0; i < c->size; i++) any = any || c->peer[i].lost;
    return any;
}

int kl_control_rank_on_host(const struct kl_control *c) {
    return c->on_host;
}

int kl_control_size(const struct kl_control *c) {
    return c->size;
}

/* ---- opening ---- */

static void release(struct kl_control *c) {
    for (int i = 0; i < c->size; i++) {
        if (c->peer[i].fd >= 0) close(c->peer[i].fd);
        kl_free(c->peer[i].out);
    }
    for (int i = 0; i < 2; i++)
        if (c->wake[i] >= 0) close(c->wake[i]);
    kl_free(c->poll);
    kl_free(c);
}

void kl_control_forked(struct kl_control *c) {
    for (int i = 0; i < c->size; i++) {
        if (c->peer[i].fd >= 0) close(c->peer[i].fd);
        c->peer[i].fd = -1;
        c->peer[i].lost = true;
    }
}

static int prepare(struct kl_control *c, const int *fds, struct kl_error **err) {
    const int64_t now = kl_clock_ns();
    c->said = now;
    c->poll = kl_calloc((size_t)c->size + 1, sizeof *c->poll);
    if (!c->poll) return kl_fail_nomem(err);
    for (int i = 0; i < c->size; i++) {
        c->peer[i].fd = fds[i];
        c->peer[i].heard = now;
        if (i != c->rank && !(c->peer[i].out = kl_malloc(UNSENT))) return kl_fail_nomem(err);
    }
    if (kl_alloc_should_fail() || kl_pipe_new(c->wake))
        return kl_fail(err, KL_EGROUP, "no pipe: %s", strerror(errno));
    return KL_OK;
}

int kl_control_open(struct kl_control **out, int rank, int size, const struct kl_gathering *by,
                    void (*on_message)(int from, const struct kl_control_message *m,
                                       const char *text),
                    void (*on_lost)(int process, const char *why), struct kl_error **err) {
    struct kl_control *c = kl_calloc(1, sizeof *c + (size_t)size * sizeof c->peer[0]);
    int *fds = kl_malloc((size_t)size * sizeof *fds);
    int rc = c && fds ? KL_OK : kl_fail_nomem(err);
    for (int i = 0; i < size && !rc; i++) c->peer[i].fd = fds[i] = -1;
    if (!rc) {
        *c = (struct kl_control){.rank = rank,
                                 .size = size,
                                 .limit_ns = by->limit_ns,
                                 .wake = {-1, -1},
                                 .on_message = on_message,
                                 .on_lost = on_lost};
        rc = kl_control_connect(fds, &c->on_host, rank, size, by, err);
    }
    if (!rc) rc = prepare(c, fds, err);
    if (rc && fds)
        for (int i = 0; i < size; i++)
            if (fds[i] >= 0 && (!c || c->peer[i].fd != fds[i])) close(fds[i]);
    kl_free(fds);
    if (rc) {
        if (c) release(c);
        return rc;
    }
    *out = c;
    return KL_OK;
}
