/* main_thread_linux.c - the main thread has the number of the process, also after a fork. */
#include "platform/main_thread.h"

#include <sys/syscall.h>
#include <unistd.h>

bool kp_on_main_thread(void) {
    return syscall(SYS_gettid) == getpid();
}
