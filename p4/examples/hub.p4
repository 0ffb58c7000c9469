// SPDX-License-Identifier: Apache-2.0
//
// A program of somebody else with INT in it: two ports, each sends what comes in at the other.
// It has headers of its own, and drops what its own table says.

#include <core.p4>
#include <v1model.p4>

#include "../include/int.p4"

struct headers_t {
    int_headers_t telemetry;
}

struct metadata_t {
    bit<8>         colour;
    int_metadata_t telemetry;
}

parser HubParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard) {
    IntParser() telemetry;

    state start {
        telemetry.apply(packet, hdr.telemetry, meta.telemetry);
        transition accept;
    }
}

control HubVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    IntVerifyChecksum() telemetry;

    apply {
        telemetry.apply(hdr.telemetry, meta.telemetry);
    }
}

control HubIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    IntIngress() telemetry;
    IntDrop() drop;

    action block() {
        meta.telemetry.dropped = 1;
        meta.telemetry.drop_reason = DROP_ACL;
    }

    action paint(bit<8> colour) {
        meta.colour = colour;
    }

    table blocked {
        key = { hdr.telemetry.ethernet.src: exact; }
        actions = { block; paint; NoAction; }
        default_action = NoAction();
    }

    apply {
        telemetry.apply(hdr.telemetry, meta.telemetry, standard);
        if (meta.telemetry.dropped == 0) {
            blocked.apply();
            standard.egress_spec = standard.ingress_port ^ 1;
        }
        drop.apply(hdr.telemetry, meta.telemetry, standard);
    }
}

control HubEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    IntEgress() telemetry;

    apply {
        telemetry.apply(hdr.telemetry, meta.telemetry, standard);
    }
}

control HubComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    IntComputeChecksum() telemetry;

    apply {
        telemetry.apply(hdr.telemetry, meta.telemetry);
    }
}

control HubDeparser(packet_out packet, in headers_t hdr) {
    IntDeparser() telemetry;

    apply {
        telemetry.apply(packet, hdr.telemetry);
    }
}

V1Switch(HubParser(), HubVerifyChecksum(), HubIngress(), HubEgress(), HubComputeChecksum(),
         HubDeparser()) main;
