// SPDX-License-Identifier: Apache-2.0
//
// What this node knows of a packet's stay. BMv2 counts microseconds since it began; INT 2.1 wants
// nanoseconds. Its egress time is that at which egress begins, so that hop latency has neither
// the time before parsing nor that behind it.

#define WINDOW_BITS 20 // a window of the utilisation: 2^20 us, about a second

control IntValues(inout int_metadata_t md, inout standard_metadata_t standard) {
    @name(".int.window_start")
    register<bit<48>>(PORTS) window_start;
    @name(".int.window_bytes")
    register<bit<32>>(PORTS) window_bytes;
    // kbit/s and one more, since 0 is what a register has before it is written.
    @name(".int.window_rate")
    register<bit<32>>(PORTS) window_rate;

    // The utilisation of a port is what left in its last whole window. One action, since BMv2
    // lets no other packet in between.
    action measure() {
        bit<32> port = (bit<32>)standard.egress_port;
        bit<48> now = standard.egress_global_timestamp;
        bit<48> start;
        bit<32> bytes;
        bit<32> rate;
        window_start.read(start, port);
        window_bytes.read(bytes, port);
        window_rate.read(rate, port);
        bool over = now - start >= 48w1 << WINDOW_BITS;
        bool idle = now - start >= 48w2 << WINDOW_BITS; // a whole one without a packet
        rate = over ? (idle ? 32w1 : 1 + (bit<32>)(((bit<64>)bytes * 8000) >> WINDOW_BITS)) : rate;
        start = over ? (idle ? now : start + (48w1 << WINDOW_BITS)) : start;
        bytes = (over ? 32w0 : bytes) + standard.packet_length;
        window_start.write(port, start);
        window_bytes.write(port, bytes);
        window_rate.write(port, rate);
        md.utilisation = rate == 0 ? UNKNOWN : rate - 1;
    }

    apply {
        measure();
        md.port_in = (bit<16>)standard.ingress_port;
        md.port_out = (bit<16>)standard.egress_port;
        bit<48> stay = standard.egress_global_timestamp - standard.ingress_global_timestamp;
        md.latency = stay > 4294967 ? MOST_LATENCY : (bit<32>)stay * 1000;
        md.queue = (bit<32>)standard.enq_qdepth; // queue 0: this program uses no other
        md.ingress_time = (bit<64>)standard.ingress_global_timestamp * 1000;
        md.egress_time = (bit<64>)standard.egress_global_timestamp * 1000;
    }
}
