/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Identity: is this packet the one that the slot was written for?
 *
 * Header bits alone cannot say: a packet that nobody marked may carry any ID and
 * TTL. So a slot keeps a *content tag*, two words that no router changes, that
 * NAT does not touch, that the segments of a train share or count up, and that
 * differ between the packets of a flow:
 *
 *	       tag			     tag2
 *	TCP    sequence number		     ack, first word of the timestamps
 *	UDP    payload bytes 0-3	     payload bytes 4-7
 *	ICMP   type, code, echo sequence     payload bytes 0-7, folded (echo)
 *	SCTP   verification tag		     TSN, where the first chunk is data
 *	other  bytes 0-3 behind the IP header, bytes 4-7
 *
 * Left out on purpose: addresses, ports, ICMP identifier (NAT), L4 checksums (NAT,
 * offload), the TCP window and flags (GRO keeps only the first segment's).
 */
#ifndef RADAR_IDENTITY_H
#define RADAR_IDENTITY_H

#include "packet.h"

#define TCP_HDR 20
#define TCP_TIMESTAMPS 32 /* header with the usual NOP NOP timestamp option */
#define UDP_HDR 8
#define ICMP_HDR 8

/* Of addresses and ports: tells whether NAT changed them. */
static __always_inline __u32 tuple_hash(__u32 saddr, __u32 daddr, __u32 ports)
{
	return saddr * 0x9e3779b1 ^ daddr * 0x85ebca6b ^ ports * 0xc2b2ae35;
}

static __always_inline __u32 flow_hash(const struct packet *p)
{
	return tuple_hash(p->saddr, p->daddr, p->sport | (__u32)p->dport << 16);
}

static __always_inline void tag_echo(struct packet *p, const __be32 *w, bool payload)
{
	p->sport = (__be16)w[1];
	p->dport = (__be16)(w[1] >> 16);
	p->tag |= (__u32)p->dport << 16;
	p->tag2 = payload ? w[2] ^ (w[3] * 0x9e3779b1) : 0;
}

/*
 * Content tag of a TCP, UDP, ICMP or other packet from the first words behind
 * its IP header, of which `have` bytes can be read.
 */
static __always_inline void make_tag(struct packet *p, const __be32 *w, __u32 have)
{
	p->tag = 0;
	p->tag2 = 0;
	if (have < 8)
		return;
	if (p->frag & IP_OFFSET) {
		p->tag = w[0];
		p->tag2 = w[1];
		return;
	}
	switch (p->proto) {
	case IPPROTO_TCP:
		if (have < TCP_HDR)
			break;
		p->sport = (__be16)w[0];
		p->dport = (__be16)(w[0] >> 16);
		p->tag = bpf_ntohl(w[1]);
		p->tag2 = w[2];
		/* data offset: upper four bits of byte 12 */
		if (have >= TCP_TIMESTAMPS && (w[3] & 0xf0) >= TCP_TIMESTAMPS << 2)
			p->tag2 ^= w[6];
		break;
	case IPPROTO_UDP:
		p->sport = (__be16)w[0];
		p->dport = (__be16)(w[0] >> 16);
		if (have >= UDP_HDR + 8) {
			p->tag = w[2];
			p->tag2 = w[3];
		}
		break;
	case IPPROTO_ICMP:
		p->icmp_type = w[0];
		p->icmp_code = w[0] >> 8;
		p->tag = w[0] & 0xffff;
		if (p->icmp_type == 0 || p->icmp_type == 8)
			tag_echo(p, w, have >= ICMP_HDR + 8);
		break;
	case IPPROTO_SCTP:
		p->sport = (__be16)w[0];
		p->dport = (__be16)(w[0] >> 16);
		p->tag = w[1];
		p->tag2 = have >= 20 ? w[4] : have >= 16 ? w[3] : 0;
		break;
	case IPPROTO_UDPLITE:
		p->sport = (__be16)w[0];
		p->dport = (__be16)(w[0] >> 16);
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

/* Reads what follows the IP header: ports, tag, number of segments. The caller
 * has pulled MAX_PULL bytes (or all there are) into the linear part. */
static __always_inline void parse_l4(struct __sk_buff *skb, struct packet *p)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	void *l4 = data + bounded(p->l4);
	__u32 have = p->l3 + p->len - p->l4;
	__be32 w[8] = {};

	p->sport = 0;
	p->dport = 0;
	p->icmp_type = 0;
	p->icmp_code = 0;
	/* The common sizes are copied whole; Ethernet padding is no content. */
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
	p->n = 1;
	p->l4_hdr = p->proto == IPPROTO_TCP ? (w[3] & 0xf0) >> 2 : UDP_HDR;
	/* Tunnels and SCTP: what each segment repeats and what it gets of its own is not
		 * what TCP and UDP do (a tunnel's UDP checksum is 0 by default). */
	p->odd_train = p->gso_size && p->proto != IPPROTO_TCP &&
		       (p->proto != IPPROTO_UDP || !(w[1] >> 16));
	if (p->gso_size) {
		__u32 hdr = p->l4 - p->l3 + p->l4_hdr;

		p->n = skb->gso_segs;
		/* AF_PACKET and tap vnet headers leave counting to the receiver. */
		if (!p->n)
			p->n = p->len > hdr ? (p->len - hdr + p->gso_size - 1) / p->gso_size : 1;
	}
}

#endif
