/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Tunnels. The outer packet inherits the inner one's mark. When the outer header is removed, the
 * inner packet keeps the outer one's mark.
 */
#ifndef BACKPACK_TUNNEL_H
#define BACKPACK_TUNNEL_H

#include "found.h"

/* A packet that leaves by port has a mark with that index. If it is the outer packet of the one in
 * that slot, which was last seen as it left by a tunnel of this node: the inner one's position.
 * Else 0. */
GLOBAL __u64 packet_inside(__u32 index, __u32 port, __u64 now)
{
	const struct rdr_port *here, *tunnel;
	struct rdr_slot *s;
	__u32 entrance;
	__u64 cell;

	if (index >= cfg_slots)
		return 0;
	fill_if_member(index);
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
 * none, if it has been seen since, or if its tunnel is not of the port's node. */
GLOBAL __u64 still_inside(__u32 index, __u32 port, __u64 now)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1)), *in;
	__u64 pos;

	if (!s || s->nev < 4 || cell_kind(s->ev0[1]) != RDR_EV_INNER)
		return 0;
	pos = s->ev0[2];
	if (packet_inside(pos & (cfg_slots - 1), port, now) != pos)
		return 0;
	in = slot_of(pos);
	return in && in->segs == 1 ? pos : 0;
}

/* Whether that mark belongs to a packet that was already delivered at node: then the packet that
 * has it now was inside that one. */
GLOBAL int was_outside(__u32 index, __u32 node, __u64 now)
{
	const struct rdr_port *port;
	struct rdr_slot *s;
	__u32 entrance;
	__u64 cell;

	if (index >= cfg_slots)
		return false;
	fill_if_member(index);
	s = slot_at(index);
	if (!s || !slot_alive(s, now))
		return false;
	cell = last_event(s);
	entrance = cell_port(cell);
	port = bpf_map_lookup_elem(&ports, &entrance);
	return port && cell_kind(cell) == RDR_EV_DELIVER && port->node == node;
}

/* Finds the packet inside an skb of n packets that has no backpack yet. Not if the numbers differ:
 * if a train inside was cut, it is not known which segment this is. */
GLOBAL __u64 found_lost_inside(__u32 index, __u32 n, __u64 now)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));

	fill_if_member(index);
	if (!s || s->seg || s->segs != n || !packet_inside(index, RDR_NO_PORT, now))
		return 0;
	return index | FOUND;
}

/* Finds the packet inside one that leaves by port with a mark that is not its own. */
GLOBAL __u64 found_inside(__u32 index, __u32 port, __u64 now)
{
	return packet_inside(index, port, now) ? index | FOUND_INSIDE : 0;
}

#endif
