/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A slot's log: its cells, and events written into it. abi.h has the layout. */
#ifndef BACKPACK_LOG_H
#define BACKPACK_LOG_H

#include "ring.h"

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
	union rdr_cell cell = { .kind = kind, .flags = flags, .port = port };
	__s64 age = slot_age(s, now);

	cell.ns = age < 0 ? 0 : age;
	return cell.word;
}

/* Cell k of the slot's log; 0 if it has no such cell: the first cell of an event is never 0. */
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
	return (union rdr_cell){ .word = cell }.kind;
}

static __always_inline __u32 cell_flags(__u64 cell)
{
	return (union rdr_cell){ .word = cell }.flags;
}

static __always_inline __u32 cell_port(__u64 cell)
{
	return (union rdr_cell){ .word = cell }.port;
}

static __always_inline __u64 cell_ns(__u64 cell)
{
	return (union rdr_cell){ .word = cell }.ns;
}

/* The number of cells that an event of that kind takes. */
static __always_inline __u32 cell_span(__u32 kind)
{
	if (kind == RDR_EV_ADDR6)
		return 6;
	return kind == RDR_EV_LOSS || kind == RDR_EV_ADDR || kind == RDR_EV_INNER ? 3 : 1;
}

/*
 * A search through a log takes one step, and one call, for each event. What is known so far is one
 * number, so that the verifier has one state for each step. Its lowest byte is the cell to look at
 * next; SCAN_DONE: there is none.
 */
#define SCAN_DONE 0x10000

/* Where a slot's log of events ends. */
struct log_end {
	__u64 nev;  /* cells in use */
	__u64 kept; /* cells at the slot's end that are not for events */
	__u64 used; /* the sum */
};

_Static_assert(RDR_ST_IPV6 % RDR_ADDR6_CELLS == 0, "end_of_log()");

/* The sum is in a register of its own: the verifier must see that the value that is
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

/* Whether only the cells for the packet's end are free. Then copies of a packet that has arrived
 * are no longer noted. */
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
 * The log of the slot at pos has no room for that event. An end is still written: behind a loss
 * that it withdraws, or into the room for a loss if addresses have taken a part of that. Else it
 * replaces the end before it, which was not the end: an answer through a masquerading node comes
 * for the node's own address first. (The last cell of a loss is a qdisc's name. It does not look
 * like an end, because no name has a digit as its eighth letter. A call, because of the verifier's
 * limits.)
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
	/* Nothing else says which end it was. */
	if (kind == RDR_EV_LEFT)
		s->cut |= RDR_LEFT;
	else
		s->cut &= ~RDR_LEFT;
	count(RDR_C_EVENT_FULL, 1);
	return 0;
}

/* Whether the log has no room for n cells and those that are kept for another event. The
 * second comparison is for the verifier: Linux 6.12 loses bounds that it infers from a sum. */
static __always_inline bool is_short_of(struct log_end *e, __u32 n, __u32 kept)
{
	if (e->used + n + kept > cfg_cells)
		return true;
	asm volatile("" : "+r"(e->used));
	return e->used > cfg_cells - n;
}

/* Appends one event; the cell is written before nev. */
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

/* Appends an event with two data cells. Only a loss takes the cells that are kept for an end. */
static __always_inline void add_event_data(struct rdr_slot *s, __u32 kind, __u32 flags, __u32 port,
					   __u64 now, __u64 data1, __u64 data2)
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

/* Appends an RDR_EV_ADDR6. It is long: in slots of the usual size two of them fit only if they take
 * the room for a loss. The arrival still fits. */
static __always_inline void add_event_addr6(struct rdr_slot *s, __u32 flags, __u32 port, __u64 now,
					    const __u64 *addrs, __u32 ports)
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

/* How many packets slot s stands for: a train that is whole, or one. */
static __always_inline __u32 slot_span(const struct rdr_slot *s)
{
	return s->seg || s->cut & RDR_CUT || !s->segs ? 1 : s->segs;
}

/* Whether by that event the packet left a node for a link, or its port's queue. */
static __always_inline bool went_out(__u64 cell)
{
	__u32 kind = cell_kind(cell);

	return kind == RDR_EV_EGRESS || kind == RDR_EV_DEQUEUE;
}

/* Whether by that event the packet left a node, for a link or the outside. */
static __always_inline bool is_departure(__u64 cell)
{
	return went_out(cell) || cell_kind(cell) == RDR_EV_LEFT;
}

#endif
