/* executor.c - see executor.h.
 *
 * These rules prevent lost work and deadlock:
 * - giving the role up and looking for new tasks is one critical section with appending tasks
 *   (s->mu);
 * - a task that cannot be launched parks its stream on a timeline of an earlier commit, so waits
 *   never form a cycle;
 * - a pool thread never blocks, except inside a callback of the user; callers may block. */
#include "runtime/executor.h"

#include "backend/collective/group.h"
#include "base/op/op_params.h"
#include "base/op/validate.h"
#include "base/value/failures.h"
#include "base/value/wait_hook.h"
#include "runtime/callback_waits.h"
#include "runtime/fusion.h"
#include "runtime/readers.h"

bool kl_executor_callback_waits(void) {
    return atomic_load(&kl_n_callback_waits) > 0;
}

bool kl_executor_in_task(void) {
    return kl_frames != NULL;
}

/* ---- one task ---- */

static void write_fates(struct kl_task *t, struct kl_error *e) {
    for (int i = 0; i < t->n_out; i++) {
        if (e)
            kl_fate_set_failed(t->out[i]->fate, e);
        else
            kl_fate_set_ready(t->out[i]->fate);
    }
}

/* The error of the failed input with the lowest number, retained, or NULL. *undecided: an input
 * with a lower number is pending; if that input fails, its error counts. */
static struct kl_error *failed_input(struct kl_task *t, bool *undecided) {
    *undecided = false;
    for (int i = 0; i < t->n_in; i++) {
        struct kl_fate *f = t->in[i]->fate;
        if (!kl_fate_settled(f)) {
            *undecided = true;
            continue;
        }
        struct kl_error *e = kl_fate_error(f);
        if (e) return kl_error_retain(e);
    }
    return NULL;
}

/* t has failed by itself with e (owned), but inputs of t may be pending on a device. If one of them
 * fails, its error counts instead. This waits for the device, which always finishes; it happens
 * only when there is no memory to decide it later. */
static struct kl_error *decide(struct kl_stream *s, struct kl_task *t, struct kl_error *e) {
    for (int i = 0; i < t->n_in; i++) {
        struct kl_fate *f = t->in[i]->fate;
        if (!kl_fate_settled(f) && s->backend->ops->flush)
            s->backend->ops->flush(s->backend, s->queue);
        while (!kl_fate_settled(f)) {
            if (s->backend->ops->poll) s->backend->ops->poll(s->backend, s->queue);
            if (!kl_fate_settled(f)) kl_timeline_block(f->timeline, f->ticket);
        }
        if (!kl_fate_error(f)) continue;
        kl_error_release(e);
        return kl_error_retain(kl_fate_error(f));
    }
    return e;
}

static void execute(struct kl_stream *s, struct kl_task *t) {
    const struct kl_backend_ops *ops = s->backend->ops;
    uint64_t ticket = t->ticket;
    atomic_store_explicit(&s->running, t, memory_order_release);
    bool undecided, pending = false, launched = false;
    struct kl_error *e = failed_input(t, &undecided);
    if (e && undecided) {
        kl_error_release(e);
        e = NULL;
        pending = ops->drop(s->backend, s->queue, t, &e) == KL_LAUNCH_PENDING;
    } else if (!e || kl_op_is_collective(t->op)) {
        if (!e) (void)kl_bind_task(s, t, &e);
        if (!e || kl_op_is_collective(t->op)) {
            launched = true;
            pending = ops->launch(s->backend, s->queue, t, &e) == KL_LAUNCH_PENDING;
            if (!pending && !e && kl_validating())
                kl_bind_check_guards(s, t, &e); /* the task ran on the CPU */
        }
        kl_bind_after_launch(t);
    }
    if (!pending && e) e = decide(s, t, e);
    if (!pending && !launched && t->op == KL_OP_CALL) {
        const struct kl_call_params *call = t->params;
        if (call->skipped) call->skipped(call->ctx, e);
    }
    /* Inputs are released before the fate is settled: a thread that sees the value settled also
     * sees the memory of its inputs released. */
    t->release_inputs(t);
    if (!pending) {
        /* The failure is noted first: a thread that reads the value at once and gets the error must
         * find the note, to remove it. */
        if (e) kl_failures_note(s->index, e, t->submitter);
        write_fates(t, e);
    }
    bool skip = !pending && ops->skip;
    if (skip) ops->skip(s->backend, s->queue, t);
    atomic_store_explicit(&s->running, NULL, memory_order_release);
    t->finish(t);
    kl_error_release(e);
    if (!pending && !skip) kl_timeline_publish(&s->settled, ticket);
}

#ifdef KL_TEST_HOOKS
static _Atomic(uint64_t) n_cancelled;

uint64_t kl_test_n_cancelled(void) {
    return atomic_load(&n_cancelled);
}
#endif

/* Settles t, which is abandoned, without running it. Nobody reads the fate that it gets: but those
 * who hold its buffer or wait for its ticket find an end of it. */
static void cancel(struct kl_stream *s, struct kl_task *t) {
    const struct kl_backend_ops *ops = s->backend->ops;
    uint64_t ticket = t->ticket;
    atomic_store_explicit(&s->running, t, memory_order_release);
    /* If it was not started when it was dropped, its inputs belong to the thread that dropped it,
     * which may be releasing them now. */
    if (atomic_load_explicit(&t->state, memory_order_acquire) & KL_TASK_STARTED)
        t->release_inputs(t);
    write_fates(t, kl_error_static(KL_ECANCELLED));
#ifdef KL_TEST_HOOKS
    atomic_fetch_add(&n_cancelled, 1);
#endif
    if (ops->skip) ops->skip(s->backend, s->queue, t);
    atomic_store_explicit(&s->running, NULL, memory_order_release);
    t->finish(t);
    if (!ops->skip) kl_timeline_publish(&s->settled, ticket);
}

/* The steps have run. Finishes each task as `execute` does. An unfinished task stays in s->local,
 * where a forked child finds it. */
static void finish_fusion(struct kl_stream *s, struct kl_fusion_step *steps, int n) {
    for (int j = 0; j < n; j++) {
        struct kl_task *t = steps[j].task;
        uint64_t ticket = t->ticket;
        atomic_store_explicit(&s->running, t, memory_order_release);
        kl_list_remove(&t->link);
        t->release_inputs(t);
        write_fates(t, NULL);
        atomic_store_explicit(&s->running, NULL, memory_order_release);
        t->finish(t);
        kl_timeline_publish(&s->settled, ticket);
    }
}

/* Runs t, the stream's next task, together with the tasks after it that can run in the same kernel.
 * false: t must run alone. */
static bool execute_fusion(struct kl_stream *s, struct kl_task *t, uint64_t until, bool *last) {
    struct kl_fusion_step steps[KL_FUSION_STEPS];
    int n = kl_fusion_form(s, t, until, steps);
    if (n < 2 || !kl_fusion_bind(s, steps, n)) return false;
    atomic_store_explicit(&s->running, t, memory_order_release);
    if (!s->backend->ops->launch_fusion(s->backend, steps, n)) {
        kl_fusion_unbind(steps, n);
        return false;
    }
    kl_fusion_after_launch(steps, n);
    *last = steps[n - 1].task->ticket >= until;
    finish_fusion(s, steps, n);
    return true;
}

/* Whether t must wait for something before it can be launched. */
static bool must_wait(struct kl_stream *s, struct kl_task *t, struct kl_wait *w) {
    /* Work of others is settled later than it is begun, also where it is of this stream. */
    const struct kl_timeline *in_order = s->backend->ops->waits_for_own ? NULL : &s->settled;
    for (int i = 0; i < t->n_in; i++) {
        struct kl_fate *f = t->in[i]->fate;
        if (kl_fate_settled(f) || f->timeline == in_order) continue;
        if (s->backend->ops->waits_for(s->backend, s->queue, f, w)) return true;
    }
    return kl_op_is_collective(t->op) && kl_collective_waits(t, w);
}

/* ---- the role ---- */

bool kl_stream_is_valid(const struct kl_stream *s) {
    /* Only the holder of the role takes tasks out of `local`. An idle stream has no holder, so no
     * task may be left in `local` when the role is given up. */
    if (s->role == KL_IDLE && !kl_list_empty(&s->local)) return false;
    if (s->role == KL_QUEUED && !s->in_pool) return false;
    if (s->role == KL_PARKED && !s->parked_on.timeline) return false;
    return kl_timeline_done(&s->settled) <= atomic_load(&s->last_ticket);
}

enum queued { NOT_QUEUED, HAS_PLACE, NEEDS_PLACE };

/* Makes s QUEUED; the caller holds s->mu, and calls tell_queued after it has unlocked it. */
static enum queued make_queued(struct kl_stream *s) {
    s->role = KL_QUEUED;
    /* A caller took s out of turn, and its place in the pool is still there. */
    if (s->in_pool) return HAS_PLACE;
    s->in_pool = true;
    return NEEDS_PLACE;
}

/* The caller holds no lock. */
static void tell_queued(struct kl_stream *s, enum queued q) {
    if (q == NOT_QUEUED) return;
    if (q == NEEDS_PLACE && s->is_reader)
        kl_readers_push(&s->item);
    else if (q == NEEDS_PLACE)
        kl_pool_push(&s->item);
    /* Wherever its place is: every thread of the pool may be waiting in a callback. */
    kl_callback_waits_kick();
}

void kl_executor_wake(struct kl_stream *s) {
    kl_mutex_lock(s->mu);
    enum queued q = NOT_QUEUED;
    if (s->role == KL_IDLE && !kl_list_empty(&s->inbox)) q = make_queued(s);
    kl_assert_slow(kl_stream_is_valid(s));
    kl_mutex_unlock(s->mu);
    tell_queued(s, q);
}

static void unpark(struct kl_waiter *w) {
    struct kl_stream *s = kl_container(w, struct kl_stream, park);
    kl_mutex_lock(s->mu);
    const enum queued q = s->role == KL_PARKED ? make_queued(s) : NOT_QUEUED;
    kl_assert_slow(kl_stream_is_valid(s));
    kl_mutex_unlock(s->mu);
    tell_queued(s, q);
}

/* Parks s on w. false: w is already done, and this thread still holds the role. */
static bool park(struct kl_stream *s, const struct kl_wait *w) {
    s->park.ticket = w->ticket;
    s->park.wake = unpark;
    kl_mutex_lock(s->mu);
    s->role = KL_PARKED;
    s->parked_on = *w;
    kl_assert_slow(kl_stream_is_valid(s));
    kl_mutex_unlock(s->mu);
    if (kl_timeline_register(w->timeline, &s->park)) {
        /* From here on another thread may already run s. */
        kl_callback_waits_check();
        return true;
    }
    kl_mutex_lock(s->mu);
    s->role = KL_RUNNING;
    kl_mutex_unlock(s->mu);
    return false;
}

static enum kl_holds holds(struct kl_stream *s, bool patient, struct kl_wait *w) {
    const struct kl_backend_ops *ops = s->backend->ops;
    return ops->holds ? ops->holds(s->backend, s->queue, patient, w) : KL_HOLDS_NOTHING;
}

/* The next task of s, or NULL; the caller keeps the role. */
static struct kl_task *look_for_task(struct kl_stream *s) {
    if (kl_list_empty(&s->local)) {
        kl_mutex_lock(s->mu);
        kl_list_splice(&s->local, &s->inbox);
        kl_mutex_unlock(s->mu);
    }
    struct kl_link *n = kl_list_first(&s->local);
    return n ? kl_container(n, struct kl_task, link) : NULL;
}

/* The next task of s; the caller keeps the role. NULL: there was no task, and the role is given
 * up. */
static struct kl_task *next_task(struct kl_stream *s) {
    struct kl_link *n = kl_list_first(&s->local);
    if (n) return kl_container(n, struct kl_task, link);
    kl_mutex_lock(s->mu);
    kl_list_splice(&s->local, &s->inbox);
    n = kl_list_first(&s->local);
    if (!n) {
        kl_mutex_unlock(s->mu);
        /* The flush is outside the lock; afterwards look again, because tasks may have come. */
        if (s->backend->ops->flush) s->backend->ops->flush(s->backend, s->queue);
        kl_mutex_lock(s->mu);
        kl_list_splice(&s->local, &s->inbox);
        n = kl_list_first(&s->local);
        if (!n) s->role = KL_IDLE;
        kl_assert_slow(kl_stream_is_valid(s));
    }
    kl_mutex_unlock(s->mu);
    return n ? kl_container(n, struct kl_task, link) : NULL;
}

/* The caller holds s->mu and the role. */
static bool has_more(struct kl_stream *s) {
    return !kl_list_empty(&s->local) || !kl_list_empty(&s->inbox);
}

static void give_up_rest(struct kl_stream *s) {
    const struct kl_backend_ops *ops = s->backend->ops;
    kl_mutex_lock(s->mu);
    bool more = has_more(s); /* then there will be more until the next holder takes it */
    kl_mutex_unlock(s->mu);
    if (more && ops->cut)
        ops->cut(s->backend, s->queue);
    else if (ops->flush)
        ops->flush(s->backend, s->queue);
    kl_mutex_lock(s->mu);
    enum queued q = NOT_QUEUED;
    if (has_more(s))
        q = make_queued(s);
    else
        s->role = KL_IDLE;
    kl_assert_slow(kl_stream_is_valid(s));
    kl_mutex_unlock(s->mu);
    tell_queued(s, q);
}

/* Whether the commands of s go on with its next task. If another holder of the role began with that
 * task, the same program would give the device other commands than where one holder encodes all
 * of it, and drivers keep what they made for commands that come again. */
static bool goes_on(struct kl_stream *s) {
    const struct kl_backend_ops *ops = s->backend->ops;
    const struct kl_task *t = ops->ends_before ? look_for_task(s) : NULL;
    return t && !ops->ends_before(s->backend, s->queue, t);
}

void kl_executor_run(struct kl_stream *s, uint64_t until, bool to_cut) {
    struct kl_frame frame = {s, kl_frames};
    kl_frames = &frame;
    /* A hook that ended a wait inside a task would make that task fail. */
    struct kl_wait_hook hook = kl_wait_hook_set((struct kl_wait_hook){NULL, NULL});
    for (;;) {
        struct kl_wait w, of_held;
        const enum kl_holds held = holds(s, false, NULL);
        struct kl_task *t = held == KL_HOLDS_FULL ? NULL : held ? look_for_task(s) : next_task(s);
        if (!t && !held) break;
        if (!t) {
            if (holds(s, true, &w) && park(s, &w)) break;
            continue;
        }
        const bool abandoned = !kl_task_start(t);
        if (!abandoned && must_wait(s, t, &w)) {
            if (s->backend->ops->flush) s->backend->ops->flush(s->backend, s->queue);
            const bool put_off = kl_task_put_off(t);
            if (put_off && held && holds(s, true, &of_held)) w = of_held;
            if (put_off && park(s, &w)) break;
            continue;
        }
        bool last;
        if (abandoned || !execute_fusion(s, t, until, &last)) {
            last = t->ticket >= until;
            kl_list_remove(&t->link);
            if (abandoned)
                cancel(s, t);
            else
                execute(s, t);
        }
        /* A caller that runs tasks comes back to ask its hook. It may then go on here. */
        const bool ends = (last && !(to_cut && goes_on(s))) || kl_wait_hook_due(&hook);
        if (ends && !holds(s, false, NULL)) {
            give_up_rest(s);
            break;
        }
    }
    kl_wait_hook_set(hook);
    kl_frames = frame.outer;
}

static void run_item(struct kl_item *item) {
    struct kl_stream *s = kl_container(item, struct kl_stream, item);
    kl_mutex_lock(s->mu);
    s->in_pool = false;
    bool mine = s->role == KL_QUEUED;
    if (mine) s->role = KL_RUNNING;
    kl_mutex_unlock(s->mu);
    if (mine) kl_executor_run(s, UINT64_MAX, false);
}

enum { N_LOCKS = 12 };
/* Each lock has its own cache line, so that threads that take different locks do not slow each
 * other down. */
static struct {
    _Alignas(64) struct kl_mutex mu;
} locks[N_LOCKS] = {[0 ... N_LOCKS - 1] = {KL_MUTEX_INIT}};

void kl_executor_fork_lock(bool lock) {
    for (int i = 0; i < N_LOCKS; i++) {
        if (lock)
            kl_mutex_lock(&locks[i].mu);
        else
            kl_mutex_unlock(&locks[N_LOCKS - 1 - i].mu);
    }
}

void kl_executor_stream_init(struct kl_stream *s) {
    kl_timeline_init(&s->settled);
    kl_timeline_init(&s->handed);
    s->mu = &locks[s->index % N_LOCKS].mu;
    kl_list_init(&s->staged);
    kl_list_init(&s->inbox);
    kl_list_init(&s->local);
    s->role = KL_IDLE;
    s->item.run = run_item;
}

void kl_executor_hand_over(struct kl_stream *s) {
    for (const struct kl_frame *f = kl_frames; f; f = f->outer) {
        if (f->stream != s) continue;
        (void)holds(s, false, NULL); /* this thread runs it */
        return;
    }
    kl_mutex_lock(s->mu);
    const bool mine = s->role == KL_QUEUED;
    if (mine) s->role = KL_RUNNING;
    kl_mutex_unlock(s->mu);
    if (!mine) return;
    (void)holds(s, false, NULL);
    kl_mutex_lock(s->mu);
    const enum queued q = make_queued(s);
    kl_mutex_unlock(s->mu);
    tell_queued(s, q);
}

/* ---- waiting ---- */

/* Beginning with the stream that owes on->ticket, follows the parked streams to one that is queued,
 * and runs it. false: every stream on the way is being run, or a device has the work; *on is the
 * wait for the last of them. */
static bool help(struct kl_wait *on) {
    for (int hops = 0; hops < 1000; hops++) {
        struct kl_stream *s = on->timeline->owner;
        /* The rest of the stream is not needed. The pool encodes it while this thread waits and
         * goes on: a program that decodes a language model builds the next step. */
        const struct kl_timeline *handed = on->timeline->handed;
        if (handed && kl_timeline_done(handed) >= on->ticket) return false;
        bool mine = false;
        struct kl_wait next = {NULL, 0};
        kl_mutex_lock(s->mu);
        if (s->role == KL_QUEUED && !s->is_reader) {
            s->role = KL_RUNNING;
            mine = true;
        } else if (s->role == KL_PARKED) {
            next = s->parked_on;
        }
        kl_mutex_unlock(s->mu);
        /* Encoding is cheap, but ending a command buffer at every reader is not. */
        if (mine) {
            kl_executor_run(s, s->type == KL_GPU ? UINT64_MAX : on->ticket, false);
            return true;
        }
        if (!next.timeline || kl_timeline_done(next.timeline) >= next.ticket) return false;
        *on = next;
    }
    return false;
}

/* Another thread or a device does the work that `on` waits for. If it is a device, polls it.
 * Returns whether the work is done. */
static bool watch(const struct kl_wait *on) {
    struct kl_stream *s = on->timeline->owner;
    const struct kl_backend_ops *ops = s->backend->ops;
    if (ops->poll) ops->poll(s->backend, s->queue);
    return ops->watch && !kl_executor_in_task() && ops->watch(s->backend, on->timeline, on->ticket);
}

/* A few microseconds, which is what another thread needs for the rest of a tiny task. */
enum { SPINS = 150 };

int kl_wait_fate(struct kl_fate *f, struct kl_error **err) {
    while (!kl_fate_settled(f)) {
        struct kl_timeline *t = f->timeline;
        struct kl_wait on = {t, f->ticket};
        KL_TRY(kl_wait_ask(err));
        if (help(&on) || watch(&on)) continue;
        for (int i = 0; i < SPINS && !kl_fate_settled(f); i++) kl_pause_cpu();
        if (kl_fate_settled(f)) break;
        if (kl_executor_in_task())
            KL_TRY(kl_callback_waits_block(t, f->ticket, help, err));
        else if (!kl_timeline_wait(t, f->ticket))
            return kl_wait_fail(err);
    }
    return KL_OK;
}

static int wait_ticket(struct kl_stream *s, uint64_t ticket, struct kl_error **err) {
    kl_wait_begin();
    while (kl_timeline_done(&s->settled) < ticket) {
        struct kl_wait on = {&s->settled, ticket};
        KL_TRY(kl_wait_ask(err));
        if (help(&on) || watch(&on)) continue;
        if (kl_timeline_done(&s->settled) >= ticket) break;
        if (kl_executor_in_task())
            KL_TRY(kl_callback_waits_block(&s->settled, ticket, help, err));
        else if (!kl_timeline_wait(&s->settled, ticket))
            return kl_wait_fail(err);
    }
    return KL_OK;
}

/* Waits for the tasks that streams of groups run for s. Which these are is not known, so this waits
 * for all streams of groups, but only while there are some. */
static int wait_shared(struct kl_stream *s, struct kl_error **err) {
    struct kl_stream *o;
    for (int i = 0; atomic_load(&s->n_shared) > 0 && (o = kl_stream_at(i)); i++)
        if (atomic_load(&o->of_group)) KL_TRY(wait_ticket(o, atomic_load(&o->last_ticket), err));
    return KL_OK;
}

int kl_stream_synchronize(struct kl_stream *s, struct kl_error **err) {
    KL_TRY(wait_ticket(s, atomic_load(&s->last_ticket), err));
    KL_TRY(wait_shared(s, err));
    struct kl_error *e = kl_failures_oldest(s->index);
    if (!e) return KL_OK;
    kl_failures_delivered(e);
    return kl_fail_with(err, e);
}

/* ---- fork ---- */

static void fail_forked(struct kl_task *t) {
    for (int i = 0; i < t->n_out; i++)
        if (!kl_fate_settled(t->out[i]->fate))
            kl_fate_set_failed(t->out[i]->fate, kl_error_static(KL_EFORK));
}

void kl_executor_forked(struct kl_stream *s) {
    /* The tasks themselves are not freed: a thread that the child does not have may have been in
     * the middle of freeing them. */
    struct kl_task *running = atomic_load(&s->running);
    if (running) fail_forked(running);
    for (struct kl_link *n = s->local.head.next; n != &s->local.head; n = n->next)
        fail_forked(kl_container(n, struct kl_task, link));
    for (struct kl_link *n = s->inbox.head.next; n != &s->inbox.head; n = n->next)
        fail_forked(kl_container(n, struct kl_task, link));
    kl_list_init(&s->local);
    kl_list_init(&s->inbox);
    s->running = NULL;
    s->role = KL_IDLE;
    s->in_pool = false;
    s->item.link.prev = s->item.link.next = NULL;
    kl_list_init(&s->settled.waiters);
    kl_list_init(&s->handed.waiters);
    atomic_store(&s->n_shared, 0);
    uint64_t last = atomic_load(&s->last_ticket);
    atomic_store(&s->settled.word, last * 2);
    atomic_store(&s->handed.word, last * 2);
}
