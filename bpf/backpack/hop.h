/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What happens at a port: a packet comes in, a packet goes out. */
#ifndef BACKPACK_HOP_H
#define BACKPACK_HOP_H

#include "changed.h"
#include "handed.h"
#include "nat.h"
#include "quote6.h"
#include "redirect.h"
#include "source.h"
#include "wrapped.h"

GLOBAL int is_local6(struct __sk_buff *skb, __u32 l3, __u32 node)
{
	struct rdr_local6 key = { .node = node };

	if (bpf_skb_load_bytes(skb, l3 + offsetof(struct ip6_header, daddr), key.addr,
			       sizeof(key.addr)))
		return false;
	return bpf_map_lookup_elem(&locals6, &key) != NULL;
}

static __always_inline void set_mark(struct __sk_buff *skb, const struct rdr_port *port,
				     const struct found *f)
{
	if (!mark_mask(port))
		return;
	if (skb->mark & cfg_mark_mask) {
		count(RDR_C_MARK_BUSY, 1);
		return;
	}
	skb->mark |= (f->index + 1) << cfg_mark_shift;
}

GLOBAL int owns(__u32 node, __be32 daddr)
{
	return is_local(node, daddr);
}

/* Whether a packet that leaves by a tap ends in the virtual machine behind it: it is for an
 * address of the machine, or for a group. */
static __always_inline bool ends_behind(struct __sk_buff *skb, const struct rdr_port *port,
					const struct packet *p)
{
	if (!port->behind)
		return false;
	if (p->v6)
		return p->group || is_local6(skb, p->l3, port->behind);
	return p->group || owns(port->behind, p->daddr);
}

/* Not IP, or not to be parsed: counted where a source would have met it. l3: of IPv6, where it
 * begins. */
static __always_inline void pass_unparsed(struct __sk_buff *skb, enum parse_result why, bool source,
					  __u32 l3)
{
	__u32 n = 1;

	if (why == PARSE_LOOPED)
		return;
	if (why == PARSE_OTHER) {
		count(RDR_C_OTHER_L3, 1);
		return;
	}
	if (!source) {
		count(RDR_C_PASSED, 1);
		return;
	}
	if (why == PARSE_IPV6 && skb->gso_segs > 1)
		n = skb->gso_segs;
	count(RDR_C_SEEN, n);
	count(why == PARSE_IPV6	      ? (cfg_ip6 ? refuse_unloaded6(skb, l3) : RDR_C_NM_IPV6) :
	      why == PARSE_VLAN_DEPTH ? RDR_C_NM_VLAN_DEPTH :
	      why == PARSE_EXTENSIONS ? RDR_C_NM_EXTENSIONS :
					RDR_C_NM_MALFORMED,
	      n);
}

/* Fills p and returns PARSE_IPV4, or PARSE_IPV6 where p is to be of that version. in: it
 * comes in. */
static __always_inline enum parse_result parse(struct __sk_buff *skb, const struct rdr_port *port,
					       bool in, struct packet *p)
{
	enum parse_result r;

	/* An expression may look behind the headers: docs/filters.md. */
	pull_headers(skb, !p->v6 && !cfg_watch && !(port->flags & RDR_PF_L3));
	p->true_link = is_true_link(port->flags, p->v6);
	r = parse_link(skb, port->flags & RDR_PF_L3, p);
	/* Looped back without Ethernet header: its first byte, which is IP's, looks like a group.
	 * (It goes out again if the node routes its own packets for groups.) */
	if (in && (p->group || (r != PARSE_IPV4 && r != PARSE_IPV6)) &&
	    skb->pkt_type == PACKET_LOOPBACK)
		return PARSE_LOOPED;
	if (p->v6 ? r != PARSE_IPV6 : r != PARSE_IPV4)
		return r;
	r = p->v6 ? parse_ipv6(skb, p) : parse_ipv4(skb, p);
	if (p->v6 ? r == PARSE_IPV6 : r == PARSE_IPV4)
		parse_l4(skb, p);
	return r;
}

/*
 * The kind of event of a packet for daddr that comes in by a port with these flags: it goes onto a
 * link between nodes, ends here, leaves the domain (the host behind a bridge is outside, and so is
 * a node that can carry nothing), or goes on into the node. A call makes one verifier state of
 * many.
 */
GLOBAL __u32 entry_kind(__u32 flags, __u32 node_port, __be32 daddr, __u32 group)
{
	if (flags & RDR_PF_BRIDGE_PORT)
		return RDR_EV_EGRESS;
	if (group && is_member(node_port >> 16, daddr))
		return RDR_EV_DELIVER;
	if (is_local(node_port, daddr))
		return RDR_EV_DELIVER;
	return flags & (RDR_PF_BRIDGE | RDR_PF_APART) ? RDR_EV_LEFT : RDR_EV_INGRESS;
}

GLOBAL __u32 entry_kind6(struct __sk_buff *skb, __u32 l3, __u32 flags, __u32 node)
{
	if (flags & RDR_PF_BRIDGE_PORT)
		return RDR_EV_EGRESS;
	if (is_local6(skb, l3, node))
		return RDR_EV_DELIVER;
	return flags & (RDR_PF_BRIDGE | RDR_PF_APART) ? RDR_EV_LEFT : RDR_EV_INGRESS;
}

static __always_inline __u32 entry_of(struct __sk_buff *skb, const struct packet *p,
				      const struct rdr_port *port, __u32 port_no)
{
	__u32 kind;

	if (p->v6) {
		/* One lookup is enough for a packet that goes on. */
		kind = RDR_EV_INGRESS;
		if ((port->flags & (RDR_PF_CLOSING | RDR_PF_APART)) ||
		    may_be_local6(port->node, p->daddr))
			kind = entry_kind6(skb, p->l3, port->flags, port->node);
		return kind + HIDDEN_ZERO(skb->len);
	}
	if (p->group || (port->flags & (RDR_PF_CLOSING | RDR_PF_APART)))
		return entry_kind(port->flags, port->node | port_no << 16, p->daddr, p->group);
	kind = RDR_EV_INGRESS + is_local(port->node, p->daddr) * (RDR_EV_DELIVER - RDR_EV_INGRESS);
	return kind + HIDDEN_ZERO(skb->len);
}

/* A packet that was sourced here, and seen nowhere else, is not measured after all. Its slot is
 * given back, so that its story does not look like a loss. */
static __always_inline void unmeasure(const struct found *f, const struct packet *p,
				      enum rdr_counter why)
{
	unuse_slots(f->slot->pos, p->n);
	count(RDR_C_MARKED, -(__u64)p->n);
	count(why, p->n);
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
	kind = entry_of(skb, p, port, port_no);
	/* Without a mark nothing carries the index through the node: the port where the packet
	 * leaves is its source. */
	if (!mark_mask(port) && (kind == RDR_EV_INGRESS || port->flags & RDR_PF_APART))
		return;
	/* A fragment has its key from here on: the node may join and cut it (conntrack). */
	by_key = kind == RDR_EV_EGRESS ? wants_key(p, p->bits.ttl) :
					 kind == RDR_EV_INGRESS && is_fragment(p);
	if (!source(skb, p, now, kind, port_no, by_key, &f))
		return;
	if (kind != RDR_EV_EGRESS)
		set_mark(skb, port, &f);
	else if (!by_key && !stamp_guid(skb, p, guid_encode(f.index, p->bits.tos)))
		unmeasure(&f, p, RDR_C_NM_WRITE);
}

/*
 * Whether the packet at ingress is a copy that does not count for the packet in the slot: a bridge
 * flooded it, and its frame is for another host. The host behind a bridge device drops such a copy
 * at once (it is shown to taps). Elsewhere it may go on over a bridge, so it counts as long as the
 * packet has arrived nowhere.
 */
static __always_inline bool is_idle_copy(struct __sk_buff *skb, const struct rdr_port *port,
					 bool local, __u32 index)
{
	bool for_other = skb->pkt_type == PACKET_OTHERHOST;

	if (port->flags & RDR_PF_BRIDGE)
		return for_other || has_arrived(index);
	return for_other && !local && has_arrived(index);
}

/* --carry header: a packet that came by a link of true bits goes on with a GUID, if it may have
 * one. A tree keeps its key: its slot has the source's bits, for all copies. */
static __always_inline void carry_in_header(struct __sk_buff *skb, const struct packet *p,
					    __u32 index, __u32 tree, struct sighting *w)
{
	if (tree || !may_carry(p) || p->bits.ttl < cfg_ttl_width || p->bits.ttl <= 1)
		return;
	w->keep_bits = 1;
	w->bits = p->bits;
	if (!stamp_guid(skb, p, guid_encode(index, p->bits.tos)))
		count(RDR_C_RESTORE_FAILED, p->n);
}

/*
 * Notes that a copy of a packet that has arrived ends here, which does not change the packet's
 * state. It is noted only if there is room for a loss behind it: the story is complete without it.
 */
GLOBAL int note_copy(__u32 index, __u64 packed, __u64 now)
{
	struct sighting w = unpack_sighting(now, packed, 0);
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));

	if (!s || is_log_short(s))
		return 0;
	if (w.kind == RDR_EV_INGRESS)
		w.kind = RDR_EV_IGNORED;
	add_event(s, w.kind,
		  s->seg || s->cut & (RDR_CUT | RDR_OWN) ? w.flags | RDR_EVF_PART : w.flags, w.port,
		  now);
	return 0;
}

/* A packet of ours enters the node: note it, show its true header to the node. */
static __always_inline void enter_known(struct __sk_buff *skb, const struct packet *p, __u64 now,
					const struct rdr_port *port, __u32 port_no, struct found *f)
{
	__u32 kind = entry_of(skb, p, port, port_no);
	bool local = kind == RDR_EV_DELIVER;
	/* The host behind a bridge device is outside and must see true headers. So is a node that
	 * can carry nothing. */
	bool leaves = port->flags & (RDR_PF_BRIDGE | RDR_PF_APART);
	bool idle, tree, shown;
	struct sighting w = {
		.now = now,
		.kind = kind,
		.flags = RDR_EVF_FIRST | (f->by_key ? RDR_EVF_KEYED : 0),
		.port = port_no,
		.id_rule = f->id_rule,
	};
	union rdr_bits b;

	if (kind == RDR_EV_EGRESS) {
		/* It is in flight and goes onto the link: whoever sees it next restores it. */
		count(RDR_C_PASSED, p->n);
		return;
	}
	idle = is_idle_copy(skb, port, local, f->index);
	tree = !p->v6 && is_tree(f->slot);
	if (f->by_bits) {
		if (!true_bits(f, p, &b)) {
			count(RDR_C_STALE, p->n);
			return;
		}
		/* Without a mark the GUID stays in the header, unless the packet is for the
		 * node itself, or must end here. What hidden routers took from the TTL is
		 * subtracted now, because the node will lower it too; of a tree, whose band
		 * counts all routers, when the band is used up. So is how a sum of zero is
		 * spelled: a change before the node lowers the TTL spells it differently
		 * from one after that. */
		shown = local || (tree && f->decrements + 1 >= cfg_ttl_width);
		if (mark_mask(port) || shown || leaves || b.ttl <= 1) {
			if (!restore_header(skb, p, b, f->minus_zero))
				count(RDR_C_RESTORE_FAILED, p->n);
			/* The node sends it on with true bits; a member may send nothing on. */
			if (tree && shown && !mark_mask(port) && !is_closing(port) &&
			    keep_keys(f->index, p, b.id) && !local)
				count(RDR_C_KEY_LOST, p->n);
		} else if ((f->decrements || f->minus_zero) && !tree) {
			w.keep_bits = 1;
			w.bits = b;
			if (!stamp_guid(skb, p, guid_encode(f->index, b.tos)))
				count(RDR_C_RESTORE_FAILED, p->n);
		}
	} else if (local || leaves) {
		if (!idle && !tree && !was_flooded(f->index))
			drop_keys(f->index, p, p->bits.id);
	} else if (!mark_mask(port) && p->true_link) {
		carry_in_header(skb, p, f->index, tree, &w);
	}
	if (!idle) {
		see(f->slot, f->index, p->n, &w);
		if (w.keep_bits)
			keep_minus_zero(f->slot, f->by_bits ? f->minus_zero : p->minus_zero);
	} else if (!leaves)
		note_copy(f->index, pack_sighting(&w), now);
	if (f->slot->cut & RDR_COPIES)
		settle_copies(f->index);
	if (!leaves)
		set_mark(skb, port, f);
}

/* note_one() for IPv6: the addresses are read from the packet. k_l3: its place in the run (0: it
 * is the first) | offset of its header << 16. */
GLOBAL int note_one6(struct __sk_buff *skb, __u32 index, __u32 k_l3, __u64 ports_port, __u64 now)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	bool whole = ports_port & RUN_IS_WHOLE;
	__u64 addrs[4];

	if (!s || bpf_skb_load_bytes(skb, (k_l3 >> 16) + offsetof(struct ip6_header, saddr), addrs,
				     sizeof(addrs)))
		return 0;
	if (!whole)
		fill_part(s, index);
	s->flow_hash = tuple_hash(fold_addr(addrs), fold_addr(addrs + 2), ports_port);
	if (!whole || !(k_l3 & 0xffff))
		add_event_addr6(s, (k_l3 & 0xffff ? 0 : RDR_EVF_FIRST) | (whole ? 0 : RDR_EVF_PART),
				ports_port >> 32, now, addrs, ports_port);
	return 0;
}

GLOBAL int note_run6(struct __sk_buff *skb, __u32 index, __u32 n_l3, __u64 ports_port, __u64 now)
{
	__u32 l3 = n_l3 & ~0xffff, n = n_l3 & 0xffff;
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	bool part = !(ports_port & RUN_IS_WHOLE);
	__u32 k;

	note_one6(skb, index, l3, ports_port, now);
	if (!s || !(part || has_members(s)))
		return 0;
	FOR_RANGE(k, 1, n, cfg_max_run, { note_one6(skb, index + k, k | l3, ports_port, now); });
	return 0;
}

/* The addresses changed in this node (NAT): one story, both tuples. */
static __always_inline void note_addresses(struct __sk_buff *skb, const struct found *f,
					   const struct packet *p, __u64 now, __u32 port_no)
{
	/* A tree has its source's addresses. The log may already have those of this branch. */
	if (!has_moved(f->slot, p) ||
	    (is_tree(f->slot) && has_noted(f->index, key_addrs(p->saddr, p->daddr), p->ports)))
		return;
	if (p->v6)
		note_run6(skb, f->index, p->n | p->l3 << 16, new_ports(f->slot, p, port_no), now);
	else
		note_run(f->index, p->n, key_addrs(p->saddr, p->daddr),
			 new_ports(f->slot, p, port_no), now);
}

/* Whether this node may hand out copies: like a switch it has not lowered the TTL, or the log
 * already has copies. */
static __always_inline bool may_be_copy(const struct found *f, __u8 ttl)
{
	return (f->slot->nev > 1 && f->slot->ttl == ttl) || was_flooded(f->index);
}

/*
 * A measured packet leaves at an edge with its true bits. If it may be a flooded copy, others
 * still need the key, and pkg/vnet/datapath removes it later. At a bridge port, if another copy has
 * arrived, the packet counts as delivered, and this one is noted as a copy.
 */
static __always_inline void leave_domain(struct __sk_buff *skb, const struct packet *p,
					 const struct rdr_port *port, struct sighting *w,
					 union rdr_bits b, struct found *f)
{
	if (f->by_bits && !restore_header(skb, p, b, f->minus_zero))
		count(RDR_C_RESTORE_FAILED, p->n);
	w->kind = RDR_EV_LEFT;
	leave_note(skb, f->slot);
	if (!(port->flags & RDR_PF_BRIDGE_PORT)) {
		if ((p->v6 || !is_tree(f->slot)) && !may_be_copy(f, b.ttl))
			drop_keys(f->index, p, b.id);
	} else if (has_arrived(f->index)) {
		note_copy(f->index, pack_sighting(w), w->now);
		return;
	}
	see(f->slot, f->index, p->n, w);
}

/* A packet sourced at this node's ingress that cannot have its key is not measured. */
static __always_inline bool unmark(const struct found *f, const struct packet *p, int err)
{
	struct rdr_slot *s = f->slot;

	if (!is_whole(s, p->n) || s->nev != 1)
		return false;
	unmeasure(f, p, err == PUT_FULL ? RDR_C_NM_KEYS_FULL : RDR_C_NM_KEY_IN_FLIGHT);
	return true;
}

/* Whether the packet in slot s may have a key. In a train that was cut only the head has the
 * state; for another segment the last event says that it came by its key. */
static __always_inline bool was_keyed(struct rdr_slot *s)
{
	return (s->state & RDR_ST_KEYED) || (s->seg && cell_flags(last_cell(s)) & RDR_EVF_KEYED);
}

/* A packet that has a backpack leaves the node. */
static __always_inline void leave_known(struct __sk_buff *skb, const struct packet *p, __u64 now,
					const struct rdr_port *port, __u32 port_no, struct found *f)
{
	__u32 tree = p->v6 ? 0 : p->group | is_tree(f->slot), taken = 0;
	struct sighting w = {
		.now = now,
		.kind = RDR_EV_EGRESS,
		.flags = RDR_EVF_FIRST | (f->source ? RDR_EVF_SOURCE : 0),
		.port = port_no,
		/* Each flooded copy is restored from what the sender wrote. */
		.keep_bits = (!!(port->flags & RDR_PF_BRIDGE_PORT) | tree) ^ 1,
		.id_rule = f->id_rule,
	};
	union rdr_bits b = p->bits, wire;
	int err;

	if (f->by_bits && !true_bits(f, p, &b)) {
		count(RDR_C_STALE, p->n);
		return;
	}
	w.bits = b;
	note_addresses(skb, f, p, now, port_no);
	if (!(port->flags & RDR_PF_INTERNAL) || ends_behind(skb, port, p)) {
		leave_domain(skb, p, port, &w, b, f);
		return;
	}
	if (tree)
		taken = tree_decrements(f->index, p->n, b.word, f->id_rule);
	if (taken == BY_KEY || wants_key(p, b.ttl)) {
		w.flags |= RDR_EVF_KEYED;
		err = has_keys(f->slot, p, b.id) ? PUT_OK : keep_keys(f->index, p, b.id);
		if (err && unmark(f, p, err))
			return;
		if (err)
			count(RDR_C_KEY_LOST, p->n);
		if (err && port->behind) /* nobody will know it as it comes out */
			w.kind = RDR_EV_LEFT;
		if (f->by_bits && !restore_header(skb, p, b, f->minus_zero))
			count(RDR_C_RESTORE_FAILED, p->n);
		see(f->slot, f->index, p->n, &w);
		return;
	}
	/* It came by a link of true bits; other copies may still need the key. */
	if (was_keyed(f->slot) && !is_tree(f->slot))
		drop_keys(f->index, p, b.id);
	/* The slot is written before the packet: whoever sees the bits finds their slot. */
	see(f->slot, f->index, p->n, &w);
	if (w.keep_bits)
		keep_minus_zero(f->slot, f->by_bits ? f->minus_zero : p->minus_zero);
	wire = guid_encode(f->index, b.tos);
	wire.ttl -= taken;
	if (!stamp_guid(skb, p, wire))
		count(RDR_C_RESTORE_FAILED, p->n);
}

/* A packet goes into a tunnel: the outer one inherits its mark, which names it. */
static __always_inline void pass_mark_on(struct __sk_buff *skb, const struct rdr_port *port,
					 const struct found *f)
{
	if (port->flags & RDR_PF_TUNNEL)
		set_mark(skb, port, f);
}

/* A packet without a backpack leaves the node. */
static __always_inline void leave_unknown(struct __sk_buff *skb, const struct packet *p, __u64 now,
					  const struct rdr_port *port, __u32 port_no,
					  bool may_source, struct found *f)
{
	bool internal = port->flags & RDR_PF_INTERNAL && !ends_behind(skb, port, p);
	bool by_key = internal && wants_key(p, p->bits.ttl);

	if (!may_source) {
		count(RDR_C_PASSED, p->n);
		return;
	}
	if (!source(skb, p, now, internal ? RDR_EV_EGRESS : RDR_EV_LEFT, port_no, by_key, f))
		return;
	if (!internal)
		leave_note(skb, f->slot);
	if (internal && !by_key && !stamp_guid(skb, p, guid_encode(f->index, p->bits.tos)))
		unmeasure(f, p, RDR_C_NM_WRITE);
	else
		pass_mark_on(skb, port, f);
}

#endif
