/* protocol.pml - commit, tickets, the executor role, parking, fates: all interleavings.
 *
 * Two evaluators commit graphs of two nodes whose edges cross the streams in opposite directions:
 *     evaluator 0:  a on stream 0,  b = f(a) on stream 1
 *     evaluator 1:  c on stream 1,  d = f(c) on stream 0
 * The kernel of a fails. So b must fail with a's error; c and d must be ready. Two waiters, one for
 * b and one for d, must both come back and see just that. README.md maps names to src/.
 *
 * Variants, each a mistake that must be found:
 *     APPEND_WITHOUT_COMMIT_LOCK  tickets and appends stream by stream, no lock around all of them
 *     TICKET_BEFORE_FATE          the ticket is published before the fate is written
 *     TWO_WORDS                   has-waiters in a word of its own, no common read-modify-write
 *     GIVE_UP_IN_TWO_STEPS        look for tasks, then give the role up, in two critical sections
 *     LEAVE_WITHOUT_THE_WAKE_UP   a waiter whose hook ends the wait leaves though its wake-up comes
 *                                 (with HOOK)
 *
 * What a lock guards completely is one atomic step here (kl_stream.mu: role, inbox, in_pool). The
 * timeline's lock is a variable of its own, because publishing works on the word without it. */

#define PENDING 0
#define READY 1
#define FAILED_BY_A 2 /* the error object that a's kernel made */

#define A 0
#define B 1
#define C 2
#define D 3
#define NONE 4

#define STREAM_OF(v) (((v) == B || (v) == C) -> 1 : 0)
#define INPUT_OF(v) ((v) == B -> A : ((v) == D -> C : NONE))
#define FOREVER 9 /* as `until`: no ticket ends the run */

mtype = { IDLE, QUEUED, RUNNING, PARKED };

/* Arrays: kl_fate.state and kl_fate.ticket. A ticket of 0 is "not committed". */
byte fate[4];
byte ticket[4];
bit ran[4]; /* ghost: the kernel has run */

/* Streams. */
byte last_ticket[2];
mtype role[2] = IDLE;
chan inbox[2] = [2] of { byte }; /* committed, not yet taken */
chan taken[2] = [2] of { byte }; /* taken by the role holder, who alone touches it */
byte parked_ticket[2];           /* of the other stream's timeline, all there is to wait for */
bit in_pool[2];                  /* the stream has a place in the pool, or is about to get it */
bit waking[2];                   /* a committing thread will wake it once it has unlocked */

/* Timelines (kl_timeline.word is done and bit together). On the timeline of stream t wait at most
 * the other stream, parked (p_), and the waiter for that stream's result (w_). */
byte done[2];
bit has_waiters[2];
bit timeline_mu[2];
bit p_on[2], w_on[2]; /* linked in the list of waiters */
byte w_ticket[2];
bit w_woken[2];       /* the blocked waiter's parker */
#ifdef HOOK /* the waiter for b has a hook that ends one of its waits; nobody waits for d */
bit hook = 1;
bit w_there; /* ghost: the waiter, which is on its thread's stack, exists */
#endif

bit commit_mu;

/* What a thread that runs streams needs. Values that are no longer needed go back to 0, so that
 * states that differ in nothing that matters are one. */
#define THREAD_LOCALS \
    byte v, in, e, old, hops, hs, ht; \
    bit more, go_on, wake_p, wake_w, mine, helped

/* ---- timeline.c ---- */

inline wake_satisfied(wt) {
    atomic {
        timeline_mu[wt] == 0;
        /* done is read again under the lock; only the publisher itself changes it. */
        if
        :: p_on[wt] && parked_ticket[1 - wt] <= done[wt] -> p_on[wt] = 0; wake_p = 1
        :: else
        fi;
        if
        :: w_on[wt] && w_ticket[wt] <= done[wt] -> w_on[wt] = 0; wake_w = 1
        :: else
        fi;
        if
        :: !p_on[wt] && !w_on[wt] -> has_waiters[wt] = 0
        :: else
        fi
    }
    /* The wake functions are called without the lock. */
    if
    :: wake_w ->
        wake_w = 0;
#ifdef HOOK
        assert(w_there);
#endif
        w_woken[wt] = 1
    :: else
    fi;
    if
    :: wake_p -> /* unpark() in executor.c */
        wake_p = 0;
        atomic {
            if
            :: role[1 - wt] == PARKED -> make_queued(1 - wt)
            :: else
            fi
        }
    :: else
    fi
}

inline publish(pt, ptk) {
#ifdef TWO_WORDS
    /* A plain store of one word, then a plain load of the other: the load may overtake the store,
     * so that is what happens here. */
    old = has_waiters[pt];
    done[pt] = ptk;
#else
    atomic {
        assert(ptk == done[pt] + 1); /* one publisher at a time, tickets in order */
        done[pt] = ptk;
        old = has_waiters[pt]
    }
#endif
    if
    :: old -> old = 0; wake_satisfied(pt)
    :: else
    fi
}

/* Registers with `on` as the waiter's place in the list; go_on: the ticket is done already. The
 * publisher may come between any two steps: it does not take the lock to count. */
inline register_waiter(rt, rtk, on) {
#ifdef TWO_WORDS
    atomic { timeline_mu[rt] == 0; timeline_mu[rt] = 1; has_waiters[rt] = 1 }
    go_on = (done[rt] >= rtk);
#else
    atomic {
        timeline_mu[rt] == 0;
        timeline_mu[rt] = 1;
        go_on = (done[rt] >= rtk);
        has_waiters[rt] = 1
    }
#endif
    atomic {
        if
        :: !go_on -> on = 1
        :: else ->
            if
            :: !p_on[rt] && !w_on[rt] -> has_waiters[rt] = 0
            :: else
            fi
        fi;
        timeline_mu[rt] = 0
    }
}

/* ---- executor.c ---- */

inline make_queued(qs) { /* inside an atomic step: kl_stream.mu is held */
    role[qs] = QUEUED;
    in_pool[qs] = 1 /* once, even when a caller took it out of turn and its place is still there */
}

inline wake(ks) { /* kl_executor_wake */
    atomic {
        if
        :: role[ks] == IDLE && len(inbox[ks]) > 0 -> make_queued(ks)
        :: else
        fi
    }
}

inline splice(ls) {
    do
    :: len(inbox[ls]) > 0 -> inbox[ls]?v; taken[ls]!v
    :: len(inbox[ls]) == 0 -> break
    od
}

/* With kl_stream.mu held. more: v is the first task, and the role is still ours. */
inline next_task(ns) {
    if
    :: len(taken[ns]) > 0
    :: len(taken[ns]) == 0 -> splice(ns)
    fi;
    more = (len(taken[ns]) > 0)
}

inline give_up_or_peek(gs) {
    if
    :: more -> taken[gs]?<v>
    :: else -> role[gs] = IDLE
    fi
}

/* Runs the task v of stream s and publishes it. */
inline execute(es) {
    atomic {
        taken[es]?v;
        assert(fate[v] == PENDING && !ran[v]); /* claimed once, run once */
        in = INPUT_OF(v);
        if
        :: in == NONE -> e = READY
        :: else -> e = fate[in]; assert(e != PENDING) /* or its error would be lost here */
        fi;
        if
        :: e == READY -> ran[v] = 1; e = (v == A -> FAILED_BY_A : READY)
        :: else /* a failed input: the kernel does not run, its error goes on */
        fi;
        in = 0;
#ifdef TICKET_BEFORE_FATE
    }
    publish(es, ticket[v]);
    atomic { fate[v] = e; e = 0 }
#else
        fate[v] = e;
        e = 0
    }
    publish(es, ticket[v]);
#endif
}

/* The caller holds the role of s; kl_executor_run. */
inline run_stream(rs, until) {
    do
    :: atomic { /* looking and giving up are one step, which excludes the step that appends */
            next_task(rs);
#ifdef GIVE_UP_IN_TWO_STEPS
        }
        atomic {
#endif
            give_up_or_peek(rs);
            if
            :: !more -> break
            :: else
            fi;
            in = INPUT_OF(v);
            go_on = (in == NONE || fate[in] != PENDING)
        }
        if
        :: !go_on -> /* must_wait: for the other stream, in this model */
#ifdef APPEND_WITHOUT_COMMIT_LOCK
            ticket[in] != 0; /* generous: seen without a ticket is a mistake as well */
#endif
            atomic {
                assert(ticket[in] != 0);
                parked_ticket[rs] = ticket[in];
                in = 0;
                role[rs] = PARKED
            }
            register_waiter(1 - rs, parked_ticket[rs], p_on[1 - rs]);
            if
            :: !go_on -> /* from here on another thread may run the stream */
                atomic { more = 0; v = 0; break }
            :: else -> atomic {
                    role[rs] = RUNNING;
                    assert(fate[INPUT_OF(v)] != PENDING); /* done says settled */
                    go_on = 0
                }
            fi
        :: else -> /* v is launched */
            atomic { in = 0; go_on = (ticket[v] >= until) }
            execute(rs);
            v = 0;
            if
            :: go_on -> /* give_up_rest: the caller has what it wants */
                atomic {
                    go_on = 0;
                    more = 0;
                    if
                    :: len(taken[rs]) > 0 || len(inbox[rs]) > 0 -> make_queued(rs)
                    :: else -> role[rs] = IDLE
                    fi
                }
                break
            :: else
            fi
        fi
    od
}

/* Follows from the stream that owes the ticket to one that nobody runs, and runs it. */
inline help(hs0, ht0) {
    hs = hs0; ht = ht0; hops = 0; helped = 0;
    do
    :: hops < 3 -> /* src/ allows 1000; two streams give no longer path */
        atomic {
            go_on = 0; mine = 0;
            if
            :: role[hs] == QUEUED -> role[hs] = RUNNING; mine = 1
            :: role[hs] == PARKED -> go_on = 1; ht = parked_ticket[hs]
            :: else
            fi
        }
        if
        :: mine -> mine = 0; hops = 0; run_stream(hs, ht); helped = 1; break
        :: !mine && go_on && done[1 - hs] < ht -> hs = 1 - hs; hops++
        :: else -> break
        fi
    :: else -> break
    od;
    atomic { hs = 0; ht = 0; hops = 0; go_on = 0; mine = 0 }
}

/* ---- eval.c and stream.c ---- */

/* One stream's part of kl_streams_append, under kl_stream.mu. kept: the evaluator has the role. */
inline append(as, val, keep_it) {
    atomic {
        inbox[as]!val;
        start = (role[as] == IDLE);
        if
        :: start && keep_it -> role[as] = RUNNING; kept = 1; start = 0
        :: else
        fi
    }
    if
    :: start -> atomic {
            start = 0;
            if
            :: !waking[as] -> waking[as] = 1; to_wake[as] = 1
            :: else /* another committing thread is just about to do it, and will see this task */
            fi
        }
    :: else
    fi
}

inline wake_one(os) {
    if
    :: to_wake[os] -> to_wake[os] = 0; waking[os] = 0; wake(os)
    :: else
    fi
}

/* `first` makes, `second` uses it. keep: mlx_eval, which keeps the role of the last stream when it
 * is free; else mlx_async_eval. The order of the streams is that of staging, which may be either in
 * a larger graph: under the commit lock it must not matter. */
proctype evaluator(byte first, second) {
    THREAD_LOCALS;
    bit keep, kept, start;
    bit to_wake[2];
    if
    :: keep = 0
    :: keep = 1
    fi;
#ifdef APPEND_WITHOUT_COMMIT_LOCK
#define TAKE(val) last_ticket[STREAM_OF(val)]++; ticket[val] = last_ticket[STREAM_OF(val)]
    /* Ticket and append are one step for a stream, but nothing holds the streams together. */
    if
    :: atomic { TAKE(first); append(STREAM_OF(first), first, 0) }
        atomic { TAKE(second); append(STREAM_OF(second), second, keep) }
    :: atomic { TAKE(second); append(STREAM_OF(second), second, keep) }
        atomic { TAKE(first); append(STREAM_OF(first), first, 0) }
    fi;
#else
    atomic { /* claim(): nobody looks at tickets who has not been through the commit lock */
        commit_mu == 0;
        commit_mu = 1;
        last_ticket[STREAM_OF(first)]++;
        ticket[first] = last_ticket[STREAM_OF(first)];
        last_ticket[STREAM_OF(second)]++;
        ticket[second] = last_ticket[STREAM_OF(second)]
    }
    if
    :: append(STREAM_OF(first), first, 0); append(STREAM_OF(second), second, keep)
    :: append(STREAM_OF(second), second, keep); append(STREAM_OF(first), first, 0)
    fi;
    commit_mu = 0;
#endif
    keep = 0;
    wake_one(0);
    wake_one(1);
    if
    :: kept -> kept = 0; run_stream(STREAM_OF(second), ticket[second])
    :: else
    fi
}

#ifdef HOOK
/* The hook ends the wait: kl_timeline_cancel, and where it comes too late, the wake-up is awaited. */
inline leave(lt) {
    hook = 0;
    atomic {
        timeline_mu[lt] == 0;
        left = 1;
        mine = w_on[lt];
        if
        :: mine ->
            w_on[lt] = 0;
            if
            :: !p_on[lt] -> has_waiters[lt] = 0
            :: else
            fi
        :: else
        fi
    }
#ifndef LEAVE_WITHOUT_THE_WAKE_UP
    if
    :: !mine -> atomic { w_woken[lt]; w_woken[lt] = 0 }
    :: else -> mine = 0
    fi
#else
    mine = 0
#endif
}
#endif

/* Waits for a result that somebody commits; readers in src/ go through the commit lock too.
 * The loop ends on the ticket (mlx_synchronize, wait_ticket) or on the fate (kl_wait_fate). */
proctype waiter(byte result, expected) {
    THREAD_LOCALS;
    byte t = STREAM_OF(result);
#ifdef HOOK
    bit left;
#endif
    atomic { commit_mu == 0 && ticket[result] != 0; w_ticket[t] = ticket[result] }
    do
    :: done[t] >= w_ticket[t] -> break
    :: fate[result] != PENDING -> break
    :: done[t] < w_ticket[t] ->
        help(t, w_ticket[t]);
        if
        :: helped -> helped = 0
        :: else -> /* kl_timeline_block */
            if
            :: done[t] >= w_ticket[t]
            :: else ->
#ifdef HOOK
                w_there = 1;
                register_waiter(t, w_ticket[t], w_on[t]);
                if
                :: !go_on ->
                    if
                    :: atomic { w_woken[t]; w_woken[t] = 0 }
                    :: hook -> leave(t) /* once, at any moment; the caller comes again */
                    fi
                :: else -> go_on = 0
                fi;
                w_there = 0
#else
                register_waiter(t, w_ticket[t], w_on[t]);
                if
                :: !go_on -> atomic { w_woken[t]; w_woken[t] = 0 }
                :: else -> go_on = 0
                fi
#endif
            fi;
            /* The ticket is out, so the fate is known. */
#ifdef HOOK
            assert(fate[result] != PENDING || left);
            left = 0
#else
            assert(fate[result] != PENDING)
#endif
        fi
    od;
    /* Nothing lost, nothing false. The input is settled before what depends on it. */
    assert(fate[result] == expected && fate[INPUT_OF(result)] == expected);
    assert(result == B -> !ran[B] : ran[D])
}

/* A thread of the shared pool; run_item. It never blocks on a stream. Any item may be next: no
 * order among streams is relied upon. */
inline take(ts) {
    in_pool[ts];
    in_pool[ts] = 0;
    s = ts;
    mine = (role[ts] == QUEUED); /* else a caller has taken it out of turn */
    if
    :: mine -> role[ts] = RUNNING
    :: else
    fi
}

proctype pool_thread() {
    THREAD_LOCALS;
    byte s;
end:
    do
    :: atomic {
            if
            :: take(0)
            :: take(1)
            fi
        }
        if
        :: mine -> mine = 0; run_stream(s, FOREVER)
        :: else
        fi;
        s = 0
    od
}

init {
    atomic {
        run evaluator(A, B);
        run evaluator(C, D);
        run waiter(B, FAILED_BY_A);
#ifndef HOOK
        run waiter(D, READY);
#endif
        run pool_thread()
    }
}
