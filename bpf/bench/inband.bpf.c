// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * In-band telemetry as PPTMon does it, to compare with (experiments; nothing else loads
 * this): packets of one direction carry what was measured, between their IP header and
 * what follows it. After k nodes that is
 *
 *	struct inband	4 bytes
 *	k times		__be32: ns that the packet spent in that node
 *
 * The first node puts the header in, each node a word: at its ingress the time, at its
 * egress the difference. The sink takes everything out and reports it through a ring
 * buffer, without waking anybody up. Fragments, packets with options and trains pass
 * as they are: a train's segments would all carry the same words.
 */
#include "lib/base.h"

#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>

#define PASS (-1)
#define IP_AT ((int)sizeof(struct ethhdr))
#define INBAND_AT (IP_AT + (int)sizeof(struct iphdr))
#define MAGIC 0x5241 /* "RA" */
#define MAX_HOPS 64
#define WORD ((int)sizeof(__be32))

struct inband {
	__be16 magic;
	__be16 hops;
};

struct inband_report {
	__u32 hops;
	__be32 ns[MAX_HOPS];
};

/* Only packets for this address are measured. */
const volatile __be32 destination = 0;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} reports SEC(".maps");

/* How many packets, by what became of them. */
enum inband_counter {
	INBAND_MEASURED,  /* words were put in */
	INBAND_REPORTED,  /* taken out, and in the ring buffer */
	INBAND_RING_FULL, /* taken out, and not reported */
	INBAND_REFUSED,	  /* the kernel had no room for the words */
	INBAND_COUNTERS
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, INBAND_COUNTERS);
	__type(key, enum inband_counter);
	__type(value, __u64);
} counters SEC(".maps");

static __always_inline void count(enum inband_counter which)
{
	__u64 *n = bpf_map_lookup_elem(&counters, &which);

	if (n)
		*n += 1;
}

/* Whether it is measured; ip gets its header, h what follows that. */
static __always_inline bool is_ours(struct __sk_buff *skb, struct iphdr *ip, struct inband *h)
{
	if (skb->protocol != bpf_htons(ETH_P_IP) || skb->gso_size)
		return false;
	if (bpf_skb_load_bytes(skb, IP_AT, ip, sizeof(*ip)) ||
	    bpf_skb_load_bytes(skb, INBAND_AT, h, sizeof(*h)))
		return false;
	return ip->ihl == 5 && ip->daddr == destination && !(ip->frag_off & bpf_htons(0x3fff));
}

/* Makes room behind the IP header, or takes it away. */
static __always_inline bool grow(struct __sk_buff *skb, const struct iphdr *ip, int bytes)
{
	__be16 len = bpf_htons(bpf_ntohs(ip->tot_len) + bytes);

	if (bpf_skb_adjust_room(skb, bytes, BPF_ADJ_ROOM_NET, 0))
		return false;
	bpf_l3_csum_replace(skb, IP_AT + offsetof(struct iphdr, check), ip->tot_len, len,
			    sizeof(len));
	bpf_skb_store_bytes(skb, IP_AT + offsetof(struct iphdr, tot_len), &len, sizeof(len), 0);
	return true;
}

static __always_inline __u32 word_at(__u32 hop)
{
	return INBAND_AT + sizeof(struct inband) + hop * WORD;
}

SEC("tc")
int inband_ingress(struct __sk_buff *skb)
{
	struct inband h;
	struct iphdr ip;
	__u32 hops = 0;
	__be32 now;

	if (!is_ours(skb, &ip, &h))
		return PASS;
	if (h.magic == bpf_htons(MAGIC))
		hops = bpf_ntohs(h.hops);
	if (hops >= MAX_HOPS || !grow(skb, &ip, hops ? WORD : WORD + (int)sizeof(h))) {
		count(INBAND_REFUSED);
		return PASS;
	}
	/* The new room lies right behind the IP header: the words move by one. */
	h.magic = bpf_htons(MAGIC);
	h.hops = bpf_htons(hops + 1);
	now = bpf_htonl((__u32)bpf_ktime_get_ns());
	bpf_skb_store_bytes(skb, INBAND_AT, &h, sizeof(h), 0);
	bpf_skb_store_bytes(skb, word_at(0), &now, sizeof(now), 0);
	if (!hops)
		count(INBAND_MEASURED);
	return PASS;
}

SEC("tc")
int inband_egress(struct __sk_buff *skb)
{
	struct inband h;
	struct iphdr ip;
	__be32 spent;

	if (!is_ours(skb, &ip, &h) || h.magic != bpf_htons(MAGIC))
		return PASS;
	if (bpf_skb_load_bytes(skb, word_at(0), &spent, sizeof(spent)))
		return PASS;
	spent = bpf_htonl((__u32)bpf_ktime_get_ns() - bpf_ntohl(spent));
	bpf_skb_store_bytes(skb, word_at(0), &spent, sizeof(spent), 0);
	return PASS;
}

SEC("tc")
int inband_sink(struct __sk_buff *skb)
{
	struct inband_report *r;
	struct inband h;
	struct iphdr ip;
	__u32 hops, bytes;

	if (!is_ours(skb, &ip, &h) || h.magic != bpf_htons(MAGIC))
		return PASS;
	hops = bpf_ntohs(h.hops);
	bytes = hops * WORD;
	asm volatile("" : "+r"(bytes)); /* the verifier shall see this bound, not that of hops */
	if (bytes < WORD || bytes > sizeof(r->ns))
		return PASS;
	r = bpf_ringbuf_reserve(&reports, sizeof(*r), 0);
	if (r) {
		r->hops = hops;
		if (bpf_skb_load_bytes(skb, word_at(0), r->ns, bytes))
			r->hops = 0;
		bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
		count(INBAND_REPORTED);
	} else {
		count(INBAND_RING_FULL);
	}
	if (!grow(skb, &ip, -(int)(bytes + sizeof(h))))
		count(INBAND_REFUSED);
	return PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
