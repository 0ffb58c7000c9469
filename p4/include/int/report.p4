// SPDX-License-Identifier: Apache-2.0
//
// Telemetry reports: a clone gets new headers in front, and quotes the packet from its IP header
// on. Its length is a whole number of words, as reports count: up to three bytes of payload are
// left out.

control IntReport(inout int_headers_t hdr, inout int_metadata_t md,
                  inout standard_metadata_t standard) {
    // Sequence numbers count for each node, hw_id and destination. The first two are the
    // switch's, the last is named by the port.
    @name(".int.sequence")
    register<bit<32>>(PORTS) sequence;

    bit<32> number;
    bit<32> quoted;  // bytes
    bit<8>  words;   // of metadata
    bit<16> head;    // bytes of the report before the quote
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
    // the packet.
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

            // The quote: all headers, and some payload.
            quoted = 0;
            if (hdr.packet.ipv4.isValid()) {
                quoted = quoted + ((bit<32>)hdr.packet.ipv4.ihl << 2);
            }
            if (hdr.packet.ipv6.isValid()) {
                quoted = quoted + 40;
            }
            if (hdr.packet.udp.isValid()) {
                quoted = quoted + 8;
            }
            if (hdr.packet.tcp.isValid()) {
                quoted = quoted + ((bit<32>)hdr.packet.tcp.offset << 2);
            }
            if (hdr.packet.shim.isValid()) {
                quoted = quoted + 4 + ((bit<32>)hdr.packet.shim.len << 2);
            }
            if (hdr.packet.shim10.isValid()) {
                quoted = quoted + ((bit<32>)hdr.packet.shim10.len << 2);
            }
            if (hdr.packet.inner_tcp.isValid()) {
                quoted = quoted + 20;
            }
            quoted = quoted + (bit<32>)payload;
            if (quoted > (bit<32>)md.ip_bytes) {
                quoted = (bit<32>)md.ip_bytes;
            }
            quoted = quoted & 0xfffffffc;

            // What both versions have, in the same form.
            words = 0;
            if (md.instructions & BIT_PORTS != 0) {
                hdr.report.ports.setValid();
                hdr.report.ports.value = md.port_in ++ md.port_out;
                words = words + 1;
            }
            if (md.instructions & BIT_LATENCY != 0) {
                hdr.report.latency.setValid();
                hdr.report.latency.value = md.latency;
                words = words + 1;
            }
            if (md.instructions & BIT_QUEUE != 0) {
                hdr.report.queue.setValid();
                hdr.report.queue.value = md.queue;
                words = words + 1;
            }
            if (md.instructions & BIT_UTILISATION != 0) {
                hdr.report.utilisation.setValid();
                hdr.report.utilisation.value = md.utilisation;
                words = words + 1;
            }

            if (version == 2) {
                if (md.instructions & BIT_INGRESS_TIME != 0) {
                    hdr.report.ingress_time.setValid();
                    hdr.report.ingress_time.value = md.ingress_time;
                    words = words + 2;
                }
                if (md.instructions & BIT_EGRESS_TIME != 0) {
                    hdr.report.egress_time.setValid();
                    hdr.report.egress_time.value = md.egress_time;
                    words = words + 2;
                }
                if (md.instructions & BIT_L2_PORTS != 0) {
                    hdr.report.l2_ports.setValid();
                    hdr.report.l2_ports.value = md.l2_in ++ md.l2_out;
                    words = words + 2;
                }
                if (md.report == REPORT_DROP) {
                    hdr.report.drop20.setValid();
                    hdr.report.drop20.value = 8w0 ++ md.drop_reason ++ 16w0;
                    words = words + 1;
                }
                head = 20 + ((bit<16>)words << 2);
                hdr.report.group.setValid();
                hdr.report.group.version = 2;
                hdr.report.group.hw_id = md.hw_id;
                hdr.report.group.sequence = number[21:0];
                hdr.report.group.node_id = md.node_id;
                hdr.report.t20.setValid();
                hdr.report.t20.rep_type = 1;
                hdr.report.t20.in_type = hdr.packet.ipv4.isValid() ? 4w4 : 4w5;
                // 255 is "or more": it is the only report of the datagram.
                bit<32> all = 2 + (bit<32>)words + (quoted >> 2);
                hdr.report.t20.len = all > 254 ? 8w255 : all[7:0];
                hdr.report.t20.md_len = words;
                hdr.report.t20.dropped = md.report == REPORT_DROP ? 1w1 : 1w0;
                hdr.report.t20.congested = md.congested;
                hdr.report.t20.flow = md.flow;
                hdr.report.t20.intermediate = md.intermediate;
                hdr.report.t20.reserved = 0;
                hdr.report.t20.md_bits = md.instructions;
                hdr.report.t20.domain = md.domain;
                hdr.report.t20.ds_bits = 0;
                hdr.report.t20.ds_status = 0;
            } else {
                if (md.instructions & BIT_EGRESS_TIME != 0) {
                    hdr.report.egress_time10.setValid();
                    hdr.report.egress_time10.value = md.egress_time[31:0];
                    words = words + 1;
                }
                if (md.report == REPORT_DROP) {
                    hdr.report.drop.setValid();
                    hdr.report.drop.value = 8w0 ++ md.drop_reason ++ 16w0;
                    words = words + 1;
                }
                head = 16 + ((bit<16>)words << 2);
                hdr.report.t10.setValid();
                hdr.report.t10.version = 1;
                hdr.report.t10.len = 4 + words[3:0];
                hdr.report.t10.in_type = hdr.packet.ipv4.isValid() ? 3w1 : 3w2;
                hdr.report.t10.md_bits = md.instructions[14:12] ++ md.instructions[10:10] ++
                    (md.report == REPORT_DROP ? 1w1 : 1w0) ++ md.instructions[8:8];
                hdr.report.t10.reserved = 0;
                hdr.report.t10.dropped = md.report == REPORT_DROP ? 1w1 : 1w0;
                hdr.report.t10.congested = md.congested;
                hdr.report.t10.flow = md.flow;
                hdr.report.t10.hw_id = md.hw_id;
                hdr.report.t10.node_id = md.node_id;
                hdr.report.t10.sequence = number;
                hdr.report.t10.ingress_time = md.ingress_time[31:0];
            }

            hdr.report.udp.len = 8 + head + quoted[15:0];
            hdr.report.ipv4.len = 28 + head + quoted[15:0];
            truncate(42 + (bit<32>)head + quoted);
        }
    }
}
