// SPDX-License-Identifier: Apache-2.0
//
// What a packet is to INT: whether it bears INT of this domain, and if not, whether it could.

// Words that a hop adds for a bitmap: one for each bit, and a second for those with 64 bits.
bit<8> one_each(in bit<16> i) {
    return (bit<8>)i[15:15] + (bit<8>)i[14:14] + (bit<8>)i[13:13] + (bit<8>)i[12:12] +
        (bit<8>)i[11:11] + (bit<8>)i[10:10] + (bit<8>)i[9:9] + (bit<8>)i[8:8] +
        (bit<8>)i[7:7] + (bit<8>)i[6:6] + (bit<8>)i[5:5] + (bit<8>)i[4:4] +
        (bit<8>)i[3:3] + (bit<8>)i[2:2] + (bit<8>)i[1:1] + (bit<8>)i[0:0];
}

bit<8> words_of(in bit<16> i) { // INT 2.1: times and level-2 ports
    return one_each(i) + (bit<8>)i[11:11] + (bit<8>)i[10:10] + (bit<8>)i[9:9];
}

bit<8> words_of10(in bit<16> i) { // INT 1.0: level-2 ports
    return one_each(i) + (bit<8>)i[9:9];
}

// Addresses and ports, of IPv4 and IPv6 alike.
control IntFlow(inout int_packet_t pkt, inout int_metadata_t md) {
    apply {
        if (pkt.ipv4.isValid()) {
            md.src = (bit<128>)pkt.ipv4.src | 0xffff00000000;
            md.dst = (bit<128>)pkt.ipv4.dst | 0xffff00000000;
            md.proto = pkt.ipv4.proto;
            md.packet_dscp = pkt.ipv4.dscp;
        } else if (pkt.ipv6.isValid()) {
            md.src = pkt.ipv6.src;
            md.dst = pkt.ipv6.dst;
            md.proto = pkt.ipv6.proto;
            md.packet_dscp = pkt.ipv6.dscp;
        }
        if (pkt.tcp.isValid()) {
            md.sport = pkt.tcp.sport;
            md.dport = pkt.tcp.dport;
        } else if (pkt.udp.isValid()) {
            md.sport = pkt.udp.sport;
            md.dport = pkt.udp.dport;
        }
    }
}

// A packet that bears INT belongs to the flow that it had before: a node that hashes on ports
// sends marked packets where it sends unmarked ones.
control IntTrueFlow(inout int_packet_t pkt, inout int_metadata_t md) {
    apply {
        if (pkt.shim.isValid() && pkt.shim.npt == NPT_PORT) {
            md.dport = pkt.shim.original;
        } else if (pkt.shim.isValid() && pkt.shim.npt == NPT_UDP) {
            md.proto = pkt.shim.original[7:0];
            if (pkt.inner_tcp.isValid()) {
                md.sport = pkt.inner_tcp.sport;
                md.dport = pkt.inner_tcp.dport;
            }
        }
    }
}

// Sets skip if the packet cannot be marked, whatever the watchlist says.
control IntMarkable(inout int_headers_t hdr, inout int_metadata_t md,
                    inout standard_metadata_t standard) {
    apply {
        bit<32> frame = 14 + (bit<32>)md.ip_len;
        if (hdr.vlan[0].isValid()) {
            frame = frame + 4;
        }
        if (hdr.vlan[1].isValid()) {
            frame = frame + 4;
        }
        md.ip_bytes = md.ip_len;
        if (standard.packet_length < frame) {
            md.ip_bytes = (bit<16>)(standard.packet_length + (bit<32>)md.ip_len - frame);
        }

        if (standard.parser_error != error.NoError || standard.packet_length < frame) {
            md.skip = SKIP_TOO_SHORT;
        } else if (!hdr.packet.ipv4.isValid() && !hdr.packet.ipv6.isValid()) {
            md.skip = SKIP_NOT_IP;
        } else if (hdr.packet.ipv4.isValid() && standard.checksum_error == 1) {
            md.skip = SKIP_BAD_CHECKSUM;
        } else if (hdr.packet.ipv4.isValid() &&
                   (hdr.packet.ipv4.mf == 1 || hdr.packet.ipv4.offset != 0) ||
                   hdr.packet.ipv6.isValid() && hdr.packet.ipv6.proto == PROTO_FRAGMENT) {
            md.skip = SKIP_FRAGMENT;
        } else if (hdr.packet.ipv6.isValid() &&
                   (md.proto == 0 || md.proto == 43 || md.proto == 51 || md.proto == 60)) {
            md.skip = SKIP_EXTENSION;
        } else if (md.proto != PROTO_TCP && md.proto != PROTO_UDP) {
            md.skip = SKIP_NOT_TCP_UDP;
        } else if (hdr.packet.udp.isValid() && hdr.packet.udp.len != md.l4_len ||
                   hdr.packet.udp.isValid() && hdr.packet.udp.len < 8 ||
                   hdr.packet.tcp.isValid() && (hdr.packet.tcp.offset < 5 ||
                       ((bit<16>)hdr.packet.tcp.offset << 2) > md.l4_len) ||
                   !hdr.packet.tcp.isValid() && !hdr.packet.udp.isValid()) {
            md.skip = SKIP_BAD_LENGTH;
        } else if (hdr.packet.tcp.isValid() && hdr.packet.tcp.checksum == 0xffff) {
            // The other form of 0, which no sender writes: it would come back as 0.
            md.skip = SKIP_BAD_CHECKSUM;
        }
    }
}

// Sets bears if the packet has the mark of the domain and a whole INT header of a known version
// whose lengths agree with each other, with the bitmap and with the packet.
control IntRecognise(inout int_packet_t pkt, inout int_metadata_t md) {
    apply {
        bit<1> by_dscp = 0;
        bit<1> by_port = 0;
        if (md.dscp_mask != 0 && ((md.packet_dscp ^ md.dscp) & md.dscp_mask) == 0) {
            by_dscp = 1;
        }
        if (md.int_port != 0 && pkt.udp.isValid() && pkt.udp.dport == md.int_port) {
            by_port = 1;
        }

        bit<1> marked = by_dscp | by_port;
        bit<1> whole = 0;
        if (pkt.shim.isValid()) {
            // The mark that was found is the one that the sink would take away.
            marked = pkt.shim.npt == NPT_DSCP ? by_dscp :
                (pkt.shim.npt == NPT_PORT || pkt.shim.npt == NPT_UDP ? by_port : 1w0);
        }
        if (pkt.shim.isValid() && pkt.md.isValid()) {
            bit<8> words = words_of(pkt.md.instructions);
            if (pkt.md.ds_instructions == 0) {
                // No words but those of the bitmap, hop by hop.
                whole = (bit<1>)(pkt.md.hop_ml != 0 && (bit<8>)pkt.md.hop_ml == words && md.words == 0);
            } else {
                whole = (bit<1>)(pkt.md.domain != 0 && pkt.md.hop_ml != 0 && (bit<8>)pkt.md.hop_ml >= words);
            }
        } else if (pkt.shim.isValid() && pkt.mx.isValid()) {
            whole = (bit<1>)(md.words == 0 || pkt.mx.ds_instructions != 0 && pkt.mx.domain != 0);
        } else if (pkt.shim10.isValid() && pkt.md10.isValid()) {
            marked = by_dscp;
            whole = (bit<1>)(pkt.md10.hop_ml != 0 && md.words == 0 &&
                (bit<8>)pkt.md10.hop_ml == words_of10(pkt.md10.instructions));
        }

        if (marked == 1 && whole == 1 && md.skip == SKIP_NONE) {
            md.bears = 1;
        } else if ((by_dscp | by_port) == 1 && md.role_in == ROLE_INSIDE && md.skip == SKIP_NONE) {
            md.skip = SKIP_NOT_INT; // outside, a DSCP or a port may mean something else
        } else if (pkt.shim.isValid() || pkt.shim10.isValid()) {
            // INT of somebody else, or data that looks like it. There is no place for a second one.
            md.skip = md.skip == SKIP_NONE ? SKIP_FOREIGN : md.skip;
        }
    }
}
