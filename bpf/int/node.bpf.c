// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * An INT node (INT 2.1 and 1.0) at the TC hooks of its ports. A node loads the programs once, and
 * has them at each of its ports. Ingress notes when a packet came. Egress does all else, where the
 * output port, its queue and its MTU are known: docs/design/0032-int-nodes.md.
 *
 * A packet is dropped in two cases only: its INT header asks the sink to (D), or it came with INT
 * from outside, and the port is set so, or there is no room for a cover. Whatever else is wrong with
 * a packet, it goes on untouched and is counted.
 */
#include "quoted.h"
#include "lib/watched.h"

#include <linux/pkt_cls.h>

/* linux/socket.h has no address families. */
#define AF_INET 2
#define AF_INET6 10

/* Everything about the packet that is being looked at. */
struct hop {
	struct work *w;
	struct int_counters *n;
	struct int_port *in; /* NULL: the node itself sends it, or by no port of INT */
	struct int_port *out;
	__u64 now;
};

/* Whether packets leave with INT by the port. */
static __always_inline bool leads_inside(const struct int_port *out)
{
	return (out->flags & (INT_PORT_INSIDE | INT_PORT_EDGE)) == INT_PORT_INSIDE;
}

static __always_inline bool may_mark(__u64 now)
{
	struct int_control *c = page(&control);

	return c && is_leased(&c->lease_ns, now);
}

/* Whether there is INT in the packet in works[0]. */
GLOBAL int find_int(struct __sk_buff *skb)
{
	struct work *w = page(&works);

	return w && find(skb, &w->packet, &w->found);
}

/*
 * Whether the packet is a train, which becomes several packets. Only the size of segments shows it: a
 * train that a machine or a packet socket has handed over is not counted yet (gso_segs is 0).
 */
static __always_inline bool is_train(const struct __sk_buff *skb, const struct packet *p)
{
	return skb->gso_size && skb->len - p->data > skb->gso_size;
}

/* Whether a segment of the train in works[0], which has its payload of `size` bytes at offset `at`,
 * bears INT once it is a packet of its own. */
GLOBAL int segment_bears(struct __sk_buff *skb, __u32 at, __u32 size)
{
	struct work *w = page(&works);
	__be32 word[4] = {};

	if (!w || (size < SHIM + HEADER ? bpf_skb_load_bytes(skb, at, word, LEAST_INT) :
					  bpf_skb_load_bytes(skb, at, word, sizeof(word))))
		return true;
	return read_int(&w->packet, &w->found, size, word);
}

/*
 * Segments that are shorter than any INT bear none. So the longest packet has no more segments that
 * can, and all of them are looked at. Both loops are short, since the verifier looks at each function
 * once, and at every round of its loop.
 */
#define SEGMENTS 64
#define GROUPS (0xffff / LEAST_INT / SEGMENTS + 1)

/* Whether any of the next SEGMENTS segments of the train in works[0] does, from offset `at` on. */
GLOBAL int some_bear(struct __sk_buff *skb, __u32 at)
{
	__u32 each = skb->gso_size, end = skb->len;

	for (__u32 i = 0; i < SEGMENTS; i++) {
		if (at + LEAST_INT > end)
			return false;
		if (segment_bears(skb, at, each < end - at ? each : end - at))
			return true;
		at += each;
	}
	return false;
}

/* Whether any segment of the train in works[0] does. */
GLOBAL int train_bears(struct __sk_buff *skb)
{
	__u32 each = skb->gso_size, end = skb->len, at;
	struct work *w = page(&works);

	if (!w)
		return true;
	if (each < LEAST_INT)
		return false;
	at = w->packet.data;
	for (__u32 i = 0; i < GROUPS; i++) {
		if (at + LEAST_INT > end)
			return false;
		if (some_bear(skb, at))
			return true;
		at += SEGMENTS * each;
	}
	/* What is longer than an IP header can say is not looked at to its end, and not let through. */
	return at + LEAST_INT <= end;
}

/*
 * The packet in works[0] came from outside with INT that is not ours. What goes outside again is not
 * touched. Inside it would be taken for ours, so it gets a cover; what has no room for that is
 * dropped. Returns what becomes of it. mtu: of a port inside, 0 for one to the outside.
 */
GLOBAL int cover(struct __sk_buff *skb, __u32 mtu)
{
	struct work *w = page(&works);
	struct int_counters *n = page(&counters);
	enum int_skip why = INT_SKIP_GSO;

	if (!w || !n)
		return TC_ACT_SHOT;
	count_skip(n, INT_SKIP_FOREIGN);
	if (!mtu)
		return TC_ACT_UNSPEC;
	if (!is_train(skb, &w->packet)) {
		w->entry.instructions = BIT_NODE;
		w->entry.domain = 0;
		w->entry.mode = INT_MODE_MD;
		w->entry.remaining = 0;
		w->entry.words = 1;
		why = source(skb, mtu);
	}
	if (!why) {
		count_done(n, INT_DONE_COVERED);
		return TC_ACT_UNSPEC;
	}
	count_skip(n, why);
	count_done(n, INT_DONE_FOREIGN_DROPPED);
	return TC_ACT_SHOT;
}

/* Whether no node of the domain has sent the packet to this one. */
static __always_inline bool is_from_outside(const struct hop *h)
{
	return !h->in || !(h->in->flags & INT_PORT_INSIDE);
}

/* Whether an ICMP error, if it is one, goes outside and can be about a packet inside. */
static __always_inline bool may_quote_int(const struct hop *h)
{
	return is_icmp(&h->w->packet) && h->out->flags & INT_PORT_EDGE &&
	       !(h->in && !(h->in->flags & INT_PORT_INSIDE));
}

static __always_inline __u32 room_for_cover(const struct hop *h)
{
	return leads_inside(h->out) ? h->out->mtu : 0;
}

/* An ICMP error that goes outside, or to the node itself. */
static __always_inline void free_quote(struct __sk_buff *skb, const struct hop *h)
{
	switch (restore_quote(skb)) {
	case QUOTED_RESTORED:
		count_done(h->n, INT_DONE_QUOTE);
		break;
	case QUOTED_UNKNOWN:
		count_skip(h->n, INT_SKIP_QUOTE);
	}
}

/* A packet that bears INT and goes on inside the domain. */
static __always_inline int pass_on(struct __sk_buff *skb, const struct hop *h)
{
	const struct packet *p = &h->w->packet;
	const struct found *f = &h->w->found;
	bool md = f->mode != INT_MODE_MX;
	enum int_skip why = INT_SKIP_NONE;
	__u8 flags = 0;

	if (is_cover(f)) {
		count_skip(h->n, INT_SKIP_FOREIGN);
		return TC_ACT_UNSPEC;
	}
	observe(skb, &h->w->report, h->in, h->out, f->instructions, h->now);
	if (!may_mark(h->now)) {
		count_skip(h->n, INT_SKIP_LEASE);
		return TC_ACT_UNSPEC;
	}
	if (congested(h->out, h->w->report.queue, h->now))
		flags |= INT_REPORT_QUEUE | (md ? INT_REPORT_FLOW | INT_REPORT_INTERMEDIATE : 0);
	if (!md)
		flags |= INT_REPORT_FLOW;
	if (flags)
		quote(skb, h->w, p, f->bytes);
	if (md)
		why = transit(skb, h->out->mtu);
	if (why)
		count_skip(h->n, why);
	else if (md)
		count_done(h->n, INT_DONE_TRANSIT);
	if (md && !why && !(h->w->report.bits & BIT_LATENCY))
		count_done(h->n, INT_DONE_NO_TIME);
	send_report(h->w, h->n, f->instructions, f->domain, f->mode, flags);
	return TC_ACT_UNSPEC;
}

/* A packet that bears INT and leaves the domain: to the outside, or to the node itself. */
static __always_inline int take_out(struct __sk_buff *skb, const struct hop *h)
{
	const struct packet *p = &h->w->packet;
	const struct found *f = &h->w->found;
	bool discard = f->first & MD_DISCARD && f->mode != INT_MODE_MD10;
	bool covered = is_cover(f);
	__u8 flags = INT_REPORT_FLOW;
	enum int_skip why;

	/* For the node itself, by a port behind which no INT node is: who made it is not known. */
	if (h->in == h->out && h->in->flags & INT_PORT_SINK)
		flags = 0;
	if (!covered) {
		quote(skb, h->w, p, f->bytes);
		if (congested(h->out, h->w->report.queue, h->now))
			flags |= INT_REPORT_QUEUE;
	}
	why = sink(skb);
	if (why) {
		count_skip(h->n, why);
		return TC_ACT_UNSPEC;
	}
	if (covered) {
		count_done(h->n, INT_DONE_UNCOVERED);
		return TC_ACT_UNSPEC;
	}
	count_done(h->n, INT_DONE_SINK);
	send_report(h->w, h->n, f->instructions & ~BIT_COMPLEMENT, f->domain, f->mode, flags);
	if (!discard)
		return TC_ACT_UNSPEC;
	count_done(h->n, INT_DONE_DISCARDED);
	return TC_ACT_SHOT;
}

/* A packet without INT. */
static __always_inline int begin(struct __sk_buff *skb, const struct hop *h)
{
	const struct packet *p = &h->w->packet;
	bool from_outside = h->in ? h->in->flags & INT_PORT_SOURCE : cfg_host_source;
	enum int_skip why = INT_SKIP_NONE;
	const volatile struct int_entry *at;
	struct int_entry *e = &h->w->entry;
	__u8 flags = 0;
	int number;

	number = cfg_entries ? watched(skb, p->l3, p->ip_len) : 0;
	if (number < 1 || number > INT_MAX_ENTRIES)
		return INT_SKIP_NOT_WATCHED;
	at = &cfg_watchlist[number - 1];
	e->instructions = at->instructions;
	e->domain = at->domain;
	e->mode = at->mode;
	e->remaining = at->remaining;
	e->words = at->words;
	e->sample = at->sample;
	if (e->mode == INT_MODE_NONE)
		return INT_SKIP_NOT_WATCHED;
	if (e->mode != INT_MODE_XD && !from_outside)
		return INT_SKIP_NOT_SOURCE;
	if (!e->instructions)
		return INT_SKIP_NO_INSTRUCTION;
	if (!may_mark(h->now))
		return INT_SKIP_LEASE;
	if (!is_chosen(skb, p, e))
		return INT_SKIP_NOT_SAMPLED;

	observe(skb, &h->w->report, h->in, h->out, e->instructions, h->now);
	if (congested(h->out, h->w->report.queue, h->now))
		flags |= INT_REPORT_QUEUE;
	if (e->mode == INT_MODE_XD || e->mode == INT_MODE_MX || h->out->flags & INT_PORT_EDGE)
		flags |= INT_REPORT_FLOW;
	if (flags)
		quote(skb, h->w, p, 0);
	/* Source and sink at once: a report says all. */
	if (e->mode != INT_MODE_XD && leads_inside(h->out)) {
		why = source(skb, h->out->mtu);
		if (!why)
			count_done(h->n, INT_DONE_SOURCE);
		if (!why && e->mode != INT_MODE_MX && !(h->w->report.bits & BIT_LATENCY))
			count_done(h->n, INT_DONE_NO_TIME);
	}
	if (!why)
		send_report(h->w, h->n, e->instructions & ~BIT_COMPLEMENT, e->domain, INT_MODE_XD,
			    flags);
	return why;
}

/* Whether the node itself is the packet's destination, which comes in at the port. */
static __always_inline bool is_for_us(struct __sk_buff *skb, const struct packet *p)
{
	struct bpf_fib_lookup q = { .ifindex = skb->ifindex, .l4_protocol = p->proto };
	long r;

	if (p->v6) {
		q.family = AF_INET6;
		if (bpf_skb_load_bytes(skb, p->l3 + offsetof(struct ip6_header, saddr), q.ipv6_src,
				       sizeof(q.ipv6_src) + sizeof(q.ipv6_dst)))
			return false;
	} else {
		q.family = AF_INET;
		if (bpf_skb_load_bytes(skb, p->l3 + offsetof(struct iphdr, saddr), &q.ipv4_src,
				       sizeof(q.ipv4_src)) ||
		    bpf_skb_load_bytes(skb, p->l3 + offsetof(struct iphdr, daddr), &q.ipv4_dst,
				       sizeof(q.ipv4_dst)))
			return false;
	}
	r = bpf_fib_lookup(skb, &q, sizeof(q), 0);
	/* Where nothing is forwarded, whatever comes is for the node. */
	return r == BPF_FIB_LKUP_RET_NOT_FWDED || r == BPF_FIB_LKUP_RET_FWD_DISABLED;
}

static __always_inline int check_incoming(struct __sk_buff *skb, struct int_port *port, __u64 now)
{
	struct hop h = { .in = port, .out = port, .now = now };
	bool is_edge = !(port->flags & INT_PORT_INSIDE);
	enum int_skip why;
	bool train;

	h.w = page(&works);
	h.n = page(&counters);
	if (!h.w || !h.n)
		return TC_ACT_UNSPEC;
	why = parse(skb, &h.w->packet);
	if (why == INT_SKIP_NOT_TCP_UDP && !is_edge && is_icmp(&h.w->packet))
		free_quote(skb, &h);
	if (why || !is_marked(&h.w->packet))
		return TC_ACT_UNSPEC;
	train = is_train(skb, &h.w->packet);
	if (train ? !is_edge || !train_bears(skb) : !find_int(skb))
		return TC_ACT_UNSPEC;
	if (is_edge) {
		if (!(port->flags & INT_PORT_DROP_FOREIGN))
			return TC_ACT_UNSPEC; /* egress gives it a cover */
		count_done(h.n, INT_DONE_FOREIGN_DROPPED);
		return TC_ACT_SHOT;
	}
	if (!is_for_us(skb, &h.w->packet))
		return TC_ACT_UNSPEC;
	observe(skb, &h.w->report, port, port, 0, now);
	h.w->report.bits = BIT_NODE | BIT_PORTS | BIT_INGRESS_TIME;
	h.w->report.ingress_ns = now;
	h.w->report.port_out = 0;
	/* The packet is in no queue of ours. */
	h.w->report.queue = UNKNOWN;
	return take_out(skb, &h);
}

SEC("tc")
int radar_int_ingress(struct __sk_buff *skb)
{
	struct int_port *port = port_of(skb->ifindex);
	__u64 now;

	if (!port)
		return TC_ACT_UNSPEC;
	now = bpf_ktime_get_ns();
	/* Who paces packets across namespaces has set a time that is still to come: it stays. */
	if (cfg_times && !(skb->tstamp_type == CLOCK_OF_DELIVERY && skb->tstamp > now))
		bpf_skb_set_tstamp(skb, now, CLOCK_OF_DELIVERY);
	if (port->flags & (INT_PORT_DROP_FOREIGN | INT_PORT_HOST))
		return check_incoming(skb, port, now);
	return TC_ACT_UNSPEC;
}

SEC("tc")
int radar_int_egress(struct __sk_buff *skb)
{
	struct hop h = { .out = port_of(skb->ifindex) };
	enum int_skip why;

	h.w = page(&works);
	h.n = page(&counters);
	if (!h.out || !h.w || !h.n)
		return TC_ACT_UNSPEC;
	h.now = bpf_ktime_get_ns();
	h.in = skb->ingress_ifindex ? port_of(skb->ingress_ifindex) : NULL;
	why = parse(skb, &h.w->packet);
	if (why) {
		if (why == INT_SKIP_NOT_TCP_UDP && may_quote_int(&h))
			free_quote(skb, &h);
		count_skip(h.n, why);
		return TC_ACT_UNSPEC;
	}
	if (is_report(&h.w->packet))
		why = INT_SKIP_REPORT;
	if (!why && is_train(skb, &h.w->packet)) {
		why = INT_SKIP_GSO;
		if (is_marked(&h.w->packet) && is_from_outside(&h) && train_bears(skb))
			return cover(skb, room_for_cover(&h));
	}
	if (!why && is_marked(&h.w->packet) && find_int(skb)) {
		if (is_from_outside(&h))
			return cover(skb, room_for_cover(&h));
		if (leads_inside(h.out))
			return pass_on(skb, &h);
		observe(skb, &h.w->report, h.in, h.out, h.w->found.instructions, h.now);
		return take_out(skb, &h);
	}
	if (!why && h.in && h.in->flags & INT_PORT_INSIDE &&
	    (dscp_marks(&h.w->packet) || port_marks(&h.w->packet)))
		why = INT_SKIP_NOT_INT;
	if (!why && skb->ingress_ifindex && !h.in)
		why = INT_SKIP_NO_ROLE;
	if (!why)
		why = begin(skb, &h);
	if (why)
		count_skip(h.n, why);
	return TC_ACT_UNSPEC;
}

/* Enumerations that no program names as a type: user space needs them. */
const enum int_port_flag *abi_port_flag __attribute__((unused));
const enum int_mode *abi_mode __attribute__((unused));
const enum int_skip *abi_skip __attribute__((unused));
const enum int_done *abi_done __attribute__((unused));
const enum int_report_flag *abi_report_flag __attribute__((unused));

char LICENSE[] SEC("license") = "Dual BSD/GPL";
