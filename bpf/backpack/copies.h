/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Copies that a node hands out (a switch that floods), and sightings of a packet, which may be one
 * of them. */
#ifndef BACKPACK_COPIES_H
#define BACKPACK_COPIES_H

#include "log.h"

_Static_assert(offsetof(struct rdr_slot, cut) == offsetof(struct rdr_slot, nev) + 3 &&
		       RDR_COPIES == 1 << 7,
	       "flip_copies()");

/*
 * Sets RDR_COPIES, or clears it. Another CPU may mark the train as cut at the same time, and that
 * must not be lost. Bit operations are not atomic before Linux 5.12, but additions are, and an
 * addition to the uppermost bit changes no other. The other CPU's store may undo this flip, if it
 * read the byte in the nanoseconds before. Then the slot is kept too long, or as long as others.
 */
static __always_inline void flip_copies(struct rdr_slot *s)
{
	__sync_fetch_and_add((__u32 *)&s->nev, (__u32)RDR_COPIES << 24);
}

/* The packet in the slot at pos leaves by a port. If it has just left the same node by another
 * port, these are copies. If both have left the domain, they no longer need their slot. port_kind:
 * the port | RDR_EV_EGRESS or RDR_EV_LEFT << 16. */
GLOBAL int note_copies(__u64 pos, __u32 port_kind)
{
	const struct rdr_port *here, *there;
	struct rdr_slot *s = slot_of(pos);
	__u32 no, port_no = port_kind & 0xffff;
	__u64 cell;

	if (!s)
		return 0;
	cell = last_cell(s);
	no = cell_port(cell);
	if (!is_departure(cell) || no == port_no ||
	    (cell_kind(cell) == RDR_EV_LEFT && port_kind >> 16 == RDR_EV_LEFT))
		return 0;
	here = bpf_map_lookup_elem(&ports, &port_no);
	there = bpf_map_lookup_elem(&ports, &no);
	if (here && there && here->node == there->node && !(s->cut & RDR_COPIES))
		flip_copies(s);
	return 0;
}

/* One step of settle_copies(): the cell to look at next:8 | copies that have gone out less those
 * that were seen again, + 128:8 | SCAN_DONE. */
GLOBAL __u32 look_for_copy(__u32 index, __u32 scan)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u64 cell = s ? read_cell(s, scan & 0xff) : 0;
	__u32 kind = cell_kind(cell), next = (scan & 0xff) + cell_span(kind);
	__u32 open = scan >> 8 & 0xff;

	if (!cell)
		return scan | SCAN_DONE;
	if (kind == RDR_EV_EGRESS)
		open++;
	if ((kind == RDR_EV_INGRESS || kind == RDR_EV_DELIVER || kind == RDR_EV_IGNORED) &&
	    !(cell_flags(cell) & RDR_EVF_SOURCE))
		open--;
	return next | (open & 0xff) << 8;
}

/*
 * A copy has come in. If it was the last one on a link, the slot is no longer kept: copies that
 * are still inside a node have a mark and true headers. Nothing is done if the log may lack
 * copies, because it is full or the segments of a train go on one by one.
 */
GLOBAL int settle_copies(__u32 index)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u32 scan = 128 << 8;

	if (!s || !cfg_mark_mask || s->cut & RDR_CUT || s->state & RDR_ST_FULL || is_log_short(s))
		return 0;
	for (__u32 i = 0; i < cfg_cells && !(scan & SCAN_DONE); i++)
		scan = look_for_copy(index, scan);
	if ((scan >> 8 & 0xff) == 128 && s->cut & RDR_COPIES)
		flip_copies(s);
	return 0;
}

/* Appends an event that says where the packet is, and updates the packet's state. */
static __always_inline void add_sighting(struct rdr_slot *s, __u32 kind, __u32 flags, __u32 port,
					 __u64 now)
{
	__u8 state = s->state;

	if (state & RDR_ST_LOST)
		count(RDR_C_LOSS_WITHDRAWN, slot_span(s));
	if (kind == RDR_EV_EGRESS || kind == RDR_EV_LEFT)
		note_copies(s->pos, port | kind << 16);
	/* The end of one branch is not the end of the others. */
	if (!(state & RDR_ST_GROUP)) {
		state &= ~(RDR_ST_DONE | RDR_ST_LOST);
		if (kind == RDR_EV_DELIVER || kind == RDR_EV_LEFT)
			state |= RDR_ST_DONE;
		s->state = state;
	}
	add_event(s, kind, flags, port, now);
}

#endif
