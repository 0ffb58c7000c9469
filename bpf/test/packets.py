#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the packets that the tests of this folder send through the programs.

They come from scapy, so that no code of radar says what a packet looks like.

    python3 bpf/test/packets.py            writes packets.txt beside this file
    python3 bpf/test/packets.py --check    fails if packets.txt is not what it would write

packets.txt has one packet a line: name, bytes in hex. The names:

    train-*        a GSO packet as one skb; train-*.0, .1, ... are its segments as
                   they look on the wire (IDs counting up)
    error-NAME     an ICMP error that quotes NAME; error-NAME.8 quotes 8 bytes of L4
    group-*        for a group: a tree of copies
    bad-*, odd-*   what no source may measure

IPv6 packets are in packets6.py; their names have -six or six- in them.
"""

import difflib
import pathlib
import sys

from scapy.all import (ARP, ICMP, IP, SCTP, TCP, UDP, Dot1AD, Dot1Q, Ether, GRE,
                       IPOption_RR, IPOption_Router_Alert, Padding, Raw, SCTPChunkData, fragment, raw)

import packets6

OUT = pathlib.Path(__file__).with_name("packets.txt")
ETHER = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
HOSTS = dict(src="10.0.1.1", dst="10.0.4.2")
STAMPS = [("NOP", None), ("NOP", None), ("Timestamp", (0x11223344, 0x55667788))]


def payload(size, salt=0):
    """Bytes that repeat nowhere within a packet's first words."""
    return bytes((i * 7 + salt * 31 + (i >> 8)) & 0xFF for i in range(size))


def ip(ident=0x1234, ttl=64, flags="DF", **fields):
    return IP(id=ident, ttl=ttl, flags=flags, **{**HOSTS, **fields})


def tcp(flags="PA", seq=1000, options=None, **fields):
    return TCP(sport=40000, dport=443, flags=flags, seq=seq, ack=77, window=501,
               options=STAMPS if options is None else options, **fields)


def udp(**fields):
    return UDP(**{**dict(sport=5001, dport=5002), **fields})


def echo(kind="echo-request", seq=9, **fields):
    return ICMP(type=kind, id=0x4242, seq=seq, **fields)


def protocols():
    """Atomic packets (DF set) that a source measures by bits."""
    syn = [("MSS", 1460), ("SAckOK", b""), ("Timestamp", (1, 0)), ("NOP", None), ("WScale", 7)]
    body = Raw(payload(64))
    return {
        "tcp-syn": ETHER / ip() / tcp("S", options=syn),
        "tcp-ack": ETHER / ip() / tcp("A"),
        "tcp-data": ETHER / ip() / tcp() / body,
        "tcp-plain": ETHER / ip() / tcp(options=[]) / Raw(payload(40)),
        "tcp-fin": ETHER / ip() / tcp("FA", options=[]),
        "udp-64": ETHER / ip() / udp() / body,
        "udp-8": ETHER / ip() / udp() / Raw(payload(8)),
        "udp-4": ETHER / ip() / udp() / Raw(payload(4)),
        "udp-0": ETHER / ip() / udp(),
        "udp-padded": ETHER / ip() / udp() / Raw(b"ab") / Padding(b"\0" * 16),
        "udp-1472": ETHER / ip() / udp() / Raw(payload(1472)),
        "udp-no-checksum": ETHER / ip() / udp(chksum=0) / body,
        "icmp-echo": ETHER / ip() / echo() / Raw(payload(56)),
        "icmp-echo-0": ETHER / ip() / echo(),
        "icmp-reply": ETHER / ip() / echo("echo-reply") / Raw(payload(56)),
        "icmp-timestamp": ETHER / ip() / ICMP(type="timestamp-request", id=7, seq=1,
                                                ts_ori=1, ts_rx=0, ts_tx=0),
        "sctp-data": ETHER / ip() / SCTP(sport=3868, dport=3869, tag=0xCAFE) /
                     SCTPChunkData(tsn=5, stream_id=1, data=payload(24)),
        "udplite": ETHER / ip(proto=136) / Raw(raw(udp(len=8, chksum=0x1111))) / body,
        "gre": ETHER / ip() / GRE() / IP(src="192.0.2.1", dst="192.0.2.2", id=5) / udp() / body,
        "esp": ETHER / ip(proto=50) / Raw(payload(72)),
        "proto-253": ETHER / ip(proto=253) / body,
        "proto-253-4": ETHER / ip(proto=253) / Raw(b"abcd"),
        "proto-253-0": ETHER / ip(proto=253),
        "options-router-alert": ETHER / ip(options=[IPOption_Router_Alert()]) / udp() / body,
        "options-40": ETHER / ip(options=[IPOption_RR(length=39, routers=["0.0.0.0"] * 9)]) /
                      tcp() / body,
        "dscp-ef-ect": ETHER / ip(tos=0xBA) / tcp() / body,
        "dscp-all-ce": ETHER / ip(tos=0xFF) / udp() / body,
        "id-zero": ETHER / ip(ident=0) / tcp() / body,
        "id-ffff": ETHER / ip(ident=0xFFFF) / tcp() / body,
        "high-ttl": ETHER / ip(ttl=255) / udp() / body,
        "ttl-in-band": ETHER / ip(ttl=70) / udp() / body,
        "ttl-8": ETHER / ip(ttl=8) / udp() / body,
        "reserved-flag": ETHER / ip(flags="evil+DF") / udp() / body,
        "checksum-0": ETHER / ip(ident=ident_for_checksum(0)) / udp() / body,
        "checksum-ffff": ETHER / ip(ident=ident_for_checksum(0), chksum=0xFFFF) / udp() / body,
        "vlan": ETHER / Dot1Q(vlan=7, prio=3) / ip() / tcp() / body,
        "vlan-2": ETHER / Dot1AD(vlan=8) / Dot1Q(vlan=7) / ip() / udp() / body,
        "vlan-2-options": ETHER / Dot1Q(vlan=8) / Dot1Q(vlan=7) /
                          ip(options=[IPOption_RR(length=39, routers=["0.0.0.0"] * 9)]) /
                          tcp() / body,
        # The first bytes of an interface without Ethernet header. test_run takes bytes
        # 12 and 13, here of the source address, for the protocol.
        "raw-ip": ip(src="8.0.1.1", options=[IPOption_Router_Alert()]) / udp() / body,
    }


def ident_for_checksum(wanted):
    """The IP ID that gives the header of "checksum-0" this checksum."""
    sample = IP(raw(ip(ident=0) / udp() / Raw(payload(64))))
    return (sample.chksum - wanted) % 0xFFFF


def keyed():
    """Packets whose bits must not change."""
    body = Raw(payload(64))
    whole = ip(flags=0, ident=0x2222) / udp() / Raw(payload(120))
    first, middle, last = fragment(whole, 48)
    return {
        "clear-whole": ETHER / whole,
        "clear-udp": ETHER / ip(flags=0) / udp() / body,
        "clear-tcp": ETHER / ip(flags=0) / tcp() / body,
        "clear-reply": ETHER / ip(flags=0) / echo("echo-reply") / Raw(payload(56)),
        "clear-in-band": ETHER / ip(flags=0, ttl=70) / udp() / body,
        "clear-vlan": ETHER / Dot1Q(vlan=7) / ip(flags=0) / udp() / body,
        "fragment-first": ETHER / first,
        "fragment-middle": ETHER / middle,
        "fragment-last": ETHER / last,
        "fragment-df": ETHER / ip(flags="MF+DF", ident=0x2223) / udp() / Raw(payload(40)),
        "ttl-7": ETHER / ip(ttl=7) / udp() / body,
        "ttl-2": ETHER / ip(ttl=2) / tcp() / body,
        "ttl-1": ETHER / ip(ttl=1) / udp() / body,
    }


def groups():
    """Packets that bridges and multicast routers copy."""
    body = Raw(payload(64))
    many = Ether(src=ETHER.src, dst="01:00:5e:01:02:03")
    everybody = Ether(src=ETHER.src, dst="ff:ff:ff:ff:ff:ff")
    return {
        "group-multicast": many / ip(dst="239.1.2.3") / udp() / body,
        "group-keyed": many / ip(dst="239.1.2.3", flags=0) / udp() / body,
        "group-ttl-1": many / ip(dst="239.1.2.3", ttl=1) / udp() / body,
        "group-limited-broadcast": everybody / ip(src="0.0.0.0", dst="255.255.255.255") / udp() / body,
        "group-directed-broadcast": everybody / ip(dst="10.0.4.255") / udp() / body,
        "group-unicast-address": everybody / ip() / udp() / body,
    }


def odd():
    """Packets that pass unmeasured, each with a counter of its own."""
    body = Raw(payload(64))
    good = ip() / udp() / body
    return {
        "odd-arp": ETHER / ARP(psrc="10.0.1.1", pdst="10.0.1.2"),
        "odd-llc": Ether(src=ETHER.src, dst=ETHER.dst, type=0x0030) / Raw(payload(48)),
        "odd-vlan-3": ETHER / Dot1Q(vlan=1) / Dot1Q(vlan=2) / Dot1Q(vlan=3) / good,
        "odd-multicast": ETHER / ip(dst="224.0.0.5", ttl=1, proto=89) / body,
        "odd-multicast-dns": ETHER / ip(dst="224.0.0.251", ttl=255) / udp(sport=5353, dport=5353) / body,
        "odd-igmp": ETHER / ip(dst="239.1.2.3", ttl=1, proto=2,
                               options=[IPOption_Router_Alert()]) / body,
        "odd-reserved": ETHER / ip(dst="250.1.2.3") / udp() / body,
        "odd-bridge-frame": Ether(src=ETHER.src, dst="01:80:c2:00:00:0e") / good,
        "odd-bridge-frame-group": Ether(src=ETHER.src, dst="01:80:c2:00:00:00") /
                                  ip(dst="239.1.2.3") / udp() / body,
        "bad-version": ETHER / ip(version=5) / udp() / body,
        "bad-header-length": ETHER / ip(ihl=4) / udp() / body,
        "bad-length-short": ETHER / ip(len=19) / udp() / body,
        "bad-length-long": ETHER / ip(len=1000) / udp() / body,
        "bad-checksum": ETHER / ip(chksum=0x4711) / udp() / body,
    }


def train(header, make, size, count, last, span=1):
    """A GSO packet of count segments of size bytes and one of last; span: what the
    segments' IDs differ by (0: SKB_GSO_TCP_FIXEDID)."""
    data = payload(size * count + last, salt=count)
    out = {"": ETHER / header(0) / make(0, True, True) / Raw(data)}
    for k in range(count + (last > 0)):
        piece = data[k * size:(k + 1) * size]
        end = (k + 1) * size >= len(data)
        out[f".{k}"] = ETHER / header(k * span) / make(k * size, k == 0, end) / Raw(piece)
    return out


def trains():
    def head(ident, flags="DF", ttl=64):
        return lambda k: ip(ident=(ident + k) & 0xFFFF, flags=flags, ttl=ttl)

    def tcp_piece(off, _first, end):
        # FIN and PSH stay for the last segment (RFC 9293, 3.7.1 leaves it to the sender).
        return tcp("PA" if end else "A", seq=(0xFFFFFF00 + off) & 0xFFFFFFFF)

    def plain_piece(off, _first, end):
        return tcp("FPA" if end else "A", seq=5000 + off, options=[])

    def udp_piece(_off, _first, _end):
        return udp(sport=6001)

    def next_piece(off, _first, end):
        return tcp("PA" if end else "A", seq=(0xFFFFFF00 + 240 + off) & 0xFFFFFFFF)

    kinds = {
        "train-tcp": train(head(0x7000), tcp_piece, 100, 5, 37),
        "train-wrap": train(head(0xFFFE), tcp_piece, 60, 4, 0),
        "train-next": train(head(0x0002), next_piece, 60, 3, 20),  # goes on after train-wrap
        "train-fixed": train(head(0x0), plain_piece, 80, 4, 11, span=0),
        "train-udp": train(head(0x0100), udp_piece, 64, 4, 9),
        "train-udp-short": train(head(0x0200), udp_piece, 64, 3, 3),
        "train-clear": train(head(0x3000, flags=0), tcp_piece, 100, 3, 0),
        "train-low": train(head(0x4000, ttl=5), tcp_piece, 100, 2, 50),
        # Datagrams smaller than what a packet is recognised by.
        **{f"train-udp-{size}": train(head(0x0300 + size), udp_piece, size, 4, 0) for size in (4, 8, 16, 20)},
    }
    out = {kind + k: p for kind, pieces in kinds.items() for k, p in pieces.items()}
    out["train-129"] = ETHER / ip(ident=0x5000) / tcp_piece(0, True, True) / Raw(payload(129 * 8))
    # Single packets of one flow with IDs that do not count up: joined by GRO only
    # because their slots are neighbours.
    data = payload(200, salt=99)
    for k, ident in enumerate((7, 9000)):
        out[f"single-{k}"] = (ETHER / ip(ident=ident) / plain_piece(100 * k, False, False) /
                              Raw(data[100 * k:100 * k + 100]))
    out["singles"] = ETHER / ip(ident=7) / plain_piece(0, False, False) / Raw(data)
    return out


def errors(packets):
    """ICMP errors quoting packets that were sent above: 8 bytes of L4 (RFC 792) and
    as much as Linux quotes."""
    kinds = {
        "tcp-data": ICMP(type="time-exceeded", code=0),
        "udp-64": ICMP(type="dest-unreach", code="port-unreachable"),
        "icmp-echo": ICMP(type="time-exceeded", code=0),
        "udp-1472": ICMP(type="dest-unreach", code="fragmentation-needed", nexthopmtu=1400),
        "tcp-ack": ICMP(type="redirect", code=1, gw="10.0.1.254"),
        "udp-8": ICMP(type="parameter-problem", ptr=1),
        "proto-253": ICMP(type="source-quench"),
        "options-router-alert": ICMP(type="time-exceeded", code=0),
        "train-tcp.2": ICMP(type="time-exceeded", code=0),
        "train-udp.1": ICMP(type="time-exceeded", code=0),
        "clear-udp": ICMP(type="time-exceeded", code=0),
    }
    out = {}
    for name, icmp in kinds.items():
        quoted = raw(packets[name][IP])
        header = (quoted[0] & 0xF) * 4
        outer = ip(ident=0x0E0E, flags=0, src="10.0.3.3", dst="10.0.1.1", tos=0xC0)
        out["error-" + name] = ETHER / outer / icmp / Raw(quoted[:548])
        out[f"error-{name}.8"] = ETHER / outer / icmp / Raw(quoted[:header + 8])
    return out


def render():
    packets = {**protocols(), **keyed(), **groups(), **odd(), **trains()}
    packets.update(errors(packets))
    packets.update(packets6.everything())
    return "".join(f"{name} {raw(p).hex()}\n" for name, p in packets.items())


def main():
    text = render()
    if sys.argv[1:] == ["--check"]:
        old = OUT.read_text()
        diff = difflib.unified_diff(old.splitlines(), text.splitlines(), "committed", "built")
        lines = [line[:150] for line in diff]
        print("\n".join(lines[:40]))
        return 1 if lines else 0
    if sys.argv[1:]:
        print(__doc__, file=sys.stderr)
        return 2
    OUT.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
