/* main_thread.h - which thread runs Python's handlers of signals. */
#pragma once
#include <stdbool.h>

/* Whether the calling thread is the first of its process, or the one that a fork left. */
bool kp_on_main_thread(void);
