// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What the kernel does with packets between our hooks. Losses: every kfree_skb of a
 * packet that has a backpack is written into it, with the function that freed it and
 * the reason. A drop is provisional: a later sighting withdraws it (a copy was
 * dropped), and a second drop adds nothing. Queues: see queue.h.
 */
#include "loss.h"
#include "mark.h"
#include "nat.h"
#include "queue.h"
#include "tunnel.h"
#include "unsent.h"
#include "wire.h"

SEC("tp_btf/kfree_skb")
int radar_kfree_skb(__u64 *ctx)
{
	struct sk_buff *skb = (void *)ctx[0];
	__u64 location = ctx[1], where, now, qdisc, inner, r = 0;
	struct packet p = {};
	struct found f = {};
	__u32 port, mark, packed, reason = 0;
	bool in_node, tree;

	/* The hook sees every drop of the machine, also those of other domains. On the
	 * wire our ports hold our packets, inside nodes they have our mark. */
	port = read_port(skb);
	mark = skb->mark & marks_at(port);
	if (cfg_has_reason)
		reason = pack_reason(ctx[2]);
	where = (union rdr_where){ .caller = location, .reason = reason }.word;
	if (port == RDR_NO_PORT && !mark)
		return lose_unsent(skb, where);
	if (!read_packet(skb, &p))
		return 0;
	now = bpf_ktime_get_ns();
	p.true_link = true_at(port, p.v6);
	if (mark)
		r = found_by_mark(mark, &p, now);
	if (r && overruns(r, &p)) {
		count(RDR_C_NOT_HERE, p.n);
		r = 0;
		mark = 0;
	}
	if (mark && !r)
		r = found_lost_inside(marked_index(mark), p.n, now);
	in_node = r >> FOUND_SHIFT & 1;
	/* If the log overflowed, accept the loss when the device is one of our ports. */
	if (in_node && !was_run_in(r, p.n, read_home(skb), skb->skb_iif) &&
	    (port == RDR_NO_PORT || !lacks_nodes(r))) {
		count(RDR_C_NOT_HERE, p.n);
		r = 0;
		in_node = false;
	}
	if (!r && port != RDR_NO_PORT)
		r = found_on_wire(&p, p.true_link * RDR_PF_TRUE, EXPECT_OURS, now);
	if (!unpack_found(r, &f))
		return lose_unsent(skb, where);
	tree = is_tree(f.slot);
	if (is_tap(location) || is_ping(location, reason) ||
	    was_joined(&p, location, reason, f.index) ||
	    (is_unwanted(skb, location, tree) &&
	     (note_unwanted_run(f.index, p.n, port | verdict_on(skb, tree) << 16, read_inum(skb)) ||
	      !tree))) {
		count(RDR_C_LOSS_IGNORED, p.n);
		return 0;
	}
	qdisc = port == RDR_NO_PORT ? 0 : read_qdisc(skb);
	if (port == RDR_NO_PORT && tree)
		port = entrance_of(f.index, read_inum(skb));
	if (in_node && !p.v6 && !tree && has_moved(f.slot, &p))
		lose_moved(&f, &p, now);
	packed = port | (in_node ? RDR_ST_HELD << 16 : 0) |
		 look_at_place(f.index, port, read_home(skb)) << 24;
	inner = still_inside(f.index, RDR_NO_PORT, now);
	lose_run(f.index, p.n, packed, where, qdisc);
	if (inner)
		lose_run(inner & (cfg_slots - 1), 1, packed, where, qdisc);
	return 0;
}

/* Writes that an skb left the queue of port. */
static __attribute__((noinline)) int skb_dequeued(struct sk_buff *skb, __u32 port, __u64 now)
{
	struct packet p = {};
	struct found f = {};

	if (!read_packet(skb, &p))
		return 0;
	p.true_link = true_at(port, p.v6);
	if (!unpack_found(found_on_wire(&p, p.true_link * RDR_PF_TRUE, EXPECT_OURS, now), &f))
		return 0;
	dequeue_run(f.index, p.n, now, port);
	dequeue_inside(f.index, port, now);
	return 0;
}

/*
 * A root qdisc hands skbs to its device: one, several linked by skb->next (a device
 * with several queues, or with byte queue limits), or none. This runs for every queue of
 * the machine, so it returns at once if the port is not ours. An skb that the device did
 * not take comes again.
 */
SEC("tp_btf/qdisc_dequeue")
int radar_qdisc_dequeue(__u64 *ctx)
{
	struct sk_buff *skb = (void *)ctx[3];
	__u64 now, half;
	__u32 port;

	/* From Linux 6.2 to 6.12 the verifier assumes that the argument is never NULL, leaves
	 * out a test for it, and does not guard what follows. Half a pointer is only a number. */
	asm volatile("r0 = %[skb]; w0 = w0; %[half] = r0"
		     : [half] "=r"(half)
		     : [skb] "r"(skb)
		     : "r0");
	if (!half || !skb)
		return 0;
	port = queue_port((void *)ctx[1]);
	if (port == RDR_NO_PORT)
		return 0;
	now = bpf_ktime_get_ns();
	for (int i = 0; i < MAX_BULK && skb; i++) {
		skb_dequeued(skb, port, now);
		skb = skb->next;
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
