#!/usr/bin/env bash
# Fails for each file of the tests that nothing runs or uses:
#
#   reached.sh LOGS [ROOT=DEPS]...
#
# LOGS/STEP.ran holds what a step of ./x test ran, one path a line; `ran` of tests/lib/steps.sh writes it, and `not_run`
# excuses what a step had to leave out. Each DEPS is a directory in which the compiler wrote down (*.d) the sources that
# it read; the paths there are relative to ROOT.
#
# - A Rust file must have been compiled. A `mod` that was forgotten drops all tests of its file, and nothing says so.
# - A script that is a test must have run. The text that starts it proves nothing: a pattern may leave it out.
# - Any other file under tests/ must be named by one that ran, or by one named so. Comments do not count.
#
# Exit code 1: there are such files, and their names were printed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Tools for people, with what runs instead of them every time: nothing (docs/fuzzing.md).
readonly BY_HAND=(tests/mutation.py)

logs=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

git ls-files --cached --others --exclude-standard -- tests 'crates/*.rs' 'examples/*.rs' |
  while read -r file; do [ ! -f "$file" ] || echo "$file"; done | sort -u >"$work/files"
[ -s "$work/files" ] || { echo "there are no files to look for"; exit 1; }

# What was compiled. Paths to files of other packages contain "..".
for pair in "$@"; do
  find "${pair#*=}" -maxdepth 2 -name '*.d' -exec cat {} + | sed -n 's/^\([^ ].*\.rs\):$/\1/p' | sort -u |
    (cd "${pair%%=*}" && xargs -r realpath -q -s --relative-to="$OLDPWD") || true
done | sort -u >"$work/compiled"

cat "$logs"/*.ran 2>/dev/null | sort -u >"$work/ran" || true
printf '%s\n' "${BY_HAND[@]}" >>"$work/ran"
sed -n 's/^not run: //p' "$work/ran" >"$work/excused"
is_excused() {
  local path
  while read -r path; do case $1 in "$path" | "$path"/*) return 0 ;; esac done <"$work/excused"
  return 1
}

# Whether a file is a test of its own.
is_test() {
  case $1 in
    tests/namespaces/cases/*) true ;;
    tests/lib/*) false ;;
    *) [ "$(head -c 2 "$1")" = '#!' ] ;;
  esac
}

# The words by which others name a file: its name, how Python imports it, and what lists of test data call it.
names() {
  local stem
  basename "$1"
  stem=$(basename "${1%.*}")
  case $1 in *.py) printf '%s\n' "import $stem" "from $stem" ;; *.jsonl) echo "$stem" ;; esac
}

# Adds files that are named by reached ones, until there are no more.
{ echo x; grep -vxF "$(printf 'not run: %s\n' $(cat "$work/excused"))" "$work/ran"; } | sort -u >"$work/reached"
candidates() { grep -v '\.rs$' "$work/files" | grep -vxFf "$work/reached" || true; }
while :; do
  while read -r file; do [ ! -f "$file" ] || grep -vE '^[[:space:]]*(#|//)' "$file" || true; done <"$work/reached" >"$work/text"
  candidates | while read -r file; do
    ! is_test "$file" || continue
    # A lock file belongs to the list of dependencies beside it.
    case $file in
      */Cargo.lock) grep -qxF "${file%lock}toml" "$work/reached" && echo "$file" && continue ;;
      */go.sum) grep -qxF "${file%sum}mod" "$work/reached" && echo "$file" && continue ;;
    esac
    names "$file" | grep -qwFf - "$work/text" && echo "$file" || true
  done >"$work/new"
  [ -s "$work/new" ] || break
  sort -u -o "$work/reached" "$work/reached" "$work/new"
done

lost=0
while read -r file; do
  case $file in
    *.rs) grep -qxF "$file" "$work/compiled" && continue ;;
    *) grep -qxF "$file" "$work/reached" && continue ;;
  esac
  is_excused "$file" && continue
  case $file in
    *.rs) why="nothing compiled it: no \`mod\` leads to it" ;;
    *) if is_test "$file"; then why="it is a test, and did not run"; else why="nothing that ran names it"; fi ;;
  esac
  echo "$file: $why"
  lost=$((lost + 1))
done <"$work/files"
[ $lost = 0 ] || { echo "$lost of $(wc -l <"$work/files") files are reached by nothing"; exit 1; }
echo "all $(wc -l <"$work/files") files were compiled, run or used"
