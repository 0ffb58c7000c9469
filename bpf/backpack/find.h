/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Finding the slot of a packet that comes from the wire: by the bits of its header, by
 * its key. */
#ifndef BACKPACK_FIND_H
#define BACKPACK_FIND_H

#include "guid.h"
#include "identity.h"
#include "keys.h"
#include "run.h"

/* Whether slot s was written for packet p, by its content. If that is out of reach (kfree_skb,
 * payload in page fragments) addresses and ports must be as last seen. */
static __always_inline bool same_content(const struct rdr_slot *s, const struct packet *p)
{
	if (p->v6 && !(s->state & RDR_ST_IPV6))
		return false;
	if (p->partial)
		/* Without an ID it is not known which segment of a train it is. */
		return s->flow_hash == p->flow && s->proto == p->proto &&
		       (!p->v6 || s->segs <= p->n);
	return s->tag == p->tag && s->tag2 == p->tag2 && s->proto == p->proto;
}

/* IP bytes of the first packet on the wire that p stands for. Its slot must have as many,
 * unless p is a train whose headers may not have been read. */
static __always_inline __u32 first_len(const struct packet *p)
{
	return by_number(p->n, p->len, repeated_hdr(p) + p->gso_size);
}

/* Whether slot s is of a packet of another length. */
static __always_inline bool other_length(const struct rdr_slot *s, const struct packet *p)
{
	return s->len != first_len(p) && !(p->partial && p->n > 1);
}

/* Whose bits may be found on a packet here. */
enum expect {
	EXPECT_OURS,   /* internal ingress, egress of what carries the header: copies may be late */
	EXPECT_LIVE,   /* an edge's ingress: only packets in flight */
	EXPECT_COPIES, /* egress without a mark: in flight, or the packet's copy was dropped */
	EXPECT_STRAY,  /* from a closing node onto the link, see below */
};

/*
 * Where a bridge between attached nodes is closed:
 *  - A packet that leaves the link, by a member or to the host, may be a flooded copy of
 *    one that has arrived elsewhere: EXPECT_OURS, so that every copy is restored.
 *  - A packet that comes onto the link had true bits when it last left the domain. By
 *    bits it can be ours only if it escaped. By key it would be one that comes back
 *    (looped, routed by the host), which has a record of its own. So EXPECT_STRAY finds
 *    packets in flight by their bits, and none by a key.
 */

/* Whether the packet in the slot at index has arrived. Later sightings are of a copy that a
 * bridge flooded, and do not count. */
GLOBAL int has_arrived(__u32 index)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));

	return s && (story_state(s) & (RDR_ST_DONE | RDR_ST_LOST)) == RDR_ST_DONE;
}

/* How long after a packet's last sighting a copy of it may still come, while no
 * lease says that every such packet is marked. */
#define LATE_COPY_NS 2000000

/* Whether that event is so recent. */
static __always_inline bool just_seen(struct rdr_slot *s, __u64 now)
{
	__u64 cell = last_event(s);

	return cell && slot_age(s, now) < (__s64)(cell_ns(cell) + LATE_COPY_NS);
}

/*
 * Equal packets of a flow (the same payload again and again) have equal tags. A packet
 * that nobody marked, and whose own TTL lies in a band, must not be mistaken for an
 * earlier one that has arrived. So a slot that is done is no candidate where no packet of
 * ours can come late. When the lease ends, a bridge may still flood packets in flight:
 * their copies come shortly after each other.
 */
GLOBAL int may_be_here_done(__u32 index, __u64 now, __u32 expect, __u32 ipv6)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	struct rdr_control *ctl;
	__u32 zero = 0;
	__u8 state;

	if (!s)
		return false;
	state = story_state(s);
	if ((state & RDR_ST_IPV6) != ipv6)
		return false;
	if (!(state & RDR_ST_DONE))
		return true;
	if (expect == EXPECT_LIVE || expect == EXPECT_STRAY)
		return false;
	if (expect == EXPECT_COPIES)
		return state & (RDR_ST_LOST | RDR_ST_HELD);
	ctl = bpf_map_lookup_elem(&control, &zero);
	return (ctl && is_leased(&ctl->lease_ns, now)) || just_seen(s, now);
}

static __always_inline bool may_be_here(const struct rdr_slot *s, __u32 index, __u64 now,
					enum expect expect, bool v6)
{
	__u32 ipv6 = v6 ? RDR_ST_IPV6 : 0;

	/* The common case without a call. */
	if (!s->seg && (s->state & (RDR_ST_DONE | RDR_ST_IPV6)) == ipv6)
		return true;
	return may_be_here_done(index, now, expect, ipv6);
}

/* How many segments p is behind the packet whose bits it has. */
static __always_inline __u32 segment_behind(__u32 index, const struct packet *p)
{
	if (p->v6 && p->proto == IPPROTO_UDP)
		return segment_by_content(index, p->tag, p->tag2);
	if (p->proto != IPPROTO_TCP)
		return 0;
	return segment_by_sequence(index, p->tag, p->tag2, repeated_hdr(p));
}

/* The caller counts f->missed, once per packet and hook, and only if the packet has no key; and asks
 * overruns(), which has no room here on the stack. */
static __always_inline bool find_by_bits(const struct packet *p, union rdr_bits bits, __u64 now,
					 enum expect expect, struct found *f)
{
	struct rdr_slot *s;
	__u32 off;

	f->index = guid_decode(bits, &f->decrements);
	if (f->index == NO_INDEX)
		return false;
	s = slot_at(f->index);
	if (!s)
		return false;
	/* What is in flight and has the packet's content is its slot, without another look. */
	if (p->partial || s->state & RDR_ST_DONE || !slot_alive(s, now) || !same_content(s, p))
		fill_if_member(f->index);
	if (!s->pos)
		return false;
	if (!slot_alive(s, now)) {
		f->missed = RDR_C_STALE;
		return false;
	}
	if (!same_content(s, p)) {
		off = segment_behind(f->index, p);
		f->index += off;
		if (off)
			s = slot_at(f->index & (cfg_slots - 1));
		if (!off || !s || !same_content(s, p)) {
			f->missed = RDR_C_FOREIGN;
			return false;
		}
		f->id_rule = p->v6 ? ID_SHARED : ID_FIXED;
	}
	if (other_length(s, p) || !may_be_here(s, f->index, now, expect, p->v6)) {
		f->missed = RDR_C_FOREIGN;
		return false;
	}
	f->slot = s;
	f->by_bits = 1;
	return true;
}

/* flow: p's flow hash. */
static __always_inline bool find_by_key(const struct packet *p, __u32 flow, __u64 now,
					struct found *f)
{
	__u64 rest = key_rest(p, p->bits.id);
	struct rdr_key key = unpack_key(packet_addrs(p), rest, content_word(p->tag, p->tag2));
	struct rdr_slot *s;
	__u64 *pos;

	pos = bpf_map_lookup_elem(&keys, &key);
	if (!pos)
		return false;
	s = slot_of(*pos);
	/* One of another flow that has the same ID, content and addresses was refused. A
	 * tree has its source's flow, whatever its branches have changed. */
	if (!s || s->pos != *pos || !slot_alive(s, now) || !same_content(s, p) ||
	    (s->flow_hash != flow && !(s->state & RDR_ST_GROUP)))
		return false;
	/* A packet that is fragmented in the domain keeps its key, not its length. */
	if (other_length(s, p) && !is_fragment(p))
		return false;
	f->index = *pos & (cfg_slots - 1);
	if (p->n > 1 && !is_run(f->index, run_form(p->n, repeated_hdr(p)) | RUN_BY_KEY))
		return false;
	f->slot = s;
	f->by_key = 1;
	return true;
}

/*
 * Whether the packet in the slot at index is of another flow. Then a packet that comes by a link
 * of true bits, and spells that index, does so by chance: one that has really escaped there (a
 * role changed while it was in flight) is of the flow that its last node saw. (A tree has its
 * source's flow, whatever its branches have changed.)
 */
static __always_inline bool is_other_flow(__u32 index, __u32 flow)
{
	const struct rdr_slot *s = slot_at(index & (cfg_slots - 1));

	return s && s->flow_hash != flow && !(s->state & RDR_ST_GROUP);
}

/* The same in a call, which makes one verifier state of many. */
GLOBAL int is_spelled_by_chance(__u32 index, __u32 flow)
{
	return is_other_flow(index, flow);
}

/* Finds a packet that comes from the wire, or from a function that shares no skb. If it does
 * not, f->missed is what to count. */
static __always_inline bool find_on_wire(const struct packet *p, __u64 now, enum expect expect,
					 struct found *f)
{
	f->by_key = 0;
	f->by_bits = 0;
	f->id_rule = p->v6 ? ID_SHARED : ID_COUNTS;
	f->decrements = 0;
	f->missed = 0;
	if (may_carry(p) && find_by_bits(p, p->bits, now, expect, f)) {
		if (!overruns(f->index, p))
			return true;
		f->missed = RDR_C_FOREIGN;
		f->by_bits = 0;
	}
	if (expect != EXPECT_STRAY && wants_key(p, p->bits.ttl) &&
	    find_by_key(p, flow_hash(p), now, f))
		return true;
	return false;
}

_Static_assert(RDR_PF_BRIDGE_PORT == 1 << 4 && RDR_PF_BRIDGE == 1 << 5 && RDR_PF_HEADER == 1 << 6 &&
		       RDR_PF_LATE == 1 << 10,
	       "is_closing(), keeps_marks(), carries_header(), marks_out()");

/* 1 for the port of a closing node, else 0; without a branch, for the verifier. */
static __always_inline __u32 is_closing(const struct rdr_port *port)
{
	return (port->flags >> 4 | port->flags >> 5) & 1;
}

/* The same for a port whose node uses all bits of skb->mark itself: it carries the
 * header, or nothing, or is a closing node. (RDR_PF_APART comes with RDR_PF_HEADER: with one
 * more bit to test, 5.10's verifier does not finish.) */
static __always_inline __u32 keeps_marks(const struct rdr_port *port)
{
	return is_closing(port) | (port->flags >> 6 & 1);
}

/* 1 for a port whose node carries the header, or did so a moment ago (RDR_PF_LATE, or
 * RDR_PF_APART while it changes), else 0. */
static __always_inline __u32 carries_header(__u32 flags)
{
	return !cfg_mark_mask | ((flags >> 6 | flags >> 10) & 1);
}

/* The bits of skb->mark that are ours in the port's node; none: the header carries the
 * GUID through it. */
static __always_inline __u32 mark_mask(const struct rdr_port *port)
{
	return cfg_mark_mask & (keeps_marks(port) - 1);
}

/* The bits that may still be ours on a packet that leaves the node, which may have given them
 * up while the packet was in it. */
static __always_inline __u32 marks_out(const struct rdr_port *port)
{
	return cfg_mark_mask & ((keeps_marks(port) & ~(port->flags >> 10)) - 1);
}

/* The same where only the port's number is known, or none (RDR_NO_PORT). */
static __always_inline __u32 marks_at(__u32 port_no)
{
	const struct rdr_port *port = bpf_map_lookup_elem(&ports, &port_no);

	return port ? marks_out(port) : cfg_mark_mask;
}

/* Whether the link of the port with that number carries true bits only. A call makes one
 * verifier state of many. */
GLOBAL int true_at(__u32 port_no, __u32 v6)
{
	const struct rdr_port *port = bpf_map_lookup_elem(&ports, &port_no);

	return port && is_true_link(port->flags, v6);
}

/*
 * The paper's layout under --carry header: a band of one TTL cannot show that this node
 * has lowered it, so that is undone first (the paper's transit adds 1). Not for single
 * nodes among others that carry the mark: pkg/vnet/datapath refuses those in this layout.
 */
static __always_inline bool find_lowered(const struct packet *p, const struct rdr_port *port,
					 __u64 now, struct found *f)
{
	union rdr_bits bits = p->bits;

	if (cfg_ttl_width != 1 || cfg_mark_mask || (port->flags & RDR_PF_CLOSING) || !may_carry(p))
		return false;
	bits.ttl++;
	if (!find_by_bits(p, bits, now, EXPECT_COPIES, f))
		return false;
	f->decrements = 1;
	return true;
}

/*
 * How the header of a packet that was found by its bits would spell a checksum of zero without
 * radar. A queue or nftables that changed the TOS on the wire would have written 0xffff. A router
 * that lowers the TTL writes 0 (ip_decrease_ttl()). If nothing was changed, the spelling is as it
 * was. kept: the true TOS when it was last put on the wire. (Without a branch, for the verifier.)
 */
static __always_inline __u32 spells_minus_zero(const struct found *f, __u8 kept, __u8 now)
{
	__u32 changed = ((__u32)(kept ^ now) + 0xff) >> 8;

	return changed | ((f->slot->cut / RDR_MINUS_ZERO) & (f->decrements - 1) >> 31);
}

/* found.decrements of a packet whose TTL something has set (see wire_by_content()): more than
 * any band is wide. */
#define TTL_SET 0xff

/*
 * The TTL of a packet that was lowered more often than its TTL allows, or whose TTL was set.
 * kept: what it was when it was last put on the wire; now: what the header has. (A call makes one
 * verifier state of many.)
 */
GLOBAL __u32 odd_ttl(__u32 index, __u32 decrements, __u32 kept, __u32 now, __u32 n)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));

	if (decrements != TTL_SET) {
		/* radar never drops: the next router will. */
		count(RDR_C_TTL_UNDERFLOW, n);
		return 1;
	}
	/* Many routers that are not attached look like one that sets the TTL. A packet must not go
	 * round in circles for ever because of that: once its log is full, its TTL is lowered at
	 * each turn. */
	if (!s || !(s->state & RDR_ST_FULL) || now < kept)
		return now;
	return kept > 1 ? kept - 1 : 1;
}

/* Whether our bits of the DSCP were set too: they do not spell the index. */
static __always_inline bool is_dscp_set(const struct found *f, __u8 tos)
{
	return ((f->index >> 16) ^ (tos >> 2)) & dscp_mask();
}

/* True bits of a packet found on the wire by its header bits. */
static __always_inline bool true_bits(struct found *f, const struct packet *p, union rdr_bits *b)
{
	__u8 kept;

	if (!own_bits(f->slot, f->id_rule, b))
		return false;
	kept = b->tos;
	b->tos = true_tos(kept, p->bits.tos);
	if (dscp_mask() && is_dscp_set(f, p->bits.tos))
		b->tos = p->bits.tos;
	f->minus_zero = spells_minus_zero(f, kept, b->tos);
	if (b->ttl <= f->decrements) {
		/* In bridges nftables sets the TTL, and spells zero 0xffff. */
		f->minus_zero |= (f->decrements + 1) / (TTL_SET + 1);
		b->ttl = odd_ttl(f->index, f->decrements, b->ttl, p->bits.ttl, p->n);
	} else {
		b->ttl -= f->decrements;
	}
	return true;
}

#endif
