#!/usr/bin/env bash
# Ways to found a cell twice by mistake, and the command for the survivor of a lost quorum.
. "$(dirname "${BASH_SOURCE[0]}")/../lib/namespaces.sh"

# about: E1 M1 M3 M4 M5 M6
harness create
harness about $(sed -n 's/^# about: //p' "$0")
harness faulty

hosts 4
node() { start "$1" "$2" "$PHALANX" cat --group stock $(settings "$2" h1,h2,h3); }

# Founders with different lists found nothing, and report which host has which list.
start a1 1 "$PHALANX" cat --group stock $(settings 1 h1,h2)
start a2 2 "$PHALANX" cat --group stock $(settings 2 h1,h2,h3)
await "is configured with other founders" "$work/a1.err"
if grep -q "cell view" "$work"/a?.err; then fail "founders with unequal lists founded a cell"; fi
for name in a1 a2; do signal "$name" TERM; wait "${pid_of[$name]}" || fail "$name ended with $?"; done

# A second process with a founder's name, on another host.
node b1 1
start twin 4 "$PHALANX" cat --group stock $(settings 4 h1,h2,h3 | sed 's/--name h4/--name h1/')
await "another process with the name h1 looks for the cell" "$work/b1.err"
node b2 2
node b3 3
sleep 2
if grep -q "cell view" "$work"/b?.err "$work/twin.err"; then fail "a cell was founded with two processes of one name"; fi
signal twin TERM
wait "${pid_of[twin]}" || fail "the twin does not leave"
for name in b1 b2 b3; do await "cell view 1: h1, h2, h3" "$work/$name.err"; done

# On the same host it is refused at once.
second=$(settings 1 h1,h2,h3 | sed 's/--data-port 7400 --control-port 7401/--data-port 0 --control-port 0/')
if on 1 "$PHALANX" node $second >"$work/second.txt" 2>&1; then fail "a second h1 on one host"; fi
grep -qi "h1" "$work/second.txt" || { cat "$work/second.txt"; fail "it does not say which name is taken"; }

# Every directory of a live member is removed in turn. The member restores it, and reports that.
rm -rf "$work/state-1"
await "was emptied while this process lives" "$work/b1.err"
[ -n "$(find "$work/state-1" -name 'founder-*')" ] || { find "$work/state-1"; fail "the founder's record is not there again"; }
rm -rf "$work/run-2"
await "was emptied while this process lives" "$work/b2.err"

# A founder with an empty directory hears the cell, and joins it.
signal b3 KILL
await "gone: h3" "$work/b1.err"
rm -rf "$work/state-3" "$work/run-3"
node c3 3
await "joined: h3" "$work/b1.err"
await "group stock view" "$work/c3.err"

# The quorum is lost for good. Nothing continues by itself; the survivor founds the next instance by command.
signal b1 KILL
signal b2 KILL
await "NOT in the primary partition" "$work/c3.err"
on 3 "$PHALANX" reform --yes $(settings 3 h1,h2,h3) >"$work/reform.txt" 2>&1 || { cat "$work/reform.txt"; fail "reform"; }
grep -q "of generation 2" "$work/reform.txt" || { cat "$work/reform.txt"; fail "another generation"; }
await "gave its cell instance up for one of generation 2" "$work/c3.err"
await "group stock goes on with the state that this process kept" "$work/c3.err"
node d1 1
node d2 2
for name in d1 d2; do await "group stock view" "$work/$name.err"; done
if on 3 "$PHALANX" reform --yes $(settings 3 h1,h2,h3) >"$work/alive.txt" 2>&1; then fail "a living cell is reformed"; fi
grep -q "is alive" "$work/alive.txt" || { cat "$work/alive.txt"; fail "it does not say that the cell is alive"; }

harness end
for name in c3 d1 d2; do signal "$name" TERM; done
for name in c3 d1 d2; do wait "${pid_of[$name]}" || fail "$name ended with $?"; done
check_traces --one-instance
