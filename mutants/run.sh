#!/usr/bin/env bash
# Judges the judges: applies each patch of this folder to a copy of the tree, runs simulated cells until one fails,
# and compares what was reported with what the patch says it breaks.
#
#   mutants/run.sh [-s SEEDS] [-m MEMBERS] [-o OUT] [PATCH..]
#
# A patch begins with lines that `patch` skips:
#   expect: S3 U1        any of these codes, reported by the simulator or the checker, means it was recognised
#   members: 4           optional, instead of -m
#   seeds: 0..2000       optional, instead of -s
#   tests: NAME          optional: run this filter of the simulator's scripted stories instead of seeds; a story that
#                        fails reports the code "story" besides those of the checker
#   unit: NAME           optional: run this unit test of the core instead, for what no run of cells comes to; a test
#                        that fails reports the code "unit"
#   stories: NAME..      optional: after the seeds recognised it, each of these stories must fail on it too
# Exit code: the number of mutants that were not recognised (at most 100).
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
seeds=0..2000 members=5 out=
usage() { sed -n '2,16s/^# \{0,1\}//p' "$0"; exit 2; }
while getopts s:m:o:h flag; do
  case $flag in
    s) seeds=$OPTARG ;; m) members=$OPTARG ;; o) out=$OPTARG ;; *) usage ;;
  esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || set -- "$root"/mutants/*.patch
[ -e "$1" ] || { echo "no mutants: $1 does not exist" >&2; exit 2; }

# One copy and one target directory for all mutants, so that only what a patch touches is built again.
work=${PHALANX_MUTANTS_DIR:-${TMPDIR:-/tmp}/phalanx-mutants}
mkdir -p "$work/tree" "$work/target"
export CARGO_TARGET_DIR=$work/target
# Built once and run for a minute: a quick build counts for more than the last bit of speed.
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_DEBUG=0 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
log=$work/log
field() { sed -n "/^$1: */{s///p;q}" "$2"; }
# Contents decide: what differs is copied (and so gets a new time, which the build looks at), the rest keeps its time.
refresh() {
  (cd "$root" && find . \( -name target -o -name .git \) -prune -o -type f -print) | sort >"$work/files"
  while read -r file; do
    cmp -s "$root/$file" "$work/tree/$file" && continue
    mkdir -p "$(dirname "$work/tree/$file")"
    cp "$root/$file" "$work/tree/$file"
  done <"$work/files"
  (cd "$work/tree" && find . -type f | sort | comm -13 "$work/files" - | tr '\n' '\0' | xargs -0 -r rm -f)
}

# The test program that holds a story, so that only that one is built.
suite() {
  local file
  file=$(grep -rl "fn $1" "$root/crates/phalanx-sim/tests" | head -n 1) || true
  file=${file#"$root/crates/phalanx-sim/tests/"}
  [ -n "$file" ] || { echo "$name: no story is called $1" >&2; exit 2; }
  echo "${file%%[/.]*}"
}

missed=0
for patch in "$@"; do
  patch=$(realpath "$patch")
  name=$(basename "$patch" .patch)
  expect=$(field expect "$patch")
  [ -n "$expect" ] || { echo "$name: the patch has no line 'expect: CODE..'" >&2; exit 2; }
  range=$(field seeds "$patch") && range=${range:-$seeds}
  count=$(field members "$patch") && count=${count:-$members}
  tests=$(field tests "$patch")
  unit=$(field unit "$patch")
  failed=${unit:+unit} failed=${failed:-story}
  stories=$(field stories "$patch")
  refresh
  if ! patch -s -p1 -d "$work/tree" <"$patch" >"$log" 2>&1; then
    verdict="STALE (the patch does not apply)" reported=-
  else
    started=$SECONDS
    if [ -n "$tests" ]; then
      command=(cargo test -q --release -p phalanx-sim --test "$(suite "$tests")" -- "$tests")
    elif [ -n "$unit" ]; then
      grep -rq "fn $unit(" "$root/crates/phalanx-core/src" || { echo "$name: no unit test is called $unit" >&2; exit 2; }
      command=(cargo test -q --release -p phalanx-core --lib -- "$unit")
    else
      command=(cargo run -q --release -p phalanx-sim --example campaign -- "$range" "$count")
    fi
    build=(cargo build -q --release -p phalanx-sim --example campaign)
    [ -z "$tests" ] || build=(cargo test -q --release -p phalanx-sim --test "$(suite "$tests")" --no-run)
    [ -z "$unit" ] || build=(cargo test -q --release -p phalanx-core --lib --no-run)
    build_ok=1
    (cd "$work/tree" && "${build[@]}") >"$log" 2>&1 || build_ok=0
    if [ $build_ok = 0 ]; then
      verdict="BROKEN (it does not compile)" reported=-
    else
      (cd "$work/tree" && STOP_AT="$expect" timeout "${PHALANX_MUTANT_SECONDS:-1800}" "${command[@]}") >"$log" 2>&1 || true
      # "seed 17: S3 text", or in a story's list "S3 at 1.5 s: text".
      reported=$(sed -nE 's/^seed [0-9]+: ([A-Za-z0-9_]+) .*/\1/p; s/^([A-Za-z0-9_]+) at [0-9.]+ s: .*/\1/p; s/^.* --- FAILED$/'$failed'/p' "$log" | sort -u | tr '\n' ' ')
      first=$(sed -nE '/^seed ([0-9]+): .*/{s//\1/p;q}' "$log")
      verdict="SURVIVED"
      for code in $expect; do
        case " $reported " in *" $code "*) verdict="recognised" ;; esac
      done
      if [ "$verdict" = SURVIVED ] && [ -n "$reported" ]; then verdict="MISTAKEN"; fi
      if [ "$verdict" = recognised ] && [ -n "$stories" ]; then
        for story in $stories; do
          (cd "$work/tree" && timeout "${PHALANX_MUTANT_SECONDS:-1800}" \
            cargo test -q --release -p phalanx-sim --test "$(suite "$story")" -- "$story") >"$log" 2>&1 || true
          grep -q "$story --- FAILED\$" "$log" || verdict="UNTOLD (the story $story ends well on it)"
        done
      fi
    fi
  fi
  [ "$verdict" = recognised ] || missed=$((missed + 1))
  line=$(printf '%-44s expect %-14s reported %-24s first seed %-6s %4d s  %s' \
    "$name" "$expect" "${reported:--}" "${first:--}" "$((SECONDS - ${started:-$SECONDS}))" "$verdict")
  echo "$line"
  [ -z "$out" ] || echo "$line" >>"$out"
done
exit $((missed > 100 ? 100 : missed))
