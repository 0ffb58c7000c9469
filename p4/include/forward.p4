// SPDX-License-Identifier: Apache-2.0
//
// Forwarding, so that a network of these switches needs no other program: bridging by MAC,
// routing by longest prefix, several paths by a hash of the flow. It answers no ARP and sends no
// ICMP: hosts have static neighbours, or are bridged.

const drop_t DROP_TTL = 41;
const drop_t DROP_CHECKSUM = 45;
const drop_t DROP_IPV4_MISS = 51;
const drop_t DROP_IPV6_MISS = 52;
const drop_t DROP_BLACKHOLE = 53;
const drop_t DROP_L2_MISS = 89;
const drop_t DROP_NEXT_HOP = 93;

control Forward(inout int_headers_t hdr, inout int_metadata_t md,
                inout standard_metadata_t standard) {
    @name(".forward.acl_hits")
    direct_counter(CounterType.packets) acl_hits;

    bit<1>  routed = 0;
    bit<16> next_hop = 0;
    bit<16> group = 0;
    bit<16> members = 0;
    bit<16> member = 0;

    action drop_with(drop_t reason) {
        md.dropped = 1;
        md.drop_reason = reason;
    }

    @name(".forward.permit")
    action permit() { }

    @name(".forward.deny")
    action deny() {
        drop_with(DROP_ACL);
    }

    @name(".forward.acl")
    table acl {
        key = {
            standard.ingress_port: ternary @name("ingress_port");
            md.src: ternary @name("src");
            md.dst: ternary @name("dst");
            md.proto: ternary @name("proto");
            md.sport: ternary @name("sport");
            md.dport: ternary @name("dport");
        }
        actions = { permit; deny; }
        const default_action = permit();
        counters = acl_hits;
        size = 1024;
    }

    // What goes to an address of the switch is routed, all else is bridged.
    @name(".forward.route")
    action route() {
        routed = 1;
    }

    @name(".forward.bridge")
    action bridge() { }

    @name(".forward.own_macs")
    table own_macs {
        key = { hdr.ethernet.dst: exact @name("mac"); }
        actions = { route; bridge; }
        const default_action = bridge();
        size = PORTS;
    }

    @name(".forward.to_port")
    action to_port(bit<9> port) {
        standard.egress_spec = port;
    }

    // The port at which the frame came in gets no copy (Prune).
    @name(".forward.flood")
    action flood(bit<16> multicast_group) {
        standard.mcast_grp = multicast_group;
    }

    @name(".forward.no_mac")
    action no_mac() {
        drop_with(DROP_L2_MISS);
    }

    @name(".forward.macs")
    table macs {
        key = { hdr.ethernet.dst: exact @name("mac"); }
        actions = { to_port; flood; no_mac; }
        default_action = no_mac();
        size = 4096;
    }

    @name(".forward.via")
    action via(bit<16> hop) {
        next_hop = hop;
    }

    // One of several next hops, the same for all packets of a flow.
    @name(".forward.balance")
    action balance(bit<16> ecmp_group, bit<16> size) {
        group = ecmp_group;
        members = size;
    }

    @name(".forward.blackhole")
    action blackhole() {
        drop_with(DROP_BLACKHOLE);
    }

    @name(".forward.no_route4")
    action no_route4() {
        drop_with(DROP_IPV4_MISS);
    }

    @name(".forward.no_route6")
    action no_route6() {
        drop_with(DROP_IPV6_MISS);
    }

    @name(".forward.ipv4_routes")
    table ipv4_routes {
        key = { hdr.packet.ipv4.dst: lpm @name("dst"); }
        actions = { via; balance; blackhole; no_route4; }
        const default_action = no_route4();
        size = 4096;
    }

    @name(".forward.ipv6_routes")
    table ipv6_routes {
        key = { hdr.packet.ipv6.dst: lpm @name("dst"); }
        actions = { via; balance; blackhole; no_route6; }
        const default_action = no_route6();
        size = 4096;
    }

    @name(".forward.no_member")
    action no_member() {
        drop_with(DROP_NEXT_HOP);
    }

    @name(".forward.ecmp")
    table ecmp {
        key = {
            group: exact @name("group");
            member: exact @name("member");
        }
        actions = { via; no_member; }
        const default_action = no_member();
        size = 1024;
    }

    @name(".forward.send")
    action send(bit<9> port, bit<48> src_mac, bit<48> dst_mac) {
        standard.egress_spec = port;
        hdr.ethernet.src = src_mac;
        hdr.ethernet.dst = dst_mac;
    }

    @name(".forward.no_next_hop")
    action no_next_hop() {
        drop_with(DROP_NEXT_HOP);
    }

    @name(".forward.next_hops")
    table next_hops {
        key = { next_hop: exact @name("next_hop"); }
        actions = { send; no_next_hop; }
        const default_action = no_next_hop();
        size = 1024;
    }

    // The node's id is in the hash: else each switch on a path would choose like the one before.
    action choose() {
        hash(member, HashAlgorithm.crc16, 16w0,
             { md.node_id, md.src, md.dst, md.proto, md.sport, md.dport }, members);
    }

    action lower_ttl() {
        hdr.packet.ipv4.ttl = hdr.packet.ipv4.ttl - 1;
        hdr.packet.ipv4.checksum = add_ones(hdr.packet.ipv4.checksum, 0x0100);
    }

    apply {
        acl.apply();
        if (md.dropped == 0) {
            own_macs.apply();
            if (routed == 0) {
                macs.apply();
            } else if (hdr.packet.ipv4.isValid()) {
                if (standard.checksum_error == 1) {
                    drop_with(DROP_CHECKSUM);
                } else if (hdr.packet.ipv4.ttl <= 1) {
                    drop_with(DROP_TTL);
                } else {
                    ipv4_routes.apply();
                }
            } else if (hdr.packet.ipv6.isValid()) {
                if (hdr.packet.ipv6.hop_limit <= 1) {
                    drop_with(DROP_TTL);
                } else {
                    ipv6_routes.apply();
                }
            } else {
                drop_with(DROP_L2_MISS);
            }
        }
        if (md.dropped == 0 && routed == 1) {
            if (members != 0) {
                choose();
                ecmp.apply();
            }
            if (md.dropped == 0) {
                next_hops.apply();
            }
            if (md.dropped == 0 && hdr.packet.ipv4.isValid()) {
                lower_ttl();
            } else if (md.dropped == 0) {
                hdr.packet.ipv6.hop_limit = hdr.packet.ipv6.hop_limit - 1;
            }
        }
    }
}
