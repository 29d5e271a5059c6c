#!/usr/bin/env bash
# A member behind a path that holds each packet for 300 ms, each way: it joins, sends, leaves, and sees others leave and
# die. Every step ends in a bounded time.
. "$(dirname "${BASH_SOURCE[0]}")/../lib/namespaces.sh"

# about: E1 M1 M2 M3 M5 M6 S1 S2 S3 S5 S6 S7 I1 I2 I3 O1 O3 O4 O5 U1 X3 X5
harness create
harness about $(sed -n 's/^# about: //p' "$0")
harness faulty

# No step takes longer, on a machine with little time too.
readonly STEP_SECONDS_MAX=60
began=$SECONDS
step() {
  local took=$((SECONDS - began))
  echo "$1: $took s"
  [ "$took" -le "$STEP_SECONDS_MAX" ] || fail "$1 took $took s"
  began=$SECONDS
}

hosts 4
delay 4 300
# A member is not suspected within its own round trip.
far_settings() { local set; set=$(settings "$1" h1,h2,h3); echo "${set/suspect_after=600ms/suspect_after=1s}"; }
# shellcheck disable=SC2046
member() { start "$1" "$2" "$PHALANX" cat -g field --uniform $(far_settings "$2"); }
heard_by_all() {
  local name
  for name in "${members[@]}"; do await "$1" "$work/$name.out"; done
}

for host in 1 2 3; do member "h$host" "$host"; done
members=(h1 h2 h3)
in_group() {
  local name
  for name in "${members[@]}"; do await_group "${members[*]}" "$work/$name.err"; done
}
in_group
say h1 "before it joins"
heard_by_all "before it joins"
step "founding without it"

member h4 4
members+=(h4)
in_group
step "its join"

for name in "${members[@]}"; do say "$name" "$name sends to a far member"; done
for name in h1 h2 h3 h4; do heard_by_all "$name sends to a far member"; done
for line in $(seq 1 300); do say h4 "far line $line"; say h1 "near line $line"; done
heard_by_all "far line 300"
heard_by_all "near line 300"
step "600 lines with it"

signal h2 TERM
wait "${pid_of[h2]}" || fail "h2 ended with $?"
members=(h1 h3 h4)
for name in "${members[@]}"; do await "h2 (left)" "$work/$name.err"; done
step "the leave of a near member"

signal h3 KILL
members=(h1 h4)
for name in "${members[@]}"; do await "h3 (unreachable)" "$work/$name.err"; done
for name in "${members[@]}"; do say "$name" "$name is still here"; done
for name in h1 h4; do heard_by_all "$name is still here"; done
step "the death of a near member"

signal h4 TERM
wait "${pid_of[h4]}" || fail "h4 ended with $?"
await "h4 (left)" "$work/h1.err"
step "its leave"

# It comes back, and is there to the end.
member b4 4
for name in h1 b4; do await_group "h1 h4" "$work/$name.err"; done
say b4 "back again"
await "back again" "$work/h1.out"
await "back again" "$work/b4.out"
step "its return"

harness end
for name in h1 b4; do signal "$name" TERM; done
for name in h1 b4; do wait "${pid_of[$name]}" || fail "$name ended with $?"; done
check_traces --one-instance
