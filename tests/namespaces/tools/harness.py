"""Writes the harness's trace: harness.py FILE CELL create|faulty|heal|quiet|end|crash HEX|stop HEX|cont HEX.

The format is that of docs/checker.md: length-prefixed records in postcard's encoding."""

import sys
import time

STOP, CONT, CRASH, PHASE, END = 20, 21, 22, 23, 24
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


def main():
    path, cell, what, *rest = sys.argv[1:]
    if what == "create":
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            clock = "monotonic of boot " + file.read().strip()
        header = text(cell) + text("harness") + varint(0) + text(clock) + b"\x01"
        with open(path, "xb") as file:
            file.write(b"PHXTRACE" + (1).to_bytes(2, "little") + prefixed(header))
        return
    if what in PHASES:
        event = varint(PHASE) + varint(PHASES[what]) + varint(0)
    elif what == "end":
        event = varint(END)
    else:
        event = varint({"stop": STOP, "cont": CONT, "crash": CRASH}[what]) + varint(int(rest[0], 16))
    with open(path, "ab") as file:
        file.write(prefixed(varint(time.clock_gettime_ns(time.CLOCK_MONOTONIC)) + event))


main()
