/* waits.c - the library is called without the GIL; Ctrl-C ends what it waits for */
#include "keel_python.h"
#include "platform/main_thread.h"

/* The exception that a signal's handler raised while the main thread waited. Guarded by the GIL. */
static PyObject *raised[3];

/* The hook of every wait. Python runs handlers of signals on the main thread only. */
static int signals(void *ctx) {
    (void)ctx;
    if (!kp_on_main_thread()) return 0;
    PyGILState_STATE g = PyGILState_Ensure();
    if (!raised[0] && PyErr_CheckSignals()) PyErr_Fetch(&raised[0], &raised[1], &raised[2]);
    int ends = raised[0] != NULL;
    PyGILState_Release(g);
    return ends;
}

struct kp_unlocked kp_unlock(void) {
    keel_wait_hook before = keel_set_wait_hook((keel_wait_hook){signals, NULL});
    return (struct kp_unlocked){PyEval_SaveThread(), before};
}

void kp_lock(struct kp_unlocked u) {
    PyEval_RestoreThread(u.thread);
    keel_set_wait_hook(u.before);
}

bool kp_raise_signal(void) {
    if (!raised[0]) return false;
    PyErr_Restore(raised[0], raised[1], raised[2]);
    raised[0] = raised[1] = raised[2] = NULL;
    return true;
}
