#!/usr/bin/env bash
# Both members of a group are cut off and excluded, though all run on one host, and then killed. They are members no more,
# and their deaths are proved all the same: the group waits for them no longer.
. "$(dirname "${BASH_SOURCE[0]}")/../lib/namespaces.sh"

# about: E1 M1 M2 M3 M4 M5 M6 S1 S2 S4 S5 S6 S7 I1 I2 I3 O5 U5
harness create
harness about $(sed -n 's/^# about: //p' "$0")
harness faulty

hosts 1
# Datagrams only, so that a filter cuts members of one host off. Each has two ports, in the order of the starts.
port=7400
member() {
  local name=$1
  start "$name" 1 "$PHALANX" "${@:2}" --cell field --name "$name" --data-port $port --control-port $((port + 1)) \
    --runtime-dir "$work/run" --trace "$work/traces" --set driver=udp --set timing.heartbeat=50ms --set timing.suspect_after=600ms
  port=$((port + 2))
}
# killed NAME: kills a process, and records its death.
killed() {
  local life
  kill -KILL "${pid_of[$1]}"
  wait "${pid_of[$1]}" 2>/dev/null || true
  for life in "$work/traces/$1"-*.trace; do
    life=${life##*-}
    harness crash "${life%.trace}"
  done
}
# How often a file has a text.
told() { [ "$(grep -cF -- "$1" "$2")" = "$3" ]; }

member a node
await "cell view 1: a" "$work/a.out"
for name in b c; do member "$name" node; done
await "cell view 3: " "$work/a.out"
first=$port
for name in x y; do member "$name" cat -g stock; done
readonly OURS=$first-$((port - 1))
for name in x y; do await_group "x y" "$work/$name.err"; done
say x "of old"
await "of old" "$work/y.out"

on 1 nft "add table inet cut; add chain inet cut in { type filter hook input priority 0; };
  add rule inet cut in udp dport $OURS udp sport != $OURS drop; add rule inet cut in udp sport $OURS udp dport != $OURS drop"
for name in x y; do
  await "$name (unreachable)" "$work/a.out"
  await "NOT in the primary partition" "$work/$name.err"
done

# Who asks for the group waits for both, then for the one that lives, and then makes it anew.
member z cat -g stock --history 10
await "group stock WAITS for one of" "$work/z.err"
sleep 1
told "group stock WAITS" "$work/z.err" 1 || fail "it stopped waiting for a living member"
killed x
await "group stock WAITS for one of y: " "$work/z.err"
if grep "group stock view" "$work/z.err"; then fail "it went on though a member with the state lives"; fi
killed y
await "group stock view 1: z" "$work/z.err"
say z "anew"
await "anew" "$work/z.out"
if grep "of old" "$work/z.out"; then fail "a state came from nowhere"; fi
# The counters files are written a little later.
nothing_waits() { on 1 "$PHALANX" stat --cell field --runtime-dir "$work/run" >"$work/stat.txt" && ! grep -q "that waits" "$work/stat.txt"; }
waited "no member to list a group that waits" nothing_waits

harness end
for name in a b c z; do signal "$name" TERM; done
for name in a b c z; do wait "${pid_of[$name]}" || fail "$name ended with $?"; done
check_traces --one-instance
