"""Tests of edits, switch and shares: `python3 -m unittest discover -s mutants`, part of the step `mutants` of `./x test`."""

import os
import subprocess
import tempfile
import unittest

import shares
from build import read_messages, write_if_other
from edits import Mutant, Tree, changes, replaced
from rust import Refused, tokens
from switch import VARIABLE, Switched, why_own

LIB = """
//! A crate.
mod tests;
/// Doubles.
pub fn double(of: u32) -> u32 {
    let twice = sum(of, of); // not `of * of`
    twice
}

fn sum(a: u32, b: u32) -> u32 {
    a + b
}

const LIMIT: u32 = 7;
pub const fn limit() -> u32 { LIMIT + 1 }
pub fn all() -> impl Iterator<Item = u32> { (0..LIMIT).map(|n| n + 2) }
impl Other { fn sum(&self) -> u32 { self.count() - 1 } }

#[cfg(test)]
mod checks {
    fn tested() { assert_eq!(sum(1, 1), 2); self.count() - 1 }
}
"""


def mutant(before, after, head="edit: demo", name="m"):
    return Mutant(name, f"# Why.\nexpect: S1\n{head}\n<<<<\n{before}\n====\n{after}\n>>>>\n")


class InATree(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.write("lib.rs", LIB)

    def write(self, file, text):
        write_if_other(os.path.join(self.folder.name, "crates", "demo", "src", file), text.encode())

    def places(self, *edits_of):
        return Tree(self.folder.name).places(*edits_of)

    def after(self, made):
        [(source, new)] = changes(made, self.places(made)).items()
        return replaced(source.text, 0, len(source.text), new)

    def refuses(self, says, made):
        with self.assertRaisesRegex(Refused, says):
            self.places(made)


class Finding(InATree):
    def test_indents_breaks_comments_and_last_commas_do_not_count(self):
        made = mutant("let twice = sum(of, of);", "let twice = of;")
        self.assertIn("let twice = of;", self.after(made))
        self.write("lib.rs", LIB.replace("sum(of, of)", "sum(\n  of, // once\n /* and /* again */ */ of,\n)"))
        self.assertIn("let twice = of;", self.after(made))

    def test_no_match_is_refused(self):
        self.refuses("^m: no match in demo: a - b$", mutant("a - b", "a"))
        self.refuses("^m: no match in demo: um", mutant("um(a: u32", "x"))
        self.refuses("there is no crate other", mutant("a + b", "a", "edit: other"))

    def test_two_matches_are_refused_with_their_places(self):
        self.write("more.rs", "fn more() -> u32 {\n    a + b\n}\n")
        self.refuses(r"^m: 2 matches in demo \(crates/demo/src/lib.rs:11, crates/demo/src/more.rs:2\): a \+ b$", mutant("a + b", "a"))

    def test_a_function_tells_two_matches_apart(self):
        self.write("more.rs", "fn more() -> u32 {\n    a + b\n}\n")
        [place] = self.places(mutant("a + b", "a", "edit: demo in more"))
        self.assertEqual(str(place), "crates/demo/src/more.rs:2")
        self.refuses("no match in the functions `double` of demo", mutant("a + b", "a", "edit: demo in double"))
        self.write("again.rs", "fn more() -> u32 { 1; a + b }")
        self.refuses("2 matches in the functions `more` of demo", mutant("a + b", "a", "edit: demo in more"))

    def test_what_only_tests_contain_does_not_count(self):
        self.write("tests.rs", "fn f() { a + b }")
        self.write("part/mod.rs", "#[cfg(test)]\npub(crate) mod cases;")
        self.write("part/cases.rs", "fn g() { a + b }")
        self.write("lib.rs", LIB.replace("mod tests;", "#[cfg(test)]\nmod tests;"))
        self.assertIn("a * b", self.after(mutant("a + b", "a * b")))
        self.assertEqual(len(self.places(mutant("self.count() - 1", "0"))), 1)
        self.refuses("no match", mutant("assert_eq!", "assert!"))

    def test_a_moved_file_and_a_split_function_do_not_matter(self):
        made = mutant("let twice = sum(of, of);", "let twice = of;")
        start = LIB.index("/// Doubles.")
        self.write("lib.rs", LIB[:start] + LIB[LIB.index("fn sum") :])
        self.write("deep/er/moved.rs", "impl X {\n  fn first() {\n    let twice = sum(of, of);\n    rest(twice)\n  }\n}\n")
        self.assertIn("let twice = of;\n    rest", self.after(made))

    def test_only_what_differs_is_replaced(self):
        made = mutant("let twice = sum(of, of); twice }", "let twice = sum(of, 1); twice }")
        self.assertIn("let twice = sum(of, 1); // not `of * of`\n    twice\n}", self.after(made))

    def test_edits_that_overlap_are_refused(self):
        one = "edit: demo\n<<<<\na + b\n====\na\n>>>>\n"
        self.refuses("two edits overlap", Mutant("m", "expect: S1\n" + one + one))

    def test_text_in_strings_and_lifetimes_is_whole(self):
        words = [token.text for token in tokens("f::<'a>('b', \"// {\", r#\"\"x\"#, b'\\'', 1..2, 0.5,)")]
        expected = ["f", ":", ":", "<", "'a", ">", "(", "'b'", ",", '"// {"', ",", 'r#""x"#', ",", "b'\\''", ","]
        self.assertEqual(words, expected + ["1", ".", ".", "2", ",", "0.5", ")"])


class Reading(unittest.TestCase):
    def refuses(self, says, text):
        with self.assertRaisesRegex(Refused, says):
            Mutant("m", text)

    def test_what_is_wrong_with_a_file_is_said(self):
        edit = "edit: demo\n<<<<\na\n====\nb\n>>>>\n"
        self.refuses("m: there is no line 'expect: CODE..'", edit)
        self.refuses("m: there is no block 'edit: CRATE'", "expect: S1\n")
        self.refuses("line 2 is no field", "expect: S1\nexpcet: S2\n" + edit)
        self.refuses("`expect` is given twice", "expect: S1\nexpect: S2\n" + edit)
        self.refuses("`seeds` is A..B, not '5'", "expect: S1\nseeds: 5\n" + edit)
        self.refuses("both `tests` and `unit`", "expect: S1\ntests: a\nunit: b\n" + edit)
        self.refuses("line 2 should be <<<<", "edit: demo\n====\n")
        self.refuses("<<<< in line 2 is not followed by ====", "edit: demo\n<<<<\na\n>>>>\n")
        self.refuses("is not 'edit: CRATE'", "edit: demo.rs:3\n")
        self.refuses("no code between", "expect: S1\nedit: demo\n<<<<\n// a\n====\nb\n>>>>\n")
        self.refuses("changes nothing", "expect: S1\nedit: demo\n<<<<\na(b)\n====\na(\nb,\n)\n>>>>\n")

    def test_fields_and_comments_are_kept(self):
        read = Mutant("m", "# Why\n# so.\nexpect: S1 U3\nmembers: 4\nedit: demo in f\n<<<<\na\n\nb\n====\n>>>>\n")
        self.assertEqual((read.about, read.fields), (["Why", "so."], {"expect": "S1 U3", "members": "4"}))
        self.assertEqual([(e.crate, e.function, e.before, e.after) for e in read.edits], [("demo", "f", "a\n\nb", "")])


class Switching(InATree):
    def why(self, made):
        return why_own(made, self.places(made))

    def test_what_cannot_be_a_branch_is_said(self):
        self.assertEqual(self.why(mutant("a + b", "a")), "")
        self.assertEqual(self.why(mutant("twice\n}", "1\n}")), "")
        self.assertIn("outside function bodies", self.why(mutant("LIMIT: u32 = 7", "LIMIT: u32 = 8")))
        self.assertIn("outside function bodies", self.why(mutant("fn sum(a: u32", "fn sum(a: i32")))
        self.assertIn("a constant function", self.why(mutant("LIMIT + 1", "LIMIT")))
        self.assertIn("returns an `impl` type", self.why(mutant("n + 2", "n")))
        self.assertIn("build: own", self.why(mutant("a + b", "a", "build: own\nedit: demo")))

    def test_a_run_has_the_mutant_that_is_switched_on(self):
        self.write("lib.rs", LIB.replace("mod tests;", "").replace("impl Other", "struct Other;\nimpl Other").replace("self.count()", "3")
                   + "fn main() { print!(\"{} {}\", double(4), sum(1, 2)); }\n")
        tree = Tree(self.folder.name)
        found = [mutant("a + b", "a * b", name="times"), mutant("twice }", "twice + 1 }", name="more")]
        found += [Mutant("both", "expect: S1\n" + "".join(f"edit: demo\n<<<<\n{before}\n====\n{after}\n>>>>\n" for before, after in
                                                         (("a + b", "b"), ("sum(of, of)", "9"))))]
        switched = Switched(tree, [(made, tree.places(made)) for made in found], {"times": 1, "more": 2, "both": 3})
        [(path, text)] = switched.files.items()
        lines = text.split("\n")
        self.assertEqual(switched.blamed(path, next(n for n, line in enumerate(lines, 1) if "a * b" in line)), "times")
        self.assertIsNone(switched.blamed(path, 1))
        source, program = os.path.join(self.folder.name, "main.rs"), os.path.join(self.folder.name, "main")
        write_if_other(source, text.encode())
        subprocess.run(["rustc", "--edition", "2024", "-A", "warnings", "-o", program, source], check=True)
        for number, printed in (("", "8 3"), ("0", "8 3"), ("1", "16 2"), ("2", "9 3"), ("3", "9 2")):
            environment = {key: value for key, value in os.environ.items() if key != VARIABLE}
            environment.update({VARIABLE: number} if number else {})
            said = subprocess.run([program], env=environment, capture_output=True, text=True, check=True).stdout
            self.assertEqual((number, said), (number, printed))

    def test_errors_are_read_with_their_lines(self):
        span = '{"file_name": "crates/a.rs", "line_start": 7, "is_primary": true}'
        output = '{"reason": "compiler-message", "message": {"level": "error", "message": "no", "spans": [' + span + "]}}\n"
        output += '{"reason": "compiler-artifact", "target": {"name": "t"}, "executable": "/t-1"}\nother\n'
        with open(os.devnull, "w", encoding="utf-8") as log:
            self.assertEqual(read_messages(output, log), ({"t": "/t-1"}, [("crates/a.rs", 7, "no")]))


class Shares(unittest.TestCase):
    NAMES = [f"m{n}" for n in range(400)]

    def test_shares_are_drawn_by_the_seed(self):
        few, more = (shares.drawn(self.NAMES, 7, count) for count in (4, 8))
        self.assertTrue(20 < len(few) < 60 and set(few) < set(more))
        self.assertNotEqual(few, shares.drawn(self.NAMES, 8, 4))
        self.assertEqual(shares.drawn(self.NAMES, 7, shares.SHARES), self.NAMES)

    def test_a_share_goes_on_where_it_was_ended(self):
        with tempfile.TemporaryDirectory() as folder:
            share = shares.chosen(folder, self.NAMES, None, 4)
            drawn = shares.drawn(self.NAMES, share.seed, 4)
            share.keep({"mutant": drawn[0], "verdict": "recognised", "note": ""})
            with open(share.file, "a", encoding="utf-8") as file:
                file.write('{"mutant": "' + drawn[1])  # Ended in the middle of a line.
            again = shares.chosen(folder, self.NAMES, None, None)
            self.assertEqual((again.seed, again.waiting(self.NAMES)), (share.seed, drawn[1:]))
            for name in drawn[1:]:
                again.keep({"mutant": name, "verdict": "SURVIVED", "note": ""})
            self.assertEqual(again.waiting(self.NAMES), [])
            self.assertIn(f"{len(drawn)} of {len(drawn)} mutants tried, 1 recognised", again.describe(self.NAMES)[0])
            self.assertNotEqual(shares.chosen(folder, self.NAMES, None, None).seed, share.seed)


if __name__ == "__main__":
    unittest.main()
