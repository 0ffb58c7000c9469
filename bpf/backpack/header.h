/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The header bits that carry a GUID: how they are written into a packet (stamp_guid()) and how
 * the true ones are put back (restore_header()). Bits are ID, TTL and TOS; in IPv6 the low 16 bits
 * of the flow label, the hop limit and the traffic class. guid.h says which bits mean which slot,
 * hop.h when a packet is stamped and restored. Headers that an ICMP error quotes are restored by
 * quote.h and quote6.h, with set_bits4() and set_bits6().
 */
#ifndef BACKPACK_HEADER_H
#define BACKPACK_HEADER_H

#include "lib/checksum.h"
#include "lib/ipv6.h"
#include "packet.h"

/*
 * Writes bits into an IPv4 header and corrects its checksum. The sum over the header stays the
 * same, so CHECKSUM_COMPLETE holds too.
 *
 * minus_zero: the form of a zero checksum. Senders write 0. Linux writes 0xffff where a queue
 * sets CE (IP_ECN_set_ce()) or nftables changes a field (CSUM_MANGLED_0).
 */
static __always_inline void set_bits4(struct iphdr *ip, union rdr_bits new, __u32 minus_zero)
{
	__u32 sum = (__u16)~ip->check;

	sum += sum_change(ip->id, new.id);
	/* TTL and TOS share their 16-bit words with unchanged bytes. */
	sum += sum_change(ip->ttl, new.ttl);
	sum += sum_change(ip->tos << 8, new.tos << 8);
	ip->check = sum_to_check(sum, minus_zero);
	ip->id = new.id;
	ip->ttl = new.ttl;
	ip->tos = new.tos;
}

/* set_bits4() in the packet. It is written to directly: the program's prologue has unshared a
 * cloned header. */
static __always_inline bool write_bits4(struct __sk_buff *skb, __u32 l3, union rdr_bits new,
					__u32 minus_zero)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct iphdr *ip = data + bounded(l3);

	if ((void *)(ip + 1) > end)
		return false;
	set_bits4(ip, new, minus_zero);
	return true;
}

static __always_inline union rdr_bits bits6(const struct ip6_start *ip)
{
	union rdr_bits b;

	b.id = ip->label;
	b.ttl = ip->hop_limit;
	b.tos = ip->version_class << 4 | ip->class_label >> 4;
	return b;
}

static __always_inline void set_bits6(struct ip6_start *ip, union rdr_bits b)
{
	ip->version_class = (ip->version_class & 0xf0) | b.tos >> 4;
	ip->class_label = (ip->class_label & 0x0f) | b.tos << 4;
	ip->label = b.id;
	ip->hop_limit = b.ttl;
}

/* The sum, in 16 bits, of the 16-bit words that have the bits. The hop limit shares its
 * word with the next header's type, which does not change. */
static __always_inline __u32 sum6(const struct ip6_start *ip)
{
	__u32 sum = ip->version_class | ip->class_label << 8;

	sum += ip->label;
	sum += ip->hop_limit << 8;
	return sum_fold(sum);
}

/*
 * set_bits6() in the packet. IPv6 has no header checksum, so the device's sum over the packet
 * (CHECKSUM_COMPLETE) is corrected by the difference (RFC 1624).
 */
static __always_inline bool write_bits6(struct __sk_buff *skb, __u32 l3, union rdr_bits new)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct ip6_start *ip = data + bounded(l3);
	__u32 sum;

	if ((void *)(ip + 1) > end)
		return false;
	sum = sum6(ip) ^ 0xffff;
	set_bits6(ip, new);
	sum += sum6(ip);
	bpf_csum_update(skb, sum);
	return true;
}

/* Writes bits that carry a slot's index into p's header. */
static __always_inline bool stamp_guid(struct __sk_buff *skb, const struct packet *p,
				       union rdr_bits new)
{
	return p->v6 ? write_bits6(skb, p->l3, new) : write_bits4(skb, p->l3, new, 0);
}

/* Writes the true bits into p's header; minus_zero: the form of a zero checksum, see set_bits4(). */
static __always_inline bool restore_header(struct __sk_buff *skb, const struct packet *p,
					   union rdr_bits new, __u32 minus_zero)
{
	return p->v6 ? write_bits6(skb, p->l3, new) : write_bits4(skb, p->l3, new, minus_zero);
}

#endif
