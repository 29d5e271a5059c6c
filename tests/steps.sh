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
# Two at a time, in their order: the third begins when one of the others has ended.
expect 0 '3 run' 'beside a sleep 1; beside b sleep 1; beside c test -e "$logs/a.span" -o -e "$logs/b.span"'
# A failure is told when the next step begins, not at the end.
expect 1 'FAIL  bad' 'beside bad false; sleep 1; step late sleep 60'
# Processor time is counted, however little of it there is in a second.
expect 0 '^ok    busy .* [1-9] s of processor$' 'busy() { (ulimit -t 1; while :; do :; done) || true; }; step busy busy'
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
expect 1 'not named' 'a() { fetch Go false || true; echo "a test: no net" >>"$STEP_SKIPS"; }; step a a'
unset PHALANX_CI

# What was found good before is not looked at again, and what is new is told at the end.
look='look() { known_good "$logs/known" 5a || { echo looked; to_commit tests/known "5a 7"; }; }; step look look; cat "$logs/look.log"'
printf '# 5a\n5ab 7\n' >"$work/known"
expect 0 '^to commit: tests/known: 5a 7$' "$look"
printf '# a comment\n5a 7\n' >"$work/known"
expect 0 '1 run' "$look; ! grep -q looked \"\$logs/look.log\"; ! grep -q . \"\$logs/commits\""
rm "$work/known"
expect 0 '^to commit: tests/known: 5a 7$' "$look"

# The checksum of the explored rules follows the rules and the explorer, and not the validator.
sed -n '/^model_sum()/,/^}/p' x >"$work/model.sh"
rules=$work/rules/crates/phalanx-model/src
mkdir -p "$rules/validate"
git -C "$work/rules" init -q
touch "$rules/lib.rs" "$rules/validate/mod.rs"
printf 'name = "stateright"\nversion = "1"\n' >"$work/rules/Cargo.lock"
sum() { (cd "$work/rules" && . "$work/model.sh" && model_sum); }
first=$(sum)
echo '// the validator' >"$rules/validate/mod.rs"
[ "$(sum)" = "$first" ] || { echo "FAILED: the validator is no rule"; exit 1; }
for change in 'echo "// a rule" >>"$rules/lib.rs"' 'touch "$rules/new.rs"' 'sed -i s/1/2/ "$work/rules/Cargo.lock"'; do
  last=$(sum)
  eval "$change"
  [ "$(sum)" != "$last" ] || { echo "FAILED: no exploration after $change"; exit 1; }
done

# What each step ran of the files under tests/.
expect 0 '1 run' 'one() { ran tests/a; not_run tests/b; }; step one one; diff "$logs/one.ran" <(printf "tests/a\nnot run: tests/b\n")'
expect 0 '1 run' 'no() { fetch Go false || skip_step Go no tests/b; }; step two true; step go no; grep -qx "not run: tests/b" "$logs/go.ran"'
expect 0 '1 run' 'part() { leave_out go Go no tests/b; }; beside part part; join; grep -qx "not run: tests/b" "$logs/part.ran"'
expect 0 '1 run' ': >"$logs/old.ran"; begin_steps; test ! -e "$logs/old.ran"; step one true'

# A tree with a test of each kind, of which reached.sh accepts all. plant FILE TEXT PATTERN: one more file that nothing
# runs makes it fail, and it says so.
tree=$work/tree
mkdir -p "$tree"/tests/{lib,data,loom/src} "$tree"/crates/a/{src,tests/all} "$tree"/target/{deps,loom} "$tree/logs"
cp tests/reached.sh "$tree/tests"
git -C "$tree" init -q
for file in crates/a/src/lib.rs crates/a/tests/all/main.rs tests/loom/src/lib.rs; do : >"$tree/$file"; done
printf '%s\n' 'run_file tests/one.sh' '# tests/lib/rogue.sh, tests/rogue.txt' >"$tree/x"
printf '%s\n' '#!/bin/sh' '. lib/used.sh' >"$tree/tests/one.sh"
printf '%s\n' '# used' 'cat data/list.txt' >"$tree/tests/lib/used.sh"
: >"$tree/tests/data/list.txt"
printf '%s\n' 'a.rmeta: crates/a/src/lib.rs' '' 'crates/a/src/lib.rs:' 'crates/a/tests/all/main.rs:' >"$tree/target/deps/a.d"
printf '%s\n' 'src/lib.rs:' 'src/../../../crates/a/src/lib.rs:' >"$tree/target/loom/loom.d"
printf '%s\n' tests/one.sh tests/reached.sh >"$tree/logs/one.ran"
# The list of tools for people names a file of the real tree.
reached='reached() { cd "$logs/tree"; tests/reached.sh logs .=target/deps tests/loom=target/loom; }; step reached reached'
plant() {
  printf '%s\n' "$2" >"$tree/$1"
  expect 1 "$1: $3" "$reached"
  printf 'not run: %s\n' "$(dirname "$1")" >"$tree/logs/two.ran"
  expect 0 '1 run' "$reached"
  rm "$tree/$1" "$tree/logs/two.ran"
}
expect 0 '1 run' "$reached"
plant tests/rogue.sh '#!/bin/sh' 'it is a test, and did not run'
plant tests/lib/rogue.sh 'true' 'nothing that ran names it'
plant tests/data/rogue.txt 'data' 'nothing that ran names it'
plant crates/a/tests/all/rogue.rs '#[test] fn lost() {}' 'nothing compiled it'
plant tests/loom/src/rogue.rs '#[test] fn lost() {}' 'nothing compiled it'
# What an unreached test names is unreached, too.
printf '#!/bin/sh\n. data/rogue.txt\n' >"$tree/tests/rogue.sh"
: >"$tree/tests/data/rogue.txt"
expect 1 'tests/data/rogue.txt: nothing that ran names it' "$reached"
rm "$tree/tests/rogue.sh" "$tree/tests/data/rogue.txt"
rm "$tree/logs/one.ran"
expect 1 'tests/one.sh: it is a test, and did not run' "$reached"

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
sed -n '/^run_fuzz()/,/^}/p; /^fuzz_target()/,/^}/p' x >"$work/fuzz.sh"
grep -q 'cargo +nightly fuzz list' "$work/fuzz.sh" || { echo "FAILED: ./x has no run_fuzz"; exit 1; }
run_fuzz='run() { cd "$logs"; . "$logs/fuzz.sh"; run_fuzz 1; }; step fuzz run; cat "$logs/fuzz.log"'
fuzz 'one\ntwo\n' 0
expect 0 'ran .*fuzz run two' "$run_fuzz"
fuzz 'one\n' 1
expect 1 'FAIL  fuzz' "$run_fuzz"
fuzz '' 0
expect 1 'FAIL  fuzz' "$run_fuzz"
# A crash, in the first and in the last target, and a build that fails.
crash() { # WHAT: the part of cargo's arguments for which it fails
  fuzz 'one\ntwo\nthree\n' 0
  sed -i "s/^case.*/&\\n*'$1'*) echo crashed; exit 77 ;;/" "$work/bin/cargo"
}
for where in 'run one' 'run two' 'run three' 'fuzz build'; do
  crash "$where"
  expect 1 'FAIL  fuzz' "$run_fuzz"
done

# Miri on tests of which none, or some, have the name, with a fake cargo that runs nothing. miri EXECUTED: the output of
# the test programs.
miri() {
  printf '%s\n' '#!/bin/sh' "case \"\$*\" in *metadata*) echo '\"links\":\"aws_lc_0\"' ;; *no-run*|*version*) ;;" \
    "*) printf '%b' '$1' ;; esac" >"$work/bin/cargo"
  printf '%s\n' '#!/bin/sh' 'echo "host: here"' >"$work/bin/rustc"
  chmod +x "$work/bin/cargo" "$work/bin/rustc"
}
run_miri='step miri tests/miri.sh --unsafe'
ok=$(printf 'test %s::one ... ok\\n' mmsg shm::lend memory::tests words)
miri "$ok"
expect 0 '1 run' "$run_miri"
miri "${ok/test words::one ... ok/}"
expect 1 'FAIL  miri' "$run_miri"
miri "${ok/words::one ... ok/words::one ... ignored}"
expect 1 'no test with words:: in' "$run_miri"
miri ''
expect 1 'FAIL  miri' "$run_miri"

echo "steps fail, are skipped and pass as they should"
