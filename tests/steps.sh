#!/usr/bin/env bash
# Tests tests/lib/steps.sh, by which `./x test` runs: what must fail does. Exit code 0: it does.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# expect CODE PATTERN SCRIPT: the steps of SCRIPT end with this code and print what matches.
expect() {
  local wanted=$1 pattern=$2 code=0
  printf '%s\n' 'set -euo pipefail' "logs=$work" '. tests/lib/steps.sh' 'begin_steps' "$3" 'end_steps' >"$work/script"
  bash "$work/script" >"$work/out" 2>&1 || code=$?
  if [ "$code" -ne "$wanted" ] || ! grep -Eq "$pattern" "$work/out"; then
    printf 'FAILED: exit code %d instead of %d, or nothing matches "%s":\n' "$code" "$wanted" "$pattern"
    cat "$work/script" "$work/out"
    exit 1
  fi
}

unset PHALANX_CI
expect 0 'all steps passed .* \(1 run, 0 skipped\)' 'step good true'
expect 1 'FAIL  bad' 'step bad false; step good true'
expect 1 'FAIL  early' 'early() { false; true; }; step early early'
expect 1 'FAIL  loop' 'loop() { for i in 1 2 3; do test $i -ne 1; done; }; step loop loop'
expect 1 'FAIL  nested' 'inner() { (exit 3); echo on; }; outer() { inner; echo on; }; step nested outer'
expect 1 'FAIL  pipe' 'pipe() { false | true; }; step pipe pipe'
expect 1 'FAIL  unset' 'unset_name() { echo "$nowhere"; }; step unset unset_name'
expect 1 'FAIL  stdin' 'ask() { read -r answer; }; step stdin ask'
expect 1 'no step called tow$' 'begin_steps one tow; step one true; step two false'
expect 0 '1 run' 'begin_steps one; step one true; step two false'
expect 0 '2 run' 'begin_steps one two; step one true; step two true; step three false'
expect 0 'skipped: go: no Go here' 'no() { skip_step "no Go here"; }; step go no'
expect 0 'skipped: advisories: far away' 'part() { leave_out advisories "far away"; }; step deny part'

export PHALANX_CI=1
expect 1 'that is a failure' 'no() { skip_step "no Go here"; }; step go no'
expect 1 'that is a failure' 'part() { leave_out advisories "far away"; }; step deny part'
expect 1 'that is a failure' 'no() { fetch Go true; skip_step "no Go here"; }; step go no'
expect 0 'skipped: go: no Go here' 'no() { fetch Go false || skip_step "no Go here"; }; step go no'
# What one step could not fetch excuses no other.
expect 1 'that is a failure' 'a() { fetch Go false || skip_step "no Go"; }; b() { skip_step "not me"; }; step a a; step b b'

echo "steps fail, are skipped and pass as they should"
