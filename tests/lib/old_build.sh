#!/usr/bin/env bash
# Builds the commit named in tests/namespaces/old-build, whose program serves as the earlier build in upgrades, and
# prints the program's path:
#
#   old_build.sh TARGET    TARGET is the target directory of this tree; dependencies of its quick build are reused
#
# The result is kept there. Exit code 77: the commit is not in this clone.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
target=$1
commit=$(cat "$root/tests/namespaces/old-build")
program=$target/old-build/$commit/phalanx
mkdir -p "$target/old-build"
# Another one may be at it.
exec 9>"$target/old-build/lock"
flock 9
if [ ! -x "$program" ]; then
  git -C "$root" cat-file -e "$commit^{commit}" 2>/dev/null || { echo "commit $commit is not in this clone" >&2; exit 77; }
  build=$target/old-build/building tree=$(mktemp -d)
  trap 'git -C "$root" worktree remove --force "$tree"; rm -rf "$build"' EXIT
  git -C "$root" worktree add --quiet --force --detach "$tree" "$commit" >&2
  # Crates from the registry are the same in this profile, so links to those already built save most of the time.
  rm -rf "$build"
  mkdir -p "$build/quick"
  for part in .fingerprint build deps; do
    [ ! -d "$target/quick/$part" ] || cp -al "$target/quick/$part" "$build/quick/"
  done
  # It carries 200 lines a second, so its own crates are compiled for little work, not for speed.
  cheap=()
  for member in "$tree"/crates/*/; do cheap+=(--config "profile.quick.package.$(basename "$member").opt-level=1"); done
  (cd "$tree" && CARGO_TARGET_DIR=$build cargo build --profile quick --locked --quiet "${cheap[@]}" --package phalanx-cli) >&2
  mkdir -p "$(dirname "$program")"
  cp "$build/quick/phalanx" "$program"
fi
echo "$program"
