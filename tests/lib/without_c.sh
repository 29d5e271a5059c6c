#!/usr/bin/env bash
# Prints options of cargo, one a line, with which the C library of the cryptography is not built. Nothing can be linked so,
# but all can be checked, and Miri runs what does not encrypt. The C library takes longer to build than all the rest.
#
#   without_c.sh TOOLCHAIN
set -euo pipefail
host=$(rustc "+$1" -vV | sed -n 's/^host: //p')
links=$(cargo "+$1" metadata --format-version 1 --locked | grep -o '"links":"aws_lc_[0-9_]*"' | head -n 1 | cut -d'"' -f4)
[ -n "$links" ] || { echo "the cryptography library has another name now: mend $0" >&2; exit 1; }
for setting in 'rustc-cfg=["universal"]' 'include="/nonexistent"' "libcrypto=\"${links}_crypto\""; do
  printf '%s\n' --config "target.$host.$links.$setting"
done
