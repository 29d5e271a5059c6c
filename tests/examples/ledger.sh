#!/usr/bin/env bash
# Runs the example as its reader would: ledger.sh PROGRAM [PHALANX]
# One copy starts, another joins with the first one's balances, the first is killed, and a third joins. At the end
# PHALANX, by default the program of that name beside PROGRAM, checks the traces of all.
# about: E1 M1 M2 M3 M4 M5 M6 S1 S2 S3 S4 S5 S6 S7 I1 I2 I3 O3 O5 X2 X3 X5 V1 V3
set -euo pipefail
program=$1
phalanx=${2:-$(dirname "$program")/phalanx}
harness_tool=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/../namespaces/tools/harness.py
about=$(sed -n 's/^# about: //p' "$0")
directory=$(mktemp -d)
pids=()
finish() {
  for pid in "${pids[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
  rm -rf "$directory"
}
trap finish EXIT
export PHALANX_CELL=ledger PHALANX_RUNTIME_DIR=$directory/run PHALANX_STATE_DIR=$directory/state PHALANX_TRACE=$directory/traces
mkdir "$PHALANX_TRACE"

harness() { python3 "$harness_tool" "$PHALANX_TRACE/harness.trace" "$PHALANX_CELL" "$@"; }

# dead NAME: records the deaths of its incarnations in the harness's trace.
dead() {
  local file life
  for file in "$PHALANX_TRACE/$1"-*.trace; do
    life=${file##*-}
    harness crash "${life%.trace}"
  done
}

start() { # NAME DEPOSIT...
  local name=$1
  shift
  PHALANX_NAME=$name "$program" "$@" >"$directory/$name" 2>&1 &
  pids+=($!)
}

expect() { # NAME LAST-LINE
  local tries
  for tries in $(seq 1 600); do
    # Printed lines end in a blank.
    if [ "$(tail -n 1 "$directory/$1" | sed 's/ *$//')" = "$2" ]; then return 0; fi
    sleep 0.1
  done
  echo "$1 should have ended with '$2' and printed:"
  cat "$directory/$1"
  exit 1
}

harness create
# shellcheck disable=SC2086
harness about $about
harness faulty
start one alice=5 bob=7
expect one "alice=5 bob=7"
start two alice=-2
expect two "alice=3 bob=7"
expect one "alice=3 bob=7"
start three carol=1
expect three "alice=3 bob=7 carol=1"
kill -9 "${pids[0]}"
wait "${pids[0]}" 2>/dev/null || true
dead one
expect three "2 members, alice=3 bob=7 carol=1"
start four bob=1
expect four "alice=3 bob=8 carol=1"
expect two "alice=3 bob=8 carol=1"
# Nothing happens for longer than the checker's bound, within which all must be in one view.
harness heal
harness quiet
sleep 11
harness end
kill -9 "${pids[@]:1}"
wait 2>/dev/null || true
for name in two three four; do dead "$name"; done
"$phalanx" check --complete --one-instance "$PHALANX_TRACE"
echo "the ledger example held"
