# SPDX-License-Identifier: Apache-2.0
"""The IPv6 packets of packets.py, which writes them.

    six-*            packets that are measured by flow label and hop limit
    fragment-six-*   packets whose bits must not change; ttl-N-six: by hop limit
    train-six-*      as in packets.py; segments have the head's flow label
    error-six-NAME   an ICMPv6 error that quotes NAME; error-six-NAME.8: 8 bytes of L4
    bad-six-*, odd-six-*  what no source may measure
"""

from scapy.all import (AH, ESP, ICMPv6DestUnreach, ICMPv6EchoReply, ICMPv6EchoRequest,
                       ICMPv6MLReport2, ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6ND_RA, ICMPv6ND_Redirect,
                       ICMPv6NDOptDstLLAddr, ICMPv6NDOptRedirectedHdr, ICMPv6NIQueryName, ICMPv6PacketTooBig, ICMPv6ParamProblem, ICMPv6TimeExceeded, IP, SCTP, TCP, UDP,
                       Dot1AD, Dot1Q, Ether, HAO, IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment,
                       IPv6ExtHdrHopByHop, IPv6ExtHdrRouting, IPv6ExtHdrSegmentRouting, Jumbo, PadN,
                       Raw, RouterAlert, SCTPChunkData, fragment6, raw)

ETHER = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
HOSTS = dict(src="2001:db8:1::1", dst="2001:db8:4::2")
STAMPS = [("NOP", None), ("NOP", None), ("Timestamp", (0x11223344, 0x55667788))]


def payload(size, salt=0):
    """Bytes that repeat nowhere within a packet's first words."""
    return bytes((i * 7 + salt * 31 + (i >> 8)) & 0xFF for i in range(size))


BODY = Raw(payload(64))


def ip6(label=0x51234, hlim=64, **fields):
    return IPv6(fl=label, hlim=hlim, **{**HOSTS, **fields})


def tcp(flags="PA", seq=1000, options=None, **fields):
    return TCP(sport=40000, dport=443, flags=flags, seq=seq, ack=77, window=501,
               options=STAMPS if options is None else options, **fields)


def udp(**fields):
    return UDP(**{**dict(sport=5001, dport=5002), **fields})


def echo(kind=ICMPv6EchoRequest, seq=9, size=56):
    return kind(id=0x4242, seq=seq, data=payload(size))


def options(header, size=4):
    """An extension header of options that nobody need understand."""
    return header(options=[PadN(otype=1, optdata=b"\0" * size)])


def segments():
    return IPv6ExtHdrSegmentRouting(addresses=["2001:db8:4::2", "2001:db8:9::1"], segleft=1)


def protocols():
    syn = [("MSS", 1440), ("SAckOK", b""), ("Timestamp", (1, 0)), ("NOP", None), ("WScale", 7)]
    return {
        "six-tcp-syn": ETHER / ip6() / tcp("S", options=syn),
        "six-tcp-ack": ETHER / ip6() / tcp("A"),
        "six-tcp-data": ETHER / ip6() / tcp() / BODY,
        "six-tcp-plain": ETHER / ip6() / tcp(options=[]) / Raw(payload(40)),
        "six-udp-64": ETHER / ip6() / udp() / BODY,
        "six-udp-8": ETHER / ip6() / udp() / Raw(payload(8)),
        "six-udp-0": ETHER / ip6() / udp(),
        "six-udp-1452": ETHER / ip6() / udp() / Raw(payload(1452)),
        "six-icmp-echo": ETHER / ip6() / echo(),
        "six-icmp-echo-0": ETHER / ip6() / echo(size=0),
        "six-icmp-reply": ETHER / ip6() / echo(ICMPv6EchoReply),
        "six-icmp-query": ETHER / ip6() / ICMPv6NIQueryName(nonce=b"radar!!!"),
        "six-icmpv4": ETHER / ip6(nh=1) / Raw(payload(32)),
        "six-sctp-data": ETHER / ip6() / SCTP(sport=3868, dport=3869, tag=0xCAFE) /
                         SCTPChunkData(tsn=5, stream_id=1, data=payload(24)),
        "six-udplite": ETHER / ip6(nh=136) / Raw(raw(udp(len=8, chksum=0x1111))) / BODY,
        "six-esp": ETHER / ip6() / ESP(spi=7, seq=1, data=payload(40)),
        "six-proto-253": ETHER / ip6(nh=253) / BODY,
        "six-no-next-header": ETHER / ip6(nh=59),
        "six-in-six": ETHER / ip6() / IPv6(src="2001:db8:5::1", dst="2001:db8:5::2") / udp() / BODY,
        "six-hop-by-hop": ETHER / ip6() / IPv6ExtHdrHopByHop(options=[RouterAlert()]) / udp() / BODY,
        "six-destination": ETHER / ip6() / IPv6ExtHdrDestOpt(options=[HAO(hoa="2001:db8:7::1")]) /
                           tcp() / BODY,
        "six-routing": ETHER / ip6() / IPv6ExtHdrRouting(addresses=["2001:db8:9::1"]) / udp() / BODY,
        "six-segments": ETHER / ip6() / segments() / tcp() / BODY,
        "six-ah": ETHER / ip6() / AH(nh=6, spi=9, seq=4, payloadlen=4, icv=payload(12)) / tcp() / BODY,
        # Longer than what is pulled for most packets.
        "six-chain": ETHER / ip6() / options(IPv6ExtHdrHopByHop) / options(IPv6ExtHdrDestOpt, 44) /
                     segments() / AH(nh=60, spi=9, seq=4, payloadlen=4, icv=payload(12)) / options(IPv6ExtHdrDestOpt, 12) /
                     tcp() / BODY,
        "six-chain-icmp": ETHER / ip6() / options(IPv6ExtHdrDestOpt) / echo(),
        "six-dscp-ef-ect": ETHER / ip6(tc=0xBA) / tcp() / BODY,
        "six-dscp-all-ce": ETHER / ip6(tc=0xFF) / udp() / BODY,
        "six-label-0": ETHER / ip6(label=0) / udp() / BODY,
        "six-label-fffff": ETHER / ip6(label=0xFFFFF) / tcp() / BODY,
        "six-high": ETHER / ip6(hlim=255) / udp() / BODY,
        "six-in-band": ETHER / ip6(hlim=70) / udp() / BODY,
        "six-hop-8": ETHER / ip6(hlim=8) / udp() / BODY,
        "six-local": ETHER / ip6(src="fe80::1") / tcp() / BODY,
        "six-vlan": ETHER / Dot1Q(vlan=7, prio=3) / ip6() / tcp() / BODY,
        "six-vlan-2": ETHER / Dot1AD(vlan=8) / Dot1Q(vlan=7) / ip6() / options(IPv6ExtHdrDestOpt) /
                      udp() / BODY,
        # No Ethernet header. test_run takes bytes 12 and 13 for the protocol.
        "raw-six": ip6(src="2001:db8:86dd::1") / udp() / BODY,
    }


def keyed():
    whole = ip6(label=0x22222) / IPv6ExtHdrFragment(id=0xABCD2222) / udp() / Raw(payload(120))
    first, middle, last = fragment6(whole, 48 + 48)[:3]
    late = ip6() / IPv6ExtHdrFragment(id=0xABCD3333, offset=3, m=0, nh=60) / BODY
    return {
        "fragment-six-first": ETHER / first,
        "fragment-six-middle": ETHER / middle,
        "fragment-six-last": ETHER / last,
        "fragment-six-atomic": ETHER / ip6() / IPv6ExtHdrFragment(id=0xABCD4444) / udp() / BODY,
        "fragment-six-behind": ETHER / ip6() / options(IPv6ExtHdrHopByHop) /
                               IPv6ExtHdrFragment(id=0xABCD5555, m=1) / tcp() / BODY,
        # What follows a later fragment's header is no header.
        "fragment-six-options": ETHER / late,
        "ttl-7-six": ETHER / ip6(hlim=7) / udp() / BODY,
        "ttl-2-six": ETHER / ip6(hlim=2) / tcp() / BODY,
        "ttl-1-six": ETHER / ip6(hlim=1) / udp() / BODY,
    }


def odd():
    jumbo = IPv6ExtHdrHopByHop(options=[Jumbo(jumboplen=72 + 8)])
    long = ip6()
    for _ in range(7):
        long = long / options(IPv6ExtHdrDestOpt)
    deep = ip6() / options(IPv6ExtHdrDestOpt, 240)
    redirect = ETHER / ip6(hlim=255, src="fe80::2") / ICMPv6ND_Redirect(tgt="fe80::3", dst=HOSTS["dst"])
    quoted = ICMPv6NDOptRedirectedHdr(pkt=protocols()["six-tcp-data"][IPv6])
    return {
        "odd-six-solicitation": ETHER / ip6(hlim=255, src="fe80::1", dst="ff02::1:ff00:2") /
                                ICMPv6ND_NS(tgt="fe80::2"),
        "odd-six-advertisement": ETHER / ip6(hlim=255, src="fe80::2") /
                                 ICMPv6ND_NA(tgt="fe80::2"),
        "odd-six-router": ETHER / ip6(hlim=255, src="fe80::2") / ICMPv6ND_RA(),
        "odd-six-redirect": redirect / ICMPv6NDOptDstLLAddr(lladdr="02:00:00:00:00:03") / quoted,
        "odd-six-redirect-bare": redirect / quoted,
        "odd-six-mld": ETHER / ip6(hlim=1, src="fe80::1", dst="ff02::16") /
                       IPv6ExtHdrHopByHop(options=[RouterAlert()]) / ICMPv6MLReport2(),
        "odd-six-multicast": ETHER / ip6(dst="ff02::fb") / udp() / BODY,
        "odd-six-multicast-far": ETHER / ip6(dst="ff0e::1") / udp() / BODY,
        "odd-six-multicast-frame": Ether(src=ETHER.src, dst="33:33:00:00:00:01") / ip6() / udp() / BODY,
        "odd-six-long": ETHER / long / udp() / BODY,
        "odd-six-deep": ETHER / deep / udp() / BODY,
        "odd-six-jumbogram": ETHER / ip6(plen=0) / jumbo / udp() / BODY,
        "bad-six-version": ETHER / IPv6(raw(ip6(version=4) / udp() / BODY)),
        "bad-six-length": ETHER / ip6(plen=1000) / udp() / BODY,
        "bad-six-chain": ETHER / ip6(nh=60) / Raw(b"\x11\x09" + payload(30)),
        "bad-six-fragment": ETHER / ip6(nh=44) / Raw(b"\x11\0\0"),
    }


def train(header, make, size, count, last, data=None):
    """A GSO packet of count segments of size bytes and one of last."""
    data = payload(size * count + last, salt=count) if data is None else data
    out = {"": ETHER / header / make(0, True) / Raw(data)}
    for k in range(count + (last > 0)):
        end = (k + 1) * size >= len(data)
        out[f".{k}"] = ETHER / header / make(k * size, end) / Raw(data[k * size:(k + 1) * size])
    return out


def trains():
    def tcp_piece(off, end):
        return tcp("PA" if end else "A", seq=(0xFFFFFF00 + off) & 0xFFFFFFFF)

    def udp_piece(_off, _end):
        return udp(sport=6001)

    # Datagrams that begin alike, as those of a QUIC connection do.
    quic = b"".join(payload(8) + bytes([k]) * 56 for k in range(5))
    alike = payload(32) * 10
    turns = (payload(64) + payload(64, salt=1)) * 2
    again = payload(64) + payload(64, salt=1) + payload(64, salt=2) + payload(64, salt=1)
    kinds = {
        "train-six-tcp": train(ip6(label=0x57000), tcp_piece, 100, 5, 37),
        "train-six-udp": train(ip6(label=0x50100), udp_piece, 64, 4, 9),
        "train-six-quic": train(ip6(label=0x50200), udp_piece, 64, 5, 0, data=quic),
        "train-six-alike": train(ip6(label=0x50300), udp_piece, 64, 5, 0, data=alike),
        "train-six-alike-turns": train(ip6(label=0x50320), udp_piece, 64, 4, 0, data=turns),
        "train-six-alike-again": train(ip6(label=0x50340), udp_piece, 64, 4, 0, data=again),
        "train-six-low": train(ip6(label=0x54000, hlim=5), tcp_piece, 100, 2, 50),
        "train-six-options": train(ip6() / options(IPv6ExtHdrDestOpt), tcp_piece, 100, 3, 20),
        # Datagrams smaller than what a packet is recognised by. (Of 4 bytes all are alike.)
        **{f"train-six-udp-{size}": train(ip6(label=0x50400), udp_piece, size, 4, 0) for size in (8, 16, 20)},
    }
    out = {kind + k: p for kind, pieces in kinds.items() for k, p in pieces.items()}
    # BIG TCP: no payload length; up to Linux 6.18 the length stands in a jumbo option
    # that the segments do not have.
    data = payload(200)
    out["big-six"] = ETHER / ip6(plen=0) / tcp_piece(0, True) / Raw(data)
    out["big-six-option"] = (ETHER / ip6(plen=0) /
                             IPv6ExtHdrHopByHop(options=[Jumbo(jumboplen=8 + 32 + 200)]) /
                             tcp_piece(0, True) / Raw(data))
    for k in range(2):
        out[f"big-six.{k}"] = ETHER / ip6() / tcp_piece(100 * k, k == 1) / Raw(data[100 * k:100 * k + 100])
    return out


def errors(packets):
    """ICMPv6 errors quoting packets that were sent above."""
    kinds = {
        "six-tcp-data": ICMPv6TimeExceeded(),
        "six-udp-64": ICMPv6DestUnreach(code=4),
        "six-icmp-echo": ICMPv6TimeExceeded(),
        "six-udp-1452": ICMPv6PacketTooBig(mtu=1300),
        "six-udp-8": ICMPv6ParamProblem(ptr=6),
        "six-proto-253": ICMPv6DestUnreach(code=1),
        "six-chain-icmp": ICMPv6TimeExceeded(),
        "six-destination": ICMPv6TimeExceeded(),
        "six-dscp-ef-ect": ICMPv6TimeExceeded(),
        "train-six-tcp.2": ICMPv6TimeExceeded(),
        "train-six-udp.1": ICMPv6TimeExceeded(),
        "fragment-six-first": ICMPv6TimeExceeded(code=1),
        "ttl-7-six": ICMPv6TimeExceeded(),
    }
    out = {}
    for name, icmp in kinds.items():
        quoted = raw(packets[name][IPv6])
        outer = ip6(label=0x0E0E0, src="2001:db8:3::3", tc=0xC0)
        # RFC 4443, section 2.4: as much as fits into 1,280 bytes.
        out["error-" + name] = ETHER / outer / icmp / Raw(quoted[:1232])
        out[f"error-{name}.8"] = ETHER / outer / icmp / Raw(quoted[:l4_of(quoted) + 8])
    return out


def l4_of(packet):
    """Where what follows the extension headers begins, by RFC 8200."""
    proto, off = packet[6], 40
    while proto in (0, 43, 44, 51, 60):
        length = 8 if proto == 44 else (packet[off + 1] + 2) * 4 if proto == 51 else (packet[off + 1] + 1) * 8
        proto, off = packet[off], off + length
    return off


def everything():
    packets = {**protocols(), **keyed(), **odd(), **trains()}
    packets.update(errors(packets))
    return packets
