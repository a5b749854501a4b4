/* handing.pml - who hands over command buffers, and who settles them: see README.md.
 * One thread encodes N command buffers of a queue. It hands each over, or puts it off for the
 * thread that hands over; at its end it hands over what that one has not begun. A command buffer
 * whose operations do not run is complete from the beginning. A caller that watches settles instead
 * of the settlement thread, until it stops at any moment; another one sleeps for the last ticket. */

#define N 2
#define NONE N

bool runs[N];                 /* it has commands: the device executes it */
bool listed[N], complete[N];  /* handed over; known to be complete; under the lock */
bool executed[N], settled[N];
byte base, n_put_off;         /* the oldest one that was put off, and how many; under the lock */
bool giving;                  /* a thread hands the oldest one over; under the lock */
byte handed;                  /* the timeline: tickets below it are handed over */
bool settling, settle_again, watched;
byte n_unsettled;
mtype = { RUNS, RESTS, LISTENS };
mtype settler = RUNS;
byte heard = NONE;            /* the event that the settlement thread listens to */
bool woken;

inline find_head() {
    head = 0;
    do
    :: head < N && settled[head] -> head++
    :: else -> break
    od;
    if
    :: head < N && !listed[head] -> head = NONE
    :: else
    fi
}

inline settle() {
    atomic {
        go_on = !settling;
        if
        :: settling -> settle_again = true
        :: else -> settling = true
        fi
    };
    do
    :: atomic { !go_on -> break }
    :: atomic {
            go_on ->
            settle_again = false;
            find_head();
            if
            :: head != NONE && (complete[head] || executed[head]) ->
                assert(!settled[head] && (executed[head] || !runs[head]));
                settled[head] = true;
                n_unsettled--
            :: else -> go_on = false
            fi;
            head = 0
        };
        atomic {
            if
            :: go_on
            :: !go_on && settle_again -> go_on = true
            :: else -> settling = false
            fi
        }
    od
}

inline hand_over(i, put_off) {
    atomic {
        listed[i] = true;
        complete[i] = !runs[i];
        n_unsettled++;
        by_watcher = watched;
        listens = settler == LISTENS
    };
#ifdef LEAVES_BEFORE_ITS_TICKET
    if
    :: put_off -> atomic { base++; n_put_off--; giving = false }
    :: else
    fi;
#endif
    atomic { assert(handed == i); handed = i + 1 };
#ifndef LEAVES_BEFORE_ITS_TICKET
    if
    :: put_off -> atomic { base++; n_put_off--; giving = false }
    :: else
    fi;
#endif
    if
    :: atomic { by_watcher -> by_watcher = false; listens = false }
    :: else ->
        atomic {
            if
            :: listens -> woken = true; listens = false
            :: else
            fi
        };
        settle()
    fi
}

proctype encoder() {
    byte i, oldest, head;
    bool go_on, by_watcher, listens;

    for (i : 0 .. N - 1) {
        if
#ifdef ORDER_IS_LEFT_TO_CHANCE
        :: base = i + 1; hand_over(i, false)
#else
        :: n_put_off == 0 -> base = i + 1; hand_over(i, false)
#endif
        :: atomic { base = (n_put_off == 0 -> i : base); n_put_off++ }
        fi
    }
    /* the flush */
    do
    :: atomic { !giving && n_put_off > 0 -> giving = true; oldest = base }; hand_over(oldest, true)
    :: !giving && n_put_off == 0 -> break
    od
}

proctype giver() {
    byte oldest, head;
    bool go_on, by_watcher, listens;

end_rests:
    do
    :: atomic { !giving && n_put_off > 0 -> giving = true; oldest = base }; hand_over(oldest, true)
    od
}

proctype device() {
    byte i;

    for (i : 0 .. N - 1) {
        listed[i];
        if
        :: runs[i] ->
            atomic {
                executed[i] = true;
                if
                :: heard == i -> woken = true
                :: else
                fi
            }
        :: else
        fi
    }
}

proctype settlement_thread() {
    byte head, first;
    bool go_on, now;

    do
    ::
        settler = RESTS;
end_rests:
        atomic { n_unsettled > 0 && !watched -> settler = RUNS };
        if
        :: settle() /* it has dozed, since nobody slept for a value */
        :: skip
        fi;
        atomic {
            now = false;
            first = 0;
#ifndef LISTENS_AT_ONCE
            if
            :: settling -> settle_again = true
            :: else ->
                find_head();
                now = head != NONE && complete[head];
                head = 0
            fi;
#endif
            if
            :: now
            :: else ->
                settler = LISTENS;
                do
                :: first < N && (settled[first] || !listed[first] || complete[first]) -> first++
                :: else -> break
                od;
                heard = first;
                if
                :: first != NONE && executed[first] -> woken = true
                :: else
                fi;
                first = 0
            fi
        };
        if
        :: now
        :: else ->
end_listens:
            atomic { woken -> woken = false; heard = NONE; settler = RUNS }
        fi;
        settle()
    od
}

/* It watches for a while, and goes: its value is there, or it has watched for long. */
proctype watcher() {
    byte head;
    bool go_on, listens;

    watched = true;
    settle();
    atomic { watched = false; listens = n_unsettled > 0 && settler == LISTENS };
    if
    :: listens -> woken = true
    :: else
    fi
}

/* It has polled, before anything was handed over, and sleeps. */
proctype sleeper() {
    settled[N - 1]
}

init {
    atomic {
        if
        :: runs[0] = true
        :: skip
        fi;
        if
        :: runs[N - 1] = true
        :: skip
        fi;
        run encoder(); run giver(); run device(); run settlement_thread(); run watcher(); run sleeper()
    }
}
