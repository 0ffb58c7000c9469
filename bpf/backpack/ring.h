/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The slot ring: finding slots, taking them, writing events into them. */
#ifndef RADAR_RING_H
#define RADAR_RING_H

#include "base.h"
#include "config.h"
#include "count.h"
#include "maps.h"

#define MAX_SKIP 32 /* packets in flight that a source steps over before it gives up */

#define READ_ONCE(x) (*(const volatile typeof(x) *)&(x))

static __always_inline struct rdr_slot *slot_at(__u32 index)
{
	return bpf_map_lookup_elem(&ring, &index);
}

static __always_inline struct rdr_slot *slot_of(__u64 pos)
{
	return slot_at(pos & (cfg_slots - 1));
}

/* The position of the slot at index. */
static __always_inline __u64 position_at(__u32 index)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));

	return s ? s->pos : 0;
}

/* Age of a slot. Signed: another CPU may have read the clock a little later. */
static __always_inline __s64 slot_age(const struct rdr_slot *s, __u64 now)
{
	return now - s->t0_ns;
}

/* Whether the slot was marked within the timeout: else its packet is not ours. */
static __always_inline bool slot_alive(const struct rdr_slot *s, __u64 now)
{
	return s->pos && slot_age(s, now) < (__s64)cfg_timeout_ns;
}

/* Whether one slot may be taken. */
static __always_inline bool slot_reusable(const struct rdr_slot *s, __u64 now)
{
	__s64 age = slot_age(s, now);
	__u8 state = s->state;

	if (!s->pos || age >= (__s64)cfg_timeout_ns)
		return true;
	if (!(state & RDR_ST_DONE) || s->cut & RDR_COPIES)
		return false;
	return age >= (__s64)(state & RDR_ST_HELD ? cfg_loss_hold_ns : cfg_min_age_ns);
}

/* Whether this CPU was idle while the others used up half the ring: before they come
 * round to its block, it is given up, untouched. */
static __always_inline bool is_outrun(const struct rdr_alloc *a, const struct rdr_control *ctl)
{
	return READ_ONCE(ctl->cursor) - a->next > cfg_slots / 2;
}

/* The next block of the ring for this CPU. */
static __always_inline bool take_block(struct rdr_alloc *a)
{
	struct rdr_control *ctl;
	struct rdr_cursor *cur;
	__u32 zero = 0;
	__u64 pos;

	cur = bpf_map_lookup_elem(&cursor, &zero);
	ctl = bpf_map_lookup_elem(&control, &zero);
	if (!cur || !ctl)
		return false;
	/* A reader takes every position below the cursor for settled unless it lies in
	 * some CPU's [next, end). So within the lock, and in this order: end before
	 * next, both before the cursor. */
	bpf_spin_lock(&cur->lock);
	pos = cur->next;
	cur->next = pos + cfg_block;
	WRITE_ONCE(a->end, pos + cfg_block);
	barrier();
	WRITE_ONCE(a->next, pos);
	barrier();
	WRITE_ONCE(ctl->cursor, pos + cfg_block);
	bpf_spin_unlock(&cur->lock);
	a->free_until = pos;
	return true;
}

/* Says of the slot at pos that it is free. */
GLOBAL int release_slot(__u64 pos)
{
	struct rdr_slot *s = slot_of(pos);

	if (s)
		s->state |= RDR_ST_DONE;
	return 0;
}

/*
 * Slots that are known to be free are given up unused. They may be members of an old
 * train whose head is already overwritten; alone they would look in flight the next
 * time round, so say that they are not.
 */
GLOBAL int release_slots(__u64 pos, __u64 end)
{
	for (__u32 i = 0; i < RDR_MAX_SEGS && pos + i < end; i++)
		release_slot(pos + i);
	return 0;
}

GLOBAL int is_reusable(__u64 pos, __u64 now)
{
	struct rdr_slot *s = slot_of(pos);

	return s && slot_reusable(s, now);
}

/*
 * The slots that the one at pos speaks for: their number, | SLOT_BUSY if they may
 * not be taken. A train is reused as a whole: segments that still wait in a queue
 * need its head.
 */
#define SLOT_BUSY 0x10000
GLOBAL __u32 look_at_slot(__u64 pos, __u64 now)
{
	struct rdr_slot *s = slot_of(pos);
	__u32 span = 1;

	if (!s)
		return SLOT_BUSY | 1;
	if (s->pos && !s->seg && s->segs > 1)
		span = s->segs;
	if (!slot_reusable(s, now))
		return SLOT_BUSY | span;
	if (!(s->cut & RDR_CUT))
		return span;
	for (__u32 k = 1; k < RDR_MAX_SEGS && k < span; k++)
		if (!is_reusable(pos + k, now))
			return SLOT_BUSY | span;
	return span;
}

/* Slots that are looked at together: that their cold lines arrive side by side, not one
 * for each packet, is worth more than what a look at one costs. */
#define LOOK_AHEAD 16

/* How many slots from pos on, of those below end, are free and speak for themselves alone. */
GLOBAL __u32 look_ahead(__u64 pos, __u64 end, __u64 now)
{
	struct rdr_slot *s;
	__u32 k;

	for (k = 0; k < LOOK_AHEAD && pos + k < end; k++) {
		s = slot_of(pos + k);
		/* One that was lost may come again, from a queue that kept a copy: looked at
		 * when it is taken. */
		if (!s || !slot_reusable(s, now) || s->state & RDR_ST_LOST || (s->pos && s->segs > 1))
			break;
	}
	return k;
}

/*
 * Takes n neighbouring slots of this CPU's block and returns the position of the
 * first, 0 if there are none. Looks train by train, as they were laid down, steps
 * over at most MAX_SKIP packets in flight and does not leave the block: the next
 * packet goes on from there. Bottom halves are off, so the block is ours.
 */
GLOBAL __u64 take_slots(__u32 n, __u64 now)
{
	struct rdr_control *ctl;
	struct rdr_alloc *a;
	__u32 zero = 0;

	a = bpf_map_lookup_elem(&alloc, &zero);
	ctl = bpf_map_lookup_elem(&control, &zero);
	if (!a || !ctl)
		return 0;
	if (is_outrun(a, ctl)) {
		if (!take_block(a))
			return 0;
	} else if (a->next + n > a->end) {
		release_slots(a->next, a->free_until < a->end ? a->free_until : a->end);
		if (!take_block(a))
			return 0;
	}
	for (__u32 i = 0; i < RDR_MAX_SEGS + MAX_SKIP; i++) {
		__u64 pos = a->next, seen = a->free_until;
		__u32 span;

		if (pos + n > a->end || i >= n + MAX_SKIP)
			break;
		if (seen < pos)
			seen = pos;
		if (seen >= pos + n)
			return pos; /* `next` moves once it is written: settle_slots() */
		span = look_ahead(seen, a->end, now);
		if (!span)
			span = look_at_slot(seen, now);
		if (span & SLOT_BUSY) {
			span &= ~SLOT_BUSY;
			release_slots(pos, seen); /* stepped over, but free */
			WRITE_ONCE(a->next, seen + span);
			count(RDR_C_SLOTS_SKIPPED, seen + span - pos);
		}
		a->free_until = seen + span;
	}
	return 0;
}

/* take_slots() of one slot that was found free before, for which no clock is read; else 0. */
static __always_inline __u64 known_slot(const struct rdr_alloc *a, const struct rdr_control *ctl)
{
	__u64 pos = a->next, outrun = READ_ONCE(ctl->cursor) - pos - cfg_slots / 2 - 1;
	/* Negative if it is known, in the block, and not outrun. Without a branch, for the
	 * verifier. */
	__s64 fits = (pos - a->free_until) & (pos - a->end) & outrun;

	return pos & (fits >> 63);
}

/* Tells readers that everything below pos in this CPU's block is written. */
static __always_inline void settle_slots(struct rdr_alloc *a, __u64 pos)
{
	WRITE_ONCE(a->next, pos);
}

GLOBAL int unuse_slot(__u64 pos)
{
	struct rdr_slot *s = slot_of(pos);

	if (s)
		WRITE_ONCE(s->pos, 0);
	return 0;
}

/* Gives back slots that were filled for nothing: readers take a position whose slot
 * says 0 for unused. */
GLOBAL int unuse_slots(__u64 pos, __u32 n)
{
	for (__u32 k = 0; k < RDR_MAX_SEGS && k < n; k++)
		unuse_slot(pos + k);
	return 0;
}

static __always_inline __u64 *slot_cell(struct rdr_slot *s, __u64 k)
{
	__u64 off = offsetof(struct rdr_slot, ev0) + 8 * k;

	/* The second line's record fields lie between cells 2 and 3. */
	if (k > 2)
		off += offsetof(struct rdr_slot, ev1) - sizeof(__u64) * 3 -
		       offsetof(struct rdr_slot, ev0);
	return (void *)s + off;
}

static __always_inline __u64 make_cell(const struct rdr_slot *s, __u32 kind, __u32 flags,
				       __u32 port, __u64 now)
{
	__s64 age = slot_age(s, now);

	if (age < 0)
		age = 0;
	return (__u64)kind << RDR_EV_KIND_SHIFT | (__u64)flags << RDR_EV_FLAGS_SHIFT |
	       (__u64)(port & 0xffff) << RDR_EV_PORT_SHIFT |
	       (age & RDR_EV_TIME_MASK);
}

/* Cell k of the slot's log, 0 if it has no such cell: every event's first has a kind. */
static __always_inline __u64 read_cell(struct rdr_slot *s, __u64 k)
{
	asm volatile("" : "+r"(k)); /* see end_of_log() */
	return k < cfg_cells && k < s->nev ? *slot_cell(s, k) : 0;
}

/* The last cell of the slot's log, 0 if it has none. */
static __always_inline __u64 last_cell(struct rdr_slot *s)
{
	return read_cell(s, (__u64)s->nev - 1);
}

static __always_inline __u32 cell_kind(__u64 cell)
{
	return cell >> RDR_EV_KIND_SHIFT;
}

static __always_inline __u32 cell_port(__u64 cell)
{
	return cell >> RDR_EV_PORT_SHIFT & 0xffff;
}

/* The number of cells that an event of that kind takes. */
static __always_inline __u32 cell_span(__u32 kind)
{
	if (kind == RDR_EV_ADDR6)
		return 6;
	return kind == RDR_EV_LOSS || kind == RDR_EV_ADDR || kind == RDR_EV_INNER ? 3 : 1;
}

/* Where a slot's log of events ends. */
struct log_end {
	__u64 nev;  /* cells in use */
	__u64 kept; /* cells at the slot's end that are not for events */
	__u64 used; /* the sum */
};

_Static_assert(RDR_ST_IPV6 % RDR_ADDR6_CELLS == 0, "end_of_log()");

/* The sum in a register of its own: the verifier must see that the very value that is
 * compared with cfg_cells becomes the offset. Without a branch: RDR_ST_IPV6 is 16 times
 * the number of cells that it keeps. */
static __always_inline struct log_end end_of_log(const struct rdr_slot *s)
{
	struct log_end e = { .nev = s->nev };

	e.kept = (s->state & RDR_ST_IPV6) / (RDR_ST_IPV6 / RDR_ADDR6_CELLS);
	e.used = e.nev + e.kept;
	asm volatile("" : "+r"(e.used));
	return e;
}

/* The i-th free cell; the caller has compared e->used + i with cfg_cells. */
static __always_inline __u64 *free_cell(struct rdr_slot *s, const struct log_end *e, __u64 i)
{
	__u64 off = offsetof(struct rdr_slot, ev0) + 8 * (e->used + i);

	asm volatile("" : "+r"(off)); /* bounded, and only then less */
	off -= 8 * e->kept;
	/* The second line's record fields lie between cells 2 and 3. */
	if (e->nev + i > 2)
		off += offsetof(struct rdr_slot, ev1) - sizeof(__u64) * 3 -
		       offsetof(struct rdr_slot, ev0);
	return (void *)s + off;
}

/* Whether copies of a packet that has arrived are no longer noted: the rest of the log is
 * for the packet's end. */
static __always_inline bool is_log_short(const struct rdr_slot *s)
{
	return end_of_log(s).used + 1 + RDR_END_CELLS > cfg_cells;
}

/* 1 if an event of that kind may be a packet's end, else 0; without a branch, for the
 * verifier. A loss has add_event_data(). */
static __always_inline __u32 is_end(__u32 kind)
{
	return (1U << RDR_EV_DELIVER | 1U << RDR_EV_LEFT) >> (kind & 15) & 1;
}

/*
 * The log of the slot at pos has no room for that event. An end finds room behind a loss that
 * it withdraws, or where addresses have taken that of a loss, or takes the place of the end before it, which was none: what a masquerading
 * node sends back was for its own address first. (No qdisc has a digit as the eighth letter of
 * its name, so that the cell behind a loss is no end. A call: the verifier has its limits.)
 */
GLOBAL int add_to_full(__u64 pos, __u64 cell)
{
	struct rdr_slot *s = slot_of(pos);
	__u32 kind = cell_kind(cell);
	struct log_end e;
	__u64 last, at;

	if (!s || !pos || s->pos != pos)
		return 0;
	if (!is_end(kind)) {
		s->state |= RDR_ST_FULL;
		count(RDR_C_EVENT_FULL, 1);
		return 0;
	}
	last = last_cell(s);
	if (is_end(cell_kind(last))) {
		s->state |= RDR_ST_FULL;
		at = (__u64)s->nev - 1;
		asm volatile("" : "+r"(at)); /* see end_of_log() */
		/* A second copy by the same port does not change when the packet arrived. */
		if (at < cfg_cells &&
		    (cell_kind(last) != kind || cell_port(last) != cell_port(cell)))
			WRITE_ONCE(*slot_cell(s, at), cell);
		return 0;
	}
	e = end_of_log(s);
	if (e.used < cfg_cells) {
		*free_cell(s, &e, 0) = cell;
		barrier();
		WRITE_ONCE(s->nev, e.nev + 1);
		return 0;
	}
	s->state |= RDR_ST_FULL;
	/* Which end it was, nothing else says. */
	if (kind == RDR_EV_LEFT)
		s->cut |= RDR_LEFT;
	else
		s->cut &= ~RDR_LEFT;
	count(RDR_C_EVENT_FULL, 1);
	return 0;
}

/* Whether the log has no room for n cells and those kept for something else. The second
 * comparison is for the verifier: Linux 6.12 loses bounds that it infers from a sum. */
static __always_inline bool is_short_of(struct log_end *e, __u32 n, __u32 kept)
{
	if (e->used + n + kept > cfg_cells)
		return true;
	asm volatile("" : "+r"(e->used));
	return e->used > cfg_cells - n;
}

/* Appends one event; the cell stands before nev says so. */
static __always_inline void add_event(struct rdr_slot *s, __u32 kind, __u32 flags, __u32 port,
				      __u64 now)
{
	struct log_end e = end_of_log(s);

	/* An end leaves room for a loss behind it. */
	if (is_short_of(&e, 1, RDR_END_CELLS - is_end(kind))) {
		add_to_full(s->pos, make_cell(s, kind, flags, port, now));
		return;
	}
	*free_cell(s, &e, 0) = make_cell(s, kind, flags, port, now);
	barrier();
	WRITE_ONCE(s->nev, e.nev + 1);
}

/* Appends an event with two data cells. Only a loss, which is an end, takes the cells that are
 * kept for one. */
static __always_inline void add_event_data(struct rdr_slot *s, __u32 kind, __u32 flags,
					   __u32 port, __u64 now, __u64 data1, __u64 data2)
{
	struct log_end e = end_of_log(s);

	if (is_short_of(&e, 3, kind == RDR_EV_LOSS ? 0 : RDR_END_CELLS)) {
		s->state |= RDR_ST_FULL;
		count(RDR_C_EVENT_FULL, 1);
		return;
	}
	*free_cell(s, &e, 0) = make_cell(s, kind, flags, port, now);
	*free_cell(s, &e, 1) = data1;
	*free_cell(s, &e, 2) = data2;
	barrier();
	WRITE_ONCE(s->nev, e.nev + 3);
}

/* Appends an RDR_EV_ADDR6. It is long: the room for a loss is the only one that two of them find
 * in slots of the usual size. Where the packet arrives still fits. */
static __always_inline void add_event_addr6(struct rdr_slot *s, __u32 flags, __u32 port,
					    __u64 now, const __u64 *addrs, __u32 ports)
{
	struct log_end e = end_of_log(s);

	if (cfg_cells < 6 || is_short_of(&e, 6, 1)) {
		s->state |= RDR_ST_FULL;
		count(RDR_C_EVENT_FULL, 1);
		return;
	}
	*free_cell(s, &e, 0) = make_cell(s, RDR_EV_ADDR6, flags, port, now);
#pragma unroll
	for (int i = 0; i < 4; i++)
		*free_cell(s, &e, 1 + i) = addrs[i];
	*free_cell(s, &e, 5) = ports;
	barrier();
	WRITE_ONCE(s->nev, e.nev + 6);
}

/* How many packets slot s speaks for: a train that is whole, or one. */
static __always_inline __u32 slot_span(const struct rdr_slot *s)
{
	return s->seg || s->cut & RDR_CUT || !s->segs ? 1 : s->segs;
}

/* Whether that event is that the packet left a node, or the queue behind it. */
static __always_inline bool went_out(__u64 cell)
{
	__u32 kind = cell_kind(cell);

	return kind == RDR_EV_EGRESS || kind == RDR_EV_DEQUEUE;
}

/* Whether that cell says that a packet left a node. */
static __always_inline bool is_departure(__u64 cell)
{
	return went_out(cell) || cell_kind(cell) == RDR_EV_LEFT;
}

_Static_assert(offsetof(struct rdr_slot, cut) == offsetof(struct rdr_slot, nev) + 3 &&
		       RDR_COPIES == 1 << 7,
	       "flip_copies()");

/*
 * Sets RDR_COPIES, or takes it away. Meanwhile another CPU may mark the train as cut, which
 * must not be lost. Bit operations are not atomic before Linux 5.12, additions are: that of the
 * uppermost bit reaches no other. The other CPU's own store may undo this flip, if it had read
 * the byte in the nanoseconds before: then the slot is kept too long, or not longer than others.
 */
static __always_inline void flip_copies(struct rdr_slot *s)
{
	__sync_fetch_and_add((__u32 *)&s->nev, (__u32)RDR_COPIES << 24);
}

/* The packet in the slot at pos leaves by a port: if it has just left the same node by another
 * one, these are copies. What has left the domain by both needs its slot no more. port_kind:
 * RDR_EV_EGRESS or RDR_EV_LEFT << 16. */
GLOBAL int note_copies(__u64 pos, __u32 port_kind)
{
	const struct rdr_port *here, *there;
	struct rdr_slot *s = slot_of(pos);
	__u32 no, port_no = port_kind & 0xffff;
	__u64 cell;

	if (!s)
		return 0;
	cell = last_cell(s);
	no = cell_port(cell);
	if (!is_departure(cell) || no == port_no ||
	    (cell_kind(cell) == RDR_EV_LEFT && port_kind >> 16 == RDR_EV_LEFT))
		return 0;
	here = bpf_map_lookup_elem(&ports, &port_no);
	there = bpf_map_lookup_elem(&ports, &no);
	if (here && there && here->node == there->node && !(s->cut & RDR_COPIES))
		flip_copies(s);
	return 0;
}

/* One step of settle_copies(): the cell to look at next:8 | copies that have gone out less those
 * that were seen again, + 128:8 | SCAN_DONE. */
#define SCAN_DONE 0x10000
GLOBAL __u32 look_for_copy(__u32 index, __u32 scan)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u64 cell = s ? read_cell(s, scan & 0xff) : 0;
	__u32 kind = cell_kind(cell), next = (scan & 0xff) + cell_span(kind);
	__u32 open = scan >> 8 & 0xff;

	if (!cell)
		return scan | SCAN_DONE;
	if (kind == RDR_EV_EGRESS)
		open++;
	if ((kind == RDR_EV_INGRESS || kind == RDR_EV_DELIVER || kind == RDR_EV_IGNORED) &&
	    !(cell >> RDR_EV_FLAGS_SHIFT & RDR_EVF_SOURCE))
		open--;
	return next | (open & 0xff) << 8;
}

/*
 * A copy has come in: if it was the last one that is on a link, the slot is kept no longer.
 * Those still inside a node have a mark and true headers. Not where the log may not have all:
 * it is full, or the segments of a train go on one by one.
 */
GLOBAL int settle_copies(__u32 index)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u32 scan = 128 << 8;

	if (!s || !cfg_mark_mask || s->cut & RDR_CUT || s->state & RDR_ST_FULL || is_log_short(s))
		return 0;
	for (__u32 i = 0; i < RDR_CELLS(RDR_MAX_SLOT_LINES) && !(scan & SCAN_DONE); i++)
		scan = look_for_copy(index, scan);
	if ((scan >> 8 & 0xff) == 128 && s->cut & RDR_COPIES)
		flip_copies(s);
	return 0;
}

/* Appends an event that says where the packet is, and what that makes of it. */
static __always_inline void add_sighting(struct rdr_slot *s, __u32 kind, __u32 flags, __u32 port,
					 __u64 now)
{
	__u8 state = s->state;

	if (state & RDR_ST_LOST)
		count(RDR_C_LOSS_WITHDRAWN, slot_span(s));
	if (kind == RDR_EV_EGRESS || kind == RDR_EV_LEFT)
		note_copies(s->pos, port | kind << 16);
	/* One branch's end says nothing about the others. */
	if (!(state & RDR_ST_GROUP)) {
		state &= ~(RDR_ST_DONE | RDR_ST_LOST);
		if (kind == RDR_EV_DELIVER || kind == RDR_EV_LEFT)
			state |= RDR_ST_DONE;
		s->state = state;
	}
	add_event(s, kind, flags, port, now);
}

#endif
