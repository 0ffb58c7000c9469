// SPDX-License-Identifier: Apache-2.0
//
// Telemetry reports: a clone gets new headers in front, and quotes the packet from its IP header
// on. Its length is a whole number of words, as reports count: up to three bytes of payload are
// left out.

// How much of the packet a report quotes: all headers, and some payload.
control IntQuote(in int_packet_t pkt, in int_metadata_t md, in bit<16> payload, out bit<32> quoted) {
    apply {
        quoted = (bit<32>)payload;
        if (pkt.ipv4.isValid()) {
            quoted = quoted + ((bit<32>)pkt.ipv4.ihl << 2);
        } else {
            quoted = quoted + 40;
        }
        if (pkt.udp.isValid()) {
            quoted = quoted + 8;
        }
        if (pkt.tcp.isValid()) {
            quoted = quoted + ((bit<32>)pkt.tcp.offset << 2);
        }
        if (pkt.shim.isValid()) {
            quoted = quoted + 4 + ((bit<32>)pkt.shim.len << 2);
        }
        if (pkt.shim10.isValid()) {
            quoted = quoted + ((bit<32>)pkt.shim10.len << 2);
        }
        if (pkt.inner_tcp.isValid()) {
            quoted = quoted + 20;
        }
        if (quoted > (bit<32>)md.ip_bytes) {
            quoted = (bit<32>)md.ip_bytes;
        }
        quoted = quoted & 0xfffffffc;
    }
}

control IntReport(inout int_headers_t hdr, inout int_metadata_t md,
                  inout standard_metadata_t standard) {
    // Sequence numbers count for each node, hw_id and destination. The first two are the
    // switch's, the last is named by the port.
    @name(".int.sequence")
    register<bit<32>>(PORTS) sequence;

    IntQuote() quote_of;
    IntReport20() report20;
    IntReport10() report10;

    bit<32> number;
    bit<32> quoted;     // bytes
    bit<16> head;       // bytes of the report before the quote
    bit<8>  version = 0;
    bit<16> payload = 0;

    action next_number() {
        sequence.read(number, (bit<32>)standard.egress_port);
        sequence.write((bit<32>)standard.egress_port, number + 1);
    }

    action address(bit<48> src_mac, bit<48> dst_mac, bit<32> src, bit<32> dst,
                   bit<16> src_port, bit<16> dst_port) {
        hdr.ethernet.src = src_mac;
        hdr.ethernet.dst = dst_mac;
        hdr.ethernet.ether_type = ETHER_IPV4;
        hdr.vlan[0].setInvalid();
        hdr.vlan[1].setInvalid();
        hdr.report.ipv4.setValid();
        hdr.report.ipv4.version = 4;
        hdr.report.ipv4.ihl = 5;
        hdr.report.ipv4.dscp = 0;
        hdr.report.ipv4.ecn = 0;
        hdr.report.ipv4.id = 0;
        hdr.report.ipv4.reserved = 0;
        hdr.report.ipv4.df = 1;
        hdr.report.ipv4.mf = 0;
        hdr.report.ipv4.offset = 0;
        hdr.report.ipv4.ttl = 64;
        hdr.report.ipv4.proto = PROTO_UDP;
        hdr.report.ipv4.src = src;
        hdr.report.ipv4.dst = dst;
        hdr.report.udp.setValid();
        hdr.report.udp.sport = src_port;
        hdr.report.udp.dport = dst_port;
        hdr.report.udp.checksum = 0;
    }

    // Telemetry Report 2.0. quote: bytes of payload behind the headers that a report quotes, at
    // most; INT is among the headers.
    @name(".int.collector_20")
    action collector_20(bit<48> src_mac, bit<48> dst_mac, bit<32> src, bit<32> dst,
                        bit<16> src_port, bit<16> dst_port, bit<16> quote) {
        address(src_mac, dst_mac, src, dst, src_port, dst_port);
        version = 2;
        payload = quote;
    }

    // Telemetry Report 1.0.
    @name(".int.collector_10")
    action collector_10(bit<48> src_mac, bit<48> dst_mac, bit<32> src, bit<32> dst,
                        bit<16> src_port, bit<16> dst_port, bit<16> quote) {
        address(src_mac, dst_mac, src, dst, src_port, dst_port);
        version = 1;
        payload = quote;
    }

    @name(".int.no_collector")
    action no_collector() {
        mark_to_drop(standard);
    }

    // By the port to which the clone session sends.
    @name(".int.collectors")
    table collectors {
        key = { standard.egress_port: exact @name("egress_port"); }
        actions = { collector_20; collector_10; no_collector; }
        const default_action = no_collector();
        size = 16;
    }

    // The report's own metadata. What is not known has no bit (TR 2.0, "RepMdBits"), unlike in
    // the packet. Bit 15 asks for a checksum complement there.
    action keep_known() {
        md.instructions = md.instructions & (md.report == REPORT_DROP ?
            BITS_OF_DROP_REPORT : BITS_OF_QUEUE_REPORT | BIT_L2_PORTS);
        md.instructions = md.instructions & ~(md.l2_in == UNKNOWN && md.l2_out == UNKNOWN ? BIT_L2_PORTS : 0);
        md.instructions = md.instructions & ~(md.utilisation == UNKNOWN ? BIT_UTILISATION : 0);
    }

    apply {
        if (md.report != REPORT_DROP) {
            hdr.packet = hdr.kept;
        }
        collectors.apply();
        if (version != 0) {
            next_number();
            keep_known();
            quote_of.apply(hdr.packet, md, payload, quoted);
            if (version == 2) {
                report20.apply(hdr.report, md, hdr.packet.ipv4.isValid(), number, quoted, head);
            } else {
                report10.apply(hdr.report, md, hdr.packet.ipv4.isValid(), number, head);
            }
            hdr.report.udp.len = 8 + head + quoted[15:0];
            hdr.report.ipv4.len = 28 + head + quoted[15:0];
            truncate(42 + (bit<32>)head + quoted);
        }
    }
}
