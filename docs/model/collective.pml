/* collective.pml - operations of a group of processes, with a failed and a lost rank: all
 * interleavings.
 *
 * Three ranks do two operations, each on its own input. The input of operation 0 fails on rank 1,
 * which takes part all the same. At any moment, or never, rank 1 or rank 2 dies. So operation 0
 * must fail with rank 1's cause, operation 1 be ready, and each may fail with the loss instead, if
 * a rank has died; and every rank that lives settles both, in their order. README.md maps names to
 * src/.
 *
 * Variants, each a mistake that must be found:
 *     FAILED_INPUT_STAYS_AWAY  a rank whose input failed does not take part
 *     STATUS_IS_LOCAL          the words are not combined: a rank knows its own failure alone
 *     FORGET_WHEN_CONCLUDED    causes are forgotten when an operation is concluded, not in the order
 *                              in which operations are settled
 *     LOSS_IS_NOT_NOTICED      nobody looks at the control connections of a rank that died */

#define N 3 /* ranks */
#define K 2 /* operations */
#define BAD 1 /* the rank whose input of operation 0 fails */
#define AT(r, k) ((r) * K + (k))

/* kl_request.state; BUILT: not launched */
#define BUILT 0
#define RUNS 1
#define ASKS 2
#define DONE 3

#define READY 1
#define FAILED 2 /* with the cause of rank BAD */
#define LOST 3

byte state[N * K], fate[N * K];
bit joined[N * K]; /* the rank's part of the exchange is with the engine */
bit note[N * K];   /* on that rank: the cause of BAD has come */
bit dead[N], broken[N];
byte launched[N], head[N]; /* operations launched, and settled */
chan control[N] = [K] of { byte }; /* causes on their way from BAD to a rank */

#define ALL_JOINED(k) (joined[AT(0, k)] && joined[AT(1, k)] && joined[AT(2, k)])
#define SOME_DEAD (dead[1] || dead[2])

inline launch(r, k) {
    if
    :: broken[r] ->
        state[AT(r, k)] = DONE;
        fate[AT(r, k)] = (r == BAD && k == 0 -> FAILED : LOST)
    :: else ->
        state[AT(r, k)] = RUNS;
        if
        :: r == BAD && k == 0 -> control[0]!k; control[2]!k /* kl_group_tell_cause, then start */
        :: else
        fi;
#ifdef FAILED_INPUT_STAYS_AWAY
        if
        :: r == BAD && k == 0 -> skip
        :: else -> joined[AT(r, k)] = 1
        fi
#else
        joined[AT(r, k)] = 1
#endif
    fi;
    launched[r]++
}

inline forget(r, k) {
    note[AT(r, 0)] = 0;
    if
    :: k == 1 -> note[AT(r, 1)] = 0
    :: else
    fi
}

/* The exchange is done, or was before. */
inline conclude(r, k) {
#ifdef STATUS_IS_LOCAL
    if
    :: k == 0 && r == BAD -> fate[AT(r, k)] = FAILED
    :: else -> fate[AT(r, k)] = READY
    fi;
    state[AT(r, k)] = DONE;
#else
    if
    :: k != 0 -> fate[AT(r, k)] = READY; state[AT(r, k)] = DONE
    :: k == 0 && (r == BAD || note[AT(r, k)]) -> fate[AT(r, k)] = FAILED; state[AT(r, k)] = DONE
    :: else -> state[AT(r, k)] = ASKS
    fi;
#endif
#ifdef FORGET_WHEN_CONCLUDED
    if
    :: state[AT(r, k)] == DONE -> forget(r, k)
    :: else
    fi
#endif
}

/* fail_pending, at any time after the group is broken */
inline give_up(r, k) {
    if
    :: state[AT(r, k)] == RUNS || state[AT(r, k)] == ASKS ->
        state[AT(r, k)] = DONE;
        fate[AT(r, k)] = (r == BAD && k == 0 -> FAILED : LOST)
    :: else
    fi
}

inline settle(r, k) {
    if
    :: k == 0 -> assert(fate[AT(r, k)] == FAILED || (fate[AT(r, k)] == LOST && SOME_DEAD))
    :: k == 1 -> assert(fate[AT(r, k)] == READY || (fate[AT(r, k)] == LOST && SOME_DEAD))
    fi;
    head[r]++;
    forget(r, k)
}

#define ADVANCES(k) (state[AT(r, k)] == RUNS && ALL_JOINED(k)) || \
                    (state[AT(r, k)] == ASKS && note[AT(r, k)])

proctype rank(byte r) {
    byte k;
    do
    :: atomic { !dead[r] && launched[r] < K -> launch(r, launched[r]) }
    :: atomic { !dead[r] && nempty(control[r]) -> control[r]?k; note[AT(r, k)] = 1 }
#ifndef LOSS_IS_NOT_NOTICED
    :: atomic { !dead[r] && SOME_DEAD && !broken[r] && empty(control[r]) -> broken[r] = 1 }
#endif
    :: atomic { !dead[r] && (ADVANCES(0)) -> conclude(r, 0) }
    :: atomic { !dead[r] && (ADVANCES(1)) -> conclude(r, 1) }
    :: atomic { !dead[r] && broken[r] && head[r] < K -> give_up(r, 0); give_up(r, 1) }
    :: atomic { !dead[r] && head[r] < K && state[AT(r, head[r])] == DONE -> settle(r, head[r]) }
    :: head[r] == K -> break
    :: dead[r] -> break
    od
}

proctype killer() {
    if
    :: dead[1] = 1
    :: dead[2] = 1
    :: skip
    fi
}

init {
    atomic { run rank(0); run rank(1); run rank(2); run killer() }
}
