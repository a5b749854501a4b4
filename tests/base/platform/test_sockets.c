/* test_sockets.c - pipes and sockets do not block where they must not, are not inherited, and raise
 * no signal; where there are no descriptors left they are errors. */
#include "support.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/platform/sockets.h"

static void expect_kind(int fd, bool blocks) {
    assert_true(fd >= 0);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(!(fcntl(fd, F_GETFL) & O_NONBLOCK), blocks);
}

static void a_pipe_does_not_block(void **state) {
    int ends[2];
    char byte;
    assert_int_equal(kl_pipe_new(ends), 0);
    expect_kind(ends[0], false);
    expect_kind(ends[1], false);
    assert_int_equal(read(ends[0], &byte, 1), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(write(ends[1], "x", 1), 1);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    assert_int_equal(byte, 'x');
    close(ends[0]);
    close(ends[1]);
}

static int listens(struct sockaddr_in *at) {
    socklen_t bytes = sizeof *at;
    const int fd = kl_socket_new(true);
    expect_kind(fd, true);
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    assert_int_equal(bind(fd, (struct sockaddr *)(void *)at, sizeof *at), 0);
    assert_int_equal(listen(fd, 4), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)(void *)at, &bytes), 0);
    return fd;
}

static void a_lost_peer_is_an_error_and_no_signal(void **state) {
    struct sockaddr_in at;
    char byte = 0;
    int there, rc, listener = listens(&at), here = kl_socket_new(false);
    expect_kind(here, false);
    rc = connect(here, (struct sockaddr *)(void *)&at, sizeof at);
    assert_true(rc == 0 || errno == EINPROGRESS);
    struct pollfd p = {.fd = listener, .events = POLLIN};
    assert_int_equal(poll(&p, 1, -1), 1);
    there = kl_socket_accept(listener);
    expect_kind(there, false);
    assert_int_equal(kl_socket_send(there, "y", 1), 1);
    p = (struct pollfd){.fd = here, .events = POLLIN};
    assert_int_equal(poll(&p, 1, -1), 1);
    assert_int_equal(recv(here, &byte, 1, 0), 1);
    assert_int_equal(byte, 'y');
    /* No bytes can be written any more; the default of SIGPIPE would end the process. */
    assert_int_equal(shutdown(there, SHUT_WR), 0);
    assert_int_equal(kl_socket_send(there, "z", 1), -1);
    assert_int_equal(errno, EPIPE);
    close(here);
    close(there);
    close(listener);
    assert_int_equal(kl_socket_accept(listener), -1);
    assert_int_equal(kl_socket_send(there, "z", 1), -1);
}

static void no_descriptor_is_an_error(void **state) {
    struct rlimit before, none;
    int ends[2] = {-7, -7};
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const int next = dup(0); /* the descriptors below it are taken */
    assert_true(next >= 0);
    close(next);
    none = (struct rlimit){.rlim_cur = (rlim_t)next, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    const int one = kl_socket_new(false), why_one = errno;
    const int two = kl_pipe_new(ends), why_two = errno;
    none.rlim_cur++; /* room for one end of a pipe */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    const int three = kl_pipe_new(ends);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(one, -1);
    assert_int_equal(why_one, EMFILE);
    assert_int_equal(two, -1);
    assert_int_equal(why_two, EMFILE);
    assert_int_equal(three, -1);
    const int again = dup(0); /* nothing was left open */
    assert_int_equal(again, next);
    close(again);
}

static void the_start_of_the_machine_has_a_number(void **state) {
    char first[40], again[40], small[5] = "....";
    kl_machine_start(first, sizeof first);
    kl_machine_start(again, sizeof again);
    assert_string_equal(first, again);
    kl_machine_start(small, sizeof small);
    assert_true(strlen(small) < sizeof small);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pipe_does_not_block),
        cmocka_unit_test(a_lost_peer_is_an_error_and_no_signal),
        cmocka_unit_test(no_descriptor_is_an_error),
        cmocka_unit_test(the_start_of_the_machine_has_a_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
