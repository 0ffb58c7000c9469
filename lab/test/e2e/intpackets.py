# SPDX-License-Identifier: Apache-2.0
"""Capture files and the headers below telemetry, for intdecode.py.

pcap files (pcap-savefile(5)) of Ethernet, raw IP and Linux cooked links; VLAN
tags; IPv4 (RFC 791), IPv6 (RFC 8200), UDP (RFC 768) and TCP (RFC 9293) with
their checksums verified. What is wrong is appended to a list of problems.
"""

import ipaddress
import struct

TCP, UDP = 6, 17


class Unreadable(Exception):
    """The capture file is not one this program can read."""


# --- Capture files -----------------------------------------------------------

# First four bytes of a file: byte order of its headers, units per second.
PCAP_MAGIC = {
    b"\xa1\xb2\xc3\xd4": (">", 10**6),
    b"\xd4\xc3\xb2\xa1": ("<", 10**6),
    b"\xa1\xb2\x3c\x4d": (">", 10**9),
    b"\x4d\x3c\xb2\xa1": ("<", 10**9),
}
LINK_ETHERNET, LINK_RAW, LINK_SLL, LINK_SLL2 = 1, 101, 113, 276


def read_capture(stream):
    """Yield (link type, time in ns, bytes captured, bytes on the wire)."""
    head = stream.read(24)
    if len(head) < 24 or head[:4] not in PCAP_MAGIC:
        raise Unreadable("not a pcap file")
    order, per_second = PCAP_MAGIC[head[:4]]
    # The high bits of the link type word are about frame check sequences.
    link = struct.unpack(order + "I", head[20:24])[0] & 0x0FFFFFFF
    if link not in (LINK_ETHERNET, LINK_RAW, LINK_SLL, LINK_SLL2):
        raise Unreadable(f"link type {link} is not supported")
    while True:
        record = stream.read(16)
        if not record:
            return
        if len(record) < 16:
            raise Unreadable("the file ends within a record header")
        seconds, part, captured, wire = struct.unpack(order + "4I", record)
        data = stream.read(captured)
        if len(data) < captured:
            raise Unreadable("the file ends within a packet")
        yield link, seconds * 10**9 + part * (10**9 // per_second), data, wire


# --- Bytes -------------------------------------------------------------------

def number(data, at, size):
    """The big endian integer in data[at:at+size]; the caller checked length."""
    return int.from_bytes(data[at:at + size], "big")


def bits(word, high, low):
    """Bits high..low of a word, 0 the least significant."""
    return word >> low & (1 << high - low + 1) - 1


def hexed(value):
    return f"0x{value:04x}"


def ones_sum(data):
    """The one's complement sum of 16-bit words (RFC 1071); 0xffff is right."""
    if len(data) % 2:
        data = data + b"\0"
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


# --- Link, network and transport layer ---------------------------------------

def link_layer(link, data):
    """(fields, EtherType, offset of what follows), EtherType None if cut."""
    if link == LINK_RAW:
        version = data[0] >> 4 if data else 0
        return {}, {4: 0x0800, 6: 0x86DD}.get(version), 0
    at, type_at, fields = {
        LINK_ETHERNET: (14, 12, {}), LINK_SLL: (16, 14, {}), LINK_SLL2: (20, 0, {}),
    }[link]
    if len(data) < at:
        return fields, None, len(data)
    if link == LINK_ETHERNET:
        fields = {"dst": data[0:6].hex(":"), "src": data[6:12].hex(":")}
    ethertype = number(data, type_at, 2)
    while ethertype in (0x8100, 0x88A8):
        if len(data) < at + 4:
            return fields, None, len(data)
        tag = number(data, at, 2)
        fields.setdefault("vlans", []).append(
            {"tpid": hexed(ethertype), "pcp": bits(tag, 15, 13),
             "dei": bits(tag, 12, 12), "id": bits(tag, 11, 0)})
        ethertype = number(data, at + 2, 2)
        at += 4
    return fields, ethertype, at


def network_layer(ethertype, data, problems):
    """(fields, protocol or None, pseudo header, L4 bytes, L4 length).

    The L4 length is what the IP header says; None if that cannot be told or
    the packet is a fragment. There are fewer L4 bytes if the packet is cut;
    bytes behind the length (padding) are left off.
    """
    if ethertype == 0x0800:
        return ipv4(data, problems)
    if ethertype == 0x86DD:
        return ipv6(data, problems)
    return {}, None, b"", b"", None


def ipv4(data, problems):
    if len(data) < 20:
        return {}, None, b"", b"", None
    size, total = bits(data[0], 3, 0) * 4, number(data, 2, 2)
    fragment = number(data, 6, 2)
    fields = {
        "version": data[0] >> 4, "dscp": data[1] >> 2, "ecn": bits(data[1], 1, 0),
        "total_length": total, "id": number(data, 4, 2),
        "df": bits(fragment, 14, 14), "mf": bits(fragment, 13, 13),
        "fragment_offset": bits(fragment, 12, 0), "ttl": data[8], "protocol": data[9],
        "src": str(ipaddress.ip_address(data[12:16])),
        "dst": str(ipaddress.ip_address(data[16:20])),
    }
    if fields["version"] != 4 or size < 20 or total < size:
        problems.append("quoted packet: IPv4 version or lengths are wrong"
                        f" (version {fields['version']}, IHL {size}, total length {total})")
        return fields, None, b"", b"", None
    checksum = number(data, 10, 2)
    if len(data) < size:
        fields["checksum"] = "cut"
        return fields, None, b"", b"", None
    fields["checksum"] = ("right" if ones_sum(data[:size]) == 0xFFFF
                          else "zero" if checksum == 0 else "wrong")
    if fields["checksum"] == "wrong":
        problems.append(f"IPv4 header checksum {hexed(checksum)} is wrong")
    l4 = data[size:total]
    if fields["mf"] or fields["fragment_offset"]:
        # Only the first fragment has ports, and none can be verified alone.
        return fields, data[9] if not fields["fragment_offset"] else None, b"", l4, None
    pseudo = data[12:20] + struct.pack(">HH", data[9], total - size)
    return fields, data[9], pseudo, l4, total - size


def ipv6(data, problems):
    if len(data) < 40:
        return {}, None, b"", b"", None
    first, length, follows = number(data, 0, 4), number(data, 4, 2), data[6]
    fields = {
        "version": bits(first, 31, 28), "dscp": bits(first, 27, 22),
        "ecn": bits(first, 21, 20), "flow_label": bits(first, 19, 0),
        "payload_length": length, "hop_limit": data[7],
        "src": str(ipaddress.ip_address(data[8:24])),
        "dst": str(ipaddress.ip_address(data[24:40])),
    }
    if fields["version"] != 6:
        problems.append(f"quoted packet: IPv6 header has version {fields['version']}")
        return fields, None, b"", b"", None
    at, split = 40, False
    while follows in (0, 43, 44, 60):
        if len(data) < at + 8:
            return fields, None, b"", b"", None
        if follows == 44:
            fields["id"] = number(data, at + 4, 4)
            if number(data, at + 2, 2) & 0xFFF9:
                split = True
            if number(data, at + 2, 2) & 0xFFF8:
                return fields, None, b"", b"", None
        size = 8 if follows == 44 else 8 + 8 * data[at + 1]
        follows, at = data[at], at + size
    fields["protocol"] = follows
    claimed = max(0, 40 + length - at)
    pseudo = data[8:40] + struct.pack(">II", claimed, follows)
    return fields, follows, pseudo, data[at:40 + length], None if split else claimed


def transport_layer(protocol, pseudo, data, claimed, problems, where):
    """(fields, offset of the payload, or None if there are no ports to read)."""
    whole = claimed == len(data)
    need = {TCP: 20, UDP: 8}.get(protocol)
    if need is None or len(data) < 4:
        return {}, None
    fields = {"src_port": number(data, 0, 2), "dst_port": number(data, 2, 2)}
    if len(data) < need:
        fields["checksum"] = "cut"
        return fields, None
    if protocol == UDP:
        fields["length"] = number(data, 4, 2)
        if whole and fields["length"] != len(data):
            problems.append(f"{where}: UDP length {fields['length']},"
                            f" the IP header leaves {len(data)}")
        start = 8
    else:
        start = bits(data[12], 7, 4) * 4
        fields["header_length"] = start
        if start < 20:
            problems.append(f"{where}: TCP header length {start}")
            return fields, None
    checksum = number(data, 6 if protocol == UDP else 16, 2)
    if protocol == UDP and checksum == 0:
        fields["checksum"] = "zero"
    elif not whole:
        fields["checksum"] = "cut"
    elif ones_sum(pseudo + data) == 0xFFFF:
        fields["checksum"] = "right"
    else:
        fields["checksum"] = "zero" if checksum == 0 else "wrong"
    if fields["checksum"] == "wrong":
        problems.append(f"{where}: {'UDP' if protocol == UDP else 'TCP'}"
                        f" checksum {hexed(checksum)} is wrong")
    return fields, start
