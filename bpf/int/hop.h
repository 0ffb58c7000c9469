/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What source, transit and sink do to a packet. */
#ifndef INT_HOP_H
#define INT_HOP_H

#include "report.h"
#include "sample.h"

/*
 * Each of the three is a function that the verifier checks once. They find the packet, what was
 * found in it, and the entry of the watchlist in works[0].
 */

/* Writes the shim and the header of a new stack. `original` is what the mark replaces. */
static __always_inline void put_headers(struct writer *to, const struct int_entry *e, __u32 words,
					__u32 npt, __u16 original)
{
	__u32 hop_ml = e->words << 8, left = e->remaining ? e->remaining - 1 : 0;

	if (e->mode == INT_MODE_MD10) {
		put(to, TYPE_MD << 24 | (3 + words) << 8 | original);
		put(to, 1U << 28 | hop_ml | left);
		put(to, (__u32)e->instructions << 16);
		return;
	}
	put(to, (e->mode == INT_MODE_MX ? TYPE_MX : TYPE_MD) << 28 | npt << 26 | (3 + words) << 16 |
			original);
	if (e->mode == INT_MODE_MX) {
		put(to, 2U << 28);
		put(to, (__u32)(e->instructions & ~BIT_COMPLEMENT) << 16 | e->domain);
	} else {
		put(to, 2U << 28 | hop_ml | left);
		put(to, (__u32)e->instructions << 16 | e->domain);
	}
	put(to, 0);
}

/* The UDP header that goes in front of TCP, where a port marks. */
static __always_inline void put_udp(struct writer *to, __u32 hash, __u32 len)
{
	put(to, (0xc000 | (hash & 0x3fff)) << 16 | cfg_port);
	put(to, len << 16);
}

static __always_inline enum int_skip put_in(struct __sk_buff *skb, struct work *w,
					    const struct packet *p, const struct int_entry *e,
					    __u32 mtu)
{
	__u32 words = e->mode == INT_MODE_MX || !e->remaining ? 0 : e->words, header, more, at, npt;
	bool v10 = e->mode == INT_MODE_MD10, tcp = p->proto == IPPROTO_TCP;
	__u8 dscp = p->dscp, proto = p->proto;
	enum sum_state state;
	enum int_skip why;
	struct writer to = {};
	__u64 change = 0;

	npt = cfg_dscp_mask ? NPT_DSCP : tcp ? NPT_UDP : NPT_PORT;
	if (v10 && npt != NPT_DSCP)
		return INT_SKIP_NO_DSCP;
	header = SHIM + (v10 ? HEADER10 : HEADER);
	more = header + words * 4 + (npt == NPT_UDP ? 8 : 0);
	if (p->ip_len + more > mtu)
		return INT_SKIP_MTU;
	at = npt == NPT_UDP ? p->l4 : p->data;
	why = look_at_sum(skb, p, npt, &state);
	if (why)
		return why;
	why = make_room(skb, w, p, at_end(skb, p, npt, state, skb->len - at, more), at, more);
	if (why)
		return why;

	to.to = (void *)(long)skb->data + (at & 0xff);
	to.end = (void *)(long)skb->data_end;
	if (npt == NPT_DSCP) {
		dscp = (dscp & ~cfg_dscp_mask) | (cfg_dscp & cfg_dscp_mask);
		put_headers(&to, e, words, npt, p->dscp << 2);
	} else if (npt == NPT_PORT) {
		struct udphdr *udp = (void *)(long)skb->data + (p->l4 & 0x7f);

		if ((void *)(udp + 1) > to.end)
			return INT_SKIP_NO_ROOM;
		udp->dest = bpf_htons(cfg_port);
		change = sum_change(p->dport, bpf_htons(cfg_port));
		put_headers(&to, e, words, npt, bpf_ntohs(p->dport));
	} else {
		proto = IPPROTO_UDP;
		put_udp(&to, skb->hash, p->l4_len + more);
		put_headers(&to, e, words, npt, IPPROTO_TCP);
		header += 8;
	}
	change += to.sum;
	if (words)
		change += write_values(skb, at + header, e->instructions | (v10 ? VALUES_V10 : 0));
	if (npt != NPT_UDP)
		write_l4(skb, p, new_check(p, state, change, bpf_htons(more)), p->l4_len + more);
	return write_ip(skb, p, p->ip_len + more, dscp, proto) ? INT_SKIP_NONE : INT_SKIP_NO_ROOM;
}

/* Puts INT into the packet. */
GLOBAL int source(struct __sk_buff *skb, __u32 mtu)
{
	struct work *w = page(&works);

	return w ? put_in(skb, w, &w->packet, &w->entry, mtu) : INT_SKIP_NO_ROOM;
}

/* Sets a flag in the first word of the header: why this node adds nothing. */
static __always_inline void set_flag(struct __sk_buff *skb, const struct packet *p,
				     const struct found *f, __u32 flag)
{
	__be32 was = bpf_htonl(f->first), now = bpf_htonl(f->first | flag);
	__u64 change = (__u64)(__u32)~was + now;
	enum sum_state state;
	__u16 check;

	if (was == now || look_at_sum(skb, p, f->npt, &state) == INT_SKIP_BAD_CHECKSUM)
		return;
	bpf_skb_store_bytes(skb, p->data + SHIM, &now, sizeof(now), BPF_F_RECOMPUTE_CSUM);
	if (state != SUM_DONE)
		return;
	check = new_check(p, state, change, 0);
	bpf_skb_store_bytes(skb, check_at(p), &check, sizeof(check), BPF_F_RECOMPUTE_CSUM);
}

/* Whether the node may add its words to the stack; if not, why. */
static __always_inline enum int_skip may_add(const struct packet *p, const struct found *f,
					     __u32 mtu)
{
	bool v10 = f->mode == INT_MODE_MD10;

	if (!MD_REMAINING(f->first))
		return INT_SKIP_HOPS;
	if (f->ds || f->words != words_of(f->instructions, v10))
		return INT_SKIP_HOP_ML;
	if ((v10 ? f->bytes : f->bytes - SHIM) / 4 + f->words > 255)
		return INT_SKIP_STACK_FULL;
	return p->ip_len + f->words * 4 > mtu ? INT_SKIP_MTU : INT_SKIP_NONE;
}

static __always_inline enum int_skip add(struct __sk_buff *skb, struct work *w,
					 const struct packet *p, const struct found *f, __u32 mtu)
{
	bool v10 = f->mode == INT_MODE_MD10;
	__u32 header = SHIM + (v10 ? HEADER10 : HEADER), more = (f->words & INT_MAX_WORDS) * 4;
	__u32 at = p->data + header;
	enum int_skip why = may_add(p, f, mtu);
	enum sum_state state;
	__be32 *word, shim, first;
	__u64 change;

	if (why) {
		if (why == INT_SKIP_HOPS)
			set_flag(skb, p, f, v10 ? MD10_EXCEEDED : MD_EXCEEDED);
		if (why == INT_SKIP_MTU)
			set_flag(skb, p, f, v10 ? MD10_MTU : MD_MTU);
		return why;
	}
	why = look_at_sum(skb, p, f->npt, &state);
	if (why)
		return why;
	why = make_room(skb, w, p, at_end(skb, p, f->npt, state, skb->len - at, more), at, more);
	if (why)
		return why;
	change = write_values(skb, at, f->instructions | (v10 ? VALUES_V10 : 0));

	word = (void *)(long)skb->data + (p->data & 0xff);
	if ((void *)(word + 2) > (void *)(long)skb->data_end)
		return INT_SKIP_NO_ROOM;
	shim = bpf_htonl(f->shim + (f->words << (v10 ? 8 : 16)));
	first = bpf_htonl(f->first - 1); /* Remaining Hop Count is its lowest byte, and is not 0 */
	change += (__u64)(__u32)~word[0] + (__u32)~word[1] + (__u64)shim + first;
	word[0] = shim;
	word[1] = first;
	write_l4(skb, p, new_check(p, state, change, bpf_htons(more)), p->l4_len + more);
	return write_ip(skb, p, p->ip_len + more, p->dscp, p->proto) ? INT_SKIP_NONE :
								       INT_SKIP_NO_ROOM;
}

/* Adds the node's words to the stack. */
GLOBAL int transit(struct __sk_buff *skb, __u32 mtu)
{
	struct work *w = page(&works);

	return w ? add(skb, w, &w->packet, &w->found, mtu) : INT_SKIP_NO_ROOM;
}

/* The sum of the INT of a packet, read into w->moved; all ones: it cannot be read. */
static __always_inline __u64 sum_of(struct __sk_buff *skb, struct work *w, const struct packet *p,
				    __u32 bytes)
{
	__u64 n = BOUNDED(bytes, 1024), m; /* 255 words and the shim at most */
	__s64 sum;

	if (bpf_skb_load_bytes(skb, p->data, w->moved, n))
		return ~0ULL;
	if (bytes <= 512) {
		m = BOUNDED(bytes, 512);
		return (__u32)bpf_csum_diff(NULL, 0, (void *)w->moved, m & 0x3fc, 0);
	}
	sum = bpf_csum_diff(NULL, 0, (void *)w->moved, 512, 0);
	m = BOUNDED(bytes - 512, 512);
	return (__u32)bpf_csum_diff(NULL, 0, (void *)(w->moved + 512), m & 0x3fc, sum);
}

static __always_inline enum int_skip remove_int(struct __sk_buff *skb, struct work *w,
						const struct packet *p, const struct found *f)
{
	__u32 fewer = f->bytes + (f->npt == NPT_UDP ? 8 : 0), head, from, kept = p->data + f->bytes;
	__u8 dscp = p->dscp, proto = f->npt == NPT_UDP ? f->shim : p->proto;
	enum sum_state state;
	enum int_skip why;
	__u64 sum;

	from = f->npt == NPT_UDP ? p->l4 : p->data;
	why = look_at_sum(skb, p, f->npt, &state);
	if (why)
		return why;
	if (f->npt == NPT_DSCP)
		dscp = (p->dscp & ~cfg_dscp_mask) | ((f->shim >> 2 & 0x3f) & cfg_dscp_mask);
	head = read_block(skb, w, p, from);
	if (!head && from != base_of(p))
		return INT_SKIP_NO_ROOM;
	if (f->npt != NPT_UDP) {
		sum = state == SUM_DONE ? sum_of(skb, w, p, f->bytes) : 0;
		if (sum == ~0ULL)
			return INT_SKIP_NO_ROOM;
		sum = (__u32)~sum;
		if (f->npt == NPT_PORT) {
			__u32 at = (p->l4 - base_of(p)) & 0x3c;
			__be16 port = bpf_htons(f->shim);

			((struct udphdr *)(w->block + at))->dest = port;
			sum += sum_change(p->dport, port);
		}
		write_l4_of_block(w, p, new_check(p, state, sum, less(fewer)), p->l4_len - fewer);
	}
	why = shrink(skb, w, p, must_be_at_end(p, f->npt, state), kept, fewer, head);
	if (why)
		return why;
	return write_ip(skb, p, p->ip_len - fewer, dscp, proto) ? INT_SKIP_NONE : INT_SKIP_NO_ROOM;
}

/* Takes INT out of the packet, which is then as the source got it. */
GLOBAL int sink(struct __sk_buff *skb)
{
	struct work *w = page(&works);

	return w ? remove_int(skb, w, &w->packet, &w->found) : INT_SKIP_NO_ROOM;
}

#endif
