#!/usr/bin/env bash
# check.sh - explores the models completely, and makes sure that each mistake is found in them.
# Needs spin and a C compiler. Two runs at a time; about a minute on two free cores, under 1 GB.
set -eu

models=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# explore OPTIMISATION MODEL [DEFINE...]: leaves pan's report in ./report. What has few states to
# explore before the error takes longer to compile than to run, so it is compiled with -O0.
explore() {
    local optimise=$1 model=$2
    shift 2
    rm -f pan* report ./*.trail
    if ! { spin -a "$@" "$models/$model.pml" &&
           "${CC:-cc}" "$optimise" -w -DSAFETY -DCOLLAPSE -DMEMLIM=500 -o pan pan.c; } \
           >build 2>&1; then
        echo "spin or the compiler failed: $(tail -n 1 build)" >report
        return
    fi
    ./pan -m20000 >report 2>&1 || true
}

states() { awk '/states, stored/ { print $1 }' report; }

# correct NAME OPTIMISATION MODEL [DEFINE...]: explored to the end, without an error.
correct() {
    local name=$1 why
    shift
    explore "$@"
    why=$(grep -m1 -E '^pan:|failed:|max search depth too small|out of memory|not completed' \
          report | grep -v '^pan: elapsed\|^pan: rate' || true)
    if [ -z "$why" ] && grep -q 'errors: 0$' report && [ -n "$(states)" ]; then
        echo "$name: $(states) states, no errors"
    else
        echo "$name: NOT CORRECT OR NOT FULLY EXPLORED (${why:-no report})"
        touch "$work/failed"
    fi
}

# variant NAME REASON OPTIMISATION MODEL [DEFINE...]: an error is found, and for that reason.
variant() {
    local name=$1 reason=$2 found
    shift 2
    explore "$@" "-D$name"
    found=$(sed -n 's/^pan:1: //p; /failed:/p' report | head -n 1)
    if [[ $found == "$reason"* ]]; then
        echo "variant $name: found ($found)"
    else
        echo "variant $name: NOT FOUND (${found:-no error})"
        touch "$work/failed"
    fi
}

mkdir "$work/1" "$work/2"
(
    cd "$work/1"
    correct protocol -O2 protocol
    correct compile -O0 compile
    correct collective -O0 collective
    variant FAILED_INPUT_STAYS_AWAY 'invalid end state' -O0 collective
    variant STATUS_IS_LOCAL 'assertion violated ((fate' -O0 collective
    variant FORGET_WHEN_CONCLUDED 'invalid end state' -O0 collective
    variant LOSS_IS_NOT_NOTICED 'invalid end state' -O0 collective
    correct 'protocol, a hook ends a wait' -O2 protocol -DHOOK
    variant LEAVE_WITHOUT_THE_WAKE_UP 'assertion violated w_there' -O0 protocol -DHOOK
    variant RETAIN_AFTER_LOCK 'assertion violated ( !(freed' -O0 compile
    variant INSERT_WITHOUT_LOOKING 'assertion violated (entries' -O0 compile
    variant FREE_AT_ERASE 'assertion violated' -O0 compile
    variant TICKET_BEFORE_FATE 'assertion violated (fate' -O0 protocol
    variant TWO_WORDS 'invalid end state' -O0 protocol
    variant GIVE_UP_IN_TWO_STEPS 'invalid end state' -O0 protocol
) >"$work/1.log" &
first=$!
(
    cd "$work/2"
    correct settlement -O1 settlement
    correct 'settlement, chain of three' -O1 settlement -DCHAIN
    correct exchange -O1 exchange
    correct 'exchange, debug mode' -O1 exchange -DCHECK -DN=2 -DK=3
    variant ABORT_BEFORE_MARK 'assertion violated ((verdict' -O0 exchange
    variant NO_ABORT 'invalid end state' -O0 exchange
    variant FAULTY_INPUT_STAYS_AWAY 'invalid end state' -O0 exchange
    variant CAUSE_AT_LAUNCH_ALONE 'invalid end state' -O0 exchange
    variant ASKS_FOR_EVER 'invalid end state' -O0 exchange -DCHECK
    variant BEGINS_AT_ONCE 'assertion violated' -O0 exchange -DCHECK -DN=2 -DK=3
    correct handing -O1 handing
    variant LISTENS_AT_ONCE 'invalid end state' -O0 handing
    variant LEAVES_BEFORE_ITS_TICKET 'assertion violated (handed==' -O0 handing
    variant ORDER_IS_LEFT_TO_CHANCE 'assertion violated (handed==' -O0 handing
    correct gates -O1 gates -DK=1
    correct 'gates, three exchanges' -O1 gates -DLANES_ALONE -DK=3
    variant NO_GATES 'invalid end state' -O0 gates -DK=1
    variant STAYS_ARRIVED 'invalid end state' -O0 gates -DK=1
    variant LEAVES_OPEN 'invalid end state' -O0 gates -DK=1
    variant ARRIVES_MEANWHILE 'invalid end state' -O0 gates -DK=1
    variant WITHDRAWS_BLINDLY 'assertion violated' -O0 gates -DK=1
    variant APPEND_WITHOUT_COMMIT_LOCK 'invalid end state' -O1 protocol
    variant UNSUBMITTED_IS_PROVED 'assertion violated (complete' -O0 settlement
    variant CONSUMER_FIRST 'assertion violated (f==' -O0 settlement
    variant IMPLIED_IS_NO_PROGRESS 'invalid end state' -O1 settlement -DCHAIN
) >"$work/2.log" &
second=$!
finished=0
wait "$first" || finished=1
wait "$second" || finished=1
cat "$work/1.log" "$work/2.log"
[ "$finished" = 0 ] && [ ! -e "$work/failed" ]
