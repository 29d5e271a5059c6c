"""Rust source as tokens: enough to find a piece of text however it is indented, wrapped or commented, and the function
that it is in. Tests inside `src` are left out: no mutant changes them."""

import bisect
import os
import re

TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*)
    |(?P<raw>(?:b|c)?r(?P<hashes>\#*)")
    |(?P<text>(?:b|c)?"(?:[^"\\]|\\.)*")
    |(?P<char>b?'(?:[^'\\]|\\(?:x..|u\{[^}]*\}|.))')
    |(?P<word>'?(?:r\#)?[^\W\d]\w*)
    |(?P<number>\d\w*(?:\.\d\w*)?)
    |(?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)
OPENING = {"(": ")", "[": "]", "{": "}"}
CLOSING = frozenset(OPENING.values())
QUALIFIERS = frozenset(["pub", "const", "async", "unsafe", "extern", "default", "(", ")", "crate", "super", "in"])


class Refused(Exception):
    """A mutant, or a source, that cannot be taken as it is. The text says which and why."""


class Token:
    """One token: its text, where it is, and the end of a comma between it and a closing bracket (0: there is none)."""

    __slots__ = ("text", "start", "end", "comma")

    def __init__(self, text, start, end):
        self.text, self.start, self.end, self.comma = text, start, end, 0


def tokens(text):
    """The tokens of `text` without space, comments, and commas before closing brackets."""
    found, at = [], 0
    while at < len(text):
        match = TOKEN.match(text, at)
        kind, start, at = match.lastgroup, at, match.end()
        if kind == "raw":
            close = '"' + match.group("hashes")
            end = text.find(close, at)
            at = len(text) if end < 0 else end + len(close)
        elif kind == "space":
            if match.group() == "/*":
                at = comment_end(text, at)
            continue
        word = text[start:at]
        if word in CLOSING and found and found[-1].text == "," and len(found) > 1:
            comma = found.pop()
            found[-1].comma = comma.end
        found.append(Token(word, start, at))
    return found


def comment_end(text, at):
    """Where the block comment ends whose opening is before `at`; they nest."""
    depth = 1
    while depth and at < len(text):
        if text.startswith("/*", at):
            depth, at = depth + 1, at + 2
        elif text.startswith("*/", at):
            depth, at = depth - 1, at + 2
        else:
            at += 1
    return at


def closing(found, opening):
    """The index of the token that closes the bracket at index `opening`."""
    depth = 0
    for index in range(opening, len(found)):
        if found[index].text in OPENING:
            depth += 1
        elif found[index].text in CLOSING:
            depth -= 1
            if depth == 0:
                return index
    raise Refused("a bracket is not closed")


class Function:
    """A function with a body. All are indices of tokens: the word `fn`, the braces of the body."""

    def __init__(self, name, start, opening, end, why_whole):
        self.name, self.start, self.opening, self.end = name, start, opening, end
        # Why its body cannot choose between mutants while it runs; empty: it can.
        self.why_whole = why_whole


class Source:
    """One file of a crate."""

    def __init__(self, path, text):
        self.path, self.text, self.tokens = path, text, tokens(text)
        self.tests, self.test_modules = self._tests()
        words = [token.text for token in self.tokens]
        self._joined = "\0" + "\0".join(words) + "\0"
        self._offsets, offset = [], 0
        for word in words:
            self._offsets.append(offset)
            offset += len(word) + 1
        self._functions = None

    def find(self, pattern):
        """Each place that matches the tokens of `pattern`: the indices of its first and last token, and where it ends."""
        soft_comma = len(pattern) > 1 and pattern[-1].text == ","
        core = pattern[:-1] if soft_comma else pattern
        wanted = "\0" + "\0".join(token.text for token in core) + "\0"
        places, at = [], self._joined.find(wanted)
        while at >= 0:
            first = bisect.bisect_left(self._offsets, at)
            last = first + len(core) - 1
            followed = last + 1 < len(self.tokens) and self.tokens[last + 1].text == ","
            if not any(start <= first <= end for start, end in self.tests):
                if not soft_comma:
                    places.append((first, last, self.tokens[last].end))
                elif self.tokens[last].comma:
                    places.append((first, last, self.tokens[last].comma))
                elif followed:
                    places.append((first, last + 1, self.tokens[last + 1].end))
            at = self._joined.find(wanted, at + 1)
        return places

    def functions(self):
        """All functions, an outer one before those in it."""
        if self._functions is None:
            self._functions = list(self._find_functions())
        return self._functions

    def around(self, first, last):
        """The functions whose text, from `fn` to the closing brace, contains these tokens, the outermost first."""
        return [f for f in self.functions() if f.start <= first and last <= f.end]

    def line(self, index):
        return self.text.count("\n", 0, self.tokens[index].start) + 1

    def _find_functions(self):
        words = [token.text for token in self.tokens]
        for index, word in enumerate(words[:-1]):
            if word != "fn" or not re.match(r"\w", words[index + 1]):
                continue
            at, returns = index + 2, None
            while at < len(words) and words[at] not in ("{", ";"):
                if words[at] == "-" and words[at + 1] == ">" and returns is None:
                    returns = at
                at = closing(self.tokens, at) + 1 if words[at] in ("(", "[") else at + 1
            if at == len(words) or words[at] == ";":
                continue
            why, before = "", index - 1
            while before >= 0 and (words[before] in QUALIFIERS or words[before].startswith('"')):
                if words[before] == "const":
                    why = "a constant function"
                before -= 1
            if returns is not None and "impl" in words[returns:at]:
                why = "a function that returns an `impl` type"
            yield Function(words[index + 1], index, at, closing(self.tokens, at), why)

    def _tests(self):
        """The token ranges of what is compiled for tests alone, and the modules in files of their own among them."""
        words = [token.text for token in self.tokens]
        ranges, modules, index = [], [], 0
        while index < len(words) - 2:
            if words[index : index + 2] != ["#", "["] or words[index + 2] != "cfg":
                index += 1
                continue
            start, end = index, closing(self.tokens, index + 1)
            condition = words[index + 3 : end]
            index = end + 1
            if "test" not in condition or "not" in condition:
                continue
            while words[index : index + 2] == ["#", "["]:
                index = closing(self.tokens, index + 1) + 1
            item = index
            while index < len(words) - 1 and words[index] not in (";", "{"):
                index = closing(self.tokens, index) if words[index] in OPENING else index
                index += 1
            if words[index] == "{":
                index = closing(self.tokens, index)
            elif "mod" in words[item:index]:
                modules.append(words[index - 1])
            ranges.append((start, index))
        return ranges, modules


class Crate:
    """The sources of one crate: all files below its `src`, but those of tests."""

    def __init__(self, root, name):
        self.name, self.folder = name, os.path.join("crates", name, "src")
        self.sources = []
        if not os.path.isdir(os.path.join(root, self.folder)):
            raise Refused(f"there is no crate {name}")
        tests = set()
        for folder, folders, files in sorted(os.walk(os.path.join(root, self.folder))):
            folders.sort()
            for file in sorted(files):
                if file.endswith(".rs"):
                    full = os.path.join(folder, file)
                    with open(full, encoding="utf-8") as opened:
                        source = Source(os.path.relpath(full, root), opened.read())
                    self.sources.append(source)
                    own = folder if file in ("lib.rs", "main.rs", "mod.rs") else full[: -len(".rs")]
                    tests.update(os.path.relpath(os.path.join(own, module), root) for module in source.test_modules)
        self.sources_with_tests = self.sources
        self.sources = [s for s in self.sources if not in_any(s.path, tests)]


def in_any(path, modules):
    return any(path == module + ".rs" or path.startswith(module + os.sep) for module in modules)
