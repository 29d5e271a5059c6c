#!/usr/bin/env bash
# Changes the core in small ways, one at a time, and tells which changes no test sees (cargo-mutants), in the last
# commit. docs/fuzzing.md.
#
#   tests/mutation.sh            all of them: two nights
#   tests/mutation.sh 3/40       the fourth of forty shares (counted from 0), each spread over all of the core
#   tests/mutation.sh 3/40 ARGS  with further arguments of cargo mutants, such as --file '**/member/*.rs'
#   tests/mutation.sh --drawn SEED COUNT
#                                so many of the forty shares, drawn by the seed, one after the other; those that are
#                                done already are not run again, so it can be ended at any time and goes on later
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly version=27.1.0
if ! cargo mutants --version >/dev/null 2>&1; then
  cargo install --locked "cargo-mutants@$version"
fi
if [ "${1:-}" = --drawn ]; then
  [[ "${2:-}" =~ ^[0-9]+$ && "${3:-}" =~ ^[0-9]+$ ]] || { sed -n '4,12s/^# \{0,1\}//p' "$0" >&2; exit 2; }
  done_dir=${CARGO_TARGET_DIR:-$PWD/target}/mutation-done/$(git rev-parse --short HEAD)
  mkdir -p "$done_dir"
  shares=$(for number in {0..39}; do echo "$(sha256sum <<<"$2 $number") $number"; done | sort | awk '{ print $NF }')
  shares=$(head -n "$3" <<<"$shares")
  echo "shares" $shares "of 40"
  for number in $shares; do
    result=$done_dir/$number.txt
    [ -e "$result" ] || { bash "$0" "$number/40" >"$result.part" 2>&1 && mv "$result.part" "$result"; }
    echo "share $number: $(tail -n 1 "$result")"
  done
  sed -n '/^== seen by nothing:/,/^[0-9]* mutants:/p' "$done_dir"/*.txt | grep '^crates/' || true
  exit 0
fi
share=()
if [[ "${1:-}" =~ ^[0-9]+/[0-9]+$ ]]; then
  share=(--shard "$1" --sharding round-robin)
  shift
fi
out=${CARGO_TARGET_DIR:-$PWD/target}/mutation
mkdir -p "$out"
rm -rf "$out/tree" "$out/mutants.out"
git clone --quiet . "$out/tree"
export CARGO_TARGET_DIR=$out/target CARGO_INCREMENTAL=1
cd "$out/tree"

# mutate PACKAGE ARGS -- TESTS. Exit codes 2: some were missed; 3: some ran out of time, which is one way of being seen.
mutate() {
  local code=0
  cargo mutants --in-place --output "$out" --no-shuffle --test-package "$@" || code=$?
  [ $code -eq 0 ] || [ $code -eq 2 ] || [ $code -eq 3 ] || exit $code
}
count() { wc -l <"$out/mutants.out/$1.txt"; }

echo "== the core's own tests, and whole cells under attack"
mutate phalanx-core "${share[@]}" "$@" -- --lib --test cell --test hostile
caught=$(count caught) late=$(count timeout) missed=$(count missed) unviable=$(count unviable)
if [ "$missed" -gt 0 ]; then
  echo "== what they miss, by the simulator's stories"
  names=()
  while read -r name; do names+=(--re "^$(sed 's/[][\\.*^$+?(){}|]/\\&/g' <<<"$name")\$"); done <"$out/mutants.out/missed.txt"
  mutate phalanx-sim "${names[@]}" -- --test protocol_review --test field_bugs --test left_behind --test found_by_seeds
  echo "== seen by nothing:"
  cat "$out/mutants.out/missed.txt"
  told=$(count caught) stuck=$(count timeout) missed=$(count missed)
fi
tried=$((caught + late + ${told:-0} + ${stuck:-0} + missed))
printf '%d mutants: %d seen by the core'\''s tests, %d more by stories, %d by running out of time, %d missed: score %d %%' \
  "$tried" "$caught" "${told:-0}" $((late + ${stuck:-0})) "$missed" $(((tried - missed) * 100 / (tried > 0 ? tried : 1)))
printf ' (%d do not compile)\n' "$unviable"
