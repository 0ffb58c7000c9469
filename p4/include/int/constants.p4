// SPDX-License-Identifier: Apache-2.0
//
// Numbers that the control plane sees, and those of the wire. docs/p4.md explains each.

// Numbers of the counter int.skipped: why a packet got nothing from this node. A number is
// never reused.
typedef bit<8> skip_t;
const skip_t SKIP_NONE = 0;
const skip_t SKIP_NOT_WATCHED = 1;    // no entry of the watchlist matches
const skip_t SKIP_NOT_SAMPLED = 2;    // the entry wants one packet in N, and this is another one
const skip_t SKIP_NOT_IP = 3;         // neither IPv4 nor IPv6, or more than two VLAN tags
const skip_t SKIP_NOT_TCP_UDP = 4;    // INT lies behind TCP or UDP
const skip_t SKIP_FRAGMENT = 5;       // the receiver would put INT into its data
const skip_t SKIP_EXTENSION = 6;      // IPv6 extension headers are not followed
const skip_t SKIP_TOO_SHORT = 7;      // the frame ends inside a header, or before the IP packet does
const skip_t SKIP_BAD_LENGTH = 8;     // the lengths of IP and UDP, or of TCP, contradict each other
const skip_t SKIP_BAD_CHECKSUM = 9;   // IPv4's is wrong, or a sum that cannot be restored
const skip_t SKIP_REPORT = 10;        // a telemetry report: INT does not measure itself
const skip_t SKIP_FOREIGN = 11;       // came in from outside with INT
const skip_t SKIP_NOT_INT = 12;       // bears the mark, but no whole INT header
const skip_t SKIP_MTU = 13;           // would not fit the egress MTU
const skip_t SKIP_HOPS = 14;          // the remaining hop count was 0; the packet has E now
const skip_t SKIP_HOP_ML = 15;        // words are asked for that this program does not know
const skip_t SKIP_STACK_FULL = 16;    // the shim's Length would not hold the new words
const skip_t SKIP_NO_ROLE = 17;       // the egress port has none, and INT must not leak through it
const skip_t SKIP_NOT_SOURCE = 18;    // watched, but not at the port at which INT begins
const skip_t SKIP_NO_INSTRUCTION = 19; // the watchlist's entry asks for nothing
const skip_t SKIP_NO_DSCP = 20;       // INT 1.0 is marked by DSCP alone

// Numbers of the counter int.done: what this node did.
typedef bit<8> done_t;
const done_t DONE_SOURCE = 0;     // packets into which INT was put
const done_t DONE_TRANSIT = 1;    // packets that got one more hop
const done_t DONE_SINK = 2;       // packets whose INT was taken out
const done_t DONE_FLOW = 3;       // reports of tracked flows (INT-MD at the sink, INT-MX, INT-XD)
const done_t DONE_QUEUE = 4;      // reports of congestion
const done_t DONE_SUPPRESSED = 5; // reports left out because nothing changed
const done_t DONE_DISCARDED = 6;  // packets whose header asked the sink to discard them (D)
const done_t DONE_SENT = 7;       // reports on their way to a collector, drop reports among them
const done_t DONE_NO_COLLECTOR = 8; // reports that left by a port for which none is named

// What the watchlist asks for.
typedef bit<3> mode_t;
const mode_t MODE_NONE = 0;
const mode_t MODE_MD = 1;   // INT-MD 2.1: instructions and values in the packet
const mode_t MODE_MX = 2;   // INT-MX 2.1: instructions in the packet, values in reports
const mode_t MODE_XD = 3;   // INT-XD: nothing in the packet
const mode_t MODE_MD10 = 4; // INT 1.0, which knows only the first

// Roles of a port. Another switch can have others: nothing here is true of the whole network.
typedef bit<2> role_t;
const role_t ROLE_NONE = 0;
const role_t ROLE_EDGE = 1;   // the outside begins here: source for what comes in, sink for what goes out
const role_t ROLE_INSIDE = 2; // a node of the same INT domain is behind it: transit

// What a node is to do to a packet that it sends.
typedef bit<2> here_t;
const here_t HERE_NOTHING = 0; // a report at most
const here_t HERE_SOURCE = 1;
const here_t HERE_TRANSIT = 2;
const here_t HERE_SINK = 3;

// What a clone is to become.
typedef bit<2> report_t;
const report_t REPORT_NONE = 0;
const report_t REPORT_EGRESS = 1; // of a packet that goes on
const report_t REPORT_DROP = 2;   // of a packet that this node drops

// A reason of a drop: a number of Open P4 Studio's switch-p4-16, which radar's other reports use,
// too. A program that drops for other reasons names them itself, as forward.p4 does.
typedef bit<8> drop_t;
const drop_t DROP_ACL = 80;

const bit<16> ETHER_IPV4 = 0x0800;
const bit<16> ETHER_IPV6 = 0x86dd;
const bit<16> ETHER_VLAN = 0x8100;
const bit<16> ETHER_QINQ = 0x88a8;
const bit<8> PROTO_TCP = 6;
const bit<8> PROTO_UDP = 17;
const bit<8> PROTO_FRAGMENT = 44; // IPv6

// Shim types (INT 2.1, "INT over TCP/UDP"; INT 1.0 has eight bits for them, 2.1 four).
const bit<4> SHIM_MD = 1;
const bit<4> SHIM_MX = 3;
const bit<8> SHIM10_MD = 1;

// Next protocol types of the shim: how the packet is marked, so what the sink has to restore.
const bit<2> NPT_DSCP = 0;
const bit<2> NPT_PORT = 1; // the UDP port is in the shim
const bit<2> NPT_UDP = 2;  // the source put a UDP header in front; the IP protocol is in the shim

// A value that a node does not know (INT 2.1, "INT Metadata"). Never 0.
const bit<32> UNKNOWN = 0xffffffff;
const bit<32> MOST_LATENCY = 0xfffffffe; // longer than the field: as near as it gets

// Bits of the instruction bitmap that reports have, too (TR 2.0, "RepMdBits"; bit 15 means the
// drop reason there, and the checksum complement in INT).
const bit<16> BIT_PORTS = 0x4000;
const bit<16> BIT_LATENCY = 0x2000;
const bit<16> BIT_QUEUE = 0x1000;
const bit<16> BIT_INGRESS_TIME = 0x0800;
const bit<16> BIT_EGRESS_TIME = 0x0400;
const bit<16> BIT_L2_PORTS = 0x0200;
const bit<16> BIT_UTILISATION = 0x0100;
const bit<16> BIT_DROP = 0x0001;

// Reports that no watchlist asks for have what is always known.
const bit<16> BITS_OF_QUEUE_REPORT = 0x7d00;
const bit<16> BITS_OF_DROP_REPORT = 0x4801;

#define PORTS 512          // BMv2's port numbers have nine bits
#define MOST_HOPS 16       // hops whose node, latency and queue are looked at; others are carried on
#define FLOW_BITS 16       // flows that are told apart when reports are suppressed: 2^16
