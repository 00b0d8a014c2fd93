#!/usr/bin/env python3
"""Checks what the router forwards, byte by byte, in every mode.

The pipeline dumps the frames that the source sent and those that the sink received. This script
computes the expected result of each frame independently, from the rules in the README and from the
definition of the checksums, and compares it with the whole received frame.
"""

import argparse
import itertools
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
import build  # noqa: E402

PACKETS = 400
FAULTS = {
    "lookup": ("exceptions", "results"),
    "timeouts": ("exact", "lazy"),
    "batch": ("8", "150"),
    "signals": ("eager", "batched"),
    "checksum": ("full", "incremental"),
}


def frames(path):
    data = Path(path).read_bytes()
    while data:
        (length,) = struct.unpack(">I", data[:4])
        yield data[4 : 4 + length]
        data = data[4 + length :]


def internet_checksum(data):
    """The number that makes the one's-complement sum of all 16-bit words all ones.

    It is -sum modulo 2^16 - 1.
    """
    padded = data + b"\0" * (len(data) % 2)
    remainder = int.from_bytes(padded, "big") % 0xFFFF
    return 0xFFFF - remainder


def checked(frame):
    """The frame with both checksums filled in."""
    ethernet, ip, udp = frame[:14], frame[14:34], frame[34:]
    ip = ip[:10] + b"\0\0" + ip[12:]
    ip = ip[:10] + struct.pack(">H", internet_checksum(ip)) + ip[12:]
    udp = udp[:6] + b"\0\0" + udp[8:]
    pseudo = ip[12:20] + struct.pack(">BBH", 0, 17, len(udp))
    udp = udp[:6] + struct.pack(">H", internet_checksum(pseudo + udp) or 0xFFFF) + udp[8:]
    return ethernet + ip + udp


class Nat:
    """Ports of flows: each new flow gets the next port, starting with 49152."""

    def __init__(self):
        self.ports = {}

    def port(self, flow):
        return self.ports.setdefault(flow, 49152 + len(self.ports))


def forwarded(frame, kind, nat):
    """The frame that the router must make from `frame`."""
    source, target = frame[26:30], frame[30:34]
    source_port, target_port = struct.unpack(">HH", frame[34:38])
    nat_port = nat.port((source, target, source_port, target_port))
    if kind == "udp":
        rule = target_port - 5000
        target, target_port = bytes([192, 168, 1, 16 + rule]), 7000 + rule
    else:
        assert target[:2] == bytes([10, 1])
        rule = target[2]
    assert 0 <= rule < 5
    ethernet = bytes([2, 0, 0, 0, 4, rule]) + bytes([2, 0, 0, 0, 3, 1]) + frame[12:14]
    ip = frame[14:22] + bytes([frame[22] - 1]) + frame[23:26] + bytes([192, 168, 0, 1]) + target
    return checked(ethernet + ip + struct.pack(">HH", nat_port, target_port) + frame[38:])


def run(program, arguments, folder):
    sent, received = Path(folder) / "sent", Path(folder) / "received"
    subprocess.run(
        [program, f"--packets={PACKETS}", "--seconds=60", f"--dump-sent={sent}", f"--dump-received={received}", *arguments],
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=120,
    )
    return list(frames(sent)), list(frames(received))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", help="a pipeline that is built already")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        program = options.program or str(build.build(Path(scratch) / "build"))
        runs = 0
        for number, values in enumerate(itertools.product(*FAULTS.values())):
            for kind in ("ip", "udp"):
                # The smallest frame in each mode, and in turn one of an uneven, a usual and the
                # largest size.
                for size in (64, (65, 1400, 1514)[(number + (kind == "ip")) % 3]):
                    arguments = [f"--{fault}={value}" for fault, value in zip(FAULTS, values)] + [f"--route={kind}", f"--bytes={size}"]
                    sent, received = run(program, arguments, scratch)
                    nat = Nat()
                    expected = [forwarded(frame, kind, nat) for frame in sent]
                    if len(sent) != PACKETS or received != expected or any(checked(frame) != frame for frame in sent):
                        wrong = next((i for i, (a, b) in enumerate(zip(received, expected)) if a != b), "-")
                        print(f"wrong: {' '.join(arguments)}: {len(sent)} sent, {len(received)} received, first wrong frame {wrong}")
                        return 1
                    runs += 1
        sent, received = run(program, ["--direct", "--bytes=64"], scratch)
        if sent != received:
            print("wrong: --direct changes frames")
            return 1
        print(f"{runs} modes, {PACKETS} frames each: every byte is right")
        return 0


if __name__ == "__main__":
    sys.exit(main())
