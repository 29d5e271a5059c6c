#!/usr/bin/env python3
"""Judges the judges: breaks the protocol on purpose, one mutant at a time, and tells whether something reports it.

    ./x mutants                       all of them
    ./x mutants NAME..                these
    ./x mutants --check               whether each can be applied to the sources as they are; nothing is built
    ./x mutants --list                what finds each, and which need a build of their own
    ./x mutants --shares [N]          N of forty shares, drawn by a seed, in the background; again: goes on with them
    ./x mutants --status              how far that is

A mutant is a file `mutants/NAME.mutant`; docs/simulator.md ("Checking the checkers") describes it. Most are branches in a
generated copy of the tree, which is built once for the seeds, once for the stories and once for the core's unit tests, in
target/mutants; what unit tests of other crates find is in a copy of its own. Those that cannot be a branch are built one by one.
Verdicts: recognised; SURVIVED (nothing was reported), MISTAKEN (other codes were), UNTOLD (a story passes on it), BROKEN (it
does not compile). Exit code: the number of mutants that were not recognised, at most 100. 2: wrong usage, or a mutant that
cannot be applied. PHALANX_MUTANT_SECONDS ends a run [1800], PHALANX_MUTANTS_DIR is another directory to build in."""

import argparse
import json
import os
import re
import signal
import sys

import shares
from build import SEEDS, STORIES, Workshop, suite_of
from edits import Tree, read
from judge import Judge, as_line, kind_of, stories_of
from rust import Refused
from switch import why_own

folder = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(folder)
MOST = 100


def arguments():
    parser = argparse.ArgumentParser(prog="./x mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a mutant, by its name or file")
    parser.add_argument("-s", "--seeds", default="0..2000", metavar="A..B", help="of mutants that name none [%(default)s]")
    parser.add_argument("-m", "--members", type=int, default=5, metavar="N", help="of cells of mutants that say nothing [%(default)s]")
    parser.add_argument("-o", "--out", metavar="FILE", help="append the results to this file, too")
    parser.add_argument("--json", action="store_true", help="one line of JSON for each mutant")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--check", action="store_true", help="whether each mutant can be applied")
    kinds.add_argument("--list", action="store_true", help="what finds each, and how it is built")
    kinds.add_argument("--status", action="store_true", help="how far the last drawn share is")
    kinds.add_argument("--shares", type=int, nargs="?", const=0, choices=range(1, shares.SHARES + 1), metavar=f"1..{shares.SHARES}",
                       help=f"so many of forty shares [{shares.DEFAULT}]")
    parser.add_argument("--seed", type=int, help="what draws the shares [random; the last one while something waits]")
    parser.add_argument("--foreground", action="store_true", help="do not leave the shares to the background")
    asked = parser.parse_args()
    if not re.fullmatch(r"\d+\.\.\d+", asked.seeds):
        parser.error(f"--seeds is A..B, not {asked.seeds}")
    if asked.shares is None and (asked.seed is not None or asked.foreground):
        parser.error("--seed and --foreground go with --shares")
    if asked.names and (asked.status or asked.shares is not None):
        parser.error("names do not go with --shares or --status")
    asked.seconds = int(os.environ.get("PHALANX_MUTANT_SECONDS", "1800"))
    return asked


def tell(text):
    print(f"mutants: {text}", file=sys.stderr, flush=True)


def checked(tree, mutants):
    """The mutants that can be applied, with their places, and what is wrong with the others, by name."""
    tests = {}
    good, wrong = [], {}
    for mutant in mutants:
        try:
            places = tree.places(mutant)
            for story in stories_of(mutant):
                if suite_of(tree.root, story) is None:
                    raise Refused(f"{mutant.name}: no story is called {story}")
            if unit := mutant.unit_test():
                crate, name = unit
                if crate not in tests:
                    tests[crate] = "\n".join(source.text for source in tree.crate(crate).sources_with_tests)
                if not re.search(rf"\bfn {name}\(", tests[crate]):
                    raise Refused(f"{mutant.name}: no unit test of {crate} is called {name}")
            good.append((mutant, places))
        except Refused as refused:
            wrong[mutant.name] = str(refused)
    return good, wrong


def show_list(good, as_json):
    own = 0
    for mutant, places in good:
        why, kind = why_own(mutant, places), kind_of(mutant)
        own += bool(why)
        found_by = f"seeds {mutant.fields.get('seeds', '')}".strip() if kind == SEEDS else ""
        found_by = found_by or ("story " if kind == STORIES else "unit test ") + (mutant.fields.get("tests") or mutant.fields["unit"])
        if as_json:
            print(json.dumps({"mutant": mutant.name, "found_by": found_by, "expect": mutant.fields["expect"].split(), "own_build": why}))
        else:
            print(f"{mutant.name:<44} {found_by}" + (f"\n{'':<44} own build: {why}" if why else ""))
    if not as_json:
        print(f"{len(good)} mutants, {own} with a build of their own")


def attempt_all(judge, mutants, asked, share):
    """Tries these mutants, prints what came of each, and returns how many were not recognised."""
    missed = 0
    judge.prepare(mutants)
    for number, mutant in enumerate(mutants, 1):
        if sys.stderr.isatty():
            print(f"\r{number} of {len(mutants)}: {mutant.name}", end="\033[K", file=sys.stderr, flush=True)
        result = judge.attempt(mutant)
        if share:
            share.keep(result)
        missed += result["verdict"] != "recognised"
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)
        line = json.dumps(result) if asked.json else as_line(result)
        print(line, flush=True)
        if asked.out:
            with open(asked.out, "a", encoding="utf-8") as file:
                file.write(line + "\n")
    return missed


def show_status(work, names):
    share, holder = shares.Share.last(work), Workshop.holder(work)
    if share is None:
        print("no share was drawn yet: ./x mutants --shares")
        return
    print("\n".join(share.describe(names)))
    if holder:
        print(f"process {holder} is at work")
    elif share.waiting(names):
        print("nothing is at work: ./x mutants --shares goes on")


def leave_to_the_background(asked, work, share, names):
    print("\n".join(share.describe(names)))
    same = ["--seeds", asked.seeds, "--members", str(asked.members), *(["--out", asked.out] if asked.out else [])]
    pid, log = share.start(same + ["--json"] * asked.json)
    print(f"it runs as process {pid}, its log is {log}; ./x mutants --status tells how far it is, `kill {pid}` ends it")


def run(asked):
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(root, "target"))
    work = os.path.abspath(os.environ.get("PHALANX_MUTANTS_DIR", os.path.join(target, "mutants")))
    os.makedirs(work, exist_ok=True)
    mutants = read(folder)
    names = [mutant.name for mutant in mutants]
    if asked.status:
        show_status(work, names)
        return 0
    in_background = asked.shares is not None and not asked.foreground
    tries = not (asked.check or asked.list or in_background)
    # Taken first, so that a second run and `--status` see the first one at once.
    workshop = Workshop(root, work, tell) if tries else None
    if in_background and Workshop.holder(work):
        raise Refused(f"process {Workshop.holder(work)} is at work: ./x mutants --status")
    share = shares.chosen(work, names, asked.seed, asked.shares) if asked.shares is not None else None
    wanted = shares.drawn(names, share.seed, share.shares) if share else [m.name for m in read(folder, asked.names)]
    tree = Tree(root)
    good, wrong = checked(tree, mutants)
    refused = [wrong[name] for name in wanted if name in wrong]
    for text in refused:
        tell(text)
    chosen = [(mutant, places) for mutant, places in good if mutant.name in wanted]
    if asked.check:
        own = sum(bool(why_own(mutant, places)) for mutant, places in good)
        print(f"{len(chosen)} of {len(wanted)} mutants apply; of all, {own} need a build of their own")
        return 1 if refused else 0
    if refused:
        return 2
    if asked.list:
        show_list(chosen, asked.json)
        return 0
    if in_background:
        leave_to_the_background(asked, work, share, names)
        return 0
    judge = Judge(workshop, tree, good, asked)
    waiting = set(share.waiting(names)) if share else set(wanted)
    missed = attempt_all(judge, [mutant for mutant, _ in chosen if mutant.name in waiting], asked, share)
    if share:
        print("\n".join(share.describe(names)))
        missed = sum(result["verdict"] != "recognised" for result in share.results().values())
    return min(missed, MOST)


def main():
    asked = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return run(asked)
    except Refused as refused:
        tell(refused)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
