/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Programs in a node that forward packets themselves and change their content (a P4 switch
 * that inserts INT): docs/design/0016-user-space-switches.md. A packet socket reads packets as
 * they are on the wire, with our bits, and sends other packets with the same bits. Their
 * content is not the slot's, so they are not the packet of that slot. But the bits are ours and
 * must not leave: the packet gets the true ones back. The slot's story ends here.
 */
#ifndef BACKPACK_CHANGED_H
#define BACKPACK_CHANGED_H

#include "inside.h"

/* Whether that event says that the packet is on a link to node, as far as is known, or has just
 * left node. */
static __always_inline bool is_on_link(__u64 cell, __u32 node)
{
	__u32 no = cell_port(cell);
	const struct rdr_port *port;

	if (!went_out(cell))
		return false;
	port = bpf_map_lookup_elem(&ports, &no);
	return port && (!port->towards || port->towards == node + 1 || port->node == node);
}

/* Whether the packet in slot s was last seen on a link to node, as it came there, or was lost
 * there. stay: what its log says of that node. by: how the packet with its bits was sent. */
static __always_inline bool is_still_here(struct rdr_slot *s, __u32 stay, __u32 node, __u32 by)
{
	struct rdr_slot *h = head_of(s);
	__u8 state = s->state | (h ? h->state : 0);
	__u64 last = last_event(s);

	/* Nobody sends on a packet that was delivered to the node itself. */
	if (cell_kind(last) == RDR_EV_DELIVER)
		return false;
	/* A switch may be faster than the hook at ingress: then the last event is still on the
	 * link. A packet that has arrived or left elsewhere is not. A raw socket's packet that
	 * looks so has bits of its own: another socket would have had to read ours first. */
	if (!(stay & STAY_CAME))
		return by == BY_PACKET && is_on_link(last, node);
	/* A switch was faster, so the arrival is in the log behind the departure. */
	if (stay & STAY_QUICK)
		return false;
	if (has_come(last, node))
		return true;
	if (stay & (STAY_AWAY | STAY_LEFT))
		return false;
	/* The kernel has dropped its own copy, for another host or not. Nobody sends on a flooded
	 * copy of a packet that has arrived elsewhere. */
	return state & RDR_ST_LOST || (cell_kind(last) == RDR_EV_IGNORED && !(state & RDR_ST_DONE));
}

/*
 * Whose bits a packet has that leaves by that port and was not found: the index of a slot whose
 * packet came to the node by a link on which it had these bits, | CHANGED; 0: nobody's. A packet of
 * the same flow may have them at any time: a program may send copies, or send late. One of another
 * flow (the program translates addresses) may have them only while the slot's packet is here:
 * headers of other hosts may look like ours. bits_flow: its bits, and its flow hash << 32; by:
 * is_handmade(). (A call makes one verifier state of many.)
 */
#define CHANGED (1ULL << 32)
GLOBAL __u64 whose_bits(__u64 bits_flow, __u32 port_no, __u64 now, __u32 by)
{
	const struct rdr_port *port = bpf_map_lookup_elem(&ports, &port_no);
	union rdr_bits bits = { .word = bits_flow };
	__u32 index, stay, decrements;
	struct rdr_slot *s;
	bool same;

	index = guid_decode(bits, &decrements);
	if (!port || index == NO_INDEX)
		return 0;
	fill_if_member(index);
	s = slot_at(index & (cfg_slots - 1));
	/* One with a key had its own bits on the link. */
	if (!s || !slot_alive(s, now) || s->state & RDR_ST_KEYED)
		return 0;
	same = s->flow_hash == bits_flow >> 32;
	stay = look_at_stays(s, index, port_no, port->node);
	if (!(stay & STAY_TOWARDS))
		return 0;
	return same || is_still_here(s, stay, port->node, by) ? index | CHANGED : 0;
}

/* Offset of the packet's IP header:8 | IPv6:1 << 8 | packets:16 << 16. */
static __always_inline __u32 changed_form(const struct packet *p)
{
	return p->l3 | (__u32)p->v6 << 8 | (p->n & 0xffff) << 16;
}

/*
 * Restores a packet that has the bits of the slot at index and other content. Returns the true
 * bits | CHANGED; 0: they could not be restored.
 */
GLOBAL __u64 restore_changed(struct __sk_buff *skb, __u32 bits, __u32 index, __u32 form)
{
	struct packet p = {
		.bits.word = bits, .l3 = form & 0x7f, .v6 = form >> 8 & 1, .n = form >> 16
	};
	struct found f = { .id_rule = p.v6 ? ID_SHARED : ID_COUNTS };
	union rdr_bits b;

	guid_decode(p.bits, &f.decrements);
	f.slot = slot_at(index & (cfg_slots - 1));
	if (!f.slot || !(f.slot->state & RDR_ST_IPV6) != !p.v6 || !true_bits(&f, &p, &b))
		return 0;
	/* Whoever changed it also computed its checksum. */
	if (!restore_header(skb, &p, b, 0)) {
		count(RDR_C_RESTORE_FAILED, p.n);
		return 0;
	}
	count(RDR_C_CONTENT_CHANGED, p.n);
	return b.word | CHANGED;
}

/* Ends the story of the packet in the slot at index: it went on by that port as another packet, in
 * an skb of n packets. */
GLOBAL int end_changed(__u32 index, __u32 port_no, __u32 n, __u64 now)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	struct sighting w = {
		.kind = RDR_EV_LEFT,
		.flags = RDR_EVF_FIRST,
		.port = port_no,
	};
	__u8 state;

	if (!s)
		return 0;
	state = s->state;
	see_one(index, n << 16, now, pack_sighting(&w), 0);
	/* The slot's packet may still wait somewhere, with its bits: unless it was lost here, its
	 * slot is not used again before the timeout. */
	if (!((state & RDR_ST_LOST) | (s->cut & RDR_COPIES)))
		flip_copies(s);
	return 0;
}

/*
 * Takes our bits back from p, which leaves by port and was not found, if a program has put them
 * there. Then p is an unknown packet.
 */
static __always_inline void take_bits_back(struct __sk_buff *skb, struct packet *p,
					   const struct rdr_port *port, __u32 port_no, __u64 now)
{
	__u64 whose, r;
	__u32 by;

	if (is_closing(port) || (p->v6 && cfg_ip6 != RDR_IP6_LABEL))
		return;
	/* A packet that the kernel itself forwards may have such bits of its own. */
	by = is_handmade(skb);
	if (!by || has_own_bits(p->bits.word, flow_hash(p), port->node, now))
		return;
	whose = whose_bits(p->bits.word | (__u64)flow_hash(p) << 32, port_no, now, by);
	if (!(whose & CHANGED))
		return;
	r = restore_changed(skb, p->bits.word, whose, changed_form(p));
	if (!(r & CHANGED))
		return;
	end_changed(whose, port_no, p->n, now);
	p->bits.word = r;
	p->minus_zero = 0;
}

#endif
