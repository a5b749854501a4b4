/* settlement.pml - from complete command buffers to fates: all interleavings.
 *
 * One device. Command buffers, oldest first:
 *     stream 0:  0, then 1, whose kernel faults (its word is set when it has run), or which the
 *                driver refuses (both are tried)
 *     stream 1:  2, which uses 1's value and waits for it on the device; perhaps with an operation
 *                of its own, so that it runs even when 1 was refused
 *     stream 2:  3, which uses 2's value; only with CHAIN, where 0 is settled already
 * So 0 must be ready, 1 failed, 2 and 3 failed with 1's error. The host learns of completions in
 * any order. Settling: each submitting thread, the settlement thread, without CHAIN also a polling
 * caller. README.md maps names to src/.
 *
 * Variants, each a mistake that must be found:
 *     UNSUBMITTED_IS_PROVED   a complete consumer also proves a producer that the driver refused,
 *                             and with it those before it, for which the device did not wait
 *     CONSUMER_FIRST          a complete consumer is settled though its producer is not
 *     IMPLIED_IS_NO_PROGRESS  with CHAIN: a producer that is complete only because its consumer is
 *                             does not count as progress, so nobody looks at it again */

#define PENDING 0
#define READY 1
#define FAILED_BY_1 2 /* the error object of command buffer 1 */

#ifdef CHAIN
#define N 4
#define QUEUES 3
#else
#define N 3
#define QUEUES 2
#endif
#define NONE 9
#define QUEUE_OF(cb) ((cb) < 2 -> 0 : (cb) - 1)
#define WAITS_FOR(cb) ((cb) < 2 -> NONE : (cb) - 1)
#define EXPECTED(cb) ((cb) == 0 -> READY : FAILED_BY_1)

/* Command buffers (struct kl_command_buffer). */
bit handed[N];    /* in its queue; kl_timeline `handed` has its ticket */
bit submitted[N]; /* the driver has it */
bit refused[N];   /* cb->error: the driver did not take it */
bit complete[N];
bit settled[N];
byte fate[N];     /* of its one operation's output */
bit published[N]; /* its ticket, on the stream's timeline `settled` */

/* The device. */
bit executed[N];
bit visible[N];   /* what event_query answers */
bit word[N];      /* the fault word, written by the kernel */
bit woken;        /* kl_driver_ops.wake was called since the last wait_any */

byte head[QUEUES]; /* oldest unsettled one of the queue; NONE: empty */
bit settling, settle_again;
byte n_unsettled;

/* Settles the head of its queue. The role is held, the lock is not: the steps are visible. */
inline settle_cb(sc) {
    atomic { /* settle_op: looks at inputs, then at its own word, then writes the fate */
        f = READY;
        if
        :: WAITS_FOR(sc) != NONE ->
#ifndef CONSUMER_FIRST
            assert(fate[WAITS_FOR(sc)] != PENDING);
#endif
            if
            :: fate[WAITS_FOR(sc)] == FAILED_BY_1 -> f = FAILED_BY_1
            :: else
            fi
        :: else
        fi;
        if
        :: f == READY && (refused[sc] || word[sc]) -> f = FAILED_BY_1
        :: else
        fi;
        assert(complete[sc] && (executed[sc] || !submitted[sc])); /* the word is final */
        assert(fate[sc] == PENDING);
        assert(f == EXPECTED(sc)); /* nothing lost, nothing false, the producer's error */
        fate[sc] = f;
        f = 0
    }
    published[sc] = 1
}

inline remove(rc) {
    settled[rc] = 1;
    n_unsettled--;
    if
    :: rc == 0 && handed[1] -> head[0] = 1
    :: else -> head[QUEUE_OF(rc)] = NONE
    fi
}

/* The device waited for what was submitted, and for nothing else. */
#ifdef UNSUBMITTED_IS_PROVED
#define PROVABLE(cb) 1
#else
#define PROVABLE(cb) submitted[cb]
#endif

/* cb has run, so all that it waited for on the device has, and all before those in their queues. */
inline imply_complete(ic) {
    if
    :: complete[ic] && submitted[ic] && !refused[ic] && WAITS_FOR(ic) != NONE &&
       !settled[WAITS_FOR(ic)] && PROVABLE(WAITS_FOR(ic)) ->
        k = WAITS_FOR(ic);
#ifndef IMPLIED_IS_NO_PROGRESS
        if
        :: !complete[k] -> progress = 1
        :: else
        fi;
#endif
        complete[k] = 1;
        if
        :: k == 1 && !settled[0] -> complete[0] = 1
        :: else
        fi;
        k = 0
    :: else
    fi
}

#ifdef CONSUMER_FIRST
#define MAY_SETTLE(cb) complete[cb]
#else
#define MAY_SETTLE(cb) (complete[cb] && (WAITS_FOR(cb) == NONE || settled[WAITS_FOR(cb)]))
#endif

/* Under the lock: goes on over the queues until there is something to do without the lock. ask:
 * query cb; go: settle it; neither: there is nothing more, and the role is given up, which excludes
 * that somebody leaves a note unseen. Newest or oldest queue first: it must not matter. */
inline look_on() {
    do
    :: i == QUEUES ->
        i = 0;
        cb = 0;
        if
        :: progress || settle_again -> progress = 0; settle_again = 0
        :: else -> settling = 0; mine = 0; break
        fi
    :: else ->
        cb = head[(order -> i : QUEUES - 1 - i)];
        if
        :: cb == NONE -> i++
        :: cb != NONE && !complete[cb] -> ask = 1; break
        :: cb != NONE && complete[cb] -> look_at(cb); if :: go -> break :: else fi
        fi
    od
}

inline look_at(lc) {
    imply_complete(lc);
    if
    :: MAY_SETTLE(lc) -> go = 1
    :: else -> i++
    fi
}

/* kl_gpu_settle */
inline settle() {
    atomic {
        if
        :: settling -> settle_again = 1
        :: else -> settling = 1; mine = 1; progress = 0; settle_again = 0; i = 0; look_on()
        fi
    }
    do
    :: ask -> /* the driver is asked without the lock */
        answer = visible[cb];
        atomic {
            ask = 0;
            if
            :: answer -> answer = 0; complete[cb] = 1; progress = 1; look_at(cb)
            :: else -> i++
            fi;
            if
            :: !go -> look_on()
            :: else
            fi
        }
    :: go ->
        settle_cb(cb);
        atomic { remove(cb); go = 0; progress = 1; i++; look_on() }
    :: !ask && !go -> break
    od
}

#define SETTLER_LOCALS byte i, cb, k, f; bit mine, progress, ask, go, answer

/* kl_gpu_flush: hands cb to the driver and to its queue. */
inline flush(fc) {
    atomic { /* what depends on a failed value is dropped from its command buffer, which may run others */
        refused[fc] = (fc == 1 && refuse);
        dropped[fc] = refused[fc] || (WAITS_FOR(fc) != NONE && dropped[WAITS_FOR(fc)]);
        submitted[fc] = !refused[fc] && (!dropped[fc] || others);
        complete[fc] = !submitted[fc];
        if
        :: head[QUEUE_OF(fc)] == NONE -> head[QUEUE_OF(fc)] = fc
        :: else
        fi;
        n_unsettled++;
        handed[fc] = 1
    }
    woken = 1;
    settle()
}

bit refuse;     /* the driver will refuse 1 */
bit others;     /* a command buffer has an operation that depends on nothing, too */
bit order;      /* of the queues in kl_gpu_settle */
bit dropped[N]; /* op->dropped of its operation, or the driver refused it */

/* The holder of stream s's executor role. A consumer is handed over after its producer. */
proctype submitter(byte s) {
    SETTLER_LOCALS;
    if
#ifdef CHAIN
    :: s == 0 -> flush(1)
#else
    :: s == 0 -> flush(0); flush(1)
#endif
    :: s == 1 -> handed[1]; flush(2)
#ifdef CHAIN
    :: s == 2 -> handed[2]; flush(3)
#endif
    fi
}

/* kl_wait_fate on the last value: polls once, then blocks until the ticket is published. */
proctype caller() {
    SETTLER_LOCALS;
    handed[N - 1];
    do
    :: fate[N - 1] != PENDING -> break
    :: else -> settle(); published[N - 1]
    od;
    assert(fate[N - 1] == FAILED_BY_1)
}

/* Sleeps on the first incomplete command buffer of each queue, as wait_any promises: until one of
 * them is complete or wake was called, and for nothing else. It ends when all is done, which in
 * src/ is sleeping for good. */
#define SHOWN(cb) (on[cb] && visible[cb])
proctype settlement_thread() {
    SETTLER_LOCALS;
    bit on[N]; /* the events it waits for */
    do
    :: atomic {
            n_unsettled > 0;
            i = 0;
            do
            :: i < N ->
                on[i] = handed[i] && !complete[i] && (i != 1 || !on[0]);
                i++
            :: else -> break
            od;
            i = 0
        }
        if
        :: atomic { woken -> woken = 0 }
        :: SHOWN(0) || SHOWN(1) || SHOWN(2) || SHOWN(N - 1)
        :: published[0] && published[1] && published[N - 1] && n_unsettled == 0 -> break
        fi;
        atomic { on[0] = 0; on[1] = 0; on[2] = 0; on[N - 1] = 0 }
        settle()
    :: published[0] && published[1] && published[N - 1] && n_unsettled == 0 -> break
    od
}

/* Runs what may run, and tells the host whenever it likes, in the order of each queue. */
#define MAY_RUN(cb) (submitted[cb] && !executed[cb] && \
                     (WAITS_FOR(cb) == NONE || executed[WAITS_FOR(cb)] || \
                      !submitted[WAITS_FOR(cb)]) && \
                     ((cb) != 1 || executed[0]))
#define MAY_SHOW(cb) (executed[cb] && !visible[cb] && ((cb) != 1 || visible[0]))
proctype device() {
end:
    do
    :: atomic { MAY_RUN(0) -> executed[0] = 1 }
    :: atomic { MAY_RUN(1) -> executed[1] = 1; word[1] = 1 }
    :: atomic { MAY_RUN(2) -> executed[2] = 1 }
    :: atomic { MAY_SHOW(0) -> visible[0] = 1 }
    :: atomic { MAY_SHOW(1) -> visible[1] = 1 }
    :: atomic { MAY_SHOW(2) -> visible[2] = 1 }
#ifdef CHAIN
    :: atomic { MAY_RUN(3) -> executed[3] = 1 }
    :: atomic { MAY_SHOW(3) -> visible[3] = 1 }
#endif
    od
}

init {
    atomic {
        head[0] = NONE;
        head[1] = NONE;
        head[QUEUES - 1] = NONE;
#ifdef CHAIN
        executed[0] = 1;
        visible[0] = 1;
        fate[0] = READY;
        settled[0] = 1;
        published[0] = 1;
#endif
        if
        :: refuse = 0
        :: refuse = 1
        fi;
        if
        :: others = 0
        :: others = 1
        fi;
        if
        :: order = 0
        :: order = 1
        fi;
        run device();
        run submitter(0);
        run submitter(1);
#ifdef CHAIN
        run submitter(2);
#endif
#ifndef CHAIN /* one settler less, for size */
        run caller();
#endif
        run settlement_thread()
    }
    /* Everybody comes to an end, with everything settled; a state where not is an invalid end. */
}
