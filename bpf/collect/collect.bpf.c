// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The fast path of radar collect: telemetry reports that say nothing new.
 *
 * User space writes, for each flow, what a report without an event looks like: a template
 * (docs/design/0011-metrics.md). A report that fits is counted and kept as the template's last
 * one; every other goes up to user space, whole. Both are consumed. What comes to other ports,
 * fragments, and headers with options pass to the stack, where a socket waits for them.
 *
 * The programs know nothing of a report but where its quoted packet begins. That separates
 * flows, and a wrong guess only costs time.
 */
#include "flow.h"
#include "template.h"

static __always_inline bool is_ours(__u16 port)
{
	for (__u32 i = 0; i < PORTS; i++) {
		if (i >= cfg_port_count)
			break;
		if (cfg_ports[i] == port)
			return true;
	}
	return false;
}

static __always_inline bool is_local(__u64 a, __u64 b)
{
	for (__u32 i = 0; i < LOCALS; i++) {
		if (i >= cfg_local_count)
			break;
		if (cfg_locals[i].a == a && cfg_locals[i].b == b)
			return true;
	}
	return false;
}

/* Whether reports of this address are heard; if not, that is counted. 16 bytes, as they are in memory. */
GLOBAL int is_allowed(__u64 a, __u64 b)
{
	struct collect_allowed from = { .bits = 128, .addr = { a, a >> 32, b, b >> 32 } };

	if (bpf_map_lookup_elem(&allowed, &from))
		return 1;
	add_count(&refused, 0, 1);
	return 0;
}

static __always_inline int go_up(struct xdp_md *ctx, const struct collect_work *w)
{
	__u64 size = (__u64)(ctx->data_end - ctx->data) & 0xffff;
	__u32 slot = slot_of(w->key);
	struct collect_up meta = { .at_ns = bpf_ktime_get_ns(), .key = w->key, .ip = w->ip };
	__u64 *n = page(&ups), *last = bpf_map_lookup_elem(&ups, &slot);

	if (n && last)
		*last = meta.number = ++*n;
	if (bpf_perf_event_output(ctx, &up, BPF_F_CURRENT_CPU | size << 32, &meta, sizeof(meta)))
		add_count(&shed, 0, 1);
	return XDP_DROP;
}

SEC("xdp")
int radar_collect(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct cursor c = cursor_at(data, end, 0);
	const struct udphdr *udp;
	struct packet h;
	struct tuple t;
	struct collect_small *s;
	struct collect_work *w;
	__u32 len;
	__u64 key;

	if (parse_ip(&c, &h, &t) || h.proto != IPPROTO_UDP || h.l4 - h.l3 != ip_size(&h) ||
	    !is_local(t.daddr[0], t.daddr[1]))
		return XDP_PASS;
	udp = c.at;
	if (!step(&c, sizeof(*udp)) || !is_ours(bpf_ntohs(udp->dest)))
		return XDP_PASS;
	w = page(&work);
	len = bpf_ntohs(udp->len);
	if (!w || c.at + MIN_REPORT > end || len < sizeof(*udp) + MIN_REPORT ||
	    len > (__u64)(end - (void *)udp) || (__u64)(end - data) - h.l3 > cfg_mtu)
		return XDP_PASS;
	if (cfg_allowed_count && !is_allowed(t.saddr[0], t.saddr[1]))
		return XDP_DROP;

	t.proto = IPPROTO_UDP;
	t.sport = 0; /* a node may report from any */
	t.dport = udp->dest;
	key = hash_tuple(bpf_get_smp_processor_id(), &t, h.v6);
	w->len = len - sizeof(*udp);
	w->ip = h.l3;
	w->payload = c.off;
	w->key = key = key_of(c.at, end, key);
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
	struct collect_large *l;
	struct collect_work *w;
	__u64 key;

	w = page(&work);
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
const struct collect_up *abi_up __attribute__((unused));
const struct collect_allowed *abi_allowed __attribute__((unused));
const enum collect_band_flag *abi_band_flag __attribute__((unused));

char LICENSE[] SEC("license") = "Dual BSD/GPL";
