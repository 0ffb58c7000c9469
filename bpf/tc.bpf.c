// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The TC programs. A domain loads them once; each port has two stubs that put its
 * number into cb[0] and tail-call here. They never drop, redirect or accept: what
 * other programs on the hook decide stays theirs (TC_ACT_UNSPEC, TCX_NEXT). (The
 * kernel itself drops a cloned packet whose header it cannot copy for writing.)
 */
#include "radar/base.h"
#include "radar/config.h"
#include "radar/maps.h"
#include "radar/hop.h"

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

/* The same for egress. A call makes one verifier state of three. */
GLOBAL __u32 expect_out(__u32 flags)
{
	if (flags & RDR_PF_BRIDGE_PORT)
		return EXPECT_OURS;
	return flags & RDR_PF_BRIDGE ? EXPECT_STRAY : EXPECT_COPIES;
}

SEC("tc")
int radar_ingress(struct __sk_buff *skb)
{
	const struct rdr_port *port;
	struct packet p = {};
	struct found f = {};
	enum parse_result r;
	__u32 port_no;
	__u64 now;

	port = this_port(skb, &port_no);
	if (!port)
		return PASS;
	r = parse(skb, port, &p);
	if (r != PARSE_IPV4) {
		pass_unparsed(skb, r, port->flags & RDR_PF_SOURCE_IN);
		return PASS;
	}
	now = bpf_ktime_get_ns();
	if (is_icmp_error(&p))
		restore_quote(skb, p.l4 + ICMP_HDR, quote_len(&p), now);
	if (find_on_wire(&p, now, expect_in(port), &f))
		enter_known(skb, &p, now, port, port_no, &f);
	else
		enter_unknown(skb, &p, now, port, port_no);
	return PASS;
}

/*
 * Whether this port may source a packet that leaves without a backpack: what the
 * node itself sends, and what came in where we do not look. A packet that came in
 * by an attached port has met a source before and was refused.
 */
static __always_inline bool may_source(struct __sk_buff *skb, const struct rdr_port *port)
{
	struct rdr_dev dev = { .netns_inum = port->netns_inum, .ifindex = skb->ingress_ifindex };
	const struct rdr_port *in;
	__u32 *in_no;

	if (!(port->flags & RDR_PF_SOURCE_OUT))
		return false;
	/* A host that sends something into its bridge is outside, wherever that came in. */
	if (!dev.ifindex || (port->flags & RDR_PF_BRIDGE))
		return true;
	in_no = bpf_map_lookup_elem(&devs, &dev);
	if (!in_no)
		return true;
	if (cfg_mark_mask)
		return false;
	in = bpf_map_lookup_elem(&ports, in_no);
	return in && in->flags & RDR_PF_SOURCE_IN;
}

/* Whether p cannot be one of ours, by bits or by key, and quotes none. */
static __always_inline bool is_plain(const struct packet *p)
{
	return !is_icmp_error(p) && !cfg_ttl_band[p->bits.ttl] && !wants_key(p, p->bits.ttl) &&
	       (cfg_ttl_width > 1 || cfg_mark_mask);
}

SEC("tc")
int radar_egress(struct __sk_buff *skb)
{
	const struct rdr_port *port;
	struct packet p = {};
	struct found f = {};
	enum parse_result r;
	__u32 port_no, mark;
	bool known = false;
	__u64 now = 0;

	port = this_port(skb, &port_no);
	if (!port)
		return PASS;
	r = parse(skb, port, &p);
	if (r != PARSE_IPV4) {
		pass_unparsed(skb, r, may_source(skb, port));
		return PASS;
	}
	mark = skb->mark;
	if (mark & mark_mask(port)) {
		now = bpf_ktime_get_ns();
		known = find_by_mark(mark, &p, now, &f);
		if (known)
			skb->mark = mark & ~cfg_mark_mask;
		else
			count(RDR_C_FOREIGN_MARK, p.n);
	}
	/* One that nobody measures so far has no time yet: its source reads the clock. */
	if (!known && !is_plain(&p)) {
		now = bpf_ktime_get_ns();
		known = skb->ingress_ifindex && find_lowered(&p, port, now, &f);
		if (!known)
			known = find_on_wire(&p, now, expect_out(port->flags), &f);
	}
	if (is_icmp_error(&p))
		restore_quote(skb, p.l4 + ICMP_HDR, quote_len(&p), now);
	if (known)
		leave_known(skb, &p, now, port, port_no, &f);
	else
		leave_unknown(skb, &p, now, port, port_no, may_source(skb, port));
	return PASS;
}

/* Types that no map names, kept in the BTF for user space. */
const struct rdr_slot *abi_slot __attribute__((unused));
const enum rdr_event *abi_event __attribute__((unused));
const enum rdr_event_flag *abi_event_flag __attribute__((unused));
const enum rdr_state *abi_state __attribute__((unused));
const enum rdr_cut *abi_cut __attribute__((unused));
const enum rdr_slot_flag *abi_slot_flag __attribute__((unused));
const enum rdr_port_flag *abi_port_flag __attribute__((unused));
const enum rdr_prog *abi_prog __attribute__((unused));
const enum rdr_counter *abi_counter __attribute__((unused));

char LICENSE[] SEC("license") = "Dual BSD/GPL";
