/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The wait in a port's queue. TC egress runs before the queueing discipline, so when the
 * packet leaves the queue it has its bits (or is found by key), and no mark. A packet that
 * a discipline passes on without queueing (TCQ_F_CAN_BYPASS: it is empty and the link is
 * free) causes no event: it did not wait.
 */
#ifndef BACKPACK_QUEUE_H
#define BACKPACK_QUEUE_H

#include "find.h"
#include "skb.h"
#include "tunnel.h"

/* Skbs of a list that are looked at: as many as the kernel takes at once without byte
 * queue limits, which links between namespaces do not have
 * (try_bulk_dequeue_skb_slow()). */
#define MAX_BULK 9

/* Cells that a wait leaves free, for the next node and the packet's end there: these events matter
 * more, and a packet that lacks them would be truncated. */
#define QUEUE_RESERVE (RDR_END_CELLS + 1)

/* The attached port with a queue that txq sends for, RDR_NO_PORT if it is none. */
static __always_inline __u32 queue_port(struct netdev_queue *txq)
{
	struct net_device *dev = txq->dev;
	struct rdr_dev key = {
		.netns_inum = dev->nd_net.net->ns.inum,
		.ifindex = dev->ifindex,
	};
	const struct rdr_port *port;
	__u32 *no;

	no = bpf_map_lookup_elem(&devs, &key);
	if (!no)
		return RDR_NO_PORT;
	port = bpf_map_lookup_elem(&ports, no);
	/* devs also has bridge members, which count as another port. */
	if (!port || !(port->flags & RDR_PF_QUEUE) || port->ifindex != key.ifindex)
		return RDR_NO_PORT;
	return *no;
}

/*
 * Writes a dequeue into the slot at index, the k-th of a run of n, and returns how many of
 * the run the slot stands for, as see_one() does.
 */
GLOBAL __u32 dequeue_one(__u32 index, __u32 k_n, __u64 now, __u32 port)
{
	__u32 k = k_n & 0xffff, n = k_n >> 16, span = 1;
	__u32 flags = k ? 0 : RDR_EVF_FIRST;
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	struct rdr_slot *h;

	if (!s)
		return n;
	/* A copy of a packet that has arrived does not count. */
	if ((story_state(s) & (RDR_ST_DONE | RDR_ST_LOST)) == RDR_ST_DONE)
		return 1;
	if (s->seg || (s->cut & RDR_CUT) || s->segs > n - k) {
		h = head_of(s);
		if (h && h->segs > 1)
			cut_train(h);
		flags |= RDR_EVF_PART;
	} else if (s->segs) {
		span = s->segs;
	}
	if (end_of_log(s).used + QUEUE_RESERVE >= cfg_cells) {
		count(RDR_C_QUEUE_UNSEEN, span);
		return span;
	}
	add_sighting(s, RDR_EV_DEQUEUE, flags, port, now);
	return span;
}

/* The packet in the slot at index left the queue of port. If it is the outer one of a lone packet that
 * left this node by a tunnel: that waited there too. */
GLOBAL int dequeue_inside(__u32 index, __u32 port, __u64 now)
{
	__u64 pos = still_inside(index, port, now);
	struct rdr_slot *s = slot_at(pos & (cfg_slots - 1));

	if (!pos || !s)
		return 0;
	dequeue_one(pos, 1 << 16, now, cell_port(last_cell(s)));
	return 0;
}

GLOBAL int dequeue_run(__u32 index, __u32 n, __u64 now, __u32 port)
{
	__u32 k = 0;

	FOR_STEPS(k, n, cfg_max_run, dequeue_one(index + k, k | n << 16, now, port));
	return 0;
}

#endif
