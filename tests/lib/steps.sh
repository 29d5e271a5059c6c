# The steps of `./x test`. Each runs with its output in a log, and fails, is skipped, or passes. Its result is one line.
# Source this file; `tests/steps.sh` tests it.
#
# Input: logs (a directory). Files written there: NAME.log for each step; "skips", a line for each thing that was
# skipped; and for the current step "fetches", the things that could not be fetched, and "lacks", the things whose
# absence made it leave something out. What the steps run of the tests' files is in NAME.ran (tests/reached.sh).
#
# A step ends with exit code 77 when it cannot run here. With PHALANX_CI=1 that is a failure, unless the step names the
# thing it lacks, and `fetch` tried in the same step to get that very thing, and failed. A CI machine must run
# everything it can get.

steps=0
besides=()
processor=0
readonly SKIPPED=77
# So many of the steps that `beside` started run at a time.
readonly BESIDE_AT_ONCE=2

say() { printf '%s\n' "$*" >&2; }
die() { say "x: $*"; exit 1; }

# begin_steps [NAME...]: selects the steps to run; without names, all.
begin_steps() {
  only=("$@")
  unknown=" $* "
  began_steps=$SECONDS
  # A byte in this pipe is leave to run beside; a step takes one, and puts it back.
  rm -f "$logs/places"
  mkfifo "$logs/places"
  exec {places}<>"$logs/places"
  rm -f "$logs/places"
  printf "%${BESIDE_AT_ONCE}s" '' >&"$places"
  export STEP_SKIPS=$logs/skips STEP_FETCHES=$logs/fetches STEP_LACKS=$logs/lacks STEP_RAN=
  : >"$STEP_SKIPS" >"$logs/commits"
  # Without names everything runs anew.
  [ $# -gt 0 ] || rm -f "$logs"/*.ran
}

# Whether a step is selected.
is_wanted() {
  [ ${#only[@]} -eq 0 ] && return 0
  local name
  for name in "${only[@]}"; do [ "$name" != "$1" ] || return 0; done
  return 1
}

# step NAME COMMAND...: runs a step. Never call it in a condition: bash would then ignore `set -e` in the command, too.
step() {
  local name=$1 began=$SECONDS code before
  shift
  is_wanted "$name" || return 0
  unknown=${unknown/ $name / }
  collect
  rm -f "$logs/$name.times"
  : >"$STEP_FETCHES"
  : >"$STEP_LACKS"
  STEP_RAN=$logs/$name.ran
  : >"$STEP_RAN"
  before=$(wc -l <"$STEP_SKIPS")
  set +e
  (set -euo pipefail; trap 'times >"$logs/$name.times"' EXIT; "$@") </dev/null >"$logs/$name.log" 2>&1
  code=$?
  set -e
  settle "$name" "$code" "$((SECONDS - began))" "$before" "$*"
}

# settle NAME CODE TOOK BEFORE COMMAND: prints the result of a step, and fails if it left out anything that it may not.
# BEFORE: the length of the list of skips before the step.
settle() {
  local name=$1 unexcused
  report "$1" "$2" "$3" "$5"
  # A program that ends with 77, or writes into the list of skips itself, does not name what it lacks.
  [ "$(($(wc -l <"$STEP_SKIPS") - $4))" -le "$(wc -l <"$STEP_LACKS")" ] ||
    echo "(something that was not named)" >>"$STEP_LACKS"
  unexcused=$(grep -vxFf "$STEP_FETCHES" "$STEP_LACKS" || true)
  if [ "${PHALANX_CI:-0}" = 1 ] && [ -n "$unexcused" ]; then
    say "x: $name was skipped or left something out for want of what nobody failed to fetch:"
    printf '%s\n' "$unexcused" >&2
    die "with PHALANX_CI=1 that is a failure; the whole output is in $logs/$name.log"
  fi
}

# The processor seconds that a step took, as its shell wrote them down (`times`). A killed step wrote nothing.
processor_of() {
  [ -s "$logs/$1.times" ] || { echo 0; return; }
  tr ' ' '\n' <"$logs/$1.times" | awk -F'[ms]' '{ sum += $1 * 60 + $2 } END { printf "%d\n", sum + 0.5 }'
}

# report NAME CODE TOOK COMMAND: prints the result of a step: seconds, and processor seconds, which do not depend on what
# runs beside it.
report() {
  local name=$1 code=$2 result=FAIL used
  used=$(processor_of "$name")
  processor=$((processor + used))
  case $code in 0) result=ok ;; "$SKIPPED") result=skip ;; esac
  printf '%-5s %-12s %5d s  %5d s of processor\n' "$result" "$name" "$3" "$used"
  case $code in
    0) steps=$((steps + 1)) ;;
    "$SKIPPED") printf '%s: %s\n' "$name" "$(tail -n 1 "$logs/$name.log")" >>"$STEP_SKIPS" ;;
    *)
      say "--- the end of $logs/$name.log ---"
      tail -n 60 "$logs/$name.log" >&2
      # Those of test programs that others followed.
      grep -hE -A 2 "^(test .* FAILED$|thread '.*panicked at )" "$logs/$name.log" | head -n 60 >&2 || true
      say "--- failed with exit code $code: $4 ---"
      exit 1
      ;;
  esac
}

# beside NAME COMMAND...: starts a step at the lowest priority beside the following ones, until `join`. The step should
# need only the processor, of which it gets what they leave. It has its own lists of what it skips, fetched and lacks.
beside() {
  local name=$1
  shift
  is_wanted "$name" || return 0
  unknown=${unknown/ $name / }
  rm -f "$logs/$name.span" "$logs/$name.times"
  # A process group of its own, so that the failure of another step can kill all of it.
  set -m
  (
    set +m -euo pipefail
    read -r -N 1 -u "$places" _
    began=$SECONDS
    trap 'times >"$logs/$name.times"; echo $((SECONDS - began)) >"$logs/$name.span"; printf " " >&"$places"' EXIT
    renice -n 19 -p "$BASHPID" >/dev/null
    STEP_SKIPS=$logs/$name.skips STEP_FETCHES=$logs/$name.fetches STEP_LACKS=$logs/$name.lacks
    STEP_RAN=$logs/$name.ran
    : >"$STEP_SKIPS" >"$STEP_FETCHES" >"$STEP_LACKS" >"$STEP_RAN"
    "$@"
  ) </dev/null >"$logs/$name.log" 2>&1 &
  set +m
  besides+=("$name $! $*")
  trap end_besides EXIT
}

# Prints the results of the steps beside that have ended, and fails if one of them failed.
collect() {
  local line name job command code left=() all_skips=$STEP_SKIPS
  local STEP_SKIPS STEP_FETCHES STEP_LACKS
  for line in "${besides[@]}"; do
    read -r name job command <<<"$line"
    if kill -0 "$job" 2>/dev/null; then
      left+=("$line")
      continue
    fi
    code=0
    wait "$job" || code=$?
    STEP_SKIPS=$logs/$name.skips STEP_FETCHES=$logs/$name.fetches STEP_LACKS=$logs/$name.lacks
    settle "$name" "$code" "$(cat "$logs/$name.span" 2>/dev/null || echo 0)" 0 "$command"
    cat "$STEP_SKIPS" >>"$all_skips"
  done
  besides=("${left[@]}")
}

# Waits for the steps that `beside` started.
join() {
  collect
  while [ ${#besides[@]} -gt 0 ]; do
    sleep 0.2
    collect
  done
}

# Kills the steps that still run beside a failed one.
end_besides() {
  local line name job rest
  for line in "${besides[@]}"; do
    read -r name job rest <<<"$line"
    kill -- "-$job" 2>/dev/null || true
  done
}

# fetch THING COMMAND...: gets something from outside. If the command fails, it records the attempt and fails.
fetch() {
  local thing=$1
  shift
  echo "fetching $thing: $*"
  "$@" && return 0
  echo "$thing" >>"$STEP_FETCHES"
  return 1
}

# ran FILE...: records that this step runs these files of the tests.
ran() { [ $# -eq 0 ] || [ -z "$STEP_RAN" ] || printf '%s\n' "$@" >>"$STEP_RAN"; }

# not_run PATH...: records files, or directories of them, that this step has to leave out.
not_run() { ran "${@/#/not run: }"; }

# run_file FILE ARGUMENT...: runs a script of the tests.
run_file() {
  local with=bash
  case $1 in *.py) with=python3 ;; esac
  ran "$1"
  "$with" "$@"
}

# known_good FILE SUM: whether the file says that what has this checksum was found good. A line that begins with # is a
# comment.
known_good() { grep -v '^#' "$1" | grep -q "^$2\b"; }

# to_commit FILE LINE: says in the closing lines that the line belongs into the file, in place of the one there.
to_commit() {
  echo "the line for $1 is now: $2"
  echo "$1: $2" >>"$logs/commits"
}

# leave_out WHAT THING WHY [PATH...]: records that a part of a step does not run here because a thing is missing. These
# files of the tests are not run then.
leave_out() {
  not_run "${@:4}"
  echo "left out: $1: $3"
  printf '%s: %s\n' "$1" "$3" >>"$STEP_SKIPS"
  echo "$2" >>"$STEP_LACKS"
}

# skip_step THING WHY [PATH...]: ends a step that cannot run here because a thing is missing. These files of the tests,
# or directories, are not run then.
skip_step() {
  not_run "${@:3}"
  echo "$1" >>"$STEP_LACKS"
  echo "$2"
  exit "$SKIPPED"
}

# Waits for the steps that run beside, and prints what was skipped and the totals.
end_steps() {
  local skipped
  join
  [ -z "${unknown// /}" ] || die "there is no step called${unknown% }"
  skipped=$(wc -l <"$STEP_SKIPS")
  sed 's/^/skipped: /' "$STEP_SKIPS"
  sed 's/^/to commit: /' "$logs/commits"
  echo "all steps passed in $((SECONDS - began_steps)) s ($steps run, $skipped skipped), $processor s of processor"
}
