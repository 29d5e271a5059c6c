"""Prints one field of the one process in `phalanx stat --json` on standard input; a counter by counters.NAME."""

import json
import sys

(process,) = json.load(sys.stdin)
value = process
for step in sys.argv[1].split("."):
    value = value[int(step)] if isinstance(value, list) else value[step]
print(value)
