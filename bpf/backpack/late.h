/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packets that are too late: in flight for longer than the timeout, in a queue or in a process that
 * stood still. Their stories have ended. They are restored all the same, because wire bits must not
 * leave, and are unknown packets from then on: no slot is written for them.
 *
 * A slot says who its packet was until another packet takes it. Then a source keeps what restores
 * the packet, of the last ones (keep_unfinished()). Either is asked only by a packet with the same
 * index, content, length and *flow*: in time an equal packet of another flow would be one whose
 * address was changed. Not restored are segments that are cut from a train when it is late already,
 * packets whose addresses something not attached has changed, and those of trains whose slots were
 * taken.
 *
 * A packet that came to a node with such bits of its own is noted: a process there that sends it on
 * must not be taken for one that has changed the slot's packet (changed.h).
 */
#ifndef BACKPACK_LATE_H
#define BACKPACK_LATE_H

#include "handmade.h"
#include "replaced.h"
#include "wire.h"

#define LATE (1ULL << 33)
#define LATE_MINUS_ZERO_SHIFT 32

/* Whether the packet in slot s may still be somewhere: it was not seen to its end, or a copy of it
 * may live. */
static __always_inline bool may_be_out(const struct rdr_slot *s)
{
	return !(s->state & RDR_ST_DONE) || s->state & (RDR_ST_LOST | RDR_ST_HELD) ||
	       s->cut & RDR_COPIES;
}

/* Whether an skb of n packets, the first of which is that of slot s, stands for the slots that
 * follow, as is_run() says; but no slots are filled. (Inline: stacks must fit.) */
static __always_inline bool is_late_run(const struct rdr_slot *s, __u32 n)
{
	struct rdr_slot *last = slot_of(s->pos + n - 1);

	return s->seg + n <= s->segs ||
	       (last && last->pos == s->pos + n - 1 && last->flow_hash == s->flow_hash);
}

/* Whether slot s is that of p, which is late. */
static __always_inline bool is_late_in(const struct rdr_slot *s, const struct packet *p, __u32 flow,
				       __u64 now)
{
	return s->pos && !slot_alive(s, now) && s->flow_hash == flow && same_content(s, p) &&
	       !other_length(s, p) && !(s->state & (RDR_ST_KEYED | RDR_ST_GROUP)) &&
	       !(s->state & RDR_ST_IPV6) == !p->v6 && may_be_out(s) && is_late_run(s, p->n);
}

/* What was kept of p, a lone packet whose slot another one has, or one whose slot was taken while it was in flight; or
 * NULL. */
static __always_inline const struct rdr_spelled *kept_of(const struct packet *p, __u32 index,
							 __u32 flow)
{
	struct rdr_spelled_key key = {
		.index = index, .flow_hash = flow, .tag = p->tag, .tag2 = p->tag2
	};
	const struct rdr_spelled *kept = NULL;

	if (p->n == 1)
		kept = bpf_map_lookup_elem(&spelled, &key);
	if (!kept) {
		kept = bpf_map_lookup_elem(&replaced, &key);
		if (kept && is_long_gone(kept))
			return NULL;
	}
	if (!kept || kept->len != first_len(p) || kept->proto != p->proto || !kept->state != !p->v6)
		return NULL;
	return kept;
}

/* The true bits of a late packet | how its checksum spells zero << LATE_MINUS_ZERO_SHIFT | LATE; 0:
 * it is none, or nothing is known of it. bits_len, tags, rest: as wire_by_bits() takes them. */
GLOBAL __u64 late_bits(__u64 bits_len, __u64 tags, __u64 rest, __u32 flow, __u64 now)
{
	struct packet p = unpack_wire(bits_len, tags, rest);
	__u32 id_rule = p.v6 ? ID_SHARED : ID_COUNTS, expect = rest >> 46 & 3;
	__u32 index, decrements = 0, zero, changed;
	const struct rdr_spelled *kept;
	union rdr_bits b;
	struct rdr_slot *s;
	__u64 pos;
	__u8 tos;

	if (!may_carry(&p) || expect == EXPECT_LIVE || expect == EXPECT_STRAY)
		return 0;
	index = guid_decode(p.bits, &decrements);
	s = index == NO_INDEX ? NULL : slot_at(index);
	if (!s)
		return 0;
	pos = READ_ONCE(s->pos);
	if (is_late_in(s, &p, flow, now)) {
		zero = s->cut / RDR_MINUS_ZERO & 1;
		/* A source may take the slot at any time. */
		if (!own_bits(s, id_rule, &b) || READ_ONCE(s->pos) != pos)
			return 0;
	} else {
		kept = kept_of(&p, index, flow);
		if (!kept)
			return 0;
		b.word = kept->bits;
		zero = kept->cut / RDR_MINUS_ZERO & 1;
	}
	tos = b.tos;
	b.tos = true_tos(tos, p.bits.tos);
	/* As in true_bits(). */
	changed = ((__u32)(tos ^ b.tos) + 0xff) >> 8;
	zero = (changed | (zero & (decrements - 1) >> 31)) & 1;
	if (b.ttl <= decrements) {
		count(RDR_C_TTL_UNDERFLOW, p.n);
		b.ttl = 1;
	} else {
		b.ttl -= decrements;
	}
	return b.word | (__u64)zero << LATE_MINUS_ZERO_SHIFT | LATE;
}

/* Notes that a packet of that flow, which has these bits of its own, has come to node. */
GLOBAL int note_own_bits(__u32 word, __u32 flow, __u32 node)
{
	union rdr_bits bits = { .word = word };
	__u32 decrements;
	struct rdr_own_key key = { guid_decode(bits, &decrements), flow, node };
	__u64 now = bpf_ktime_get_ns();

	if (key.index != NO_INDEX)
		bpf_map_update_elem(&own_headers, &key, &now, BPF_ANY);
	return 0;
}

/*
 * Whether that was noted within the timeout. Anybody may send packets of any flow to a node. So a
 * note counts for nothing where the slot is of the same flow: then the bits are ours.
 */
GLOBAL int has_own_bits(__u32 word, __u32 flow, __u32 node, __u64 now)
{
	union rdr_bits bits = { .word = word };
	__u32 decrements;
	struct rdr_own_key key = { guid_decode(bits, &decrements), flow, node };
	const __u64 *noted = bpf_map_lookup_elem(&own_headers, &key);
	const struct rdr_slot *s = slot_at(key.index & (cfg_slots - 1));

	return noted && now - *noted < cfg_timeout_ns && s && s->flow_hash != flow;
}

/* What pass_unfound() takes of a packet besides: flow hash:32 | l3:8 | why it was not found:8 |
 * UNFOUND_* | node:12. */
#define UNFOUND_L3_SHIFT 32
#define UNFOUND_MISSED_SHIFT 40
#define UNFOUND_MINUS_ZERO (1ULL << LATE_MINUS_ZERO_SHIFT << 16)
#define UNFOUND_NOTE (1ULL << 49) /* its bits may be its own: they are noted */
#define UNFOUND_NEW (1ULL << 50)  /* its node has made it: it is not late */
#define UNFOUND_NODE_SHIFT 51
_Static_assert(RDR_MAX_NODES == 1 << 12, "UNFOUND_NODE_SHIFT: 12 bits");

/*
 * What is done for a packet that was not found: restored, if it is late; else counted, and noted.
 * Returns its bits | how its checksum spells zero << LATE_MINUS_ZERO_SHIFT | LATE. (One call, and no
 * branch in its callers, for the verifier.)
 */
GLOBAL __u64 pass_unfound(struct __sk_buff *skb, __u64 bits_len, __u64 tags, __u64 rest, __u64 more)
{
	__u32 missed = more >> UNFOUND_MISSED_SHIFT & 0xff, n = rest >> 34 & 0x7ff;
	struct packet p = { .l3 = more >> UNFOUND_L3_SHIFT & 0x7f, .v6 = rest >> 45 & 1 };
	union rdr_bits b;
	__u64 late = 0;

	if (!(more & UNFOUND_NEW) && (missed == RDR_C_STALE || missed == RDR_C_FOREIGN))
		late = late_bits(bits_len, tags, rest, more, bpf_ktime_get_ns());
	b.word = late;
	if (late & LATE && restore_header(skb, &p, b, late >> LATE_MINUS_ZERO_SHIFT & 1)) {
		count(RDR_C_LATE, n);
		return late;
	}
	if (missed)
		count(missed, n);
	if (more & UNFOUND_NOTE)
		note_own_bits(bits_len, more, more >> UNFOUND_NODE_SHIFT & (RDR_MAX_NODES - 1));
	return (__u32)bits_len | (more & UNFOUND_MINUS_ZERO) >> 16;
}

/* The same for p at a port of that node; w: the packet as well. flags: UNFOUND_NOTE, UNFOUND_NEW.
 * Returns whether it was late. */
static __always_inline bool pass_if_late(struct __sk_buff *skb, struct packet *p,
					 const struct wire *w, __u32 missed, __u32 node,
					 __u64 flags)
{
	__u64 r = pass_unfound(skb, w->bits_len, w->tags, w->rest,
			       flow_hash(p) | (__u64)(p->l3 & 0x7f) << UNFOUND_L3_SHIFT |
				       (__u64)(missed & 0xff) << UNFOUND_MISSED_SHIFT |
				       (__u64)(p->minus_zero & 1) << 48 | flags |
				       (__u64)(node & (RDR_MAX_NODES - 1)) << UNFOUND_NODE_SHIFT);

	p->bits.word = r;
	p->minus_zero = r >> LATE_MINUS_ZERO_SHIFT & 1;
	return r >> 33 & 1;
}

#endif
