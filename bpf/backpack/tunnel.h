/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Tunnels. The packet around another one inherits its mark. When the outer packet is taken off
 * again, the inner one keeps the outer packet's mark.
 */
#ifndef BACKPACK_TUNNEL_H
#define BACKPACK_TUNNEL_H

#include "found.h"

/* The position of the packet whose index is in the mark of what leaves now by port, if that is the
 * packet around it: it was last seen as it left by a tunnel of this node. Else 0. */
GLOBAL __u64 packet_inside(__u32 index, __u32 port, __u64 now)
{
	const struct rdr_port *here, *tunnel;
	struct rdr_slot *s;
	__u32 entrance;
	__u64 cell;

	if (index >= cfg_slots)
		return 0;
	s = slot_at(index);
	if (!s || !slot_alive(s, now))
		return 0;
	cell = last_event(s);
	if (!went_out(cell))
		return 0;
	entrance = cell_port(cell);
	tunnel = bpf_map_lookup_elem(&ports, &entrance);
	if (!tunnel || !(tunnel->flags & RDR_PF_TUNNEL))
		return 0;
	here = bpf_map_lookup_elem(&ports, &port);
	return port == RDR_NO_PORT || (here && here->node == tunnel->node) ? s->pos : 0;
}

/* The position of the lone packet inside the one at index, as the source noted it; 0 if there is
 * none, or if it has been seen since. */
GLOBAL __u64 still_inside(__u32 index, __u64 now)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1)), *in;
	__u64 pos;

	if (!s || s->nev < 4 || cell_kind(s->ev0[1]) != RDR_EV_INNER)
		return 0;
	pos = s->ev0[2];
	if (packet_inside(pos & (cfg_slots - 1), RDR_NO_PORT, now) != pos)
		return 0;
	in = slot_of(pos);
	return in && in->segs == 1 ? pos : 0;
}

/* Whether that mark belongs to a packet that was already delivered at node, so that what bears it
 * now came out of that packet. */
GLOBAL int was_outside(__u32 index, __u32 node, __u64 now)
{
	const struct rdr_port *port;
	struct rdr_slot *s;
	__u32 entrance;
	__u64 cell;

	if (index >= cfg_slots)
		return false;
	s = slot_at(index);
	if (!s || !slot_alive(s, now))
		return false;
	cell = last_event(s);
	entrance = cell_port(cell);
	port = bpf_map_lookup_elem(&ports, &entrance);
	return port && cell_kind(cell) == RDR_EV_DELIVER && port->node == node;
}

/* Finds the packet inside an skb of n packets that has no backpack yet. Not if the numbers differ:
 * where a train inside was cut, nothing says which segment this is. */
GLOBAL __u64 found_lost_inside(__u32 index, __u32 n, __u64 now)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));

	if (!s || s->segs != n || !packet_inside(index, RDR_NO_PORT, now))
		return 0;
	return index | FOUND;
}

/* What leaves by port with a mark that is not its own: the packet inside it. */
GLOBAL __u64 found_inside(__u32 index, __u32 port, __u64 now)
{
	return packet_inside(index, port, now) ? index | FOUND_INSIDE : 0;
}

#endif
