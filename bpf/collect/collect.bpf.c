// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The fast path of radar collect: telemetry reports that say nothing new.
 *
 * User space writes, for each flow, what a report without an event looks like: a template
 * (docs/design/0011-metrics.md). A report that fits is counted and kept as the template's last
 * one; every other goes up to user space, whole. Both are consumed. What comes to other ports,
 * fragments, and headers with options pass to the stack, where a socket waits for them.
 *
 * The programs know nothing of a report but where its quoted packet begins. That tells flows
 * apart, and a wrong guess only costs time.
 */
#include "flow.h"
#include "template.h"

#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>

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
		if (!is_vlan(type))
			break;
		if ((void *)(ip + 4) > end)
			return XDP_PASS;
		type = *(const __be16 *)(ip + 2);
		ip += 4;
	}
	if (type == bpf_htons(ETH_P_IP)) {
		const struct iphdr *h = (const void *)ip;

		if ((void *)(h + 1) > end || h->version != 4 || h->ihl != 5 || h->protocol != 17 ||
		    h->frag_off & bpf_htons(0x3fff))
			return XDP_PASS;
		if (!is_local(0, h->daddr))
			return XDP_PASS;
		from_a = 0;
		from_b = (__u64)h->saddr << 32 | bpf_htonl(0xffff);
		key = hash_mix(h->saddr, h->daddr);
		p = (const void *)(h + 1);
	} else if (type == bpf_htons(ETH_P_IPV6)) {
		const struct ipv6hdr *h = (const void *)ip;

		if ((void *)(h + 1) > end || h->version != 6 || h->nexthdr != 17)
			return XDP_PASS;
		if (!is_local(((const __u64 *)&h->daddr)[0], ((const __u64 *)&h->daddr)[1]))
			return XDP_PASS;
		from_a = ((const __u64 *)&h->saddr)[0];
		from_b = ((const __u64 *)&h->saddr)[1];
		key = hash_mix(from_a, from_b);
		key = hash_mix(key, ((const __u64 *)&h->daddr)[0]);
		key = hash_mix(key, ((const __u64 *)&h->daddr)[1]);
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
	if (!w || (void *)(p + 16) > end || len < sizeof(*udp) + 16 ||
	    len > (__u64)(end - (void *)udp) || (__u64)(end - (void *)ip) > mtu)
		return XDP_PASS;
	if (n_allowed && !is_allowed(from_a, from_b))
		return XDP_DROP;

	key = hash_mix(key, (__u64)udp->dest << 32 | bpf_get_smp_processor_id());
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
	    !fits(&s->head, s->mask, s->value, s->last, s->band, SMALL_WORDS, SMALL_BANDS, ctx,
		  w->payload & 0x7f, w->len))
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
	    !fits(&l->head, l->mask, l->value, l->last, l->band, WORDS, BANDS, ctx,
		  w->payload & 0x7f, w->len))
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
