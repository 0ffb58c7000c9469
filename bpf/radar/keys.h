/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Packets whose bits stay as they are, found by 3-tuple, ID and fragment offset:
 * DF clear, fragments, and TTLs too low for a band to be honest. */
#ifndef RADAR_KEYS_H
#define RADAR_KEYS_H

#include "packet.h"
#include "ring.h"
#include "train.h"

static __always_inline bool wants_key(const struct packet *p, __u8 true_ttl)
{
	/* In a band a packet would outlive hidden routers that should end it. */
	return !is_atomic(p) || true_ttl < cfg_ttl_width || true_ttl <= 1;
}

/* A key in two scalars, for GLOBAL functions. */
static __always_inline __u64 key_addrs(__be32 saddr, __be32 daddr)
{
	return saddr | (__u64)daddr << 32;
}

/* id is the packet's true one: its header may carry a GUID. */
static __always_inline __u64 key_rest(const struct packet *p, __be16 id)
{
	return id | (__u64)bpf_htons(p->frag & IP_OFFSET) << 16 | (__u64)p->proto << 32;
}

static __always_inline struct rdr_key unpack_key(__u64 addrs, __u64 rest)
{
	struct rdr_key key = {
		.saddr = addrs,
		.daddr = addrs >> 32,
		.id = rest,
		.off = rest >> 16,
		.proto = rest >> 32,
	};

	return key;
}

enum put_result {
	PUT_OK = 0,
	PUT_IN_FLIGHT,
	PUT_FULL,
};

/* Enters one key. A key that another packet in flight holds is left to it. */
GLOBAL int put_key(__u64 addrs, __u64 rest, __u64 pos, __u64 now)
{
	struct rdr_key key = unpack_key(addrs, rest);
	struct rdr_slot *s;
	__u64 *old;

	old = bpf_map_lookup_elem(&keys, &key);
	if (old && *old != pos) {
		s = slot_of(*old);
		if (s && s->pos == *old && slot_alive(s, now) && !(s->state & RDR_ST_DONE))
			return PUT_IN_FLIGHT;
	}
	return bpf_map_update_elem(&keys, &key, &pos, BPF_ANY) ? PUT_FULL : PUT_OK;
}

/* The key of the k-th of a train's segments: IDs count up. */
static __always_inline __u64 nth_key_rest(__u64 rest, __u32 k)
{
	return (rest & ~0xffffULL) | bpf_htons(bpf_ntohs(rest) + k);
}

/* Enters the keys of n packets with consecutive IDs. */
GLOBAL int put_keys(__u64 addrs, __u64 rest, __u64 pos, __u32 n, __u64 now)
{
	int err = PUT_OK;

	for (__u32 k = 0; k < RDR_MAX_SEGS && k < n && !err; k++)
		err = put_key(addrs, nth_key_rest(rest, k), pos + k, now);
	return err;
}

GLOBAL int delete_key(__u64 addrs, __u64 rest)
{
	struct rdr_key key = unpack_key(addrs, rest);

	return bpf_map_delete_elem(&keys, &key);
}

GLOBAL int delete_keys(__u64 addrs, __u64 rest, __u32 n)
{
	for (__u32 k = 0; k < RDR_MAX_SEGS && k < n; k++)
		delete_key(addrs, nth_key_rest(rest, k));
	return 0;
}

/*
 * Makes sure that the next port finds the packet by its key. Behind NAT the key has
 * changed and the old one is removed. A train's keys are entered together; each
 * part of a cut one looks after its own.
 */
static __always_inline int keep_keys(struct rdr_slot *s, const struct packet *p, __be16 id,
				     __u64 now)
{
	struct rdr_slot *h = head_of(s);
	__u64 addrs = key_addrs(p->saddr, p->daddr), old;
	bool whole = is_whole(s, p->n), keyed;
	int err;

	if (!h)
		return PUT_FULL;
	keyed = h->state & RDR_ST_KEYED;
	old = key_addrs(h->key_saddr, h->key_daddr);
	if (whole && keyed && old == addrs)
		return PUT_OK;
	err = put_keys(addrs, key_rest(p, id), s->pos, p->n, now);
	if (err)
		return err;
	if (keyed && old != addrs)
		delete_keys(old, key_rest(p, id), p->n);
	if (whole || !keyed) {
		h->key_saddr = p->saddr;
		h->key_daddr = p->daddr;
	}
	s->state |= RDR_ST_KEYED;
	return PUT_OK;
}

/* The packet needs its key no more. */
static __always_inline void drop_keys(struct rdr_slot *s, const struct packet *p, __be16 id)
{
	struct rdr_slot *h = head_of(s);
	__u64 addrs = key_addrs(p->saddr, p->daddr), old;

	if (!h || !((s->state | h->state) & RDR_ST_KEYED))
		return;
	old = key_addrs(h->key_saddr, h->key_daddr);
	delete_keys(old, key_rest(p, id), p->n);
	if (old != addrs)
		delete_keys(addrs, key_rest(p, id), p->n);
	if (is_whole(s, p->n))
		s->state &= ~RDR_ST_KEYED;
}

#endif
