#!/usr/bin/env bash
# `phalanx node -g` observes a group of replicas. It waits until others make the group, waits again while all of these are
# cut off or dead, and is never taken for the group's state.
. "$(dirname "${BASH_SOURCE[0]}")/../lib/namespaces.sh"

# about: E1 M1 M2 M3 M4 M5 M6 M8 S1 S2 S3 S4 S5 S6 S7 S10 I1 I2 I3 O4 O5 U5 U6 X2 X3 X5 X7 X8 X9
harness create
harness about $(sed -n 's/^# about: //p' "$0")
harness faulty

hosts 6
# shellcheck disable=SC2046
node() { start "$1" "$2" "$PHALANX" node "${@:3}" $(settings "$2" h1,h2,h3); }
# shellcheck disable=SC2046
replica() { start "$1" "$2" "$PHALANX" cat -g stock --uniform --history 1000 $(settings "$2" h1,h2,h3); }
# shellcheck disable=SC2046
stat_of() { on "$1" "$PHALANX" stat $(settings "$1" h1,h2,h3); }
lists() { stat_of "$1" | grep -E "$2" >/dev/null; }
out_of_group() { stat_of 1 >"$work/stat.txt" && ! grep observed "$work/stat.txt" >/dev/null; }

# The members of the group at the observer, sorted; none while it waits.
observed() {
  awk '/^group stock (WAITS|is NOT THERE)/ { view = "" }
    sub(/^group stock view [0-9]+: /, "") { sub(/;.*/, ""); view = $0 }
    END { print view }' "$work/o1.out" | tr -d ',' | tr ' ' '\n' | sort | xargs
}
observes() { [ "$(observed)" = "$1" ]; }
await_observed() { waited "the observer to see '$1'" observes "$1"; }
# told TEXT N: whether the observer printed the text that often.
told() { [ "$(grep -cF -- "$1" "$work/o1.out")" = "$2" ]; }
readonly ABSENT="group stock is NOT THERE: no process of this cell is in it" WAITS="group stock WAITS for one of"
# Whether the group waits for exactly these, as any member of the cell says.
waits_for() { [ "$(stat_of 2 | sed -nE 's/^stock +(h[0-9] [0-9a-f]{16})/\1/p' | grep -oE 'h[0-9]' | sort | xargs)" = "$1" ]; }

# It waits for others to make the group.
node o1 1 -g stock
node n2 2
node n3 3
await "$ABSENT" "$work/o1.out"
if stat_of 1 | grep stock; then fail "the observer is in a group that nobody made"; fi

# A replica makes it, and others take its state. The observer follows, and is listed as one.
replica r4 4
await_observed "h1 h4"
grep -q "group stock view 1: h4$" "$work/r4.err" || fail "the replica did not make the group"
for line in $(seq 1 100); do say r4 "line $line"; done
await "line 100" "$work/r4.out"
replica r5 5
replica r6 6
for name in o1.out r4.err r5.err r6.err; do await_group "h1 h4 h5 h6" "$work/$name"; done
for who in r4 r5 r6; do
  say "$who" "$who is here"
  for name in r4 r5 r6; do await "$who is here" "$work/$name.out"; done
done
waited "the observer to be listed as one" lists 1 "^stock +h1 .* observed "
waited "the replica to be listed as one" lists 5 "^stock +h5 .* yes "

# All replicas are cut off. The observer's side has the quorum and not the state, so the group waits.
cut "1 2 3" "4 5 6"
await "$WAITS" "$work/o1.out"
for name in r4 r5 r6; do await "NOT in the primary partition" "$work/$name.err"; done
waited "the group to wait for all replicas" waits_for "h4 h5 h6"
sleep 1
observes "" || fail "the observer went on with the group alone: $(observed)"
waited "the observer to be in no group" out_of_group

# Together again, it goes on with the replicas' state. Nothing is lost.
heal
for name in r4 r5 r6; do await "excluded: " "$work/$name.err"; done
await_observed "h1 h4 h5 h6"
waited "a replica that goes on with what it kept" grep -q "group stock goes on with the state that this process kept" "$work"/r?.err
say r4 "together again"
for name in r4 r5 r6; do
  await "together again" "$work/$name.out"
  cmp "$work/r4.out" "$work/$name.out" || fail "r4 and $name printed different lines"
done
[ "$(grep -c '' "$work/r4.out")" = 104 ] || { cat "$work/r4.out"; fail "a line is lost, or was printed twice"; }

# All replicas are killed at once. The group waits for them: on other hosts, nobody can prove that they are dead. One that
# starts again has no state, and gets none from the observer.
kill -KILL "${pid_of[r4]}" "${pid_of[r5]}" "${pid_of[r6]}"
for name in r4 r5 r6; do
  wait "${pid_of[$name]}" 2>/dev/null || true
  lives "$name" crash
done
waited "the group to wait for the dead" waits_for "h4 h5 h6"
replica b4 4
waited "the group to wait for the others alone" waits_for "h5 h6"
await "$WAITS" "$work/b4.err"
sleep 1
observes "" || fail "the observer went on with the group alone: $(observed)"
if grep "group stock view\|taking .* bytes of state" "$work/b4.err"; then fail "a replica began without the state"; fi
told "$ABSENT" 1 || fail "a group that waits is said not to be there"

# Only an operator knows that they will not be back. The group then begins anew, and without the old lines.
# shellcheck disable=SC2046
on 3 "$PHALANX" give-up stock --yes $(settings 3 h1,h2,h3) >"$work/given-up.txt" 2>&1 ||
  { cat "$work/given-up.txt"; fail "give-up"; }
await_observed "h1 h4"
say b4 "anew"
replica b5 5
await_observed "h1 h4 h5"
for name in b4 b5; do await "anew" "$work/$name.out"; done
[ "$(cat "$work/b5.out")" = anew ] || { cat "$work/b5.out"; fail "the new group has an old state"; }

# The last replicas leave in order. The observer waits, as it did first.
for name in b4 b5; do signal "$name" TERM; done
for name in b4 b5; do wait "${pid_of[$name]}" || fail "$name ended with $?"; done
await_observed ""
waited "the observer to wait again" eval 'told "$ABSENT" 2 || told "$ABSENT" 3'

harness end
for name in o1 n2 n3; do signal "$name" TERM; done
for name in o1 n2 n3; do wait "${pid_of[$name]}" || fail "$name ended with $?"; done
for name in o1 n2 n3; do
  if grep -E "^(NOT in the primary|excluded)" "$work/$name.out"; then fail "$name was disturbed"; fi
done
check_traces --one-instance
