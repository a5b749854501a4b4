/* sockets_linux.c - see sockets.h. */
#include "base/platform/sockets.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

int kl_pipe_new(int ends[2]) {
    return pipe2(ends, O_CLOEXEC | O_NONBLOCK);
}

int kl_socket_new(bool blocks) {
    return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | (blocks ? 0 : SOCK_NONBLOCK), 0);
}

int kl_socket_accept(int listener) {
    return accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

ssize_t kl_socket_send(int fd, const void *data, size_t n) {
    return send(fd, data, n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void kl_machine_start(char *text, size_t n) {
    ssize_t got = 0;
    const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        got = read(fd, text, n - 1);
        if (got > 0 && text[got - 1] == '\n') got--;
        close(fd);
    }
    text[got > 0 ? got : 0] = 0;
}
