#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decode P4.org telemetry reports in a capture: one JSON object per report.

This decoder shares no code with pkg/intwire: it was written from the
specifications alone (Telemetry Report 1.0 and 2.0, INT-MD 1.0, 2.0 and 2.1),
so that an encoder and a decoder of the project that are wrong in the same way
do not agree unnoticed. It is strict: what departs from the text is still read
as far as possible, and named in "problems". What is no departure but limits
what could be read (a cut quote, a format left out) is named in "notes".

All integers on the wire are big endian. A value that is all ones where the
text says "unavailable" prints as "invalid". Hops stand as in the stack: the
newest first.

Left out: INT 0.5 and Telemetry Report 0.5, INT-MX, INT over GRE, VXLAN and
Geneve, IOAM, fragments put together, pcapng.

Exit status: 0 read to the end; 1 the file cannot be read, or ends early (what
was read before is printed).
"""

import argparse
import json
import sys

from intpackets import (LINK_ETHERNET, TCP, UDP, Unreadable, bits, hexed, ipv4, link_layer,
                        network_layer, number, read_capture, transport_layer)


# --- Metadata words ----------------------------------------------------------

# Name groups of one metadata item: (bytes, [(name, high bit, low bit), ...]).
PORTS = (4, [("l1_in", 31, 16), ("l1_out", 15, 0)])
LATENCY = (4, [("hop_latency", 31, 0)])
QUEUE = (4, [("queue_id", 31, 24), ("queue_occ", 23, 0)])
LEVEL2 = (8, [("l2_in", 63, 32), ("l2_out", 31, 0)])
UTILISATION = (4, [("egress_tx_util", 31, 0)])
BUFFER = (4, [("buffer_id", 31, 24), ("buffer_occ", 23, 0)])
DROP = (4, [("drop_queue_id", 31, 24), ("drop_reason", 23, 16), ("padding", 15, 0)])


def stamp(name, size):
    return size, [(name, size * 8 - 1, 0)]


def reserved(bit):
    return 4, [(f"reserved_{bit}", 31, 0)]


def instructions(version):
    """Items of the INT instruction bitmap, bit 0 first (INT 1.0, 2.0, 2.1)."""
    time = 4 if version < 2 else 8
    items = [(4, [("node_id", 31, 0)]), PORTS, LATENCY, QUEUE,
             stamp("ingress_ts", time), stamp("egress_ts", time), LEVEL2, UTILISATION,
             BUFFER if version >= 2 else reserved(8)]
    items += [reserved(bit) for bit in range(9, 15)]
    return items + [(4, [("checksum_complement", 31, 0)])]


# RepMdBits, bit 0 first. In 2.0 bit 0 has no metadata: it is reserved.
REPORT_1_ITEMS = [PORTS, LATENCY, QUEUE, stamp("egress_ts", 4), DROP, UTILISATION]
REPORT_2_ITEMS = [(0, [])] + instructions(2)[1:15] + [DROP]


def chosen(items, bitmap):
    """The items whose bit is set; the first item belongs to the top bit."""
    return [item for place, item in enumerate(items)
            if bitmap >> len(items) - 1 - place & 1]


def put_item(out, item, data, at):
    """Add the values of one item at data[at:]; says if it was all ones."""
    size, names = item
    value = number(data, at, size)
    unavailable = size > 0 and value == (1 << size * 8) - 1
    for name, high, low in names:
        part = bits(value, high, low)
        # A composite word is unavailable as a whole, except that the two
        # level-2 identifiers are four bytes each and stand for themselves.
        lone = size == 8 and high - low == 31 and part == 0xFFFFFFFF
        if name == "checksum_complement":
            out[name] = f"0x{part:08x}"
        elif name != "padding":
            out[name] = "invalid" if unavailable or lone else part
    return unavailable


# --- INT ---------------------------------------------------------------------

def int_stack(data, present, marked_by, problems, notes):
    """Decode shim, INT-MD header and stack at the start of data.

    data is what the packet says it has (cut to what was quoted), present how
    many bytes the packet had there before it was cut; None if unknown.
    Returns (fields, offset behind the stack) or (None, 0) if this is no INT.
    """
    if len(data) < 8:
        return None, 0
    first = data[0]
    shim_words = 0
    if first == 1:
        version, length = 1, data[2]
        header, shim_words = 8, 1
        shim = {"type": 1, "length_words": length, "orig_dscp": data[3] >> 2}
        if data[1] or data[3] & 3:
            problems.append("INT 1.0 shim: reserved bits are set")
        if marked_by == "port":
            problems.append("INT 1.0 shim behind a UDP port: 1.0 has no port method")
    elif first >> 4 in (1, 3):
        version, length, npt, low = 2, data[1], bits(first, 3, 2), number(data, 2, 2)
        header = 12
        shim = {"type": first >> 4, "length_words": length, "npt": npt}
        if first & 3:
            problems.append("INT 2.x shim: reserved bits are set")
        if npt == 0:
            shim["orig_dscp"] = bits(low, 7, 2)
            if low & 0xFF03:
                problems.append("INT 2.x shim, NPT 0: reserved bits are set")
        elif npt == 1:
            shim["orig_dst_port"] = low
        elif npt == 2:
            shim["ip_proto"] = low & 0xFF
            if low & 0xFF00:
                problems.append("INT 2.x shim, NPT 2: reserved bits are set")
        else:
            problems.append("INT 2.x shim: NPT 3 is not defined")
        if (npt == 0) == (marked_by == "port"):
            problems.append(f"INT 2.x shim: NPT {npt} in a packet marked by {marked_by}")
    else:
        notes.append(f"marked as INT by {marked_by}, but the first byte"
                     f" {first:#04x} is no shim of INT 1.0 or 2.x")
        return None, 0
    end = 4 * (length + 1 - shim_words)
    found = {"shim": shim}
    found["incomplete"] = False
    if present is not None and end > present:
        found["incomplete"] = True
        problems.append(f"INT shim: length {length} words, the packet has {present} bytes there")
    if end < 4 + header:
        problems.append(f"INT shim: length {length} words leaves no room for the header")
        found["incomplete"] = True
        return found, min(end, len(data))
    if shim["type"] == 3:
        notes.append("INT-MX header is not decoded")
        return found, end
    if len(data) < 4 + header:
        notes.append("the INT header is cut")
        found["incomplete"] = True
        return found, end
    found["header"] = metadata_header(data[4:4 + header], version, problems)
    if found["header"]["E"] or found["header"]["M"] or len(data) < end:
        found["incomplete"] = True
    domain = found["header"].get("domain_specific_id", "0x0000")
    if domain not in ("0x0000", *SOURCE_ONLY) and found["header"]["ds_instruction"] != "0x0000":
        notes.append(f"domain {domain} is not known: its metadata are shown as bytes")
    stack = data[4 + header:end]
    walk_stack(found, stack, end - 4 - header, version, problems, notes)
    return found, end


def metadata_header(data, version, problems):
    """Fields of the INT-MD header; layout by the version of its shim."""
    word, bitmap, low = number(data, 0, 4), number(data, 4, 2), number(data, 6, 2)
    out = {"version": word >> 28}
    if out["version"] != version:
        problems.append(f"INT header: version {out['version']} behind a shim of {version}.x,"
                        " read by the layout of the shim")
    if version == 1:
        out.update(rep=bits(word, 27, 26), C=bits(word, 25, 25), E=bits(word, 24, 24),
                   M=bits(word, 23, 23))
        unused = bits(word, 22, 13) or low
    else:
        out.update(D=bits(word, 27, 27), E=bits(word, 26, 26), M=bits(word, 25, 25))
        unused = bits(word, 24, 13)
    out.update(hop_ml=bits(word, 12, 8), remaining_hop_count=bits(word, 7, 0),
               instruction_bitmap=hexed(bitmap))
    if version == 2:
        ds_instruction, ds_flags = number(data, 8, 2), number(data, 10, 2)
        out.update(domain_specific_id=hexed(low), ds_instruction=hexed(ds_instruction),
                   ds_flags=hexed(ds_flags))
        if low == 0 and (ds_instruction or ds_flags):
            problems.append("INT header: domain 0 with domain-specific bits set")
    if unused:
        problems.append("INT header: reserved bits are set")
    if bitmap & (0x007E if version == 2 else 0x00FE):
        problems.append("INT header: reserved instructions are set")
    return out


# Bytes that the source alone adds, by its DS Instruction, of domains that are public.
SOURCE_ONLY = {"0x5453": lambda bits: 8 if bits & 0x8000 else 0}


def walk_stack(found, stack, full, version, problems, notes):
    """Split the stack into hops; full is its length in bytes before any cut."""
    header = found["header"]
    bitmap = int(header["instruction_bitmap"], 16)
    stride = 4 * header["hop_ml"]
    found["hops_top_first"] = hops = []
    items = chosen(instructions(version), bitmap)
    complement = items.pop() if bitmap & 1 else None
    baseline = sum(size for size, _ in items) + (4 if complement else 0)
    domain = int(header.get("ds_instruction", "0"), 16)
    source_only = SOURCE_ONLY.get(header.get("domain_specific_id"), lambda bits: 0)(domain)
    if stride < baseline or stride > baseline and not domain:
        problems.append(f"INT header: Hop ML is {stride // 4} words,"
                        f" the instructions ask for {baseline // 4}")
        if stride < baseline:
            return
    if stride == 0:
        if full:
            problems.append("INT header: Hop ML 0 with a stack")
        return
    if source_only and full >= source_only and len(stack) == full:
        found["source_only_hex"] = stack[full - source_only:].hex()
        stack, full = stack[:full - source_only], full - source_only
    if full % stride:
        if domain:
            notes.append(f"{full % stride} bytes behind the last hop: source-only metadata")
        else:
            found["incomplete"] = True
            problems.append(f"INT stack: {full} bytes are no whole number"
                            f" of hops of {stride}")
    count = full // stride
    for at in range(0, count * stride, stride):
        block = stack[at:at + stride]
        if len(block) < stride:
            notes.append(f"the stack is cut: {len(hops)} of {count} hops are whole")
            return
        hop, place = {}, 0
        for item in items:
            put_item(hop, item, block, place)
            place += item[0]
        # Domain-specific words stand between the baseline and the complement.
        if stride > baseline:
            name = "ds_metadata_hex" if domain else "unexplained_hex"
            hop[name] = block[place:place + stride - baseline].hex()
        if complement:
            put_item(hop, complement, block, stride - 4)
        hops.append(hop)
    rest = stack[count * stride:]
    if rest:
        found["source_only_hex"] = rest.hex()


# --- Quoted packets ----------------------------------------------------------

class Marks:
    """How the INT domain marks its packets; an operator's choice."""

    def __init__(self, dscps, ports, before_options):
        self.dscps, self.ports, self.before_options = dscps, ports, before_options

    def of(self, protocol, ip, l4):
        if protocol == UDP and l4["dst_port"] in self.ports:
            return "port"
        if ip["dscp"] in self.dscps:
            return "DSCP"
        return None


def quoted_packet(starts_at, data, marks, problems, notes):
    """Decode a quoted packet; data may be cut or padded at the end."""
    out = {"starts_at": starts_at, "bytes": len(data)}
    ethertype, at = {"ipv4": 0x0800, "ipv6": 0x86DD}.get(starts_at), 0
    if starts_at == "ethernet":
        out["ethernet"], ethertype, at = link_layer(LINK_ETHERNET, data)
        if ethertype is None:
            notes.append("the quoted packet ends within the Ethernet header")
            return out
        out["ethernet"]["ethertype"] = hexed(ethertype)
    ip, protocol, pseudo, payload, claimed = network_layer(ethertype, data[at:], problems)
    if not ip:
        notes.append("the quoted packet has no whole IP header")
        return out
    out["ip"], out["whole"] = ip, claimed == len(payload)
    part = claimed is None
    if protocol is None:
        return out
    flow = {"src": ip["src"], "dst": ip["dst"], "protocol": protocol}
    l4, start = transport_layer(protocol, pseudo, payload, claimed, problems, "quoted packet")
    if l4:
        out["l4"] = l4
        flow.update(src_port=l4["src_port"], dst_port=l4["dst_port"])
    out["flow"] = flow
    marked_by = marks.of(protocol, ip, l4) if start is not None else None
    if marked_by is None:
        return out
    out["marked_by"] = marked_by
    if protocol == TCP and marks.before_options:
        start = 20
    if protocol == UDP:
        claimed = l4["length"]
        payload = payload[:max(claimed, start)]
    present = None if claimed is None else claimed - start
    found, end = int_stack(payload[start:], present, marked_by, problems, notes)
    if found:
        found["incomplete"] = int(found["incomplete"] or part)
        out["int"] = found
        restore_flow(flow, found["shim"], payload[start + end:], notes)
    return out


def restore_flow(flow, shim, behind, notes):
    """Undo in flow what the INT source changed (INT 2.x, NPT 1 and 2)."""
    if "orig_dst_port" in shim:
        flow["dst_port"] = shim["orig_dst_port"]
    if "ip_proto" not in shim:
        return
    flow.pop("src_port"), flow.pop("dst_port")
    flow["protocol"] = shim["ip_proto"]
    if shim["ip_proto"] == 4:
        ip, protocol, _, behind, _ = ipv4(behind, [])
        if not ip:
            notes.append("the original IP header is cut")
            return
        flow.update(src=ip["src"], dst=ip["dst"], protocol=ip["protocol"])
        if protocol is None:
            return
    if flow["protocol"] in (TCP, UDP):
        if len(behind) < 4:
            notes.append("the original ports are cut")
            return
        flow.update(src_port=number(behind, 0, 2), dst_port=number(behind, 2, 2))


# --- Telemetry reports -------------------------------------------------------

def report_1(data, marks, record):
    """Telemetry Report 1.0: header of 4 words, optional words, a packet."""
    problems, notes = record["problems"], record["notes"]
    if len(data) < 16:
        problems.append(f"report 1.0 of {len(data)} bytes")
        return
    word = number(data, 0, 4)
    bitmap, nproto = bits(word, 20, 15), bits(word, 23, 21)
    record["report"] = report = {
        "version": 1, "length_words": bits(word, 27, 24), "nproto": nproto,
        "rep_md_bits": bitmap, "D": bits(word, 8, 8), "Q": bits(word, 7, 7),
        "F": bits(word, 6, 6), "hw_id": bits(word, 5, 0), "switch_id": number(data, 4, 4),
        "sequence": number(data, 8, 4), "ingress_ts": number(data, 12, 4),
    }
    if bits(word, 14, 9):
        problems.append("report: reserved bits are set")
    items = chosen(REPORT_1_ITEMS, bitmap)
    size = 16 + sum(item[0] for item in items)
    if report["length_words"] * 4 != size:
        problems.append(f"report: length {report['length_words']} words,"
                        f" RepMdBits ask for {size // 4}")
        size = max(size, report["length_words"] * 4)
    if len(data) < size:
        problems.append(f"report: {len(data)} bytes, the header has {size}")
        return
    place = 16
    for item in items:
        put_item(report, item, data, place)
        if item is DROP and number(data, place + 2, 2):
            problems.append("report: padding of the drop reason is not 0")
        place += item[0]
    if nproto > 2:
        problems.append(f"report: NProto {nproto} is reserved")
        return
    inner = ("ethernet", "ipv4", "ipv6")[nproto]
    record["packet"] = packet = quoted_packet(inner, data[size:], marks, problems, notes)
    if "int" in packet and not report["F"]:
        problems.append("report: F is 0, the quoted packet carries INT")


def reports_2(data, marks, base):
    """Telemetry Report 2.0: yield one record per individual report."""
    problems = base["problems"]
    if len(data) < 8:
        problems.append(f"report group of {len(data)} bytes")
        yield base
        return
    word = number(data, 0, 4)
    base["group"] = {"version": 2, "hw_id": bits(word, 27, 22),
                     "sequence": bits(word, 21, 0), "node_id": number(data, 4, 4)}
    at, index = 8, 0
    if len(data) < 12:
        problems.append("report group without a report")
        yield base
        return
    # One to three bytes cannot start a report: they end the last fragment.
    while len(data) - at >= 4:
        if not any(data[at:at + 4]):
            # Neither type nor contents nor a flag: no report.
            problems.append("a zero word where a report could begin")
            at += 4
            continue
        record = dict(base, index=index, notes=[],
                      problems=problems if index == 0 else [])
        length = data[at + 1]
        end = at + 4 + 4 * length
        if length == 0 and data[at] >> 4 == 1 and len(data) - at >= 12:
            record["problems"].append("report: length 0, main contents have 2 words:"
                                      " read to the end")
            end = len(data)
        elif length == 0xFF:
            end = len(data)
            if end - at - 4 < 4 * 255:
                record["problems"].append("report: length 255 (or more) with fewer words")
        elif end > len(data):
            record["problems"].append(f"report: length {length} words,"
                                      f" {len(data) - at - 4} bytes are left")
            end = len(data)
        elif len(data) - end < 4:
            if end < len(data):
                record["notes"].append(f"{len(data) - end} bytes behind the counted length"
                                       " taken as the end of the fragment")
            end = len(data)
        report_2(data[at:end], marks, record)
        yield record
        at, index = end, index + 1


def report_2(data, marks, record):
    """One individual report of 2.0: its first word, main and inner contents."""
    problems, notes = record["problems"], record["notes"]
    word = number(data, 0, 4)
    kind, inner, md_length = bits(word, 31, 28), bits(word, 27, 24), bits(word, 15, 8)
    record["report"] = report = {
        "rep_type": kind, "in_type": inner, "report_length": bits(word, 23, 16),
        "md_length": md_length, "D": bits(word, 7, 7), "Q": bits(word, 6, 6),
        "F": bits(word, 5, 5), "I": bits(word, 4, 4),
    }
    if bits(word, 3, 0):
        problems.append("report: reserved bits are set")
    at = 4
    if kind == 1:
        at = main_contents(data, report, problems)
        if at is None:
            return
    elif kind == 0:
        if md_length:
            problems.append(f"report without main contents: metadata length {md_length}")
    else:
        if kind == 2:
            notes.append("IOAM report: contents are not decoded")
        else:
            problems.append(f"report type {kind} is reserved")
        return
    rest = data[at:]
    if inner == 0:
        if rest:
            problems.append(f"inner type none, but {len(rest)} bytes follow")
    elif inner == 1:
        report["tlvs"] = list(tlvs(rest, problems, notes))
    elif inner == 2:
        report["ds_extension_hex"] = rest.hex()
    elif inner <= 5:
        starts_at = {3: "ethernet", 4: "ipv4", 5: "ipv6"}[inner]
        record["packet"] = quoted_packet(starts_at, rest, marks, problems, notes)
    else:
        problems.append(f"inner type {inner} is reserved")


def main_contents(data, report, problems):
    """Metadata of a RepType 1 report into report; the offset behind it."""
    end = 12 + 4 * report["md_length"]
    if len(data) < end:
        problems.append(f"report: metadata length {report['md_length']} words,"
                        f" {len(data) - 4} bytes are there")
        return None
    bitmap, domain, ds_bits = number(data, 4, 2), number(data, 6, 2), number(data, 8, 2)
    report.update(rep_md_bits=hexed(bitmap), domain=hexed(domain),
                  ds_md_bits=hexed(ds_bits), ds_md_status=hexed(number(data, 10, 2)))
    if bitmap & 0x8000:
        problems.append("report: RepMdBits bit 0 is reserved")
    if bitmap & 0x007E:
        problems.append("report: RepMdBits 9 to 14 are reserved")
    if bitmap & 1 and not report["D"]:
        problems.append("report: a drop reason, but D is 0")
    if domain == 0 and (ds_bits or number(data, 10, 2)):
        problems.append("report: domain 0 with domain-specific bits set")
    items = chosen(REPORT_2_ITEMS, bitmap)
    size = sum(item[0] for item in items)
    if 12 + size > end or 12 + size < end and not ds_bits:
        problems.append(f"report: metadata length {report['md_length']} words,"
                        f" RepMdBits ask for {size // 4}")
    place = 12
    for item in items:
        if place + item[0] > end:
            return end
        if put_item(report, item, data, place):
            problems.append(f"report: {item[1][0][0]} is all ones,"
                            " an unavailable value has no bit set in 2.0")
        if item is DROP and number(data, place + 2, 2):
            problems.append("report: padding of the drop reason is not 0")
        place += item[0]
    if place < end:
        report["ds_metadata_hex"] = data[place:end].hex()
    return end


def tlvs(data, problems, notes):
    """Each TLV of an inner type 1: contents as hexadecimal digits."""
    at = 0
    while len(data) - at >= 4:
        word = number(data, at, 4)
        end = at + 4 + 4 * bits(word, 23, 16)
        if bits(word, 27, 24):
            problems.append("TLV: reserved bits are set")
        if bits(word, 31, 28) > 3:
            problems.append(f"TLV: type {bits(word, 31, 28)} is not defined")
        if end > len(data):
            problems.append(f"TLV: {end - at} bytes announced, {len(data) - at} are left")
        yield {"type": bits(word, 31, 28), "length": bits(word, 23, 16),
               "template": bits(word, 15, 0), "data": data[at + 4:end].hex()}
        at = end
    if at < len(data):
        notes.append("bytes behind the last TLV")


# --- Sequence numbers --------------------------------------------------------

class Sequences:
    """Gaps of sequence numbers per (node, hw_id, destination)."""

    def __init__(self):
        self.last = {}

    def check(self, record):
        if "group" in record:
            head, width, node = record["group"], 22, "node_id"
        elif "report" in record:
            head, width, node = record["report"], 32, "switch_id"
        else:
            return
        key = (width, head[node], head["hw_id"], record["dst"], record["dst_port"])
        last, now = self.last.get(key), head["sequence"]
        self.last[key] = now
        # A device that does not count sends 0 always.
        if last is None or last == now == 0:
            return
        due = (last + 1) % (1 << width)
        if now != due:
            record["problems"].append(f"sequence gap: number {now} after {last}")


# --- The program -------------------------------------------------------------

def datagram_records(frame, args, marks, sequences):
    """Yield the records of one captured frame, none if it holds no report."""
    place, link, time, data, wire = frame
    _, ethertype, at = link_layer(link, data)
    problems = []
    ip, protocol, pseudo, payload, claimed = network_layer(ethertype, data[at:], problems)
    if protocol != UDP:
        return
    l4, start = transport_layer(UDP, pseudo, payload, claimed, problems, "report datagram")
    if start is None or l4["dst_port"] not in args.port:
        return
    body = payload[start:l4["length"]]
    base = {"frame": place, "time_ns": time, "src": ip["src"], "dst": ip["dst"],
            "src_port": l4["src_port"], "dst_port": l4["dst_port"],
            "ip_checksum": ip.get("checksum", "none"), "udp_checksum": l4["checksum"],
            "index": 0, "problems": problems, "notes": []}
    if claimed != len(payload):
        problems.append("the report datagram is cut or a fragment")
    version = body[0] >> 4 if body else None
    if version == 2:
        for record in reports_2(body, marks, base):
            if record["index"] == 0:
                sequences.check(record)
            yield record
        return
    if version == 1:
        report_1(body, marks, base)
        sequences.check(base)
    else:
        problems.append(f"report version {version} is not decoded")
    yield base


def data_record(frame, marks):
    """The record of a captured data packet (--data)."""
    place, link, time, data, _ = frame
    record = {"frame": place, "time_ns": time, "problems": [], "notes": []}
    starts_at = "ethernet"
    if link != LINK_ETHERNET:
        _, ethertype, at = link_layer(link, data)
        starts_at, data = {0x0800: "ipv4", 0x86DD: "ipv6"}.get(ethertype, "unknown"), data[at:]
    record["packet"] = quoted_packet(starts_at, data, marks, record["problems"], record["notes"])
    return record


def main():
    parser = argparse.ArgumentParser(description="Print telemetry reports as JSON lines.")
    auto = lambda text: int(text, 0)
    parser.add_argument("file", help="capture file (pcap)")
    parser.add_argument("--port", type=auto, action="append",
                        help="UDP port of reports, may be repeated (default 32766)")
    parser.add_argument("--dscp", type=auto, action="append",
                        help="DSCP that marks INT, may be repeated (default 0x17)")
    parser.add_argument("--int-port", type=auto, action="append", default=[],
                        help="UDP port that marks INT, may be repeated (default none)")
    parser.add_argument("--int-before-tcp-options", action="store_true")
    parser.add_argument("--data", action="store_true",
                        help="the packets themselves are what a report would quote")
    args = parser.parse_args()
    args.port = args.port or [32766]
    marks = Marks(args.dscp or [0x17], args.int_port, args.int_before_tcp_options)
    sequences = Sequences()
    try:
        with open(args.file, "rb") as stream:
            for place, (link, *frame) in enumerate(read_capture(stream), 1):
                frame = (place, link, *frame)
                records = [data_record(frame, marks)] if args.data else \
                    datagram_records(frame, args, marks, sequences)
                for record in records:
                    print(json.dumps(record))
    except (OSError, Unreadable) as error:
        print(f"intdecode: {args.file}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
