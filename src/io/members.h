/* members.h - the members of a JSON object, one at a time.
 *
 * A tree of a whole header takes up to 78 times its bytes. So the header is cut into members here,
 * and the JSON library sees one of them at a time. Cutting looks only at quotes and brackets: that
 * a key and a value are valid JSON is for the library to say. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct kl_members {
    const char *p, *end; /* what is left of the text */
    bool started;        /* a member has been taken */
    const char *why;     /* what is wrong at p */
};
struct kl_member {
    const char *key, *key_end; /* with its quotes */
    const char *value, *value_end;
    size_t
        n_marks; /* commas and opening brackets in the value, which tell how many values it has */
    size_t n_solid; /* its bytes that are not space between values */
};

/* text must begin with '{'. */
struct kl_members kl_members_of(const char *text, const char *end);
/* 1: *out is the next member; 0: the object has ended, and m->p is after it; -1: the text at m->p
 * is wrong, as m->why says. */
int kl_members_next(struct kl_members *m, struct kl_member *out);
/* Whether nothing but space is left after the object. */
bool kl_members_at_end(struct kl_members *m);
