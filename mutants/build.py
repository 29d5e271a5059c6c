"""Copies of the tree with mutants in them, and the programs that are built of these."""

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess

from edits import UNIT_CRATE, changes, replaced
from rust import Refused
from switch import Switched

# What finds a mutant: the program that runs seeds, the simulator's stories, or the unit tests of a crate.
SEEDS, STORIES, UNIT = "seeds", "stories", "unit tests of "
# The copies in which mutants are branches. What is found by unit tests of other crates than the core has one of its own:
# these need not compile what all others change in the core.
SWITCHED, UNITS = "switched", "units"
STORIES_FOLDER = os.path.join("crates", "phalanx-sim", "tests")
# Built once and run for a minute: a quick build counts for more than the last bit of speed.
PROFILE = ["--locked", "--profile", "quick", "--message-format", "json"]
UNIT_SPEED = "profile.quick.package.{}.opt-level=1"


def unit_kind(crate):
    return UNIT + crate


def copy_of(kind):
    """The copy in which what this kind finds is a branch."""
    return UNITS if kind.startswith(UNIT) and kind != unit_kind(UNIT_CRATE) else SWITCHED


class Broken(Exception):
    """What was built does not compile. `errors`: file, line and text of each."""

    def __init__(self, errors):
        super().__init__(errors[0][2] if errors else "cargo failed")
        self.errors = errors


class Workshop:
    """A directory with the copies, the target directory of their builds, and the programs. One run at a time uses it."""

    def __init__(self, root, folder, tell):
        self.root, self.folder, self.tell = root, folder, tell
        self.log = os.path.join(folder, "build.log")
        self._child = None
        os.makedirs(folder, exist_ok=True)
        self._lock = open(os.path.join(folder, "lock"), "a+", encoding="utf-8")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise Refused(f"process {self.holder(folder)} uses {folder}: ./x mutants --status") from None
        self._lock.truncate(0)
        self._lock.write(str(os.getpid()))
        self._lock.flush()

    def close(self):
        self._lock.close()

    @staticmethod
    def holder(folder):
        """The id of the process that uses this directory; empty: none."""
        try:
            with open(os.path.join(folder, "lock"), encoding="utf-8") as file:
                pid = file.read()
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return ""
        except OSError:
            return pid or "of another run"
        return ""

    def run(self, command, seconds=None, **more):
        """Runs a command with its output in a file or pipe as asked. It ends with this program, and after `seconds`."""
        self._child = subprocess.Popen(command, text=True, start_new_session=True, **more)
        try:
            output, _ = self._child.communicate(timeout=seconds)
            return self._child.returncode, output or ""
        except subprocess.TimeoutExpired:
            self.end()
            return None, self._child.communicate()[0] or ""
        finally:
            self.end()

    def end(self):
        """Ends what runs, with all that it started."""
        if self._child is not None and self._child.poll() is None:
            os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait()

    def refresh(self, name, files):
        """Makes the copy `name` equal to the tree, but for `files`. What is equal keeps its time, which builds look at."""
        copy, kept = os.path.join(self.folder, name), set()
        for folder, folders, names in os.walk(self.root):
            folders[:] = [f for f in folders if f not in ("target", ".git", "corpus", "artifacts")]
            for file in names:
                path = os.path.relpath(os.path.join(folder, file), self.root)
                kept.add(path)
                with open(os.path.join(self.root, path), "rb") as opened:
                    wanted = files[path].encode() if path in files else opened.read()
                write_if_other(os.path.join(copy, path), wanted)
        for folder, folders, names in os.walk(copy):
            folders[:] = [f for f in folders if f != "target"]
            for file in names:
                if os.path.relpath(os.path.join(folder, file), copy) not in kept:
                    os.remove(os.path.join(folder, file))
        return copy

    def build(self, copy, kind, suites):
        """Builds the programs of one kind. Returns them by the name of their target."""
        package = kind.removeprefix(UNIT) if kind.startswith(UNIT) else "phalanx-sim"
        command = ["cargo", "build" if kind == SEEDS else "test", *PROFILE, "-p", package]
        if kind == SEEDS:
            command += ["--example", "campaign"]
        elif kind == STORIES:
            command += ["--no-run", *(word for suite in sorted(suites) for word in ("--test", suite))]
        else:
            command += ["--no-run", "--lib", "--config", UNIT_SPEED.format(package)]
        environment = dict(os.environ, CARGO_TARGET_DIR=os.path.join(self.folder, "target"))
        with open(self.log, "a", encoding="utf-8") as log:
            code, output = self.run(command, cwd=copy, env=environment, stdout=subprocess.PIPE, stderr=log)
            programs, errors = read_messages(output, log)
        if code != 0:
            raise Broken(errors)
        if kind == SEEDS:  # Of each copy an example of that name is put in the same place.
            kept = os.path.join(self.folder, os.path.basename(copy) + "-campaign")
            shutil.copy2(programs["campaign"], kept)
            programs["campaign"] = kept
        return programs

    def build_switched(self, tree, mutants, numbers, kind, suites):
        """Builds one kind of program with all `mutants` (each with its places) as branches. Takes out those whose branch
        the compiler refuses, and returns these with the reasons, and the programs."""
        refused = {}
        while True:
            held = [(mutant, places) for mutant, places in mutants if mutant.name not in refused]
            switched = Switched(tree, held, numbers)
            copy = self.refresh(copy_of(kind), switched.files)
            try:
                return self.build(copy, kind, suites), refused
            except Broken as broken:
                blamed = {}
                for path, line, text in broken.errors:
                    name = switched.blamed(path, line)
                    if name is not None:
                        blamed.setdefault(name, f"the compiler refuses it as a branch: {text}")
                if not blamed:
                    raise Refused(f"the generated tree does not compile ({broken}): see {self.log}") from None
                for name, why in sorted(blamed.items()):
                    self.tell(f"{name} gets a build of its own: {why}")
                refused.update(blamed)

    def build_own(self, mutant, places, kind, suites):
        """Builds one kind of program with this mutant alone."""
        files = {source.path: replaced(source.text, 0, len(source.text), new) for source, new in changes(mutant, places).items()}
        return self.build(self.refresh("own", files), kind, suites)


def write_if_other(path, wanted):
    if os.path.exists(path):
        with open(path, "rb") as opened:
            if opened.read() == wanted:
                return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(wanted)


def read_messages(output, log):
    """What cargo says in JSON: the programs by target, and where errors are."""
    programs, errors = {}, []
    for line in output.splitlines():
        said = json.loads(line) if line.startswith("{") else {}
        if said.get("reason") == "compiler-artifact" and said.get("executable"):
            programs[said["target"]["name"]] = said["executable"]
        message = said.get("message") if said.get("reason") == "compiler-message" else None
        if message and message["level"] == "error":
            log.write(message.get("rendered") or message["message"])
            errors += [(span["file_name"], span["line_start"], message["message"])
                       for span in message["spans"] if span["is_primary"]]
    return programs, errors


def suite_of(root, story):
    """The test program of the simulator that holds this story; None: no story begins with that name."""
    for folder, folders, files in os.walk(os.path.join(root, STORIES_FOLDER)):
        folders.sort()
        for file in sorted(files):
            with open(os.path.join(folder, file), encoding="utf-8") as opened:
                if file.endswith(".rs") and re.search(rf"\bfn {story}", opened.read()):
                    path = os.path.relpath(os.path.join(folder, file), os.path.join(root, STORIES_FOLDER))
                    return re.split(r"[/.]", path)[0]
    return None
