"""Tries mutants: runs what should find each, and compares what was reported with what the mutant says it breaks."""

import os
import re
import time

from build import SEEDS, STORIES, SWITCHED, Broken, copy_of, suite_of, unit_kind
from switch import VARIABLE, why_own

# "seed 17: S3 text", or in a story's list "S3 at 1.5 s: text".
REPORTED = [re.compile(r"^seed \d+: (\w+) ", re.MULTILINE), re.compile(r"^(\w+) at [0-9.]+ s: ", re.MULTILINE)]
FAILED = re.compile(r"^(.*) --- FAILED$", re.MULTILINE)
FIRST_SEED = re.compile(r"^seed (\d+): ", re.MULTILINE)


def kind_of(mutant):
    if mutant.unit_test():
        return unit_kind(mutant.unit_test()[0])
    return STORIES if "tests" in mutant.fields else SEEDS


def stories_of(mutant):
    """All stories that must fail on it."""
    return mutant.fields.get("tests", "").split() + mutant.fields.get("stories", "").split()


class Judge:
    """Has the programs, and tries one mutant after the other."""

    def __init__(self, workshop, tree, known, asked):
        """`known`: all mutants of the tree with their places. `asked`: seeds, members and seconds that hold by default."""
        self.workshop, self.tree, self.asked = workshop, tree, asked
        self.known = {mutant.name: (mutant, places) for mutant, places in known}
        self.own = {mutant.name: why for mutant, places in known for why in [why_own(mutant, places)] if why}
        self.numbers = {name: number for number, name in enumerate(sorted(self.known), 1)}
        self._programs = {}

    def prepare(self, mutants):
        """Builds what these mutants need, of the tree in which all that can be branches are."""
        chosen = [mutant for mutant in mutants if mutant.name not in self.own]
        needed = {kind_of(mutant) for mutant in chosen} | {STORIES for mutant in chosen if stories_of(mutant)}
        suites = {suite_of(self.tree.root, story) for mutant in chosen for story in stories_of(mutant)}
        for kind in (SEEDS, STORIES, *sorted(needed - {SEEDS, STORIES})):
            if kind in needed:
                began = time.monotonic()
                branches = self._branches(copy_of(kind))
                self.workshop.tell(f"building the program for {kind}, with {len(branches)} mutants in it")
                built, refused = self.workshop.build_switched(self.tree, branches, self.numbers, kind, suites)
                self._programs.update(built)
                self.own.update(refused)
                self.workshop.tell(f"built in {time.monotonic() - began:.0f} s")

    def _branches(self, copy):
        """The mutants that are branches in this copy, with their places. The first one has all."""
        held = [(mutant, places) for mutant, places in self.known.values() if mutant.name not in self.own]
        return [(mutant, places) for mutant, places in held if copy in (SWITCHED, copy_of(kind_of(mutant)))]

    def attempt(self, mutant):
        """Tries one mutant. Returns what came of it."""
        began, kind = time.monotonic(), kind_of(mutant)
        reported, first, note = [], None, ""
        try:
            programs, copy = self._programs, copy_of(kind)
            if mutant.name in self.own:
                copy, programs = "own", self._build_own(mutant, kind)
            reported, first, note = self._run(mutant, kind, programs, copy)
            expected = set(mutant.fields["expect"].split()) & set(reported)
            verdict = "recognised" if expected else "MISTAKEN" if reported else "SURVIVED"
            if verdict == "recognised":
                for story in mutant.fields.get("stories", "").split():
                    if story not in self._failed(mutant, programs, copy, story)[0]:
                        verdict, note = "UNTOLD", f"the story {story} ends well on it"
        except Broken as broken:
            verdict, note = "BROKEN", f"it does not compile: {broken}"
        return {
            "mutant": mutant.name,
            "expect": mutant.fields["expect"].split(),
            "reported": reported,
            "first_seed": first,
            "seconds": round(time.monotonic() - began, 1),
            "verdict": verdict,
            "note": note,
        }

    def _build_own(self, mutant, kind):
        places = self.known[mutant.name][1]
        suites = {suite_of(self.tree.root, story) for story in stories_of(mutant)}
        programs = self.workshop.build_own(mutant, places, kind, suites)
        if kind != STORIES and suites:
            programs.update(self.workshop.build_own(mutant, places, STORIES, suites))
        return programs

    def _run(self, mutant, kind, programs, copy):
        """Runs what should find it. Returns the codes reported, the first seed that failed, and whether it was ended."""
        if kind != SEEDS:
            name = mutant.fields.get("tests") or mutant.unit_test()[1]
            failed, output, code = self._failed(mutant, programs, copy, name)
            found = {"story" if kind == STORIES else "unit"} if failed else set()
        else:
            seeds = mutant.fields.get("seeds", self.asked.seeds)
            command = [programs["campaign"], seeds, mutant.fields.get("members", str(self.asked.members))]
            # Without a class, unless it names a kind of plan: what a seed draws then does not depend on the shares of classes.
            command.append(mutant.fields.get("draw", "none"))
            code, output = self._execute(mutant, command, copy, "phalanx-sim", STOP_AT=mutant.fields["expect"])
            found = set()
        for pattern in REPORTED:
            found.update(pattern.findall(output))
        first = FIRST_SEED.search(output)
        note = f"ended after {self.asked.seconds} s" if code is None else ""
        note = f"the program died of signal {-code}" if code is not None and code < 0 else note
        return sorted(found), int(first.group(1)) if first else None, note

    def _failed(self, mutant, programs, copy, name):
        """Runs a story or unit test. Returns those that failed, what was written, and the exit code."""
        package, unit = mutant.unit_test() or (None, None)
        if unit == name:
            program = programs[package.replace("-", "_")]
        else:
            program, package = programs[suite_of(self.tree.root, name)], "phalanx-sim"
        code, output = self._execute(mutant, [program, "-q", name], copy, package)
        return " ".join(FAILED.findall(output)), output, code

    def _execute(self, mutant, command, copy, package, **variables):
        environment = dict(os.environ, **variables)
        environment.pop(VARIABLE, None)
        if copy != "own":
            environment[VARIABLE] = str(self.numbers[mutant.name])
        folder = os.path.join(self.workshop.folder, copy, "crates", package)
        log = os.path.join(self.workshop.folder, "run.log")
        with open(log, "w", encoding="utf-8") as file:
            code, _ = self.workshop.run(command, self.asked.seconds, cwd=folder, env=environment, stdout=file, stderr=file)
        with open(log, encoding="utf-8", errors="replace") as file:
            return code, file.read()


def as_line(result):
    return (
        f"{result['mutant']:<44} expect {' '.join(result['expect']):<14} reported {' '.join(result['reported']) or '-':<24} "
        f"first seed {'-' if result['first_seed'] is None else result['first_seed']!s:<6} {result['seconds']:6.1f} s  "
        f"{result['verdict']}{result['note'] and ' (' + result['note'] + ')'}"
    )
