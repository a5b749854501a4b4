/* main_thread_macos.c - the system knows the main thread, also after a fork. */
#include "platform/main_thread.h"

#include <pthread.h>

bool kp_on_main_thread(void) {
    return pthread_main_np() == 1;
}
