/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Frees that are no losses: copies for packet taps and ping sockets, fragments that were joined,
 * packets that came to a node that does not want them. */
#ifndef BACKPACK_UNWANTED_H
#define BACKPACK_UNWANTED_H

#include "find.h"
#include "group.h"
#include "skb.h"

static __always_inline bool lies_in(const volatile struct rdr_range *r, __u64 location)
{
	return location >= r->from && location < r->to;
}

/* Whether the function that frees is one of packet taps. (A call, and so below: each comparison
 * would give the verifier a bound of location, and make a state of its own.) */
GLOBAL int is_tap(__u64 location)
{
#pragma unroll
	for (int i = 0; i < RDR_MAX_IGNORE; i++)
		if (lies_in(&cfg_ignore[i], location))
			return true;
	return false;
}

/* Whether ping sockets did not want it: raw sockets, or the kernel, have the packet. */
GLOBAL int is_ping(__u64 location, __u32 reason)
{
	if (!cfg_no_socket || reason != cfg_no_socket)
		return false;
#pragma unroll
	for (int i = 0; i < RDR_MAX_PING; i++)
		if (lies_in(&cfg_ping[i], location))
			return true;
	return false;
}

GLOBAL int frees_for_other_host(__u64 location)
{
#pragma unroll
	for (int i = 0; i < RDR_MAX_UNWANTED; i++)
		if (lies_in(&cfg_other_host[i], location))
			return true;
	return false;
}

GLOBAL int frees_for_non_member(__u64 location)
{
#pragma unroll
	for (int i = 0; i < RDR_MAX_UNWANTED; i++)
		if (lies_in(&cfg_non_member[i], location))
			return true;
	return false;
}

/*
 * Whether a node frees here a packet that it does not want: a frame for another host, which
 * a bridge flooded, or a packet for a group that the node is no member of.
 */
static __always_inline bool is_unwanted(struct sk_buff *skb, __u64 location, bool tree)
{
	if (frees_for_other_host(location))
		return tree || BPF_CORE_READ_BITFIELD_PROBED(skb, pkt_type) == PACKET_OTHERHOST;
	return tree && frees_for_non_member(location);
}

/* SKB_DROP_REASON_NOT_SPECIFIED; before Linux 6.3 it was 1. */
#define REASON_NOT_SPECIFIED 2

/* A call makes one verifier state of many. */
GLOBAL int frees_joined(__u64 location)
{
	for (int i = 0; i < RDR_MAX_JOINED; i++)
		if (lies_in(&cfg_joined[i], location))
			return true;
	return false;
}

/*
 * Whether a fragment is freed because its packet was joined and is no longer needed. The packet's
 * events are in the slot of its first fragment, whose mark it has. Queues drop by the same
 * functions: with a reason, or, on kernels without reasons, before the packet has arrived.
 */
static __always_inline bool was_joined(const struct packet *p, __u64 location, __u32 reason,
				       __u32 index)
{
	if (!is_fragment(p) || !frees_joined(location))
		return false;
	return (cfg_has_reason && reason <= REASON_NOT_SPECIFIED) || has_arrived(index);
}

/* Whether a copy that came in by port was freed at port `at`. RDR_NO_PORT: it was freed at a device
 * above a port (a bridge, a VLAN), in the namespace with that number. */
static __always_inline bool came_by(__u32 port, __u32 at, __u32 inum)
{
	const struct rdr_port *p;

	if (at != RDR_NO_PORT)
		return port == at;
	p = bpf_map_lookup_elem(&ports, &port);
	return p && p->netns_inum == inum;
}

/*
 * One step of note_unwanted(): the cell to look at next:8 | the last arrival of a copy that was
 * freed at port, or NO_CELL:8 | SCAN_DONE.
 */
#define NO_CELL 0xff
GLOBAL __u32 look_at_cell(__u32 index, __u32 scan, __u32 port, __u32 inum)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u64 cell = s ? read_cell(s, scan & 0xff) : 0;
	__u32 kind = cell_kind(cell), next = (scan & 0xff) + cell_span(kind);
	__u32 hit = scan >> 8 & 0xff;

	if (!cell)
		return scan | SCAN_DONE;
	if ((kind == RDR_EV_INGRESS || kind == RDR_EV_DELIVER || kind == RDR_EV_IGNORED) &&
	    came_by(cell_port(cell), port, inum))
		hit = scan & 0xff;
	return next | hit << 8;
}

/* Whether no program reads frames at the device that holds the skb. One that does, such as a
 * switch in user space or tcpdump, has a copy of each frame. */
static __always_inline bool is_unread(struct sk_buff *skb)
{
	struct net_device *dev = BPF_CORE_READ(skb, dev);
	__u64 list = (__u64)dev + bpf_core_field_offset(struct net_device, ptype_all);

	return dev && (__u64)BPF_CORE_READ(dev, ptype_all.next) == list;
}

/* One step of reopen(): the cell to look at next:8 | HAS_END, if the log has a delivery or says
 * that the packet left | SCAN_DONE. */
#define HAS_END 0x100
GLOBAL __u32 look_for_end(__u32 index, __u32 scan)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u64 cell = s ? read_cell(s, scan & 0xff) : 0;
	__u32 kind = cell_kind(cell);

	if (!cell)
		return scan | SCAN_DONE;
	if (kind == RDR_EV_DELIVER || kind == RDR_EV_LEFT)
		return HAS_END | SCAN_DONE;
	return (scan & 0xff) + cell_span(kind);
}

/* A packet counted as delivered, but was not delivered there. */
GLOBAL int reopen(__u32 index)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u32 scan = 0;

	if (!s || s->state & RDR_ST_FULL)
		return 0;
	for (__u32 i = 0; i < cfg_cells && !(scan & SCAN_DONE); i++)
		scan = look_for_end(index, scan);
	if (!(scan & HAS_END))
		s->state &= ~RDR_ST_DONE;
	return 0;
}

/* Notes, with one store, that the arrival in cell k was not wanted. Returns false if it counts as
 * delivered: a member of the group has dropped it itself. verdict: FOR_OTHER_HOST for a frame for
 * another host, which is never delivered, whatever its IP address; and RDR_EVF_UNREAD. */
#define FOR_OTHER_HOST 0x10
GLOBAL int ignore_arrival(__u32 index, __u32 k, __u32 verdict)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	union rdr_cell was, is;
	__u64 *cell, at = k;

	asm volatile("" : "+r"(at));
	if (!s || at >= cfg_cells)
		return false;
	cell = slot_cell(s, at);
	is.word = was.word = *cell;
	is.kind = RDR_EV_IGNORED;
	is.flags = (was.flags & ~RDR_EVF_UNREAD) | (verdict & RDR_EVF_UNREAD);
	if (was.kind == RDR_EV_INGRESS || (was.kind == RDR_EV_DELIVER && verdict & FOR_OTHER_HOST))
		WRITE_ONCE(*cell, is.word);
	if (was.kind == RDR_EV_DELIVER && verdict & FOR_OTHER_HOST)
		reopen(index);
	return was.kind != RDR_EV_DELIVER;
}

/* A copy was not wanted at port, or at a device above it: finds its latest arrival and notes that.
 * verdict_port: that port | ignore_arrival()'s verdict << 16. Returns how many packets the slot
 * stands for, | UNWANTED if there is an arrival that does not count as delivered. */
#define UNWANTED 0x10000
GLOBAL __u32 note_unwanted(__u32 index, __u32 verdict_port, __u32 inum)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u32 scan = NO_CELL << 8;

	for (__u32 i = 0; i < cfg_cells && !(scan & SCAN_DONE); i++)
		scan = look_at_cell(index, scan, verdict_port & 0xffff, inum);
	return (s ? slot_span(s) : 1) |
	       (ignore_arrival(index, scan >> 8 & 0xff, verdict_port >> 16) ? UNWANTED : 0);
}

/* The same for a run of n packets that are freed as one skb. */
GLOBAL __u32 note_unwanted_run(__u32 index, __u32 n, __u32 verdict_port, __u32 inum)
{
	__u32 noted = note_unwanted(index, verdict_port, inum), k = noted & 0xffff;

	FOR_STEPS(k, n, cfg_max_run, note_unwanted(index + k, verdict_port, inum) & 0xffff);
	return noted & UNWANTED;
}

/* One step of entrance_of(): the arrival in that namespace whose copy has not gone on. */
GLOBAL __u32 look_for_entrance(__u32 index, __u32 scan, __u32 inum)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u64 cell = s ? read_cell(s, scan & 0xff) : 0;
	__u32 kind = cell_kind(cell), next = (scan & 0xff) + cell_span(kind);
	__u32 hit = scan >> 8 & 0xff;

	if (!cell)
		return scan | SCAN_DONE;
	if (came_by(cell_port(cell), RDR_NO_PORT, inum)) {
		if (kind == RDR_EV_INGRESS || kind == RDR_EV_DELIVER)
			hit = scan & 0xff;
		else if (is_departure(cell))
			hit = NO_CELL;
	}
	return next | hit << 8;
}

/* ignore_arrival()'s verdict for an skb that is not wanted. */
static __always_inline __u32 verdict_on(struct sk_buff *skb, bool tree)
{
	if (tree)
		return 0;
	return FOR_OTHER_HOST | (is_unread(skb) ? RDR_EVF_UNREAD : 0);
}

/*
 * The port by which a copy came that is freed at a device above a node's ports (a bridge, a VLAN);
 * RDR_NO_PORT if that is not known, or if a copy has gone on from that node, as from a switch.
 */
GLOBAL __u32 entrance_of(__u32 index, __u32 inum)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u32 scan = NO_CELL << 8;
	__u64 cell;

	for (__u32 i = 0; i < cfg_cells && !(scan & SCAN_DONE); i++)
		scan = look_for_entrance(index, scan, inum);
	cell = s ? read_cell(s, scan >> 8 & 0xff) : 0;
	return cell ? cell_port(cell) : RDR_NO_PORT;
}

/* Number of the namespace of the device that holds the skb. */
static __always_inline __u32 read_inum(struct sk_buff *skb)
{
	struct net_device *dev = skb->dev;

	return dev ? BPF_CORE_READ(dev, nd_net.net, ns.inum) : 0;
}

#endif
