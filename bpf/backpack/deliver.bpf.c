// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Packets that a node delivers to itself although they were not addressed to it, see
 * deliver.h. The program accepts every packet.
 */
#include "deliver.h"

#define NF_ACCEPT 1

SEC("netfilter")
int radar_local_in(struct bpf_nf_ctx *ctx)
{
	struct sk_buff *skb = ctx->skb;
	struct packet p = {};
	struct rdr_slot *s;
	__u32 index, inum;
	__u64 now;

	if (!(skb->mark & cfg_mark_mask))
		return NF_ACCEPT;
	index = marked_index(skb->mark);
	fill_if_member(index);
	s = slot_at(index);
	if (!s || !read_packet(skb, &p))
		return NF_ACCEPT;
	now = bpf_ktime_get_ns();
	inum = ctx->state->net->ns.inum;
	if (!slot_alive(s, now) || !is_packet_of(s, &p))
		return NF_ACCEPT;
	if (p.n > 1 && (overruns(index, &p) || !was_run_in(index, p.n, inum, 0))) {
		count(RDR_C_NOT_HERE, p.n);
		return NF_ACCEPT;
	}
	deliver(s, index, p.n, inum, now, &p);
	if (!p.gso_size)
		deliver_fragments(skb, inum, now);
	return NF_ACCEPT;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
