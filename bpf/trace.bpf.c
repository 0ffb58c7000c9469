// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Losses: every kfree_skb of a packet that has a backpack is written into it, with
 * the function that freed it and the reason. A drop is provisional: a later
 * sighting withdraws it (the packet was a copy), a second drop adds nothing.
 */
#include "radar/base.h"
#include "radar/config.h"
#include "radar/maps.h"
#include "radar/kernel.h"
#include "radar/find.h"

static __always_inline bool lies_in(const volatile struct rdr_range *r, __u64 location)
{
	return location >= r->from && location < r->to;
}

/* Drops that are no losses: of packet taps and ping sockets, by function; of frames
 * for another host, which have come by a bridge that flooded them. */
static __always_inline bool ignored(struct sk_buff *skb, __u64 location)
{
#pragma unroll
	for (int i = 0; i < RDR_MAX_IGNORE; i++)
		if (lies_in(&cfg_ignore[i], location))
			return true;
#pragma unroll
	for (int i = 0; i < RDR_MAX_STRANGER; i++)
		if (lies_in(&cfg_stranger[i], location))
			return BPF_CORE_READ_BITFIELD_PROBED(skb, pkt_type) == PACKET_OTHERHOST;
	return false;
}

/* Reads what parse() reads in TC, from the linear part of the skb. */
static __always_inline bool read_packet(struct sk_buff *skb, struct packet *p)
{
	unsigned char *ip_at = skb->head + skb->network_header;
	__u32 linear = skb->tail - skb->network_header, hdr, have;
	struct skb_shared_info *shared;
	struct iphdr ip;
	__be32 w[8] = {};

	if (skb->protocol != bpf_htons(ETH_P_IP) || skb->tail < skb->network_header ||
	    linear < sizeof(ip) || bpf_probe_read_kernel(&ip, sizeof(ip), ip_at))
		return false;
	hdr = ip.ihl * 4;
	if (ip.version != 4 || hdr < sizeof(ip) || linear < hdr)
		return false;
	shared = (void *)(skb->head + skb->end);
	p->gso_size = BPF_CORE_READ(shared, gso_size);
	p->len = bpf_ntohs(ip.tot_len);
	if (!p->len && p->gso_size)
		p->len = skb->len;
	if (p->len < hdr)
		return false;
	p->l3 = 0;
	p->l4 = hdr;
	p->saddr = ip.saddr;
	p->daddr = ip.daddr;
	p->bits.id = ip.id;
	p->bits.ttl = ip.ttl;
	p->bits.tos = ip.tos;
	p->frag = bpf_ntohs(ip.frag_off);
	p->proto = ip.protocol;
	have = p->len - hdr;
	if (have > linear - hdr) {
		have = linear - hdr;
		p->partial = have < 32;
	}
	/* The same steps as in parse_l4(): equal bytes, equal tag. */
	have = have >= 32 ? 32 : have >= 20 ? 20 : have >= 16 ? 16 : have >= 8 ? 8 : 0;
	if (have && bpf_probe_read_kernel(w, sizeof(w), ip_at + (hdr & 0x3c)))
		return false;
	make_tag(p, w, have);
	p->n = 1;
	if (p->gso_size) {
		__u32 hdrs = hdr + (p->proto == IPPROTO_TCP ? (w[3] & 0xf0) >> 2 : UDP_HDR);

		p->n = BPF_CORE_READ(shared, gso_segs);
		if (!p->n)
			p->n = p->len > hdrs ? (p->len - hdrs + p->gso_size - 1) / p->gso_size : 1;
	}
	return true;
}

/* Port of the device that holds the skb, RDR_NO_PORT if it is none of ours. */
static __always_inline __u32 read_port(struct sk_buff *skb)
{
	struct net_device *dev = skb->dev;
	struct rdr_dev key = {};
	__u32 *found;

	/* In socket queues the field holds something else; the reads then fail or
	 * find no such device. */
	if (!dev)
		return RDR_NO_PORT;
	key.netns_inum = BPF_CORE_READ(dev, nd_net.net, ns.inum);
	key.ifindex = BPF_CORE_READ(dev, ifindex);
	found = bpf_map_lookup_elem(&devs, &key);
	return found ? *found : RDR_NO_PORT;
}

/* First 8 bytes of the name of the device's root qdisc. */
static __always_inline __u64 read_qdisc(struct sk_buff *skb)
{
	struct net_device *dev = skb->dev;
	__u64 name = 0;

	bpf_probe_read_kernel(&name, sizeof(name), BPF_CORE_READ(dev, qdisc, ops, id));
	return name;
}

/* Writes the loss into one slot; skbs are counted by RDR_EVF_FIRST. */
GLOBAL __u32 lose_one(__u32 index, __u32 k_n, __u64 packed, __u64 where, __u64 qdisc)
{
	__u32 k = k_n & 0xffff, n = k_n >> 16, span = 1;
	__u32 port = packed & 0xffff, flags = k ? 0 : RDR_EVF_FIRST;
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	struct rdr_slot *h;
	__u8 state;

	if (!s)
		return n;
	state = s->state;
	if (s->seg || (s->cut & RDR_CUT) || s->segs > n - k) {
		h = head_of(s);
		/* The train went somewhere as a whole: so did this segment. */
		if (h && s->seg && !(h->cut & RDR_CUT))
			state |= h->state & RDR_ST_DONE;
		if (h && h->segs > 1)
			cut_train(h);
		flags |= RDR_EVF_PART;
	} else if (s->segs) {
		span = s->segs;
	}
	if (state & RDR_ST_LOST)
		return span;
	if ((state & RDR_ST_DONE) && !(state & RDR_ST_LOCAL_DROP)) {
		/* Delivered, or left: what frees it now is the destination's doing. */
		s->state = state | RDR_ST_LOCAL_DROP;
		count(RDR_C_LOCAL_DROP, span);
	} else if (state & RDR_ST_DONE) {
		return span;
	} else {
		s->state = state | RDR_ST_DONE | RDR_ST_LOST | (packed >> 16 & RDR_ST_HELD);
		count(RDR_C_LOSS_EVENT, span);
	}
	add_event_data(s, RDR_EV_LOSS, flags, port, bpf_ktime_get_ns(), where, qdisc);
	return span;
}

GLOBAL int lose_run(__u32 index, __u32 n, __u64 packed, __u64 where, __u64 qdisc)
{
	__u32 k = 0;

	for (__u32 i = 0; i < RDR_MAX_RUN && k < n; i++)
		k += lose_one(index + k, k | n << 16, packed, where, qdisc);
	return 0;
}

/* Drop reasons have a subsystem in their upper half (0: the core); both in 16 bits. */
static __always_inline __u32 pack_reason(__u32 reason)
{
	return (reason & 0xfff) | (reason >> 16 & 0xf) << 12;
}

SEC("tp_btf/kfree_skb")
int radar_kfree_skb(__u64 *ctx)
{
	struct sk_buff *skb = (void *)ctx[0];
	__u64 location = ctx[1], now, where, qdisc;
	struct packet p = {};
	struct found f = {};
	__u32 port, mark, reason = 0;
	bool in_node = false;

	/* The hook sees every drop of the machine, other domains' among them. On the
	 * wire our packets are held by our ports, inside nodes they bear our mark. */
	mark = skb->mark & cfg_mark_mask;
	port = read_port(skb);
	if (port == RDR_NO_PORT && !mark)
		return 0;
	if (!read_packet(skb, &p))
		return 0;
	now = bpf_ktime_get_ns();
	if (mark)
		in_node = find_by_mark(mark, &p, now, &f);
	if (!in_node && (port == RDR_NO_PORT || !find_on_wire(&p, now, EXPECT_OURS, &f)))
		return 0;
	if (ignored(skb, location)) {
		count(RDR_C_LOSS_IGNORED, p.n);
		return 0;
	}
	if (cfg_has_reason)
		reason = pack_reason(ctx[2]);
	qdisc = port == RDR_NO_PORT ? 0 : read_qdisc(skb);
	where = (__u64)reason << 48 | (location & 0xffffffffffffULL);
	lose_run(f.index, p.n, port | (in_node ? RDR_ST_HELD << 16 : 0), where, qdisc);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
