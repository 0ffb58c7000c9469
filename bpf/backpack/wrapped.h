/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packets that leave a node inside others without passing a tunnel's interface: routes
 * with an encapsulation (SRv6, MPLS, BPF) put headers in front of the packet itself. So the skb
 * has the packet's mark, and the packet, unchanged but for its TTL, is its end. Nobody knows where
 * it is taken out again: its story ends as it leaves.
 */
#ifndef BACKPACK_WRAPPED_H
#define BACKPACK_WRAPPED_H

#include "inside.h"

/* Whether these bytes are the beginning of an IP header of the packet in slot s, of len bytes and with
 * that ID. */
static __always_inline bool begins_like(const struct rdr_slot *s, const __u8 *h, __u32 len,
					__be16 true_id)
{
	__be16 id = *(const __be16 *)(h + 4), size = *(const __be16 *)(h + 2);

	if (s->state & RDR_ST_IPV6) /* the label's low 16 bits stand for the ID */
		return h[0] >> 4 == 6 && size == true_id &&
		       bpf_ntohs(id) + sizeof(struct ip6_header) == len;
	return h[0] >> 4 == 4 && bpf_ntohs(size) == len && id == true_id && h[9] == s->proto;
}

/* Whether the skb ends with the packet in slot s, of len bytes. A segment that was cut with
 * SKB_GSO_TCP_FIXEDID has the ID of its train. */
static __always_inline bool ends_with(struct __sk_buff *skb, struct rdr_slot *s, __u32 len)
{
	__u32 v6 = s->state & RDR_ST_IPV6;
	union rdr_bits own, train;
	__u8 h[12];

	return skb->len > len + sizeof(struct ethhdr) &&
	       !bpf_skb_load_bytes(skb, skb->len - len, h, sizeof(h)) &&
	       own_bits(s, v6 ? ID_SHARED : ID_COUNTS, &own) && own_bits(s, ID_FIXED, &train) &&
	       (begins_like(s, h, len, own.id) || begins_like(s, h, len, train.id));
}

/* Whether the packet in the slot at index came to the node of a port and has not left it. internal:
 * the port leads to another node, where a packet with a key is known again if it is taken out. */
GLOBAL int is_in_node(__u32 index, __u32 node, __u32 internal, __u64 now)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	const struct rdr_port *came;
	__u32 entrance;
	__u64 cell;

	if (!s || !slot_alive(s, now) || is_tree(s))
		return false;
	cell = last_event(s);
	entrance = cell_port(cell);
	came = bpf_map_lookup_elem(&ports, &entrance);
	if (cell_kind(cell) != RDR_EV_INGRESS || !came || came->node != node)
		return false;
	/* When a train was cut, only its head has the state. */
	return !internal || !(s->state & RDR_ST_KEYED || cell_flags(cell) & RDR_EVF_KEYED);
}

/* One step of is_run_in_node(), as step_of_run(). */
GLOBAL __u32 step_in_node(__u32 first, __u32 k_n, __u32 node_internal, __u64 now)
{
	__u32 k = k_n & 0xffff, n = k_n >> 16, index = first + k;
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));

	return s && is_in_node(index, node_internal & 0xffff, node_internal >> 16, now) ?
		       run_span(s, n - k) :
		       NOT_OF_RUN;
}

/* is_in_node() for a run of n packets: whether all of them are. */
GLOBAL int is_run_in_node(__u32 index, __u32 n, __u32 node_internal, __u64 now)
{
	__u32 k = 0;

	FOR_STEPS(k, n, cfg_max_run, step_in_node(index, k | n << 16, node_internal, now));
	return k == n;
}

/* IP bytes of the n packets that begin with slot s, joined to one skb. */
static __always_inline __u32 joined_len(const struct rdr_slot *s, __u32 index, __u32 n,
					__u32 gso_size)
{
	const struct rdr_slot *last = slot_at((index + n - 1) & (cfg_slots - 1));

	return last ? (n - 1) * gso_size + last->len : 0;
}

/*
 * The skb leaves by port and has a mark with that index. If it has the packet of that slot inside,
 * which came to this node and has not left it: how many packets that stands for. Else 0. Those behind
 * the first one are of one train, or were joined as they came in: each is looked at by itself.
 */
GLOBAL __u32 wrapped_packets(struct __sk_buff *skb, __u32 index, __u32 port_no, __u64 now)
{
	const struct rdr_port *here = bpf_map_lookup_elem(&ports, &port_no);
	__u32 n = skb->gso_segs, size = skb->gso_size, len;
	struct rdr_slot *s;

	if (!here || index >= cfg_slots)
		return 0;
	fill_if_member(index);
	s = slot_at(index);
	if (!s)
		return 0;
	len = s->len;
	if (s->segs > 1 && is_whole(s, n > 1 ? n : s->segs)) {
		n = s->segs;
		len = s->train_len - (n - 1) * s->hdr;
	} else if (n > 1) {
		if (len <= size || !is_run(index, run_form(n, len - size)))
			return 0;
		fill_if_member(index + n - 1);
		len = joined_len(s, index, n, size);
	} else {
		n = 1;
	}
	if (!is_run_in_node(index, n, here->node | (here->flags & RDR_PF_INTERNAL) << 16, now) ||
	    !ends_with(skb, s, len))
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
