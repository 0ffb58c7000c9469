/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Where a packet was lost, and the loss in its log. */
#ifndef BACKPACK_LOSS_H
#define BACKPACK_LOSS_H

#include "unwanted.h"

/* Whether the log of the packet in the slot at index may lack nodes. */
GLOBAL int lacks_nodes(__u32 index)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1)), *h;

	if (!s)
		return false;
	h = head_of(s);
	return (s->state | (h ? h->state : 0)) & RDR_ST_FULL;
}

/* Number of the namespace of an skb with a mark: its device's, else its socket's, else its
 * route's. 0: it has none. */
static __always_inline __u32 read_home(struct sk_buff *skb)
{
	__u32 inum = read_inum(skb);
	struct dst_entry *dst;
	struct sock *sk;

	if (inum)
		return inum;
	sk = skb->sk;
	if (sk)
		return BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
	dst = (void *)(skb->_skb_refdst & ~7UL); /* SKB_DST_PTRMASK, less its reserved bit */
	return BPF_CORE_READ(dst, dev, nd_net.net, ns.inum);
}

/* First 8 bytes of the name of the device's root qdisc. */
static __always_inline __u64 read_qdisc(struct sk_buff *skb)
{
	struct net_device *dev = skb->dev;
	__u64 name = 0;

	bpf_probe_read_kernel(&name, sizeof(name), BPF_CORE_READ(dev, qdisc, ops, id));
	return name;
}

/* Where a packet that has arrived or left was freed: in the namespace where it was delivered, or
 * at the port by which it left. */
#define AT_RECEIVER 1
#define AT_EXIT 2

/* One step of look_at_place(): the cell to look at next:8 | what is known << 8 | SCAN_DONE. */
GLOBAL __u32 look_for_place(__u32 index, __u32 scan, __u32 at, __u32 inum)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u64 cell = s ? read_cell(s, scan & 0xff) : 0;
	__u32 kind = cell_kind(cell), known = scan & 0xff00;

	if (!cell)
		return scan | SCAN_DONE;
	if (kind == RDR_EV_DELIVER && came_by(cell_port(cell), RDR_NO_PORT, inum))
		known |= AT_RECEIVER << 8;
	if (kind == RDR_EV_LEFT && cell_port(cell) == at)
		known |= AT_EXIT << 8;
	return ((scan & 0xff) + cell_span(kind)) | known;
}

/* inum: 0 if the namespace is not known. If neither that nor the log has the place, the receiver
 * counts as the place. */
GLOBAL __u32 look_at_place(__u32 index, __u32 port, __u32 inum)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u32 scan = 0;

	if (!s || !inum || s->state & RDR_ST_FULL)
		return AT_RECEIVER;
	if (s->seg && !s->nev)
		index -= s->seg; /* its head has the events */
	for (__u32 i = 0; i < cfg_cells && !(scan & SCAN_DONE); i++)
		scan = look_for_place(index, scan, port, inum);
	return scan >> 8 & 0xff;
}

/* Writes the loss into one slot; skbs are counted by RDR_EVF_FIRST. packed: port | RDR_ST_HELD, if
 * it was inside a node << 16 | look_at_place() << 24. */
GLOBAL __u32 lose_one(__u32 index, __u32 k_n, __u64 packed, __u64 where, __u64 qdisc)
{
	__u32 k = k_n & 0xffff, n = k_n >> 16, span = 1;
	__u32 port = packed & 0xffff, flags = k ? 0 : RDR_EVF_FIRST;
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	struct rdr_slot *h;
	__u8 state;

	if (!s)
		return n;
	state = s->state;
	if (s->seg || (s->cut & RDR_CUT) || s->segs > n - k) {
		h = head_of(s);
		/* The whole train went there, and this segment with it. */
		if (h && s->seg && !(h->cut & RDR_CUT))
			state |= h->state & RDR_ST_DONE;
		if (h && h->segs > 1)
			cut_train(h);
		flags |= RDR_EVF_PART;
	} else if (s->segs) {
		span = s->segs;
	}
	if (state & RDR_ST_LOST)
		return span;
	if (is_tree(s)) {
		count(RDR_C_LOSS_EVENT, span); /* user space finds out of which branch */
	} else if ((state & RDR_ST_DONE) && !(packed >> 24)) {
		/* A copy was lost: the packet has arrived elsewhere. */
		count(RDR_C_LOSS_IGNORED, span);
		if (is_log_short(s))
			return span;
	} else if ((state & RDR_ST_DONE) && !(state & RDR_ST_LOCAL_DROP)) {
		/* The destination, or the queue of the port by which it left, frees it. */
		s->state = state | RDR_ST_LOCAL_DROP;
		count(packed >> 24 & AT_RECEIVER ? RDR_C_LOCAL_DROP : RDR_C_LOSS_EVENT, span);
	} else if (state & RDR_ST_DONE) {
		return span;
	} else {
		s->state = state | RDR_ST_DONE | RDR_ST_LOST | (packed >> 16 & RDR_ST_HELD);
		count(RDR_C_LOSS_EVENT, span);
	}
	add_event_data(s, RDR_EV_LOSS, flags, port, bpf_ktime_get_ns(), where, qdisc);
	return span;
}

GLOBAL int lose_run(__u32 index, __u32 n, __u64 packed, __u64 where, __u64 qdisc)
{
	__u32 k = 0;

	FOR_STEPS(k, n, cfg_max_run, lose_one(index + k, k | n << 16, packed, where, qdisc));
	return 0;
}

/* Packs the two halves of a drop reason, subsystem (0: the core) and number, into 16 bits. (A
 * function by itself, for a test: no test can make other subsystems drop.) */
GLOBAL __u32 pack_reason(__u32 reason)
{
	return (reason & 0xfff) | (reason >> 16 & 0xf) << 12;
}

#endif
