// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What the kernel does with packets between our hooks. Losses: every kfree_skb of a
 * packet that has a backpack is written into it, with the function that freed it and
 * the reason. A drop is provisional: a later sighting withdraws it (the packet was a
 * copy), a second drop adds nothing. Queues: see queue.h.
 */
#include "base.h"
#include "config.h"
#include "maps.h"
#include "group.h"
#include "inside.h"
#include "nat.h"
#include "queue.h"
#include "unsent.h"

static __always_inline bool lies_in(const volatile struct rdr_range *r, __u64 location)
{
	return location >= r->from && location < r->to;
}

/* Drops that are no losses: of packet taps and ping sockets, by function. (Calls: each
 * comparison tells the verifier something about location, a state of its own.) */
GLOBAL int is_tap(__u64 location)
{
#pragma unroll
	for (int i = 0; i < RDR_MAX_IGNORE; i++)
		if (lies_in(&cfg_ignore[i], location))
			return true;
	return false;
}

/* Raw sockets, or the kernel, have what ping sockets do not want. */
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

GLOBAL int is_stranger(__u64 location)
{
#pragma unroll
	for (int i = 0; i < RDR_MAX_STRANGER; i++)
		if (lies_in(&cfg_stranger[i], location))
			return true;
	return false;
}

GLOBAL int is_outsider(__u64 location)
{
#pragma unroll
	for (int i = 0; i < RDR_MAX_STRANGER; i++)
		if (lies_in(&cfg_outsider[i], location))
			return true;
	return false;
}

/*
 * Whether a node frees here what it does not want: frames for another host, which have
 * come by a bridge that flooded them, and packets for a group that it is no member of.
 */
static __always_inline bool is_unwanted(struct sk_buff *skb, __u64 location, bool tree)
{
	if (is_stranger(location))
		return tree || BPF_CORE_READ_BITFIELD_PROBED(skb, pkt_type) == PACKET_OTHERHOST;
	return tree && is_outsider(location);
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
 * Whether a fragment is freed because its packet was put together and is done with: what
 * becomes of that is told of the first one, whose mark it bears. Queues free by the same
 * functions what they drop: with a reason, or where there are none, before it has arrived.
 */
static __always_inline bool was_joined(const struct packet *p, __u64 location, __u32 reason,
				       __u32 index)
{
	if (!is_fragment(p) || !frees_joined(location))
		return false;
	return (cfg_has_reason && reason <= REASON_NOT_SPECIFIED) || has_arrived(index);
}

/* Whether a copy that came in by port was freed at the device of port at. If that is
 * none of ours, it is one above port (a bridge, a VLAN) in the same namespace. */
static __always_inline bool came_by(__u32 port, __u32 at, __u32 inum)
{
	const struct rdr_port *p;

	if (at != RDR_NO_PORT)
		return port == at;
	p = bpf_map_lookup_elem(&ports, &port);
	return p && p->netns_inum == inum;
}

/*
 * A search through a slot's log, in one number so that the verifier has one state for
 * each step: the cell to look at next:8 | the last arrival of a copy that was freed at
 * port, or NO_CELL:8 | SCAN_DONE.
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

/* Whether no program reads what comes in at the device that holds the skb. One that does,
 * such as a switch in user space or tcpdump, has a copy of each frame. */
static __always_inline bool is_unread(struct sk_buff *skb)
{
	struct net_device *dev = BPF_CORE_READ(skb, dev);
	__u64 list = (__u64)dev + bpf_core_field_offset(struct net_device, ptype_all);

	return dev && (__u64)BPF_CORE_READ(dev, ptype_all.next) == list;
}

/* Whether the log has an arrival that counts, or says that the packet left: the cell to look at
 * next:8 | HAS_END | SCAN_DONE. */
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

/* A packet was taken for delivered, and is not, at least there. */
GLOBAL int reopen(__u32 index)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u32 scan = 0;

	if (!s || s->state & RDR_ST_FULL)
		return 0;
	for (__u32 i = 0; i < RDR_CELLS(RDR_MAX_SLOT_LINES) && !(scan & SCAN_DONE); i++)
		scan = look_for_end(index, scan);
	if (!(scan & HAS_END))
		s->state &= ~RDR_ST_DONE;
	return 0;
}

/* Says of the arrival in cell k that it was not wanted, with one store. False if it was
 * taken for delivered: a member of the group that dropped it itself. A frame for another host
 * (RDR_EVF_UNREAD or not: verdict) is not delivered, whosever address is in it. */
#define FOR_OTHER 0x10
GLOBAL int ignore_arrival(__u32 index, __u32 k, __u32 verdict)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u64 *cell, at = k;
	__u32 kind;

	asm volatile("" : "+r"(at));
	if (!s || at >= cfg_cells)
		return false;
	cell = slot_cell(s, at);
	kind = *cell >> RDR_EV_KIND_SHIFT;
	if (kind == RDR_EV_INGRESS || (kind == RDR_EV_DELIVER && verdict & FOR_OTHER))
		WRITE_ONCE(*cell, (*cell & ~(0xfULL << RDR_EV_KIND_SHIFT |
					     (__u64)RDR_EVF_UNREAD << RDR_EV_FLAGS_SHIFT)) |
					  (__u64)RDR_EV_IGNORED << RDR_EV_KIND_SHIFT |
					  (__u64)(verdict & RDR_EVF_UNREAD) << RDR_EV_FLAGS_SHIFT);
	if (kind == RDR_EV_DELIVER && verdict & FOR_OTHER)
		reopen(index);
	return kind != RDR_EV_DELIVER;
}

/* A copy was not wanted where port, or a device above it, is: finds its latest arrival and says
 * so. verdict_port: that port, what ignore_arrival() is to know << 16. How many packets the slot
 * speaks for, | UNWANTED; without that there is no arrival, or it counts as delivered. */
#define UNWANTED 0x10000
GLOBAL __u32 note_unwanted(__u32 index, __u32 verdict_port, __u32 inum)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u32 scan = NO_CELL << 8;

	for (__u32 i = 0; i < RDR_CELLS(RDR_MAX_SLOT_LINES) && !(scan & SCAN_DONE); i++)
		scan = look_at_cell(index, scan, verdict_port & 0xffff, inum);
	return (s ? slot_span(s) : 1) |
	       (ignore_arrival(index, scan >> 8 & 0xff, verdict_port >> 16) ? UNWANTED : 0);
}

/* The same of a run of n packets that are freed as one skb. */
GLOBAL __u32 note_unwanted_run(__u32 index, __u32 n, __u32 verdict_port, __u32 inum)
{
	__u32 noted = note_unwanted(index, verdict_port, inum), k = noted & 0xffff;

	for (__u32 i = 0; i < RDR_MAX_RUN && k < n; i++)
		k += note_unwanted(index + k, verdict_port, inum) & 0xffff;
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

/* What ignore_arrival() is to know of an skb that is not wanted. */
static __always_inline __u32 verdict_on(struct sk_buff *skb, bool tree)
{
	if (tree)
		return 0;
	return FOR_OTHER | (is_unread(skb) ? RDR_EVF_UNREAD : 0);
}

/*
 * A copy is freed at a device above a node's ports (a bridge, a VLAN): the port by which
 * it came, if no copy has gone on from that node, as a switch's do. RDR_NO_PORT: not known.
 */
GLOBAL __u32 entrance_of(__u32 index, __u32 inum)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u32 scan = NO_CELL << 8;
	__u64 cell;

	for (__u32 i = 0; i < RDR_CELLS(RDR_MAX_SLOT_LINES) && !(scan & SCAN_DONE); i++)
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

/* One step of was_in(): the cell to look at next:8 | WAS_IN | SCAN_DONE. */
#define WAS_IN 0x100
GLOBAL __u32 look_for_namespace(__u32 index, __u32 scan, __u32 inum, __u32 iif)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u64 cell = s ? read_cell(s, scan & 0xff) : 0;
	__u32 kind = cell_kind(cell), no = cell_port(cell);
	const struct rdr_port *port;

	if (!cell)
		return scan | SCAN_DONE;
	port = bpf_map_lookup_elem(&ports, &no);
	if (port && (inum ? port->netns_inum == inum : port->ifindex == iif))
		return WAS_IN | SCAN_DONE;
	return (scan & 0xff) + cell_span(kind);
}

/*
 * Whether the packet in the slot at index has been in the namespace with that number: a socket
 * of any namespace may set a mark. Fragments that wait for others, and what TCP has taken in,
 * belong to no namespace that could be read (inum 0), but they keep the number of the interface
 * by which they came.
 */
GLOBAL int was_in(__u32 index, __u32 inum, __u32 iif)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u32 scan = 0;

	if (!s)
		return false;
	if (!inum && !(story_state(s) & RDR_ST_DONE) &&
	    (s->seg || !(s->frag_off & bpf_htons(s->state & RDR_ST_IPV6 ? 0xffff : IP_MF | IP_OFFSET))))
		return false;
	if (s->seg && !s->nev)
		index -= s->seg; /* its head speaks for it */
	for (__u32 i = 0; i < RDR_CELLS(RDR_MAX_SLOT_LINES) && !(scan & SCAN_DONE); i++)
		scan = look_for_namespace(index, scan, inum, iif);
	return scan & WAS_IN;
}

/* Whether the log of the packet in the slot at index may lack nodes where it has been. */
GLOBAL int lacks_nodes(__u32 index)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1)), *h;

	if (!s)
		return false;
	h = head_of(s);
	return (s->state | (h ? h->state : 0)) & RDR_ST_FULL;
}

/* Number of the namespace of an skb that bears a mark. Without a device it is its socket's,
 * or its route's. 0: it has none. */
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

/* What is known of the place where a packet was freed that has arrived or left: it was delivered
 * in that namespace, or has left by that port. */
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

/* inum: 0, if the namespace is not known. Where that, or the log, says too little it is the
 * receiver that frees what has arrived. */
GLOBAL __u32 look_at_place(__u32 index, __u32 port, __u32 inum)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u32 scan = 0;

	if (!s || !inum || s->state & RDR_ST_FULL)
		return AT_RECEIVER;
	if (s->seg && !s->nev)
		index -= s->seg; /* its head speaks for it */
	for (__u32 i = 0; i < RDR_CELLS(RDR_MAX_SLOT_LINES) && !(scan & SCAN_DONE); i++)
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
		/* The train went somewhere as a whole: so did this segment. */
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
		count(RDR_C_LOSS_EVENT, span); /* of which branch, user space finds out */
	} else if ((state & RDR_ST_DONE) && !(packed >> 24)) {
		/* A copy, elsewhere than where the packet has arrived. */
		count(RDR_C_LOSS_IGNORED, span);
		if (is_log_short(s))
			return span;
	} else if ((state & RDR_ST_DONE) && !(state & RDR_ST_LOCAL_DROP)) {
		/* Delivered: what frees it now is the destination's doing. Or the queue of the port
		 * by which it was leaving. */
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

	for (__u32 i = 0; i < RDR_MAX_RUN && k < n; i++)
		k += lose_one(index + k, k | n << 16, packed, where, qdisc);
	return 0;
}

/* Drop reasons have a subsystem in their upper half (0: the core); both in 16 bits. (A
 * function by itself, which a test runs: no test can make other subsystems drop.) */
GLOBAL __u32 pack_reason(__u32 reason)
{
	return (reason & 0xfff) | (reason >> 16 & 0xf) << 12;
}

SEC("tp_btf/kfree_skb")
int radar_kfree_skb(__u64 *ctx)
{
	struct sk_buff *skb = (void *)ctx[0];
	__u64 location = ctx[1], now, where, qdisc, inner, r = 0;
	struct packet p = {};
	struct found f = {};
	__u32 port, mark, packed, reason = 0;
	bool in_node, tree;

	/* The hook sees every drop of the machine, other domains' among them. On the
	 * wire our packets are held by our ports, inside nodes they bear our mark. */
	port = read_port(skb);
	mark = skb->mark & marks_at(port);
	if (cfg_has_reason)
		reason = pack_reason(ctx[2]);
	where = (__u64)reason << 48 | (location & 0xffffffffffffULL);
	if (port == RDR_NO_PORT && !mark)
		return lose_unsent(skb, where);
	if (!read_packet(skb, &p))
		return 0;
	now = bpf_ktime_get_ns();
	p.true_link = true_at(port, p.v6);
	if (mark)
		r = found_by_mark(mark, &p, now);
	if (mark && !r)
		r = found_lost_inside(marked_index(mark), p.n, now);
	in_node = r >> FOUND_SHIFT & 1;
	/* Where nodes are missing, a device of ours will do. */
	if (in_node && !was_in(r, read_home(skb), skb->skb_iif) &&
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
	if (is_tap(location) || is_ping(location, reason) || was_joined(&p, location, reason, f.index) ||
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
	inner = still_inside(f.index, now);
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
	if (unpack_found(found_on_wire(&p, p.true_link * RDR_PF_TRUE, EXPECT_OURS, now), &f))
		dequeue_run(f.index, p.n, now, port);
	return 0;
}

/*
 * A root qdisc hands skbs to its device: one, several linked by skb->next (a device
 * with several queues, or with byte queue limits), or none. Runs for every queue of
 * the machine, so what is not ours must go at once. An skb that the device did not
 * take comes again.
 */
SEC("tp_btf/qdisc_dequeue")
int radar_qdisc_dequeue(__u64 *ctx)
{
	struct sk_buff *skb = (void *)ctx[3];
	__u64 now, half;
	__u32 port;

	/* From Linux 6.2 to 6.12 the verifier takes the argument for never NULL, leaves out
	 * a test for it, and does not guard what follows. Half a pointer is a mere number. */
	asm volatile("r0 = %[skb]; w0 = w0; %[half] = r0" : [half] "=r"(half) : [skb] "r"(skb) : "r0");
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
