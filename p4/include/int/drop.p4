// SPDX-License-Identifier: Apache-2.0
//
// Drops in ingress, and reports of them. A program says why it drops a packet (dropped,
// drop_reason) and does not call mark_to_drop itself: then its end can be reported.

control IntDrop(inout int_headers_t hdr, inout int_metadata_t md,
                inout standard_metadata_t standard) {
    // By the reason.
    @name(".int.drops")
    counter(256, CounterType.packets) drops;

    @name(".int.drop_key")
    register<bit<32>>(1 << FLOW_BITS) drop_key;
    @name(".int.drop_time")
    register<bit<48>>(1 << FLOW_BITS) drop_time;

    bit<32> slot;
    bit<32> key;
    bit<1>  due;

    // The first of a flow and reason, and then one in each interval.
    action compare() {
        bit<48> now = standard.ingress_global_timestamp;
        bit<32> key_was;
        bit<48> time_was;
        drop_key.read(key_was, slot);
        drop_time.read(time_was, slot);
        bool report = key != key_was || now - time_was >= md.drop_interval;
        drop_key.write(slot, key);
        drop_time.write(slot, report ? now : time_was);
        due = report ? 1w1 : 1w0;
    }

    apply {
        if (md.dropped == 1) {
            drops.count((bit<32>)md.drop_reason);
            if (md.active == 1 && md.report_drops == 1 && md.session != 0 && md.skip != SKIP_REPORT &&
                (hdr.packet.ipv4.isValid() || hdr.packet.ipv6.isValid())) {
                hash(slot, HashAlgorithm.crc16, 32w0, {
                    md.src, md.dst, md.proto, md.sport, md.dport, md.drop_reason
                }, 32w1 << FLOW_BITS);
                hash(key, HashAlgorithm.crc32, 32w0, {
                    md.src, md.dst, md.proto, md.sport, md.dport, md.drop_reason
                }, 33w1 << 32);
                compare();
                if (due == 1) {
                    md.report = REPORT_DROP;
                    md.flow = md.bears;
                    md.instructions = BITS_OF_DROP_REPORT;
                    md.domain = 0;
                    md.port_in = (bit<16>)standard.ingress_port;
                    md.port_out = 511; // BMv2's number of no port
                    md.ingress_time = (bit<64>)standard.ingress_global_timestamp * 1000;
                    clone_preserving_field_list(CloneType.I2E, md.session, INT_FIELDS);
                }
            }
            mark_to_drop(standard);
        }
    }
}
