/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packets that leave a node inside others, and pass no tunnel's interface on their way: routes
 * with an encapsulation (SRv6, MPLS, BPF) put headers in front of the packet itself. So the skb
 * has the packet's mark, and the packet, unchanged but for its TTL, is its end. Nobody knows where
 * it is taken out again: its story ends as it leaves.
 */
#ifndef BACKPACK_WRAPPED_H
#define BACKPACK_WRAPPED_H

#include "inside.h"

/* Whether these bytes are the beginning of an IP header of the packet in slot s, of len bytes. */
static __always_inline bool begins_like(const struct rdr_slot *s, const __u8 *h, __u32 len)
{
	__be16 id = *(const __be16 *)(h + 4), size = *(const __be16 *)(h + 2);

	if (s->state & RDR_ST_IPV6) /* the label's low 16 bits stand for the ID */
		return h[0] >> 4 == 6 && size == s->id &&
		       bpf_ntohs(id) + sizeof(struct ip6_header) == len;
	return h[0] >> 4 == 4 && bpf_ntohs(size) == len && id == s->id && h[9] == s->proto;
}

/* The skb leaves by port and has a mark with that index. If it has the packet of that slot inside,
 * which came to this node and has not left it: how many packets that stands for. Else 0. */
GLOBAL __u32 wrapped_packets(struct __sk_buff *skb, __u32 index, __u32 port_no, __u64 now)
{
	const struct rdr_port *here = bpf_map_lookup_elem(&ports, &port_no), *came;
	__u32 n = 1, len, entrance;
	struct rdr_slot *s;
	__u8 h[12];
	__u64 cell;

	if (!here || index >= cfg_slots)
		return 0;
	fill_if_member(index);
	s = slot_at(index);
	/* A packet with a key is known again where it is taken out, if that is inside. */
	if (!s || !slot_alive(s, now) || is_tree(s) ||
	    (s->state & RDR_ST_KEYED && here->flags & RDR_PF_INTERNAL))
		return 0;
	cell = last_event(s);
	entrance = cell_port(cell);
	came = bpf_map_lookup_elem(&ports, &entrance);
	if (cell_kind(cell) != RDR_EV_INGRESS || !came || came->node != here->node)
		return 0;
	len = s->len;
	if (s->segs > 1 && !(s->cut & RDR_CUT)) {
		n = s->segs;
		len = s->train_len - (n - 1) * s->hdr;
	}
	if (skb->len <= len + sizeof(struct ethhdr) ||
	    bpf_skb_load_bytes(skb, skb->len - len, h, sizeof(h)) || !begins_like(s, h, len))
		return 0;
	return n;
}

/* Ends the story of the packet inside an skb with that mark, which leaves by port, if it has one.
 * Returns whether it has. */
static __always_inline bool leave_wrapped(struct __sk_buff *skb, __u32 mark, __u32 port_no)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 index = marked_index(mark), n = wrapped_packets(skb, index, port_no, now);
	struct sighting w = {
		.kind = RDR_EV_LEFT,
		.flags = RDR_EVF_FIRST,
		.port = port_no,
	};

	if (!n)
		return false;
	see_run(index, n, now, pack_sighting(&w), 0);
	skb->mark = mark & ~cfg_mark_mask;
	return true;
}

#endif
