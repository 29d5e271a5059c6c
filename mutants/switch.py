"""The generated copy of the tree: one build holds all mutants that change function bodies, each as a branch behind a
switch. The environment variable PHALANX_MUTANT of a run says which one is on; without it none is."""

import collections
import os

from edits import replaced
from rust import Refused

VARIABLE = "PHALANX_MUTANT"
# One copy in each crate: the checker and the core have no crate in common. The first use reads the environment.
MODULE = """
/// The mutant that this run has switched on; 0: none.
#[doc(hidden)]
#[allow(dead_code)]
mod mutant {
    use std::sync::atomic::{AtomicU32, Ordering};

    static ACTIVE: AtomicU32 = AtomicU32::new(u32::MAX);

    #[inline]
    pub(crate) fn active() -> u32 {
        let active = ACTIVE.load(Ordering::Relaxed);
        if active == u32::MAX { ask() } else { active }
    }

    #[cold]
    fn ask() -> u32 {
        let active = std::env::var("VARIABLE").map_or(0, |number| number.parse().expect("VARIABLE is a number"));
        ACTIVE.store(active, Ordering::Relaxed);
        active
    }
}
""".replace("VARIABLE", VARIABLE)


def why_own(mutant, places):
    """Why a mutant needs a build of its own; empty: it can be a branch."""
    if "build" in mutant.fields:
        return "its file says `build: own`"
    for edit, place in zip(mutant.edits, places):
        function = body_of(place, edit)
        if function is None:
            return f"{place} is outside function bodies"
        if function.why_whole:
            return f"{place} is in {function.why_whole}"
    return ""


def body_of(place, edit):
    """The outermost function in whose body the change is."""
    start, end, _ = place.change(edit)
    own = place.source.tokens
    for function in place.source.functions():
        if own[function.opening].end <= start and end <= own[function.end].start:
            return function
    return None


class Switched:
    """The files that differ from the tree, and where in them each mutant's branches are."""

    def __init__(self, tree, mutants, numbers):
        """`mutants`: each with its places. `numbers`: by name, what the switch is set to."""
        self.numbers = numbers
        self.files, self._branches = {}, {}
        bodies = collections.defaultdict(lambda: collections.defaultdict(list))
        for mutant, places in mutants:
            for edit, place in zip(mutant.edits, places):
                bodies[place.source][body_of(place, edit)].append((mutant.name, place.change(edit)))
        for source, functions in bodies.items():
            self._write(source, functions)
        for name in {source.path.split(os.sep)[1] for source in bodies}:
            self._add_module(tree.crate(name))

    def _write(self, source, functions):
        parts, at, line = [], 0, 1
        branches = self._branches[source.path] = []

        def add(text):
            nonlocal line
            parts.append(text)
            line += text.count("\n")

        for function in sorted(functions, key=lambda f: f.start):
            start, end = source.tokens[function.opening].end, source.tokens[function.end].start
            changes = collections.defaultdict(list)
            for name, change in functions[function]:
                changes[name].append(change)
            add(source.text[at:start] + " match crate::mutant::active() {\n")
            for name in sorted(changes):
                first = line
                add(f"{self.numbers[name]} => {{{replaced(source.text, start, end, changes[name])}\n}}\n")
                branches.append((first, line, name))
            add(f"_ => {{{source.text[start:end]}\n}} }} ")
            at = end
        add(source.text[at:])
        self.files[source.path] = "".join(parts)

    def _add_module(self, crate):
        path = os.path.join(crate.folder, "lib.rs")
        source = next((source for source in crate.sources if source.path == path), None)
        if source is None:
            raise Refused(f"{crate.name} has no {path}")
        self.files[path] = self.files.get(path, source.text) + MODULE

    def blamed(self, path, line):
        """The mutant in whose branch the compiler found an error, if it is one's."""
        return next((name for first, last, name in self._branches.get(path, []) if first <= line <= last), None)
