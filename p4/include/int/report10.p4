// SPDX-License-Identifier: Apache-2.0

// Telemetry Report 1.0. It has other bits, 32 bits of time, and its fixed part says when the
// packet came in.
control IntReport10(inout int_report_t report, in int_metadata_t md, in bool ipv4,
                    in bit<32> number, out bit<16> head) {
    bit<4> words = 4; // of the report, without the quote

    action fixed() {
        report.t10.setValid();
        report.t10.version = 1;
        report.t10.len = words;
        report.t10.in_type = ipv4 ? 3w1 : 3w2;
        report.t10.md_bits = md.instructions[14:12] ++ md.instructions[10:10] ++
            md.instructions[0:0] ++ md.instructions[8:8];
        report.t10.reserved = 0;
        report.t10.dropped = md.report == REPORT_DROP ? 1w1 : 1w0;
        report.t10.congested = md.congested;
        report.t10.flow = md.flow;
        report.t10.hw_id = md.hw_id;
        report.t10.node_id = md.node_id;
        report.t10.sequence = number;
        report.t10.ingress_time = md.ingress_time[31:0];
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
        if (md.instructions & BIT_EGRESS_TIME != 0) {
            report.egress_time10.setValid();
            report.egress_time10.value = md.egress_time[31:0];
            words = words + 1;
        }
        if (md.instructions & BIT_DROP != 0) {
            report.drop10.setValid();
            report.drop10.value = 8w0 ++ md.drop_reason ++ 16w0; // queue 0
            words = words + 1;
        }
        if (md.instructions & BIT_UTILISATION != 0) {
            report.utilisation.setValid();
            report.utilisation.value = md.utilisation;
            words = words + 1;
        }
        head = (bit<16>)words << 2;
        fixed();
    }
}
