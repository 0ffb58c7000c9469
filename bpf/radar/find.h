/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Finding a packet's slot: by the bits of its header, by its key, by its mark. */
#ifndef RADAR_FIND_H
#define RADAR_FIND_H

#include "guid.h"
#include "identity.h"
#include "keys.h"
#include "train.h"

/* Whether slot s was written for packet p, by content. Where that is out of reach
 * (kfree_skb, payload in page fragments) by addresses and ports, as last seen. */
static __always_inline bool same_content(const struct rdr_slot *s, const struct packet *p)
{
	if (p->partial)
		return s->flow_hash == flow_hash(p) && s->proto == p->proto;
	return s->tag == p->tag && s->tag2 == p->tag2 && s->proto == p->proto;
}

/* Whose bits may be found on a packet here. */
enum expect {
	EXPECT_OURS,   /* an internal port's ingress: copies may come late */
	EXPECT_LIVE,   /* an edge's ingress: only what is still on its way */
	EXPECT_COPIES, /* egress without a mark: on its way, or its copy was dropped */
	EXPECT_STRAY,  /* a closing node's way onto the link, see below */
};

/*
 * Where a bridge between attached nodes is closed:
 *  - what leaves the link, by a member or to the host, may be a flooded copy of a
 *    packet that has arrived elsewhere: EXPECT_OURS, so that every copy is restored;
 *  - what comes onto the link had true bits when it last left the domain. By bits it
 *    can be ours only if it escaped, by key it would be one that comes back (looped,
 *    routed by the host), which has a record of its own: EXPECT_STRAY asks for bits
 *    that are on their way, and for no key.
 */

/* What became of the packet in slot s; the head speaks for a train that is whole. */
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

/* Whether the packet in the slot at index has arrived: what is still seen of it is a
 * copy that a bridge flooded, and says nothing about it. */
GLOBAL int has_arrived(__u32 index)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));

	return s && (story_state(s) & (RDR_ST_DONE | RDR_ST_LOST)) == RDR_ST_DONE;
}

/* How long after a packet's last sighting a copy of it may still come, while no
 * lease says that every such packet is marked. */
#define LATE_COPY_NS 2000000

/* Whether the last event of the story in slot s is that recent. */
static __always_inline bool just_seen(struct rdr_slot *s, __u64 now)
{
	struct rdr_slot *h = s->seg && !(s->cut & RDR_OWN) ? head_of(s) : s;
	__u64 k;

	/* A late drop ends in data cells. */
	if (!h || (h->state & RDR_ST_LOCAL_DROP))
		return false;
	k = h->nev;
	k--;
	asm volatile("" : "+r"(k)); /* see used_cells() */
	if (k >= cfg_cells)
		return false;
	return slot_age(h, now) < (__s64)((*slot_cell(h, k) & RDR_EV_TIME_MASK) + LATE_COPY_NS);
}

/*
 * Equal packets of a flow (the same payload again and again) have equal tags. One
 * that nobody marked and whose own TTL lies in a band must not be taken for an
 * earlier one that has arrived: where and when nothing of ours can come late, a slot
 * that is done is no candidate. When the lease ends there may be packets under way
 * that a bridge has yet to flood: their copies come close together.
 */
GLOBAL int may_be_here_done(__u32 index, __u64 now, __u32 expect)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	struct rdr_control *ctl;
	__u32 zero = 0;
	__u8 state;

	if (!s)
		return false;
	state = story_state(s);
	if (!(state & RDR_ST_DONE))
		return true;
	if (expect == EXPECT_LIVE || expect == EXPECT_STRAY)
		return false;
	if (expect == EXPECT_COPIES)
		return state & (RDR_ST_LOST | RDR_ST_HELD);
	ctl = bpf_map_lookup_elem(&control, &zero);
	return (ctl && now < READ_ONCE(ctl->lease_ns)) || just_seen(s, now);
}

static __always_inline bool may_be_here(const struct rdr_slot *s, __u32 index, __u64 now,
					enum expect expect)
{
	/* The common case without a call. */
	if (!s->seg && !(s->state & RDR_ST_DONE))
		return true;
	return may_be_here_done(index, now, expect);
}

/* How many segments p lies behind the one in slot s, 0 if it does not: all segments
 * of a run with SKB_GSO_TCP_FIXEDID carry the ID of its first. */
static __always_inline __u32 fixed_id_segment(struct rdr_slot *s, const struct packet *p)
{
	struct rdr_slot *h;
	__u32 off;

	if (s->proto != IPPROTO_TCP || p->proto != IPPROTO_TCP || s->segs < 2 ||
	    s->tag2 != p->tag2)
		return 0;
	h = head_of(s);
	if (!h || !h->gso_size)
		return 0;
	off = (p->tag - s->tag) / h->gso_size;
	return s->seg + off < s->segs ? off : 0;
}

static __always_inline bool find_by_bits(const struct packet *p, union rdr_bits bits, __u64 now,
					 enum expect expect, struct found *f)
{
	struct rdr_slot *s;
	__u32 off;

	f->index = guid_decode(bits, &f->decrements);
	if (f->index == NO_INDEX)
		return false;
	s = slot_at(f->index);
	if (!s || !s->pos)
		return false;
	if (!slot_alive(s, now)) {
		count(RDR_C_STALE, p->n);
		return false;
	}
	if (!same_content(s, p)) {
		off = fixed_id_segment(s, p);
		f->index += off;
		if (off)
			s = slot_at(f->index & (cfg_slots - 1));
		if (!off || !s || !same_content(s, p)) {
			count(RDR_C_FOREIGN, p->n);
			return false;
		}
		f->fixed_id = 1;
	}
	/* A lone packet must have its slot's length; a run was joined or is whole. */
	if ((p->n == 1 && s->len != p->len) || !may_be_here(s, f->index, now, expect)) {
		count(RDR_C_FOREIGN, p->n);
		return false;
	}
	f->slot = s;
	f->by_bits = 1;
	return true;
}

static __always_inline bool find_by_key(const struct packet *p, __u64 now, struct found *f)
{
	struct rdr_key key = unpack_key(key_addrs(p->saddr, p->daddr), key_rest(p, p->bits.id));
	struct rdr_slot *s;
	__u64 *pos;

	pos = bpf_map_lookup_elem(&keys, &key);
	if (!pos)
		return false;
	s = slot_of(*pos);
	if (!s || s->pos != *pos || !slot_alive(s, now) || !same_content(s, p))
		return false;
	/* A packet that is fragmented in the domain keeps its key, not its length. */
	if (p->n == 1 && s->len != p->len && !is_fragment(p))
		return false;
	f->slot = s;
	f->index = *pos & (cfg_slots - 1);
	f->by_key = 1;
	return true;
}

/* Finds a packet as it comes from the wire, or from a function that shares no skb. */
static __always_inline bool find_on_wire(const struct packet *p, __u64 now, enum expect expect,
					 struct found *f)
{
	f->by_key = 0;
	f->by_bits = 0;
	f->fixed_id = 0;
	f->decrements = 0;
	if (is_atomic(p) && find_by_bits(p, p->bits, now, expect, f))
		return true;
	return expect != EXPECT_STRAY && wants_key(p, p->bits.ttl) && find_by_key(p, now, f);
}

/*
 * The paper's layout under --carry header: bands of one TTL cannot show that this
 * node has lowered it, so undo that first (the paper's transit adds 1).
 */
static __always_inline bool find_lowered(const struct packet *p, const struct rdr_port *port,
					 __u64 now, struct found *f)
{
	union rdr_bits bits = p->bits;

	if (cfg_ttl_width != 1 || cfg_mark_mask || (port->flags & RDR_PF_CLOSING) || !is_atomic(p))
		return false;
	bits.ttl++;
	if (!find_by_bits(p, bits, now, EXPECT_COPIES, f))
		return false;
	f->decrements = 1;
	return true;
}

/* 1 for the port of a closing node, else 0; without a branch, for the verifier. */
static __always_inline __u32 is_closing(const struct rdr_port *port)
{
	return (port->flags >> 4 | port->flags >> 5) & 1;
}

/* The bits of skb->mark that are ours at egress: in a closing node all are its own. */
static __always_inline __u32 mark_mask(const struct rdr_port *port)
{
	return cfg_mark_mask & (is_closing(port) - 1);
}

/* Finds a packet inside a node by skb->mark. A mark that is not ours (a socket's,
 * one that a tunnel's outer packet inherited) stays as it is. */
static __always_inline bool find_by_mark(__u32 mark, const struct packet *p, __u64 now,
					 struct found *f)
{
	struct rdr_slot *s;

	f->by_key = 0;
	f->by_bits = 0;
	f->fixed_id = 0;
	f->decrements = 0;
	f->index = ((mark & cfg_mark_mask) >> cfg_mark_shift) - 1;
	if (f->index >= cfg_slots)
		return false;
	s = slot_at(f->index);
	if (!s || !slot_alive(s, now) || !same_content(s, p))
		return false;
	if (p->n == 1 && s->segs == 1 && s->len != p->len && !is_fragment(p))
		return false;
	f->slot = s;
	return true;
}

/* True bits of a packet found on the wire by its header bits. */
static __always_inline bool true_bits(const struct found *f, const struct packet *p,
				      union rdr_bits *b)
{
	if (!own_bits(f->slot, f->fixed_id, b))
		return false;
	b->tos = true_tos(b->tos, p->bits.tos);
	if (b->ttl <= f->decrements) {
		/* radar never drops: the next router will. */
		count(RDR_C_TTL_UNDERFLOW, p->n);
		b->ttl = 1;
	} else {
		b->ttl -= f->decrements;
	}
	return true;
}

#endif
