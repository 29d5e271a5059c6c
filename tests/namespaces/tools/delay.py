"""Joins two interfaces, and holds each packet for so long: delay.py MILLISECONDS HERE THERE.

A kernel without netem delays nothing by itself. Checksums and segments that the sending host left to its interface are
passed on as such (PACKET_VNET_HDR, linux/if_packet.h), because no packet here ever meets hardware that would add them."""

import collections
import selectors
import socket
import sys
import time

ETH_P_ALL = 3
SOL_PACKET, PACKET_VNET_HDR = 263, 15
# The longest frame: a header of virtio, one of Ethernet, and the 64 KiB of segments that a host hands over at once.
FRAME_BYTES_MAX = 10 + 14 + 65536
# The most packets on their way. One more is lost, as in a queue of a router.
HELD_MAX = 10_000


def open_interface(name):
    interface = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    interface.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    interface.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    interface.bind((name, 0))
    interface.setblocking(False)
    return interface


def main():
    delay = int(sys.argv[1]) / 1000
    here, there = (open_interface(name) for name in sys.argv[2:])
    across = {here: there, there: here}
    readable = selectors.DefaultSelector()
    for interface in across:
        readable.register(interface, selectors.EVENT_READ)
    held = collections.deque()
    print("ready", flush=True)
    while True:
        patience = max(0, held[0][0] - time.monotonic()) if held else None
        for key, _ in readable.select(patience):
            while True:
                try:
                    frame, address = key.fileobj.recvfrom(FRAME_BYTES_MAX)
                except BlockingIOError:
                    break
                # What this program sent itself comes back as outgoing.
                if address[2] != socket.PACKET_OUTGOING and len(held) < HELD_MAX:
                    held.append((time.monotonic() + delay, across[key.fileobj], frame))
        while held and held[0][0] <= time.monotonic():
            _, to, frame = held.popleft()
            try:
                to.send(frame)
            except OSError:
                pass  # no room, or the host at that end is gone: the packet is lost


main()
