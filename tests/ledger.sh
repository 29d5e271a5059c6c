#!/usr/bin/env bash
# The example as its reader would run it: ledger.sh PROGRAM
# One copy, another that joins with the first one's balances, the first one killed, a third that joins.
set -euo pipefail
program=$1
directory=$(mktemp -d)
pids=()
finish() {
  for pid in "${pids[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
  rm -rf "$directory"
}
trap finish EXIT
export PHALANX_RUNTIME_DIR=$directory/run

start() { # NAME DEPOSIT...
  local name=$1
  shift
  PHALANX_NAME=$name "$program" "$@" >"$directory/$name" 2>&1 &
  pids+=($!)
}

expect() { # NAME LAST-LINE
  local tries
  for tries in $(seq 1 600); do
    # What is printed ends in a blank.
    if [ "$(tail -n 1 "$directory/$1" | sed 's/ *$//')" = "$2" ]; then return 0; fi
    sleep 0.1
  done
  echo "$1 should have ended with '$2' and printed:"
  cat "$directory/$1"
  exit 1
}

start one alice=5 bob=7
expect one "alice=5 bob=7"
start two alice=-2
expect two "alice=3 bob=7"
expect one "alice=3 bob=7"
start three carol=1
expect three "alice=3 bob=7 carol=1"
kill -9 "${pids[0]}"
expect three "2 members, alice=3 bob=7 carol=1"
start four bob=1
expect four "alice=3 bob=8 carol=1"
expect two "alice=3 bob=8 carol=1"
echo "the ledger example held"
