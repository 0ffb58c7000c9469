/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Delivery after the destination was changed. At TC ingress a packet for a node's own
 * address is delivered. One that a rule redirects (DNAT, REDIRECT), or that a route of
 * type local takes (TPROXY), looks like one that goes on. Its arrival is seen where the
 * kernel hands it to the node: at netfilter's LOCAL_IN, where it has our mark.
 */
#ifndef BACKPACK_DELIVER_H
#define BACKPACK_DELIVER_H

#include "find.h"
#include "nat.h"
#include "skb.h"

/* Fragments of one packet that are looked at. A 64 KiB packet of a path with an MTU of
 * 1,500 bytes has 45. */
#define MAX_FRAGMENTS 64

/*
 * Writes that the run at index, of n packets, was delivered in the namespace with that
 * number, if it came in there last. p is the packet, or the one that was joined from the
 * run's fragment and others; NULL for fragments but the first. A packet that came for the
 * node's own address is delivered already, and may have another port now.
 */
static __always_inline void deliver(struct rdr_slot *s, __u32 index, __u32 n, __u32 inum, __u64 now,
				    const struct packet *p)
{
	__u64 cell = last_cell(s);
	struct sighting w = {
		.now = now,
		.kind = RDR_EV_DELIVER,
		.flags = RDR_EVF_FIRST,
		.port = cell_port(cell),
	};
	__u32 kind = cell_kind(cell), no = w.port;
	const struct rdr_port *port;

	/* A packet to a group has an end for each branch. */
	if ((kind != RDR_EV_INGRESS && kind != RDR_EV_DELIVER) || (s->state & RDR_ST_GROUP))
		return;
	port = bpf_map_lookup_elem(&ports, &no);
	if (!port || port->netns_inum != inum)
		return;
	if (p && !p->v6 && has_moved(s, p))
		note_run(index, n, key_addrs(p->saddr, p->daddr), new_ports(s, p, no), now);
	if (kind == RDR_EV_INGRESS)
		see(s, index, n, &w);
}

/* Whether p, as it is delivered, is the packet of slot s: as in found_by_mark(), but it
 * may have been joined from fragments, of which the first has this slot. */
static __always_inline bool is_packet_of(const struct rdr_slot *s, const struct packet *p)
{
	bool fragment = !s->seg && (s->frag_off & bpf_htons(IP_MF | IP_OFFSET));

	return same_content(s, p) && (p->n > 1 || s->segs > 1 || s->len == p->len || fragment);
}

/* A later fragment of a packet that was joined: its content begins where its data do. */
static __always_inline void deliver_fragment(struct sk_buff *skb, __u32 index, __u32 inum,
					     __u64 now)
{
	__u32 len = BPF_CORE_READ(skb, len), linear = len - BPF_CORE_READ(skb, data_len);
	struct rdr_slot *s = slot_at(index);
	__be32 w[2] = {};

	fill_if_member(index);
	if (!s || !slot_alive(s, now) || !(s->flags & RDR_SF_FRAGMENT))
		return;
	if (len >= sizeof(w) &&
	    (linear < sizeof(w) || bpf_probe_read_kernel(w, sizeof(w), BPF_CORE_READ(skb, data))))
		return;
	if (s->tag == w[0] && s->tag2 == w[1])
		deliver(s, index, 1, inum, now, NULL);
}

static __always_inline void deliver_fragments(struct sk_buff *head, __u32 inum, __u64 now)
{
	struct skb_shared_info *shared = (void *)(head->head + head->end);
	struct sk_buff *skb = BPF_CORE_READ(shared, frag_list);

	for (int i = 0; i < MAX_FRAGMENTS && skb; i++) {
		__u32 mark = BPF_CORE_READ(skb, mark);

		if (mark & cfg_mark_mask)
			deliver_fragment(skb, marked_index(mark), inum, now);
		skb = BPF_CORE_READ(skb, next);
	}
}

#endif
