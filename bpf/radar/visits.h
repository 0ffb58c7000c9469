/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a slot's log says of where its packet has been. */
#ifndef RADAR_VISITS_H
#define RADAR_VISITS_H

#include "ring.h"
#include "train.h"

/* What became of the packet in slot s; the head speaks for a train that is whole. */
static __always_inline __u8 story_state(struct rdr_slot *s)
{
	__u8 state = s->state;
	struct rdr_slot *h;

	if (s->seg && !(s->cut & RDR_OWN)) {
		h = head_of(s);
		if (h && !(h->cut & RDR_CUT))
			state |= h->state & RDR_ST_DONE;
	}
	return state;
}

/* Whether that event is that the packet left a node, or the queue behind it. */
static __always_inline bool went_out(__u64 cell)
{
	__u32 kind = cell >> RDR_EV_KIND_SHIFT;

	return kind == RDR_EV_EGRESS || kind == RDR_EV_DEQUEUE;
}

/*
 * Equal packets (the same addresses, ID and content, sent again and again) have one key.
 * Whose packet it is that is found by it, the log tells: what leaves a node has been
 * there, and not left by the same port since; and a copy for a group does not come twice
 * by one port.
 */
#define VISIT_LEFT 0x100 /* left by the port, and has not come to its node since */
#define VISIT_CAME 0x200 /* came by the port */
#define VISIT_NODE 0x400 /* was at the port's node */
#define VISITS (VISIT_LEFT | VISIT_CAME | VISIT_NODE)

/* One step of look_at_visits(): the cell to look at next:8 | VISIT_* | SCAN_DONE. */
#define SCAN_DONE 0x10000
GLOBAL __u32 look_at_visit(__u32 index, __u32 scan, __u32 port_no, __u32 node)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u32 kind, no, visits = scan & VISITS;
	__u64 cell, at = scan & 0xff;
	const struct rdr_port *port;

	asm volatile("" : "+r"(at)); /* see end_of_log() */
	if (!s || at >= cfg_cells || at >= s->nev)
		return scan | SCAN_DONE;
	cell = *slot_cell(s, at);
	kind = cell_kind(cell);
	no = cell_port(cell);
	port = bpf_map_lookup_elem(&ports, &no);
	if (port && port->node == node) {
		visits |= VISIT_NODE;
		if (kind == RDR_EV_INGRESS || kind == RDR_EV_DELIVER)
			visits &= ~VISIT_LEFT;
	}
	if (no == port_no) {
		if (went_out(cell) || kind == RDR_EV_LEFT)
			visits |= VISIT_LEFT;
		/* By the device of a bridge it leaves as it comes. */
		if (kind == RDR_EV_INGRESS || kind == RDR_EV_DELIVER || kind == RDR_EV_IGNORED ||
		    kind == RDR_EV_LEFT)
			visits |= VISIT_CAME;
	}
	return (at + cell_span(kind)) | visits;
}

/* What the log of the slot at index says of a port: VISIT_*. */
GLOBAL __u32 look_at_visits(__u32 index, __u32 port_no)
{
	const struct rdr_port *port = bpf_map_lookup_elem(&ports, &port_no);
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u32 scan = 0, node = port ? port->node : 0;

	if (s && s->seg && !s->nev)
		index -= s->seg; /* its head speaks for it */

	for (__u32 i = 0; i < RDR_CELLS(RDR_MAX_SLOT_LINES) && !(scan & SCAN_DONE); i++)
		scan = look_at_visit(index, scan, port_no, node);
	return scan & VISITS;
}

/*
 * Whether what leaves by that port unmarked, and was found by its key, is another packet.
 * A bridge between nodes (closing) may hand one back, and nobody notes what it takes: there
 * only copies for a group are told apart.
 */
GLOBAL int is_equal_leaving(__u32 index, __u32 port_no, __u32 closing)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u32 visits;

	if (!s || (closing && !(s->state & RDR_ST_GROUP)))
		return false;
	visits = look_at_visits(index, port_no);
	if (visits & VISIT_LEFT)
		return true;
	return !closing && !(visits & VISIT_NODE) && !(s->state & RDR_ST_FULL);
}

/*
 * The same of what comes in by that port. Only where it cannot have come before: a copy
 * for a group, or at an edge (entry), where one that is on its way has come in already. One
 * that goes round in circles comes again by ports inside.
 */
GLOBAL int is_equal_coming(__u32 index, __u32 port_no, __u32 entry)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));

	if (!s || !(entry || s->state & RDR_ST_GROUP))
		return false;
	if (entry && story_state(s) & RDR_ST_DONE)
		return true;
	return look_at_visits(index, port_no) & VISIT_CAME;
}

/* Whether that cell says that a packet left a node. */
static __always_inline bool is_departure(__u64 cell)
{
	return went_out(cell) || cell_kind(cell) == RDR_EV_LEFT;
}

/*
 * Whether copies of the packet in the slot at index were handed out, so that others may
 * still need its key (pkg/datapath sweeps it): between two nodes lies one departure, with
 * one more cell if it waited in a queue.
 */
GLOBAL int was_flooded(__u32 index)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u64 at, last, before;

	if (!s || s->nev < 2)
		return false;
	last = last_cell(s);
	at = s->nev - 2;
	asm volatile("" : "+r"(at)); /* see end_of_log() */
	if (at >= cfg_cells)
		return false;
	before = *slot_cell(s, at);
	if (!is_departure(last))
		return true;
	return is_departure(before) && cell_kind(last) != RDR_EV_DEQUEUE;
}

#endif
