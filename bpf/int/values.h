/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a node says of itself and of a packet: the metadata of INT. */
#ifndef INT_VALUES_H
#define INT_VALUES_H

#include "found.h"

#define BIT_NODE 0x8000
#define BIT_PORTS 0x4000
#define BIT_LATENCY 0x2000
#define BIT_QUEUE 0x1000
#define BIT_INGRESS_TIME 0x0800
#define BIT_EGRESS_TIME 0x0400
#define BIT_L2_PORTS 0x0200
#define BIT_UTILISATION 0x0100
#define BIT_COMPLEMENT 0x0001

#define UNKNOWN 0xffffffffU
#define MOST_LATENCY 0xfffffffeU /* longer than the field: as near as it gets */

#define CLOCK_OF_DELIVERY 1 /* BPF_SKB_CLOCK_MONOTONIC, formerly BPF_SKB_TSTAMP_DELIVERY_MONO */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct qdisc_skb_head___int {
	__u32 qlen;
};

struct Qdisc___int {
	unsigned int flags;
	struct qdisc_skb_head___int q;
};

struct net_device___int {
	struct Qdisc___int *qdisc;
};

struct sk_buff___int {
	struct net_device___int *dev;
	__u8 ip_summed : 2;
	unsigned int data_len;
	unsigned int tail;
	unsigned int end;
	unsigned char *head;
	unsigned char *data;
};

#pragma clang attribute pop

/* Queues whose own number says nothing: it is kept for each CPU, or in those below. */
#define TCQ_F_MQROOT 0x8
#define TCQ_F_CPUSTATS 0x20

extern void *bpf_cast_to_kern_ctx(void *skb) __ksym __weak;

/* Packets in the queue of the interface at which skb is sent; UNKNOWN where that is not counted in
 * one place. An interface without a queue has 0. */
static __always_inline __u32 queue_length(struct __sk_buff *skb)
{
	struct sk_buff___int *s;
	struct Qdisc___int *q;
	__u32 n;

	if (!cfg_queues)
		return UNKNOWN;
	s = bpf_cast_to_kern_ctx(skb);
	q = s->dev->qdisc;
	if (q->flags & (TCQ_F_MQROOT | TCQ_F_CPUSTATS))
		return UNKNOWN;
	n = q->q.qlen;
	return n < 0xffffff ? n : 0xfffffe;
}

/* The element of `ports` for an interface, NULL: it is no port of the node. */
static __always_inline struct int_port *port_of(__u32 ifindex)
{
	__u32 slot = ifindex & cfg_port_mask;
	struct int_port *port = bpf_map_lookup_elem(&ports, &slot);

	return port && port->ifindex == ifindex ? port : NULL;
}

/*
 * When the packet came in, 0: that is not known. What sends it on keeps skb->tstamp if it holds a
 * time of delivery. (A local socket may have set one, too; its packets have no interface by which
 * they came in.)
 */
static __always_inline __u64 came_in(struct __sk_buff *skb, const struct int_port *in, __u64 now)
{
	__u64 then;

	if (!cfg_times || !in || skb->tstamp_type != CLOCK_OF_DELIVERY)
		return 0;
	then = skb->tstamp;
	return then <= now ? then : 0;
}

/* Fills the values of report r for a packet that came by port in (NULL: the node itself sends it)
 * and goes out by port out. The queue is looked at if bitmap `wanted` asks for it. */
static __always_inline void observe(struct __sk_buff *skb, struct int_report *r,
				    const struct int_port *in, const struct int_port *out,
				    __u32 wanted, __u64 now)
{
	__u64 then = came_in(skb, in, now);
	__u32 bits = BIT_NODE | BIT_PORTS | BIT_EGRESS_TIME;

	r->node = cfg_node;
	r->index = cfg_index;
	r->egress_ns = now;
	r->ingress_ns = then;
	r->latency = now - then < MOST_LATENCY ? now - then : MOST_LATENCY;
	if (then)
		bits |= BIT_LATENCY | BIT_INGRESS_TIME;
	r->queue = wanted & BIT_QUEUE || out->congested_at ? queue_length(skb) : UNKNOWN;
	if (r->queue != UNKNOWN)
		bits |= BIT_QUEUE;
	r->port_in = in ? in->id : 0;
	r->port_out = out->id;
	r->l2_in = in ? in->l2 : UNKNOWN;
	r->l2_out = out->l2;
	if (r->l2_in != UNKNOWN || r->l2_out != UNKNOWN)
		bits |= BIT_L2_PORTS;
	r->utilisation = out->utilisation;
	if (r->utilisation != UNKNOWN)
		bits |= BIT_UTILISATION;
	r->bits = bits;
}

/* Where words are written in the packet, and their sum for the checksum. */
struct writer {
	void *to;
	void *end; /* of what can be written */
	__u64 sum;
};

static __always_inline void put(struct writer *w, __u32 value)
{
	__be32 word = bpf_htonl(value);

	if (w->to + sizeof(word) > w->end) /* never; for the verifier */
		return;
	*(__be32 *)w->to = word;
	w->to += sizeof(word);
	w->sum += word;
}

static __always_inline void put_time(struct writer *w, __u64 ns, bool v10)
{
	if (!v10)
		put(w, ns >> 32);
	put(w, ns);
}

#define VALUES_V10 (1 << 16)

/*
 * Writes the values of the report in works[0] that a bitmap asks for at offset `at` of the packet,
 * in the order of the bits. Those that are not known, and bits that are not known, are all ones.
 * what: the bitmap, and VALUES_V10. Returns the sum of the words.
 */
GLOBAL __u64 write_values(struct __sk_buff *skb, __u32 at, __u32 what)
{
	__u32 has, i = what;
	struct work *work = page(&works);
	struct int_control *c = page(&control);
	struct writer w = { .to = (void *)(long)skb->data, .end = (void *)(long)skb->data_end };
	bool v10 = what & VALUES_V10;
	struct int_report *r;
	__u64 wall;

	if (!work || !c)
		return 0;
	wall = READ_ONCE(c->wall_ns);
	r = &work->report;
	has = r->bits;
	w.to += at & 0x1ff;
	if (i & BIT_NODE)
		put(&w, r->node);
	if (i & BIT_PORTS)
		put(&w, (__u32)r->port_in << 16 | r->port_out);
	if (i & BIT_LATENCY)
		put(&w, has & BIT_LATENCY ? r->latency : UNKNOWN);
	if (i & BIT_QUEUE)
		put(&w, r->queue);
	if (i & BIT_INGRESS_TIME)
		put_time(&w, has & BIT_INGRESS_TIME ? r->ingress_ns + wall : ~0ULL, v10);
	if (i & BIT_EGRESS_TIME)
		put_time(&w, r->egress_ns + wall, v10);
	if (i & BIT_L2_PORTS) {
		put(&w, r->l2_in);
		put(&w, r->l2_out);
	}
	if (i & BIT_UTILISATION)
		put(&w, r->utilisation);
	if (i & 0xff)
		for (__u32 bit = 0x80; bit; bit >>= 1)
			if (i & bit)
				put(&w, UNKNOWN);
	return w.sum;
}

#endif
