/* sockets.h - pipes and sockets that no child of exec inherits and that raise no SIGPIPE. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Two ends, to read from and to write to, which do not block. 0, or -1 with errno. */
int kl_pipe_new(int ends[2]);
/* A socket of TCP over IPv4. -1 with errno. */
int kl_socket_new(bool blocks);
/* The next connection, which does not block. -1 with errno. */
int kl_socket_accept(int listener);
/* As send, without blocking and without a signal. */
ssize_t kl_socket_send(int fd, const void *data, size_t n);

/* Writes the number that the machine drew at its start, at most n - 1 characters, or "". */
void kl_machine_start(char *text, size_t n);
