/* sockets_macos.c - see sockets.h. The flags are set after a descriptor is made: a child that
 * another thread starts between the two calls inherits it. */
#include "base/platform/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/sysctl.h>
#include <unistd.h>

/* Returns fd, or closes it and returns -1. */
static int prepared(int fd, bool blocks, bool is_socket) {
    const int on = 1;
    if (fd < 0) return fd;
    bool ok = fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
    if (ok && !blocks) ok = fcntl(fd, F_SETFL, O_NONBLOCK) == 0;
    if (ok && is_socket) ok = setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on) == 0;
    if (ok) return fd;
    const int why = errno;
    close(fd);
    errno = why;
    return -1;
}

int kl_pipe_new(int ends[2]) {
    int made[2];
    if (pipe(made)) return -1;
    if (prepared(made[0], false, false) < 0) {
        const int why = errno;
        close(made[1]);
        errno = why;
        return -1;
    }
    if (prepared(made[1], false, false) < 0) {
        const int why = errno;
        close(made[0]);
        errno = why;
        return -1;
    }
    ends[0] = made[0];
    ends[1] = made[1];
    return 0;
}

int kl_socket_new(bool blocks) {
    return prepared(socket(AF_INET, SOCK_STREAM, 0), blocks, true);
}

int kl_socket_accept(int listener) {
    return prepared(accept(listener, NULL, NULL), false, true);
}

ssize_t kl_socket_send(int fd, const void *data, size_t n) {
    return send(fd, data, n, MSG_DONTWAIT);
}

void kl_machine_start(char *text, size_t n) {
    if (sysctlbyname("kern.bootsessionuuid", text, &n, NULL, 0)) text[0] = 0;
}
