// SPDX-License-Identifier: Apache-2.0

// Telemetry Report 2.0: a group of one report.
control IntReport20(inout int_report_t report, in int_metadata_t md, in bool ipv4,
                    in bit<32> number, in bit<32> quoted, out bit<16> head) {
    bit<8> words = 0; // of metadata

    action fixed(bit<32> len) {
        report.group.setValid();
        report.group.version = 2;
        report.group.hw_id = md.hw_id;
        report.group.sequence = number[21:0];
        report.group.node_id = md.node_id;
        report.t20.setValid();
        report.t20.rep_type = 1;
        report.t20.in_type = ipv4 ? 4w4 : 4w5;
        report.t20.len = len > 254 ? 8w255 : len[7:0]; // 255 is "or more": the datagram has no other report
        report.t20.md_len = words;
        report.t20.dropped = md.report == REPORT_DROP ? 1w1 : 1w0;
        report.t20.congested = md.congested;
        report.t20.flow = md.flow;
        report.t20.intermediate = md.intermediate;
        report.t20.reserved = 0;
        report.t20.md_bits = md.instructions;
        report.t20.domain = md.domain;
        report.t20.ds_bits = 0;
        report.t20.ds_status = 0;
    }

    apply {
        if (md.instructions & BIT_PORTS != 0) {
            report.ports.setValid();
            report.ports.value = md.port_in ++ md.port_out;
            words = words + 1;
        }
        if (md.instructions & BIT_LATENCY != 0) {
            report.latency.setValid();
            report.latency.value = md.latency;
            words = words + 1;
        }
        if (md.instructions & BIT_QUEUE != 0) {
            report.queue.setValid();
            report.queue.value = md.queue;
            words = words + 1;
        }
        if (md.instructions & BIT_INGRESS_TIME != 0) {
            report.ingress_time.setValid();
            report.ingress_time.value = md.ingress_time;
            words = words + 2;
        }
        if (md.instructions & BIT_EGRESS_TIME != 0) {
            report.egress_time.setValid();
            report.egress_time.value = md.egress_time;
            words = words + 2;
        }
        if (md.instructions & BIT_L2_PORTS != 0) {
            report.l2_ports.setValid();
            report.l2_ports.value = md.l2_in ++ md.l2_out;
            words = words + 2;
        }
        if (md.instructions & BIT_UTILISATION != 0) {
            report.utilisation.setValid();
            report.utilisation.value = md.utilisation;
            words = words + 1;
        }
        if (md.instructions & BIT_DROP != 0) {
            report.drop20.setValid();
            report.drop20.value = 8w0 ++ md.drop_reason ++ 16w0; // queue 0
            words = words + 1;
        }
        head = 20 + ((bit<16>)words << 2);
        fixed(2 + (bit<32>)words + (quoted >> 2));
    }
}
