/* compile.pml - the cache of compiled functions and the plans in it: see README.md.
 * Two callers look for a plan, trace it outside the lock, insert it, replay it and let go; an
 * eraser empties the cache once meanwhile; then the cache itself goes. Memory that is freed is
 * marked, and every touch of it is checked. */

#define NONE 3 /* no plan; the traces make the plans 0, 1 and 2 */

bool lock;
byte head = NONE;    /* the entry of the cache; under the lock */
byte refs[3];        /* of each plan */
bool freed[3];
byte made;           /* how many plans were traced */
byte entries;        /* how often an entry was put in */
byte erased;         /* how often one was taken out */
byte ended;          /* callers */
bool failing;        /* the first trace fails, at will */

inline acquire() { atomic { !lock; lock = true } }
inline release() { lock = false }

inline retain(p) { assert(!freed[p] && refs[p] > 0); refs[p]++ }

inline drop(p) {
    atomic {
        assert(!freed[p] && refs[p] > 0);
        refs[p]--;
        if
        :: refs[p] == 0 -> freed[p] = true
        :: else
        fi
    }
}

/* What a replay needs is read step by step, with nothing locked. */
inline replay(p) {
    assert(!freed[p]);
    skip;
    assert(!freed[p])
}

proctype caller() {
    byte plan = NONE, other = NONE;

    acquire();
    plan = head;
#ifndef RETAIN_AFTER_LOCK
    if
    :: plan != NONE -> retain(plan)
    :: else
    fi;
#endif
    release();
#ifdef RETAIN_AFTER_LOCK
    if
    :: plan != NONE -> retain(plan)
    :: else
    fi;
#endif
    if
    :: plan != NONE -> skip
    :: else ->
        if
        :: atomic { !failing -> failing = true }; plan = NONE; goto done /* leaves nothing */
        :: skip
        fi;
        atomic { plan = made; made++; refs[plan] = 1 }; /* the caller's own reference */
        atomic { refs[plan]++ }; /* the entry's, which is made before the lock is taken */
        acquire();
        other = head;
        if
        :: other == NONE -> head = plan; entries++; release()
        :: else ->
#ifdef INSERT_WITHOUT_LOOKING
            head = plan; entries++; release()
#else
            release(); drop(plan) /* another thread was first; its plan stays */
#endif
        fi
    fi;
    replay(plan);
    drop(plan);
done:
    ended++
}

proctype eraser() {
    byte gone = NONE;

    acquire();
    gone = head;
    head = NONE;
    if
    :: gone != NONE -> erased++
    :: else
    fi;
    release();
    if
#ifdef FREE_AT_ERASE
    :: gone != NONE -> refs[gone]--; freed[gone] = true
#else
    :: gone != NONE -> drop(gone) /* outside the lock: it frees arrays */
#endif
    :: else
    fi
}

init {
    byte last, i;

    atomic { run caller(); run caller(); run eraser() }
    (_nr_pr == 1 && ended == 2);
    last = head;
    head = NONE;
    if
    :: last != NONE -> drop(last); erased++
    :: else
    fi;
    /* nothing is left, and nothing was put in twice */
    assert(entries == erased);
    for (i : 0 .. 2) {
        assert(i >= made || freed[i])
    }
}
