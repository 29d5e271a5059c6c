#!/usr/bin/env bash
# Changes the core in small ways, one at a time, and tells which changes no test sees (cargo-mutants). docs/fuzzing.md.
#
#   tests/mutation.sh            all of them: a night
#   tests/mutation.sh 3/40       the fourth of forty equal shares (counted from 0)
#   tests/mutation.sh 3/40 ARGS  with further arguments of cargo mutants, such as --file '**/member/*.rs'
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly version=27.1.0
if ! cargo mutants --version >/dev/null 2>&1; then
  cargo install --locked "cargo-mutants@$version"
fi
share=()
if [[ "${1:-}" =~ ^[0-9]+/[0-9]+$ ]]; then
  share=(--shard "$1")
  shift
fi
out=${CARGO_TARGET_DIR:-$PWD/target}/mutation
mkdir -p "$out"
# 2: some were missed; 3: some ran out of time, which is one way of being seen.
code=0
cargo mutants "${share[@]}" --output "$out" --no-shuffle "$@" || code=$?
echo "== caught, missed, timed out, not compiling:"
for kind in caught missed timeout unviable; do
  printf '%-9s %s\n' "$kind" "$(wc -l <"$out/mutants.out/$kind.txt")"
done
cat "$out/mutants.out/missed.txt"
[ $code -eq 0 ] || [ $code -eq 2 ] || [ $code -eq 3 ]
