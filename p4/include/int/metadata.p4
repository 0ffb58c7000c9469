// SPDX-License-Identifier: Apache-2.0
//
// What the parts of INT tell each other about a packet. Fields of list 1 go with the clone that
// becomes a report: BMv2 copies nothing else.

#define INT_FIELDS 1

struct int_metadata_t {
    // Settings of the node (table int.settings). Without them active is 0, and nothing is done.
    bit<1>               active;
    @field_list(INT_FIELDS)
    bit<32>              node_id;
    @field_list(INT_FIELDS)
    bit<6>               hw_id;
    bit<6>               dscp;        // what marks a packet with INT, under dscp_mask
    bit<6>               dscp_mask;   // 0: packets are marked by port instead
    bit<16>              int_port;    // UDP port that marks a packet with INT; 0: none does
    bit<16>              report_port; // UDP port of telemetry reports
    bit<32>              session;     // clone session of reports; 0: no reports
    bit<1>               report_drops;
    bit<48>              drop_interval; // us

    // Settings of the ports, and of the entry of the watchlist.
    role_t               role_in;
    role_t               role_out;
    bit<1>               drop_foreign;
    bit<16>              mtu;          // of IP packets at the egress port
    bit<24>              congested_at; // packets in the queue from which on it is reported; 0: never
    mode_t               mode;
    @field_list(INT_FIELDS)
    bit<16>              instructions;
    @field_list(INT_FIELDS)
    bit<16>              domain;
    bit<8>               remaining;
    bit<32>              sample;       // one in so many

    // The packet.
    bit<128>             src;          // IPv4: ::ffff:a.b.c.d
    bit<128>             dst;
    bit<8>               proto;
    bit<16>              sport;
    bit<16>              dport;
    bit<6>               packet_dscp;
    bit<16>              ip_len;       // bytes of the IP packet, by its header
    bit<16>              l4_len;       // bytes behind the IP header and its options
    @field_list(INT_FIELDS)
    bit<16>              ip_bytes;     // the same as ip_len, but no more than the frame has
    bit<1>               bears;        // 1: INT of this domain, whole
    skip_t               skip;

    // INT in the packet, as the parser found it.
    bit<16>              left;         // bytes of payload, by the header before it
    bit<64>              form;         // shim and first word of the header
    bit<8>               words;        // of the stack, not yet given to a hop
    bit<8>               hop_words;
    bit<8>               hops;
    bit<1>               tcp_inside;   // 1: a UDP header was put in front of TCP
    bit<1>               go_on;
    bit<128>             hop_form;     // the first four words of a hop
    bit<32>              hop_node;     // the first
    bit<32>              path;         // digest of node ids
    bit<32>              path_latency; // sum, ns
    bit<32>              path_queue;   // the fullest

    // What this node knows of the packet's stay.
    @field_list(INT_FIELDS)
    bit<16>              port_in;
    @field_list(INT_FIELDS)
    bit<16>              port_out;
    @field_list(INT_FIELDS)
    bit<32>              l2_in;
    @field_list(INT_FIELDS)
    bit<32>              l2_out;
    @field_list(INT_FIELDS)
    bit<32>              latency;      // ns
    @field_list(INT_FIELDS)
    bit<32>              queue;        // id in the first byte, packets in the others
    @field_list(INT_FIELDS)
    bit<64>              ingress_time; // ns
    @field_list(INT_FIELDS)
    bit<64>              egress_time;
    @field_list(INT_FIELDS)
    bit<32>              utilisation;  // kbit/s

    // The report.
    @field_list(INT_FIELDS)
    report_t             report;
    @field_list(INT_FIELDS)
    bit<1>               flow;
    @field_list(INT_FIELDS)
    bit<1>               congested;
    @field_list(INT_FIELDS)
    bit<1>               intermediate;
    bit<1>               dropped;      // 1: ingress drops the packet, for drop_reason
    @field_list(INT_FIELDS)
    drop_t               drop_reason;
}
