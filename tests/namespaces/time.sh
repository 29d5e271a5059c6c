#!/usr/bin/env bash
# Members in time namespaces of their own beside others on their host: start times differ there, and prove no death.
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

# The ends of processes are proved all the same, from either side. No traces are kept here.
end() { kill -KILL "${pid_of[$1]}"; wait "${pid_of[$1]}" 2>/dev/null || true; }
end late
for name in far near; do await "gone: late (died)" "$work/$name.out"; done
end near
await "gone: near (died)" "$work/far.out"
if grep -h "cell view 1: " "$work/near.out" "$work/late.out"; then fail "the cell was founded twice"; fi

# A founder keeps its name beside a second process, whichever of them is in the namespace, and gives it up with its life.
# shellcheck disable=SC2046
founder() { echo "$PHALANX" node --cell owned $(settings 1 h1 | sed 's/--cell field//; s/ --trace [^ ]*//; s/-port 740[01]/-port 0/g'); }
refused() {
  if on 1 timeout 20 "$@" >"$work/second.txt" 2>&1; then fail "a second founder of one name"; fi
  grep -q "the name 'h1' is taken: process [0-9]* holds" "$work/second.txt" || { cat "$work/second.txt"; fail "why it is refused"; }
}
# shellcheck disable=SC2046
start inside 1 "${apart[@]}" $(founder)
await "cell view 1: h1" "$work/inside.out"
# shellcheck disable=SC2046
refused $(founder)
# shellcheck disable=SC2046
refused "${apart[@]}" $(founder)
end inside
owner=$(sed -n 's/.*is taken: process \([0-9]*\) holds.*/\1/p' "$work/second.txt")
is_over() { ! grep -qv ') Z ' "/proc/$owner/stat"; }
waited "the end of $owner" is_over
# shellcheck disable=SC2046
start outside 1 $(founder)
await "the whole cell died, or its living members cannot be reached" "$work/outside.out"
# shellcheck disable=SC2046
refused "${apart[@]}" $(founder)
