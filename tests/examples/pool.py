#!/usr/bin/env python3
"""Tests examples/pool: pool.py PROGRAM. Three members work while one is stopped for five seconds and the leader is
killed; a new one starts.

Each item that was added is done exactly once, and all members see that in the same order. No two members work on an
item, but for one that was stopped or killed meanwhile."""

import threading
import time

from copies import Copies, Wrong, kill, resume, run, stop, until

ITEMS = 60


def said(copy, word):
    return [line[len(word) + 1 :] for line in list(copy.lines) if line.startswith(word + " ")]


def feed(copy, first, count):
    """Submits items one after the other, so that some are on their way at each fault."""

    def loop():
        try:
            for number in range(first, first + count):
                copy.write(f"{copy.name}-{number}")
                time.sleep(0.03)
        except OSError:
            pass  # it was killed

    threading.Thread(target=loop, daemon=True).start()


def test(program):
    with Copies(program) as copies:
        one = copies.start("one")
        feed(one, 0, 5)
        until("the first member works alone", lambda: len(said(one, "done")) == 5)
        two, three = copies.start("two"), copies.start("three")
        for copy in (one, two, three):
            feed(copy, 5, ITEMS)
        until("others work", lambda: said(two, "working on") and said(three, "working on"))

        stop(two)
        time.sleep(5)
        done_before = len(said(three, "done"))
        resume(two)
        until("an item of the one that was stopped is done", lambda: said(three, "done")[done_before:])

        feed(one, 5 + ITEMS, ITEMS)
        until("the leader adds more", lambda: len(said(one, "added")) > 5 + ITEMS + 5)
        kill(one)
        four = copies.start("four")
        feed(three, 5 + ITEMS, ITEMS)
        feed(four, 5, ITEMS)

        fed = [f"two-{number}" for number in range(5, 5 + ITEMS)]
        fed += [f"three-{number}" for number in range(5, 5 + 2 * ITEMS)]
        fed += [f"four-{number}" for number in range(5, 5 + ITEMS)]

        def added():
            return {item for copy in copies.copies for item in said(copy, "added")}

        until("all live members add what they were given", lambda: set(fed) <= added())
        try:
            until("each added item is done", lambda: added() <= set(said(one, "done") + said(three, "done")))
        except Wrong as error:
            missing = sorted(added() - set(said(one, "done") + said(three, "done")))
            raise Wrong(f"{error}; not done: {missing}") from None
        until("the last ones say so", lambda: said(two, "done")[-1] == said(four, "done")[-1] == said(three, "done")[-1])

        order = said(three, "done")
        twice = sorted({item for item in order if order.count(item) > 1})
        if twice:
            raise Wrong(f"expected that each item is done once; these were done again: {twice}")
        for copy in (two, four):
            seen = said(copy, "done")
            tail = seen[-20:]
            if tail != order[-len(tail) :]:
                raise Wrong(f"{copy.name} saw {tail} at the end; expected {order[-len(tail):]} as three did")
        live = said(three, "working on") + said(four, "working on")
        if len(live) != len(set(live)):
            twice = sorted({item for item in live if live.count(item) > 1})
            raise Wrong(f"expected one worker for each item; two that lived worked on {twice}")
        print(f"{len(added())} items were added and done: ", end="")
        print(", ".join(f"{len(said(copy, 'working on'))} begun by {copy.name}" for copy in copies.copies))
        print("the pool example held")


run(test)
