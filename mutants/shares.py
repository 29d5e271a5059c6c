"""A drawn share of the mutants, tried in the background. What came of each is kept, so that the share can be ended at any
time and goes on later. The words are those of `tests/mutation.py`."""

import hashlib
import json
import os
import secrets
import signal
import subprocess
import sys

from rust import Refused

SHARES = 40
DEFAULT = 4


def drawn(names, seed, shares):
    """The names whose share of forty, drawn by the seed, is below `shares`."""

    def share(name):
        return int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:8], "big") % SHARES

    return [name for name in names if share(name) < shares]


class Share:
    """One drawn share: its seed, how much of the whole it is, and the results so far, in `folder`."""

    def __init__(self, folder, seed, shares):
        self.folder, self.seed, self.shares = folder, seed, shares
        self.file = os.path.join(folder, f"share-{seed}-{shares}.jsonl")

    @staticmethod
    def last(folder):
        """The share that was begun last, or None."""
        try:
            with open(os.path.join(folder, "share.json"), encoding="utf-8") as file:
                kept = json.load(file)
            return Share(folder, kept["seed"], kept["shares"])
        except FileNotFoundError:
            return None

    def begin(self):
        """Makes this share the last one."""
        with open(os.path.join(self.folder, "share.json"), "w", encoding="utf-8") as file:
            json.dump({"seed": self.seed, "shares": self.shares}, file)

    def results(self):
        """What came of its mutants so far, by name. A line that was cut off does not count."""
        found = {}
        if os.path.exists(self.file):
            with open(self.file, encoding="utf-8") as file:
                for line in file:
                    if line.endswith("\n"):
                        result = json.loads(line)
                        found[result["mutant"]] = result
        return found

    def keep(self, result):
        with open(self.file, "a+b") as file:
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)
            file.write(json.dumps(result).encode() + b"\n")

    def waiting(self, names):
        results = self.results()
        return [name for name in drawn(names, self.seed, self.shares) if name not in results]

    def describe(self, names):
        """Lines that say how far it is, and what was not recognised."""
        results, waiting = self.results(), self.waiting(names)
        found = sum(result["verdict"] == "recognised" for result in results.values())
        lines = [f"{self}: {len(results)} of {len(results) + len(waiting)} mutants tried, {found} recognised"]
        lines += [f"  {r['mutant']}: {r['verdict']} {r['note']}".rstrip() for r in results.values() if r["verdict"] != "recognised"]
        return lines

    def start(self, arguments):
        """Goes on with it in the background. Returns the process id and the log."""
        log = os.path.join(self.folder, "share.log")
        command = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "run.py"), "--foreground"]
        command += ["--shares", str(self.shares), "--seed", str(self.seed), *arguments]
        with open(log, "a", encoding="utf-8") as file:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True, preexec_fn=be_nice
            )
        return child.pid, log

    def __str__(self):
        return f"shares {self.shares} of {SHARES}, seed {self.seed}"


def be_nice():
    os.nice(10)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def chosen(folder, names, seed, shares):
    """The share that is asked for: by its seed, or the last one if something of it waits, or one with a new seed."""
    last = Share.last(folder)
    if seed is None and last and last.shares == (shares or last.shares) and last.waiting(names):
        return last
    share = Share(folder, secrets.randbelow(1 << 32) if seed is None else seed, shares or DEFAULT)
    if not drawn(names, share.seed, share.shares):
        raise Refused(f"{share}: no mutant is in it")
    share.begin()
    return share
