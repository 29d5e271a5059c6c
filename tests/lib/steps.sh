# The steps of `./x test`: each runs with its output in a log, ends in one line, and fails, is skipped, or passes.
# Source this file; `tests/steps.sh` tests it.
#
# Wanted: logs (a directory). Kept there: NAME.log for each step; "skips", a line for each thing that was skipped; of
# the last step "fetches", the things that could not be fetched, and "lacks", those for want of which something was left out.
#
# A step ends with exit code 77 when it cannot run here. With PHALANX_CI=1 that is a failure unless it names the thing it
# lacks, and `fetch` tried in the same step to get that very thing, and failed: a machine of the continuous integration
# must run whatever it can get.

steps=0
readonly SKIPPED=77

say() { printf '%s\n' "$*" >&2; }
die() { say "x: $*"; exit 1; }

# begin_steps [NAME...]: only these steps will run; without names, all.
begin_steps() {
  only=("$@")
  unknown=" $* "
  began_steps=$SECONDS
  export PHALANX_SKIPS=$logs/skips PHALANX_FETCHES=$logs/fetches PHALANX_LACKS=$logs/lacks
  : >"$PHALANX_SKIPS"
}

# Whether a step was asked for.
is_wanted() {
  [ ${#only[@]} -eq 0 ] && return 0
  local name
  for name in "${only[@]}"; do [ "$name" != "$1" ] || return 0; done
  return 1
}

# step NAME COMMAND...: never call it in a condition, where bash would ignore `set -e` in the command, too.
step() {
  local name=$1 began=$SECONDS code before unexcused
  shift
  is_wanted "$name" || return 0
  unknown=${unknown/ $name / }
  : >"$PHALANX_FETCHES"
  : >"$PHALANX_LACKS"
  before=$(wc -l <"$PHALANX_SKIPS")
  set +e
  (set -euo pipefail; "$@") </dev/null >"$logs/$name.log" 2>&1
  code=$?
  set -e
  case $code in
    0)
      steps=$((steps + 1))
      printf 'ok    %-11s %4d s\n' "$name" $((SECONDS - began))
      ;;
    "$SKIPPED")
      printf '%s: %s\n' "$name" "$(tail -n 1 "$logs/$name.log")" >>"$PHALANX_SKIPS"
      printf 'skip  %-11s %4d s\n' "$name" $((SECONDS - began))
      ;;
    *)
      printf 'FAIL  %-11s %4d s\n' "$name" $((SECONDS - began))
      say "--- the end of $logs/$name.log ---"
      tail -n 60 "$logs/$name.log" >&2
      say "--- failed with exit code $code: $* ---"
      exit 1
      ;;
  esac
  # A program that ends with 77, or writes into the list of skips, may not say what it lacks.
  [ "$(($(wc -l <"$PHALANX_SKIPS") - before))" -le "$(wc -l <"$PHALANX_LACKS")" ] ||
    echo "(something that was not named)" >>"$PHALANX_LACKS"
  unexcused=$(grep -vxFf "$PHALANX_FETCHES" "$PHALANX_LACKS" || true)
  if [ "${PHALANX_CI:-0}" = 1 ] && [ -n "$unexcused" ]; then
    say "x: $name was skipped or left something out for want of what nobody failed to fetch:"
    printf '%s\n' "$unexcused" >&2
    die "with PHALANX_CI=1 that is a failure; the whole output is in $logs/$name.log"
  fi
}

# fetch THING COMMAND...: gets something from outside. Fails, and remembers that it was tried, when the command fails.
fetch() {
  local thing=$1
  shift
  echo "fetching $thing: $*"
  "$@" && return 0
  echo "$thing" >>"$PHALANX_FETCHES"
  return 1
}

# leave_out WHAT THING WHY: a part of a step does not run here for want of a thing.
leave_out() {
  echo "left out: $1: $3"
  printf '%s: %s\n' "$1" "$3" >>"$PHALANX_SKIPS"
  echo "$2" >>"$PHALANX_LACKS"
}

# skip_step THING WHY: ends a step that cannot run here for want of a thing.
skip_step() {
  echo "$1" >>"$PHALANX_LACKS"
  echo "$2"
  exit "$SKIPPED"
}

# The closing lines: what was skipped, and the sum.
end_steps() {
  local skipped
  [ -z "${unknown// /}" ] || die "there is no step called${unknown% }"
  skipped=$(wc -l <"$PHALANX_SKIPS")
  sed 's/^/skipped: /' "$PHALANX_SKIPS"
  echo "all steps passed in $((SECONDS - began_steps)) s ($steps run, $skipped skipped)"
}
