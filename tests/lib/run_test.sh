#!/usr/bin/env bash
# Runs one test program of the workspace for `./x test`. One test at a time where they start, stop and kill several
# processes and wait for each.
[ "${CARGO_PKG_NAME:-}" != phalanx ] || export RUST_TEST_THREADS=1
exec "$@"
