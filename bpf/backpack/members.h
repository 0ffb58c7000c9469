/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Members of trains: docs/design/0028-trains.md. The source of a TCP train without a key writes the
 * head alone. What the slots of its members would hold follows from the head, and the first to meet
 * a part of the train fills them, all at once. Until then each still holds an older packet, which
 * was free to be reused when the train took the slot.
 *
 * So an index that comes from outside (bits, a mark, the head's and a number of segments) may name
 * such a slot: fill_if_member() comes before the slot is read. RDR_CUT says that all members are
 * filled.
 */
#ifndef BACKPACK_MEMBERS_H
#define BACKPACK_MEMBERS_H

#include "ring.h"

/* IP bytes of the last segment of the train with that head. */
static __always_inline __u32 last_len(const struct rdr_slot *h)
{
	return h->train_len - (h->segs - 1) * h->len;
}

/* Fills the slot of a train's member: the fields that it shares with the head, whose len is that of
 * a full segment, and those that differ. */
static __always_inline void fill_member(struct rdr_slot *s, const struct rdr_slot *h, __u64 pos,
					__u32 k, __u32 len, __u32 tag, __u32 tag2)
{
	WRITE_ONCE(s->pos, 0);
	barrier();
	s->t0_ns = h->t0_ns;
	s->nev = 0;
	s->state = h->state & (RDR_ST_IPV6 | RDR_ST_GROUP);
	s->proto = h->proto;
	s->cut = 0;
	s->tag = tag;
	s->tag2 = tag2;
	s->seg = k;
	s->segs = h->segs;
	s->len = len;
	s->flow_hash = h->flow_hash;
	barrier();
	WRITE_ONCE(s->pos, pos);
}

/* Whether the members of train h are filled; true for a packet alone. They are filled in ascending
 * order. */
static __always_inline bool has_members(const struct rdr_slot *h)
{
	__u64 last = h->pos + h->segs - 1;
	struct rdr_slot *s = slot_of(last);

	return s && s->pos == last;
}

/* The highest bit that is set in 16 bits; without a branch, for the verifier. */
static __always_inline __u32 highest_bit(__u32 bits)
{
	__u32 n = (0xff - bits) >> 31 << 3;

	n |= (0xf - (bits >> n)) >> 31 << 2;
	n |= (3 - (bits >> n)) >> 31 << 1;
	return n | (1 - (bits >> n)) >> 31;
}

/* How far below the slot at index the nearest one without a bit is, which may be that slot itself;
 * RDR_MAX_SEGS or more: there is none that could be the head of its train. */
static __always_inline __u32 head_distance(__u32 index)
{
	__u32 at = index, mask = (2U << index % WORD_SLOTS) - 1, heads;
	void *words = member_words();

	for (__u32 i = 0; words && i <= RDR_MAX_SEGS / WORD_SLOTS; i++) {
		heads = ~*member_word(words, at) & mask;
		at = at / WORD_SLOTS * WORD_SLOTS;
		if (heads)
			return index - at - highest_bit(heads);
		mask = 0xffff;
		at -= WORD_SLOTS;
	}
	return RDR_MAX_SEGS;
}

/*
 * Whether s, the slot at pos, has something older than the member that is to be there, or nothing
 * yet; not if it is just being rewritten. (From a difference the verifier learns nothing about pos:
 * one state instead of one for each slot.)
 */
static __always_inline bool is_before(const struct rdr_slot *s, __u64 pos)
{
	__u64 there = READ_ONCE(s->pos);

	return there ? (__s64)(there - pos) < 0 : !s->t0_ns;
}

/* The place of the last segment of train h. */
static __always_inline __u32 last_of(const struct rdr_slot *h)
{
	return READ_ONCE(h->segs) - 1;
}

/* Fills the slot of segment k of the train h, unless that is done. head: the train's position; last: it
 * is the last segment. Returns false if the train is no longer there. */
static __always_inline bool fill_nth(const struct rdr_slot *h, __u64 head, __u32 k, bool last)
{
	struct rdr_slot *s = slot_of(head + k);

	if (!s || READ_ONCE(h->pos) != head)
		return false;
	if (is_before(s, head + k))
		fill_member(s, h, head + k, k, last ? last_len(h) : h->len,
			    h->tag + k * h->gso_size, h->tag2);
	return true;
}

/*
 * Fills the slots of the members of the TCP train that the slot at index belongs to, unless they are
 * filled. If two CPUs do so at once, each leaves alone what the other has filled: it may have
 * events already. (Between a test and its store the other CPU may add one, which is lost, as where
 * two CPUs add events to one slot.) The train may be free to be reused: whoever takes its slots
 * takes the head first, so each store follows a look at that.
 */
GLOBAL int fill_train_at(__u32 index)
{
	__u32 first = hide(head_distance(index)), k;
	struct rdr_slot *h = slot_at((index - first) & (cfg_slots - 1));
	__u64 head;

	if (!h || h->seg || h->segs < 2 || h->segs <= first || h->proto != IPPROTO_TCP || !h->pos ||
	    has_members(h))
		return 0;
	head = h->pos;
	if (!slot_alive(h, bpf_ktime_get_ns()))
		return 0;
	/* It is read again for each: no state for each distance, and no room for it on the stack. */
	FOR_RANGE(k, 1, last_of(h), cfg_max_segs, {
		if (!fill_nth(h, head, k, false))
			return 0;
	});
	fill_nth(h, head, last_of(h), true);
	return 0;
}

/* To be called before the slot at an index from outside is read. */
static __always_inline void fill_if_member(__u32 index)
{
	if (may_be_unfilled(index))
		fill_train_at(index);
}

/* To be called before the slot at index is changed for one packet of a run that is not a whole train:
 * what the members take from the head must still be the train's. */
static __always_inline void fill_part(const struct rdr_slot *s, __u32 index)
{
	if (s->segs > 1 && !s->seg && !(s->cut & RDR_CUT))
		fill_train_at(index);
	else
		fill_if_member(index);
}

/* Sets the bits of the members of a train of n that is left unfilled, or (n 1) only clears its
 * head's. */
GLOBAL int leave_members(__u32 head, __u32 n)
{
	__u32 at = head / WORD_SLOTS * WORD_SLOTS, from = head % WORD_SLOTS, to = from + n, bits;
	void *words = member_words();
	__u16 *word;

	if (!words)
		return 0;
	word = member_word(words, at);
	*word &= ~(1U << from);
	from++;
	for (__u32 i = 0; i <= RDR_MAX_SEGS / WORD_SLOTS && from < to; i++) {
		bits = 0xffffU << from;
		if (to < WORD_SLOTS)
			bits &= (1U << to) - 1;
		*member_word(words, at) |= bits;
		at += WORD_SLOTS;
		from = 0;
		to = to > WORD_SLOTS ? to - WORD_SLOTS : 0;
	}
	return 0;
}

#endif
