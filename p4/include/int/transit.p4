// SPDX-License-Identifier: Apache-2.0
//
// What a source and a transit have in common: the values of this node on top of the stack.

// The part of IntPush of which this node knows nothing.
control IntPushUnknown(inout int_packet_t pkt, in bit<16> i) {
    apply {
        if (i[7:7] == 1) { // BMv2 shows no buffers; in INT 1.0 the bit is reserved
            pkt.own.buffers.setValid();
            pkt.own.buffers.value = UNKNOWN;
        }
        if (i[6:6] == 1) {
            pkt.own.reserved[0].setValid();
            pkt.own.reserved[0].value = UNKNOWN;
        }
        if (i[5:5] == 1) {
            pkt.own.reserved[1].setValid();
            pkt.own.reserved[1].value = UNKNOWN;
        }
        if (i[4:4] == 1) {
            pkt.own.reserved[2].setValid();
            pkt.own.reserved[2].value = UNKNOWN;
        }
        if (i[3:3] == 1) {
            pkt.own.reserved[3].setValid();
            pkt.own.reserved[3].value = UNKNOWN;
        }
        if (i[2:2] == 1) {
            pkt.own.reserved[4].setValid();
            pkt.own.reserved[4].value = UNKNOWN;
        }
        if (i[1:1] == 1) {
            pkt.own.reserved[5].setValid();
            pkt.own.reserved[5].value = UNKNOWN;
        }
        if (i[0:0] == 1) { // the checksum itself is corrected, which all ones say
            pkt.own.complement.setValid();
            pkt.own.complement.value = UNKNOWN;
        }
    }
}

// Puts the values that the bitmap asks for in front of those of other nodes, in the order of
// the bits. What this node does not know, and bits that it does not know, are all ones.
control IntPush(inout int_packet_t pkt, in int_metadata_t md) {
    IntPushUnknown() unknown;

    apply {
        bit<16> i = md.instructions;
        bool v10 = pkt.md10.isValid();
        if (i[15:15] == 1) {
            pkt.own.node.setValid();
            pkt.own.node.value = md.node_id;
        }
        if (i[14:14] == 1) {
            pkt.own.ports.setValid();
            pkt.own.ports.value = md.port_in ++ md.port_out;
        }
        if (i[13:13] == 1) {
            pkt.own.latency.setValid();
            pkt.own.latency.value = md.latency;
        }
        if (i[12:12] == 1) {
            pkt.own.queue.setValid();
            pkt.own.queue.value = md.queue;
        }
        if (i[11:11] == 1 && v10) {
            pkt.own.ingress_time10.setValid();
            pkt.own.ingress_time10.value = md.ingress_time[31:0];
        } else if (i[11:11] == 1) {
            pkt.own.ingress_time.setValid();
            pkt.own.ingress_time.value = md.ingress_time;
        }
        if (i[10:10] == 1 && v10) {
            pkt.own.egress_time10.setValid();
            pkt.own.egress_time10.value = md.egress_time[31:0];
        } else if (i[10:10] == 1) {
            pkt.own.egress_time.setValid();
            pkt.own.egress_time.value = md.egress_time;
        }
        if (i[9:9] == 1) {
            pkt.own.l2_ports.setValid();
            pkt.own.l2_ports.value = md.l2_in ++ md.l2_out;
        }
        if (i[8:8] == 1) {
            pkt.own.utilisation.setValid();
            pkt.own.utilisation.value = md.utilisation;
        }
        unknown.apply(pkt, i);
    }
}

// Adds to the lengths of IP, and of UDP if there is one. To take away, add the complement.
control IntGrow(inout int_packet_t pkt, inout int_metadata_t md, in bit<16> more) {
    apply {
        md.ip_len = md.ip_len + more;
        md.l4_len = md.l4_len + more;
        if (pkt.ipv4.isValid()) {
            pkt.ipv4.len = md.ip_len;
        } else {
            pkt.ipv6.payload_len = md.l4_len;
        }
        if (pkt.udp.isValid()) {
            pkt.udp.len = pkt.udp.len + more;
        }
    }
}

// Whether this node adds to an INT-MD header that came with the packet. What it cannot add, it
// says in the header where the specification has a place for it (E, M). more is how many bytes
// it is to add: all words or none.
control IntTransit(inout int_packet_t pkt, inout int_metadata_t md, in bit<8> hop_words,
                   out bit<16> more) {
    apply {
        bit<8> remaining = pkt.md10.isValid() ? pkt.md10.remaining : pkt.md.remaining;
        bit<8> hop_ml = pkt.md10.isValid() ? (bit<8>)pkt.md10.hop_ml : (bit<8>)pkt.md.hop_ml;
        bit<8> len = pkt.md10.isValid() ? pkt.shim10.len : pkt.shim.len;
        bit<16> grow = (bit<16>)hop_words << 2;
        more = 0;
        if (remaining == 0) {
            md.skip = SKIP_HOPS;
            if (pkt.md10.isValid()) {
                pkt.md10.exceeded = 1;
            } else {
                pkt.md.exceeded = 1;
            }
        } else if (hop_ml != hop_words) {
            md.skip = SKIP_HOP_ML; // words of a domain that this node does not know
        } else if ((bit<16>)len + (bit<16>)hop_words > 255) {
            md.skip = SKIP_STACK_FULL;
        } else if ((bit<32>)md.ip_len + (bit<32>)grow > (bit<32>)md.mtu) {
            md.skip = SKIP_MTU;
            if (pkt.md10.isValid()) {
                pkt.md10.mtu = 1;
            } else {
                pkt.md.mtu = 1;
            }
        } else if (pkt.md10.isValid()) {
            pkt.md10.remaining = remaining - 1;
            pkt.shim10.len = len + hop_words;
            more = grow;
        } else {
            pkt.md.remaining = remaining - 1;
            pkt.shim.len = len + hop_words;
            more = grow;
        }
    }
}
