#!/usr/bin/env bash
# `phalanx ask` of three members that run `phalanx answer`, on three hosts and on one. One member is stopped, so that the ask
# stays open; it is killed, and the ask ends with the view without it.
. "$(dirname "${BASH_SOURCE[0]}")/../lib/namespaces.sh"

# about: E1 M1 M2 M3 M4 M5 M6 S1 S2 S7 I1 I2 R3 R8 R9
harness create
harness about $(sed -n 's/^# about: //p' "$0")
harness faulty

hosts 4
# A shell's arithmetic needs no program.
calc=(sh -c 'read -r sum; echo $(($sum))')
! command -v bc >/dev/null || calc=(bc)

# options PLACE NUMBER: the flags of member NUMBER, which is on the host of its number, or on host 4 with the others.
options() {
  case $1 in
    hosts) settings "$2" h1 ;;
    host) echo --cell calc --name "h$2" --runtime-dir "$work/run-4" ;;
  esac
  # Nobody is suspected while the script looks whether the ask is open. It replaces what stands before.
  echo --set timing.suspect_after=3s
}
host_of_member() { if [ "$1" = hosts ]; then echo "$2"; else echo 4; fi; }

# asks PLACE NAME ARGUMENT..: an ask in the background.
# shellcheck disable=SC2046
asks() { start "$2" "$(host_of_member "$1" 1)" "$PHALANX" ask -g calc "${@:3}" $(options "$1" 1); }

# ends NAME CODE TEXT: waits for the end of an ask.
ends() {
  local code=0
  wait "${pid_of[$1]}" || code=$?
  unset "pid_of[$1]"
  [ "$code" = "$2" ] || fail "$1 ended with $code and not with $2"
  grep -qF -- "$3" "$work/$1.err" || fail "$1 does not say '$3'"
}

# answers NAME LINE..: whether it printed exactly these, in whatever order.
answers() { [ "$(sort "$work/$1.out")" = "$(printf '%s\n' "${@:2}")" ]; }

for place in hosts host; do
  # The first one is the oldest, and orders what is asked: it is not the one that is stopped.
  for number in 1 2 3; do
    # shellcheck disable=SC2046
    start "$place$number" "$(host_of_member $place $number)" "$PHALANX" answer -g calc $(options $place $number) "${calc[@]}"
    await_group "h$number" "$work/$place$number.err"
  done
  await_group "h1 h2 h3" "$work/${place}1.err"

  asks $place "$place-all" $'6*7\n'
  ends "$place-all" 0 "the ask is met (values 3, no answer 0, left 0)"
  answers "$place-all" "h1: 42" "h2: 42" "h3: 42" || fail "other answers"

  # An ask waits for one that is stopped.
  asks $place "$place-open" --plain --keep
  await "asks group calc" "$work/$place-open.err"
  kill -STOP "${pid_of[${place}3]}"
  until_stopped "${pid_of[${place}3]}"
  [ $place = host ] || lives "${place}3" stop
  say "$place-open" "6*7"
  waited "the answers of the others" answers "$place-open" "h1: 42" "h2: 42"
  sleep 1
  # On a slow machine the view may have come by now.
  if grep "the ask is" "$work/$place-open.err" | grep -v "left 1"; then fail "an ask ended before the view"; fi
  if grep "gone: h3" "$work/${place}1.err"; then echo "slow: the stopped member was excluded before it was killed"; fi

  killed=$EPOCHREALTIME
  if [ $place = host ]; then kill -KILL "${pid_of[${place}3]}"; else signal "${place}3" KILL; fi
  await "the ask is complete" "$work/$place-open.err"
  ended=$EPOCHREALTIME
  grep -q "gone: h3" "$work/${place}1.err" || await "gone: h3" "$work/${place}1.err"
  grep -qF "h3 is gone without an answer" "$work/$place-open.err" || fail "it does not say who left"
  grep -qF "(values 2, no answer 0, left 1)" "$work/$place-open.err" || fail "another end"
  echo "$place: killed at $killed, the ask ended at $ended:"
  grep "the ask is\|is gone" "$work/$place-open.err"

  # The next one goes to the others alone.
  say "$place-open" "1+1"
  await "(values 2, no answer 0, left 0)" "$work/$place-open.err"
  kill -INT "${pid_of[$place-open]}"
  ends "$place-open" 9 "the ask is met"
  unset "pid_of[${place}3]"
done

harness end
for place in hosts host; do
  for number in 1 2; do
    signal "$place$number" TERM
    wait "${pid_of[$place$number]}" || fail "$place$number ended with $?"
  done
done
check_traces --one-instance
