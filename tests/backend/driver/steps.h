/* steps.h - what the conformance suite and the tests of single drivers do alike. */
#pragma once
#include "support.h"

#include <pthread.h>

#include "backend/gpu/driver.h"

/* The call (with &err) must succeed, or the test fails with its message. */
#define WELL(call)                                                 \
    do {                                                           \
        struct kl_error *err = NULL;                               \
        int rc_ = (call);                                          \
        if (rc_) fail_msg("%d: %s", rc_, err ? err->message : ""); \
    } while (0)
/* The call (with &err) must fail with this code, and its message must contain the text. */
#define ILL(call, code, text)                                                            \
    do {                                                                                 \
        struct kl_error *err = NULL;                                                     \
        assert_int_equal((call), code);                                                  \
        assert_non_null(err);                                                            \
        if (!strstr(err->message, text)) fail_msg("no '%s' in: %s", text, err->message); \
        kl_error_release(err);                                                           \
    } while (0)

struct copier {
    struct kl_driver *drv;
    int id;
    bool ok;
};
static inline void *copy_round(void *arg) {
    struct copier *c = arg;
    struct kl_driver *drv = c->drv;
    size_t n = c->id % 2 ? 500 : 700 << 10;
    unsigned char *a = malloc(n), *b = malloc(n);
    void *p = NULL;
    c->ok = drv->ops->alloc(drv, n, &p, NULL) == KL_OK;
    for (int k = 0; k < 20 && c->ok; k++) {
        memset(a, c->id * 20 + k, n);
        c->ok = drv->ops->write(drv, p, 0, a, n, NULL) == KL_OK &&
                drv->ops->read(drv, p, 0, b, n, NULL) == KL_OK && memcmp(a, b, n) == 0;
    }
    if (p) drv->ops->free(drv, p, n);
    free(a);
    free(b);
    return NULL;
}

/* Four threads copy to blocks of their own and back, all at once. */
static inline void copy_on_threads(struct kl_driver *drv) {
    struct copier c[4];
    pthread_t t[4];
    for (int i = 0; i < 4; i++) {
        c[i].drv = drv;
        c[i].id = i;
        assert_int_equal(pthread_create(&t[i], NULL, copy_round, &c[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(t[i], NULL);
        assert_true(c[i].ok);
    }
}
