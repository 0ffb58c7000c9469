// SPDX-License-Identifier: Apache-2.0
//
// A switch that forwards and speaks INT, for BMv2's simple_switch_grpc. docs/p4.md says how to
// run it, and what its tables mean.

#include <core.p4>
#include <v1model.p4>

#include "include/int.p4"
#include "include/forward.p4"

#define REPLICATION 5 // BMv2's instance type of copies for a multicast group

struct headers_t {
    int_headers_t inband;
}

struct metadata_t {
    int_metadata_t inband;
}

parser SwitchParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard) {
    IntParser() inband;

    state start {
        inband.apply(packet, hdr.inband, meta.inband);
        transition accept;
    }
}

control SwitchVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    IntVerifyChecksum() inband;

    apply {
        inband.apply(hdr.inband, meta.inband);
    }
}

control SwitchIngress(inout headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard) {
    IntIngress() inband;
    Forward() forward;
    IntDrop() drop;

    apply {
        inband.apply(hdr.inband, meta.inband, standard);
        if (meta.inband.dropped == 0) {
            forward.apply(hdr.inband, meta.inband, standard);
        }
        drop.apply(hdr.inband, meta.inband, standard);
    }
}

control SwitchEgress(inout headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard) {
    IntEgress() inband;

    apply {
        // A flooded frame does not go back.
        if (standard.instance_type == REPLICATION && standard.egress_port == standard.ingress_port &&
            meta.inband.report == REPORT_NONE) {
            mark_to_drop(standard);
        } else {
            inband.apply(hdr.inband, meta.inband, standard);
        }
    }
}

control SwitchComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    IntComputeChecksum() inband;

    apply {
        inband.apply(hdr.inband, meta.inband);
    }
}

control SwitchDeparser(packet_out packet, in headers_t hdr) {
    IntDeparser() inband;

    apply {
        inband.apply(packet, hdr.inband);
    }
}

V1Switch(SwitchParser(), SwitchVerifyChecksum(), SwitchIngress(), SwitchEgress(),
         SwitchComputeChecksum(), SwitchDeparser()) main;
