/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Where a packet has been, by its slot's log. */
#ifndef BACKPACK_VISITS_H
#define BACKPACK_VISITS_H

#include "keys.h"
#include "ring.h"
#include "train.h"

/*
 * Equal packets (the same addresses, ID and content, sent again and again) have one key. The log
 * shows whether a packet that was found by it is the slot's: a packet that leaves a node has been
 * there, and has not left by the same port since; a copy for a group does not come by one port
 * twice.
 */
#define VISIT_LEFT 0x100  /* left by the port, and has not come to its node since */
#define VISIT_CAME 0x200  /* came by the port */
#define VISIT_NODE 0x400  /* was at the port's node */
#define VISIT_PARTS 0x800 /* events of a train's first segment alone are left out */
/* How many copies have come to the node and not left by the port, in steps of VISIT_STAY. */
#define VISIT_STAY 0x20000
#define VISIT_STAYS 0xfe0000
#define VISITS (VISIT_LEFT | VISIT_CAME | VISIT_NODE | VISIT_PARTS | VISIT_STAYS)

/* One step of look_at_visits(): the cell to look at next:8 | VISIT_* | SCAN_DONE. */
GLOBAL __u32 look_at_visit(__u32 index, __u32 scan, __u32 port_no, __u32 node)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u64 cell = s ? read_cell(s, scan & 0xff) : 0;
	__u32 kind = cell_kind(cell), no = cell_port(cell);
	__u32 next = (scan & 0xff) + cell_span(kind), visits = scan & VISITS;
	const struct rdr_port *port;

	if (!cell)
		return scan | SCAN_DONE;
	if ((visits & VISIT_PARTS) && (cell_flags(cell) & RDR_EVF_PART))
		return next | visits;
	port = bpf_map_lookup_elem(&ports, &no);
	if (port && port->node == node) {
		visits |= VISIT_NODE;
		if (kind == RDR_EV_INGRESS || kind == RDR_EV_DELIVER)
			visits &= ~VISIT_LEFT;
		if (kind == RDR_EV_INGRESS || kind == RDR_EV_DELIVER || kind == RDR_EV_IGNORED)
			visits += VISIT_STAY;
	}
	if (no == port_no) {
		/* RDR_EV_DEQUEUE follows a departure that was counted. */
		if (kind == RDR_EV_EGRESS || kind == RDR_EV_LEFT) {
			visits |= VISIT_LEFT;
			if (visits & VISIT_STAYS)
				visits -= VISIT_STAY;
		}
		/* At a bridge's device it leaves and comes in one event. */
		if (kind == RDR_EV_INGRESS || kind == RDR_EV_DELIVER || kind == RDR_EV_IGNORED ||
		    kind == RDR_EV_LEFT)
			visits |= VISIT_CAME;
	}
	return next | visits;
}

/*
 * What is known of the packet in the slot at index and a port: VISIT_*. A segment's story begins
 * with its train's, without the events of the train's first segment alone. (One loop goes through
 * both logs: with two the verifier would see a product of states.)
 */
GLOBAL __u32 look_at_visits(__u32 index, __u32 port_no)
{
	const struct rdr_port *port = bpf_map_lookup_elem(&ports, &port_no);
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u32 scan = 0, at = index, node = port ? port->node : 0;

	if (s && s->seg) {
		at -= s->seg;
		scan = VISIT_PARTS;
	}
	for (__u32 i = 0; i < 2 * cfg_cells + 2; i++) { /* each log, and its end */
		scan = look_at_visit(at, scan, port_no, node);
		if (!(scan & SCAN_DONE))
			continue;
		if (!(scan & VISIT_PARTS))
			break;
		at = index;
		scan &= VISITS & ~VISIT_PARTS;
	}
	return scan & VISITS & ~VISIT_PARTS;
}

/*
 * Whether a packet that leaves by that port unmarked, and was found by its key, is another one than
 * the slot's. A bridge between nodes (closing) may send a packet back, and arrivals there are not
 * noted: so only copies for a group are checked there.
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
 * Any process of a node may set a mark (SO_MARK) or write a header (raw sockets, AF_PACKET). So if
 * a packet leaves with a mark or bits of ours, the log must also say that it can be that packet.
 */
#define STAY_PARTS 0x100    /* events of a train's first segment alone are left out */
#define STAY_CAME 0x200	    /* has been at the node */
#define STAY_LEFT 0x400	    /* left by the port, and has not come again since */
#define STAY_AWAY 0x800	    /* was last seen elsewhere */
#define STAY_TOWARDS 0x1000 /* went from elsewhere to the node, as far as is known */
#define STAY_DUE 0x2000	    /* was sent to the port, as far as is known, and not seen there since */
#define STAY_QUICK 0x4000   /* its departure from the node was noted before its arrival */
#define STAYS \
	(STAY_PARTS | STAY_CAME | STAY_LEFT | STAY_AWAY | STAY_TOWARDS | STAY_DUE | STAY_QUICK)

/* Whether a packet that leaves by that port may come to node next. */
static __always_inline bool leads_to(const struct rdr_port *port, __u32 node)
{
	return !port->towards || port->towards == node + 1;
}

/* One step of look_for_stay(): the cell to look at next:8 | STAY_* | SCAN_DONE. port_node: the port |
 * its node << 16. (Few arguments: stacks must fit.) */
GLOBAL __u32 look_at_stay(__u32 index, __u32 scan, __u32 port_node)
{
	__u32 port_no = port_node & 0xffff, node = port_node >> 16;
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u64 cell = s ? read_cell(s, scan & 0xff) : 0;
	__u32 kind = cell_kind(cell), flags = cell_flags(cell), no = cell_port(cell);
	__u32 next = (scan & 0xff) + cell_span(kind), stay = scan & STAYS;
	const struct rdr_port *port;

	if (!cell)
		return scan | SCAN_DONE;
	if (kind == RDR_EV_ADDR || kind == RDR_EV_ADDR6 || kind == RDR_EV_INNER ||
	    ((stay & STAY_PARTS) && (flags & RDR_EVF_PART)))
		return next | stay;
	port = bpf_map_lookup_elem(&ports, &no);
	if (!port)
		return next | stay;
	if (kind == RDR_EV_EGRESS && leads_to(port, node))
		stay |= STAY_DUE;
	else if (no == port_no)
		stay &= ~STAY_DUE;
	if (port->node != node) {
		if (kind == RDR_EV_EGRESS && leads_to(port, node))
			stay = (stay | STAY_TOWARDS) & ~STAY_QUICK;
		return next | stay | STAY_AWAY;
	}
	if (is_departure(cell)) {
		if (flags & RDR_EVF_SOURCE)
			stay |= STAY_CAME;
		else if (stay & STAY_AWAY)
			stay |= STAY_QUICK;
		if (no == port_no)
			stay |= STAY_LEFT;
	} else {
		stay |= STAY_CAME;
		stay &= ~STAY_LEFT;
	}
	return next | (stay & ~STAY_AWAY);
}

/* What the log of the slot at index says of a port's node; stay: the result so far. Inline: before
 * Linux 5.15 the stacks of all callers of look_at_stay() must fit together. */
static __always_inline __u32 look_for_stay(__u32 index, __u32 stay, __u32 port_no, __u32 node)
{
	__u32 scan = stay & STAYS;

	for (__u32 i = 0; i < cfg_cells && !(scan & SCAN_DONE); i++)
		scan = look_at_stay(index, scan, (port_no & 0xffff) | node << 16);
	return scan & STAYS;
}

/* The same for the packet in slot s at index: a segment's story begins with its train's. */
static __always_inline __u32 look_at_stays(const struct rdr_slot *s, __u32 index, __u32 port_no,
					   __u32 node)
{
	__u32 stay = 0;

	if (s->seg)
		stay = look_for_stay(index - s->seg, STAY_PARTS, port_no, node) & ~STAY_PARTS;
	return look_for_stay(index, stay, port_no, node);
}

/* Whether the log may lack an event of the packet in the slot at index. */
GLOBAL int may_lack_events(__u32 index)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1)), *h;

	if (!s)
		return true;
	h = head_of(s);
	return !h || ((s->state | h->state) & RDR_ST_FULL) || is_log_short(s) || is_log_short(h);
}

/* Whether that event says that the packet has come to node. */
static __always_inline bool has_come(__u64 cell, __u32 node)
{
	__u32 kind = cell_kind(cell), no = cell_port(cell);
	const struct rdr_port *port;

	if (kind != RDR_EV_INGRESS && kind != RDR_EV_DELIVER)
		return false;
	port = bpf_map_lookup_elem(&ports, &no);
	return port && port->node == node;
}

/*
 * Whether a packet that leaves a node by that port, and has the mark or the bits of the packet in
 * the slot at index, is another one. bits: its header's, if it has the mark; 0: it has the bits.
 *
 * A packet gets a mark where it comes in, and the log says so. One with bits may have bypassed
 * that hook (XDP, AF_XDP), but it was sent to this node. A switch may hand out copies when others
 * are already elsewhere, but by another port, and unchanged: this node may no longer change the
 * bits to which others are restored.
 */
GLOBAL int is_elsewhere(__u32 index, __u32 port_no, __u32 bits, __u32 v6)
{
	const struct rdr_port *port = bpf_map_lookup_elem(&ports, &port_no);
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	union rdr_bits own;
	__u32 stay;

	if (!s || !port || has_come(last_event(s), port->node) || may_lack_events(index))
		return false;
	stay = look_at_stays(s, index, port_no, port->node);
	if (!(stay & STAY_CAME))
		return bits || !(stay & STAY_TOWARDS);
	if (!bits || (s->state & RDR_ST_GROUP))
		return false;
	if (stay & STAY_LEFT)
		return true;
	return (stay & STAY_AWAY) && own_bits(s, v6 ? ID_SHARED : ID_COUNTS, &own) &&
	       own.word != bits;
}

/* Whether the packet in s was last seen on a link to node: then is_due() need not look at the rest
 * of its log. */
static __always_inline bool is_next(struct rdr_slot *s, __u32 node)
{
	__u64 cell = last_event(s);
	__u32 no = cell_port(cell);
	const struct rdr_port *port;

	if (!went_out(cell))
		return false;
	port = bpf_map_lookup_elem(&ports, &no);
	return port && leads_to(port, node);
}

/*
 * Whether a packet at that port, found by content alone, may be the one in the slot at index. That
 * must be in flight to the port, or (within: the port's node carries the header, and it leaves) in
 * the node. If the log may lack events, content is enough: wire bits must not leave.
 */
GLOBAL int is_due(__u32 index, __u32 port_no, __u32 within)
{
	const struct rdr_port *port = bpf_map_lookup_elem(&ports, &port_no);
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u32 stay;

	if (!s || !port)
		return false;
	if ((!within && is_next(s, port->node)) || may_lack_events(index))
		return true;
	stay = look_at_stays(s, index, port_no, port->node);
	if (within && stay & STAY_CAME)
		return !(stay & STAY_LEFT);
	return stay & STAY_DUE;
}

/*
 * Whether a packet that comes in by that port, and was found by its key, is another one, equal to
 * the one in the slot at index. A copy for a group does not come by one port twice. A packet that
 * is in flight, or has arrived, does not come in by an edge (entry). Elsewhere a link may have
 * doubled it. If there are equal packets that are not measured, the slot's must have been sent
 * there.
 */
GLOBAL int is_equal_coming(__u32 index, __u32 port_no, __u32 entry)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	bool came = false;

	if (!s)
		return false;
	if (entry && story_state(s) & RDR_ST_DONE)
		return true;
	if (entry || s->state & RDR_ST_GROUP)
		came = look_at_visits(index, port_no) & VISIT_CAME;
	if (s->state & RDR_ST_GROUP || !(entry || s->cut & RDR_EQUAL))
		return came;
	return came || !is_due(index, port_no, false);
}

/* One step of find_addrs(): the cell to look at next:8 | the last RDR_EV_ADDR:8, 0 if none |
 * SCAN_DONE | the one before it << ADDRS_BEFORE_SHIFT. */
#define ADDRS_BEFORE_SHIFT 24
GLOBAL __u32 look_for_addrs(__u32 index, __u32 scan)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u64 cell = s ? read_cell(s, scan & 0xff) : 0;
	__u32 kind = cell_kind(cell), at = scan & 0xff, next = at + cell_span(kind);

	if (!cell)
		return scan | SCAN_DONE;
	if (kind == RDR_EV_ADDR)
		return next | at << 8 | (scan >> 8 & 0xff) << ADDRS_BEFORE_SHIFT;
	return next | (scan & (0xff00 | 0xffU << ADDRS_BEFORE_SHIFT));
}

/* Where the log of the slot at index has new addresses. */
GLOBAL __u32 find_addrs(__u32 index)
{
	__u32 scan = 0;

	for (__u32 i = 0; i < cfg_cells && !(scan & SCAN_DONE); i++)
		scan = look_for_addrs(index, scan);
	return scan;
}

/* Whether these addresses and ports are the last new ones in the log of the slot at index. */
GLOBAL int has_noted(__u32 index, __u64 addrs, __u32 ports)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u32 at = find_addrs(index) >> 8 & 0xff;

	return s && at && read_cell(s, at + 1) == addrs && read_cell(s, at + 2) == ports;
}

/* The addresses that the packet in the slot at index had before they changed last. */
GLOBAL __u64 addrs_before(__u32 index)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u32 at = find_addrs(index) >> ADDRS_BEFORE_SHIFT;

	if (!s)
		return 0;
	return at ? read_cell(s, at + 1) : key_addrs(s->saddr, s->daddr);
}

/*
 * Whether there were copies of the packet in the slot at index, which may still need its key
 * (pkg/vnet/datapath removes it later). Between two nodes a lone packet has one departure, and
 * perhaps one from the queue.
 */
GLOBAL int was_flooded(__u32 index)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u64 last, before;

	if (!s || s->nev < 2)
		return false;
	last = last_cell(s);
	before = read_cell(s, s->nev - 2);
	if (!is_departure(last))
		return true;
	if (cell_kind(last) == RDR_EV_DEQUEUE && cell_kind(before) == RDR_EV_EGRESS &&
	    cell_port(before) == cell_port(last))
		return false;
	return is_departure(before);
}

#endif
