#!/usr/bin/env bash
# Checks the registers and locks of simulated cells with porcupine, a linearizability checker of other authors.
#
#   tests/linearizability.sh PROGRAM [SEEDS]        PROGRAM is the command phalanx; SEEDS is 0..300 if not given
#
# First it shows that the checker can refuse: it must refuse histories made by hand, and one recorded from a simulated
# cell with the bug of mutants/read_from_the_own_copy.mutant. Then it records new histories, of which none may be
# refused. Exit code 0: all good. 1: not. 2: wrong usage. 77: there is no Go here, and nothing was tested.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '4s/^# *//p' "$0" >&2; exit 2; }
program=$(realpath "$1")
seeds=${2:-0..300}
if ! command -v go >/dev/null; then
  echo "SKIPPED: tests/linearizability.sh needs Go (https://go.dev, or the package golang-go)"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$(dirname "$0")/linearizability"
timeout 300 go vet ./...
# The files that Go compiles, and tests, for the list of what ./x test ran.
if [ -n "${STEP_RAN:-}" ]; then
  { echo go.mod; go list -f '{{join .GoFiles "\n"}}{{"\n"}}{{join .TestGoFiles "\n"}}'; } |
    sed 's|^|tests/linearizability/|' >>"$STEP_RAN"
fi
timeout 300 go test ./...
timeout 300 go build -o "$work/judge" .

# The checker exits with 1 for an illegal history. Code 2 would mean that it could not read the file.
refuse() { # FILE
  local code=0
  "$work/judge" "$1" >"$work/verdict" || code=$?
  if [ $code != 1 ] || ! grep -q ILLEGAL "$work/verdict"; then
    echo "FAILED: $1 was not refused (exit code $code):"
    cat "$work/verdict"
    exit 1
  fi
}
"$work/judge" testdata/legal.jsonl >/dev/null
for file in stale-read lost-write two-holders token-backward mutant-stale-read; do refuse "testdata/$file.jsonl"; done

timeout 600 "$program" sim --known ../known-violations.tsv --seeds "$seeds" --histories "$work/histories" >"$work/simulated" || {
  tail -n 5 "$work/simulated"
  echo "FAILED: the simulation of seeds $seeds"
  exit 1
}
timeout 600 "$work/judge" -timeout 10s "$work/histories"
echo "seeds $seeds: registers and locks are linearizable"
