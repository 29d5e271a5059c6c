#!/usr/bin/env bash
# The founders of a cell are stopped in order, one after the other, while the members of a group are cut off. The last ones
# wait for these. First they come back in time. Then they do not: the end is in doubt, the founders are started again, and
# their next cell waits for the group until its members are back.
. "$(dirname "${BASH_SOURCE[0]}")/../lib/namespaces.sh"

# about: E1 M1 M2 M3 M4 M5 M6 M8 M14 S1 S2 S4 S5 S6 S7 S10 I1 I2 I3 O5 U5 U6 X3 M15 S11 S12
harness create
harness about $(sed -n 's/^# about: //p' "$0")
harness faulty

hosts 5
# shellcheck disable=SC2046
founder() { start "$1" "$2" "$PHALANX" node $(settings "$2" h1,h2,h3); }
# shellcheck disable=SC2046
replica() { start "$1" "$2" "$PHALANX" cat -g stock --uniform --history 1000 $(settings "$2" h1,h2,h3); }
# shellcheck disable=SC2046
waits_at() { on "$1" "$PHALANX" stat $(settings "$1" h1,h2,h3) | grep -E '^stock +h[45] ' >/dev/null; }
# kept N: whether the replicas went on so often with a state that one of them had kept.
kept() { [ "$(cat "$work"/r?.err | grep -c "group stock goes on with the state that this process kept")" = "$1" ]; }
# in_stock: whether both replicas say that the group has the two, since one of them was left out last.
in_stock() {
  local name
  for name in r4 r5; do
    awk '/excluded: / { both = 0 } /group stock view .*h4/ && /h5/ { both = 1 } END { exit !both }' "$work/$name.err" || return 1
  done
}
# sees NAME MEMBERS: whether the founder's last cell view has these.
sees() { [ "$(grep '^cell view' "$work/$1.out" | tail -n 1 | grep -o 'h[1-9]' | sort -u | xargs)" = "$2" ]; }
# stopped NAME..: stops them one after the other, half a second apart, and sets `ended` to their exit codes.
stopped() {
  local name code
  ended=
  for name in "$@"; do signal "$name" TERM; sleep 0.5; done
  for name in "$@"; do
    code=0
    wait "${pid_of[$name]}" || code=$?
    ended="$ended$code "
  done
}

for host in 1 2 3; do founder "a$host" "$host"; done
replica r4 4
replica r5 5
for name in r4 r5; do await_group "h4 h5" "$work/$name.err"; done
for line in $(seq 1 20); do say r4 "line $line"; done
for name in r4 r5; do await "line 20" "$work/$name.out"; done

# The replicas are cut off, and come back while the last founder waits.
cut "1 2 3" "4 5"
for host in 1 2 3; do waited "the group to wait, at h$host" waits_at "$host"; done
for name in a1 a2 a3; do signal "$name" TERM; done
waited "the last founders to say that they wait" grep -q "the leave waits for at most 5s" "$work"/a?.out
heal
for name in a1 a2 a3; do
  wait "${pid_of[$name]}" || { tail -5 "$work/$name.out"; fail "$name ended with $?, though the replicas came back"; }
done
waited "a replica that goes on with what it kept" kept 1
for name in r4 r5; do await_group "h4 h5" "$work/$name.err"; done
say r4 "the founders are gone"
for name in r4 r5; do await "the founders are gone" "$work/$name.out"; done

# They are started again and join. Then the replicas are cut off for longer than the founders wait.
for host in 1 2 3; do founder "b$host" "$host"; done
for host in 1 2 3; do waited "all five in the view of h$host" sees "b$host" "h1 h2 h3 h4 h5"; done
cut "1 2 3" "4 5"
for host in 1 2 3; do waited "the group to wait, at h$host" waits_at "$host"; done
stopped b1 b2 b3
case "$ended" in *"8 ") ;; *) fail "the founders ended with $ended, and none says that the end is in doubt" ;; esac
grep -h "LEFT IN DOUBT.*groups that wait for members that are cut off: stock" "$work"/b?.out >/dev/null || fail "nobody names the group"

# Nobody knows whether the replicas live. The founders found nothing before they are back, and forget no group then.
for host in 1 2 3; do founder "c$host" "$host"; done
await "nobody knows that they ended" "$work/c1.out"
if grep "^cell view" "$work"/c?.out; then fail "the founders founded a cell beside the replicas"; fi
heal
for host in 1 2 3; do await "cell view" "$work/c$host.out"; done
for host in 1 2 3; do waited "all five in the view of h$host" sees "c$host" "h1 h2 h3 h4 h5"; done
waited "a replica that goes on with what it kept" kept 2
waited "both replicas in the group" in_stock
say r5 "together again"
for name in r4 r5; do
  await "together again" "$work/$name.out"
  [ "$(grep -c '' "$work/$name.out")" = 22 ] || { cat "$work/$name.out"; fail "$name lost a line, or printed one twice"; }
done

harness end
for name in c1 c2 c3 r4 r5; do signal "$name" TERM; done
for name in c1 c2 c3 r4 r5; do wait "${pid_of[$name]}" || fail "$name ended with $?"; done
check_traces
