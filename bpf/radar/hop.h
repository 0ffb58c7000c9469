/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What happens at a port: a packet comes in, a packet goes out. */
#ifndef RADAR_HOP_H
#define RADAR_HOP_H

#include "quote.h"
#include "source.h"

static __always_inline bool is_local(__u16 node, __be32 addr)
{
	struct rdr_local key = { .node = node, .addr = addr };
	const struct rdr_node *n;

	n = bpf_map_lookup_elem(&nodes, &key.node);
	if (n && n->known) {
#pragma unroll
		for (__u32 i = 0; i < RDR_NODE_ADDRS; i++) {
			if (i + 1 >= n->known)
				return false;
			if (n->addr[i] == addr)
				return true;
		}
		return false;
	}
	return bpf_map_lookup_elem(&locals, &key) != NULL;
}

static __always_inline void set_mark(struct __sk_buff *skb, const struct found *f)
{
	if (!cfg_mark_mask)
		return;
	if (skb->mark & cfg_mark_mask) {
		count(RDR_C_MARK_BUSY, 1);
		return;
	}
	skb->mark |= (f->index + 1) << cfg_mark_shift;
}

/* Not IPv4, or not to be parsed: counted where a source would have met it. */
static __always_inline void pass_unparsed(struct __sk_buff *skb, enum parse_result why, bool source)
{
	if (why == PARSE_OTHER) {
		count(RDR_C_OTHER_L3, 1);
		return;
	}
	if (!source) {
		count(RDR_C_PASSED, 1);
		return;
	}
	count(RDR_C_SEEN, 1);
	count(why == PARSE_IPV6		? RDR_C_NM_IPV6 :
	      why == PARSE_VLAN_DEPTH	? RDR_C_NM_VLAN_DEPTH :
					  RDR_C_NM_MALFORMED,
	      1);
}

static __always_inline enum parse_result parse(struct __sk_buff *skb, const struct rdr_port *port,
					       struct packet *p)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	enum parse_result r;

	/* Headers may lie in fragments of the skb; look at all of them or at none. */
	if (data + MAX_PULL > end && skb->len > (__u32)(end - data))
		bpf_skb_pull_data(skb, skb->len < MAX_PULL ? skb->len : MAX_PULL);
	r = parse_link(skb, port->flags & RDR_PF_L3, p);
	if (r == PARSE_IPV4)
		r = parse_ipv4(skb, p);
	if (r == PARSE_IPV4)
		parse_l4(skb, p);
	return r;
}

/*
 * What it is that a packet for daddr comes in by a port with these flags: it goes onto
 * a link between nodes, ends here, leaves the domain (the host behind a bridge is
 * outside), or goes on into the node. A call makes one verifier state of many.
 */
GLOBAL __u32 entry_kind(__u32 flags, __u32 node, __be32 daddr)
{
	if (flags & RDR_PF_BRIDGE_PORT)
		return RDR_EV_EGRESS;
	if (is_local(node, daddr))
		return RDR_EV_DELIVER;
	return flags & RDR_PF_BRIDGE ? RDR_EV_LEFT : RDR_EV_INGRESS;
}

/* An unmeasured packet enters the node, or a bridge link. */
static __always_inline void enter_unknown(struct __sk_buff *skb, const struct packet *p, __u64 now,
					  const struct rdr_port *port, __u32 port_no)
{
	struct found f = {};
	bool by_key;
	__u32 kind;

	if (!(port->flags & RDR_PF_SOURCE_IN)) {
		count(RDR_C_PASSED, p->n);
		return;
	}
	kind = entry_kind(port->flags, port->node, p->daddr);
	/* Under --carry header nothing would bring the index through the node: the
	 * port where the packet leaves is its source. */
	if (!cfg_mark_mask && kind == RDR_EV_INGRESS)
		return;
	by_key = kind == RDR_EV_EGRESS && wants_key(p, p->bits.ttl);
	if (!source(skb, p, now, kind, port_no, by_key, &f))
		return;
	if (kind != RDR_EV_EGRESS)
		set_mark(skb, &f);
	else if (!by_key && !write_bits(skb, p->l3, guid_encode(f.index, p->bits.tos)))
		count(RDR_C_NM_WRITE, p->n);
}

/*
 * Whether a sighting at ingress is of a copy that says nothing about the packet: one
 * that a bridge flooded and whose frame is for another host. The host behind a bridge
 * device drops it at once (it is shown to taps); elsewhere it may go on over a bridge,
 * so it counts as long as the packet has arrived nowhere.
 */
static __always_inline bool is_idle_copy(struct __sk_buff *skb, const struct rdr_port *port,
					 bool local, __u32 index)
{
	bool stranger = skb->pkt_type == PACKET_OTHERHOST;

	if (port->flags & RDR_PF_BRIDGE)
		return stranger || has_arrived(index);
	return stranger && !local && has_arrived(index);
}

/* A packet of ours enters the node: note it, show its true header to the node. */
static __always_inline void enter_known(struct __sk_buff *skb, const struct packet *p, __u64 now,
					const struct rdr_port *port, __u32 port_no, struct found *f)
{
	__u32 kind = entry_kind(port->flags, port->node, p->daddr);
	bool local = kind == RDR_EV_DELIVER;
	/* The bridge device: the host is outside, its headers are the true ones. */
	bool leaves = port->flags & RDR_PF_BRIDGE;
	bool idle;
	struct sighting w = {
		.now = now,
		.kind = kind,
		.flags = RDR_EVF_FIRST | (f->by_key ? RDR_EVF_KEYED : 0),
		.port = port_no,
		.fixed_id = f->fixed_id,
	};
	union rdr_bits b;

	if (kind == RDR_EV_EGRESS) {
		/* On its way, and the link is where it goes: whoever sees it next
		 * restores it. */
		count(RDR_C_PASSED, p->n);
		return;
	}
	idle = is_idle_copy(skb, port, local, f->index);
	if (f->by_bits) {
		if (!true_bits(f, p, &b)) {
			count(RDR_C_STALE, p->n);
			return;
		}
		/* --carry header leaves the GUID in place, but not before the node
		 * itself, and not where the packet must end here. What hidden routers
		 * took from the TTL is settled now: the node will take from it too. */
		if (cfg_mark_mask || local || leaves || b.ttl <= 1) {
			if (!write_bits(skb, p->l3, b))
				count(RDR_C_RESTORE_FAILED, p->n);
		} else if (f->decrements) {
			w.keep_bits = 1;
			w.bits = b;
			if (!write_bits(skb, p->l3, guid_encode(f->index, b.tos)))
				count(RDR_C_RESTORE_FAILED, p->n);
		}
	} else if ((local || leaves) && !idle) {
		drop_keys(f->slot, p, p->bits.id);
	}
	if (!idle)
		see(f->slot, f->index, p->n, &w);
	if (!leaves)
		set_mark(skb, f);
}

/* New addresses of the slot at index; told in its log if flags are given, else the
 * train's head does. */
GLOBAL int note_one(__u32 index, __u64 addrs, __u64 ports_port, __u64 now, __u32 flags)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));

	if (!s)
		return 0;
	s->flow_hash = tuple_hash(addrs, addrs >> 32, ports_port);
	if (flags)
		add_event_data(s, RDR_EV_ADDR, flags, ports_port >> 32, now, addrs,
			       (__u32)ports_port);
	return 0;
}

#define RUN_IS_WHOLE (1ULL << 48)

/* ports_port: source port, destination port, the port's number, RUN_IS_WHOLE. */
GLOBAL int note_run(__u32 index, __u32 n, __u64 addrs, __u64 ports_port, __u64 now)
{
	for (__u32 k = 0; k < RDR_MAX_RUN && k < n; k++)
		note_one(index + k, addrs, ports_port, now,
			 !(ports_port & RUN_IS_WHOLE) ? RDR_EVF_FIRST | RDR_EVF_PART : !k ? RDR_EVF_FIRST : 0);
	return 0;
}

/* The addresses changed in this node (NAT): one story, both tuples. */
static __always_inline void note_addresses(const struct found *f, const struct packet *p,
					   __u64 now, __u32 port_no)
{
	__u64 ports = p->sport | (__u32)p->dport << 16 | (__u64)(port_no & 0xffff) << 32;

	if (f->slot->flow_hash == flow_hash(p) || (p->frag & IP_OFFSET))
		return;
	if (is_whole(f->slot, p->n))
		ports |= RUN_IS_WHOLE;
	note_run(f->index, p->n, key_addrs(p->saddr, p->daddr), ports, now);
}

/*
 * A measured packet leaves at an edge with its true bits. At a bridge port it may be a
 * flooded copy: others still need the key (pkg/datapath sweeps it), and if one of them
 * has arrived, that is what became of the packet.
 */
static __always_inline void leave_domain(struct __sk_buff *skb, const struct packet *p,
					 const struct rdr_port *port, struct sighting *w,
					 union rdr_bits b, struct found *f)
{
	if (f->by_bits && !write_bits(skb, p->l3, b))
		count(RDR_C_RESTORE_FAILED, p->n);
	if (!(port->flags & RDR_PF_BRIDGE_PORT))
		drop_keys(f->slot, p, b.id);
	else if (has_arrived(f->index))
		return;
	w->kind = RDR_EV_LEFT;
	see(f->slot, f->index, p->n, w);
}

/* A packet sourced at this node's ingress that cannot have its key was not measured
 * after all, and leaves no story that looks like a loss. */
static __always_inline bool unmark(const struct found *f, const struct packet *p, int err)
{
	struct rdr_slot *s = f->slot;

	if (!is_whole(s, p->n) || s->nev != 1)
		return false;
	unuse_slots(s->pos, p->n);
	count(RDR_C_MARKED, -(__u64)p->n);
	count(err == PUT_FULL ? RDR_C_NM_KEYS_FULL : RDR_C_NM_KEY_IN_FLIGHT, p->n);
	return true;
}

/* A packet that has a backpack leaves the node. */
static __always_inline void leave_known(struct __sk_buff *skb, const struct packet *p, __u64 now,
					const struct rdr_port *port, __u32 port_no, struct found *f)
{
	struct sighting w = {
		.now = now,
		.kind = RDR_EV_EGRESS,
		.flags = RDR_EVF_FIRST,
		.port = port_no,
		/* Of flooded copies each is restored from what the sender wrote. */
		.keep_bits = !!(port->flags & RDR_PF_BRIDGE_PORT) ^ 1,
		.fixed_id = f->fixed_id,
	};
	union rdr_bits b = p->bits;
	int err;

	if (f->by_bits && !true_bits(f, p, &b)) {
		count(RDR_C_STALE, p->n);
		return;
	}
	w.bits = b;
	note_addresses(f, p, now, port_no);
	if (!(port->flags & RDR_PF_INTERNAL)) {
		leave_domain(skb, p, port, &w, b, f);
		return;
	}
	if (wants_key(p, b.ttl)) {
		w.flags |= RDR_EVF_KEYED;
		err = keep_keys(f->slot, p, b.id, now);
		if (err && unmark(f, p, err))
			return;
		if (err)
			count(RDR_C_KEY_LOST, p->n);
		if (f->by_bits && !write_bits(skb, p->l3, b))
			count(RDR_C_RESTORE_FAILED, p->n);
		see(f->slot, f->index, p->n, &w);
		return;
	}
	/* The slot before the packet: whoever sees the bits finds them explained. */
	see(f->slot, f->index, p->n, &w);
	if (!write_bits(skb, p->l3, guid_encode(f->index, b.tos)))
		count(RDR_C_NM_WRITE, p->n);
}

/* A packet without a backpack leaves the node. */
static __always_inline void leave_unknown(struct __sk_buff *skb, const struct packet *p, __u64 now,
					  const struct rdr_port *port, __u32 port_no, bool may_source)
{
	bool internal = port->flags & RDR_PF_INTERNAL;
	bool by_key = internal && wants_key(p, p->bits.ttl);
	struct found f = {};

	if (!may_source) {
		count(RDR_C_PASSED, p->n);
		return;
	}
	if (!source(skb, p, now, internal ? RDR_EV_EGRESS : RDR_EV_LEFT, port_no, by_key, &f))
		return;
	if (internal && !by_key && !write_bits(skb, p->l3, guid_encode(f.index, p->bits.tos)))
		count(RDR_C_NM_WRITE, p->n);
}

#endif
