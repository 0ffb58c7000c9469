// SPDX-License-Identifier: Apache-2.0
//
// The sink: the packet leaves as it was before the source.

// Takes INT out, and what marked the packet. less is how many bytes it had.
control IntSink(inout int_packet_t pkt, inout int_metadata_t md, out bit<16> less) {
    action remove() {
        pkt.shim.setInvalid();
        pkt.shim10.setInvalid();
        pkt.md.setInvalid();
        pkt.mx.setInvalid();
        pkt.md10.setInvalid();
        pkt.hops.pop_front(MOST_HOPS);
        pkt.rest.setInvalid();
    }

    apply {
        bit<6> mask = 0; // of the DSCP bits to restore
        bit<6> original = 0;
        if (pkt.shim10.isValid()) {
            less = (bit<16>)pkt.shim10.len << 2;
            mask = md.dscp_mask;
            original = pkt.shim10.dscp;
        } else {
            less = 4 + ((bit<16>)pkt.shim.len << 2);
            if (pkt.shim.npt == NPT_DSCP) {
                mask = md.dscp_mask;
                original = pkt.shim.original[7:2];
            } else if (pkt.shim.npt == NPT_PORT) {
                pkt.udp.dport = pkt.shim.original;
            } else {
                pkt.udp.setInvalid(); // the source put it in front of TCP
                less = less + 8;
                if (pkt.ipv4.isValid()) {
                    pkt.ipv4.proto = pkt.shim.original[7:0];
                } else {
                    pkt.ipv6.proto = pkt.shim.original[7:0];
                }
            }
        }

        // Only the bits that mark come from the shim: others may have been changed on purpose.
        if (pkt.ipv4.isValid()) {
            pkt.ipv4.dscp = (pkt.ipv4.dscp & ~mask) | (original & mask);
        } else {
            pkt.ipv6.dscp = (pkt.ipv6.dscp & ~mask) | (original & mask);
        }
        remove();
    }
}
