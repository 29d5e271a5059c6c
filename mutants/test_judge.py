"""Tests of what tries the mutants: programs of shell stand in for those that are built."""

import os
import tempfile
import time
import types
import unittest

from build import Broken, Workshop, write_if_other
from edits import Mutant, Tree
from judge import Judge, as_line
from rust import Refused

LIB = "pub fn sum(a: u32, b: u32) -> u32 { a + b }\npub fn less(a: u32, b: u32) -> u32 { a - b }\nconst C: u32 = 1;\n"
CAMPAIGN = """
test -z "$PHALANX_MUTANT" || echo "number $PHALANX_MUTANT"
case "$1 $2 $3" in
  "0..9 5 none") echo "seed 3: S3 text"; echo "seed 4: U1 text" ;;
  "0..7 4 partial") echo "seed 1: V1 $STOP_AT" ;;
  "0..1 "*) sleep 60 & echo $! >pid; wait ;;
  "0..2 "*) kill -9 $$ ;;
esac
"""
STORY = """
case "$1 $2" in
  "-q tale") echo "S9 at 1.5 s: text"; echo "mod::tale --- FAILED" ;;
  "-q fable") ;;
  "-q unit_test") echo "x::unit_test --- FAILED" ;;
esac
"""

# The working directory is that of the crate in the copy, and the mutant is switched on.
LIFE = """
case "$1 $2 $PHALANX_MUTANT $PWD" in "-q life_test 1 "*/units/crates/phalanx-life) echo "y::life_test --- FAILED" ;; esac
"""


class FakeWorkshop(Workshop):
    """Builds nothing; `broken` says what the compiler finds in a generated file."""

    def build(self, copy, kind, suites):
        self.built.append((os.path.basename(copy), kind, sorted(suites)))
        path = os.path.join(copy, "crates", "phalanx-core", "src", "lib.rs")
        with open(path, encoding="utf-8") as file:
            for line, text in enumerate(file, 1):
                if self.broken in text:
                    raise Broken([("crates/phalanx-core/src/lib.rs", line, "mismatched types")])
        return {name: os.path.join(self.root, name) for name in ("campaign", "tales", "phalanx_core", "phalanx_life")}


class Trying(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root, self.told = os.path.join(folder.name, "tree"), []
        for path, text in (("crates/phalanx-core/src/lib.rs", LIB), ("crates/phalanx-sim/src/lib.rs", ""),
                           ("crates/phalanx-sim/tests/tales.rs", "fn tale() {}\nfn fable() {}\n"),
                           ("crates/phalanx-life/src/lib.rs", "fn twice(a: u32) -> u32 { a + a }\n"), ("phalanx_life", "#!/bin/sh" + LIFE),
                           ("campaign", "#!/bin/sh" + CAMPAIGN), ("tales", "#!/bin/sh" + STORY), ("phalanx_core", "#!/bin/sh" + STORY)):
            write_if_other(os.path.join(self.root, path), text.encode())
            os.chmod(os.path.join(self.root, path), 0o755)
        self.workshop = FakeWorkshop(self.root, os.path.join(folder.name, "work"), self.told.append)
        self.addCleanup(self.workshop.close)
        self.workshop.broken, self.workshop.built = "never", []

    def judge(self, *mutants, seconds=30):
        tree = Tree(self.root)
        asked = types.SimpleNamespace(seeds="0..9", members=5, seconds=seconds)
        judge = Judge(self.workshop, tree, [(made, tree.places(made)) for made in mutants], asked)
        judge.prepare(mutants)
        return judge

    def result(self, head, before="a + b", after="a", **more):
        made = Mutant("m", f"{head}\nedit: phalanx-core\n<<<<\n{before}\n====\n{after}\n>>>>\n")
        return self.judge(made, **more).attempt(made)

    def expect(self, verdict, reported, head, **more):
        result = self.result(head, **more)
        self.assertEqual((result["verdict"], result["reported"]), (verdict, reported))
        return result

    def test_each_verdict(self):
        first = self.expect("recognised", ["S3", "U1"], "expect: U1 U2")
        self.assertEqual(first["first_seed"], 3)
        self.assertRegex(as_line(first), r"^m +expect U1 U2 +reported S3 U1 +first seed 3 +\d+\.\d s  recognised$")
        self.expect("MISTAKEN", ["S3", "U1"], "expect: X9")
        self.expect("SURVIVED", [], "expect: S3\nseeds: 5..6")
        self.expect("recognised", ["V1"], "expect: V1\nseeds: 0..7\nmembers: 4\ndraw: partial")
        self.expect("recognised", ["S9", "story"], "expect: story\ntests: tale")
        self.expect("MISTAKEN", ["S9", "story"], "expect: S8\ntests: tale")
        self.expect("SURVIVED", [], "expect: story\ntests: fable")
        self.expect("recognised", ["unit"], "expect: unit\nunit: unit_test")
        self.expect("recognised", ["S3", "U1"], "expect: S3\nstories: tale")
        untold = self.expect("UNTOLD", ["S3", "U1"], "expect: S3\nstories: tale fable")
        self.assertEqual(untold["note"], "the story fable ends well on it")

    def test_unit_tests_of_other_crates_have_a_copy_of_their_own(self):
        text = "expect: unit\nunit: phalanx-life/life_test\nedit: phalanx-life\n<<<<\na + a\n====\na\n>>>>\n"
        other = Mutant("other", "expect: S3\nedit: phalanx-core\n<<<<\na + b\n====\na\n>>>>\n")
        judge = self.judge(Mutant("life", text), other)
        self.assertEqual([judge.attempt(judge.known[name][0])["verdict"] for name in ("life", "other")], ["recognised"] * 2)
        self.assertEqual(self.workshop.built, [("switched", "seeds", []), ("units", "unit tests of phalanx-life", [])])
        for copy, crate, is_branch in (("units", "core", False), ("units", "life", True), ("switched", "core", True)):
            with open(os.path.join(self.workshop.folder, copy, f"crates/phalanx-{crate}/src/lib.rs"), encoding="utf-8") as file:
                self.assertEqual("mutant::active" in file.read(), is_branch, (copy, crate))

    def test_a_run_that_does_not_end_is_ended_with_what_it_started(self):
        result = self.expect("SURVIVED", [], "expect: S3\nseeds: 0..1", seconds=1)
        self.assertEqual(result["note"], "ended after 1 s")
        with open(os.path.join(self.workshop.folder, "switched/crates/phalanx-sim/pid"), encoding="utf-8") as file:
            pid = int(file.read())
        # Soon it is gone, or waits for a parent that looks for dead children seldom. A signal alone does not say so.
        end = time.monotonic() + 30
        while is_running(pid):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        died = self.expect("SURVIVED", [], "expect: S3\nseeds: 0..2")
        self.assertEqual(died["note"], "the program died of signal 9")

    def test_only_what_cannot_be_a_branch_is_built_alone(self):
        self.expect("recognised", ["S3", "U1"], "expect: S3")
        self.assertEqual(self.workshop.built, [("switched", "seeds", [])])
        self.workshop.built.clear()
        self.expect("recognised", ["S3", "U1"], "expect: S3\nstories: tale", before="C: u32 = 1", after="C: u32 = 2")
        self.assertEqual(self.workshop.built, [("own", "seeds", ["tales"]), ("own", "stories", ["tales"])])

    def test_a_refused_branch_gets_a_build_of_its_own_and_the_others_stay(self):
        one = Mutant("one", "expect: S3\nedit: phalanx-core\n<<<<\na + b\n====\nwrong\n>>>>\n")
        two = Mutant("two", "expect: S3\nedit: phalanx-core\n<<<<\na - b\n====\nb\n>>>>\n")
        self.workshop.broken = "wrong"
        judge = self.judge(one, two)
        self.assertEqual(judge.own, {"one": "the compiler refuses it as a branch: mismatched types"})
        self.assertEqual(self.told[1], "one gets a build of its own: the compiler refuses it as a branch: mismatched types")
        self.assertEqual(judge.attempt(two)["verdict"], "recognised")
        broken = judge.attempt(one)
        self.assertEqual((broken["verdict"], broken["note"]), ("BROKEN", "it does not compile: mismatched types"))
        self.workshop.broken = "const C"
        with self.assertRaisesRegex(Refused, "the generated tree does not compile"):
            judge.prepare([two])

    def test_two_runs_do_not_share_a_directory(self):
        self.assertEqual(Workshop.holder(self.workshop.folder), str(os.getpid()))
        with self.assertRaisesRegex(Refused, f"process {os.getpid()} uses"):
            Workshop(self.root, self.workshop.folder, print)


def is_running(pid):
    try:
        return " Z " not in read(f"/proc/{pid}/stat")
    except OSError:
        return False


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


if __name__ == "__main__":
    unittest.main()
