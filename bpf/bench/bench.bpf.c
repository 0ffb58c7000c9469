// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What the radar programs are measured against (make bench; nothing else loads this):
 *
 *	nop	does nothing: what a TC program costs at least
 *	floor	reads what radar reads of a packet, and the clock once
 *	hash	the design of the vNetRadar paper: the backpack is an entry of a hash
 *		map, its key the GUID (3-tuple, FUID, fragment offset); inserted at the
 *		source, updated in transit, deleted at the sink. Its FUID is 2 bits of
 *		the DSCP, the IP ID and the whole TTL.
 *	direct	might write into the packet: for such a program the kernel makes the
 *		header of a cloned skb its own before the program runs
 *		(bpf_unclone_prologue)
 *	helper	might write by a helper, which makes the header its own when it writes
 *
 * The hash design keeps what Table II of the paper lists and, to know as much as a
 * slot of the ring, each hop's times. What the sink would still have to do with the
 * result before it deletes it is left out, and so are identity, trains, keys and
 * roles: it is a lower bound.
 */
#include "backpack/identity.h"
#include "backpack/ipv6.h"

#define PASS (-1)
#define MAX_HOPS 8

/* The port that an instance is attached to. */
const volatile __u32 port = 0;

struct fuid_key {
	__be32 saddr;
	__be32 daddr;
	__u32 fuid;
	__u16 frag;
	__u8 proto;
	__u8 pad;
};

struct fuid_backpack {
	__u64 first_ns;
	__u64 previous_ns;
	__be16 id;
	__u8 ttl;
	__u8 tos;
	__u16 device;
	__u16 hops;
	__be16 sport;
	__be16 dport;
	__u32 len;
	__u64 path[MAX_HOPS]; /* port:16 | ns since first:48 */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 20); /* load */
	__type(key, struct fuid_key);
	__type(value, struct fuid_backpack);
} backpacks SEC(".maps");

/* Each CPU hands out FUIDs by itself, which is the cheapest. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} next_fuid SEC(".maps");

/* Packets that the design lost sight of. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} missed SEC(".maps");

static __always_inline void miss(void)
{
	__u32 zero = 0;
	__u64 *n = bpf_map_lookup_elem(&missed, &zero);

	if (n)
		*n += 1;
}

static __always_inline bool parse(struct __sk_buff *skb, struct packet *p)
{
	pull_headers(skb, true);
	if (parse_link(skb, false, p) != PARSE_IPV4 || parse_ipv4(skb, p) != PARSE_IPV4)
		return false;
	parse_l4(skb, p);
	return true;
}

SEC("tc")
int bench_nop(struct __sk_buff *skb)
{
	return PASS;
}

/* Keeps the compiler from leaving out what nobody reads. */
static __always_inline void keep(const struct packet *p, __u64 now)
{
	asm volatile(""
		     :
		     : "r"(now), "r"(p->tag), "r"(p->tag2), "r"(p->len), "r"(p->n), "r"(p->saddr));
	asm volatile("" : : "r"(p->daddr), "r"(p->ports), "r"(p->bits.word), "r"(p->frag));
}

SEC("tc")
int bench_floor(struct __sk_buff *skb)
{
	struct packet p = {};

	if (!parse(skb, &p))
		return PASS;
	keep(&p, bpf_ktime_get_ns());
	return PASS;
}

/* The floor of IPv6. */
SEC("tc")
int bench_floor6(struct __sk_buff *skb)
{
	struct packet p = { .v6 = true };

	pull_headers(skb, false);
	if (parse_link(skb, false, &p) != PARSE_IPV6 || parse_ipv6(skb, &p) != PARSE_IPV6)
		return PASS;
	parse_l4(skb, &p);
	keep(&p, bpf_ktime_get_ns());
	return PASS;
}

/* Holds for no packet, which neither the compiler nor the verifier can know. */
static __always_inline bool never(struct __sk_buff *skb)
{
	return skb->mark == 0x6e657665;
}

SEC("tc")
int bench_write_direct(struct __sk_buff *skb)
{
	if (never(skb)) {
		struct iphdr *ip = (void *)(long)skb->data + ETH_HLEN;

		if ((void *)(ip + 1) <= (void *)(long)skb->data_end)
			ip->ttl = 1;
	}
	return PASS;
}

SEC("tc")
int bench_write_helper(struct __sk_buff *skb)
{
	__u8 ttl = 1;

	if (never(skb))
		bpf_skb_store_bytes(skb, ETH_HLEN + offsetof(struct iphdr, ttl), &ttl, 1, 0);
	return PASS;
}

static __always_inline union rdr_bits fuid_bits(__u32 fuid, __u8 tos)
{
	union rdr_bits bits;

	bits.id = bpf_htons(fuid);
	/* With a TTL of 0 to 3 a router would drop the packet. */
	bits.ttl = 4 + (__u8)((fuid >> 16) % 252);
	bits.tos = (tos & ~0x0c) | ((fuid >> 24) & 3) << 2;
	return bits;
}

/* The GUID of a packet whose TTL was lowered n times since the last of our ports. */
static __always_inline void make_key(const struct packet *p, union rdr_bits bits, __u32 n,
				     struct fuid_key *key)
{
	key->saddr = p->saddr;
	key->daddr = p->daddr;
	key->fuid = bpf_ntohs(bits.id) | (__u32)(__u8)(bits.ttl + n) << 16 |
		    (__u32)(bits.tos & 0x0c) << 22;
	key->frag = p->frag & IP_OFFSET;
	key->proto = p->proto;
	key->pad = 0;
}

static __always_inline void add_hop(struct fuid_backpack *b, __u64 now)
{
	__u32 k = b->hops;

	asm volatile("" : "+r"(k));
	if (k < MAX_HOPS) {
		b->path[k] = (__u64)port << 48 | (now - b->first_ns);
		b->hops = k + 1;
	}
	b->previous_ns = now;
	b->device = port;
}

SEC("tc")
int bench_hash_source(struct __sk_buff *skb)
{
	struct fuid_backpack b = {};
	struct fuid_key key;
	struct packet p = {};
	union rdr_bits bits;
	__u32 zero = 0, *next;

	if (!parse(skb, &p) || !is_atomic(&p))
		return PASS;
	next = bpf_map_lookup_elem(&next_fuid, &zero);
	if (!next)
		return PASS;
	/* The CPU takes the upper bits. */
	bits = fuid_bits((++*next & 0xffffff) | bpf_get_smp_processor_id() << 24, p.bits.tos);
	make_key(&p, bits, 0, &key);
	b.first_ns = bpf_ktime_get_ns();
	b.id = p.bits.id;
	b.ttl = p.bits.ttl;
	b.tos = p.bits.tos;
	b.sport = p.ports;
	b.dport = p.ports >> 16;
	b.len = p.len;
	add_hop(&b, b.first_ns);
	if (bpf_map_update_elem(&backpacks, &key, &b, BPF_NOEXIST) ||
	    !write_bits4(skb, p.l3, bits, 0))
		miss();
	return PASS;
}

SEC("tc")
int bench_hash_transit_in(struct __sk_buff *skb)
{
	struct fuid_backpack *b;
	struct packet p = {};
	struct fuid_key key;

	if (!parse(skb, &p) || !is_atomic(&p))
		return PASS;
	make_key(&p, p.bits, 0, &key);
	b = bpf_map_lookup_elem(&backpacks, &key);
	if (b)
		add_hop(b, bpf_ktime_get_ns());
	else
		miss();
	return PASS;
}

SEC("tc")
int bench_hash_transit_out(struct __sk_buff *skb)
{
	struct fuid_backpack *b;
	struct packet p = {};
	struct fuid_key key;
	union rdr_bits bits;

	if (!parse(skb, &p) || !is_atomic(&p))
		return PASS;
	make_key(&p, p.bits, 1, &key);
	b = bpf_map_lookup_elem(&backpacks, &key);
	if (!b) {
		miss();
		return PASS;
	}
	add_hop(b, bpf_ktime_get_ns());
	/* The node has lowered the GUID's TTL: restore it, and lower the true one. */
	b->ttl--;
	bits = p.bits;
	bits.ttl++;
	if (!write_bits4(skb, p.l3, bits, 0))
		miss();
	return PASS;
}

SEC("tc")
int bench_hash_sink(struct __sk_buff *skb)
{
	struct fuid_backpack *b;
	struct packet p = {};
	struct fuid_key key;
	union rdr_bits bits;

	if (!parse(skb, &p) || !is_atomic(&p))
		return PASS;
	make_key(&p, p.bits, 0, &key);
	b = bpf_map_lookup_elem(&backpacks, &key);
	if (!b) {
		miss();
		return PASS;
	}
	add_hop(b, bpf_ktime_get_ns());
	bits.id = b->id;
	bits.ttl = b->ttl;
	bits.tos = b->tos;
	if (!write_bits4(skb, p.l3, bits, 0) || bpf_map_delete_elem(&backpacks, &key))
		miss();
	return PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
