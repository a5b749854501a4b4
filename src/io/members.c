/* members.c - see members.h. */
#include "io/members.h"

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void skip_space(struct kl_members *m) {
    while (m->p < m->end && is_space(*m->p)) m->p++;
}

static int fail(struct kl_members *m, const char *why) {
    m->why = m->p == m->end ? "premature end of input" : why;
    return -1;
}

/* p is at a quote. Returns the place after the string, or `end` when it does not end. */
static const char *after_string(const char *p, const char *end) {
    for (p++; p < end && *p != '"'; p++)
        if (*p == '\\' && p + 1 < end) p++;
    return p < end ? p + 1 : end;
}

static const char *after_word(const char *p, const char *end) {
    while (p < end && *p != ',' && *p != '}' && *p != ']' && !is_space(*p)) p++;
    return p;
}

/* p is at a bracket. Returns the place after the bracket that closes it. */
static const char *after_brackets(const char *p, const char *end, struct kl_member *counts) {
    for (size_t depth = 0; p < end;) {
        const char c = *p, *next = c == '"' ? after_string(p, end) : p + 1;
        if (c == '{' || c == '[') depth++;
        if (c == '{' || c == '[' || c == ',') counts->n_marks++;
        if (!is_space(c)) counts->n_solid += (size_t)(next - p);
        p = next;
        if ((c == '}' || c == ']') && --depth == 0) break;
    }
    return p;
}

struct kl_members kl_members_of(const char *text, const char *end) {
    return (struct kl_members){.p = text + 1, .end = end};
}

int kl_members_next(struct kl_members *m, struct kl_member *out) {
    *out = (struct kl_member){0};
    skip_space(m);
    if (m->p < m->end && *m->p == '}') {
        m->p++;
        return 0;
    }
    if (m->started) {
        if (m->p == m->end || *m->p != ',') return fail(m, "',' or '}' expected");
        m->p++;
        skip_space(m);
    }
    m->started = true;
    if (m->p == m->end || *m->p != '"') return fail(m, "a key in quotes expected");
    out->key = m->p;
    m->p = out->key_end = after_string(m->p, m->end);
    skip_space(m);
    if (m->p == m->end || *m->p != ':') return fail(m, "':' expected");
    m->p++;
    skip_space(m);
    if (m->p == m->end) return fail(m, NULL);
    out->value = m->p;
    if (*m->p == '{' || *m->p == '[') {
        m->p = after_brackets(m->p, m->end, out);
    } else {
        m->p = *m->p == '"' ? after_string(m->p, m->end) : after_word(m->p, m->end);
        out->n_solid = (size_t)(m->p - out->value);
    }
    out->value_end = m->p;
    return out->value_end > out->value ? 1 : fail(m, "a value expected");
}

bool kl_members_at_end(struct kl_members *m) {
    skip_space(m);
    if (m->p == m->end) return true;
    m->why = "end of file expected";
    return false;
}
