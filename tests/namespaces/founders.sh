#!/usr/bin/env bash
# Three founders on three hosts. One is killed and one stopped; all are killed, and only an operator founds anew.
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

for name in a1 b2 a3; do signal "$name" KILL; done
node c1 1
node c2 2
node c3 3
for name in c1 c2 c3; do await "looking for the cell" "$work/$name.out"; done
if grep -q "cell view" "$work"/c?.out; then fail "founders founded a second time"; fi
# The address of a founder that was ended, so that the others find it.
signal c1 TERM
wait "${pid_of[c1]}" || fail "a process that looks for its cell does not leave"
start new 1 "$PHALANX" reform --yes --look 500ms $(settings 1 h1,h2,h3)
for name in c2 c3; do await "cell view" "$work/$name.out"; await "h1" "$work/$name.out"; done
harness end
for name in c2 c3 new; do signal "$name" TERM; done
for name in c2 c3 new; do wait "${pid_of[$name]}" || fail "$name ended with $?"; done
check_traces
