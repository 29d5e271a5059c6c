#!/usr/bin/env bash
# Real members in network namespaces of their own, killed, stopped, cut off and attacked. See docs/real-processes.md.
#
#   run.sh [--quick] [--keep] [--jobs N] [CASE..]     run all cases, or those named, N of them at a time (1)
#   run.sh --list                          name the cases
#
# PHALANX names the program (default: target/quick/phalanx). The exit code is the number of cases that failed;
# 77 when the tests cannot run here.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# Time limit of one case in seconds, after which it is killed and counted as failed. No case needs nearly as long.
readonly CASE_SECONDS=480

QUICK=0
keep=0
at_once=1
cases=()
while [ $# -gt 0 ]; do
  argument=$1
  shift
  case $argument in
    --quick) QUICK=1 ;;
    --keep) keep=1 ;;
    --jobs)
      at_once=${1:-}
      [[ $at_once =~ ^[1-9]$ ]] || { echo "run.sh: --jobs is 1 to 9" >&2; exit 2; }
      shift
      ;;
    --list)
      for file in "$here"/cases/*.bash; do printf '%-20s %s\n' "$(basename "$file" .bash)" "$(sed -n '1s/^# //p' "$file")"; done
      exit 0
      ;;
    -*)
      echo "run.sh: there is no option $argument (--quick, --keep, --jobs, --list)" >&2
      exit 2
      ;;
    *)
      [ -r "$here/cases/$argument.bash" ] || { echo "run.sh: there is no case $argument; see --list" >&2; exit 2; }
      cases+=("$argument")
      ;;
  esac
done
if [ ${#cases[@]} -eq 0 ]; then
  for file in "$here"/cases/*.bash; do cases+=("$(basename "$file" .bash)"); done
fi

skip() { echo "SKIP: $1"; exit 77; }

PATH=$PATH:/usr/sbin:/sbin
[ "$(id -u)" -eq 0 ] || skip "needs root"
missing=()
for pair in ip=iproute2 nft=nftables python3=python3; do
  command -v "${pair%%=*}" >/dev/null || missing+=("${pair#*=}")
done
if [ ${#missing[@]} -gt 0 ]; then
  { command -v apt-get && apt-get update -qq &&
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >/dev/null 2>&1 ||
    skip "needs ${missing[*]}"
fi

PHALANX=${PHALANX:-$here/../../target/quick/phalanx}
[ -x "$PHALANX" ] || { echo "run.sh: $PHALANX is not there: build it, or name the program in PHALANX" >&2; exit 2; }
PHALANX=$(realpath "$PHALANX")
export PHALANX QUICK PATH
# Where ./x test wants to know which cases ran.
ran=${STEP_RAN:-/dev/null}
# Settings in the environment must not affect members.
unset "${!PHALANX_@}"

# Each run has its own names, and each case in it, so that neither interferes with another.
prefix=phx$$-
work=$(mktemp -d "${TMPDIR:-/tmp}/phalanx-namespaces.XXXXXX")
mkdir "$work/failed"

# sweep PREFIX: kills all processes in the namespaces with this prefix and removes these. Cases do this themselves; this
# is for one that could not.
sweep() {
  local name pid
  for name in $(ip netns list | awk '{print $1}'); do
    [[ $name == "$1"* ]] || continue
    for pid in $(ip netns pids "$name"); do kill -KILL "$pid" 2>/dev/null; done
    ip netns delete "$name" 2>/dev/null
  done
}
finish() {
  local job
  # A case in the background does not see an interrupt from the terminal.
  for job in $(jobs -p); do kill "$job" 2>/dev/null; done
  wait
  sweep "$prefix"
  [ "$keep" = 1 ] || [ "${failures:-$(find "$work/failed" -type f | wc -l)}" -gt 0 ] || rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

name=${prefix}try
ip netns add "$name" 2>/dev/null || { failures=0; skip "cannot make network namespaces here"; }
ip netns delete "$name"

# run_case CASE NUMBER: runs a case in namespaces of its own, and prints its verdict.
run_case() {
  local case=$1 began=$SECONDS code why run
  trap - EXIT
  mkdir "$work/$case"
  echo "tests/namespaces/cases/$case.bash" >>"$ran"
  CASE=$case WORK=$work/$case PREFIX=$prefix$2- timeout --kill-after=20 "$CASE_SECONDS" \
    bash "$here/lib.bash" "$here/cases/$case.bash" </dev/null >"$work/$case/log" 2>&1 &
  run=$!
  trap 'kill "$run" 2>/dev/null; wait "$run"; exit 143' TERM INT
  wait "$run"
  code=$?
  sweep "$prefix$2-"
  if [ $code -eq 0 ]; then
    printf 'ok    %-20s %4d s\n' "$case" $((SECONDS - began))
    [ "$keep" = 1 ] || rm -rf "${work:?}/$case"
  else
    touch "$work/failed/$case"
    why="exit code $code"
    [ $code -ne 124 ] && [ $code -ne 137 ] || why="not done after $CASE_SECONDS s"
    printf 'FAIL  %-20s %4d s  %s: %s\n' "$case" $((SECONDS - began)) "$why" "$(sed -n 's/^FAILED: //p' "$work/$case/log" | head -n 1)"
    { echo "--- the end of $work/$case/log ---"; tail -n 60 "$work/$case/log"; echo "---"; } >&2
  fi
}

number=0
for case in "${cases[@]}"; do
  while [ "$(jobs -rp | wc -l)" -ge "$at_once" ]; do wait -n; done
  number=$((number + 1))
  run_case "$case" $number &
done
wait
failures=$(find "$work/failed" -type f | wc -l)
[ $failures -eq 0 ] && [ "$keep" = 0 ] || echo "logs and traces: $work" >&2
exit $failures
