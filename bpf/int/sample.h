/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One packet in N. The source of INT-MD and INT-MX decides alone, at random. With INT-XD all nodes
 * have to choose the same packets: a hash of what no node changes, the same as in
 * p4/include/int/source.p4.
 */
#ifndef INT_SAMPLE_H
#define INT_SAMPLE_H

#include "packet.h"

/* CRC-32 (IEEE 802.3), for four bits at a time. */
static const __u32 crc_table[16] = {
	0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
	0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
	0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
};

/* With an index that Linux 5.10 can follow, too. */
static __always_inline __u32 crc_of(__u64 x)
{
	asm volatile("%0 &= 15" : "+r"(x));
	return crc_table[x];
}

/* Addresses (IPv4 as ::ffff:a.b.c.d), protocol, ports, IPv4's ID, TCP's numbers and checksum, UDP's
 * checksum; what a packet has none of is 0. */
#define CHOSEN_BY 51

static __always_inline __u32 crc32(const __u8 *at)
{
	__u32 crc = ~0U;

	for (__u32 i = 0; i < CHOSEN_BY; i++) {
		crc = crc_of(crc ^ at[i]) ^ crc >> 4;
		crc = crc_of(crc ^ at[i] >> 4) ^ crc >> 4;
	}
	return ~crc;
}

static __always_inline void copy(__u8 *to, const void *from, __u32 n)
{
	for (__u32 i = 0; i < n; i++)
		to[i] = ((const __u8 *)from)[i];
}

static __always_inline bool is_chosen_by_hash(struct __sk_buff *skb, const struct packet *p,
					      __u32 sample)
{
	__u8 b[CHOSEN_BY + 5] = {};
	__be32 mapped = bpf_htonl(0xffff); /* the end of ::ffff:0:0/96 */
	bool failed;

	if (p->v6) {
		failed = bpf_skb_load_bytes(skb, p->l3 + 8, b, 32);
	} else {
		copy(b + 8, &mapped, sizeof(mapped));
		copy(b + 24, &mapped, sizeof(mapped));
		failed = bpf_skb_load_bytes(skb, p->l3 + 12, b + 12, 4) ||
			 bpf_skb_load_bytes(skb, p->l3 + 16, b + 28, 4) ||
			 bpf_skb_load_bytes(skb, p->l3 + 4, b + 37, 2);
	}
	b[32] = p->proto;
	failed |= bpf_skb_load_bytes(skb, p->l4, b + 33, 4) != 0;
	if (p->proto == IPPROTO_TCP) {
		failed |= bpf_skb_load_bytes(skb, p->l4 + 4, b + 39, 8) != 0;
		copy(b + 47, &p->check, 2);
	} else {
		copy(b + 49, &p->check, 2);
	}
	return !failed && crc32(b) % sample == 0;
}

static __always_inline bool is_chosen(struct __sk_buff *skb, const struct packet *p,
				      const struct int_entry *e)
{
	if (e->sample <= 1)
		return true;
	if (e->mode == INT_MODE_XD)
		return is_chosen_by_hash(skb, p, e->sample);
	return bpf_get_prandom_u32() % e->sample == 0;
}

#endif
