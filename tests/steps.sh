#!/usr/bin/env bash
# Tests tests/lib/steps.sh, which runs the steps of `./x test`: steps that must fail do. Exit code 0: they do.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# expect CODE PATTERN SCRIPT: the steps of SCRIPT end with this code, and their output matches the pattern.
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
expect 0 'skipped: go: no Go here' 'no() { skip_step Go "no Go here"; }; step go no'
expect 0 'skipped: advisories: far away' 'part() { leave_out advisories "the database" "far away"; }; step deny part'

expect 0 'all steps passed .* \(2 run' 'beside slow sleep 1; step good true'
expect 0 'ok    slow' 'beside slow sleep 1; step good true; join'
expect 1 'FAIL  slow' 'beside slow false; step good true'
expect 0 'skipped: slow: no Go$' 'beside slow skip_step Go "no Go"; step good true'
expect 0 '2 run, 2 skipped' 'no() { skip_step Go "no Go"; }; beside a no; step b true; step c no; beside d true'
expect 1 'no step called three$' 'begin_steps one three; beside one true; step two false'
# A step that fails kills the steps beside it, with all processes that they started.
expect 1 'FAIL  bad' 'long() { sleep 86399 & wait; }; beside long long; sleep 1; step bad false'
for _ in 1 2 3 4 5; do pgrep -f '^sleep 86399$' >/dev/null || break; sleep 1; done
! pgrep -f '^sleep 86399$' || { echo "FAILED: a step that ran beside another outlived it"; exit 1; }

export PHALANX_CI=1
expect 1 'that is a failure' 'no() { skip_step Go "no Go here"; }; step go no'
expect 1 'that is a failure' 'part() { leave_out advisories "the database" "far away"; }; step deny part'
expect 1 'that is a failure' 'no() { fetch Go true; skip_step Go "no Go here"; }; step go no'
expect 0 'skipped: go: no Go here' 'no() { fetch Go false || skip_step Go "no Go here"; }; step go no'
expect 1 'that is a failure' 'no() { fetch C false || skip_step Go "no Go"; }; beside go no; step a true'
expect 0 'skipped: go: no Go' 'no() { fetch Go false || skip_step Go "no Go"; }; beside go no; step a true'
# What one step could not fetch excuses no other...
expect 1 'b was skipped' 'a() { fetch Go false || skip_step Go "no Go"; }; b() { skip_step Go "not me"; }; step a a; step b b'
# ... and what could not be fetched excuses nothing else that the same step leaves out.
expect 1 '^Rust$' 'a() { fetch Go false || true; skip_step Rust "no Rust"; }; step a a'
expect 1 '^Rust$' 'a() { fetch Go false || leave_out go Go "no Go"; leave_out rust Rust "no Rust"; }; step a a'
expect 0 '2 skipped' 'a() { fetch Go false || leave_out go Go no; fetch C false || leave_out c C no; }; step a a'
expect 1 'not named' 'a() { fetch Go false || true; bash -c "exit 77"; }; step a a'
expect 1 'not named' 'a() { fetch Go false || true; echo "a test: no net" >>"$PHALANX_SKIPS"; }; step a a'
unset PHALANX_CI

# Subjects of commits, in characters.
subjects='subjects() { printf "%s\\n" "a1 $1" | tests/lib/subjects.sh; }; step subjects subjects'
long=$(printf 'link: %066d' 0)
expect 0 '1 run' "$subjects '$long'"
expect 0 '1 run' "$subjects '${long/0/é}'"
expect 1 '73 characters' "$subjects '${long}0'"
expect 1 'full stop' "$subjects 'link: done.'"

# The list of fuzz targets, from a fake cargo that has none, or cannot list them.
mkdir "$work/bin"
export PATH=$work/bin:$PATH
fuzz() { # LIST CODE: what `cargo fuzz list` prints and ends with
  printf '%s\n' '#!/bin/sh' 'case "$*" in' "*list*) printf '%b' '$1'; exit $2 ;;" 'esac' 'echo "ran $*"' >"$work/bin/cargo"
  chmod +x "$work/bin/cargo"
}
# Only the function of ./x, in a directory where it may create folders.
sed -n '/^run_fuzz()/,/^}/p' x >"$work/fuzz.sh"
grep -q 'cargo +nightly fuzz list' "$work/fuzz.sh" || { echo "FAILED: ./x has no run_fuzz"; exit 1; }
run_fuzz='run() { cd "$logs"; . "$logs/fuzz.sh"; run_fuzz 1; }; step fuzz run; cat "$logs/fuzz.log"'
fuzz 'one\ntwo\n' 0
expect 0 'ran .*fuzz run two' "$run_fuzz"
fuzz 'one\n' 1
expect 1 'FAIL  fuzz' "$run_fuzz"
fuzz '' 0
expect 1 'FAIL  fuzz' "$run_fuzz"

# Miri on tests of which none, or some, have the name, with a fake cargo that runs nothing. miri EXECUTED: the output of
# the test programs.
miri() {
  printf '%s\n' '#!/bin/sh' "case \"\$*\" in *metadata*) echo '\"links\":\"aws_lc_0\"' ;; *no-run*|*version*) ;;" \
    "*) printf '%b' '$1' ;; esac" >"$work/bin/cargo"
  printf '%s\n' '#!/bin/sh' 'echo "host: here"' >"$work/bin/rustc"
  chmod +x "$work/bin/cargo" "$work/bin/rustc"
}
run_miri='step miri tests/miri.sh --unsafe'
ok=$(printf 'test %s::one ... ok\\n' mmsg shm::lend shm::tests::ring words)
miri "$ok"
expect 0 '1 run' "$run_miri"
miri "${ok/test words::one ... ok/}"
expect 1 'FAIL  miri' "$run_miri"
miri "${ok/words::one ... ok/words::one ... ignored}"
expect 1 'no test with words:: in' "$run_miri"
miri ''
expect 1 'FAIL  miri' "$run_miri"

echo "steps fail, are skipped and pass as they should"
