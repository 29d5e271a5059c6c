#!/usr/bin/env bash
# Runs Miri, the interpreter that detects undefined behaviour, on everything it can execute: only the simplest system
# calls, and no foreign code (so no encryption). Exit code 3: no nightly toolchain with Miri is here. docs/fuzzing.md.
#
#   tests/miri.sh            three minutes
#   tests/miri.sh --unsafe   only code with unsafe blocks: seconds, after the build
#   tests/miri.sh --long     more random cases for each property, up to two hours
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! cargo +nightly miri --version >/dev/null 2>&1; then
  echo "skip: Miri is not installed. Run: rustup component add --toolchain nightly miri rust-src" >&2
  exit 3
fi
limit=900
export PROPTEST_CASES=3
if [ "${1:-}" = --long ]; then
  limit=7200
  PROPTEST_CASES=64
fi
# Tests access the file system (proptest keeps failed cases there), which Miri forbids by default.
export MIRIFLAGS="-Zmiri-disable-isolation ${MIRIFLAGS:-}"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}/miri

# The C library for encryption is not built. Miri cannot run it, and its build takes longer than all tests together.
mapfile -t without_c < <(tests/lib/without_c.sh nightly)
[ ${#without_c[@]} -gt 0 ] || exit 1

echo "== building"
cargo +nightly miri test --locked "${without_c[@]}" -p phalanx-driver -p phalanx-core --lib --no-run
ends=$(($(date +%s) + limit))

# interpret PACKAGE TEST...: runs the tests whose names contain one of these; each must match one. All calls share the
# time.
interpret() {
  local package=$1 left=$((ends - $(date +%s))) told name
  shift
  [ "$left" -gt 0 ] || { echo "no time is left for $package: $*"; exit 1; }
  echo "== $package: $*"
  told=$(mktemp)
  timeout "$left" cargo +nightly miri test --locked "${without_c[@]}" -p "$package" --lib -- "$@" | tee "$told" ||
    { code=$?; [ $code -ne 124 ] || echo "not done within $limit s" >&2; exit $code; }
  for name in "$@"; do
    grep '^test .* ok$' "$told" | grep -qF -- "$name" || { echo "$package: no test with $name in its name was run" >&2; exit 1; }
  done
  rm -f "$told"
}

# The driver's unsafe code without system calls. Code with system calls has tests of its own outside Miri. The ring has
# no unsafe code, but two threads share its words.
interpret phalanx-driver mmsg shm::lend memory::tests words::
[ "${1:-}" != --unsafe ] || exit 0
# This crate has no unsafe code, but it slices, keeps and passes on shared buffers (the crate bytes).
interpret phalanx-core wire::codec link:: order::frame order::tests process::best_effort
