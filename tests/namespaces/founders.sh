#!/usr/bin/env bash
# Three founders on three hosts. One is killed and one is stopped. Then all are killed, and only an operator founds the
# cell again.
. "$(dirname "${BASH_SOURCE[0]}")/../lib/namespaces.sh"

# about: E1 M1 M3 M4 M5 M6 M8
harness create
harness about $(sed -n 's/^# about: //p' "$0")
harness faulty

hosts 3
node() { start "$1" "$2" "$PHALANX" node $(settings "$2" h1,h2,h3); }

node a1 1
node a2 2
sleep 1
if grep -q "cell view" "$work/a1.out" "$work/a2.out"; then fail "two of three founders founded the cell"; fi
node a3 3
for name in a1 a2 a3; do
  await "cell view 1: " "$work/$name.out"
  for member in h1 h2 h3; do await "$member" "$work/$name.out"; done
done

signal a2 KILL
for name in a1 a3; do await "gone: h2 (unreachable)" "$work/$name.out"; done
node b2 2
await "was a member of the cell before" "$work/b2.err"
for name in a1 a3 b2; do await "joined: h2" "$work/$name.out"; done

signal a3 STOP
for name in a1 b2; do await "gone: h3 (unreachable)" "$work/$name.out"; done
signal a3 CONT
await "excluded: " "$work/a3.out"
for name in a1 b2; do await "joined: h3" "$work/$name.out"; done

# The whole cell dies. Its founders report that, and only an operator founds it again.
for name in a1 b2 a3; do signal "$name" KILL; done
node c1 1
await "waits for all founders; not heard: h2, h3" "$work/c1.out"
if on 1 "$PHALANX" reform --all-dead --yes --timeout 5s $(settings 1 h1,h2,h3) >"$work/minority.txt" 2>&1; then
  fail "one founder of three founded the cell again"
fi
grep -q "1 of 3 founders look for the cell, and more than half must" "$work/minority.txt" || { cat "$work/minority.txt"; fail "a minority is not told"; }
node c2 2
node c3 3
for name in c1 c2 c3; do await "the whole cell died, or its living members cannot be reached" "$work/$name.out"; done
grep -q "The last view that each recorded: h1 view" "$work/c2.out" || fail "the last views are not told"
if grep -q "cell view" "$work"/c?.out; then fail "founders founded a second time"; fi
if on 2 "$PHALANX" reform --all-dead $(settings 2 h1,h2,h3) >"$work/unsure.txt" 2>&1; then fail "it founds without --yes"; fi
grep -q "add --yes" "$work/unsure.txt" || { cat "$work/unsure.txt"; fail "no remedy"; }
on 2 "$PHALANX" reform --all-dead --yes $(settings 2 h1,h2,h3) >"$work/again.txt" 2>&1 || { cat "$work/again.txt"; fail "reform --all-dead"; }
grep -q "of generation 2" "$work/again.txt" || { cat "$work/again.txt"; fail "another generation"; }
for name in c1 c2 c3; do await "cell view 1: " "$work/$name.out"; done
harness end
for name in c1 c2 c3; do signal "$name" TERM; done
for name in c1 c2 c3; do wait "${pid_of[$name]}" || fail "$name ended with $?"; done
check_traces --one-instance
