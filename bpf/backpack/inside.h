/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Finding the slot of a packet inside a node, as it leaves. If mark or bits have found the slot of
 * another packet, it is sifted out. */
#ifndef BACKPACK_INSIDE_H
#define BACKPACK_INSIDE_H

#include "content.h"
#include "fragment.h"
#include "late.h"
#include "mark.h"
#include "tunnel.h"

/* What a port's egress may find. A call makes one verifier state of three. */
GLOBAL __u32 expect_out(__u32 flags)
{
	/* A node that carries the header may be a switch that has handed out a copy before: see
	 * is_over(). */
	if (flags & RDR_PF_BRIDGE_PORT || (!(flags & RDR_PF_BRIDGE) && carries_header(flags)))
		return EXPECT_OURS;
	return flags & RDR_PF_BRIDGE ? EXPECT_STRAY : EXPECT_COPIES;
}

/* Whether a packet that leaves by that port of a node that carries the header came to the node by
 * a link inside the domain. */
GLOBAL int came_by_link(struct __sk_buff *skb, __u32 port_no)
{
	const struct rdr_port *port = bpf_map_lookup_elem(&ports, &port_no), *in;
	struct rdr_dev dev = { .ifindex = skb->ingress_ifindex };
	__u32 *in_no;

	if (!port || is_closing(port))
		return false;
	dev.netns_inum = port->netns_inum;
	in_no = bpf_map_lookup_elem(&devs, &dev);
	in = in_no ? bpf_map_lookup_elem(&ports, in_no) : NULL;
	return in && !(in->flags & RDR_PF_SOURCE_IN);
}

/* UNFOUND_NEW for a packet that the kernel of the port's node has made, or that came to the node from
 * outside; 0 for one that came by a link, that a bridge passes on, or that a process made by hand. */
GLOBAL __u64 made_here(struct __sk_buff *skb, __u32 port_no)
{
	const struct rdr_port *port = bpf_map_lookup_elem(&ports, &port_no);

	if (!port || is_closing(port) || is_handmade(skb))
		return 0;
	return came_by_link(skb, port_no) ? 0 : UNFOUND_NEW;
}

/* Whether the bits of a packet that leaves by a port may have been set since it was last seen. */
static __always_inline bool may_be_changed(struct __sk_buff *skb, const struct rdr_port *port,
					   __u32 port_no)
{
	return port->flags & RDR_PF_BRIDGE_PORT ||
	       (carries_header(port->flags) && came_by_link(skb, port_no));
}

/*
 * Whether a packet that leaves by that port of a node that carries the header, and was found by its
 * bits, is another packet: the one in the slot at index has arrived, and this node makes no copies
 * of it. The answer is no if the log may lack a copy (it is full, see note_copy(); or a segment has
 * only a part of it), because wire bits must not leave.
 */
GLOBAL int is_over(__u32 index, __u32 port_no)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u32 visits;

	if (!s || !has_arrived(index) || s->seg || s->cut & (RDR_CUT | RDR_OWN) || is_log_short(s))
		return false;
	visits = look_at_visits(index, port_no);
	return !(visits & VISIT_STAYS) && (visits & (VISIT_NODE | VISIT_LEFT)) != VISIT_NODE;
}

/*
 * Whether a packet that leaves a node that carries the header, and came by the interface `from`,
 * came by an edge, and was not found there as the packet in the slot at index. If it is of another
 * flow, it only looks like that packet.
 */
GLOBAL int is_from_outside(__u32 index, __u32 port_no, __u32 from)
{
	const struct rdr_port *port = bpf_map_lookup_elem(&ports, &port_no), *in;
	struct rdr_dev dev = { .ifindex = from };
	__u32 *in_no;

	if (!port || !from)
		return false;
	dev.netns_inum = port->netns_inum;
	in_no = bpf_map_lookup_elem(&devs, &dev);
	in = in_no ? bpf_map_lookup_elem(&ports, in_no) : NULL;
	return in && in->flags & RDR_PF_SOURCE_IN && !(look_at_visits(index, *in_no) & VISIT_CAME);
}

/* Whether is_over() may be true, without a call: the packet in the slot at index is done. */
static __always_inline bool may_be_over(__u32 index)
{
	const struct rdr_slot *s = slot_at(index & (cfg_slots - 1));

	return s && s->state & RDR_ST_DONE;
}

/* r: what was found for a packet of that flow that came by the interface `from` and leaves by a
 * port. n_port: that port | packets << 16. Returns r; if that is another packet, what to count. (A
 * call makes one verifier state of many.) */
GLOBAL __u64 sift_found(__u64 r, __u32 n_port, __u32 flow, __u32 from)
{
	__u32 port_no = n_port & 0xffff, n = n_port >> 16;
	const struct rdr_port *port = bpf_map_lookup_elem(&ports, &port_no);

	if (!(r & FOUND) || !port)
		return r;
	if (r >> FOUND_BY_KEY_SHIFT & 1)
		return are_others_leaving(r, n, port_no, 0,
					  LEAVES_BY_KEY | is_closing(port) * LEAVES_CLOSING) ?
			       0 :
			       r;
	if (is_closing(port))
		return r;
	if (are_others_leaving(r, n, port_no, 0, 0))
		return (__u64)RDR_C_NOT_HERE << FOUND_MISSED_SHIFT;
	if (!mark_mask(port) && ((may_be_over(r) && is_over(r, port_no)) ||
				 (is_other_flow(r, flow) && is_from_outside(r, port_no, from))))
		return (__u64)RDR_C_FOREIGN << FOUND_MISSED_SHIFT;
	return r;
}

/* r: what found_by_mark() has found for a packet that leaves by that port with these bits. v6_form:
 * run_of() | IPv6 << 31. Returns r; 0 if that is another packet: then it is counted, and the mark
 * stays as it is. */
GLOBAL __u64 sift_marked(__u64 r, __u32 port_no, __u32 bits, __u32 v6_form)
{
	__u32 n = v6_form & 0xffff;

	if (!r)
		return 0;
	if ((n > 1 && !is_run(r, v6_form & ~RUN_BY_KEY)) ||
	    are_others_leaving(r, n, port_no, bits, v6_form >> 31)) {
		count(RDR_C_NOT_HERE, n);
		return 0;
	}
	return r;
}

/*
 * Finds a packet that leaves with a mark by the slot that this names, though its content is another: rules and
 * programs of the node may change that. The slot's packet must be in the node.
 */
static __always_inline __u64 found_changed_inside(__u32 mark, const struct packet *p, __u32 port_no,
						  __u64 now)
{
	struct wire w = pack_wire(p, 0, EXPECT_OURS);
	__u64 where = flow_hash(p) | (__u64)port_no << CHANGED_PORT_SHIFT |
		      1ULL << CHANGED_WITHIN_SHIFT | CHANGED_MARKED,
	      r;

	/* A partial packet's content is not known. */
	if (marked_index(mark) >= cfg_slots || p->partial)
		return 0;
	r = changed_at(marked_index(mark) | (w.bits_len >> 32 << 32), w.tags, w.rest, now, where);
	r = sift_marked(r, port_no, p->bits.word, run_of(p) | (__u32)p->v6 << 31);
	if (!r)
		return 0;
	take_content(r, w.tags, w.rest, w.bits_len >> 32 & 0x7fffffff, port_no);
	return (__u32)r | (__u64)(p->v6 ? ID_SHARED : ID_COUNTS) << 40 | FOUND;
}

/* Finds a packet that leaves without a mark: from a function in user space that shares no
 * skb, under --carry header, or by a bridge. Sets *late if it is late, and so restored. */
static __always_inline __u64 found_unmarked(struct __sk_buff *skb, struct packet *p, bool *late,
					    const struct rdr_port *port, __u32 port_no, __u64 now)
{
	__u32 from = skb->ingress_ifindex;
	__u32 expect = expect_out(port->flags);
	struct wire w = pack_wire(p, port->flags, expect);
	__u64 r = found_packed(&w, p, port->flags, expect, from, now), changed = 0;

	/* A packet that was sifted out is another one, whatever its content is. */
	if (r & FOUND)
		r = sift_found(r, port_no | (p->n & 0xffff) << 16, flow_hash(p), from);
	else if (may_be_changed(skb, port, port_no))
		changed = found_changed(&w, flow_hash(p), port_no, !is_closing(port), now);
	r = changed ? changed : r;
	if (r & FOUND)
		return r;
	*late = pass_if_late(skb, p, &w, r >> FOUND_MISSED_SHIFT, 0, made_here(skb, port_no));
	return 0;
}

#endif
