/* gates.pml - exchanges of devices at their gates, and calls that wait for the device: all
 * interleavings of two ranks with two lanes each.
 *
 * The device of a rank runs what is handed over to a lane in its order; an exchange ends when the
 * other rank has handed its part over, too. A call that waits for the device (loading a kernel,
 * freeing memory) returns when nothing runs, and nobody hands anything over meanwhile. Each lane
 * does K exchanges, and is up to AHEAD of its gate; before it encodes one it may load a kernel, and
 * so may another thread. Rank 1 may die. So every lane of a rank that lives comes to its end, and
 * nothing is handed over that the other rank may leave out. README.md maps names to src/.
 *
 * Variants, each a mistake that must be found:
 *     NO_GATES         exchanges are handed over when they are encoded
 *     STAYS_ARRIVED    a rank does not withdraw before a call that waits
 *     LEAVES_OPEN      a rank does not first hand over what has a gate that is open
 *     ARRIVES_MEANWHILE a rank arrives while one of its threads is in such a call
 *     WITHDRAWS_BLINDLY a rank withdraws from a gate that has opened */

#ifndef K
#define K 2 /* exchanges of a lane */
#endif
#define AHEAD 2
#ifndef LOADS
#define LOADS 1 /* calls that wait, of a rank */
#endif
#define N 2
#define LANES 2
#define AT(r, l) ((r) * LANES + (l))
#define OTHER(r) (1 - (r))

byte encoded[N * LANES], arrived[N * LANES], handed[N * LANES];
bit handing[N * LANES];     /* a thread has seen the gate open, and hands the next exchange over */
byte count[LANES * AHEAD];  /* of the gates: arrivals */
byte stalls[N];             /* threads between stall_begin and stall_end */
byte calls[N];              /* threads in a call that waits for the device */
byte loads[N];              /* kernels that were loaded */
bit dead[N], broken[N], aborted[N];

#define COUNT(l, k) count[(l) * AHEAD + (k) % AHEAD]
#define NEEDED(k) (N * ((k) / AHEAD + 1))
#define IS_OPEN(l, k) (COUNT(l, k) >= NEEDED(k))

/* What is handed over runs until the other rank has done the same. */
#define RUNS_ON(r, l) (handed[AT(r, l)] > handed[AT(OTHER(r), l)])
#define RUNS(r) (!aborted[r] && (RUNS_ON(r, 0) || RUNS_ON(r, 1)))

#ifdef NO_GATES
#define MAY_PASS(r, l) true
#else
#define MAY_PASS(r, l) ((handed[AT(r, l)] < arrived[AT(r, l)] && IS_OPEN(l, handed[AT(r, l)])) || broken[r])
#endif
#ifdef ARRIVES_MEANWHILE
#define MAY_ARRIVE(r) true
#else
#define MAY_ARRIVE(r) (stalls[r] == 0)
#endif

inline arrive(r, l) {
    do
    :: MAY_ARRIVE(r) && arrived[AT(r, l)] < encoded[AT(r, l)] ->
        COUNT(l, arrived[AT(r, l)])++;
        arrived[AT(r, l)]++
    :: else -> break
    od
}

inline withdraw(r, l) {
    do
    :: arrived[AT(r, l)] > handed[AT(r, l)] &&
#ifdef WITHDRAWS_BLINDLY
       true ->
#else
       !IS_OPEN(l, arrived[AT(r, l)] - 1) ->
#endif
        arrived[AT(r, l)]--;
        COUNT(l, arrived[AT(r, l)])--
    :: else -> break
    od
}

/* Where the other rank lives and the group is whole, it must be sure to hand its part over. */
inline hand_over(r, l) {
    atomic {
        calls[r] == 0 || dead[r] ->
        if
        :: !dead[r] && !broken[r] ->
#ifndef NO_GATES
            assert(dead[OTHER(r)] || broken[OTHER(r)] || arrived[AT(OTHER(r), l)] > handed[AT(r, l)]);
#endif
            skip
        :: else
        fi;
        handed[AT(r, l)]++;
        handing[AT(r, l)] = 0
    }
}

/* kl_device_stall_begin, the call, kl_device_stall_end */
inline load(r) {
    atomic {
        stalls[r]++;
#ifndef STAYS_ARRIVED
        withdraw(r, 0);
        withdraw(r, 1)
#endif
    }
#ifndef NO_GATES
#ifndef LEAVES_OPEN
    do
    :: atomic { !dead[r] && !broken[r] && arrived[AT(r, 0)] > handed[AT(r, 0)] && !handing[AT(r, 0)] && MAY_PASS(r, 0) ->
        handing[AT(r, 0)] = 1 };
        hand_over(r, 0)
    :: atomic { !dead[r] && !broken[r] && arrived[AT(r, 1)] > handed[AT(r, 1)] && !handing[AT(r, 1)] && MAY_PASS(r, 1) ->
        handing[AT(r, 1)] = 1 };
        hand_over(r, 1)
    :: dead[r] || broken[r] ||
       (arrived[AT(r, 0)] <= handed[AT(r, 0)] && arrived[AT(r, 1)] <= handed[AT(r, 1)]) -> break
    od;
#endif
#endif
    atomic { calls[r]++ };
    atomic { !RUNS(r) || dead[r] -> calls[r]-- };
    atomic {
        stalls[r]--;
        arrive(r, 0);
        arrive(r, 1)
    }
}

proctype lane(byte r; byte l) {
    do
    :: atomic { !dead[r] && encoded[AT(r, l)] < K && encoded[AT(r, l)] < handed[AT(r, l)] + AHEAD ->
        encoded[AT(r, l)]++;
        arrive(r, l) }
    :: atomic { !dead[r] && encoded[AT(r, l)] < K && loads[r] < LOADS -> loads[r]++ };
        load(r)
    :: atomic { !dead[r] && handed[AT(r, l)] < encoded[AT(r, l)] && !handing[AT(r, l)] && MAY_PASS(r, l) ->
        handing[AT(r, l)] = 1 };
        hand_over(r, l)
    :: dead[r] || handed[AT(r, l)] == K -> break
    od
}

/* The thread of a program that loads a kernel of its own. */
proctype loader(byte r) {
    if
    :: atomic { !dead[r] && loads[r] < LOADS -> loads[r]++ };
        load(r)
    :: skip
    fi
}

/* The loss of rank 1, and what the progress thread of rank 0 does then. */
proctype loss() {
    if
    :: dead[1] = 1;
        broken[0] = 1;
        aborted[0] = 1
    :: skip
    fi
}

init {
    atomic {
        run lane(0, 0);
        run lane(0, 1);
        run lane(1, 0);
        run lane(1, 1);
#ifndef LANES_ALONE
        run loader(0);
        run loader(1);
        run loss()
#endif
    }
}
