// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The TC programs. A domain loads them once; each port has two stubs that put its
 * number into cb[0] and tail-call here. They never drop, redirect or accept: other
 * programs on the hook decide that (TC_ACT_UNSPEC, TCX_NEXT). (The kernel itself
 * drops a cloned packet whose header it cannot copy for writing.)
 */
#include "fast.h"

#define PASS (-1)

static __always_inline const struct rdr_port *this_port(struct __sk_buff *skb, __u32 *port_no)
{
	*port_no = skb->cb[0];
	skb->cb[0] = 0;
	return bpf_map_lookup_elem(&ports, port_no);
}

/* What a port's ingress may find on the wire, find.h. */
static __always_inline enum expect expect_in(const struct rdr_port *port)
{
	if (port->flags & RDR_PF_BRIDGE_PORT)
		return EXPECT_STRAY;
	return port->flags & RDR_PF_SOURCE_IN ? EXPECT_LIVE : EXPECT_OURS;
}

/* Jumps to another program, which starts again; returns if there is none. */
static __always_inline void go_on_in(struct __sk_buff *skb, __u32 port_no, enum rdr_prog prog)
{
	skb->cb[0] = port_no;
	bpf_tail_call_static(skb, &progs, prog);
	skb->cb[0] = 0;
}

/* Whether the packet is IPv6, without a tag in the frame. */
static __always_inline bool is_plain_ipv6(struct __sk_buff *skb, const struct rdr_port *port)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct ethhdr *eth = data;

	return cfg_ip6 && !(port->flags & RDR_PF_L3) && (void *)(eth + 1) <= end &&
	       eth->h_proto == bpf_htons(ETH_P_IPV6);
}

/* Jumps to the program for IPv6, which starts again; returns if there is none. */
static __always_inline void go_on_as_ipv6(struct __sk_buff *skb, __u32 port_no, enum rdr_prog prog)
{
	if (cfg_ip6)
		go_on_in(skb, port_no, prog);
}

/* From here on an error that quotes a packet is like any other packet: the verifier sees one state, as
 * after forget_form(). (IPv6 has no room for it on the stack before Linux 5.15, and needs it less.) */
static __always_inline void forget_kind(struct packet *p, __u32 zero)
{
	p->proto += zero;
	p->icmp_type += zero;
	p->frag += zero;
	p->bits.word += zero;
}

static __always_inline int ingress(struct __sk_buff *skb, bool v6)
{
	const struct rdr_port *port;
	struct packet p = { .v6 = v6 };
	struct found f = {};
	struct wire w;
	enum parse_result form;
	__u32 port_no, mark;
	__u64 now, r;
	bool known;

	port = this_port(skb, &port_no);
	if (!port)
		return PASS;
	form = parse(skb, port, true, &p);
	if (form != (v6 ? PARSE_IPV6 : PARSE_IPV4)) {
		if (!v6 && form == PARSE_IPV6)
			go_on_as_ipv6(skb, port_no, RDR_PROG_INGRESS6);
		/* Without marks the port where it leaves is its source: enter_unknown(). */
		pass_unparsed(skb, form,
			      port->flags & RDR_PF_SOURCE_IN &&
				      (form != PARSE_IPV6 || mark_mask(port) || is_closing(port)),
			      p.l3);
		return PASS;
	}
	now = bpf_ktime_get_ns();
	mark = skb->mark;
	if ((mark & mark_mask(port)) && was_outside(marked_index(mark), port->node, now))
		skb->mark = mark & ~cfg_mark_mask;
	if (is_icmp_error(&p) && expect_in(port) == EXPECT_OURS)
		restore_quoted(skb, &p, now, port_no);
	if (!v6)
		forget_kind(&p, HIDDEN_ZERO(skb->len));
	if (v6) {
		r = found_on_wire(&p, port->flags, expect_in(port), now);
		known = unpack_found(r, &f);
		f.missed = known ? 0 : r >> FOUND_MISSED_SHIFT;
	} else {
		known = find_on_wire(&p, now, expect_in(port), &f);
	}
	if (known && f.by_key && is_equal_coming(f.index, port_no, port->flags & RDR_PF_SOURCE_IN))
		known = false;
	if (known && f.by_bits && expect_in(port) != EXPECT_OURS &&
	    is_spelled_by_chance(f.index, flow_hash(&p))) {
		f.missed = RDR_C_FOREIGN;
		known = false;
	}
	if (!known && skb->mark & mark_mask(port)) {
		r = sift_handed(found_by_mark(skb->mark, &p, now), port_no, run_of(&p));
		known = unpack_found(r, &f);
		if (known)
			skb->mark &= ~cfg_mark_mask; /* enter_known() sets it again */
	}
	if (!known) {
		w = pack_wire(&p, port->flags, expect_in(port));
		r = found_changed(&w, flow_hash(&p), port_no, 0, now);
		known = unpack_found(r, &f);
		if (!known)
			pass_if_late(skb, &p, &w, f.missed, port->node,
				     is_closing(port) ? 0 : UNFOUND_NOTE);
	}
	if (known)
		enter_known(skb, &p, now, port, port_no, &f);
	else
		enter_unknown(skb, &p, now, port, port_no);
	return PASS;
}

/* What stubs jump to: the fast path, and where it is not for the packet, the jump to the program that
 * is. in: the packet comes in. */
static __always_inline int begin(struct __sk_buff *skb, bool in)
{
	const struct rdr_port *port;
	__u32 port_no;

	port = this_port(skb, &port_no);
	if (!port || (in ? fast_enter(skb, port, port_no) : fast_out(skb, port, port_no)))
		return PASS;
	if (is_plain_ipv6(skb, port))
		go_on_in(skb, port_no, in ? RDR_PROG_INGRESS6 : RDR_PROG_EGRESS6);
	go_on_in(skb, port_no, in ? RDR_PROG_INGRESS4 : RDR_PROG_EGRESS4);
	return PASS;
}

SEC("tc")
int radar_ingress(struct __sk_buff *skb)
{
	return begin(skb, true);
}

SEC("tc")
int radar_ingress4(struct __sk_buff *skb)
{
	return ingress(skb, false);
}

SEC("tc")
int radar_ingress6(struct __sk_buff *skb)
{
	return ingress(skb, true);
}

/*
 * Whether this port may source a packet that leaves without a backpack. It may if the node itself
 * sends the packet, or if it came by an interface that is not attached. A packet that came by an
 * attached port has met a source there, which refused it. made_here: the node has put it around
 * another one.
 */
static __always_inline bool may_source(struct __sk_buff *skb, const struct rdr_port *port,
				       bool made_here)
{
	struct rdr_dev dev = { .netns_inum = port->netns_inum, .ifindex = skb->ingress_ifindex };
	const struct rdr_port *in;
	__u32 *in_no;

	if (!(port->flags & RDR_PF_SOURCE_OUT))
		return false;
	/* A host that sends into its bridge is outside, wherever the packet came in. */
	if (made_here || !dev.ifindex || (port->flags & RDR_PF_BRIDGE))
		return true;
	/* A packet that the node sent to a group and now routes itself. */
	if (skb->pkt_type == PACKET_LOOPBACK)
		return true;
	in_no = bpf_map_lookup_elem(&devs, &dev);
	if (!in_no)
		return true;
	if (mark_mask(port))
		return false;
	in = bpf_map_lookup_elem(&ports, in_no);
	return in && in->flags & (RDR_PF_SOURCE_IN | RDR_PF_APART);
}

/*
 * A packet that is fragmented in a node goes on as its first fragment. The others are measured from
 * here on, each as a packet of its own. They have their packet's mark (cut). Without marks a
 * fragment without a backpack may have been cut here, or may have come to the node as one.
 */
static __always_inline bool is_cut_here(const struct packet *p, const struct rdr_port *port,
					bool cut)
{
	if (!(port->flags & RDR_PF_SOURCE_OUT))
		return false;
	return mark_mask(port) ? cut : (p->frag & IP_OFFSET) && !is_closing(port);
}

/* Whether p, by its bits and key, cannot be ours, and quotes no packet. */
static __always_inline bool is_plain(struct __sk_buff *skb, const struct packet *p,
				     const struct rdr_port *port, __u32 port_no)
{
	return !is_icmp_error(p) && !cfg_ttl_band[p->bits.ttl] && !wants_key(p, p->bits.ttl) &&
	       (cfg_ttl_width > 1 || cfg_mark_mask) && !may_be_shown(p, port->flags) &&
	       !may_be_changed(skb, port, port_no);
}

static __always_inline int egress(struct __sk_buff *skb, bool v6)
{
	const struct rdr_port *port;
	struct packet p = { .v6 = v6 };
	struct found f = {};
	enum parse_result kind;
	__u32 port_no, mark;
	__u64 now = 0, r = 0;
	bool known, marked, cut = false, late = false;

	port = this_port(skb, &port_no);
	if (!port)
		return PASS;
	kind = parse(skb, port, false, &p);
	if (kind != (v6 ? PARSE_IPV6 : PARSE_IPV4)) {
		if (!v6 && kind == PARSE_IPV6)
			go_on_as_ipv6(skb, port_no, RDR_PROG_EGRESS6);
		if (skb->mark & marks_out(port))
			leave_wrapped(skb, skb->mark, port_no);
		pass_unparsed(skb, kind, may_source(skb, port, false), p.l3);
		return PASS;
	}
	mark = skb->mark;
	if (mark & marks_out(port)) {
		now = bpf_ktime_get_ns();
		r = found_by_mark(mark, &p, now);
		if (r)
			r = sift_marked(r, port_no, p.bits.word, run_of(&p) | (__u32)p.v6 << 31);
		else if (mark_mask(port))
			r = found_changed_inside(mark, &p, port_no, now);
		if (!r)
			r = found_inside(marked_index(mark), port_no, now);
		if (!r)
			cut = is_cut_off(&p, mark, port_no, now);
		if (r || cut)
			skb->mark = mark & ~cfg_mark_mask;
		else if (mark_mask(port) && /* else the bits are the node's own */
			 !leave_wrapped(skb, mark, port_no))
			count(RDR_C_FOREIGN_MARK, p.n);
	}
	marked = r;
	/* The clock is not read for a plain packet: its source does that. */
	if (!r && !is_plain(skb, &p, port, port_no)) {
		now = bpf_ktime_get_ns();
		r = found_unmarked(skb, &p, &late, port, port_no, now);
		if (!r && cut)
			r = found_cut(mark, &p, now);
		if (!r && !late)
			take_bits_back(skb, &p, port, port_no, now);
	}
	/* A packet with a mark has not left by a port before. */
	if (!marked && skb->ingress_ifindex) {
		r = follow_redirect(skb, r, port_no, p.tag | (__u64)p.tag2 << 32,
				    redirect_form(&p));
		/* (From here, and no call further down: before Linux 5.15 stacks must fit.) */
		if (r & REDIRECT_NOTE)
			see_run(r, p.n, bpf_ktime_get_ns(), again_sighting(port_no), 0);
		if (r & REDIRECT_AGAIN)
			return PASS;
		f.source = r >> REDIRECT_SOURCE_SHIFT & 1;
	}
	known = unpack_found(r, &f);
	/* What came by some port was restored there. */
	if (is_icmp_error(&p) && (is_closing(port) || !skb->ingress_ifindex))
		restore_quoted(skb, &p, now, port_no | QUOTE_OUT);
	if (p.gso_size && p.proto == IPPROTO_UDP)
		p.odd_train |= is_tunnel_train(skb, &p);
	if (known) {
		if (!now) /* found by the note of another port */
			now = bpf_ktime_get_ns();
		pass_mark_on(skb, port, &f);
		leave_known(skb, &p, now, port, port_no, &f);
	} else {
		leave_unknown(skb, &p, now, port, port_no,
			      may_source(skb, port, f.inside) || is_cut_here(&p, port, cut), &f);
	}
	return PASS;
}

SEC("tc")
int radar_egress(struct __sk_buff *skb)
{
	return begin(skb, false);
}

SEC("tc")
int radar_egress4(struct __sk_buff *skb)
{
	return egress(skb, false);
}

SEC("tc")
int radar_egress6(struct __sk_buff *skb)
{
	return egress(skb, true);
}

/* Types that no map names, kept in the BTF for user space. */
const struct rdr_slot *abi_slot __attribute__((unused));
const struct rdr_shift *abi_shift __attribute__((unused));
const struct rdr_guard *abi_guard __attribute__((unused));
const enum rdr_event *abi_event __attribute__((unused));
const enum rdr_event_flag *abi_event_flag __attribute__((unused));
const enum rdr_state *abi_state __attribute__((unused));
const enum rdr_cut *abi_cut __attribute__((unused));
const enum rdr_slot_flag *abi_slot_flag __attribute__((unused));
const enum rdr_port_flag *abi_port_flag __attribute__((unused));
const enum rdr_prog *abi_prog __attribute__((unused));
const enum rdr_ip6 *abi_ip6 __attribute__((unused));
const enum rdr_counter *abi_counter __attribute__((unused));

char LICENSE[] SEC("license") = "Dual BSD/GPL";
