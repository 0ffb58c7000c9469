/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Making a packet longer or shorter behind its TCP or UDP header.
 *
 * The kernel makes room right behind the IP header only: what is in front of it is moved (cheap),
 * and the headers behind it are moved or written here. csum_start does not move, so a packet whose
 * checksum a device shall compute (CHECKSUM_PARTIAL: nearly all packets of local sockets between
 * veths) gets longer at its end, and its payload is moved.
 */
#ifndef INT_ROOM_H
#define INT_ROOM_H

#include "values.h"

#include <bpf/bpf_core_read.h>

#define CHECKSUM_PARTIAL 3

enum sum_state {
	SUM_DONE,    /* the field has the checksum */
	SUM_NONE,    /* UDP's field is 0: there is none */
	SUM_PARTIAL, /* the field has the pseudo header's sum, and somebody adds the rest later */
	SUM_UNKNOWN,
};

static __always_inline __u32 check_at(const struct packet *p)
{
	return p->l4 + (p->proto == IPPROTO_UDP ? offsetof(struct udphdr, check) :
						  offsetof(struct tcphdr, check));
}

static __always_inline __u32 base_of(const struct packet *p)
{
	return p->l3 + (p->v6 ? IP6_BASE : IP_BASE);
}

/* Where the kernel's own skb cannot be read: the helper changes the field unless the checksum is
 * partial. */
static __always_inline enum sum_state probe_sum(struct __sk_buff *skb, const struct packet *p)
{
	__u32 at = check_at(p);
	__u16 now;

	if (!p->check && p->proto == IPPROTO_UDP)
		return SUM_UNKNOWN; /* either */
	if (bpf_l4_csum_replace(skb, at, 0, 1, 0) || bpf_skb_load_bytes(skb, at, &now, sizeof(now)))
		return SUM_UNKNOWN;
	if (now == p->check)
		return SUM_PARTIAL;
	now = p->check;
	return bpf_skb_store_bytes(skb, at, &now, sizeof(now), 0) ? SUM_UNKNOWN : SUM_DONE;
}

static __always_inline enum sum_state sum_state_of(struct __sk_buff *skb, const struct packet *p)
{
	struct sk_buff___int *s;

	if (!cfg_queues)
		return probe_sum(skb, p);
	s = bpf_cast_to_kern_ctx(skb);
	if (BPF_CORE_READ_BITFIELD(s, ip_summed) == CHECKSUM_PARTIAL)
		return SUM_PARTIAL;
	return p->check || p->proto == IPPROTO_TCP ? SUM_DONE : SUM_NONE;
}

static __always_inline __u32 fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	return sum_fold(sum);
}

/* The checksum after the payload's sum has changed by `change` and lengths by `more` (of 16 bits,
 * in one's complement). */
static __always_inline __u16 new_check(const struct packet *p, enum sum_state state, __u64 change,
				       __be16 more)
{
	if (state == SUM_NONE)
		return 0;
	if (state == SUM_PARTIAL)
		return fold((__u64)p->check + more);
	/* UDP's length counts twice: in the header, and in the pseudo header. */
	change += (__u16)~p->check + (p->proto == IPPROTO_UDP ? 2 : 1) * (__u64)more;
	return sum_to_check(fold(change), p->proto == IPPROTO_UDP);
}

/* The negative of a length, in one's complement. */
static __always_inline __be16 less(__u32 bytes)
{
	return ~bpf_htons(bytes);
}

#define ECN 3 /* of IPv4's TOS */

/* The DSCP in the first two bytes of an IPv6 header. */
#define DSCP6_SHIFT 6
#define DSCP6 (0x3f << DSCP6_SHIFT)

/* The fields of an IPv4 header that INT changes, as words of its checksum. */
struct ipv4_words {
	__be16 tos;
	__be16 tot_len;
	__be16 other[2];
	__be16 protocol;
};

/* Sets length, DSCP and protocol. */
static __always_inline void change_ipv4(struct iphdr *ip, __u32 ip_len, __u8 dscp, __u8 proto)
{
	const struct ipv4_words *now = (const void *)ip;
	struct ipv4_words was = *now;
	__u32 sum;

	ip->tos = (ip->tos & ECN) | dscp << 2;
	ip->tot_len = bpf_htons(ip_len);
	ip->protocol = proto;
	sum = (__u16)~ip->check + sum_change(was.tos, now->tos) +
	      sum_change(was.tot_len, now->tot_len) + sum_change(was.protocol, now->protocol);
	ip->check = sum_to_check(sum, 0);
}

static __always_inline void change_ipv6(struct ip6_header *ip, __u32 ip_len, __u8 dscp, __u8 proto)
{
	__be16 *first = (void *)ip;

	*first = (*first & ~bpf_htons(DSCP6)) | bpf_htons((__u16)dscp << DSCP6_SHIFT);
	ip->start.payload_len = bpf_htons(ip_len - sizeof(*ip));
	ip->start.next = proto;
}

/* Sets length, DSCP and protocol in the IP header. */
static __always_inline bool write_ip(struct __sk_buff *skb, const struct packet *p, __u32 ip_len,
				     __u8 dscp, __u8 proto)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct ip6_header *ip6;
	struct iphdr *ip;

	data += p->l3 & 0x1f; /* 22 at most; for the verifier */
	ip6 = data;
	ip = data;
	if (p->v6) {
		if ((void *)(ip6 + 1) > end)
			return false;
		change_ipv6(ip6, ip_len, dscp, proto);
	} else {
		if ((void *)(ip + 1) > end)
			return false;
		change_ipv4(ip, ip_len, dscp, proto);
	}
	return true;
}

/* Up to so many bytes are moved without a helper. */
#define FEWEST 64

/* Moves the last n bytes before offset `end` back by `more`: in words, from the last one on. Up to
 * three bytes in front of them are copied, too, to where new words come. */
static __always_inline bool move_few(struct __sk_buff *skb, __u32 end, __u32 n, __u32 more)
{
	void *limit = (void *)(long)skb->data_end, *data = (void *)(long)skb->data, *from, *to;
	__u32 at;

	for (__u32 i = 0; i < FEWEST; i += 4) {
		if (i >= n)
			break;
		at = end - 4 - i;
		asm volatile("%0 &= 0x1ff" : "+r"(at)); /* not a pointer that is counted down */
		from = data + at;
		to = from + (more & 0xff);
		if (to + 4 > limit || from + 4 > limit)
			return false;
		*(__u32 *)to = *(__u32 *)from;
	}
	return true;
}

/* Reads n bytes at offset `from`, for put_moved(). */
static __always_inline bool read_moved(struct __sk_buff *skb, struct work *w, __u32 from, __u32 n)
{
	__u64 size;

	if (!n)
		return true;
	if (n > MOVED)
		return false;
	size = BOUNDED(n, MOVED);
	return !bpf_skb_load_bytes(skb, from, w->moved, size);
}

/* Writes to offset `to` the n bytes that were read. */
static __always_inline bool put_moved(struct __sk_buff *skb, struct work *w, __u32 to, __u32 n)
{
	__u64 size;

	if (!n)
		return true;
	if (n > MOVED)
		return false;
	size = BOUNDED(n, MOVED);
	return !bpf_skb_store_bytes(skb, to, w->moved, size, 0);
}

/*
 * Moves n bytes at offset `from` back to `to`, and makes the packet as much shorter at its end. What
 * can fail comes before the first byte is written: a packet whose checksum is to be put near its end
 * cannot be shorter, and there may be no memory. Once the packet is in one piece (bpf_skb_pull_data)
 * and nobody else's (bpf_skb_change_tail), the kernel needs no memory to write to it.
 */
static __always_inline bool cut_tail(struct __sk_buff *skb, struct work *w, __u32 from, __u32 to,
				     __u32 n)
{
	return !bpf_skb_pull_data(skb, skb->len) && read_moved(skb, w, from, n) &&
	       !bpf_skb_change_tail(skb, skb->len - (from - to), 0) && put_moved(skb, w, to, n);
}

/*
 * The state of the checksum that INT changes, and whether INT can be changed at all. The UDP header
 * that a source puts in front of TCP has no checksum. What a device is to sum begins where TCP does,
 * which must stay where it is: so room is made behind the IP header, which the kernel does not do
 * in a frame with a tag.
 */
static __always_inline enum int_skip look_at_sum(struct __sk_buff *skb, const struct packet *p,
						 __u32 npt, enum sum_state *state)
{
	*state = SUM_NONE;
	if (npt == NPT_UDP)
		return p->tagged ? INT_SKIP_TCP_PORT : INT_SKIP_NONE;
	*state = sum_state_of(skb, p);
	return *state == SUM_UNKNOWN ? INT_SKIP_BAD_CHECKSUM : INT_SKIP_NONE;
}

/* Whether the packet can get longer or shorter at its end only. */
static __always_inline bool must_be_at_end(const struct packet *p, __u32 npt, enum sum_state state)
{
	return npt != NPT_UDP && (state == SUM_PARTIAL || p->tagged);
}

/* Up to so much payload is moved where that saves the kernel from making a new buffer. */
#define FEW 512

/*
 * Whether the packet gets longer at its end, instead of behind the IP header. moved: bytes behind
 * the place, more: how much longer it gets.
 */
static __always_inline bool at_end(struct __sk_buff *skb, const struct packet *p, __u32 npt,
				   enum sum_state state, __u32 moved, __u32 more)
{
	struct sk_buff___int *s;

	if (npt == NPT_UDP)
		return false;
	if (must_be_at_end(p, npt, state))
		return true;
	if (!cfg_queues || moved > FEW)
		return false;
	s = bpf_cast_to_kern_ctx(skb);
	return (__u64)s->data - (__u64)s->head < more && !s->data_len && s->end - s->tail >= more;
}

/* Moves what lies behind the fixed IP header, up to `to`, forward to it: there is a gap of `more`
 * bytes in between. */
static __always_inline bool move_headers(struct __sk_buff *skb, const struct packet *p, __u32 to,
					 __u32 more)
{
	void *end = (void *)(long)skb->data_end, *at = (void *)(long)skb->data, *from;
	__u32 size = to - base_of(p);

	at += base_of(p) & 0x3f;
	from = at + (more & 0xff);
	for (__u32 i = 0; i < MAX_HEAD; i += 4) {
		if (i >= size)
			return true;
		if (from + 4 > end || at + 4 > end)
			return false;
		*(__u32 *)at = *(__u32 *)from;
		at += 4;
		from += 4;
	}
	return size <= MAX_HEAD;
}

/* Makes room for `more` bytes at offset `at`, which is behind the IP header. */
static __always_inline enum int_skip make_room(struct __sk_buff *skb, struct work *w,
					       const struct packet *p, bool end, __u32 at,
					       __u32 more)
{
	__u32 moved = skb->len - at;

	if (!end) {
		if (bpf_skb_adjust_room(skb, more, BPF_ADJ_ROOM_NET, BPF_F_ADJ_ROOM_NO_CSUM_RESET))
			return INT_SKIP_NO_ROOM;
		return move_headers(skb, p, at, more) ? INT_SKIP_NONE : INT_SKIP_NO_ROOM;
	}
	if (moved > MOVED)
		return INT_SKIP_LONG;
	if (bpf_skb_change_tail(skb, skb->len + more, 0))
		return INT_SKIP_NO_ROOM;
	if (moved <= FEWEST)
		return move_few(skb, at + moved, moved, more) ? INT_SKIP_NONE : INT_SKIP_NO_ROOM;
	return read_moved(skb, w, at, moved) && put_moved(skb, w, at + more, moved) ?
		       INT_SKIP_NONE :
		       INT_SKIP_NO_ROOM;
}

/* Sets checksum and length of TCP or UDP. */
static __always_inline void write_l4(struct __sk_buff *skb, const struct packet *p, __u16 check,
				     __u32 l4_len)
{
	void *end = (void *)(long)skb->data_end, *at = (void *)(long)skb->data;

	at += p->l4 & 0x7f; /* 82 at most; for the verifier */
	if (p->proto == IPPROTO_UDP) {
		struct udphdr *udp = at;

		if ((void *)(udp + 1) > end)
			return;
		udp->check = check;
		udp->len = bpf_htons(l4_len);
	} else {
		struct tcphdr *tcp = at;

		if ((void *)(tcp + 1) <= end)
			tcp->check = check;
	}
}

/* Makes the packet `fewer` bytes shorter, and writes the block of `size` bytes behind its fixed IP
 * header. kept: offset of the first byte behind the block as it was; the block may be empty. */
static __always_inline enum int_skip shrink(struct __sk_buff *skb, struct work *w,
					    const struct packet *p, bool end, __u32 kept,
					    __u32 fewer, __u32 size)
{
	__u64 n;

	if (end) {
		if (skb->len - kept > MOVED)
			return INT_SKIP_LONG;
		if (!cut_tail(skb, w, kept, kept - fewer, skb->len - kept))
			return INT_SKIP_NO_ROOM;
	} else if (bpf_skb_adjust_room(skb, -(__s32)fewer, BPF_ADJ_ROOM_NET,
				       BPF_F_ADJ_ROOM_NO_CSUM_RESET)) {
		return INT_SKIP_NO_ROOM;
	}
	if (!size)
		return INT_SKIP_NONE;
	n = BOUNDED(size, MAX_HEAD);
	return bpf_skb_store_bytes(skb, base_of(p), w->block, n, BPF_F_RECOMPUTE_CSUM) ?
		       INT_SKIP_NO_ROOM :
		       INT_SKIP_NONE;
}

/* Reads what is behind the fixed IP header, up to offset `to`, into the block. Its bytes; 0: there
 * is none, or it cannot be read. */
static __always_inline __u32 read_block(struct __sk_buff *skb, struct work *w,
					const struct packet *p, __u32 to)
{
	__u32 size = to - base_of(p);
	__u64 n;

	if (!size || size > MAX_HEAD)
		return 0;
	n = BOUNDED(size, MAX_HEAD);
	return bpf_skb_load_bytes(skb, base_of(p), w->block, n) ? 0 : size;
}

/* Sets checksum and length in the copy of TCP's or UDP's header that is in the block. */
static __always_inline void write_l4_of_block(struct work *w, const struct packet *p, __u16 check,
					      __u32 l4_len)
{
	__u32 at = (p->l4 - base_of(p)) & 0x3c; /* IPv4's options: 40 at most */

	if (p->proto == IPPROTO_UDP) {
		struct udphdr *udp = (void *)(w->block + at);

		udp->check = check;
		udp->len = bpf_htons(l4_len);
	} else {
		((struct tcphdr *)(w->block + at))->check = check;
	}
}

#endif
