/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Trains: a GSO skb stands for n neighbouring slots. Any queue may cut it, and GRO may
 * join parts again, even of different trains. So an skb seen anywhere in the domain is
 * a *run* [index, index + n) of slots: whole trains, parts, or both.
 *
 * While a train is whole its head stands for it. When a part is first seen, the members' slots are
 * filled (members.h), and the head keeps a copy of the train's bits (train_*) and is marked
 * RDR_CUT. From then on each segment has bits (RDR_OWN) and events of its own. Several CPUs may
 * handle segments of one train at once: each writes only the slot of its segment.
 */
#ifndef BACKPACK_TRAIN_H
#define BACKPACK_TRAIN_H

#include "ipv6.h"
#include "copies.h"
#include "members.h"

/* What a train's segments carry as ID on the wire. */
enum id_rule {
	ID_COUNTS = 0, /* the head's, plus their place */
	ID_FIXED = 1,  /* the head's, though it may differ from their own (SKB_GSO_TCP_FIXEDID) */
	ID_SHARED = 2, /* the head's, which is their own: IPv6's flow label */
};

/* A packet as found: which slots, and what its header carries. */
struct found {
	struct rdr_slot *slot; /* of the first packet of the skb */
	__u32 index;
	__u32 decrements; /* TTL decrements since it was written; by bits only */
	__u8 by_key;
	__u8 by_bits;
	__u8 id_rule;
	__u8 inside;	 /* the packet inside this one was found */
	__u8 missed;	 /* nothing was found by bits that look like ours: what to count, or 0 */
	__u8 source;	 /* the departure that was removed was its source, follow_redirect() */
	__u8 minus_zero; /* how its true header spells zero, see true_bits(); by bits only */
};

static __always_inline union rdr_bits slot_bits(const struct rdr_slot *s)
{
	union rdr_bits b;

	b.word = READ_ONCE(*(const __u32 *)&s->id);
	return b;
}

static __always_inline void set_slot_bits(struct rdr_slot *s, union rdr_bits b)
{
	WRITE_ONCE(*(__u32 *)&s->id, b.word);
}

static __always_inline struct rdr_slot *head_of(struct rdr_slot *s)
{
	struct rdr_slot *h;

	if (!s->seg)
		return s;
	h = slot_of(s->pos - s->seg);
	if (!h || h->pos != s->pos - s->seg)
		return NULL;
	return h;
}

/* The state of the packet in slot s; the head has it for a train that is whole. */
static __always_inline __u8 story_state(struct rdr_slot *s)
{
	__u8 state = s->state;
	struct rdr_slot *h;

	if (s->seg && !(s->cut & RDR_OWN)) {
		h = head_of(s);
		if (h && !(h->cut & RDR_CUT))
			state |= h->state & RDR_ST_DONE;
	}
	return state;
}

/* The last event in the story of the packet in slot s; 0 if it has none, or if the last one is a
 * drop after delivery, which ends in data cells. */
static __always_inline __u64 last_event(struct rdr_slot *s)
{
	struct rdr_slot *h = s->seg && !s->nev ? head_of(s) : s;

	return h && !(h->state & RDR_ST_LOCAL_DROP) ? last_cell(h) : 0;
}

static __always_inline bool is_whole(const struct rdr_slot *s, __u32 n)
{
	return !s->seg && !(s->cut & RDR_CUT) && s->segs == n;
}

/*
 * Marks the train of head h as cut. The order matters: the bits are read before RDR_CUT is
 * tested. So a CPU that does not find it has read the train's bits: no other CPU can have
 * replaced them by those of segment 0 yet.
 */
static __always_inline void cut_train(struct rdr_slot *h)
{
	union rdr_bits b = slot_bits(h);

	barrier();
	if (READ_ONCE(h->cut) & RDR_CUT)
		return;
	fill_train_at(h->pos);
	h->train_id = b.id;
	h->train_ttl = b.ttl;
	h->train_tos = b.tos;
	barrier();
	WRITE_ONCE(h->cut, h->cut | RDR_CUT | RDR_OWN);
}

/*
 * Keeps how the true header of the packet in s spells a checksum of zero. To be called after
 * see(): if the packet is a part of a train, see() has marked that as cut, and no other CPU writes
 * `cut` any more.
 */
static __always_inline void keep_minus_zero(struct rdr_slot *s, __u32 minus_zero)
{
	__u8 cut = s->cut;

	if (((cut / RDR_MINUS_ZERO) & 1) != minus_zero)
		WRITE_ONCE(s->cut, cut ^ RDR_MINUS_ZERO);
}

/* The true bits of the segment in slot s, as they were last put on the wire. */
static __always_inline bool own_bits(struct rdr_slot *s, enum id_rule rule, union rdr_bits *b)
{
	struct rdr_slot *h;

	union rdr_bits train;

	*b = slot_bits(s);
	if (!s->seg || ((s->cut & RDR_OWN) && rule != ID_FIXED))
		return true;
	h = head_of(s);
	if (!h)
		return false;
	train = slot_bits(h);
	barrier();
	if (READ_ONCE(h->cut) & RDR_CUT) {
		train.id = h->train_id;
		train.ttl = h->train_ttl;
		train.tos = h->train_tos;
	}
	if (!(s->cut & RDR_OWN))
		*b = train;
	b->id = rule != ID_COUNTS ? train.id : bpf_htons(bpf_ntohs(train.id) + s->seg);
	return true;
}

/* One sighting of a run: what, where, when, and the bits to keep from now on. */
struct sighting {
	__u64 now;
	union rdr_bits bits; /* of the first packet; used if keep_bits */
	__u16 port;
	__u8 kind;
	__u8 flags;
	__u8 keep_bits;
	__u8 id_rule;
};

/* A sighting's small fields in one scalar, for GLOBAL functions. */
static __always_inline __u64 pack_sighting(const struct sighting *w)
{
	return w->port | (__u64)w->kind << 16 | (__u64)w->flags << 24 | (__u64)w->keep_bits << 32 |
	       (__u64)w->id_rule << 40;
}

static __always_inline struct sighting unpack_sighting(__u64 now, __u64 packed, __u32 bits)
{
	struct sighting w = {
		.now = now,
		.bits.word = bits,
		.port = packed,
		.kind = packed >> 16,
		.flags = packed >> 24,
		.keep_bits = packed >> 32,
		.id_rule = packed >> 40,
	};

	return w;
}

/* From now on the k-th segment, in s, of a run that is not its whole train has bits of its own:
 * b, as in the run's header. */
static __always_inline void keep_own_bits(struct rdr_slot *s, union rdr_bits b, __u32 k,
					  enum id_rule rule)
{
	union rdr_bits own;

	/* The header has only the first packet's ID. Those joined behind it keep theirs, which
	 * need not count up from it. (Flow labels are equal.) */
	if (k && rule != ID_SHARED && own_bits(s, rule, &own))
		b.id = own.id;
	set_slot_bits(s, b);
	barrier();
	s->cut |= RDR_OWN;
}

/* Sees the segment in s, alone or with others that are not its whole train. */
static __always_inline void see_part(struct rdr_slot *s, const struct sighting *w, __u32 k,
				     __u32 flags)
{
	struct rdr_slot *h = head_of(s);

	if (h && h->segs > 1)
		cut_train(h);
	if (w->keep_bits)
		keep_own_bits(s, w->bits, k, w->id_rule);
	add_sighting(s, w->kind, flags | RDR_EVF_PART, w->port, w->now);
}

/*
 * Writes one sighting to the slot at index, the k-th of a run of n. Returns how many of the
 * run the slot stands for: a whole train, or one segment.
 */
GLOBAL __u32 see_one(__u32 index, __u32 k_n, __u64 now, __u64 packed, __u32 bits)
{
	struct sighting w = unpack_sighting(now, packed, bits);
	__u32 k = k_n & 0xffff, n = k_n >> 16;
	__u32 flags = k ? w.flags & ~RDR_EVF_FIRST : w.flags;
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));

	if (!s)
		return n;
	if (s->seg || (s->cut & RDR_CUT) || s->segs > n - k) {
		see_part(s, &w, k, flags);
		return 1;
	}
	if (w.keep_bits) {
		if (k && w.id_rule != ID_SHARED)
			w.bits.id = s->id;
		set_slot_bits(s, w.bits);
	}
	add_sighting(s, w.kind, flags, w.port, w.now);
	return s->segs ? s->segs : 1;
}

/* Writes one sighting to every slot that the skb stands for: the slow path, for every run that
 * is not exactly one whole train. */
GLOBAL int see_run(__u32 index, __u32 n, __u64 now, __u64 packed, __u32 bits)
{
	__u32 k = 0;

	FOR_STEPS(k, n, cfg_max_run, see_one(index + k, k | n << 16, now, packed, bits));
	return 0;
}

/* Writes one sighting of the run that begins with slot s. */
static __always_inline void see(struct rdr_slot *s, __u32 index, __u32 n, const struct sighting *w)
{
	if (is_whole(s, n)) {
		if (w->keep_bits)
			set_slot_bits(s, w->bits);
		add_sighting(s, w->kind, w->flags, w->port, w->now);
	} else {
		see_run(index, n, w->now, pack_sighting(w), w->bits.word);
	}
}

#endif
