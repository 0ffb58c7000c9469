/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Packets whose bits stay as they are: DF clear, fragments, and a TTL too low for a band.
 * They are found by addresses, ports, protocol, ID, fragment offset and content: some senders
 * give all packets the same ID. */
#ifndef BACKPACK_KEYS_H
#define BACKPACK_KEYS_H

#include <linux/errno.h>

#include "ipv6.h"
#include "ring.h"
#include "train.h"

/* Whether p's bits may carry an index at all. */
static __always_inline bool may_carry(const struct packet *p)
{
	return is_atomic(p) && (!p->v6 || cfg_ip6 == RDR_IP6_LABEL);
}

static __always_inline bool wants_key(const struct packet *p, __u8 true_ttl)
{
	/* With a band's TTL the packet would survive hidden routers that should drop it. */
	return p->true_link || !may_carry(p) || true_ttl < cfg_ttl_width || true_ttl <= 1;
}

/* A key in two scalars, for GLOBAL functions; the slot has its content. */
static __always_inline __u64 key_addrs(__be32 saddr, __be32 daddr)
{
	return saddr | (__u64)daddr << 32;
}

/* The part of p's key that its segments share, and that differs between flows: addresses and
 * ports (only the first fragment has them). It includes an IPv6 fragment's Identification: if a
 * node joins fragments and cuts the packet again, there is a new one, and the key changes as by
 * NAT. */
static __always_inline __u64 packet_addrs(const struct packet *p)
{
	__u32 ports = tuple_hash(0, 0, p->ports);

	return key_addrs((p->v6 ? p->saddr ^ p->frag_id : p->saddr) ^ ports, p->daddr);
}

#define KEY_FORM_SHIFT 56

/* id is the packet's true one: its header may carry a GUID. */
static __always_inline __u64 key_rest(const struct packet *p, __be16 id)
{
	__u64 form = 0;

	if (p->v6) {
		form = RDR_KEY_IPV6;
		id = 0;
	}
	return id | (__u64)bpf_htons(p->frag & IP_OFFSET) << 32 | (__u64)p->proto << 48 |
	       form << KEY_FORM_SHIFT;
}

/* The word of content of a packet, or of a slot, with these tags. */
static __always_inline __u32 content_word(__u32 tag, __u32 tag2)
{
	return tag * 0x9e3779b1 ^ (tag2 * 0x85ebca6b + (tag2 >> 15));
}

static __always_inline struct rdr_key unpack_key(__u64 addrs, __u64 rest, __u32 content)
{
	struct rdr_key key = {
		.saddr = addrs,
		.daddr = addrs >> 32,
		.id = rest,
		.off = rest >> 32,
		.proto = rest >> 48,
		.form = rest >> KEY_FORM_SHIFT,
		.content = content,
	};

	return key;
}

enum put_result {
	PUT_OK = 0,
	PUT_IN_FLIGHT,
	PUT_FULL,
};

/*
 * Whether the packet in slot s is a segment, not the first, of a train whose ID was 0. It may have
 * that ID too: hosts that do not count IDs send 0 (RFC 6864, section 4.1), GRO joins packets with
 * one ID, and all segments keep it (SKB_GSO_TCP_FIXEDID). No field of __sk_buff shows it. Such a
 * segment has two keys; its content is in both.
 */
static __always_inline bool may_be_fixed(const struct rdr_slot *s, __u64 rest)
{
	struct rdr_slot *h;

	if (!s->seg || rest >> KEY_FORM_SHIFT == RDR_KEY_IPV6)
		return false;
	h = slot_of(s->pos - s->seg);
	return h && !h->first_id;
}

/* Enters the key of the packet in the slot at pos, unless another packet in flight has it. */
GLOBAL int put_key(__u64 addrs, __u64 rest, __u64 pos)
{
	struct rdr_slot *s = slot_of(pos);
	struct rdr_key key;
	__u64 *old;
	int err; /* before Linux 6.4 the helper returns 32 bits: upper half 0 */

	if (!s)
		return PUT_FULL;
	key = unpack_key(addrs, rest, content_word(s->tag, s->tag2));
	err = bpf_map_update_elem(&keys, &key, &pos, BPF_NOEXIST);
	if (err && err != -EEXIST)
		return PUT_FULL;
	if (err) {
		old = bpf_map_lookup_elem(&keys, &key);
		if (old && *old != pos) {
			struct rdr_slot *other = slot_of(*old);

			/* Rare: the clock is read here, not carried on the stack of four calls. */
			if (other && other->pos == *old && !(story_state(other) & RDR_ST_DONE) &&
			    slot_alive(other, bpf_ktime_get_ns())) {
				/* As flip_copies() does. Two CPUs at once would add it twice. */
				if (!(other->cut & RDR_EQUAL))
					__sync_fetch_and_add((__u32 *)&other->nev,
							     (__u32)RDR_EQUAL << 24);
				return PUT_IN_FLIGHT;
			}
		}
		err = bpf_map_update_elem(&keys, &key, &pos, BPF_ANY);
	}
	if (!err && may_be_fixed(s, rest)) {
		key.id = key.id ? 0 : bpf_htons(s->seg);
		err = bpf_map_update_elem(&keys, &key, &pos, BPF_ANY);
	}
	return err ? PUT_FULL : PUT_OK;
}

/* The key of the k-th of a train's segments: IPv4's IDs count up. */
static __always_inline __u64 nth_key_rest(__u64 rest, __u32 k)
{
	if (rest >> KEY_FORM_SHIFT & RDR_KEY_IPV6)
		return rest;
	return (rest & ~0xffffULL) | bpf_htons(bpf_ntohs(rest) + k);
}

/* Enters the keys of n packets in neighbouring slots. */
GLOBAL int put_keys(__u64 addrs, __u64 rest, __u64 pos, __u32 n)
{
	int err = PUT_OK;
	__u32 k;

	FOR_RANGE(k, 0, n, cfg_max_segs, {
		/* Once for a train: then all its members are filled. */
		if (position_at(pos + k) != pos + k)
			fill_train_at(pos + k);
		err = put_key(addrs, nth_key_rest(rest, k), pos + k);
		if (err)
			break;
	});
	return err;
}

GLOBAL int delete_key(__u64 addrs, __u64 rest, __u64 pos)
{
	struct rdr_slot *s = slot_of(pos);
	struct rdr_key key;

	if (!s)
		return 0;
	key = unpack_key(addrs, rest, content_word(s->tag, s->tag2));
	bpf_map_delete_elem(&keys, &key);
	if (!may_be_fixed(s, rest))
		return 0;
	key.id = bpf_htons(s->seg);
	bpf_map_delete_elem(&keys, &key);
	key.id = 0;
	return bpf_map_delete_elem(&keys, &key);
}

GLOBAL int delete_keys(__u64 addrs, __u64 rest, __u64 pos, __u32 n)
{
	__u32 k;

	FOR_RANGE(k, 0, n, cfg_max_segs, { delete_key(addrs, nth_key_rest(rest, k), pos + k); });
	return 0;
}

/* What `rest` was as the run that begins with slot s left its last node. It is known of a whole run
 * only: in a part of one, IDs may count or not. */
static __always_inline __u64 rest_before(const struct rdr_slot *s, bool whole, __u64 rest)
{
	if (!whole || rest >> KEY_FORM_SHIFT == RDR_KEY_IPV6)
		return rest;
	return (rest & ~0xffffULL) | s->id;
}

/*
 * Makes sure that the next port finds the run at index by its keys. Behind NAT, and rules that
 * set the ID, they have changed, and the old ones are removed. A train's keys are entered together;
 * the parts of a cut one enter theirs alone.
 */
GLOBAL int keep_run_keys(__u32 index, __u32 n, __u64 addrs, __u64 rest)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1)), *h;
	bool whole, keyed;
	__u64 old, before;
	int err;

	if (!s)
		return PUT_FULL;
	h = head_of(s);
	if (!h)
		return PUT_FULL;
	whole = is_whole(s, n);
	keyed = h->state & RDR_ST_KEYED;
	old = key_addrs(h->key_saddr, h->key_daddr);
	before = rest_before(s, whole, rest);
	if (whole && keyed && old == addrs && before == rest)
		return PUT_OK;
	err = n == 1 ? put_key(addrs, rest, s->pos) : put_keys(addrs, rest, s->pos, n);
	if (err)
		return err;
	/* Other branches of a tree still have the old ones. */
	if (keyed && (old != addrs || before != rest) && !(h->state & RDR_ST_GROUP))
		delete_keys(old, before, s->pos, n);
	if (whole || !keyed) {
		h->key_saddr = addrs;
		h->key_daddr = addrs >> 32;
	}
	s->state |= RDR_ST_KEYED;
	return PUT_OK;
}

/* Whether keep_keys() has nothing to do for the run that begins with slot s, without a call. */
static __always_inline bool has_keys(const struct rdr_slot *s, const struct packet *p, __be16 id)
{
	return (s->state & RDR_ST_KEYED) && is_whole(s, p->n) && (p->v6 || s->id == id) &&
	       key_addrs(s->key_saddr, s->key_daddr) == packet_addrs(p);
}

static __always_inline int keep_keys(__u32 index, const struct packet *p, __be16 id)
{
	return keep_run_keys(index, p->n, packet_addrs(p), key_rest(p, id));
}

GLOBAL int drop_run_keys(__u32 index, __u32 n, __u64 addrs, __u64 rest)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1)), *h;
	__u64 old;

	if (!s)
		return 0;
	h = head_of(s);
	if (!h || !((s->state | h->state) & RDR_ST_KEYED))
		return 0;
	old = key_addrs(h->key_saddr, h->key_daddr);
	if (n == 1)
		delete_key(old, rest, s->pos);
	else
		delete_keys(old, rest, s->pos, n);
	if (old != addrs)
		delete_keys(addrs, rest, s->pos, n);
	if (is_whole(s, n))
		s->state &= ~RDR_ST_KEYED;
	return 0;
}

/* The packet in the slot at index no longer needs its key. */
static __always_inline void drop_keys(__u32 index, const struct packet *p, __be16 id)
{
	drop_run_keys(index, p->n, packet_addrs(p), key_rest(p, id));
}

#endif
