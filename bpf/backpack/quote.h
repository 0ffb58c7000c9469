/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ICMP errors quote the packet that caused them. A function that shares no kernel with us
 * (or a node under --carry header) quotes it with our bits. They are replaced by the true
 * ones. The quote's own IP checksum is corrected too, so the sum over the quote, and with
 * it the ICMP checksum, does not change.
 *
 * A true quote may spell a slot of its flow by chance. So the slot's packet must have been where the
 * error comes from. What comes in by an edge is true: hosts outside have never seen our bits.
 */
#ifndef BACKPACK_QUOTE_H
#define BACKPACK_QUOTE_H

#include "changed.h"

struct quote {
	struct iphdr ip;
	__be32 w[5]; /* what follows it and its options */
};

/* Bytes of packet p's quote, if it is an ICMP error. */
static __always_inline __u32 quote_len(const struct packet *p)
{
	__u32 before = p->l4 - p->l3 + ICMP_HDR;

	return p->len > before ? p->len - before : 0;
}

/* The quoted packet's ports, or an echo's identifier and sequence, as in its p->ports. */
static __always_inline __u32 quoted_ports(const struct quote *q)
{
	__u8 type = q->w[0] & 0xff;

	switch (q->ip.protocol) {
	case IPPROTO_TCP:
	case IPPROTO_UDP:
	case IPPROTO_UDPLITE:
	case IPPROTO_SCTP:
		return q->w[0];
	case IPPROTO_ICMP:
		return !type || type == 8 ? q->w[1] : 0;
	}
	return 0;
}

/*
 * Whether slot s was written for the quoted packet. Eight bytes of payload are often
 * the same in many packets, and a quote from elsewhere whose own TTL is in a band must
 * not change: so addresses, ports and a lone packet's length must also be as our last
 * port saw them. (Whoever quotes our bits saw the packet on the wire behind that port.)
 */
static __always_inline bool quote_matches(const struct rdr_slot *s, const struct quote *q,
					  __u32 have)
{
	__u32 tag = q->w[0] & 0xffff;
	bool echo = !(tag & 0xff) || (tag & 0xff) == 8;

	if (s->proto != q->ip.protocol ||
	    s->flow_hash != tuple_hash(q->ip.saddr, q->ip.daddr, quoted_ports(q)) ||
	    (s->segs == 1 && s->len != bpf_ntohs(q->ip.tot_len)))
		return false;
	switch (q->ip.protocol) {
	case IPPROTO_TCP:
		return bpf_ntohl(q->w[1]) == s->tag;
	case IPPROTO_UDP:
	case IPPROTO_UDPLITE:
		if (have >= 16)
			return q->w[2] == s->tag && q->w[3] == s->tag2;
		return !s->seg; /* segments look alike */
	case IPPROTO_SCTP:
		return q->w[1] == s->tag && (have < 20 || q->w[4] == s->tag2);
	case IPPROTO_ICMP:
		if (echo)
			tag |= q->w[1] & 0xffff0000; /* the sequence number */
		if (tag != s->tag)
			return false;
		return !echo || have < 16 || s->tag2 == (q->w[2] ^ (q->w[3] * 0x9e3779b1));
	default:
		return q->w[0] == s->tag && q->w[1] == s->tag2;
	}
}

/* Loads the L4 header at off from a quote of len bytes. Returns how many bytes it has: at
 * least 8 (RFC 792), else 0. */
static __always_inline __u32 load_quoted(struct __sk_buff *skb, __u32 off, __u32 len, __be32 *w)
{
	if ((__s32)len >= 20 && !bpf_skb_load_bytes(skb, off, w, 20))
		return 20;
	if ((__s32)len >= 16 && !bpf_skb_load_bytes(skb, off, w, 16))
		return 16;
	if ((__s32)len >= 8 && !bpf_skb_load_bytes(skb, off, w, 8))
		return 8;
	return 0;
}

/* How many of a quote's len bytes are the packet's, whose length is total by its header: the
 * others are padding (RFC 4884, section 5.1). A train of more than 64 KiB has 0. */
static __always_inline __u32 quoted_own(__u32 len, __u32 total)
{
	return total && total < len ? total : len;
}

/* Whether a packet with less than 8 bytes behind its headers, of hdr bytes, is quoted whole. */
static __always_inline bool is_quoted_whole(__u32 own, __u32 total, __u32 hdr)
{
	return own == total && total - hdr < 8;
}

/* Where an error was met, for may_be_quoted(): port:16 | these bits | is_handmade() << QUOTE_BY_SHIFT. */
#define QUOTE_OUT (1 << 16)	 /* it leaves by the port */
#define QUOTE_REDIRECT (1 << 17) /* its packet went on */
#define QUOTE_BY_SHIFT 18

/*
 * Whether the packet in the slot at index may have our bits in an error that was met there. What is on
 * a link quotes what was last seen on that link, or was lost there. A node quotes our bits if it carries
 * the header, or if a process reads packets from the wire: then the packet is in the node. (A tunnel of
 * the node may refuse a packet that has left by the tunnel's port.) If the log may lack events, content
 * is enough: wire bits must not leave.
 */
GLOBAL int may_be_quoted(__u32 index, __u32 place)
{
	__u32 port_no = place & 0xffff, by = place >> QUOTE_BY_SHIFT, stay;
	const struct rdr_port *port = bpf_map_lookup_elem(&ports, &port_no);
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	bool lost;

	if (!s || !port)
		return false;
	if (is_on_link(last_event(s), port->node) || may_lack_events(index))
		return true;
	stay = look_at_stays(s, index, port_no, port->node);
	if (place & QUOTE_OUT) {
		if (!by && !carries_header(port->flags))
			return false;
		if (place & QUOTE_REDIRECT)
			return stay & STAY_CAME;
		/* Packet sockets read before our hook what is for the node itself. */
		return is_still_here(s, stay, port->node, by) ||
		       (by == BY_PACKET && has_come(last_event(s), port->node));
	}
	lost = s->state & RDR_ST_LOST;
	if (stay & STAY_DUE)
		return lost || place & QUOTE_REDIRECT;
	return stay & STAY_LEFT && ((lost && !(stay & STAY_AWAY)) || place & QUOTE_REDIRECT);
}

/*
 * The packet in the slot at index is quoted by an error that came in by port_no, and says that it is too
 * large. If it has just left by that port, a tunnel's, it is lost: the device has made the error of the
 * skb itself (skb_tunnel_check_pmtu()), so nothing is freed. The loss has no caller.
 */
GLOBAL int lose_too_big(__u32 index, __u32 port_no, __u64 now)
{
	const struct rdr_port *port = bpf_map_lookup_elem(&ports, &port_no);
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u64 cell;

	if (!s || !port || !(port->flags & RDR_PF_TUNNEL) || is_tree(s) || s->state & RDR_ST_DONE)
		return 0;
	cell = last_event(s);
	if (cell_kind(cell) != RDR_EV_EGRESS || cell_port(cell) != port_no)
		return 0;
	s->state |= RDR_ST_DONE | RDR_ST_LOST;
	count(RDR_C_LOSS_EVENT, slot_span(s));
	add_event_data(s, RDR_EV_LOSS, RDR_EVF_FIRST | (cell_flags(cell) & RDR_EVF_PART), port_no,
		       now, 0, 0);
	return 0;
}

/* Index of the packet that is quoted in the len bytes at off (what follows is no part of the quote);
 * NO_INDEX if it is none of ours. */
GLOBAL __u32 find_quoted4(struct __sk_buff *skb, __u32 off, __u32 len, __u64 now)
{
	struct quote q = {};
	union rdr_bits bits;
	__u32 have, own, index, decrements;
	const struct rdr_slot *s;

	if (len < sizeof(q.ip) || bpf_skb_load_bytes(skb, off, &q.ip, sizeof(q.ip)) ||
	    q.ip.version != 4 || q.ip.ihl < 5 ||
	    (q.ip.frag_off & bpf_htons(IP_DF | IP_MF | IP_OFFSET)) != bpf_htons(IP_DF))
		return NO_INDEX;
	own = quoted_own(len, bpf_ntohs(q.ip.tot_len));
	have = load_quoted(skb, off + q.ip.ihl * 4, own - q.ip.ihl * 4, q.w);
	if (!have && !is_quoted_whole(own, bpf_ntohs(q.ip.tot_len), q.ip.ihl * 4))
		return NO_INDEX;
	bits.id = q.ip.id;
	bits.ttl = q.ip.ttl;
	bits.tos = q.ip.tos;
	index = guid_decode(bits, &decrements);
	if (index == NO_INDEX)
		return NO_INDEX;
	fill_if_member(index);
	s = slot_at(index);
	return s && slot_alive(s, now) && quote_matches(s, &q, have) ? index : NO_INDEX;
}

/* What write_quote4() returns for a quote that it has restored: the TOS that it had and has. */
#define QUOTED_TOS(had, has) (1 << 16 | (had) << 8 | (has))

/* Puts the true bits of the packet at index into the quote at off. */
GLOBAL int write_quote4(struct __sk_buff *skb, __u32 off, __u32 index)
{
	struct found f = { .index = index };
	struct packet p = { .n = 1 };
	struct iphdr ip;
	union rdr_bits b;

	f.slot = slot_at(index & (cfg_slots - 1));
	if (!f.slot || bpf_skb_load_bytes(skb, off, &ip, sizeof(ip)))
		return 0;
	p.bits.id = ip.id;
	p.bits.ttl = ip.ttl;
	p.bits.tos = ip.tos;
	if (guid_decode(p.bits, &f.decrements) == NO_INDEX || !true_bits(&f, &p, &b))
		return 0;
	set_bits4(&ip, b, f.minus_zero);
	if (bpf_skb_store_bytes(skb, off, &ip, sizeof(ip), 0))
		count(RDR_C_RESTORE_FAILED, 1);
	else
		count(RDR_C_QUOTE_RESTORED, 1);
	return QUOTED_TOS(p.bits.tos, b.tos);
}

#define TOS_PRECEDENCE 0xe0
#define TOS_ERROR 0xc0 /* precedence of errors (RFC 1812, 4.3.2.5) */
#define TOS_ECN 3

/*
 * An error has the TOS of the packet that it answers, except for the precedence: our bits in
 * that packet's DSCP are in the error's too. quoted: what write_quote4() returned.
 */
static __always_inline void restore_error_tos(struct __sk_buff *skb, struct packet *p, int quoted)
{
	__u8 ours = (dscp_mask() << 2) & ~TOS_PRECEDENCE, had = quoted >> 8, has = quoted, tos;

	/* An error whose own TTL is in a band may have a GUID of its own. */
	if (!cfg_dscp_bits || !quoted || cfg_ttl_band[p->bits.ttl] ||
	    (p->bits.tos | TOS_ECN) != ((had & ~TOS_PRECEDENCE) | TOS_ERROR | TOS_ECN))
		return;
	tos = (p->bits.tos & ~ours) | (has & ours);
	if (tos == p->bits.tos)
		return;
	if (bpf_l3_csum_replace(skb, p->l3 + offsetof(struct iphdr, check), bpf_htons(p->bits.tos),
				bpf_htons(tos), 2) ||
	    bpf_skb_store_bytes(skb, p->l3 + offsetof(struct iphdr, tos), &tos, 1, 0))
		count(RDR_C_RESTORE_FAILED, 1);
	p->bits.tos = tos;
}

#endif
