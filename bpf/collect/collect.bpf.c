// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The fast path of radar collect: telemetry reports that say nothing new.
 *
 * User space writes, for each flow, what a report without an event looks like: a template
 * (docs/design/0011-metrics.md). A report that fits is counted and kept as the template's last
 * one; every other goes up to user space, whole. Both are consumed. What comes to other ports,
 * fragments, and headers with options pass to the stack, where a socket waits for them.
 *
 * Nothing here knows what a report means, but for where its quoted packet begins: that tells
 * flows apart, and a guess that is wrong costs time only.
 */
#include "backpack/base.h"

#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>

#define PORTS 64
#define LOCALS 16
#define SMALL_WORDS 56
#define SMALL_BANDS 32
#define WORDS 160
#define BANDS 192

/* A band's field is the masked 4 bytes at an offset into the payload, of network byte order. */
struct rdr_band {
	__u16 off;
	__u16 flags;
	__u32 mask;
	__u32 lo; /* RDR_BAND_SHARED: index in bands */
	__u32 span; /* highest less lowest */
	__u32 summed; /* all ones: the field is a part of the sum; else 0 */
	__u32 pad;
};

enum rdr_band_flag {
	RDR_BAND_SHARED = 1,
};

struct rdr_shared_band {
	__u32 lo;
	__u32 span;
};

/* Whose reports are heard: a prefix. IPv4 is as IPv6 writes it, ::ffff:a.b.c.d. */
struct rdr_allowed {
	__u32 bits;
	__u32 addr[4]; /* network byte order */
};

struct rdr_template_head {
	__u64 taken;
	__u64 after;	/* number of the report it was made after; see ups */
	__u64 sum_lo;	/* of the summed bands' fields */
	__u64 sum_span;
	__u16 words; /* of 8 bytes */
	__u16 bands;
	__u8 single; /* the length of a report of TR 2.0 must reach to the payload's end */
	__u8 last;   /* which of the two buffers has the last one that fitted */
	__u16 tail;  /* offset of one word more, in the last place of the arrays: the payload has that */
	__u32 flow;	  /* index in bands of its flow's generation, which must be this */
	__u32 generation;
	__u32 has_flow; /* all ones, or 0 */
	__u32 max_len;	/* of the payload, bytes */
};

struct rdr_small {
	struct rdr_template_head head;
	__u64 mask[SMALL_WORDS];
	__u64 value[SMALL_WORDS];
	__u64 last[2 * SMALL_WORDS];
	struct rdr_band band[SMALL_BANDS];
};

struct rdr_large {
	struct rdr_template_head head;
	__u64 mask[WORDS];
	__u64 value[WORDS];
	__u64 last[2 * WORDS];
	struct rdr_band band[BANDS];
};

/* Before each packet that goes up. */
struct rdr_up {
	__u64 at_ns; /* CLOCK_MONOTONIC */
	__u64 key;
	__u64 number; /* of the report among those of this CPU that went up */
	__u32 ip;     /* offset of the IP header */
	__u32 pad;
};

/* What the two programs have worked out. */
struct rdr_work {
	__u64 key;
	__u32 payload; /* offset */
	__u32 len;     /* of the payload, bytes */
	__u32 ip;
	__u32 pad;
};

#define SLOTS (1 << 16)

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 16);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, struct rdr_small);
} small_templates SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 12);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, struct rdr_large);
} large_templates SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << 16);
	__type(key, __u32);
	__type(value, struct rdr_shared_band);
} bands SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, 4);
} up SEC(".maps");

/*
 * The number of the last report that went up, for each key (and others that share its slot): a
 * template holds only if it was made after that one. 0 is how many there were.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SLOTS + 1);
	__type(key, __u32);
	__type(value, __u64);
} ups SEC(".maps");

/* Reports that user space had no room for. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} shed SEC(".maps");

/* Looked at if n_allowed is not 0. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct rdr_allowed);
	__type(value, __u32);
} allowed SEC(".maps");

/* Reports of others than these. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} refused SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rdr_work);
} work SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} more SEC(".maps");

const volatile __u16 ports[PORTS] = { 32766 };
const volatile __u32 n_ports = 1;
/* Addresses that reports come to, IPv4's in b. What is sent to others is not for us. */
const volatile struct {
	__u64 a, b;
} locals[LOCALS];
const volatile __u32 n_locals = 0;
const volatile __u32 n_allowed = 0;
/* What is longer, from the IP header on, is a train that the stack will cut. */
const volatile __u32 mtu = 1500;

static __always_inline bool is_ours(__u16 port)
{
	for (__u32 i = 0; i < PORTS; i++) {
		if (i >= n_ports)
			break;
		if (ports[i] == port)
			return true;
	}
	return false;
}

static __always_inline bool is_local(__u64 a, __u64 b)
{
	for (__u32 i = 0; i < LOCALS; i++) {
		if (i >= n_locals)
			break;
		if (locals[i].a == a && locals[i].b == b)
			return true;
	}
	return false;
}

/* Whether reports of this address are heard; if not, that is counted. 16 bytes, as they are in memory. */
GLOBAL int is_allowed(__u64 a, __u64 b)
{
	struct rdr_allowed from = { .bits = 128, .addr = { a, a >> 32, b, b >> 32 } };
	__u32 zero = 0;
	__u64 *n;

	if (bpf_map_lookup_elem(&allowed, &from))
		return 1;
	n = bpf_map_lookup_elem(&refused, &zero);
	if (n)
		++*n;
	return 0;
}

static __always_inline __u64 mix(__u64 h, __u64 v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15ULL;
	return h ^ h >> 29;
}

/* Where the quoted packet's Ethernet or IP header is, by the report's own header; 0: not known. */
static __always_inline __u32 quoted_at(const __u8 *p, void *end, bool *ethernet)
{
	const __be32 *w = (const void *)p;
	__u32 first, at;

	if ((void *)(p + 16) > end)
		return 0;
	first = bpf_ntohl(w[0]);
	switch (first >> 28) {
	case 0:
		*ethernet = (first >> 24 & 15) != 4;
		switch (first >> 24 & 15) {
		case 0:
		case 4:
			return 12;
		case 1:
			return 24;
		case 2:
			return 28;
		}
		return 0;
	case 1: {
		__u32 bits = first >> 15 & 0x3f;

		bits = (bits & 0x15) + (bits >> 1 & 0x15);
		bits = (bits & 3) + (bits >> 2 & 3) + (bits >> 4 & 3);
		*ethernet = (first >> 21 & 7) == 0;
		return 16 + 4 * (bits & 7);
	}
	case 2:
		first = bpf_ntohl(w[2]);
		*ethernet = (first >> 24 & 15) == 3;
		at = 12;
		if (first >> 28 == 1)
			at += 8 + 4 * (first >> 8 & 0xff);
		return at;
	}
	return 0;
}

/* The key of a flow: what its quoted packet's header says, or but for that the report's node. */
static __always_inline __u64 key_of(const __u8 *p, void *end, __u64 from)
{
	__u32 version = p[0] >> 4;
	/* The node, of 1.0 and 2.0; 0.5 has its sequence number there. */
	__u64 h = mix(from, version == 1 || version == 2 ? *(const __be32 *)(p + 4) : 0);
	bool ethernet = false;
	__u32 at = quoted_at(p, end, &ethernet);
	const __u8 *q = p + (at & 0x7ff);
	__be16 type;

	if (at == 0 || (void *)(q + 34) > end)
		return h;
	if (ethernet) {
		type = *(const __be16 *)(q + 12);
		q += 14;
		for (int i = 0; i < 2; i++) {
			if (type != bpf_htons(ETH_P_8021Q) && type != bpf_htons(ETH_P_8021AD))
				break;
			if ((void *)(q + 4) > end)
				return h;
			type = *(const __be16 *)(q + 2);
			q += 4;
		}
	}
	if ((void *)(q + 24) > end)
		return h;
	if (q[0] == 0x45) {
		const __be32 *w = (const void *)q;

		h = mix(h, (__u64)w[3] << 32 | w[4]);
		return mix(h, (__u64)w[5] << 8 | q[9]);
	}
	if (q[0] >> 4 == 6 && (void *)(q + 44) <= end) {
		const __u64 *w = (const void *)(q + 8);

		h = mix(h, w[0]);
		h = mix(h, w[1]);
		h = mix(h, w[2]);
		h = mix(h, w[3]);
		return mix(h, (__u64) * (const __be32 *)(q + 40) << 8 | q[6]);
	}
	return h;
}

static __always_inline bool fits(struct rdr_template_head *t, const __u64 *mask, const __u64 *value, __u64 *last, const struct rdr_band *band,
				 const __u32 max_words, const __u32 max_bands, struct xdp_md *ctx, __u32 payload, __u32 len)
{
	const __u8 *p = (void *)(long)ctx->data + payload;
	void *end = (void *)(long)ctx->data_end;
	__u32 next = (~t->last & 1) * max_words;
	__u64 wrong = 0, sum = 0;
	__u32 n = t->words, m = t->bands;

	if (t->tail + 8u > len || len > t->max_len)
		return false;
	for (__u32 i = 0; i < max_words; i++) {
		const __u64 *w = (const void *)(p + 8 * i);

		if (i >= n)
			break;
		if ((void *)(w + 1) > end)
			return false;
		__u64 x = *w;
		wrong |= (x ^ value[i]) & mask[i];
		last[next + i] = x;
	}
	/* Anew, so that the verifier forgets how many words there were. */
	p = (void *)(long)*(volatile __u32 *)&ctx->data + payload;
	end = (void *)(long)*(volatile __u32 *)&ctx->data_end;
	/* What does not end with a word ends with one that overlaps. Otherwise its mask is 0. */
	const __u8 *w = p + (t->tail & 0x7ff);
	if ((void *)(w + 8) > end)
		return false;
	__u64 x = *(const __u64 *)w;
	wrong |= (x ^ value[max_words - 1]) & mask[max_words - 1];
	if (wrong)
		return false;
	last[next + max_words - 1] = x;
	m = *(volatile __u16 *)&t->bands;
	for (__u32 i = 0; i < max_bands; i++) {
		const struct rdr_band *b = &band[i];
		__u32 lo = b->lo, span = b->span, v;
		const __u8 *at;

		if (i >= m)
			break;
		at = p + (b->off & 0x7ff);
		if ((void *)(at + 4) > end)
			return false;
		v = bpf_ntohl(*(const __be32 *)at) & b->mask;
		sum += v & b->summed; /* no branch: the verifier would follow each */
		if (b->flags & RDR_BAND_SHARED) {
			struct rdr_shared_band *s = bpf_map_lookup_elem(&bands, &lo);

			if (!s || v == b->mask) /* all ones: no value */
				return false;
			lo = s->lo;
			span = s->span;
		}
		if (v - lo > span)
			return false;
	}
	if (t->single) {
		p = (void *)(long)*(volatile __u32 *)&ctx->data + payload;
		end = (void *)(long)*(volatile __u32 *)&ctx->data_end;
		if ((void *)(p + 10) > end || (p[9] != 255 && 15 + 4 * (__u32)p[9] < len))
			return false;
	}
	return sum - t->sum_lo <= t->sum_span;
}

static __always_inline __u32 slot_of(__u64 key)
{
	return 1 + (key & (SLOTS - 1));
}

static __always_inline bool is_fresh(const struct rdr_template_head *t, __u64 key)
{
	__u32 slot = slot_of(key), index = t->flow;
	struct rdr_shared_band *s = bpf_map_lookup_elem(&bands, &index);
	__u64 *last = bpf_map_lookup_elem(&ups, &slot);

	/* Without a branch more: the verifier would look at all that follows once more. */
	return s && last && *last <= t->after && !((s->lo ^ t->generation) & t->has_flow);
}

static __always_inline int go_up(struct xdp_md *ctx, const struct rdr_work *w)
{
	__u64 size = (__u64)(ctx->data_end - ctx->data) & 0xffff;
	__u32 zero = 0, slot = slot_of(w->key);
	struct rdr_up meta = { .at_ns = bpf_ktime_get_ns(), .key = w->key, .ip = w->ip };
	__u64 *n = bpf_map_lookup_elem(&ups, &zero), *last = bpf_map_lookup_elem(&ups, &slot);

	if (n && last)
		*last = meta.number = ++*n;
	if (bpf_perf_event_output(ctx, &up, BPF_F_CURRENT_CPU | size << 32, &meta, sizeof(meta))) {
		n = bpf_map_lookup_elem(&shed, &zero);
		if (n)
			++*n;
	}
	return XDP_DROP;
}

SEC("xdp")
int radar_collect(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	const __u8 *p, *ip = data + sizeof(struct ethhdr);
	const struct udphdr *udp;
	struct rdr_small *s;
	struct rdr_work *w;
	__u32 zero = 0, len;
	__be16 type;
	__u64 key, from_a, from_b;

	if ((void *)ip > end)
		return XDP_PASS;
	type = *(const __be16 *)(ip - 2);
	for (int i = 0; i < 2; i++) {
		if (type != bpf_htons(ETH_P_8021Q) && type != bpf_htons(ETH_P_8021AD))
			break;
		if ((void *)(ip + 4) > end)
			return XDP_PASS;
		type = *(const __be16 *)(ip + 2);
		ip += 4;
	}
	if (type == bpf_htons(ETH_P_IP)) {
		const struct iphdr *h = (const void *)ip;

		if ((void *)(h + 1) > end || h->version != 4 || h->ihl != 5 || h->protocol != 17 || h->frag_off & bpf_htons(0x3fff))
			return XDP_PASS;
		if (!is_local(0, h->daddr))
			return XDP_PASS;
		from_a = 0;
		from_b = (__u64)h->saddr << 32 | bpf_htonl(0xffff);
		key = mix(h->saddr, h->daddr);
		p = (const void *)(h + 1);
	} else if (type == bpf_htons(ETH_P_IPV6)) {
		const struct ipv6hdr *h = (const void *)ip;

		if ((void *)(h + 1) > end || h->version != 6 || h->nexthdr != 17)
			return XDP_PASS;
		if (!is_local(((const __u64 *)&h->daddr)[0], ((const __u64 *)&h->daddr)[1]))
			return XDP_PASS;
		from_a = ((const __u64 *)&h->saddr)[0];
		from_b = ((const __u64 *)&h->saddr)[1];
		key = mix(from_a, from_b);
		key = mix(key, ((const __u64 *)&h->daddr)[0]);
		key = mix(key, ((const __u64 *)&h->daddr)[1]);
		p = (const void *)(h + 1);
	} else {
		return XDP_PASS;
	}
	udp = (const void *)p;
	if ((void *)(udp + 1) > end || !is_ours(bpf_ntohs(udp->dest)))
		return XDP_PASS;
	p = (const void *)(udp + 1);
	w = bpf_map_lookup_elem(&work, &zero);
	len = bpf_ntohs(udp->len);
	if (!w || (void *)(p + 16) > end || len < sizeof(*udp) + 16 || len > (__u64)(end - (void *)udp) ||
	    (__u64)(end - (void *)ip) > mtu)
		return XDP_PASS;
	if (n_allowed && !is_allowed(from_a, from_b))
		return XDP_DROP;

	key = mix(key, (__u64)udp->dest << 32 | bpf_get_smp_processor_id());
	w->len = len - sizeof(*udp);
	w->ip = ip - (const __u8 *)data;
	w->payload = p - (const __u8 *)data;
	w->key = key = key_of(p, end, key);
	s = bpf_map_lookup_elem(&small_templates, &key);
	if (!s) {
		if (bpf_map_lookup_elem(&large_templates, &key))
			bpf_tail_call(ctx, &more, 0);
		return go_up(ctx, w);
	}
	if (!is_fresh(&s->head, key) ||
	    !fits(&s->head, s->mask, s->value, s->last, s->band, SMALL_WORDS, SMALL_BANDS, ctx, w->payload & 0x7f, w->len))
		return go_up(ctx, w);
	s->head.last ^= 1;
	s->head.taken++;
	return XDP_DROP;
}

/* A flow whose template is too large for the other one. */
SEC("xdp")
int radar_collect_large(struct xdp_md *ctx)
{
	struct rdr_large *l;
	struct rdr_work *w;
	__u32 zero = 0;
	__u64 key;

	w = bpf_map_lookup_elem(&work, &zero);
	if (!w)
		return XDP_PASS;
	key = w->key;
	l = bpf_map_lookup_elem(&large_templates, &key);
	if (!l || !is_fresh(&l->head, key) ||
	    !fits(&l->head, l->mask, l->value, l->last, l->band, WORDS, BANDS, ctx, w->payload & 0x7f, w->len))
		return go_up(ctx, w);
	l->head.last ^= 1;
	l->head.taken++;
	return XDP_DROP;
}

/* What the others are measured against (make bench). */
SEC("xdp")
int radar_drop(struct xdp_md *ctx)
{
	return XDP_DROP;
}

/* For bpf2go, which finds only types that something is of. */
const struct rdr_up *abi_up __attribute__((unused));
const struct rdr_allowed *abi_allowed __attribute__((unused));
const enum rdr_band_flag *abi_band_flag __attribute__((unused));

char LICENSE[] SEC("license") = "Dual BSD/GPL";
