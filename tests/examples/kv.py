#!/usr/bin/env python3
"""Tests examples/kv: kv.py PROGRAM. Three copies serve readers and writers while one is stopped for five seconds and
another is killed; a new one starts.

A write that was answered with 200 is in every later answer with 200 or 404. One that was refused and is not in doubt is
in none. A copy that cannot answer says 503. At the end all copies hold the same."""

import http.client
import random
import threading
import time

from copies import Copies, Wrong, kill, resume, run, stop, until

KEYS = ["apple", "pear", "plum", "quince"]


class Key:
    """All writes of one key, by its only writer. Write n puts the value n, and each fifth deletes."""

    def __init__(self, name):
        self.name = name
        self.lock = threading.Lock()
        self.fates = ["acknowledged"]  # of each write; before the first, the key is absent
        self.acknowledged = 0

    @staticmethod
    def value(number):
        return None if number % 5 == 0 else str(number)

    def begin(self):
        with self.lock:
            self.fates.append("pending")
            return len(self.fates) - 1

    def end(self, number, fate):
        with self.lock:
            self.fates[number] = fate
            if fate == "acknowledged":
                self.acknowledged = number

    def check(self, copy, value, floor):
        """Refuses a value that is older than write `floor`, which was acknowledged before the value was asked for."""
        with self.lock:
            for number, fate in enumerate(self.fates):
                lasts = number >= floor and fate != "refused" or fate == "in doubt"
                if lasts and self.value(number) == value:
                    return
            raise Wrong(
                f"{copy} answered {value!r} for {self.name}; expected {self.value(floor)!r} of write {floor} or newer;"
                f" writes since: {self.fates[floor:]}"
            )


class Traffic:
    def __init__(self):
        self.keys = [Key(name) for name in KEYS]
        self.ports = {}
        self.writable = []
        self.ended = threading.Event()
        self.errors = []
        self.counts = {}
        self.count_lock = threading.Lock()

    def count(self, what):
        with self.count_lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    def request(self, copy, method, key, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[copy], timeout=20)
        try:
            connection.request(method, "/" + key, body)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        self.count(f"{method} {answer.status}")
        if answer.status not in (200, 404, 503):
            raise Wrong(f"{copy} answered {method} {key} with {answer.status} {text!r}; expected 200, 404 or 503")
        return answer.status, text

    def write(self, key):
        number = key.begin()
        value = Key.value(number)
        copy = random.choice(self.writable)
        fate = "in doubt"
        try:
            status, text = self.request(copy, "DELETE" if value is None else "PUT", key.name, value)
            if status == 200:
                fate = "acknowledged"
            elif "doubt" not in text:
                fate = "refused"
        except ConnectionRefusedError:
            fate = "refused"
        except (OSError, http.client.HTTPException):
            pass  # the copy was killed; whether it had sent the write, nobody knows
        key.end(number, fate)

    def read(self, copy, key):
        """Returns whether the copy answered, rightly."""
        floor = key.acknowledged
        try:
            status, text = self.request(copy, "GET", key.name)
        except (OSError, http.client.HTTPException):
            return False
        if status != 503:
            key.check(copy, text if status == 200 else None, floor)
        return status != 503

    def repeat(self, action, *arguments):
        def loop():
            try:
                while not self.ended.is_set():
                    action(*arguments)
                    time.sleep(0.005)
            except Wrong as error:
                self.errors.append(error)

        thread = threading.Thread(target=loop, daemon=True)
        thread.start()
        return thread

    def once(self, action, *arguments):
        def attempt():
            try:
                action(*arguments)
            except Wrong as error:
                self.errors.append(error)

        thread = threading.Thread(target=attempt, daemon=True)
        thread.start()
        return thread

    def raise_errors(self):
        if self.errors:
            raise self.errors[0]


def test(program):
    traffic = Traffic()
    with Copies(program) as copies:

        def start(name):
            copy = copies.start(name, name, "0")
            line = until(f"{name} prints its address", lambda: copy.lines, 20)[0]
            traffic.ports[name] = int(line.rsplit(":", 1)[1])
            traffic.writable = traffic.writable + [name]
            return copy

        def acknowledged():
            return sum(key.acknowledged for key in traffic.keys)

        def progress(when):
            before = acknowledged()
            until(f"20 more acknowledged writes {when}", lambda: acknowledged() >= before + 20)
            traffic.raise_errors()

        _one, two, three = start("one"), start("two"), start("three")
        threads = [traffic.repeat(traffic.write, key) for key in traffic.keys]
        threads += [
            traffic.repeat(lambda copy=copy: traffic.read(copy, random.choice(traffic.keys)))
            for copy in ("one", "two", "three")
        ]
        progress("of three copies")

        stop(two)
        stopped = time.monotonic()
        # Who has begun to write to the stopped copy waits for it. Nobody else should have to.
        traffic.writable = ["one", "three"]
        time.sleep(2)
        kill(three)
        traffic.writable = ["one"]
        progress_of_one = acknowledged()
        start("four")
        threads.append(traffic.repeat(lambda: traffic.read("four", random.choice(traffic.keys))))
        time.sleep(max(0, 5 - (time.monotonic() - stopped)))
        if acknowledged() == progress_of_one:
            raise Wrong("expected acknowledged writes while one copy was stopped and another dead; there were none")

        # These reads are in its socket when it wakes: it must not answer them from what it knew when it was stopped.
        late = [traffic.once(traffic.read, "two", key) for key in traffic.keys for _ in range(3)]
        time.sleep(0.2)
        resume(two)
        traffic.writable = ["one", "two", "four"]
        for thread in late:
            thread.join()
        traffic.raise_errors()
        for name in ("one", "two", "four"):
            until(f"{name} answers reads", lambda name=name: traffic.read(name, traffic.keys[0]))
        progress("after the faults")

        traffic.ended.set()
        for thread in threads:
            thread.join()
        traffic.raise_errors()
        for key in traffic.keys:
            answers = {}
            for name in ("one", "two", "four"):
                floor = key.acknowledged
                status, text = traffic.request(name, "GET", key.name)
                if status == 503:
                    raise Wrong(f"{name} answered 503 {text!r} at the end; expected the value of {key.name}")
                answers[name] = text if status == 200 else None
                key.check(name, answers[name], floor)
            if len(set(answers.values())) != 1:
                raise Wrong(f"expected one value of {key.name} at all copies at the end, got {answers}")
        print("answers: " + ", ".join(f"{count} of {what}" for what, count in sorted(traffic.counts.items())))
        print("the kv example held")


run(test)
