// SPDX-License-Identifier: Apache-2.0
//
// The parser. It takes whatever has the form of INT for INT: whether the packet bears the mark
// of the domain, and whether the header is true, IntRecognise decides. What is not INT after
// all leaves as it came, since headers are sent in the order in which they were parsed.
//
// An error ends parsing. Headers that were whole until then are valid, the rest is payload.

// One hop of a stack: its words, and what suppression of reports wants to know of them.
parser IntHopParser(packet_in packet, inout int_packet_t pkt, inout int_metadata_t md) {
    state start {
        transition select(md.instructions[15:12]) {
            0xf: values;
            0x8 &&& 0x8: node;
            default: words;
        }
    }

    // Node, ports, latency and queue are asked for, so they are the first four words.
    state values {
        md.hop_form = packet.lookahead<bit<128>>();
        md.path = md.path * 31 + md.hop_form[127:96];
        md.path_latency = md.path_latency |+| (md.hop_form[63:32] == UNKNOWN ? 0 : md.hop_form[63:32]);
        md.path_queue = md.hop_form[31:0] != UNKNOWN && md.hop_form[23:0] > md.path_queue[23:0] ?
            md.hop_form[31:0] : md.path_queue;
        transition words;
    }

    state node {
        md.hop_node = packet.lookahead<bit<32>>();
        md.path = md.path * 31 + md.hop_node;
        transition words;
    }

    state words {
        packet.extract(pkt.hops.next, (bit<32>)md.hop_words << 5);
        md.hops = md.hops + 1;
        md.words = md.words - md.hop_words;
        transition accept;
    }
}

// INT behind the header of TCP or UDP. md.left is how many bytes of payload there are.
parser IntOverL4Parser(packet_in packet, inout int_packet_t pkt, inout int_metadata_t md) {
    IntHopParser() hop;

    state start {
        md.go_on = (bit<1>)(md.left >= 12); // the shortest: shim and header of 1.0
        transition select(md.go_on) {
            1: form;
            default: accept;
        }
    }

    state form {
        md.form = packet.lookahead<bit<64>>();
        transition select(md.form[63:56], md.form[31:28]) { // type, version
            (0x10 &&& 0xf0, 2): length;
            (0x30 &&& 0xf0, 2): length;
            (SHIM10_MD, 1): length10;
            default: accept;
        }
    }

    // A length that the packet has no room for is nobody's.
    state length {
        md.words = md.form[55:48];
        md.go_on = (bit<1>)(md.words >= 3 && 4 + ((bit<16>)md.words << 2) <= md.left);
        transition select(md.go_on) {
            1: shim;
            default: accept;
        }
    }

    state shim {
        packet.extract(pkt.shim);
        md.tcp_inside = (bit<1>)(pkt.shim.npt == NPT_UDP && pkt.shim.original[7:0] == PROTO_TCP);
        md.left = md.left - 4 - ((bit<16>)md.words << 2);
        md.words = md.words - 3;
        transition select(pkt.shim.kind) {
            SHIM_MD: header_md;
            default: header_mx;
        }
    }

    state header_md {
        packet.extract(pkt.md);
        md.instructions = pkt.md.instructions;
        md.hop_words = (bit<8>)pkt.md.hop_ml;
        transition hops;
    }

    state header_mx {
        packet.extract(pkt.mx);
        md.instructions = pkt.mx.instructions;
        transition rest;
    }

    state length10 {
        md.words = md.form[47:40];
        md.go_on = (bit<1>)(md.words >= 3 && ((bit<16>)md.words << 2) <= md.left);
        transition select(md.go_on) {
            1: shim10;
            default: accept;
        }
    }

    state shim10 {
        packet.extract(pkt.shim10);
        packet.extract(pkt.md10);
        md.instructions = pkt.md10.instructions;
        md.hop_words = (bit<8>)pkt.md10.hop_ml;
        md.words = md.words - 3;
        transition hops;
    }

    state hops {
        md.go_on = (bit<1>)(md.hop_words != 0 && md.words >= md.hop_words && md.hops < MOST_HOPS);
        transition select(md.go_on) {
            1: one_hop;
            default: rest;
        }
    }

    state one_hop {
        hop.apply(packet, pkt, md);
        transition hops;
    }

    state rest {
        transition select(md.words) {
            0: behind;
            default: rest_words;
        }
    }

    state rest_words {
        packet.extract(pkt.rest, (bit<32>)md.words << 5);
        transition count;
    }

    // Hops beyond MOST_HOPS are only counted: what is left then is no whole hop.
    state count {
        md.go_on = (bit<1>)(md.hop_words != 0 && md.words >= md.hop_words);
        transition select(md.go_on) {
            1: count_one;
            default: behind;
        }
    }

    state count_one {
        md.hops = md.hops + 1;
        md.words = md.words - md.hop_words;
        transition count;
    }

    // A UDP header that the source put in front of TCP: the flow's ports are behind INT.
    state behind {
        md.go_on = (bit<1>)(md.tcp_inside == 1 && md.left >= 20);
        transition select(md.go_on) {
            1: inner;
            default: accept;
        }
    }

    state inner {
        packet.extract(pkt.inner_tcp);
        transition accept;
    }
}

parser IntParser(packet_in packet, out int_headers_t hdr, inout int_metadata_t md) {
    IntOverL4Parser() over_l4;

    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHER_VLAN: outer_tag;
            ETHER_QINQ: outer_tag;
            ETHER_IPV4: ipv4;
            ETHER_IPV6: ipv6;
            default: accept;
        }
    }

    state outer_tag {
        packet.extract(hdr.vlan[0]);
        transition select(hdr.vlan[0].ether_type) {
            ETHER_VLAN: inner_tag;
            ETHER_IPV4: ipv4;
            ETHER_IPV6: ipv6;
            default: accept;
        }
    }

    state inner_tag {
        packet.extract(hdr.vlan[1]);
        transition select(hdr.vlan[1].ether_type) {
            ETHER_IPV4: ipv4;
            ETHER_IPV6: ipv6;
            default: accept;
        }
    }

    // What is behind the header of a fragment is not looked at, not even of the first: all
    // fragments of a packet take one path.
    state ipv4 {
        packet.extract(hdr.packet.ipv4);
        md.ip_len = hdr.packet.ipv4.len;
        md.l4_len = hdr.packet.ipv4.len |-| ((bit<16>)hdr.packet.ipv4.ihl << 2);
        transition select(hdr.packet.ipv4.version, hdr.packet.ipv4.ihl, hdr.packet.ipv4.mf,
                          hdr.packet.ipv4.offset) {
            (4, 5, 0, 0): ipv4_l4;
            (4, 6 &&& 14, 0, 0): ipv4_options;
            (4, 8 &&& 8, 0, 0): ipv4_options;
            default: accept;
        }
    }

    state ipv4_options {
        packet.extract(hdr.packet.ipv4_options, ((bit<32>)hdr.packet.ipv4.ihl - 5) << 5);
        transition ipv4_l4;
    }

    state ipv4_l4 {
        md.left = md.l4_len;
        transition select(hdr.packet.ipv4.proto) {
            PROTO_TCP: tcp;
            PROTO_UDP: udp;
            default: accept;
        }
    }

    state ipv6 {
        packet.extract(hdr.packet.ipv6);
        md.ip_len = hdr.packet.ipv6.payload_len |+| 40;
        md.l4_len = hdr.packet.ipv6.payload_len;
        md.left = md.l4_len;
        transition select(hdr.packet.ipv6.version, hdr.packet.ipv6.proto) {
            (6, PROTO_TCP): tcp;
            (6, PROTO_UDP): udp;
            default: accept;
        }
    }

    state tcp {
        packet.extract(hdr.packet.tcp);
        md.left = md.left |-| ((bit<16>)hdr.packet.tcp.offset << 2);
        transition select(hdr.packet.tcp.offset) {
            5: over_l4_header;
            6 &&& 14: tcp_options;
            8 &&& 8: tcp_options;
            default: accept;
        }
    }

    state tcp_options {
        packet.extract(hdr.packet.tcp_options, ((bit<32>)hdr.packet.tcp.offset - 5) << 5);
        transition over_l4_header;
    }

    state udp {
        packet.extract(hdr.packet.udp);
        md.left = hdr.packet.udp.len |-| 8;
        transition over_l4_header;
    }

    // Headers are not valid before they are extracted, which the compiler does not see.
    @noWarn("uninitialized-use")
    state over_l4_header {
        over_l4.apply(packet, hdr.packet, md);
        transition accept;
    }
}

// Headers in the order of the wire. hdr.kept is not among them.
control IntDeparser(packet_out packet, in int_headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.vlan);
        packet.emit(hdr.report);
        packet.emit(hdr.packet);
    }
}
