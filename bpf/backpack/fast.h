/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The fast path: the common packet at the common port. It is short, so that its code stays
 * in the caches, and makes no call of a BPF function, but to take slots and to ask the expression
 * of --watch. It decides nothing by itself: whatever is not as it expects goes to the
 * programs that do everything (hop.h), before anything was written. What it writes is what they
 * would write, and a test holds both to that.
 *
 * The common port is inside the domain, has Ethernet, and its node carries the mark. The common
 * packet is IPv4 without options and tags, TCP, UDP or an echo request, with DF set, for one host;
 * alone, or a train that is whole.
 */
#ifndef BACKPACK_FAST_H
#define BACKPACK_FAST_H

#include "hop.h"

/* What a port may be besides inside the domain: all that makes no difference to the fast path. */
#define FAST_PORT (RDR_PF_INTERNAL | RDR_PF_SOURCE_OUT | RDR_PF_QUEUE)

/* Whether it is the common port. */
static __always_inline bool is_common_port(const struct rdr_port *port)
{
	return cfg_mark_mask && !(port->flags & ~FAST_PORT) && port->flags & RDR_PF_INTERNAL;
}

/* Whether so many bytes of the packet are in the skb's linear part. */
static __always_inline bool has_linear(struct __sk_buff *skb, __u32 bytes)
{
	return (__u32)(skb->data_end - skb->data) >= bytes;
}

/* Fills p as parse() does, if it is the common packet. */
static __always_inline bool parse_common(struct __sk_buff *skb, struct packet *p)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);
	__u32 len, have;

	if ((void *)(ip + 1) > end || eth->h_proto != bpf_htons(ETH_P_IP) || eth->h_dest[0] & 1 ||
	    *(__u8 *)ip != 0x45 || ip->frag_off != bpf_htons(IP_DF) || skb->vlan_present)
		return false;
	len = bpf_ntohs(ip->tot_len);
	p->l3 = sizeof(*eth);
	p->l4 = sizeof(*eth) + sizeof(*ip);
	have = len - sizeof(*ip);
	/* What identity.h reads must be there. */
	if (len < sizeof(*ip) + UDP_HDR || is_other_size(skb, p->l3, len, skb->gso_size) ||
	    !has_linear(skb, p->l4 + (have < L4_PULL ? have : L4_PULL)))
		return false;
	p->len = len;
	read_start4(ip, p);
	p->frag = IP_DF; /* a constant for the compiler */
	p->gso_size = skb->gso_size;
	if ((p->proto != IPPROTO_TCP && p->proto != IPPROTO_UDP && p->proto != IPPROTO_ICMP) ||
	    bpf_ntohl(p->daddr) >= 0xe0000000)
		return false;
	read_l4(skb, p, p->l4, have);
	p->n = segments(skb, len, repeated_hdr(p));
	return p->proto != IPPROTO_ICMP || p->icmp_type == 8;
}

/* The slot at index, if it is p's, and p is in flight, or inside a node, as it was sent. */
static __always_inline struct rdr_slot *common_slot(__u32 index, const struct packet *p)
{
	struct rdr_slot *s = slot_at(index);
	__u32 other;

	if (!s)
		return NULL;
	other = (s->tag ^ p->tag) | (s->tag2 ^ p->tag2) | (s->proto ^ p->proto) | s->state |
		(s->cut & ~RDR_MINUS_ZERO) | s->seg | (s->segs ^ p->n) | (s->len ^ first_len(p));
	return other ? NULL : s;
}

/* Whether the log of s has an event, and room for one more and for the packet's end. */
static __always_inline bool has_common_log(const struct rdr_slot *s)
{
	return s->nev && s->nev + 1 + RDR_END_CELLS <= cfg_cells;
}

/* add_event() where there is room. */
static __always_inline void add_common(struct rdr_slot *s, __u32 kind, __u32 port_no, __u64 now)
{
	__u64 nev = s->nev;

	/* The verifier must see it here: see end_of_log(). */
	asm volatile("" : "+r"(nev));
	if (nev >= cfg_cells)
		return;
	*slot_cell(s, nev) = make_cell(s, kind, RDR_EVF_FIRST, port_no, now);
	barrier();
	WRITE_ONCE(s->nev, nev + 1);
}

/* A packet comes in by its bits. Returns false if the fast path is not for it. */
static __always_inline bool fast_enter(struct __sk_buff *skb, const struct rdr_port *port,
				       __u32 port_no)
{
	struct packet p = {};
	struct found f = {};
	const struct rdr_node *node;
	__u32 no = port->node, local;
	union rdr_bits b;
	__u64 now;
	__u8 kept;

	if (!is_common_port(port) || skb->mark & cfg_mark_mask || !parse_common(skb, &p))
		return false;
	f.index = guid_decode(p.bits, &f.decrements);
	if (f.index == NO_INDEX)
		return false;
	f.slot = common_slot(f.index, &p);
	node = bpf_map_lookup_elem(&nodes, &no);
	if (!f.slot || !node || !node->multiplier)
		return false;
	b = slot_bits(f.slot);
	if (!has_common_log(f.slot) || b.ttl <= f.decrements)
		return false;
	now = bpf_ktime_get_ns();
	if (!slot_alive(f.slot, now))
		return false;
	kept = b.tos;
	b.tos = true_tos(kept, p.bits.tos);
	b.ttl -= f.decrements;
	if (!write_bits4(skb, p.l3, b, spells_minus_zero(&f, kept, b.tos)))
		return false;
	local = has_addr(node, p.daddr);
	f.slot->state = local * RDR_ST_DONE;
	add_common(f.slot, RDR_EV_INGRESS + local * (RDR_EV_DELIVER - RDR_EV_INGRESS), port_no,
		   now);
	skb->mark |= (f.index + 1) << cfg_mark_shift;
	return true;
}

/* A packet leaves that has a mark. */
static __always_inline bool fast_leave(struct __sk_buff *skb, const struct rdr_port *port,
				       __u32 port_no, const struct packet *p)
{
	__u32 mark = skb->mark, index = marked_index(mark);
	struct rdr_slot *s;
	__u64 now;

	if (index >= cfg_slots)
		return false;
	s = common_slot(index, p);
	if (!s || s->id != p->bits.id || s->flow_hash != flow_hash(p) || wants_key(p, p->bits.ttl))
		return false;
	/* Else it may be another packet with that mark, or a copy: sift_marked(), note_copies(). */
	if (!has_common_log(s) || !has_come(last_cell(s), port->node))
		return false;
	now = bpf_ktime_get_ns();
	if (!slot_alive(s, now))
		return false;
	skb->mark = mark & ~cfg_mark_mask;
	set_slot_bits(s, p->bits);
	add_common(s, RDR_EV_EGRESS, port_no, now);
	keep_minus_zero(s, p->minus_zero);
	if (!write_bits4(skb, p->l3, guid_encode(index, p->bits.tos), 0))
		count(RDR_C_RESTORE_FAILED, p->n);
	return true;
}

/* A packet leaves the node that has sent it. Its bits cannot be ours. */
static __always_inline bool fast_source(struct __sk_buff *skb, const struct rdr_port *port,
					__u32 port_no, struct packet *p)
{
	struct found f = {};

	if (!(port->flags & RDR_PF_SOURCE_OUT) || skb->ingress_ifindex ||
	    cfg_ttl_band[p->bits.ttl] || wants_key(p, p->bits.ttl))
		return false;
	/* An expression may look behind the headers: pull_headers(). */
	if (cfg_watch && !has_linear(skb, skb->len < MAX_PULL ? skb->len : MAX_PULL))
		return false;
	if (p->gso_size && p->proto == IPPROTO_UDP)
		p->odd_train |= is_tunnel_train(skb, p);
	if (!source(skb, p, 0, RDR_EV_EGRESS, port_no, false, &f))
		return true;
	if (!stamp_guid(skb, p, guid_encode(f.index, p->bits.tos)))
		unmeasure(&f, p, RDR_C_NM_WRITE);
	return true;
}

/* A packet leaves. */
static __always_inline bool fast_out(struct __sk_buff *skb, const struct rdr_port *port,
				     __u32 port_no)
{
	struct packet p = {};

	if (!is_common_port(port) || port->behind || !parse_common(skb, &p))
		return false;
	return skb->mark & cfg_mark_mask ? fast_leave(skb, port, port_no, &p) :
					   fast_source(skb, port, port_no, &p);
}

#endif
