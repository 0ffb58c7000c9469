// SPDX-License-Identifier: Apache-2.0
//
// In-band network telemetry for a P4_16 program on v1model: INT-MD 2.1 and 1.0, INT-MX 2.1 and
// INT-XD, as source, transit and sink at once, and Telemetry Report 2.0 and 1.0.
//
// To put it into a program of your own (examples/hub.p4 is one):
//
//   - have an int_headers_t among the headers, an int_metadata_t in the metadata;
//   - let IntParser, IntDeparser, IntVerifyChecksum and IntComputeChecksum do these parts;
//   - apply IntIngress first in ingress and IntDrop last. Between the two set dropped and
//     drop_reason where a packet is to be dropped, and do not decide on a packet for which
//     dropped is 1 already;
//   - apply IntEgress last in egress.
//
// What changes a packet in between must correct its checksums (checksum.p4 shows how): they are
// not computed anew. Names of tables begin with "int.", whatever the program is. docs/p4.md
// describes them.

#ifndef RADAR_INT_P4
#define RADAR_INT_P4

#include "int/constants.p4"
#include "int/headers.p4"
#include "int/metadata.p4"
#include "int/parser.p4"
#include "int/checksum.p4"
#include "int/recognise.p4"
#include "int/source.p4"
#include "int/transit.p4"
#include "int/sink.p4"
#include "int/values.p4"
#include "int/decide.p4"
#include "int/suppress.p4"
#include "int/report20.p4"
#include "int/report10.p4"
#include "int/report.p4"
#include "int/drop.p4"

control IntIngress(inout int_headers_t hdr, inout int_metadata_t md,
                   inout standard_metadata_t standard) {
    IntFlow() flow;
    IntTrueFlow() true_flow;
    IntMarkable() markable;
    IntRecognise() recognise;
    IntWatch() watch;

    @name(".int.off")
    action off() {
        md.active = 0;
    }

    // dscp and dscp_mask mark packets with INT; with dscp_mask 0 the UDP port int_port does.
    // session: the clone session of reports, 0 for none. drop_interval: us.
    @name(".int.node")
    action node(bit<32> node_id, bit<6> hw_id, bit<6> dscp, bit<6> dscp_mask, bit<16> int_port,
                bit<16> report_port, bit<32> session, bit<1> report_drops, bit<48> drop_interval) {
        md.active = 1;
        md.node_id = node_id;
        md.hw_id = hw_id;
        md.dscp = dscp;
        md.dscp_mask = dscp_mask;
        md.int_port = int_port;
        md.report_port = report_port;
        md.session = session;
        md.report_drops = report_drops;
        md.drop_interval = drop_interval;
    }

    @name(".int.settings")
    table settings {
        actions = { off; node; }
        default_action = off();
    }

    // The outside is behind the port. INT that comes from there is dropped, or passed untouched.
    @name(".int.source")
    action source(bit<1> drop_foreign, bit<32> l2_port) {
        md.role_in = ROLE_EDGE;
        md.drop_foreign = drop_foreign;
        md.l2_in = l2_port;
    }

    // A node of the domain is behind the port: what it says in INT is trusted.
    @name(".int.transit_in")
    action transit_in(bit<32> l2_port) {
        md.role_in = ROLE_INSIDE;
        md.l2_in = l2_port;
    }

    @name(".int.no_role_in")
    action no_role_in() {
        md.l2_in = UNKNOWN;
    }

    @name(".int.ingress_ports")
    table ingress_ports {
        key = { standard.ingress_port: exact @name("ingress_port"); }
        actions = { source; transit_in; no_role_in; }
        const default_action = no_role_in();
        size = PORTS;
    }

    apply {
        settings.apply();
        ingress_ports.apply();
        flow.apply(hdr.packet, md);
        markable.apply(hdr, md, standard);
        recognise.apply(hdr.packet, md);
        if (md.bears == 1) {
            true_flow.apply(hdr.packet, md);
        } else {
            md.instructions = 0;
        }

        if (md.active == 1 && md.session != 0) {
            hdr.kept = hdr.packet; // before anything changes it
        }
        if (md.active == 0) {
            md.bears = 0;
            md.skip = SKIP_NONE;
        } else if (hdr.packet.udp.isValid() && md.report_port != 0 && hdr.packet.udp.dport == md.report_port &&
                   !(md.bears == 1 && md.role_in == ROLE_EDGE)) {
            md.bears = 0;
            md.skip = SKIP_REPORT; // at any port: the drop of a report is not reported either
        } else if (md.role_in == ROLE_NONE) {
            md.skip = md.bears == 1 ? SKIP_NO_ROLE : SKIP_NONE;
            md.bears = 0;
        } else if (md.bears == 1 && md.role_in == ROLE_EDGE) {
            md.bears = 0;
            md.skip = SKIP_FOREIGN;
            md.dropped = md.drop_foreign;
            md.drop_reason = DROP_ACL;
        } else if (md.bears == 0 && md.skip == SKIP_NONE) {
            watch.apply(hdr.packet, md, standard);
        }
    }
}

control IntEgress(inout int_headers_t hdr, inout int_metadata_t md,
                  inout standard_metadata_t standard) {
    IntReport() report;
    IntValues() values;
    IntSuppress() suppress;
    IntDecide() decide;
    IntSums() sums_before;
    IntSums() sums_after;
    IntCorrect() correct;
    IntSource() source;
    IntTransit() transit;
    IntSink() sink;
    IntPush() push;
    IntGrow() grow;

    // By skip_t, and by done_t.
    @name(".int.skipped")
    counter(32, CounterType.packets) skipped;
    @name(".int.done")
    counter(16, CounterType.packets) done;

    // A node of the domain is behind the port. mtu: bytes of IP packets. congested_at: packets
    // in the queue from which on it is reported; 0: never.
    @name(".int.transit_out")
    action transit_out(bit<16> mtu, bit<24> congested_at, bit<32> l2_port) {
        md.role_out = ROLE_INSIDE;
        md.mtu = mtu;
        md.congested_at = congested_at;
        md.l2_out = l2_port;
    }

    // The outside is behind the port: INT ends here.
    @name(".int.sink")
    action sink_out(bit<24> congested_at, bit<32> l2_port) {
        md.role_out = ROLE_EDGE;
        md.congested_at = congested_at;
        md.l2_out = l2_port;
    }

    @name(".int.no_role_out")
    action no_role_out() {
        md.l2_out = UNKNOWN;
    }

    @name(".int.egress_ports")
    table egress_ports {
        key = { standard.egress_port: exact @name("egress_port"); }
        actions = { transit_out; sink_out; no_role_out; }
        const default_action = no_role_out();
        size = PORTS;
    }

    here_t  role;          // what this node is for the packet
    bit<8>  hop_words;     // of this node in the packet
    bit<16> more;          // bytes by which the packet grows
    bit<1>  discard = 0;
    bit<16> ip_before;
    bit<16> ip_after;
    bit<16> l4_before;
    bit<16> l4_after;

    apply {
        if (md.report != REPORT_NONE) {
            report.apply(hdr, md, standard);
            done.count((bit<32>)(hdr.report.ipv4.isValid() ? DONE_SENT : DONE_NO_COLLECTOR));
        } else if (md.active == 1) {
            egress_ports.apply();
            values.apply(md, standard);

            decide.apply(hdr.packet, md, role, hop_words, more);
            bit<1> tracked = md.flow;
            if (md.session == 0) {
                md.flow = 0;
            } else if (md.skip != SKIP_REPORT && (hdr.packet.ipv4.isValid() || hdr.packet.ipv6.isValid())) {
                suppress.apply(md, standard);
                if (tracked == 1) {
                    done.count((bit<32>)(md.flow == 1 ? DONE_FLOW : DONE_SUPPRESSED));
                }
                if (md.congested == 1) {
                    done.count((bit<32>)DONE_QUEUE);
                }
            }
            if (md.flow == 1 || md.congested == 1) {
                // The queue of a transit is full: an intermediate report of a tracked flow.
                if (role == HERE_TRANSIT) {
                    md.flow = 1;
                    md.intermediate = 1;
                } else if (tracked == 1) {
                    md.flow = 1;
                }
                if (md.instructions == 0) {
                    md.instructions = BITS_OF_QUEUE_REPORT;
                }
                md.report = REPORT_EGRESS;
                clone_preserving_field_list(CloneType.E2E, md.session, INT_FIELDS);
            }

            if (role != HERE_NOTHING) {
                sums_before.apply(hdr.packet, md, ip_before, l4_before);
                if (role == HERE_SOURCE) {
                    source.apply(hdr.packet, md, hop_words);
                    done.count((bit<32>)DONE_SOURCE);
                } else if (role == HERE_TRANSIT) {
                    transit.apply(hdr.packet, md, hop_words, more);
                    if (more != 0) {
                        done.count((bit<32>)DONE_TRANSIT);
                    }
                } else {
                    discard = hdr.packet.md.isValid() && hdr.packet.md.discard == 1 ||
                        hdr.packet.mx.isValid() && hdr.packet.mx.discard == 1 ? 1w1 : 1w0;
                    sink.apply(hdr.packet, md, more);
                    more = 0 - more;
                    done.count((bit<32>)DONE_SINK);
                }
                if (more != 0 && hop_words != 0) {
                    push.apply(hdr.packet, md);
                }
                grow.apply(hdr.packet, md, more);
                sums_after.apply(hdr.packet, md, ip_after, l4_after);
                correct.apply(hdr.packet, ip_before, ip_after, l4_before, l4_after);
                if (discard == 1) {
                    done.count((bit<32>)DONE_DISCARDED);
                    mark_to_drop(standard);
                }
            }

            if (md.skip != SKIP_NONE) {
                skipped.count((bit<32>)md.skip);
            }
        }
    }
}

#endif
