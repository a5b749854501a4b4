/* control_connect.c - see control_connect.h.
 *
 * Every process listens, all learn where by a gather of the engine, and the higher of two ranks
 * connects to the lower one. It begins with a secret number of rank 0 that came with the gather, so
 * that nobody else can join. Processes of one host use its loopback interface, and where all are on
 * one host nobody else can even connect. */
#include "backend/collective/control_connect.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/collective/listener.h"
#include "base/alloc.h"
#include "base/platform/clock.h"
#include "base/platform/random.h"
#include "base/platform/sockets.h"

enum { MOST_ADDRESSES = 8 };

/* A process tells this to the others. */
struct place {
    char host[KL_HOST_BYTES];
    uint64_t secret[2];
    uint32_t address[MOST_ADDRESSES]; /* IPv4, in the order of the network; 0: no more */
    uint32_t port;
    uint32_t pad;
};

/* How a connection begins. */
struct hello {
    uint64_t secret[2];
    int32_t rank, pad;
};

static int fail(struct kl_error **err, const char *what) {
    return kl_fail(err, KL_EGROUP, "the control connections cannot be made: %s: %s", what,
                   strerror(errno));
}

void kl_host_name(char host[KL_HOST_BYTES]) {
    char boot[40], name[80] = "";
    kl_machine_start(boot, sizeof boot);
    (void)gethostname(name, sizeof name - 1);
    snprintf(host, KL_HOST_BYTES, "%s %s", name, boot);
}

static void list_addresses(struct place *p) {
    struct ifaddrs *all;
    int n = 0;
    if (getifaddrs(&all)) return;
    for (struct ifaddrs *i = all; i && n < MOST_ADDRESSES; i = i->ifa_next) {
        if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET) continue;
        if ((i->ifa_flags & IFF_LOOPBACK) || !(i->ifa_flags & IFF_UP)) continue;
        p->address[n++] = ((const struct sockaddr_in *)(const void *)i->ifa_addr)->sin_addr.s_addr;
    }
    freeifaddrs(all);
}

/* Connects to a lower rank: to its loopback address, or to the first that answers. */
static int reach(const struct place *to, const struct place *me, int to_rank, int rank,
                 int64_t until, int *fd, struct kl_error **err) {
    struct hello hello = {.secret = {me->secret[0], me->secret[1]}, .rank = rank};
    const bool here = strcmp(to->host, me->host) == 0;
    for (int i = 0; i < MOST_ADDRESSES && *fd < 0; i++) {
        const int64_t some = kl_clock_ns() + 5000000000;
        if (!here && !to->address[i]) break;
        *fd = kl_connect_until(here ? htonl(INADDR_LOOPBACK) : to->address[i], to->port,
                               here || until < some ? until : some);
        if (here) break;
    }
    if (*fd < 0 || kl_move_whole(*fd, &hello, sizeof hello, true, until))
        return kl_fail(err, KL_EGROUP,
                       "the control connections cannot be made: rank %d on %s cannot be reached",
                       to_rank, to->host);
    return KL_OK;
}

/* Accepts the connections of all higher ranks; those that do not know the secret are dropped. */
static int meet(struct kl_listener *l, const struct place *me, int rank, int size,
                const struct kl_gathering *by, int64_t until, int *fds, struct kl_error **err) {
    const int64_t often = 100000000; /* how often it is seen whether all are still here */
    for (int left = size - 1 - rank; left;) {
        struct hello hello;
        const int64_t now = kl_clock_ns(), soon = now + often < until ? now + often : until;
        const int fd = kl_listener_next(l, &hello, soon);
        const int why = errno; /* all_here asks the system too */
        const bool all = !by->all_here || by->all_here(by);
        if (fd < 0 && why == ETIMEDOUT && all && now < until) continue;
        if (fd < 0) {
            int missing = rank + 1;
            while (fds[missing] >= 0) missing++;
            return kl_fail(err, KL_EGROUP,
                           "the control connections cannot be made: rank %d did not connect with "
                           "rank %d: %s",
                           missing, rank,
                           !all               ? "a process gave up"
                           : why == ETIMEDOUT ? "it did not come within KEEL_DIST_TIMEOUT"
                                              : strerror(why));
        }
        if (memcmp(hello.secret, me->secret, sizeof hello.secret) == 0 && hello.rank > rank &&
            hello.rank < size && fds[hello.rank] < 0) {
            fds[hello.rank] = fd;
            left--;
        } else {
            close(fd);
        }
    }
    return KL_OK;
}

static int connect_all(int *fds, const struct place *all, struct kl_listener *l, int rank, int size,
                       const struct kl_gathering *by, int64_t until, struct kl_error **err) {
    for (int i = 0; i < rank; i++) KL_TRY(reach(&all[i], &all[rank], i, rank, until, &fds[i], err));
    KL_TRY(meet(l, &all[rank], rank, size, by, until, fds, err));
    const int on = 1;
    for (int i = 0; i < size; i++)
        if (fds[i] >= 0) (void)setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return KL_OK;
}

int kl_control_connect(int *fds, int *on_host, int rank, int size, const struct kl_gathering *by,
                       struct kl_error **err) {
    const int64_t until = kl_clock_ns() + by->limit_ns;
    struct place *all = kl_calloc((size_t)size + 1, sizeof *all), *me = all ? &all[size] : NULL;
    struct kl_listener *l = kl_malloc(sizeof *l);
    int rc = all && l ? KL_OK : kl_fail_nomem(err);
    bool one_host = true;
    if (l) l->fd = -1;
    if (!rc) {
        kl_host_name(me->host);
        list_addresses(me);
        if (!kl_random_bytes(me->secret, sizeof me->secret, true)) rc = fail(err, "random bytes");
    }
    /* First the hosts, which decide on which interface a process listens; then the ports. */
    if (!rc) rc = by->gather(by, me, all, sizeof *me, err);
    for (int i = 0; i < size && !rc; i++) {
        const bool here = strcmp(all[i].host, me->host) == 0;
        one_host = one_host && here;
        *on_host += here && i < rank;
    }
    if (!rc && kl_listener_open(l, htonl(one_host ? INADDR_LOOPBACK : INADDR_ANY), &me->port, size,
                                sizeof(struct hello)))
        rc = fail(err, "listen");
    if (!rc) rc = by->gather(by, me, all, sizeof *me, err);
    for (int i = 1; i < size && !rc; i++) memcpy(all[i].secret, all[0].secret, sizeof me->secret);
    if (!rc) rc = connect_all(fds, all, l, rank, size, by, until, err);
    if (l) kl_listener_close(l);
    kl_free(l);
    kl_free(all);
    return rc;
}
