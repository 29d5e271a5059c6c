#!/usr/bin/env bash
# Runs one test program of the workspace for `./x test`. The tests of `phalanx-runtime` start, stop and kill several
# processes and wait for each, so they run one at a time.
[ "${CARGO_PKG_NAME:-}" != phalanx-runtime ] || export RUST_TEST_THREADS=1
exec "$@"
