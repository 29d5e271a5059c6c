"""Mutants as lists of edits: reads `NAME.mutant` files, and finds where in the tree each edit belongs."""

import os
import re

from rust import Crate, Refused, tokens

FIELDS = ["expect", "members", "seeds", "draw", "tests", "unit", "stories", "build"]
FORMS = {
    "expect": (r"[A-Za-z0-9_]+( +[A-Za-z0-9_]+)*", "codes, with a space between two"),
    "members": (r"\d+", "a number"),
    "seeds": (r"\d+\.\.\d+", "A..B"),
    "draw": (r"[\w-]+(=\d+)?", "a kind of plan, such as partial"),
    "tests": (r"\w+", "the name of a story"),
    "unit": (r"([\w-]+/)?\w+", "the name of a unit test of phalanx-core, or CRATE/TEST"),
    "stories": (r"\w+( +\w+)*", "names of stories"),
    "build": (r"own", "the word `own`"),
}
# Whose unit test it is where a mutant names none.
UNIT_CRATE = "phalanx-core"
BEFORE, AFTER, END = "<<<<", "====", ">>>>"


class Edit:
    """Text `before`, in one place of a crate (or of its functions of one name), becomes `after`."""

    def __init__(self, crate, function, before, after):
        self.crate, self.function, self.before, self.after = crate, function, before, after


class Place:
    """Where an edit belongs: the tokens that its text before matches, and the characters of them that really change."""

    def __init__(self, source, match):
        self.source, (self.first, self.last, self._end) = source, match

    def change(self, edit):
        """First character, first after, new text: without what the edit's texts have in common at both ends."""
        own, old, new = self.source.tokens, tokens(edit.before), tokens(edit.after)
        same = 0
        while same < min(len(old), len(new)) and old[same].text == new[same].text:
            same += 1
        tail = 0
        while tail < min(len(old), len(new)) - same and old[-1 - tail].text == new[-1 - tail].text:
            tail += 1
        start, new_start = (own[self.first + same - 1].end, new[same - 1].end) if same else (own[self.first].start, 0)
        end, new_end = self._end, len(edit.after)
        if tail:
            end, new_end = own[self.first + len(old) - tail].start, new[-tail].start
        return start, end, edit.after[new_start:new_end]

    def functions(self):
        """The functions that hold all of the text before, the outermost first."""
        return self.source.around(self.first, self.last)

    def __str__(self):
        return f"{self.source.path}:{self.source.line(self.first)}"


class Mutant:
    """One bug: what it says of itself, and its edits."""

    def __init__(self, name, text):
        self.name, self.text = name, text
        self.about, self.fields, self.edits = [], {}, []
        self._read(text.split("\n"))
        if "expect" not in self.fields:
            raise Refused(f"{name}: there is no line 'expect: CODE..'")
        if not self.edits:
            raise Refused(f"{name}: there is no block 'edit: CRATE'")
        if "tests" in self.fields and "unit" in self.fields:
            raise Refused(f"{name}: both `tests` and `unit` are given")

    def unit_test(self):
        """The crate and the name of the unit test that finds it; None: something else does."""
        crate, slash, name = self.fields.get("unit", "").rpartition("/")
        return (crate or UNIT_CRATE, name) if name else None

    def _read(self, lines):
        at = 0
        while at < len(lines):
            line, at = lines[at].rstrip(), at + 1
            if line.startswith("#"):
                self.about.append(line[1:].strip())
            elif line.startswith("edit:"):
                at = self._read_edit(lines, at, line)
            elif line:
                self._read_field(line, at)

    def _read_field(self, line, number):
        key, colon, value = line.partition(":")
        if not colon or key not in FIELDS:
            raise Refused(f"{self.name}: line {number} is no field ({', '.join(FIELDS)}), edit or comment: {line}")
        if key in self.fields:
            raise Refused(f"{self.name}: `{key}` is given twice")
        form, means = FORMS[key]
        if not re.fullmatch(form, value.strip()):
            raise Refused(f"{self.name}: `{key}` is {means}, not '{value.strip()}'")
        self.fields[key] = value.strip()

    def _read_edit(self, lines, at, line):
        head = re.fullmatch(r"edit: *([\w-]+)(?: +in +(\w+))?", line)
        if not head:
            raise Refused(f"{self.name}: line {at} is not 'edit: CRATE' or 'edit: CRATE in FUNCTION': {line}")
        parts = []
        for opening, close in ((BEFORE, AFTER), (AFTER, END)):
            if at >= len(lines) or lines[at].rstrip() != opening:
                raise Refused(f"{self.name}: line {at + 1} should be {opening}")
            until = at + 1
            while until < len(lines) and lines[until].rstrip() != close:
                until += 1
            if until == len(lines):
                raise Refused(f"{self.name}: {opening} in line {at + 1} is not followed by {close}")
            parts.append("\n".join(lines[at + 1 : until]))
            at = until
        before, after = ([token.text for token in tokens(part)] for part in parts)
        if not before:
            raise Refused(f"{self.name}: there is no code between {BEFORE} and {AFTER}")
        if before == after:
            raise Refused(f"{self.name}: the edit that ends in line {at + 1} changes nothing")
        self.edits.append(Edit(head.group(1), head.group(2), *parts))
        return at + 1


class Tree:
    """The sources of the crates that mutants change."""

    def __init__(self, root):
        self.root, self._crates = root, {}

    def crate(self, name):
        if name not in self._crates:
            self._crates[name] = Crate(self.root, name)
        return self._crates[name]

    def places(self, mutant):
        """One place for each edit of the mutant. Refuses none, several, and two that overlap."""
        found = [self._place(mutant, edit) for edit in mutant.edits]
        for index, place in enumerate(found):
            for other in found[:index]:
                if place.source is other.source and place.first <= other.last and other.first <= place.last:
                    raise Refused(f"{mutant.name}: two edits overlap at {place}")
        return found

    def _place(self, mutant, edit):
        try:
            crate = self.crate(edit.crate)
        except Refused as refused:
            raise Refused(f"{mutant.name}: {refused}") from None
        pattern = tokens(edit.before)
        matches = [Place(source, match) for source in crate.sources for match in source.find(pattern)]
        where = f"{edit.crate}"
        if edit.function:
            where = f"the functions `{edit.function}` of {edit.crate}"
            matches = [m for m in matches if any(f.name == edit.function for f in m.functions())]
        if len(matches) == 1:
            return matches[0]
        shown = " ".join(edit.before.split())
        if not matches:
            raise Refused(f"{mutant.name}: no match in {where}: {shown}")
        places = ", ".join(str(match) for match in matches[:10])
        raise Refused(f"{mutant.name}: {len(matches)} matches in {where} ({places}): {shown}")


def replaced(text, start, end, changes):
    """text[start:end], in which `changes` (first character, first after, new text) have been made."""
    parts, at = [], start
    for first, after, new in sorted(changes):
        parts += [text[at:first], new]
        at = after
    return "".join(parts) + text[at:end]


def changes(mutant, places):
    """Of each source that the mutant changes: its changes."""
    found = {}
    for edit, place in zip(mutant.edits, places):
        found.setdefault(place.source, []).append(place.change(edit))
    return found


def read(folder, names=()):
    """The mutants of these names, or all of the folder, in order."""
    suffix = ".mutant"
    known = sorted(file[: -len(suffix)] for file in os.listdir(folder) if file.endswith(suffix))
    chosen = [re.sub(r"\.mutant$", "", os.path.basename(name)) for name in names] or known
    found = []
    for name in chosen:
        if name not in known:
            raise Refused(f"there is no mutant {name} in {folder}")
        with open(os.path.join(folder, name + suffix), encoding="utf-8") as file:
            found.append(Mutant(name, file.read()))
    return found
