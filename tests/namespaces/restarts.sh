#!/usr/bin/env bash
# Three founders and a fourth host. All hosts are restarted one after the other. Then all are shut down in order and
# started again, and once more while one host is cut off.
. "$(dirname "${BASH_SOURCE[0]}")/../lib/namespaces.sh"

# about: E1 M1 M3 M4 M5 M6 M8 S4
harness create
harness about $(sed -n 's/^# about: //p' "$0")
harness faulty

hosts 4
node() { start "$1" "$2" "$PHALANX" cat --group stock $(settings "$2" h1,h2,h3); }
# stop NAME..: stops processes; each ends by itself, and reports that it left.
stop() {
  local name
  for name in "$@"; do signal "$name" TERM; done
  for name in "$@"; do wait "${pid_of[$name]}" || fail "$name ended with $?"; done
}
# together NAME..: waits until each is in a view with all four hosts, and in the group.
together() {
  local name host
  for name in "$@"; do
    for host in 1 2 3 4; do await "h$host" "$work/$name.err"; done
    await "group stock view" "$work/$name.err"
  done
}

for host in 1 2 3 4; do node "a$host" $host; done
together a1 a2 a3 a4

# A rolling restart: the state stays with the live members, and no process founds anything.
for host in 1 2 3 4; do
  stop "a$host"
  node "b$host" $host
  await "group stock view" "$work/b$host.err"
  if grep -q "cell view 1: " "$work/b$host.err"; then fail "h$host founded the cell again"; fi
done
together b1 b2 b3 b4

# An orderly shutdown of all, one after the other, and a start of all: the cell begins again by itself.
for host in 1 2 3 4; do stop "b$host"; done
grep -q "^left = true" "$work/state-1/cell-"*/founder-h1 || fail "h1 did not write down that it left"
grep -q "^ended_but_for = \[\]" "$work/state-4/cell-"*/founder-h4 || fail "h4, the last, did not write down that the cell ended"
for host in 1 2 3 4; do node "c$host" $host; done
together c1 c2 c3 c4
if grep -q "the whole cell died" "$work"/c?.err; then fail "a cell that all left is said to have died"; fi

# The same with a shutdown of all at once.
stop c1 c2 c3 c4
for host in 1 2 3 4; do node "d$host" $host; done
together d1 d2 d3 d4

# One host is cut off while the others shut down and start again. Its member lives in the old cell, so the others wait
# for it, and report that.
cut "3" "1 2 4"
for name in d1 d2 d4; do await "gone: h3 (unreachable)" "$work/$name.err"; done
stop d1 d2 d4
for host in 1 2 4; do node "e$host" $host; done
sleep 3
heal
await "excluded: " "$work/d3.err"
together e1 e2 e4
await "cell view 1: " "$work/e1.err"
await "h4" "$work/d3.err"

# One never comes back. The message names it, and one command founds the cell without it.
signal d3 KILL
for name in e1 e2 e4; do await "gone: h3 (unreachable)" "$work/$name.err"; done
stop e1 e2 e4
rm -rf "$work/state-3" "$work/run-3"
for host in 1 2 4; do node "f$host" $host; done
node f3 3
for name in f1 f2 f3; do await "nobody knows that they ended: h3" "$work/$name.err"; done
if grep -q "cell view" "$work"/f?.err; then fail "the cell was founded while h3 may live elsewhere"; fi
on 1 "$PHALANX" reform --all-dead --yes $(settings 1 h1,h2,h3) >"$work/again.txt" 2>&1 || { cat "$work/again.txt"; fail "reform --all-dead"; }
together f1 f2 f3 f4

harness end
stop f1 f2 f3 f4
check_traces --one-instance
