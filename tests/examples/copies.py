"""Copies of an example as processes of this host, in a directory of their own that is removed at the end."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time


class Wrong(Exception):
    """What was expected, and what came instead."""


class Copy:
    def __init__(self, name, arguments, environment, directory):
        self.name = name
        self.lines = []
        self.log = open(os.path.join(directory, name + ".log"), "wb")
        self.process = subprocess.Popen(
            arguments, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.decode().rstrip("\n"))

    def write(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def signal(self, number):
        self.process.send_signal(number)


class Copies:
    """Starts copies of one program, each with a name of its own. None of them outlives the `with`."""

    def __init__(self, program):
        self.program = program
        self.copies = []

    def __enter__(self):
        self.directory = tempfile.mkdtemp(prefix="phalanx-example-")
        return self

    def __exit__(self, kind, error, trace):
        for copy in self.copies:
            copy.process.kill()
            copy.process.wait()
            copy.log.close()
        if error is not None:
            self.show()
        shutil.rmtree(self.directory)

    def show(self):
        for copy in self.copies:
            with open(os.path.join(self.directory, copy.name + ".log"), encoding="utf-8", errors="replace") as log:
                print(f"-- {copy.name} (process {copy.process.pid}) ended with {copy.lines[-5:]}\n{log.read()[-2000:]}")

    def start(self, name, *arguments):
        environment = dict(os.environ)
        environment.update(
            PHALANX_NAME=name,
            PHALANX_RUNTIME_DIR=os.path.join(self.directory, "run"),
            PHALANX_STATE_DIR=os.path.join(self.directory, "state"),
            PHALANX_TIMING__SUSPECT_AFTER="1s",
        )
        copy = Copy(name, [self.program, *arguments], environment, self.directory)
        self.copies.append(copy)
        return copy


def stop(copy):
    """Stops a copy, and returns when all its threads are stopped."""
    copy.signal(signal.SIGSTOP)
    os.waitid(os.P_PID, copy.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


def resume(copy):
    copy.signal(signal.SIGCONT)


def kill(copy):
    copy.signal(signal.SIGKILL)
    copy.process.wait()


def until(what, condition, seconds=20):
    """Waits until the condition holds, and returns what it gave."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        result = condition()
        if result:
            return result
        time.sleep(0.02)
    raise Wrong(f"expected within {seconds} s: {what}; it did not happen")


def run(test):
    """Runs a test of the program that is named on the command line."""
    try:
        test(sys.argv[1])
    except Wrong as error:
        print(f"FAILED: {error}")
        sys.exit(1)
