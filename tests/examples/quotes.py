#!/usr/bin/env python3
"""Tests examples/quotes: quotes.py PROGRAM. Three members serve and call each other while one is stopped for five seconds
and another is killed; a new one starts.

Every answer is right. Every call ends by its deadline. No call runs twice, and what is reported as not executed never
ran. Once the view is without the one that is gone, every call is answered again."""

import threading
import time

from copies import Copies, Wrong, kill, resume, run, stop, until

DEADLINE = 400
# The machine may be busy: a call's end may be noticed this much later, in milliseconds.
SLACK = 1_500


def cents(name):
    total = 7
    for byte in name.encode():
        total = total * 31 % 1_000_003 + byte
    return total


def said(copy, word):
    return [line.split()[1:] for line in list(copy.lines) if line.startswith(word + " ")]


class Feed:
    """Has a copy call for quotes, one after the other, until it is told to stop."""

    def __init__(self, copy, work=5):
        self.copy, self.work, self.count, self.over = copy, work, 0, False
        self.thread = threading.Thread(target=self._feed, daemon=True)
        self.thread.start()

    def _feed(self):
        try:
            while not self.over:
                self.copy.write(f"{self.copy.name}-{self.count} {DEADLINE} {self.work}")
                self.count += 1
                time.sleep(0.01)
        except OSError:
            pass  # it was killed

    def end(self):
        self.over = True
        self.thread.join()


def ended(copy):
    return {line[0]: line for word in ("answer", "not-executed", "unknown") for line in said(copy, word)}


def all_answered(copy, label, count=50):
    """Each of so many calls is answered."""
    for number in range(count):
        copy.write(f"{label}-{number} {DEADLINE} 1")
    until(f"all calls of {label} end", lambda: all(f"{label}-{number}" in ended(copy) for number in range(count)))
    lines = [ended(copy)[f"{label}-{number}"] for number in range(count)]
    answered = {line[0] for line in said(copy, "answer")}
    wrong = [line for line in lines if line[0] not in answered]
    if wrong:
        raise Wrong(f"expected that each call of {label} is answered; {wrong[0]} was not, and {len(wrong)} of {count}")
    return {line[3] for line in said(copy, "answer") if line[0].startswith(label)}


def test(program):
    with Copies(program) as copies:
        one, two, three = (copies.start(name) for name in ("one", "two", "three"))

        def serve_all():
            for copy in (one, two, three):
                copy.write(f"probe-{copy.name}-{time.monotonic()} {DEADLINE} 0")
            return all({"one", "two", "three"} <= {line[3] for line in said(copy, "answer")} for copy in (one, two, three))

        until("each is answered by all three", serve_all)
        feeds = [Feed(copy) for copy in (one, two, three)]
        one.write("late-0 50 2000")
        until("a handler whose caller does not wait is told", lambda: any(said(c, "dropped") for c in copies.copies))

        stop(two)
        time.sleep(4)
        by = all_answered(one, "without-two")
        if "two" in by:
            raise Wrong("expected no answer of the member that is stopped")
        time.sleep(1)
        resume(two)

        def two_is_back():
            one.write(f"back-{time.monotonic()} {DEADLINE} 0")
            return any(line[0].startswith("back") and line[3] == "two" for line in said(one, "answer"))

        until("the one that was stopped serves again", two_is_back)
        kill(three)
        four = copies.start("four")
        feeds.append(Feed(four))

        def four_serves():
            two.write(f"new-{time.monotonic()} {DEADLINE} 0")
            return any(line[0].startswith("new") and line[3] == "four" for line in said(two, "answer"))

        until("the new one serves", four_serves)
        time.sleep(1)
        for feed in feeds:
            feed.end()
        by = all_answered(two, "at-the-end")
        if by != {"one", "two", "four"}:
            raise Wrong(f"expected answers of one, two and four; they came of {sorted(by)}")

        alive = [(feeds[0], one), (feeds[1], two), (feeds[3], four)]
        for feed, copy in alive:
            names = {f"{copy.name}-{number}" for number in range(feed.count)}
            until(f"each call of {copy.name} ends", lambda names=names, copy=copy: names <= set(ended(copy)))

        runs = [line[0] for copy in copies.copies for line in said(copy, "runs")]
        twice = sorted({name for name in runs if runs.count(name) > 1})[:5] if len(set(runs)) < len(runs) else []
        if twice:
            raise Wrong(f"expected that no call runs twice; these did: {twice}")
        ran = set(runs)
        answers = total = 0
        for copy in copies.copies:
            for line in said(copy, "answer"):
                answers += 1
                if int(line[1]) != cents(line[0]):
                    raise Wrong(f"expected {cents(line[0])} as the quote of {line[0]}; it was {line[1]}")
            for name, *_ in said(copy, "not-executed"):
                if name in ran:
                    raise Wrong(f"expected that {name} did not run, as its caller was told; it ran")
            total += len(ended(copy))
        # A process that was stopped notices its deadlines late.
        for copy in (one, four):
            for line in ended(copy).values():
                after = int(line[line.index("after") + 1].rstrip(":"))
                if after > DEADLINE + SLACK:
                    raise Wrong(f"expected that each call ends {DEADLINE} ms after it began; {line}")
        print(f"{answers} of {total} calls were answered")
        print("the quotes example held")


run(test)
