// SPDX-License-Identifier: Apache-2.0
//
// The source: which packets get INT, and how it is put in.

// The watchlist (INT 2.1, "Flow Watchlist"). It is asked about packets that come in without INT.
control IntWatch(inout int_packet_t pkt, inout int_metadata_t md,
                 inout standard_metadata_t standard) {
    @name(".int.watched")
    direct_counter(CounterType.packets) watched;

    // remaining: nodes that may add to the stack, this one among them. sample: one packet in so
    // many, 0 and 1 are all.
    @name(".int.watch_md")
    action watch_md(bit<16> instructions, bit<16> domain, bit<8> remaining, bit<32> sample) {
        md.mode = MODE_MD;
        md.instructions = instructions;
        md.domain = domain;
        md.remaining = remaining;
        md.sample = sample;
    }

    @name(".int.watch_md10")
    action watch_md10(bit<16> instructions, bit<8> remaining, bit<32> sample) {
        md.mode = MODE_MD10;
        md.instructions = instructions;
        md.remaining = remaining;
        md.sample = sample;
    }

    @name(".int.watch_mx")
    action watch_mx(bit<16> instructions, bit<16> domain, bit<32> sample) {
        md.mode = MODE_MX;
        md.instructions = instructions;
        md.domain = domain;
        md.sample = sample;
    }

    @name(".int.watch_xd")
    action watch_xd(bit<16> instructions, bit<16> domain, bit<32> sample) {
        md.mode = MODE_XD;
        md.instructions = instructions;
        md.domain = domain;
        md.sample = sample;
    }

    // For exceptions before a wider entry.
    @name(".int.ignore")
    action ignore() {
        md.mode = MODE_NONE;
    }

    @name(".int.watchlist")
    table watchlist {
        key = {
            standard.ingress_port: ternary @name("ingress_port");
            md.src: ternary @name("src");
            md.dst: ternary @name("dst");
            md.proto: ternary @name("proto");
            md.sport: ternary @name("sport");
            md.dport: ternary @name("dport");
            md.packet_dscp: ternary @name("dscp");
        }
        actions = { watch_md; watch_md10; watch_mx; watch_xd; ignore; }
        const default_action = ignore();
        counters = watched;
        size = 1024;
    }

    // All nodes choose the same packets: a hash over what no node changes. For the same reason
    // it has neither DSCP nor TTL.
    action pick(in bit<16> id, in bit<32> seq, in bit<32> ack, in bit<16> sum, out bit<32> number) {
        hash(number, HashAlgorithm.crc32, 32w0, {
            md.src, md.dst, md.proto, md.sport, md.dport, id, seq, ack, sum
        }, md.sample);
    }

    apply {
        watchlist.apply();
        if (md.mode == MODE_NONE) {
            md.skip = SKIP_NOT_WATCHED;
        } else if (md.mode != MODE_XD && md.role_in != ROLE_EDGE) {
            md.mode = MODE_NONE;
            md.skip = SKIP_NOT_SOURCE;
        } else if (md.instructions == 0) {
            md.mode = MODE_NONE;
            md.skip = SKIP_NO_INSTRUCTION;
        } else {
            // What a header has that is not there is what an earlier packet left in it.
            bit<16> id = 0;
            bit<32> seq = 0;
            bit<32> ack = 0;
            bit<16> sum = 0;
            bit<32> number;
            if (pkt.ipv4.isValid()) {
                id = pkt.ipv4.id;
            }
            if (pkt.tcp.isValid()) {
                seq = pkt.tcp.seq;
                ack = pkt.tcp.ack;
                sum = pkt.tcp.checksum;
            } else if (pkt.udp.isValid()) {
                sum = pkt.udp.checksum;
            }
            pick(id, seq, ack, sum, number);
            if (number != 0) {
                md.mode = MODE_NONE;
                md.skip = SKIP_NOT_SAMPLED;
            }
        }
    }
}

// Puts the shim and the header into the packet, and marks it. IntPush adds the values, IntGrow
// the lengths.
control IntSource(inout int_packet_t pkt, inout int_metadata_t md, in bit<8> hop_words) {
    action header_md() {
        pkt.md.setValid();
        pkt.md.version = 2;
        pkt.md.discard = 0;
        pkt.md.exceeded = 0;
        pkt.md.mtu = 0;
        pkt.md.reserved = 0;
        pkt.md.hop_ml = hop_words[4:0];
        pkt.md.remaining = md.remaining - 1;
        pkt.md.instructions = md.instructions;
        pkt.md.domain = md.domain;
        pkt.md.ds_instructions = 0;
        pkt.md.ds_flags = 0;
    }

    action header_mx() {
        pkt.mx.setValid();
        pkt.mx.version = 2;
        pkt.mx.discard = 0;
        pkt.mx.reserved = 0;
        pkt.mx.instructions = md.instructions & 0xfffe; // bit 15 is not defined for MX
        pkt.mx.domain = md.domain;
        pkt.mx.ds_instructions = 0;
        pkt.mx.ds_flags = 0;
    }

    action header_md10() {
        pkt.md10.setValid();
        pkt.md10.version = 1;
        pkt.md10.replicate = 0;
        pkt.md10.copied = 0;
        pkt.md10.exceeded = 0;
        pkt.md10.mtu = 0;
        pkt.md10.reserved = 0;
        pkt.md10.hop_ml = hop_words[4:0];
        pkt.md10.remaining = md.remaining - 1;
        pkt.md10.instructions = md.instructions;
        pkt.md10.reserved2 = 0;
    }

    action shim(bit<4> kind) {
        pkt.shim.setValid();
        pkt.shim.kind = kind;
        pkt.shim.npt = NPT_DSCP;
        pkt.shim.reserved = 0;
        pkt.shim.len = 3 + hop_words;
        pkt.shim.original = (bit<16>)md.packet_dscp << 2;
    }

    action shim10() {
        pkt.shim10.setValid();
        pkt.shim10.kind = SHIM10_MD;
        pkt.shim10.reserved = 0;
        pkt.shim10.len = 3 + hop_words;
        pkt.shim10.dscp = md.packet_dscp;
        pkt.shim10.reserved2 = 0;
    }

    action mark_port() {
        pkt.shim.npt = NPT_PORT;
        pkt.shim.original = pkt.udp.dport;
        pkt.udp.dport = md.int_port;
    }

    // TCP has no port to change: a UDP header goes in front, and IP says UDP.
    action mark_tcp_by_port() {
        pkt.shim.npt = NPT_UDP;
        pkt.shim.original = (bit<16>)PROTO_TCP;
        pkt.inner_tcp = pkt.tcp;
        pkt.inner_options = pkt.tcp_options;
        pkt.tcp.setInvalid();
        pkt.tcp_options.setInvalid();
        pkt.udp.setValid();
        hash(pkt.udp.sport, HashAlgorithm.crc16, 16w0xc000,
             { md.src, md.dst, md.proto, md.sport, md.dport }, 32w0x4000);
        pkt.udp.dport = md.int_port;
        pkt.udp.len = md.l4_len + 8; // IntGrow adds the rest
        pkt.udp.checksum = 0;
        md.l4_len = md.l4_len + 8;
        md.ip_len = md.ip_len + 8;
    }

    apply {
        if (md.mode == MODE_MD10) {
            shim10();
            header_md10();
        } else if (md.mode == MODE_MX) {
            shim(SHIM_MX);
            header_mx();
        } else {
            shim(SHIM_MD);
            header_md();
        }

        if (md.dscp_mask != 0) {
            bit<6> marked = (md.packet_dscp & ~md.dscp_mask) | (md.dscp & md.dscp_mask);
            if (pkt.ipv4.isValid()) {
                pkt.ipv4.dscp = marked;
            } else {
                pkt.ipv6.dscp = marked;
            }
        } else if (pkt.udp.isValid()) {
            mark_port();
        } else {
            mark_tcp_by_port();
            if (pkt.ipv4.isValid()) {
                pkt.ipv4.proto = PROTO_UDP;
            } else {
                pkt.ipv6.proto = PROTO_UDP;
            }
        }
    }
}
