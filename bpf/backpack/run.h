/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Runs (train.h) that somebody else may have put together. A process chooses how many segments its
 * train has, and by bits, key or mark only the first one is found. So no slot of the others is written
 * before each has been looked at by itself: whether it is of the same flow, and where its packet is.
 */
#ifndef BACKPACK_RUN_H
#define BACKPACK_RUN_H

#include "replaced.h"
#include "segment.h"
#include "visits.h"

/* A step that ends a loop over a run: the slot is not of that run. */
#define NOT_OF_RUN 0x10000

/* How many packets of a run slot s stands for, where `left` are left: see_one() writes as many. */
static __always_inline __u32 run_span(const struct rdr_slot *s, __u32 left)
{
	__u32 span = slot_span(s);

	return span <= left ? span : 1;
}

/* What is_run() takes: packets:16 | bytes of headers that each repeats, 0 if they are not known:15 |
 * RUN_BY_KEY, if the first one was found by its key. */
#define RUN_HDR_SHIFT 16
#define RUN_HDR 0x7fff
#define RUN_BY_KEY 0x80000000

static __always_inline __u32 run_form(__u32 n, __u32 hdr)
{
	return (n & 0xffff) | (hdr & RUN_HDR) << RUN_HDR_SHIFT;
}

/* What follows() asks of content. tag: what the packet in m must have if it is of TCP and known by that. */
static __always_inline bool may_follow(const struct rdr_slot *s, const struct rdr_slot *m, __u32 k,
				       bool by_tcp, __u32 tag, __u32 by_key)
{
	if (m->seg == s->seg + k) /* then both have one head */
		return true;
	return by_tcp ? m->tag2 == s->tag2 && m->tag == tag : !by_key;
}

/* Whether the packet in m may be the k-th of those that begin with the one in s. */
static __always_inline bool follows(const struct rdr_slot *s, const struct rdr_slot *m, __u32 k,
				    __u32 form)
{
	__u32 hdr = form >> RUN_HDR_SHIFT & RUN_HDR, last = (form & 0xffff) - 1, tag, len;
	bool by_tcp;

	if (m->pos != s->pos + k || m->proto != s->proto || m->flow_hash != s->flow_hash ||
	    (m->state ^ s->state) & RDR_ST_IPV6)
		return false;
	tag = s->tag + k * (s->len - hdr);
	by_tcp = s->proto == IPPROTO_TCP && hdr;
	if ((m->len == s->len || k == last) && may_follow(s, m, k, by_tcp, tag, form & RUN_BY_KEY))
		return true;
	if (!by_tcp)
		return false;
	/* Another packet of the flow may have taken the slot. */
	len = len_before(m->pos, m->flow_hash, tag, s->tag2);
	return len && (len == s->len || k == last);
}

/* One step of is_run(): how many packets the slot of the k-th stands for, or NOT_OF_RUN. */
GLOBAL __u32 step_of_run(__u32 first, __u32 k, __u32 form)
{
	struct rdr_slot *s, *m;

	fill_if_member(first + k);
	s = slot_at(first & (cfg_slots - 1));
	m = slot_at((first + k) & (cfg_slots - 1));
	if (!s || !m || !follows(s, m, k, form))
		return NOT_OF_RUN;
	return run_span(m, (form & 0xffff) - k);
}

/*
 * Whether an skb of n packets, the first of which has the slot at index, can stand for the slots
 * that follow: those of its train, or of packets that GRO has joined. If not, it only looks like the
 * first packet, and events of the others would go into the slots of other packets. GRO joins
 * packets of one flow and length with neighbouring IDs, and of TCP those that begin where the one
 * before ends. A key names the first packet alone, and the others may come from anywhere: of them
 * only TCP's are known. form: run_form(), RUN_BY_KEY.
 */
GLOBAL int is_run(__u32 index, __u32 form)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u32 k = 0;

	if (!s || (form & 0xffff) > cfg_max_run)
		return false;
	if (is_whole(s, form & 0xffff))
		return true;
	FOR_STEPS(k, form & 0xffff, cfg_max_run, step_of_run(index, k, form));
	return k == (form & 0xffff);
}

/* What is_run() takes of packet p. (Without a branch, for the verifier.) */
static __always_inline __u32 run_of(const struct packet *p)
{
	return run_form(p->n, repeated_hdr(p) & (p->partial - 1U));
}

/* Whether p, whose first packet was found in the slot at index, may not write the slots that follow. */
static __always_inline bool overruns(__u32 index, const struct packet *p)
{
	return p->n > 1 && !is_run(index, run_of(p));
}

/* How a packet that leaves by a port was found: is_other_leaving(). */
#define LEAVES_V6 1
#define LEAVES_BY_KEY 2
#define LEAVES_CLOSING 4 /* the port is a closing node's */

/* Whether a packet that leaves by that port is another one than that in the slot at index, which was
 * found for it by its key, its mark (bits: its header's), or its bits (0). */
static __always_inline int is_other_leaving(__u32 index, __u32 port_no, __u32 bits, __u32 how)
{
	if (how & LEAVES_BY_KEY)
		return is_equal_leaving(index, port_no, how & LEAVES_CLOSING);
	return is_elsewhere(index, port_no, bits, how & LEAVES_V6);
}

/* What is_other_run() takes besides: packets:16 | port << 16 | LEAVES_* << 32. */
static __always_inline __u64 leaving_form(__u32 n, __u32 port_no, __u32 how)
{
	return (n & 0xffff) | port_no << 16 | (__u64)how << 32;
}

/* One step of is_other_run(), as step_of_run(). */
GLOBAL __u32 step_leaving(__u64 index_bits, __u64 form, __u32 k)
{
	__u32 index = (__u32)index_bits + k, how = form >> 32;
	union rdr_bits b = { .word = index_bits >> 32 }, own;
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));

	/* The header has the first one's ID. */
	if (s && k && b.word && own_bits(s, how & LEAVES_V6 ? ID_SHARED : ID_COUNTS, &own))
		b.id = own.id;
	if (!s || is_other_leaving(index, form >> 16 & 0xffff, b.word, how))
		return NOT_OF_RUN;
	return run_span(s, (form & 0xffff) - k);
}

/* is_other_leaving() for a run: whether one of its packets is. index_bits: its first slot's | bits <<
 * 32. (Few arguments: stacks must fit.) */
GLOBAL int is_other_run(__u64 index_bits, __u64 form)
{
	__u32 k = 0;

	FOR_STEPS(k, form & 0xffff, cfg_max_run, step_leaving(index_bits, form, k));
	return k != (form & 0xffff);
}

/* Either, by n. A packet alone is looked at without a call. */
static __always_inline bool are_others_leaving(__u32 index, __u32 n, __u32 port_no, __u32 bits,
					       __u32 how)
{
	return n > 1 ? is_other_run(index | (__u64)bits << 32, leaving_form(n, port_no, how)) :
		       is_other_leaving(index, port_no, bits, how);
}

/* One step of was_in(): the cell to look at next:8 | WAS_IN | SCAN_DONE. */
#define WAS_IN 0x100
GLOBAL __u32 look_for_namespace(__u32 index, __u32 scan, __u32 inum, __u32 iif)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u64 cell = s ? read_cell(s, scan & 0xff) : 0;
	__u32 kind = cell_kind(cell), no = cell_port(cell);
	const struct rdr_port *port;

	if (!cell)
		return scan | SCAN_DONE;
	port = bpf_map_lookup_elem(&ports, &no);
	if (port && (inum ? port->netns_inum == inum : port->ifindex == iif))
		return WAS_IN | SCAN_DONE;
	return (scan & 0xff) + cell_span(kind);
}

/*
 * Whether the packet in the slot at index has been in the namespace with that number: a socket
 * of any namespace may set a mark. The namespace of fragments that wait for others, and of
 * packets that TCP has accepted, cannot be read (inum 0), but they keep the number of the
 * interface by which they came.
 */
GLOBAL int was_in(__u32 index, __u32 inum, __u32 iif)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u32 scan = 0;

	if (!s)
		return false;
	if (!inum && !(story_state(s) & RDR_ST_DONE) &&
	    (s->seg ||
	     !(s->frag_off & bpf_htons(s->state & RDR_ST_IPV6 ? 0xffff : IP_MF | IP_OFFSET))))
		return false;
	if (s->seg && !s->nev)
		index -= s->seg; /* its head has the events */
	for (__u32 i = 0; i < cfg_cells && !(scan & SCAN_DONE); i++)
		scan = look_for_namespace(index, scan, inum, iif);
	return scan & WAS_IN;
}

/* One step of was_run_in(), as step_of_run(). */
GLOBAL __u32 step_in(__u32 first, __u32 k_n, __u32 inum, __u32 iif)
{
	__u32 k = k_n & 0xffff, n = k_n >> 16, index = first + k;
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));

	return s && was_in(index, inum, iif) ? run_span(s, n - k) : NOT_OF_RUN;
}

/* was_in() for a run of n packets: whether all of them were. */
GLOBAL int was_run_in(__u32 index, __u32 n, __u32 inum, __u32 iif)
{
	__u32 k = 0;

	FOR_STEPS(k, n, cfg_max_run, step_in(index, k | n << 16, inum, iif));
	return k == n;
}

#endif
