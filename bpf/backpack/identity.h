/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Identity: is this packet the one that the slot was written for?
 *
 * Header bits alone do not show it: a packet that nobody marked may have any ID and
 * TTL. So a slot keeps a *content tag*: two words that neither routers nor NAT
 * change, that the segments of a train share or count up, and that differ between
 * the packets of a flow:
 *
 *	       tag			     tag2
 *	TCP    sequence number		     ack, first word of the timestamps
 *	UDP    payload bytes 0-3	     payload bytes 4-7; IPv6, DF clear: 4-23, folded
 *	ICMP   type, code, echo sequence     payload bytes 0-7, folded (echo)
 *	SCTP   verification tag		     TSN, where the first chunk is data
 *	other  bytes 0-3 behind the IP header, bytes 4-7
 *
 * Left out on purpose: addresses, ports, ICMP identifier (NAT), L4 checksums (NAT,
 * offload), the TCP window and flags (GRO keeps only the first segment's).
 */
#ifndef BACKPACK_IDENTITY_H
#define BACKPACK_IDENTITY_H

#include "hash.h"
#include "lib/ipv6.h"
#include "packet.h"

#define TCP_HDR 20
#define TCP_TIMESTAMPS 32 /* header with the usual NOP NOP timestamp option */
#define UDP_HDR 8
#define ICMP_HDR 8

static __always_inline __u32 flow_hash(const struct packet *p)
{
	return tuple_hash(p->saddr, p->daddr, p->ports);
}

static __always_inline void tag_echo(struct packet *p, const __be32 *w, bool payload)
{
	p->ports = w[1];
	p->tag |= w[1] & 0xffff0000;
	p->tag2 = payload ? w[2] ^ (w[3] * 0x9e3779b1) : 0;
}

/*
 * What payload bytes 8-23 add to the second word of a datagram's tag. In IPv6 trains no ID
 * identifies the datagram, and those of some protocols (QUIC) begin alike. The ID of packets
 * that are found by their key alone may not identify it either, see keys.h.
 */
static __always_inline __u32 fold_more(const __be32 *w)
{
	return w[0] * 0x9e3779b1 ^ w[1] * 0x85ebca6b ^ w[2] * 0xc2b2ae35 ^ w[3] * 0x27d4eb2f;
}

/* The same for the 16 bytes at off. */
GLOBAL __u32 load_more(struct __sk_buff *skb, __u32 off)
{
	__be32 w[4];

	return bpf_skb_load_bytes(skb, off, w, sizeof(w)) ? 0 : fold_more(w);
}

#define UDP_MORE 32 /* a datagram needs so many bytes for that, with the UDP header */

/* Whether it is done for a packet with that fragment field, host order. */
static __always_inline bool has_more(bool v6, __u16 frag)
{
	return v6 || !(frag & IP_DF);
}

/* MLD, neighbour and router discovery, MLDv2 (RFC 2710, RFC 4861, RFC 3810), as types of ICMPv6. */
static __always_inline bool is_neighbour_type(__u8 type)
{
	return (type >= 130 && type <= 137) || type == 143;
}

/* Packets that nodes of one link send each other, with a hop limit that the receiver checks. */
static __always_inline bool is_link_local(const struct packet *p)
{
	return p->proto == IPPROTO_ICMPV6 && !(p->frag & IP_OFFSET) &&
	       is_neighbour_type(p->icmp_type);
}

/* The protocol by whose rules p's tag is made: ICMPv6 echoes are like ICMP's. */
static __always_inline __u8 tag_proto(const struct packet *p)
{
	if (!p->v6)
		return p->proto;
	return p->proto == IPPROTO_ICMPV6 ? IPPROTO_ICMP :
	       p->proto == IPPROTO_ICMP	  ? IPPROTO_RAW :
					    p->proto;
}

static __always_inline bool is_echo(const struct packet *p)
{
	if (p->v6)
		return p->icmp_type == 128 || p->icmp_type == 129;
	return p->icmp_type == 0 || p->icmp_type == 8;
}

/*
 * All ones if the first datagram of p's train has that many bytes of payload, else 0: once
 * the train is cut, its packet lacks those of the others. (Without a branch, for the
 * verifier. gso_size 0: no train.)
 */
static __always_inline __u32 own_payload(const struct packet *p, __u32 bytes)
{
	return ~(__u32)(((__s64)(p->gso_size - 1) - (__s64)(bytes - 1)) >> 63);
}

/*
 * Content tag of a TCP, UDP, ICMP or other packet from the first words behind
 * its IP header, of which `have` bytes can be read.
 */
static __always_inline void make_tag(struct packet *p, const __be32 *w, __u32 have)
{
	p->tag = 0;
	p->tag2 = 0;
	p->tcp_ack = 0;
	p->tcp_rest = 0;
	if (have < 8)
		return;
	if (p->frag & IP_OFFSET) {
		p->tag = w[0];
		p->tag2 = w[1];
		return;
	}
	switch (tag_proto(p)) {
	case IPPROTO_TCP:
		if (have < TCP_HDR)
			break;
		p->ports = w[0];
		p->tag = bpf_ntohl(w[1]);
		p->tag2 = w[2];
		p->tcp_ack = w[2];
		p->tcp_rest = w[3];
		/* data offset: upper four bits of byte 12 */
		if (have >= TCP_TIMESTAMPS && (w[3] & 0xf0) >= TCP_TIMESTAMPS << 2)
			p->tag2 ^= w[6];
		break;
	case IPPROTO_UDP:
		p->ports = w[0];
		if (have >= UDP_HDR + 8) {
			p->tag = w[2] & own_payload(p, 8);
			p->tag2 = w[3] & own_payload(p, 8);
			if (has_more(p->v6, p->frag) && have >= UDP_MORE)
				p->tag2 ^= fold_more(w + 4) & own_payload(p, UDP_MORE - UDP_HDR);
		}
		break;
	case IPPROTO_ICMP:
		p->icmp_type = w[0];
		p->icmp_code = w[0] >> 8;
		p->tag = w[0] & 0xffff;
		if (is_echo(p))
			tag_echo(p, w, have >= ICMP_HDR + 8);
		break;
	case IPPROTO_SCTP:
		p->ports = w[0];
		p->tag = w[1];
		p->tag2 = have >= 20 ? w[4] : have >= 16 ? w[3] : 0;
		break;
	case IPPROTO_UDPLITE:
		p->ports = w[0];
		if (have >= 16) {
			p->tag = w[2];
			p->tag2 = w[3];
		}
		break;
	default:
		p->tag = w[0];
		p->tag2 = w[1];
	}
}

/* Whether a UDP payload begins as VXLAN (RFC 7348, section 5) or, with Ethernet inside,
 * Geneve (RFC 8926, section 3.4) does. */
static __always_inline bool is_tunnel(const __be32 *w)
{
	return (w[2] == bpf_htonl(0x08000000) && !(w[3] & bpf_htonl(0xff))) ||
	       (w[2] & bpf_htonl(0xc000ffff)) == bpf_htonl(0x6558);
}

/*
 * Whether a train of datagrams that leaves is a tunnel's: for the queue the kernel has counted
 * the headers that its segments repeat (qdisc_pkt_len_init()), and they are not UDP's. At
 * ingress only is_tunnel() knows.
 */
static __always_inline bool is_tunnel_train(struct __sk_buff *skb, const struct packet *p)
{
	return skb->wire_len - skb->len != (p->n - 1) * (p->l4 + UDP_HDR);
}

/* Reads ports and tag at l4, where the packet has `have` bytes: some of them may be out of
 * reach. */
static __always_inline void read_l4(struct __sk_buff *skb, struct packet *p, __u32 l4_at,
				    __u32 have)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	void *l4 = data + l4_at;
	__be32 w[8] = {};

	p->ports = 0;
	p->icmp_type = 0;
	p->icmp_code = 0;
	/* The common sizes are copied whole. Ethernet padding is no content. */
	if (have >= 32 && l4 + 32 <= end) {
		__builtin_memcpy(w, l4, 32);
	} else if (have >= 20 && l4 + 20 <= end) {
		__builtin_memcpy(w, l4, 20);
		have = have > 20 ? 20 : have;
	} else if (have >= 16 && l4 + 16 <= end) {
		__builtin_memcpy(w, l4, 16);
		have = 16;
	} else if (have >= 8 && l4 + 8 <= end) {
		__builtin_memcpy(w, l4, 8);
		have = 8;
	} else {
		have = 0;
	}
	make_tag(p, w, have);
	p->l4_hdr = p->proto == IPPROTO_TCP ? (w[3] & 0xf0) >> 2 : UDP_HDR;
	/* Tunnels and SCTP: their segments do not repeat headers as those of TCP and UDP do. */
	p->odd_train = p->gso_size && p->proto != IPPROTO_TCP &&
		       (p->proto != IPPROTO_UDP || !(w[1] >> 16) || is_tunnel(w));
}

/* Segments of a GSO skb of len bytes from the IP header on, of which each repeats hdr; else 1. */
static __always_inline __u32 segments(struct __sk_buff *skb, __u32 len, __u32 hdr)
{
	__u32 size = skb->gso_size, n = skb->gso_segs;

	if (!size)
		return 1;
	/* AF_PACKET and tap vnet headers leave counting to the receiver. */
	if (!n)
		n = len > hdr ? (len - hdr + size - 1) / size : 1;
	return n;
}

/* An IPv6 packet for read_l4(). proto: the protocol | gso_size << 8; later: it is a later
 * fragment. */
static __always_inline struct packet l4_packet6(__u32 proto, __u32 later)
{
	struct packet p = {
		.v6 = 1,
		.proto = proto,
		.frag = later ? IP_OFFSET : 0,
		.gso_size = proto >> 8,
	};

	return p;
}

/*
 * read_l4() for an IPv6 packet in two calls: each makes one verifier state of the many that
 * packets of different forms make. (The IPv4 programs do not need that, and a call costs 2 ns.)
 */
GLOBAL __u64 read_tags6(struct __sk_buff *skb, __u32 l4, __u32 have, __u32 proto, __u32 later)
{
	struct packet p = l4_packet6(proto, later);

	read_l4(skb, &p, l4 & (MAX_L4 - 1), have);
	return p.tag | (__u64)p.tag2 << 32;
}

GLOBAL __u64 read_ports6(struct __sk_buff *skb, __u32 l4, __u32 have, __u32 proto, __u32 later)
{
	struct packet p = l4_packet6(proto, later);

	read_l4(skb, &p, l4 & (MAX_L4 - 1), have);
	return p.ports | (__u64)p.icmp_type << 32 | (__u64)p.icmp_code << 40 |
	       (__u64)p.l4_hdr << 48 | (__u64)p.odd_train << 56;
}

static __always_inline void read_l4_6(struct __sk_buff *skb, struct packet *p, __u32 have)
{
	__u32 later = p->frag & IP_OFFSET;
	__u32 proto = p->proto | p->gso_size << 8;
	__u64 tags = read_tags6(skb, p->l4, have, proto, later);
	__u64 ports = read_ports6(skb, p->l4, have, proto, later);

	p->tag = tags;
	p->tag2 = tags >> 32;
	p->ports = ports;
	p->icmp_type = ports >> 32;
	p->icmp_code = ports >> 40;
	p->l4_hdr = (ports >> 48) - p->jumbo;
	p->odd_train = ports >> 56 && p->gso_size;
}

/* Makes one verifier state of the hundred that packets of different forms have made, by hiding
 * what is known of the values: 5.10 then looks at a third of the instructions. */
static __always_inline void forget_form(struct packet *p, __u32 zero)
{
	p->l3 += zero;
	p->l4 += zero;
	p->n += zero;
	p->gso_size += zero;
	p->len += zero;
	p->tag += zero;
	p->tag2 += zero;
	p->tcp_ack += zero;
	p->tcp_rest += zero;
	p->ports += zero;
	p->frag += zero;
	p->proto += zero;
	p->l4_hdr += zero;
	p->small += zero;
	p->group += zero;
}

/* Reads what follows the IP header: ports, tag, number of segments. The caller
 * has pulled the headers. */
static __always_inline void parse_l4(struct __sk_buff *skb, struct packet *p)
{
	__u32 have = p->l3 + p->len - p->l4;

	if (p->v6)
		read_l4_6(skb, p, have);
	else
		read_l4(skb, p, bounded(p->l4), have);
	p->n = segments(skb, p->len, repeated_hdr(p));
	forget_form(p, HIDDEN_ZERO(skb->len));
}

#endif
