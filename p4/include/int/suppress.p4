// SPDX-License-Identifier: Apache-2.0
//
// Which reports are worth sending. A flow is reported when it is new, when its path, its latency
// or its fullest queue is further than a band from what was reported last, or when a time has
// passed. The last reported value is the middle of the band, so that nothing flaps at its edge.

control IntSuppress(inout int_metadata_t md, inout standard_metadata_t standard) {
    @name(".int.flow_key")
    register<bit<32>>(1 << FLOW_BITS) flow_key;
    @name(".int.flow_path")
    register<bit<32>>(1 << FLOW_BITS) flow_path;
    @name(".int.flow_latency")
    register<bit<32>>(1 << FLOW_BITS) flow_latency;
    @name(".int.flow_queue")
    register<bit<32>>(1 << FLOW_BITS) flow_queue;
    @name(".int.flow_time")
    register<bit<48>>(1 << FLOW_BITS) flow_time;
    @name(".int.queue_time")
    register<bit<48>>(PORTS) queue_time;
    @name(".int.queue_above")
    register<bit<1>>(PORTS) queue_above;

    bit<1>  suppress = 0;
    bit<32> latency_band = 0;
    bit<32> queue_band = 0;
    bit<48> interval = 0;
    bit<32> slot;
    bit<32> key;
    bit<32> path;
    bit<32> whole;   // latency of the whole path
    bit<32> fullest; // of all queues
    bit<1>  due;

    @name(".int.report_all")
    action report_all() {
        suppress = 0;
    }

    // latency: ns, queue: packets, time: us.
    @name(".int.report_changes")
    action report_changes(bit<32> latency, bit<32> queue, bit<48> time) {
        suppress = 1;
        latency_band = latency;
        queue_band = queue;
        interval = time;
    }

    @name(".int.reporting")
    table reporting {
        actions = { report_all; report_changes; }
        default_action = report_all();
    }

    // A flow whose slot another one has is new each time: it is reported too often, never too
    // rarely.
    action compare() {
        bit<48> now = standard.egress_global_timestamp;
        bit<32> key_was;
        bit<32> path_was;
        bit<32> latency_was;
        bit<32> queue_was;
        bit<48> time_was;
        flow_key.read(key_was, slot);
        flow_path.read(path_was, slot);
        flow_latency.read(latency_was, slot);
        flow_queue.read(queue_was, slot);
        flow_time.read(time_was, slot);
        bool changed = key != key_was || path != path_was ||
            (whole > latency_was ? whole - latency_was : latency_was - whole) > latency_band ||
            (fullest > queue_was ? fullest - queue_was : queue_was - fullest) > queue_band ||
            now - time_was >= interval;
        flow_key.write(slot, changed ? key : key_was);
        flow_path.write(slot, changed ? path : path_was);
        flow_latency.write(slot, changed ? whole : latency_was);
        flow_queue.write(slot, changed ? fullest : queue_was);
        flow_time.write(slot, changed ? now : time_was);
        due = changed ? 1w1 : 1w0;
    }

    // A queue is reported when it becomes full, and again while it is.
    action watch_queue() {
        bit<32> port = (bit<32>)standard.egress_port;
        bit<48> now = standard.egress_global_timestamp;
        bit<1> above_was;
        bit<48> time_was;
        queue_above.read(above_was, port);
        queue_time.read(time_was, port);
        bool above = md.queue[23:0] >= md.congested_at;
        bool report = above && (above_was == 0 || now - time_was >= interval);
        queue_above.write(port, above ? 1w1 : 1w0);
        queue_time.write(port, report ? now : time_was);
        md.congested = report ? 1w1 : 1w0;
    }

    apply {
        reporting.apply();
        if (md.congested_at != 0) {
            watch_queue();
        }
        if (md.flow == 1 && suppress == 1) {
            hash(slot, HashAlgorithm.crc16, 32w0, {
                md.src, md.dst, md.proto, md.sport, md.dport, standard.egress_port, 7w0
            }, 32w1 << FLOW_BITS);
            hash(key, HashAlgorithm.crc32, 32w0, {
                md.src, md.dst, md.proto, md.sport, md.dport, standard.egress_port, 7w0
            }, 33w1 << 32);
            hash(path, HashAlgorithm.crc32, 32w0, { md.path, md.hops, md.port_in }, 33w1 << 32);
            whole = md.path_latency |+| md.latency;
            fullest = md.path_queue[23:0] > md.queue[23:0] ?
                (bit<32>)md.path_queue[23:0] : (bit<32>)md.queue[23:0];
            compare();
            md.flow = due;
        }
    }
}
