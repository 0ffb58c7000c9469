/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The ring of slots: finding slots, taking them, giving them back. */
#ifndef BACKPACK_RING_H
#define BACKPACK_RING_H

#include "config.h"
#include "count.h"
#include "loop.h"
#include "maps.h"
#include "unfinished.h"

#define MAX_SKIP 32 /* packets in flight that the source of a train steps over before it gives up */

/*
 * `members` has a bit for each slot: a train has left it unfilled, as a member. Bits are not cleared
 * when a member is filled, or when another packet takes the slot; positions show that. But a train
 * clears the bit of its head. So the head is the nearest slot below a member that has no bit. The
 * slots of a word lie in one CPU's block (minBlock in pkg/vnet/datapath/program/layout.go), so a
 * source needs no atomic operation.
 */
#define WORD_SLOTS 16

/* The word with the bit of the slot at index. */
static __always_inline __u16 *member_word(void *words, __u32 index)
{
	return words + (index & (cfg_slots - 1)) / WORD_SLOTS * sizeof(__u16);
}

static __always_inline void *member_words(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&members, &zero);
}

/* Whether the slot at index may be a member that is not filled. */
static __always_inline bool may_be_unfilled(__u32 index)
{
	void *words = member_words();

	return words && *member_word(words, index) >> index % WORD_SLOTS & 1;
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

/* Whether the slot was filled within the timeout: else a packet with its bits is not ours. */
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

/* Whether the other CPUs have used half the ring while this one was idle. Then it gives up its
 * block, unused, before they come round to it. */
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
	/* A reader assumes that every position below the cursor is used, or never will be,
	 * unless it is in some CPU's [next, end). So all is written within the lock, and in
	 * this order: end, next, cursor. */
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

/* Marks the slot at pos as free. */
GLOBAL int release_slot(__u64 pos)
{
	struct rdr_slot *s = slot_of(pos);

	/* A lone packet that is not done has timed out, and may yet come: late.h asks its slot. */
	if (s && s->segs > 1)
		s->state |= RDR_ST_DONE;
	return 0;
}

/*
 * Gives up slots that are known to be free, without using them. They may be members of an old
 * train whose head is already overwritten. Without a head they would look in flight in the next
 * revolution, so they are marked as done.
 */
GLOBAL int release_slots(__u64 pos, __u64 end)
{
	__u32 n = end > pos ? end - pos : 0, i;

	/* Fewer than a train takes, and what the last look has found behind them. */
	FOR_RANGE(i, 0, n, 2 * cfg_max_segs + RDR_WINDOW, { release_slot(pos + i); });
	return 0;
}

GLOBAL int is_reusable(__u64 pos, __u64 now)
{
	struct rdr_slot *s = slot_of(pos);

	return s && slot_reusable(s, now);
}

/*
 * Whether s, the slot at pos, is the head of a train. One that a later train has left as it was,
 * among its members, is none any more, even if that train is gone too: packets may be in flight in
 * the slots behind it.
 */
static __always_inline bool is_head(const struct rdr_slot *s, __u64 pos)
{
	return s->pos && !s->seg && s->segs > 1 && !may_be_unfilled(pos);
}

/* The first step of take_slots() if a train comes next that stayed whole and may be reused, without
 * a call. */
static __always_inline void pass_old_train(struct rdr_alloc *a, __u64 now)
{
	__u64 next = a->free_until < a->next ? a->next : a->free_until;
	struct rdr_slot *s = slot_of(next);

	if (s && next < a->end && !(s->cut & RDR_CUT) && is_head(s, next) && slot_reusable(s, now))
		a->free_until = next + s->segs;
}

/*
 * How many slots the one at pos stands for, | SLOT_BUSY if they may not be taken. A
 * train is reused as a whole: segments that still wait in a queue need its head.
 */
#define SLOT_BUSY 0x10000
GLOBAL __u32 look_at_slot(__u64 pos, __u64 now)
{
	struct rdr_slot *s = slot_of(pos);
	__u32 span = 1, k;

	if (!s)
		return SLOT_BUSY | 1;
	if (is_head(s, pos))
		span = s->segs;
	if (!slot_reusable(s, now))
		return SLOT_BUSY | span;
	if (!(s->cut & RDR_CUT))
		return span;
	FOR_RANGE(k, 1, span, cfg_max_segs, {
		if (!is_reusable(pos + k, now))
			return SLOT_BUSY | span;
	});
	return span;
}

/* Whether slot s is looked at when it is taken, and not ahead: it is of a train, or of a packet that
 * was lost, which may come again from a queue that kept a copy. */
static __always_inline bool wants_look(const struct rdr_slot *s)
{
	return (s->pos && s->segs > 1) || s->state & RDR_ST_LOST;
}

/* How many slots from pos on, of those below end, are free and stand for themselves alone. */
GLOBAL __u32 look_ahead(__u64 pos, __u64 end, __u64 now)
{
	struct rdr_slot *s;
	__u32 k;

	for (k = 0; k < RDR_WINDOW && pos + k < end; k++) {
		s = slot_of(pos + k);
		if (!s || !slot_reusable(s, now) || wants_look(s))
			break;
	}
	return k;
}

/*
 * One step of take_slots(): looks at the slots that follow those known to be free. If a packet in
 * flight comes there, this CPU's next position moves behind it.
 */
GLOBAL int take_step(__u32 zero, __u64 now)
{
	struct rdr_alloc *a = bpf_map_lookup_elem(&alloc, &zero);
	__u64 pos, seen;
	__u32 span;

	if (!a)
		return 0;
	pos = a->next;
	seen = a->free_until < pos ? pos : a->free_until;
	span = look_ahead(seen, a->end, now);
	if (!span)
		span = look_at_slot(seen, now);
	if (span & SLOT_BUSY) {
		span &= ~SLOT_BUSY;
		release_slots(pos, seen); /* skipped, but free */
		WRITE_ONCE(a->next, seen + span);
		count(RDR_C_SLOTS_SKIPPED, seen + span - pos);
	}
	a->free_until = seen + span;
	return 0;
}

/*
 * Takes n neighbouring slots of this CPU's block and returns the position of the
 * first, 0 if there are none. It looks at one old train after the other, skips at
 * most MAX_SKIP packets in flight and does not leave the block: the next packet goes
 * on from there. Bottom halves are off, so no other code uses the block.
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
	pass_old_train(a, now);
	for (__u32 i = 0; i < cfg_max_segs + MAX_SKIP && i < n + MAX_SKIP; i++) {
		if (a->next + n > a->end)
			break;
		if (a->free_until >= a->next + n)
			return a->next; /* it moves once the slots are written: settle_slots() */
		take_step(zero, now);
	}
	return 0;
}

/*
 * A lone packet's source looks ahead in *windows*: it remembers which of their slots may be taken,
 * so that one look serves many packets, also where packets in flight lie between free slots.
 *
 * A ring that fills up: to look at packets in flight costs cache lines that are far away. So if a
 * source finds no slot in a window that may be taken, it notes when that is worth looking at again:
 * when the youngest packet there has been in flight half as long again, or the oldest has timed out.
 * A note holds for the next turn of the ring alone: until then nobody gets those slots.
 */
#define MAX_STEPS 32 /* windows that a source steps over; one that it looks at counts nine times */
#define BUSY_UNIT 20 /* bits of a time in ns that a note leaves out: 1 ms */

/* The note about the window that begins at pos: the turn of the ring in which it was made << 32 |
 * a time. */
static __always_inline __u64 *note_of(__u64 pos)
{
	__u32 index = (pos & (cfg_slots - 1)) / RDR_WINDOW;

	return bpf_map_lookup_elem(&busy, &index);
}

/* Whether a note says that the window at pos is not worth looking at now. It is made anew for the
 * next turn. (The time has 32 bits, and comes round: one that is further away than a packet can be
 * in flight is a past one, or none.) */
static __always_inline bool is_noted(__u64 pos, __u64 now)
{
	__u64 *note = note_of(pos);
	__u32 wait;

	if (pos % RDR_WINDOW || !note || !*note || *note >> 32 != (__u32)(pos / cfg_slots) - 1)
		return false;
	wait = (__u32)*note - (__u32)(now >> BUSY_UNIT);
	if (!wait || wait > (cfg_timeout_ns >> BUSY_UNIT))
		return false;
	*note += 1ULL << 32;
	return true;
}

/* Notes when the window at pos is worth looking at again, by the ages of its packets. */
static __always_inline void note_busy(__u64 pos, __s64 youngest, __s64 oldest, __u64 now)
{
	__s64 wait = youngest >> 1, rest = (__s64)cfg_timeout_ns - oldest;
	__u64 *note = note_of(pos);

	if (rest < wait)
		wait = rest;
	if (note && wait > 0)
		*note = pos / cfg_slots << 32 | (__u32)((now + wait) >> BUSY_UNIT);
}

/*
 * Looks at the slots of a window from pos on, below end. Bit k of the result is set if the slot at
 * pos + k may be taken. Their number follows, << 32, and a bit for each whose packet
 * is_unfinished(), << 40. Windows lie side by side from the ring's begin on, so that notes find them
 * again. The look ends before a slot that wants_look(). Cold cache lines are loaded in parallel: that
 * is cheaper than to wait for one with each packet.
 */
GLOBAL __u64 look_through(__u64 pos, __u64 end, __u64 now, __u32 zero)
{
	/* The verifier does not know them, and there is no branch below: one state instead of 2^16. */
	__s64 youngest = cfg_timeout_ns + zero, oldest = zero, less;
	__u64 k;
	__u32 free = zero, late = zero;
	struct rdr_slot *s;

	for (k = 0; k < RDR_WINDOW && pos + k < end; k++) {
		s = slot_of(pos + k);
		if (!s || wants_look(s))
			break;
		if (slot_reusable(s, now))
			free |= 1 << k;
		late |= is_unfinished(s) << k;
		less = slot_age(s, now) - youngest;
		youngest += less & (less >> 63);
		less = oldest - slot_age(s, now);
		oldest -= less & (less >> 63);
	}
	if (!free && k == RDR_WINDOW)
		note_busy(pos, youngest, oldest, now);
	return free | k << 32 | (__u64)(free & late) << 40;
}

/* Moves this CPU's next position to the first of the window's slots that may be taken, or behind
 * the window. */
GLOBAL int step_through(__u32 zero)
{
	struct rdr_alloc *a = bpf_map_lookup_elem(&alloc, &zero);
	__u32 k, free, skipped = 0;

	if (!a)
		return 0;
	k = a->next - a->window;
	for (__u32 i = 0; i < RDR_WINDOW && k < a->seen; i++) {
		if (a->free >> (k & 31) & 1)
			break;
		k++;
		skipped++;
	}
	if (skipped)
		count(RDR_C_SLOTS_SKIPPED, skipped);
	WRITE_ONCE(a->next, a->window + k);
	free = a->free >> (k & 31);
	for (__u32 i = 0; i < RDR_WINDOW && free & 1; i++) {
		free >>= 1;
		k++;
	}
	a->free_until = a->window + k;
	return a->free_until > a->next;
}

/* What a step of take_lone() has found: this CPU's next slot is free; or it is not known whether it
 * is, and take_slots() must see. Else there was a window of packets in flight. */
#define STEP_FREE 1
#define STEP_ODD 2
#define STEP_LOOKED 4 /* besides: at cold cache lines */

GLOBAL __u32 step_window(__u32 zero, __u64 now)
{
	struct rdr_alloc *a = bpf_map_lookup_elem(&alloc, &zero);
	__u64 seen, limit;
	__u32 looked = 0;

	if (!a || (a->next >= a->end && !take_block(a)))
		return STEP_ODD;
	if (a->next - a->window >= a->seen) {
		if (is_noted(a->next, now)) {
			WRITE_ONCE(a->next, a->next + RDR_WINDOW);
			count(RDR_C_SLOTS_SKIPPED, RDR_WINDOW);
			return 0;
		}
		limit = (a->next | (RDR_WINDOW - 1)) + 1;
		seen = look_through(a->next, limit < a->end ? limit : a->end, now, zero);
		a->window = a->next;
		a->free = seen;
		a->seen = seen >> 32 & 0xff;
		if (seen >> 40)
			keep_unfinished(a->next, seen >> 40);
		if (!a->seen)
			return STEP_ODD;
		looked = STEP_LOOKED;
	}
	return looked | (step_through(zero) ? STEP_FREE : 0);
}

/* take_slots() for a lone packet. */
GLOBAL __u64 take_lone(__u64 now)
{
	struct rdr_control *ctl;
	struct rdr_alloc *a;
	__u32 zero = 0, work = 0, step = 0;

	a = bpf_map_lookup_elem(&alloc, &zero);
	ctl = bpf_map_lookup_elem(&control, &zero);
	if (!a || !ctl)
		return 0;
	if (is_outrun(a, ctl) && !take_block(a))
		return 0;
	for (__u32 i = 0; i < MAX_STEPS && work < MAX_STEPS; i++) {
		step = step_window(zero, now);
		if (step & (STEP_FREE | STEP_ODD))
			break;
		work += 1 + (step & STEP_LOOKED) * 2; /* without a branch, for the verifier */
	}
	if (step & STEP_ODD)
		return take_slots(1, now);
	return step & STEP_FREE ? a->next : 0;
}

/* take_lone() in the common case, without a call: a slot already known to be free, so no clock is
 * read; or 0. */
static __always_inline __u64 known_slot(const struct rdr_alloc *a, const struct rdr_control *ctl)
{
	__u64 pos = a->next, outrun = READ_ONCE(ctl->cursor) - pos - cfg_slots / 2 - 1;
	/* Negative if it is known, in the block, and not outrun. Without a branch, for the
	 * verifier. */
	__s64 fits = (pos - a->free_until) & (pos - a->end) & outrun;

	return pos & (fits >> 63);
}

/* Shows readers that everything below pos in this CPU's block is written. */
static __always_inline void settle_slots(struct rdr_alloc *a, __u64 pos)
{
	WRITE_ONCE(a->next, pos);
}

GLOBAL int unuse_slot(__u64 pos)
{
	struct rdr_slot *s = slot_of(pos);

	/* No time says that it is not just being rewritten. */
	if (s) {
		s->t0_ns = 0;
		WRITE_ONCE(s->pos, 0);
	}
	return 0;
}

/* Gives back slots of packets that are not measured after all. Readers skip a slot with position
 * 0. */
GLOBAL int unuse_slots(__u64 pos, __u32 n)
{
	__u32 k;

	FOR_RANGE(k, 0, n, cfg_max_segs, { unuse_slot(pos + k); });
	return 0;
}

#endif
