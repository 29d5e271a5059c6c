"""hostile.py VICTIM CONTROL_PORT DATA_PORT CELL CAPTURE KIND COUNT: sends what an outsider without the cell key can.

KIND: random, truncated, damaged, replayed, spoofed (replayed from the address they came from), cleartext, other_cell,
other_version, nobody (sender 0), greetings (forged, from random addresses), old_greetings (replayed, from random
addresses). A fixed seed makes each run send the same, apart from what was captured."""

import hashlib
import random
import socket
import struct
import sys
import time

GREETING, KINDS = 1, 6
# A member reads some hundred thousand packets a second; the sender is slow enough that few fall to full buffers.
BURST, PAUSE = 64, 0.001

dice = random.Random(1)


def captured(path):
    """Source address, destination port and payload of every packet in the capture."""
    with open(path, "rb") as file:
        data = file.read()
    packets, at = [], 0
    while at + 10 <= len(data):
        address = socket.inet_ntoa(data[at : at + 4])
        source_port, port, length = struct.unpack_from("!HHH", data, at + 4)
        packets.append((address, source_port, port, data[at + 10 : at + 10 + length]))
        at += 10 + length
    return packets


def header(cell, kind, version):
    tag = hashlib.sha256(cell.encode()).digest()[:3]
    sender = dice.randrange(1, 1 << 64).to_bytes(8, "little")
    space = dice.randrange(1 << 32).to_bytes(4, "little")
    number = dice.randrange(1 << 20).to_bytes(8, "little")
    return bytes([version << 4 | kind]) + tag + sender + space + number


def crc32c(data):
    rest = 0xFFFFFFFF
    for byte in data:
        rest ^= byte
        for _ in range(8):
            rest = rest >> 1 ^ (0x82F63B78 if rest & 1 else 0)
    return rest ^ 0xFFFFFFFF


def checksum16(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


class Sender:
    """Datagrams from this host's own address, or with a header made here."""

    def __init__(self, victim):
        self.victim = victim
        self.plain = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
        self.sent = 0

    def send(self, port, payload):
        self.pace()
        self.plain.sendto(payload, (self.victim, port))

    def send_as(self, source, source_port, port, payload):
        self.pace()
        # A UDP checksum of zero means that there is none.
        udp = struct.pack("!HHHH", source_port, port, 8 + len(payload), 0) + payload
        ends = socket.inet_aton(source) + socket.inet_aton(self.victim)
        ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), self.sent & 0xFFFF, 0, 64, socket.IPPROTO_UDP, 0) + ends
        ip = ip[:10] + struct.pack("!H", checksum16(ip)) + ip[12:]
        self.raw.sendto(ip + udp, (self.victim, 0))

    def pace(self):
        self.sent += 1
        if self.sent % BURST == 0:
            time.sleep(PAUSE)


def anywhere():
    return f"{dice.randrange(1, 224)}.{dice.randrange(256)}.{dice.randrange(256)}.{dice.randrange(1, 255)}"


def main():
    victim, control, data, cell, capture, kind, count = sys.argv[1:]
    ports, count = [int(control), int(data)], int(count)
    sender = Sender(victim)
    packets = [packet for packet in captured(capture) if packet[2] in ports]
    # The kernel refuses what claims to come from the victim's own address.
    foreign = [packet for packet in packets if packet[0] != victim]
    # Longer ones would have to go out in fragments, which a raw socket does not make.
    whole = [packet for packet in foreign if len(packet[3]) <= 1472]
    # The version that the members speak.
    version = max((packet[3][0] >> 4 for packet in foreign if packet[3]), default=0)
    greetings = [packet for packet in foreign if packet[3][:1] == bytes([version << 4 | GREETING])]
    if not packets or not greetings:
        sys.exit(f"the capture holds {len(packets)} packets, {len(greetings)} of them greetings")
    for turn in range(count):
        port = ports[turn % 2]
        address, source_port, its_port, packet = packets[turn % len(packets)]
        if kind == "random":
            sender.send(port, dice.randbytes(dice.randrange(0, 1473)))
        elif kind == "truncated":
            sender.send(its_port, packet[: dice.randrange(len(packet))])
        elif kind == "damaged":
            at = dice.randrange(len(packet))
            sender.send(its_port, packet[:at] + bytes([packet[at] ^ 1 << dice.randrange(8)]) + packet[at + 1 :])
        elif kind == "replayed":
            sender.send(its_port, packet)
        elif kind == "spoofed":
            address, source_port, its_port, packet = whole[turn % len(whole)]
            sender.send_as(address, source_port, its_port, packet)
        elif kind == "cleartext":
            clear = header(cell, dice.randrange(1, KINDS + 1), version) + dice.randbytes(dice.randrange(0, 64))
            crc = crc32c(clear[:24] + bytes(8) + clear[24:])
            sender.send(port, clear + crc.to_bytes(4, "little"))
        elif kind == "other_cell":
            sender.send(port, header("another cell", dice.randrange(1, KINDS + 1), version) + dice.randbytes(64))
        elif kind == "other_version":
            sender.send(port, header(cell, dice.randrange(1, KINDS + 1), version + 1) + dice.randbytes(64))
        elif kind == "nobody":
            packet = header(cell, dice.randrange(1, KINDS + 1), version)
            sender.send(port, packet[:4] + bytes(8) + packet[12:] + dice.randbytes(64))
        elif kind == "greetings":
            forged = header(cell, GREETING, version) + dice.randbytes(200)
            sender.send_as(anywhere(), dice.randrange(1024, 65536), ports[0], forged)
        elif kind == "old_greetings":
            packet = greetings[turn % len(greetings)][3]
            sender.send_as(anywhere(), dice.randrange(1024, 65536), ports[0], packet)
        else:
            sys.exit(f"there is no kind {kind}")
    print(sender.sent)


main()
