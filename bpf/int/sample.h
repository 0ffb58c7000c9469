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

/* What chooses a packet. What it does not have is 0. */
struct chosen_by {
	__u64 saddr[2];
	__u64 daddr[2];
	__u8 proto;
	__be16 sport;
	__be16 dport;
	__be16 id; /* IPv4's */
	__be32 seq;
	__be32 ack;
	__u16 tcp_check;
	__u16 udp_check;
} __attribute__((packed));

static __always_inline __u32 crc32(const struct chosen_by *by)
{
	const __u8 *at = (const __u8 *)by;
	__u32 crc = ~0U;

	for (__u32 i = 0; i < sizeof(*by); i++) {
		crc = crc_of(crc ^ at[i]) ^ crc >> 4;
		crc = crc_of(crc ^ at[i] >> 4) ^ crc >> 4;
	}
	return ~crc;
}

static __always_inline bool is_chosen_by_hash(struct __sk_buff *skb, const struct packet *p,
					      __u32 sample)
{
	struct chosen_by by = { .proto = p->proto };
	struct {
		__be32 saddr, daddr;
	} ip = {};
	int failed;

	if (p->v6) {
		failed = bpf_skb_load_bytes(skb, p->l3 + offsetof(struct ip6_header, saddr),
					    &by.saddr, sizeof(by.saddr) + sizeof(by.daddr));
	} else {
		failed = bpf_skb_load_bytes(skb, p->l3 + offsetof(struct iphdr, saddr), &ip,
					    sizeof(ip)) ||
			 bpf_skb_load_bytes(skb, p->l3 + offsetof(struct iphdr, id), &by.id,
					    sizeof(by.id));
		map_ipv4(by.saddr, ip.saddr);
		map_ipv4(by.daddr, ip.daddr);
	}
	failed |= bpf_skb_load_bytes(skb, p->l4, &by.sport, sizeof(by.sport) + sizeof(by.dport));
	if (p->proto == IPPROTO_TCP) {
		failed |= bpf_skb_load_bytes(skb, p->l4 + offsetof(struct tcphdr, seq), &by.seq,
					     sizeof(by.seq) + sizeof(by.ack));
		by.tcp_check = p->check;
	} else {
		by.udp_check = p->check;
	}
	return !failed && crc32(&by) % sample == 0;
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
