#!/usr/bin/env bash
# The only member with a group's state is killed while another one takes it. That one founds the group anew, is told so, and
# stays a member.
. "$(dirname "${BASH_SOURCE[0]}")/../lib/namespaces.sh"

# about: E1 M1 M2 M3 M4 M5 M6 S1 S2 S7 I1 I2
harness create
harness about $(sed -n 's/^# about: //p' "$0")
harness faulty

slow_state=$(dirname "$PHALANX")/examples/slow_state
[ -x "$slow_state" ] || fail "$slow_state is not there: cargo build --profile quick -p phalanx --example slow_state"
hosts 3
# shellcheck disable=SC2046
start quorum 1 "$PHALANX" node $(settings 1 h1)
await "cell view 1: h1" "$work/quorum.out"

# member NAME NUMBER: a process hNUMBER on host 2, with 8 MiB in blocks of which each takes a millisecond to make. The script
# kills nobody else there but h2, whose end it records.
member() {
  start "$1" 2 env PHALANX_CELL=field PHALANX_NAME="h$2" PHALANX_BIND=10.77.0.2 PHALANX_CELL_KEY="$key" \
    PHALANX_SEEDS=10.77.0.1:7401 PHALANX_FOUNDERS=h1 PHALANX_RUNTIME_DIR="$work/run-2" PHALANX_TRACE="$work/traces" \
    PHALANX_TIMING__HEARTBEAT=50ms PHALANX_TIMING__SUSPECT_AFTER=600ms "$slow_state" 8 1
}

# On one host a death is proved, so nobody waits for the holder. Whenever it dies, the joiner stays.
round=0
for point in "Taking" "10 % have come" "50 % have come" "90 % have come"; do
  round=$((round + 1))
  holder=holder$round joiner=joiner$round second=second$round
  member "$holder" 2
  await "view 1: h2; 2048 blocks" "$work/$holder.out"
  member "$joiner" 3
  await "$point" "$work/$joiner.out"
  signal "$holder" KILL
  await "view 1: h3; 2048 blocks" "$work/$joiner.out"
  await "group blocks is founded anew by this process: the members that had its state are gone" "$work/$joiner.out"
  # The items of the inbox, without what progress and notices say. It may wait for the holder until the death is known.
  items=$(grep -v "have come\|^notice\|^Waiting" "$work/$joiner.out" | sed 's/ {.*//' | xargs)
  [ "$items" = "Taking FoundedAnew view 1: h3; 2048 blocks" ] || fail "killed at '$point', the joiner was told: $items"

  # It goes on as any member: another one takes its state as a whole.
  member "$second" 4
  await "view 2: h3, h4; 2048 blocks" "$work/$second.out"
  for name in "$second" "$joiner"; do
    say "$name" leave
    wait "${pid_of[$name]}" || fail "$name ended with $?"
  done
  # Its only end is the leave that it was asked for.
  ends=$(grep -c "^Left\|^Lost\|^Excluded" "$work/$joiner.out") || true
  [ "$ends" = 1 ] || fail "killed at '$point', the joiner was disturbed"
done

# On another host nobody can prove it. The joiner waits until an operator gives the state up, and is told of both.
# shellcheck disable=SC2046
replica() { start "$1" "$2" "$PHALANX" cat -g stock --history 1000 $(settings "$2" h1); }
replica a2 2
await "group stock view 1: h2" "$work/a2.err"
for line in $(seq 1 100); do say a2 "line $line"; done
await "line 100" "$work/a2.out"
signal a2 KILL
replica b3 3
await "group stock WAITS for one of h2" "$work/b3.err"
if grep "FOUNDED ANEW" "$work/b3.err"; then fail "the group is founded over its state"; fi
# shellcheck disable=SC2046
on 1 "$PHALANX" give-up stock --yes $(settings 1 h1) >"$work/given-up.txt" 2>&1 || { cat "$work/given-up.txt"; fail "give-up"; }
await "group stock is FOUNDED ANEW by this process: the members that had its state are gone" "$work/b3.err"
await "group stock view 1: h3" "$work/b3.err"
say b3 "anew"
await "anew" "$work/b3.out"
[ "$(cat "$work/b3.out")" = anew ] || { cat "$work/b3.out"; fail "the new group has an old state"; }

harness end
for name in b3 quorum; do
  signal "$name" TERM
  wait "${pid_of[$name]}" || fail "$name ended with $?"
done
check_traces --one-instance
