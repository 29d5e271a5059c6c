#!/usr/bin/env bash
# Reads lines `COMMIT SUBJECT` and fails for a subject that is longer than 72 characters or ends in a full stop.
set -euo pipefail
# Characters are counted, not bytes.
export LC_ALL=C.UTF-8
readonly LONGEST=72

bad=0
while read -r commit subject; do
  if [ "${#subject}" -gt "$LONGEST" ]; then
    echo "$commit: ${#subject} characters, at most $LONGEST: $subject"
    bad=1
  fi
  case $subject in
    *.)
      echo "$commit: ends in a full stop: $subject"
      bad=1
      ;;
  esac
done
exit $bad
