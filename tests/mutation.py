#!/usr/bin/env python3
"""Changes the core in small ways, one at a time, and tells which changes no test sees (cargo-mutants). docs/fuzzing.md.

    tests/mutation.py                             all of them: a night
    tests/mutation.py --seed 20261123 --shares 6  six of forty shares, drawn by the seed
    tests/mutation.py --minutes 30 ..             no new batch after so long
    tests/mutation.py --report ..                 what is known of those, and nothing is run

The last commit is tested, in a copy. Each mutant goes through stages until one sees it: the core's unit tests, the
simulator's stories with the seeds of its own tests, whole cells under attack; for calls, the simulator's calls instead.
Results are kept by name in target/mutation, line numbers left out, so that the run can be ended at any time and goes on
later, also after other commits. Delete the lines of mutants for which a test was written, or the file to begin anew.
Exit code 0: all that were drawn have been tried. 2: wrong usage. 3: some have not."""

import argparse
import collections
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

VERSION = "27.1.0"
SHARES = 40
# cargo-mutants 27.1.0 runs five mutants that delete a field with every batch, whatever it is asked for.
BATCH = 60
STORIES = ["protocol_review", "field_bugs", "left_behind", "found_by_seeds", "campaign", "egress", "memory", "slow_members"]
STORIES += ["bounds", "objects"]
CALLS = "/src/rpc/"


def targets(tests):
    return [word for test in tests for word in ("--test", test)]


# Package and targets of each stage, the seconds after which a mutant counts as seen because it does not end, and whether the
# stage is for calls, for the rest (False), or for all (None).
STAGES = [
    ("unit tests", "phalanx-core", ["--lib"], 20, None),
    ("stories", "phalanx-sim", targets(STORIES), 120, False),
    ("cells", "phalanx-core", targets(["all"]), 240, False),
    ("calls", "phalanx-sim", targets(["calls"]), 120, True),
]
OUTCOMES = ["caught", "timeout", "missed", "unviable"]

root = os.path.realpath(os.path.join(os.path.dirname(__file__), ".."))
work = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(root, "target")), "mutation")
tree = os.path.join(work, "tree")
results = os.path.join(work, "results.tsv")


def run(command, **more):
    return subprocess.run(command, check=True, text=True, **more)


def listed():
    """All mutants of the tree: key (its name without the line, and which of several alike it is) to name."""
    out = run(["cargo", "mutants", "--list", "--json"], cwd=tree, stdout=subprocess.PIPE).stdout
    mutants, alike = {}, collections.Counter()
    for mutant in json.loads(out):
        key = re.sub(r"^([^:]+):\d+:\d+:", r"\1:", mutant["name"])
        alike[key] += 1
        mutants[f"{key} [{alike[key]}]"] = mutant["name"]
    return mutants


def stages_of(key):
    """The stages a mutant may go through."""
    return [number for number, stage in enumerate(STAGES) if stage[4] in (None, CALLS in key)]


def drawn(mutants, seed, shares):
    def share(key):
        return int.from_bytes(hashlib.sha256(f"{seed} {key}".encode()).digest()[:8], "big") % SHARES

    return [key for key in mutants if shares == SHARES or share(key) < shares]


def known():
    """What came of each mutant: key to outcomes by stage."""
    found = collections.defaultdict(dict)
    if os.path.exists(results):
        with open(results, encoding="utf-8") as file:
            for line in file:
                stage, outcome, _commit, key = line.rstrip("\n").split("\t")
                found[key][int(stage)] = outcome
    return found


def harvest(stage, names, commit):
    """Keeps what the last batch found out; an interrupted one counts as far as it came."""
    with open(results, "a", encoding="utf-8") as file:
        for outcome in OUTCOMES:
            path = os.path.join(work, "mutants.out", outcome + ".txt")
            if os.path.exists(path):
                with open(path, encoding="utf-8") as lines:
                    for name in lines.read().splitlines():
                        if name in names:
                            file.write(f"{stage}\t{outcome}\t{commit}\t{names[name]}\n")
    shutil.rmtree(os.path.join(work, "mutants.out"), ignore_errors=True)


def attempt(stage, keys, mutants, commit):
    _, package, tests, seconds, _ = STAGES[stage]
    names = {mutants[key]: key for key in keys}
    command = ["cargo", "mutants", "--in-place", "--output", work, "--no-shuffle", "--baseline", "skip", "--colors", "never"]
    command += ["--no-times", "--timeout", str(seconds), "--test-package", package]
    # Given to the build as well: what follows `--` is not, and all test programs would be built for each mutant.
    for target in tests:
        command += ["--cargo-arg", target]
    for name in names:
        command += ["--re", "^" + re.escape(name).replace("\\ ", " ") + "$"]
    environment = dict(os.environ, CARGO_TARGET_DIR=os.path.join(work, "target"), CARGO_INCREMENTAL="1")
    environment.update(CARGO_PROFILE_DEV_DEBUG="0", CARGO_PROFILE_TEST_DEBUG="0")
    child = subprocess.Popen(command, cwd=tree, env=environment, stdout=subprocess.DEVNULL)
    try:
        # 2: some were missed, 3: some ran out of time.
        code = child.wait()
    finally:
        child.terminate()
        child.wait()
        harvest(stage, names, commit)
        run(["git", "checkout", "-q", "."], cwd=tree)
    if code not in (0, 2, 3):
        sys.exit(f"mutation.py: cargo mutants ended with exit code {code}")


def report(keys, found):
    """Prints how many each stage saw, and which nothing saw. Whether all have been tried."""
    stages, unviable, waiting, missed = [0] * len(STAGES), 0, 0, []
    for key in keys:
        outcomes = found.get(key, {})
        seen = [stage for stage, outcome in outcomes.items() if outcome in ("caught", "timeout")]
        if "unviable" in outcomes.values():
            unviable += 1
        elif seen:
            stages[min(seen)] += 1
        elif any(stage not in outcomes for stage in stages_of(key)):
            waiting += 1
        else:
            missed.append(key)
    print(f"{len(keys)} mutants, {unviable} do not compile")
    for (name, *_), count in zip(STAGES, stages):
        print(f"  seen by {name:<12} {count:5}")
    print(f"  seen by nothing      {len(missed):5}")
    print(f"  not tried to the end {waiting:5}")
    for key in missed:
        print(key)
    return waiting == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shares", type=int, default=SHARES, choices=range(1, SHARES + 1), metavar=f"1..{SHARES}")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--report", action="store_true")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if subprocess.run(["cargo", "mutants", "--version"], capture_output=True).returncode != 0:
        run(["cargo", "install", "--locked", f"cargo-mutants@{VERSION}"])
    os.makedirs(work, exist_ok=True)
    if not os.path.isdir(tree):
        run(["git", "clone", "-q", root, tree])
    commit = run(["git", "rev-parse", "HEAD"], cwd=root, stdout=subprocess.PIPE).stdout.strip()
    run(["git", "fetch", "-q", root, "HEAD"], cwd=tree)
    run(["git", "checkout", "-q", "-f", "--detach", commit], cwd=tree)
    shutil.rmtree(os.path.join(work, "mutants.out"), ignore_errors=True)
    mutants = listed()
    keys = drawn(mutants, asked.seed, asked.shares)
    began = time.monotonic()
    for stage in range(len(STAGES)):
        found = known()
        todo = [key for key in keys if stage in stages_of(key) and stage not in found.get(key, {})]
        todo = [key for key in todo if set(found.get(key, {}).values()) <= {"missed"}]
        todo = [key for key in todo if all(before in found.get(key, {}) for before in stages_of(key) if before < stage)]
        for first in range(0, len(todo), BATCH):
            if asked.report or time.monotonic() - began > asked.minutes * 60:
                break
            attempt(stage, todo[first : first + BATCH], mutants, commit[:12])
            done = min(first + BATCH, len(todo))
            print(f"{STAGES[stage][0]}: {done} of {len(todo)} after {(time.monotonic() - began) / 60:.0f} min", flush=True)
    return 0 if report(keys, known()) else 3


if __name__ == "__main__":
    sys.exit(main())
