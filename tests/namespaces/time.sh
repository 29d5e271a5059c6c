#!/usr/bin/env bash
# A member in a time namespace of its own beside one without: start times differ there, and prove no death.
. "$(dirname "${BASH_SOURCE[0]}")/../lib/namespaces.sh"

hosts 1
apart=(unshare --time --boottime 100000 --monotonic 100000 --fork --kill-child)
on 1 "${apart[@]}" true || { echo "left out: a member in a time namespace: this kernel or unshare(1) has none"; exit 0; }

# Silence alone does not exclude anybody within this test.
node() { echo "$PHALANX" node --cell beside --name "$1" --runtime-dir "$work/run" --set timing.suspect_after=600s; }

# Whoever is first founds the cell, and the other one joins it, whichever of them is in the namespace.
# shellcheck disable=SC2046
start far 1 "${apart[@]}" $(node far)
await "cell view 1: far" "$work/far.out"
# shellcheck disable=SC2046
start near 1 $(node near)
await "cell view 2: far, near" "$work/near.out"
await "cell view 2: far, near" "$work/far.out"
[ "$(find "$work/run" -name '*.settled' | wc -l)" = 2 ] || fail "a living member's lock file is gone"
# shellcheck disable=SC2046
start late 1 "${apart[@]}" $(node late)
await "cell view 3: far, near, late" "$work/late.out"

# The ends of processes are proved all the same, in both directions. No traces are kept here.
end() { kill -KILL "${pid_of[$1]}"; wait "${pid_of[$1]}" 2>/dev/null || true; }
end near
for name in far late; do await "gone: near" "$work/$name.out"; done
end late
await "gone: late" "$work/far.out"
