/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Redirects by tc (mirred), behind our hook. If a filter at a port's egress sends a packet to
 * another port, it has not left by the first one. A packet that is sent to an IFB comes back to
 * the same port, and meets our program there again. Neither is a new packet.
 *
 * The kernel notes redirects in fields of the skb that are not in __sk_buff. In a TC program the
 * context is the skb, so its bytes can be read like any kernel memory. The loader finds the
 * fields' offsets in the kernel's types.
 */
#ifndef BACKPACK_REDIRECT_H
#define BACKPACK_REDIRECT_H

#include "inside.h"

/* bit: byte << 8 | mask. */
static __always_inline bool skb_bit(struct __sk_buff *skb, __u32 bit)
{
	__u8 byte = 0;

	if (!bit || bpf_probe_read_kernel(&byte, sizeof(byte), (void *)skb + (bit >> 8)))
		return false;
	return byte & bit;
}

/* Whether tc sent the packet to port_no as it left by the port of that cell, of the same node:
 * mirred notes that port as the one by which the packet came. */
static __always_inline bool was_sent_on(struct __sk_buff *skb, __u64 cell, __u32 port_no)
{
	const struct rdr_port *here = bpf_map_lookup_elem(&ports, &port_no), *there;
	__u32 no = cell_port(cell);

	there = bpf_map_lookup_elem(&ports, &no);
	return here && there && no != port_no && here->netns_inum == there->netns_inum &&
	       there->ifindex == skb->ingress_ifindex;
}

/* A packet that leaves the domain has true headers and no mark. If it has not left after all,
 * nothing identifies it. So it takes its position along, in bytes that nobody else uses. */
static __always_inline void leave_note(struct __sk_buff *skb, const struct rdr_slot *s)
{
	__u64 pos = s->pos;

	if (!cfg_skb_redirected)
		return;
	skb->cb[1] = pos;
	skb->cb[2] = pos >> 32;
}

/*
 * Removes the departure by that port, another one, of the k-th of a run of n, if that is the last
 * event of its log. Returns how many of the run the slot stands for, as see_one() | the event's flags
 * << 16.
 */
GLOBAL __u32 take_back_one(__u32 index, __u32 k_n, __u32 port_no)
{
	__u32 k = k_n & 0xffff, n = k_n >> 16, span = 1;
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u64 cell;

	if (!s)
		return n;
	if (n > 1)
		fill_part(s, index);
	if (!s->seg && !(s->cut & RDR_CUT) && s->segs && s->segs <= n - k)
		span = s->segs;
	cell = last_cell(s);
	if ((cell_kind(cell) != RDR_EV_LEFT && cell_kind(cell) != RDR_EV_EGRESS) ||
	    cell_port(cell) != port_no)
		return span;
	WRITE_ONCE(s->nev, s->nev - 1);
	return span | cell_flags(cell) << 16;
}

GLOBAL __u32 take_back(__u32 index, __u32 n, __u32 port_no)
{
	__u32 r = take_back_one(index, n << 16, port_no), k = r & 0xffff;

	FOR_STEPS(k, n, cfg_max_run, take_back_one(index + k, k | n << 16, port_no) & 0xffff);
	return r >> 16;
}

/* What follow_redirect() takes of a packet: packets:16 | IP bytes of the first:16 | protocol:8 |
 * headers that each repeats:16. */
static __always_inline __u64 redirect_form(const struct packet *p)
{
	return (p->n & 0xffff) | (__u64)(first_len(p) & 0xffff) << 16 | (__u64)p->proto << 32 |
	       (__u64)(repeated_hdr(p) & 0xffff) << 40;
}

/* Finds a packet that leaves by port_no, and was not found by mark, bits or key, by the note of
 * the port by which it was to leave. */
GLOBAL __u64 found_noted(struct __sk_buff *skb, __u32 port_no, __u64 tags, __u64 form)
{
	__u64 pos = skb->cb[1] | (__u64)skb->cb[2] << 32;
	struct rdr_slot *s = slot_of(pos);
	__u64 cell;

	if (!cfg_skb_redirected || !pos || !s || s->pos != pos)
		return 0;
	cell = last_event(s);
	if (cell_kind(cell) != RDR_EV_LEFT || !was_sent_on(skb, cell, port_no))
		return 0;
	/* Others may write these bytes: is it that packet? */
	if (s->tag != (__u32)tags || s->tag2 != tags >> 32 || s->proto != (__u8)(form >> 32) ||
	    s->len != (__u16)(form >> 16) ||
	    ((form & 0xffff) > 1 && !is_run(pos & (cfg_slots - 1), run_form(form, form >> 40))))
		return 0;
	return (pos & (cfg_slots - 1)) | FOUND |
	       (__u64)(s->state & RDR_ST_IPV6 ? ID_SHARED : ID_COUNTS) << 40;
}

/* What see_run() takes for a packet that comes back from an IFB: that was a queue of the port. */
static __always_inline __u64 again_sighting(__u32 port_no)
{
	struct sighting w = {
		.kind = RDR_EV_DEQUEUE,
		.flags = RDR_EVF_FIRST,
		.port = port_no,
	};

	return pack_sighting(&w);
}

/* Besides FOUND: it was here before; its log needs an event for that; the removed departure was
 * the packet's source. */
#define REDIRECT_AGAIN (1ULL << 52)
#define REDIRECT_NOTE (1ULL << 53)
#define REDIRECT_SOURCE_SHIFT 54

/*
 * What tc has done with a packet that leaves by port_no without a mark, and came by some interface
 * (mirred sets that if it redirects). r: as the packet was found, or 0. Returns r, with REDIRECT_*
 * bits that apply. A call makes one verifier state of many.
 */
GLOBAL __u64 follow_redirect(struct __sk_buff *skb, __u64 r, __u32 port_no, __u64 tags, __u64 form)
{
	__u32 n = form & 0xffff;
	struct rdr_slot *s;
	__u64 cell;

	if (!(r & FOUND)) {
		if (skb_bit(skb, cfg_skb_again)) {
			count(RDR_C_PASSED, n);
			return REDIRECT_AGAIN;
		}
		if (r)
			return r;
		r = found_noted(skb, port_no, tags, form);
	}
	s = r ? slot_at(r & (cfg_slots - 1)) : NULL;
	cell = s ? last_event(s) : 0;
	if (!is_departure(cell))
		return r;
	if (cell_port(cell) == port_no) {
		if (!skb_bit(skb, cfg_skb_again))
			return r;
		/* It is noted only if there is room for a loss behind it, and not if the packet
		 * has arrived, as in dequeue_one(). */
		if (is_log_short(s)) {
			count(RDR_C_QUEUE_UNSEEN, n);
			return r | REDIRECT_AGAIN;
		}
		return r | REDIRECT_AGAIN | (has_arrived(r) ? 0 : REDIRECT_NOTE);
	}
	/* If it was mirrored, the first departure is right too. */
	if (!was_sent_on(skb, cell, port_no) || !skb_bit(skb, cfg_skb_redirected))
		return r;
	if (take_back(r, n, cell_port(cell)) & RDR_EVF_SOURCE)
		r |= 1ULL << REDIRECT_SOURCE_SHIFT;
	return r;
}

#endif
