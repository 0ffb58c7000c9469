/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The source: decides whether a packet is measured, and fills its backpack. */
#ifndef BACKPACK_SOURCE_H
#define BACKPACK_SOURCE_H

#include "group.h"
#include "inside.h"
#include "watch.h"

/* Whether the bytes for the tag of a packet, whose L4 is [l4, end), could not all be pulled. The
 * next port may read more, and would not recognise the packet. */
static __always_inline bool lacks_content(struct __sk_buff *skb, __u32 l4, __u32 end)
{
	__s64 linear = (void *)(long)skb->data_end - (void *)(long)skb->data;

	/* Less than both; one branch, for the verifier. */
	return ((linear - end) & (linear - l4 - L4_PULL)) < 0;
}

/* Why a packet that met a source is not measured, at any time; RDR_C_MARKED if it may be. */
static __always_inline enum rdr_counter refuse(struct __sk_buff *skb, const struct packet *p)
{
	if (p->v6 && is_link_local(p))
		return RDR_C_NM_NEIGHBOUR;
	/* Trees of IPv6 are not followed yet. */
	if (p->group && (p->v6 || is_control(skb, p->l3, p->daddr, p->proto)))
		return RDR_C_NM_MULTICAST;
	if (lacks_content(skb, p->l4, p->l3 + p->len))
		return RDR_C_NM_MALFORMED;
	if (p->n > cfg_max_segs || p->odd_train)
		return RDR_C_NM_SEGS;
	if (!is_watched(skb, p))
		return RDR_C_NM_WATCH;
	return RDR_C_MARKED;
}

/* Why an IPv6 packet that met a source is not measured, while the programs for IPv6 are not loaded:
 * what they would never measure has the name that they give it, see refuse(). l3 is where it begins.
 * User space loads them when it sees RDR_C_NM_IPV6. */
GLOBAL __u32 refuse_unloaded6(struct __sk_buff *skb, __u32 l3)
{
	__u32 l4 = l3 + sizeof(struct ip6_header);
	__u8 proto = 0, group = 0, type = 0;

	bpf_skb_load_bytes(skb, l3 + offsetof(struct ip6_start, next), &proto, 1);
	bpf_skb_load_bytes(skb, l3 + offsetof(struct ip6_header, daddr), &group, 1);
	if (proto == IPPROTO_HOPOPTS) { /* MLD has one option, so 8 bytes */
		bpf_skb_load_bytes(skb, l4, &proto, 1);
		l4 += 8;
	}
	bpf_skb_load_bytes(skb, l4, &type, 1);
	if (proto == IPPROTO_ICMPV6 && is_neighbour_type(type))
		return RDR_C_NM_NEIGHBOUR;
	return group == 0xff ? RDR_C_NM_MULTICAST : RDR_C_NM_IPV6;
}

/* One-word Bloom filter: the bit for these tags. */
static __always_inline __u64 tags_bit(const struct rdr_slot *s)
{
	return 1ULL << ((s->tag * 0x9e3779b1 ^ s->tag2 * 0x85ebca6b) >> 26);
}

/* Whether a datagram before datagram k of a train has the same content. */
GLOBAL int is_repeated(__u64 head, __u32 k)
{
	struct rdr_slot *s = slot_of(head + k);

	return s && (has_tags(head, s->tag, s->tag2) ||
		     segment_by_content(head & (cfg_slots - 1), s->tag, s->tag2) != k);
}

/* Fills the first line of the slot of datagram k, which has a payload of its own; the head is
 * written already. l4 is the offset of the L4 header. Returns tags_bit() for IPv6, where only
 * content separates the datagrams of a train; else 0. */
GLOBAL __u64 fill_datagram(struct __sk_buff *skb, __u64 head, __u32 k, __u32 l4)
{
	struct rdr_slot *h = slot_of(head), *s = slot_of(head + k);
	__be32 w[2] = {};
	__u32 len, payload;

	if (!h || !s)
		return 0;
	len = k == h->segs - 1 ? last_len(h) : h->len;
	payload = len - (h->len - h->gso_size);
	l4 += UDP_HDR + k * h->gso_size;
	if (payload >= 8)
		bpf_skb_load_bytes(skb, l4, w, 8);
	if (has_more(h->state & RDR_ST_IPV6, bpf_ntohs(h->frag_off)) &&
	    payload >= UDP_MORE - UDP_HDR)
		w[1] ^= load_more(skb, l4 + 8);
	fill_member(s, h, head + k, k, len, w[0], w[1]);
	return h->state & RDR_ST_IPV6 && h->proto == IPPROTO_UDP ? tags_bit(s) : 0;
}

/* Fills all members' slots. Returns how many segments look like one before. */
GLOBAL __u32 fill_members(struct __sk_buff *skb, __u64 head, __u32 n, __u32 l4)
{
	struct rdr_slot *h = slot_of(head);
	__u64 seen = h ? tags_bit(h) : 0, bit;
	__u32 alike = 0, k;

	leave_members(head & (cfg_slots - 1), 1);
	if (h && h->proto == IPPROTO_TCP)
		return fill_train_at(head);
	FOR_RANGE(k, 1, n, cfg_max_segs, {
		bit = fill_datagram(skb, head, k, l4);
		if (seen & bit)
			alike += is_repeated(head, k);
		seen |= bit;
	});
	return alike;
}

/* The fields that only an IPv6 packet's slot has: see RDR_ST_IPV6. */
static __always_inline void fill_head6(struct __sk_buff *skb, struct rdr_slot *s,
				       const struct packet *p)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct ip6_header *ip = data + bounded(p->l3);
	__u16 off = (p->frag & IP_OFFSET) << 3;
	__be32 *l4;

	s->state |= RDR_ST_IPV6;
	s->daddr = p->frag_id;
	s->frag_off = bpf_htons(p->frag & IP_MF ? off | 1 : off);
	if ((void *)(ip + 1) > end)
		return;
	s->saddr = *(__be32 *)ip;
	*slot_cell(s, cfg_cells - 4) = ip->saddr[0];
	*slot_cell(s, cfg_cells - 3) = ip->saddr[1];
	*slot_cell(s, cfg_cells - 2) = ip->daddr[0];
	*slot_cell(s, cfg_cells - 1) = ip->daddr[1];
	l4 = data + (p->l4 & (MAX_L4 - 1));
	if (p->proto != IPPROTO_TCP || p->frag & IP_OFFSET || (void *)(l4 + 4) > end)
		return;
	s->tcp_ack = l4[2];
	s->tcp_rest = l4[3];
}

/* Fills the head's slot, with its first event in cell 0. */
static __always_inline void fill_head(struct __sk_buff *skb, struct rdr_slot *s,
				      const struct packet *p, __u64 pos, __u64 now, __u32 kind,
				      __u32 port, bool by_key)
{
	__u32 flags = RDR_EVF_FIRST | RDR_EVF_SOURCE | (by_key ? RDR_EVF_KEYED : 0);
	__u32 hdr = repeated_hdr(p);

	WRITE_ONCE(s->pos, 0);
	barrier();
	s->t0_ns = now;
	s->nev = 1;
	/* A tree is never done. */
	s->state = p->group * RDR_ST_GROUP |
		   ((kind == RDR_EV_DELIVER || kind == RDR_EV_LEFT ? RDR_ST_DONE : 0) &
		    (p->group - 1));
	s->proto = p->proto;
	s->cut = p->minus_zero * RDR_MINUS_ZERO;
	s->tag = p->tag;
	s->tag2 = p->tag2;
	set_slot_bits(s, p->bits);
	s->seg = 0;
	s->segs = p->n;
	s->len = p->n > 1 ? hdr + p->gso_size : p->len;
	s->flow_hash = flow_hash(p);
	s->ev0[0] = make_cell(s, kind, flags, port, now);
	s->saddr = p->saddr;
	s->daddr = p->daddr;
	s->sport = p->ports;
	s->dport = p->ports >> 16;
	s->first_id = p->bits.id;
	s->first_ttl = p->bits.ttl;
	s->first_tos = p->bits.tos;
	s->train_len = p->len + (p->n - 1) * hdr;
	s->frag_off = bpf_htons(p->frag);
	s->icmp_type = p->icmp_type;
	s->icmp_code = p->icmp_code;
	s->gso_size = p->n > 1 ? p->gso_size : 0;
	s->flags = (p->frag & IP_OFFSET ? RDR_SF_FRAGMENT : 0) | (p->vlan ? RDR_SF_VLAN : 0);
	s->hdr = hdr <= 0xff ? hdr : 0;
	s->tcp_ack = p->tcp_ack;
	s->tcp_rest = p->tcp_rest;
	if (p->v6)
		fill_head6(skb, s, p);
	barrier();
	WRITE_ONCE(s->pos, pos);
}

/* The time for ages and the lease, where milliseconds do. */
static __always_inline __u64 about_now(void)
{
	return cfg_has_coarse ? bpf_ktime_get_coarse_ns() : bpf_ktime_get_ns();
}

/*
 * Gives the packet a backpack with its first event. now: when it was seen; 0: the clock is
 * read as late as possible, so that most of the source's own work is not in the first
 * hop's time. by_key: it leaves here and its bits must not change, so its key must be free.
 * Returns false if it is not measured, and has counted why.
 */
static __always_inline bool source(struct __sk_buff *skb, const struct packet *p, __u64 now,
				   __u32 kind, __u32 port, bool by_key, struct found *f)
{
	enum rdr_counter why = refuse(skb, p);
	struct rdr_control *ctl;
	struct rdr_alloc *a;
	struct rdr_slot *s;
	__u64 pos, about;
	__u32 zero = 0;
	int err;

	count(RDR_C_SEEN, p->n);
	if (why != RDR_C_MARKED)
		goto refused;
	why = RDR_C_NM_LEASE;
	ctl = bpf_map_lookup_elem(&control, &zero);
	a = bpf_map_lookup_elem(&alloc, &zero);
	if (!ctl || !a)
		goto refused;
	if (p->v6 && READ_ONCE(ctl->ip6_held)) {
		why = RDR_C_NM_IPV6;
		goto refused;
	}
	pos = p->n == 1 ? known_slot(a, ctl) : 0;
	if (!pos) {
		about = now ? now : about_now();
		if (!is_leased(&ctl->lease_ns, about))
			goto refused;
		why = RDR_C_NM_NO_SLOT;
		pos = p->n == 1 ? take_lone(about) : take_slots(p->n, about);
		if (!pos)
			goto refused;
	}
	if (!now)
		now = bpf_ktime_get_ns();
	why = RDR_C_NM_LEASE;
	if (!is_leased(&ctl->lease_ns, now))
		goto refused;
	why = RDR_C_NM_NO_SLOT;
	s = slot_of(pos);
	if (!s)
		goto refused;
	/* A branch of a tree may go on with true bits: they must not spell a slot of its own. */
	if (p->group &&
	    (__u16)(bpf_ntohs(p->bits.id) - (pos & (cfg_slots - 1)) + p->n - 1) < 2 * p->n - 1) {
		unuse_slots(pos, p->n);
		settle_slots(a, pos + p->n);
		goto refused;
	}
	fill_head(skb, s, p, pos, now, kind, port, by_key);
	if (f->inside)
		add_event_data(s, RDR_EV_INNER, 0, port, now, position_at(f->index), 0);
	/* Most traffic is TCP's trains, most of which stay whole. */
	if (p->n > 1 && p->proto == IPPROTO_TCP && !by_key) {
		leave_members(pos & (cfg_slots - 1), p->n);
	} else if (p->n > 1 && fill_members(skb, pos, p->n, p->l4) && p->v6) {
		/* IPv6: segments have no ID, so equal ones look alike. */
		unuse_slots(pos, p->n);
		settle_slots(a, pos + p->n);
		why = RDR_C_NM_SEGS;
		goto refused;
	}
	if (by_key) {
		err = keep_keys(pos & (cfg_slots - 1), p, p->bits.id);
		if (err) {
			unuse_slots(pos, p->n);
			settle_slots(a, pos + p->n);
			why = err == PUT_FULL ? RDR_C_NM_KEYS_FULL : RDR_C_NM_KEY_IN_FLIGHT;
			goto refused;
		}
	}
	settle_slots(a, pos + p->n);
	count(RDR_C_MARKED, p->n);
	f->slot = s;
	f->index = pos & (cfg_slots - 1);
	f->by_bits = 0;
	f->by_key = 0;
	f->id_rule = p->v6 ? ID_SHARED : ID_COUNTS;
	return true;
refused:
	count(why, p->n);
	return false;
}

#endif
