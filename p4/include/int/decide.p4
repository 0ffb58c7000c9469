// SPDX-License-Identifier: Apache-2.0
//
// What this node is for a packet: that depends on what came with it, on what the watchlist says,
// and on what is behind the egress port.

control IntDecide(in int_packet_t pkt, inout int_metadata_t md, out here_t role,
                  out bit<8> hop_words, out bit<16> more) {
    // Of a packet that bears INT.
    action transit() {
        role = HERE_TRANSIT;
        hop_words = pkt.md10.isValid() ? words_of10(md.instructions) : words_of(md.instructions);
    }

    // Of a packet that the watchlist has chosen. TCP that is marked by port gets a UDP header, too.
    action source() {
        hop_words = md.mode == MODE_MX ? 8w0 :
            (md.mode == MODE_MD10 ? words_of10(md.instructions) : words_of(md.instructions));
        more = (md.mode == MODE_MD10 ? 16w12 : 16w16) + ((bit<16>)hop_words << 2);
    }

    apply {
        role = HERE_NOTHING;
        hop_words = 0;
        more = 0;
        if (md.bears == 1) {
            md.domain = pkt.mx.isValid() ? pkt.mx.domain : (pkt.md.isValid() ? pkt.md.domain : 16w0);
            if (md.role_out == ROLE_NONE) {
                md.skip = SKIP_NO_ROLE;
            } else if (md.role_out == ROLE_EDGE) {
                role = HERE_SINK;
                md.flow = 1;
            } else if (pkt.mx.isValid()) {
                md.flow = 1; // each node reports, and leaves the packet alone
            } else {
                transit();
            }
        } else if (md.mode == MODE_XD) {
            md.flow = 1;
        } else if (md.mode != MODE_NONE) {
            source();
            bit<32> grown = (bit<32>)md.ip_len + (bit<32>)more;
            if (md.dscp_mask == 0 && pkt.tcp.isValid()) {
                grown = grown + 8;
            }
            if (md.role_out == ROLE_NONE) {
                md.skip = SKIP_NO_ROLE;
            } else if (md.role_out == ROLE_EDGE) {
                md.flow = 1; // a path of one node needs nothing in the packet
            } else if (md.mode == MODE_MD10 && md.dscp_mask == 0) {
                md.skip = SKIP_NO_DSCP;
            } else if (md.mode != MODE_MX && md.remaining == 0) {
                md.skip = SKIP_HOPS;
            } else if (grown > (bit<32>)md.mtu) {
                md.skip = SKIP_MTU;
            } else {
                role = HERE_SOURCE;
                md.flow = md.mode == MODE_MX ? 1w1 : 1w0;
            }
        }
    }
}
