/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Addresses: who owns them, and noting that they have changed (NAT). One story, both tuples. */
#ifndef BACKPACK_NAT_H
#define BACKPACK_NAT_H

#include "group.h"
#include "identity.h"
#include "keys.h"
#include "train.h"

/* 1 if addr is in the table of a node's addresses, else 0; without a branch, for the verifier. */
static __always_inline __u32 has_addr(const struct rdr_node *n, __u32 addr)
{
	__u32 at = addr * n->multiplier >> RDR_NODE_SHIFT;

	return ((__u64)(n->addr[at] ^ addr) - 1) >> 63;
}

/* Whether the node owns that address: 1 or 0. */
static __always_inline __u32 is_local(__u16 node, __be32 addr)
{
	struct rdr_local key = { .node = node, .addr = addr };
	const struct rdr_node *n;

	n = bpf_map_lookup_elem(&nodes, &key.node);
	if (!n || !n->multiplier)
		return bpf_map_lookup_elem(&locals, &key) != NULL;
	return has_addr(n, addr);
}

/* Whether the node may own the IPv6 address that is folded to addr: 1 or 0. */
static __always_inline __u32 may_be_local6(__u32 node, __u32 addr)
{
	const struct rdr_node *n = bpf_map_lookup_elem(&nodes6, &node);

	return n && n->multiplier ? has_addr(n, addr) : 1;
}

/* Whether packet p has other addresses or ports than slot s. */
static __always_inline bool has_moved(const struct rdr_slot *s, const struct packet *p)
{
	return s->flow_hash != flow_hash(p) && !p->partial;
}

/* Notes new addresses in the slot at index and, if flags are given, in its log; else they are in
 * the log of the train's head. */
GLOBAL int note_one(__u32 index, __u64 addrs, __u64 ports_port, __u64 now, __u32 flags)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));

	if (!s)
		return 0;
	if (flags & RDR_EVF_PART)
		fill_part(s, index);
	/* In a tree each branch may have other addresses; the slot keeps the source's. */
	if (!is_tree(s))
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
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u32 part = ports_port & RUN_IS_WHOLE ? 0 : RDR_EVF_PART, k;

	note_one(index, addrs, ports_port, now, part | RDR_EVF_FIRST);
	if (!s || !(part || has_members(s)))
		return 0;
	FOR_RANGE(k, 1, n, cfg_max_run, { note_one(index + k, addrs, ports_port, now, part); });
	return 0;
}

/* What note_run() takes of packet p, whose first slot is s. */
static __always_inline __u64 new_ports(const struct rdr_slot *s, const struct packet *p,
				       __u32 port_no)
{
	return p->ports | (__u64)(port_no & 0xffff) << 32 | (is_whole(s, p->n) ? RUN_IS_WHOLE : 0);
}

/*
 * A node is about to lose packet p (IPv4), which has its mark, and has changed its
 * addresses before. If it counts as delivered, because it came for an address of the
 * node's own (an answer through a masquerading node), and now goes somewhere else,
 * that is corrected.
 */
static __always_inline void lose_moved(const struct found *f, const struct packet *p, __u64 now)
{
	__u64 cell = last_event(f->slot);
	struct sighting w = {
		.now = now,
		.kind = RDR_EV_INGRESS,
		.port = cell_port(cell),
	};
	const struct rdr_port *port;
	__u32 no = w.port;

	port = bpf_map_lookup_elem(&ports, &no);
	if (!port || (cell_kind(cell) != RDR_EV_INGRESS && cell_kind(cell) != RDR_EV_DELIVER))
		return;
	if (cell_kind(cell) == RDR_EV_DELIVER && !is_local(port->node, p->daddr))
		see(f->slot, f->index, p->n, &w);
	note_run(f->index, p->n, key_addrs(p->saddr, p->daddr), new_ports(f->slot, p, no), now);
}

#endif
