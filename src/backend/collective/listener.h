/* listener.h - where connections of TCP come in that begin with a fixed number of bytes, by which
 * one knows who connects; and how to reach such a place. Strangers may connect too: one that says
 * nothing, or too little, keeps nobody waiting. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    KL_LISTENER_HELLO = 32,   /* the most bytes with which a connection begins */
    KL_LISTENER_WAITING = 64, /* connections that have not said them yet; more end the oldest */
};

struct kl_listener {
    int fd; /* -1: closed */
    size_t bytes;
    int n_waiting;
    struct {
        int fd;
        size_t n;
        char hello[KL_LISTENER_HELLO];
    } waiting[KL_LISTENER_WAITING]; /* in the order in which they came */
};

/* Listens at an address of IPv4, in the order of the network; *port: 0 chooses one, which is
 * written there. bytes: with which a connection begins. 0, or -1 with errno. */
int kl_listener_open(struct kl_listener *l, uint32_t address, uint32_t *port, int backlog,
                     size_t bytes);
/* The next connection that has sent its first bytes, which are written to hello; it does not block.
 * -1: none came before the time (kl_clock_ns), or the system fails; errno says which. */
int kl_listener_next(struct kl_listener *l, void *hello, int64_t until);
void kl_listener_close(struct kl_listener *l); /* also of one that is closed */

/* A connection, which does not block, or -1 with errno: it cannot be made before that time. */
int kl_connect_until(uint32_t address, uint32_t port, int64_t until);
/* Sends or receives exactly n bytes before the time is up. 0, or -1 with errno, which is ECONNRESET
 * where the other side has ended the connection. */
int kl_move_whole(int fd, void *data, size_t n, bool sends, int64_t until);
int kl_ms_until(int64_t until); /* for poll(2) */
/* Whether the other side has ended the connection, and all that it sent has been read. */
bool kl_connection_has_ended(int fd);
