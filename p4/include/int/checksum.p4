// SPDX-License-Identifier: Apache-2.0
//
// Checksums are corrected by what has changed (RFC 1624), and never computed anew: what was
// wrong stays wrong, so that nothing hides a damaged packet, and what a sink restores has the
// sum that it had.

// Adds in ones' complement.
bit<16> add_ones(in bit<16> a, in bit<16> b) {
    bit<32> sum = (bit<32>)a + (bit<32>)b;
    return sum[15:0] + sum[31:16];
}

// The sum behind a change. before and after are complements of the sums of what has changed.
bit<16> corrected(in bit<16> checksum, in bit<16> before, in bit<16> after) {
    return ~add_ones(~checksum, add_ones(before, ~after));
}

// Sums up headers in which INT changes something, for IP's checksum and for that of TCP or UDP.
// What is the same before and after cancels out. Headers that are not there count nothing.
control IntSums(in int_packet_t pkt, in int_metadata_t md, out bit<16> ip, out bit<16> l4) {
    apply {
        hash(ip, HashAlgorithm.csum16, 16w0, { pkt.ipv4 }, 32w0x10000);
        // The length is in the pseudo header, and once more in UDP's own.
        hash(l4, HashAlgorithm.csum16, 16w0, {
            md.l4_len, pkt.udp,
            pkt.shim, pkt.shim10, pkt.md, pkt.mx, pkt.md10,
            pkt.own.node, pkt.own.ports, pkt.own.latency, pkt.own.queue,
            pkt.own.ingress_time, pkt.own.ingress_time10, pkt.own.egress_time, pkt.own.egress_time10,
            pkt.own.l2_ports, pkt.own.utilisation, pkt.own.buffers,
            pkt.own.reserved[0], pkt.own.reserved[1], pkt.own.reserved[2],
            pkt.own.reserved[3], pkt.own.reserved[4], pkt.own.reserved[5], pkt.own.complement,
            pkt.hops[0], pkt.hops[1], pkt.hops[2], pkt.hops[3],
            pkt.hops[4], pkt.hops[5], pkt.hops[6], pkt.hops[7],
            pkt.hops[8], pkt.hops[9], pkt.hops[10], pkt.hops[11],
            pkt.hops[12], pkt.hops[13], pkt.hops[14], pkt.hops[15],
            pkt.rest
        }, 32w0x10000);
    }
}

// Writes both checksums. A UDP checksum of 0 means that there is none, and stays so; one that
// comes out as 0 is sent as its other form. A UDP header that a source has put in front (NPT 2)
// has none, and TCP behind it is not touched.
control IntCorrect(inout int_packet_t pkt, in bit<16> ip_before, in bit<16> ip_after,
                   in bit<16> l4_before, in bit<16> l4_after) {
    apply {
        if (pkt.ipv4.isValid()) {
            pkt.ipv4.checksum = corrected(pkt.ipv4.checksum, ip_before, ip_after);
        }
        if (pkt.tcp.isValid()) {
            pkt.tcp.checksum = corrected(pkt.tcp.checksum, l4_before, l4_after);
        } else if (pkt.udp.isValid() && pkt.udp.checksum != 0) {
            pkt.udp.checksum = corrected(pkt.udp.checksum, l4_before, l4_after);
            if (pkt.udp.checksum == 0) {
                pkt.udp.checksum = 0xffff;
            }
        }
    }
}

// IPv4 headers that came in wrong are not for INT.
control IntVerifyChecksum(inout int_headers_t hdr, inout int_metadata_t md) {
    apply {
        verify_checksum(hdr.packet.ipv4.isValid() && hdr.packet.ipv4.ihl >= 5, {
            hdr.packet.ipv4.version, hdr.packet.ipv4.ihl, hdr.packet.ipv4.dscp, hdr.packet.ipv4.ecn,
            hdr.packet.ipv4.len, hdr.packet.ipv4.id,
            hdr.packet.ipv4.reserved, hdr.packet.ipv4.df, hdr.packet.ipv4.mf, hdr.packet.ipv4.offset,
            hdr.packet.ipv4.ttl, hdr.packet.ipv4.proto, hdr.packet.ipv4.src, hdr.packet.ipv4.dst,
            hdr.packet.ipv4_options.bytes
        }, hdr.packet.ipv4.checksum, HashAlgorithm.csum16);
    }
}

// The IP header of a report. UDP has no checksum there: it would have to cover bytes that
// truncate() takes away later.
control IntComputeChecksum(inout int_headers_t hdr, inout int_metadata_t md) {
    apply {
        update_checksum(hdr.report.ipv4.isValid(), {
            hdr.report.ipv4.version, hdr.report.ipv4.ihl, hdr.report.ipv4.dscp, hdr.report.ipv4.ecn,
            hdr.report.ipv4.len, hdr.report.ipv4.id,
            hdr.report.ipv4.reserved, hdr.report.ipv4.df, hdr.report.ipv4.mf, hdr.report.ipv4.offset,
            hdr.report.ipv4.ttl, hdr.report.ipv4.proto, hdr.report.ipv4.src, hdr.report.ipv4.dst
        }, hdr.report.ipv4.checksum, HashAlgorithm.csum16);
    }
}
