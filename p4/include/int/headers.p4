// SPDX-License-Identifier: Apache-2.0
//
// Headers: of packets, of INT, and of telemetry reports.

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ether_type;
}

header vlan_t {
    bit<16> tci;
    bit<16> ether_type;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<6>  dscp;
    bit<2>  ecn;
    bit<16> len;
    bit<16> id;
    bit<1>  reserved;
    bit<1>  df;
    bit<1>  mf;
    bit<13> offset;
    bit<8>  ttl;
    bit<8>  proto;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

header ipv6_t {
    bit<4>   version;
    bit<6>   dscp;
    bit<2>   ecn;
    bit<20>  label;
    bit<16>  payload_len;
    bit<8>   proto;
    bit<8>   hop_limit;
    bit<128> src;
    bit<128> dst;
}

header tcp_t {
    bit<16> sport;
    bit<16> dport;
    bit<32> seq;
    bit<32> ack;
    bit<4>  offset;
    bit<12> flags;
    bit<16> window;
    bit<16> checksum;
    bit<16> urgent;
}

header udp_t {
    bit<16> sport;
    bit<16> dport;
    bit<16> len;
    bit<16> checksum;
}

// Options of IPv4 or TCP.
header options_t {
    varbit<320> bytes;
}

// INT 2.1, "INT over TCP/UDP". len counts the words behind the shim.
header shim_t {
    bit<4>  kind;
    bit<2>  npt;
    bit<2>  reserved;
    bit<8>  len;
    bit<16> original; // by npt: DSCP in bits 7 to 2, UDP port, or IP protocol in bits 7 to 0
}

// INT 1.0, "INT over TCP/UDP". len counts the shim, too.
header shim10_t {
    bit<8> kind;
    bit<8> reserved;
    bit<8> len;
    bit<6> dscp;
    bit<2> reserved2;
}

// INT 2.1, "INT-MD Metadata Header".
header int_md_t {
    bit<4>  version;
    bit<1>  discard;
    bit<1>  exceeded; // E: a node could not add, since remaining was 0
    bit<1>  mtu;      // M: a node could not add, since the packet would not fit
    bit<12> reserved;
    bit<5>  hop_ml;
    bit<8>  remaining;
    bit<16> instructions;
    bit<16> domain;
    bit<16> ds_instructions;
    bit<16> ds_flags;
}

// INT 2.1, "INT-MX Header".
header int_mx_t {
    bit<4>  version;
    bit<1>  discard;
    bit<27> reserved;
    bit<16> instructions;
    bit<16> domain;
    bit<16> ds_instructions;
    bit<16> ds_flags;
}

// INT 1.0, "INT Metadata Header".
header int_md10_t {
    bit<4>  version;
    bit<2>  replicate;
    bit<1>  copied;
    bit<1>  exceeded;
    bit<1>  mtu;
    bit<10> reserved;
    bit<5>  hop_ml;
    bit<8>  remaining;
    bit<16> instructions;
    bit<16> reserved2;
}

// One value of a node.
header word_t {
    bit<32> value;
}

header word2_t {
    bit<64> value;
}

// What another node has put into the packet. Its length is Hop ML.
header int_hop_t {
    varbit<992> words;
}

// What is behind the hops: words that the source alone adds, and hops beyond MOST_HOPS.
header int_rest_t {
    varbit<8160> words;
}

// What this node puts into the packet, one header for each bit of the instruction bitmap. Where
// INT 1.0 has other widths there are two.
struct int_own_t {
    word_t    node;
    word_t    ports;
    word_t    latency;
    word_t    queue;
    word2_t   ingress_time;
    word_t    ingress_time10;
    word2_t   egress_time;
    word_t    egress_time10;
    word2_t   l2_ports;
    word_t    utilisation;
    word_t    buffers;
    word_t[6] reserved;
    word_t    complement;
}

// A packet from its IP header on, which is what a report quotes. inner_tcp is a TCP header
// behind INT: the source put a UDP header in front of it.
struct int_packet_t {
    ipv4_t               ipv4;
    options_t            ipv4_options;
    ipv6_t               ipv6;
    udp_t                udp;
    tcp_t                tcp;
    options_t            tcp_options;
    shim_t               shim;
    shim10_t             shim10;
    int_md_t             md;
    int_mx_t             mx;
    int_md10_t           md10;
    int_own_t            own;
    int_hop_t[MOST_HOPS] hops;
    int_rest_t           rest;
    tcp_t                inner_tcp;
    options_t            inner_options;
}

// TR 2.0, "Telemetry Report Group Header".
header report_group_t {
    bit<4>  version;
    bit<6>  hw_id;
    bit<22> sequence;
    bit<32> node_id;
}

// TR 2.0, "Individual Report Header", and the fixed part of the main contents of RepType 1.
header report_t20_t {
    bit<4>  rep_type;
    bit<4>  in_type;
    bit<8>  len;
    bit<8>  md_len;
    bit<1>  dropped;
    bit<1>  congested;
    bit<1>  flow;
    bit<1>  intermediate;
    bit<4>  reserved;
    bit<16> md_bits;
    bit<16> domain;
    bit<16> ds_bits;
    bit<16> ds_status;
}

// TR 1.0, "Telemetry Report Header".
header report_t10_t {
    bit<4>  version;
    bit<4>  len;
    bit<3>  in_type;
    bit<6>  md_bits;
    bit<6>  reserved;
    bit<1>  dropped;
    bit<1>  congested;
    bit<1>  flow;
    bit<6>  hw_id;
    bit<32> node_id;
    bit<32> sequence;
    bit<32> ingress_time;
}

struct int_report_t {
    ipv4_t         ipv4;
    udp_t          udp;
    report_group_t group;
    report_t20_t   t20;
    report_t10_t   t10;
    word_t         ports;
    word_t         latency;
    word_t         queue;
    word2_t        ingress_time;
    word2_t        egress_time;
    word_t         egress_time10;
    word2_t        l2_ports;
    word_t         drop10; // reports have the reason in different places
    word_t         utilisation;
    word_t         drop20;
}

// Everything that INT reads and writes. A program has one of these among its headers, and
// reads its IP headers there.
struct int_headers_t {
    ethernet_t   ethernet;
    vlan_t[2]    vlan;
    int_report_t report;
    int_packet_t packet;
    // The packet as it came, for its report. A clone has the headers that egress leaves behind,
    // but these are not sent: so a report quotes INT that a sink has just taken out.
    int_packet_t kept;
}
