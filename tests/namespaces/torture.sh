#!/usr/bin/env bash
# A minute of torture. Nothing of it stays behind, whether it ends, is interrupted, or is killed.
set -euo pipefail
: "${PHALANX:?the program to test}"
PATH=$PATH:/usr/sbin:/sbin
work=$(mktemp -d)
run=

clean_up() {
  local code=$?
  if [ -n "$run" ]; then kill -KILL "$run" 2>/dev/null || true; fi
  [ $code -eq 0 ] || tail -n 30 "$work"/*.err "$work"/*.out 2>/dev/null || true
  rm -rf "$work"
  exit $code
}
trap clean_up EXIT

fail() { echo "FAILED: $*"; exit 1; }

# Prints what a run with that process id has left on this machine.
left_of() {
  ip netns list | grep "^phxt$1-" || true
  ls -d "/run/phalanx-torture/phxt$1-lock" "${TMPDIR:-/tmp}/phalanx-torture-$1" 2>/dev/null || true
  grep "/phalanx-torture-$1/" /proc/mounts || true
}

# start NAME: starts a run of an hour; returns when its members are up.
start() {
  "$PHALANX" torture --minutes 60 --only loss-5,full-disk --json >"$work/$1.out" 2>"$work/$1.err" &
  run=$!
  for _ in $(seq 1 300); do
    if [ -s "${TMPDIR:-/tmp}/phalanx-torture-$run/bout-1/traces/harness.trace" ]; then return 0; fi
    sleep 0.1
  done
  fail "no member was started within 30 s"
}

start interrupted
kill -INT "$run"
code=0
wait "$run" || code=$?
[ $code -eq 130 ] || fail "an interrupted run ended with exit code $code"
[ -z "$(left_of "$run")" ] || fail "an interrupted run left $(left_of "$run")"

start killed
killed=$run
kill -KILL "$killed"
wait "$killed" 2>/dev/null || true
[ -n "$(left_of "$killed")" ] || fail "a killed run left nothing: the next has nothing to find"
# Members end with their harness: the kernel kills them (PR_SET_PDEATHSIG).
for _ in $(seq 1 50); do
  living=$(for name in $(ip netns list | grep -o "^phxt$killed-[^ ]*"); do ip netns pids "$name"; done)
  [ -n "$living" ] || break
  sleep 0.1
done
[ -z "$living" ] || fail "members of a killed run live on"
run=

# The next run removes what the killed one left, and does its own work.
"$PHALANX" torture --minutes 1 --only kill,isolate,loss-30,jitter,corrupt,descriptors,hanging-joiner --roles coordinator,joiner \
  >"$work/minute.out" 2>"$work/minute.err" || fail "the torture found something"
grep -q "removing what a run left that was killed (phxt$killed-)" "$work/minute.err" || fail "nothing was removed"
[ -z "$(left_of "$killed")" ] || fail "a killed run's remains stay: $(left_of "$killed")"
cat "$work/minute.out"
