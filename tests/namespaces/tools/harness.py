"""Writes the harness's trace: harness.py FILE CELL WHAT, where WHAT is one of

    create                    the file
    about CODE..              which guarantees the experiment is about
    faulty, heal              a phase begins
    quiet [NAME..]            the last one; of these processes alone, or of all
    crash HEX, stop HEX, cont HEX    what was done to a process
    cut FROM>TO.., mend FROM>TO..    links, by names
    attack, peace             somebody without the key sends packets, or does no more
    end

The format is that of docs/checker.md: length-prefixed records in postcard's encoding."""

import sys
import time

STOP, CONT, CRASH, PHASE, END, CUT, MEND, ATTACK = 20, 21, 22, 23, 24, 27, 28, 29
ABOUT = 38
PHASES = {"faulty": 0, "heal": 1, "quiet": 2}


def varint(number):
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def text(string):
    return varint(len(string.encode())) + string.encode()


def prefixed(body):
    return varint(len(body)) + body


def texts(all_of_them):
    return varint(len(all_of_them)) + b"".join(text(one) for one in all_of_them)


def links(pairs):
    return varint(len(pairs)) + b"".join(text(name) for pair in pairs for name in pair.split(">"))


def main():
    path, cell, what, *rest = sys.argv[1:]
    if what == "create":
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            clock = "monotonic of boot " + file.read().strip()
        header = text(cell) + text("harness") + varint(0) + text(clock) + b"\x01"
        with open(path, "xb") as file:
            file.write(b"PHXTRACE" + (3).to_bytes(2, "little") + prefixed(header))
        return
    if what in PHASES:
        event = varint(PHASE) + varint(PHASES[what]) + texts(rest)
    elif what == "about":
        event = varint(ABOUT) + texts(rest)
    elif what in ("cut", "mend"):
        event = varint(CUT if what == "cut" else MEND) + links(rest)
    elif what in ("attack", "peace"):
        event = varint(ATTACK) + (b"\x01" if what == "attack" else b"\x00")
    elif what == "end":
        event = varint(END)
    else:
        event = varint({"stop": STOP, "cont": CONT, "crash": CRASH}[what]) + varint(int(rest[0], 16))
    with open(path, "ab") as file:
        file.write(prefixed(varint(time.clock_gettime_ns(time.CLOCK_MONOTONIC)) + event))


main()
