/* exchange.pml - operations of a group that devices do, with a failed and a lost rank: all
 * interleavings of hosts and devices.
 *
 * Each of N ranks has a host and a device, and does K operations on one lane. The input of
 * operation 0 fails on the device of rank BAD, whose host learns of it at settlement. At any
 * moment, or never, rank 1 or the last one dies. So operation 0 must fail with BAD's cause and the
 * others be ready, or fail with the loss, if a rank has died; every rank that lives settles all in
 * their order; and no kernel takes the result of an exchange for a value that was ended by an
 * abort. With -DCHECK exchanges begin when all ranks have said what they do. README.md maps names
 * to src/.
 *
 * Variants, each a mistake that must be found:
 *     ABORT_BEFORE_MARK     the communicator is aborted before the device is told so
 *     NO_ABORT              pending operations fail on the host alone
 *     FAULTY_INPUT_STAYS_AWAY  a device whose input failed leaves the exchange out
 *     CAUSE_AT_LAUNCH_ALONE a cause that only the device knows at launch is never told
 *     ASKS_FOR_EVER (CHECK) a loss does not end the waiting for what others do
 *     BEGINS_AT_ONCE (CHECK) a rank says what it does and does not wait for the others */

#ifndef N
#define N 3 /* ranks */
#endif
#ifndef K
#define K 2 /* operations */
#endif
#define BAD 1
#define LAST (N - 1)
#define AT(r, k) ((r) * K + (k))

/* Fates, and verdicts on the device. */
#define READY 1
#define FAILED 2
#define LOST 3

byte begun[N];    /* operations that the host has launched */
byte said[N];     /* CHECK: those of which it has said what they are */
byte done[N];     /* those that the device has run */
byte settled[N];
bit posted[N * K];            /* the device's part of the exchange is with the library */
byte verdict[N * K], fate[N * K];
bit refused[N * K];           /* not launched, since the group was broken */
bit note[N];                  /* BAD's cause of operation 0 has come */
bit told;                     /* BAD has told it */
bit dead[N], broken[N], failed[N], mark[N], aborted[N];
chan control[N] = [1] of { byte };

#if N == 2
#define ALL_POSTED(k) (posted[AT(0, k)] && posted[AT(1, k)])
#define ALL_SAID(n) (said[0] > n && said[1] > n)
#define SOME_DEAD dead[1]
#define TELL_ALL control[0]!0
#else
#define ALL_POSTED(k) (posted[AT(0, k)] && posted[AT(1, k)] && posted[AT(2, k)])
#define ALL_SAID(n) (said[0] > n && said[1] > n && said[2] > n)
#define SOME_DEAD (dead[1] || dead[2])
#define TELL_ALL control[0]!0; control[2]!0
#endif

/* What the debug mode has room for: a rank is at most one number ahead. */
#define NOT_FAR_AHEAD(r) ((dead[0] || said[r] <= begun[0] + 2) && \
                          (dead[1] || said[r] <= begun[1] + 2))

inline launch(r) {
    if
    :: broken[r] -> refused[AT(r, begun[r])] = 1
    :: else
    fi;
    begun[r]++
}

#ifdef CHECK
#define SAYS(r) (said[r] == begun[r] && !broken[r])
#ifdef ASKS_FOR_EVER
#define MAY_LAUNCH(r) ALL_SAID(begun[r])
#else
#ifdef BEGINS_AT_ONCE
#define MAY_LAUNCH(r) (said[r] > begun[r] || broken[r])
#else
#define MAY_LAUNCH(r) (ALL_SAID(begun[r]) || failed[r])
#endif
#endif
#else
#define MAY_LAUNCH(r) true
#endif

#define NEXT(r) AT(r, settled[r])
#define KNOWS(r) (verdict[NEXT(r)] != FAILED || r == BAD || note[r] || failed[r])
#define CAN_SETTLE(r) (settled[r] < begun[r] && \
                       (refused[NEXT(r)] || (done[r] > settled[r] && KNOWS(r))))

/* is_ready, outcome */
inline settle(r) {
    if
    :: refused[NEXT(r)] -> fate[NEXT(r)] = LOST
    :: !refused[NEXT(r)] && r == BAD && settled[r] == 0 ->
        fate[NEXT(r)] = FAILED;
#ifndef CAUSE_AT_LAUNCH_ALONE
        if
        :: !failed[r] && !told -> told = 1; TELL_ALL
        :: else
        fi
#endif
    :: else ->
        if
        :: verdict[NEXT(r)] == FAILED && note[r] -> fate[NEXT(r)] = FAILED
        :: verdict[NEXT(r)] == READY && !failed[r] -> fate[NEXT(r)] = READY
        :: else -> fate[NEXT(r)] = LOST
        fi
    fi;
    if
    :: settled[r] == 0 -> assert(fate[NEXT(r)] == FAILED || (fate[NEXT(r)] == LOST && SOME_DEAD))
    :: else -> assert(fate[NEXT(r)] == READY || (fate[NEXT(r)] == LOST && SOME_DEAD))
    fi;
    settled[r]++
}

proctype host(byte r) {
    do
#ifdef CHECK
    :: atomic { !dead[r] && begun[r] < K && SAYS(r) -> said[r]++; assert(NOT_FAR_AHEAD(r)) }
#endif
    :: atomic { !dead[r] && begun[r] < K && MAY_LAUNCH(r) -> launch(r) }
    :: atomic { !dead[r] && nempty(control[r]) -> control[r]?_; note[r] = 1 }
    :: atomic { !dead[r] && SOME_DEAD && !broken[r] && empty(control[r]) -> broken[r] = 1 }
    :: atomic { !dead[r] && broken[r] && !failed[r] -> failed[r] = 1 }
#ifndef NO_ABORT
#ifdef ABORT_BEFORE_MARK
    :: atomic { !dead[r] && failed[r] && !aborted[r] -> aborted[r] = 1 }
    :: atomic { !dead[r] && aborted[r] && !mark[r] -> mark[r] = 1 }
#else
    :: atomic { !dead[r] && failed[r] && !mark[r] -> mark[r] = 1 }
    :: atomic { !dead[r] && mark[r] && !aborted[r] -> aborted[r] = 1 }
#endif
#endif
    :: atomic { !dead[r] && CAN_SETTLE(r) -> settle(r) }
    :: settled[r] == K -> break
    :: dead[r] -> break
    od
}

/* The command buffers of the lane, one after the other: tell, the exchange, judge, and a kernel that
 * reads the result, perhaps to send it on in a group that is whole. */
proctype device(byte r) {
    byte k = 0;
    bit real;
    do
    :: dead[r] || k == K -> break
    :: atomic { !dead[r] && k < begun[r] && refused[AT(r, k)] -> k++; done[r] = k }
    :: !dead[r] && k < begun[r] && !refused[AT(r, k)] ->
#ifdef FAULTY_INPUT_STAYS_AWAY
        if
        :: r == BAD && k == 0 -> skip
        :: else -> posted[AT(r, k)] = 1
        fi;
#else
        posted[AT(r, k)] = 1;
#endif
        if
        :: ALL_POSTED(k) -> real = 1
        :: aborted[r] -> real = 0
        :: dead[r] -> break
        fi;
        atomic { /* judge */
            if
            :: dead[r] -> break
            :: else
            fi;
            if
            :: mark[r] -> verdict[AT(r, k)] = LOST
            :: !mark[r] && k == 0 -> verdict[AT(r, k)] = FAILED
            :: else -> verdict[AT(r, k)] = READY
            fi;
            assert(verdict[AT(r, k)] != READY || real);
            k++;
            done[r] = k
        }
    od
}

/* Nobody looks at what a dead rank knew: it is cleared, which leaves fewer states. */
inline die(r) {
    dead[r] = 1;
    begun[r] = 0; done[r] = 0; settled[r] = 0;
    verdict[AT(r, 0)] = 0; verdict[AT(r, 1)] = 0; fate[AT(r, 0)] = 0; fate[AT(r, 1)] = 0;
    note[r] = 0; broken[r] = 0; failed[r] = 0; mark[r] = 0; aborted[r] = 0;
    refused[AT(r, 0)] = 0; refused[AT(r, 1)] = 0
}

proctype killer() {
    if
    :: atomic { die(1) }
    :: atomic { die(LAST) }
    :: skip
    fi
}

init {
    byte r = 0;
    atomic {
        do
        :: r < N -> run host(r); run device(r); r++
        :: else -> break
        od;
        run killer()
    }
}
