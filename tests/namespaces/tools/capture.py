"""capture.py FILE DEVICE: writes every UDP payload seen on the device to a file until it is ended.
The file appears when the tap is open.

Each: source address (4 bytes), source port, destination port, length (2 bytes each, big endian), payload."""

import socket
import struct
import sys

ETH_P_ALL = 3


def main():
    path, device = sys.argv[1:]
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    tap.bind((device, 0))
    with open(path, "wb", buffering=0) as out:
        while True:
            frame = tap.recv(65535)
            if len(frame) < 42 or frame[12:14] != b"\x08\x00" or frame[23] != socket.IPPROTO_UDP:
                continue
            start = 14 + (frame[14] & 0x0F) * 4
            source_port, port, length = struct.unpack_from("!HHH", frame, start)
            payload = frame[start + 8 : start + length]
            out.write(frame[26:30] + struct.pack("!HHH", source_port, port, len(payload)) + payload)


main()
