/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Finding a packet as find.h does, in calls that take it packed in three numbers. */
#ifndef BACKPACK_WIRE_H
#define BACKPACK_WIRE_H

#include "find.h"
#include "found.h"

/* What finding needs of a packet. bits_len: its bits:32 | IP bytes, of a train payload
 * bytes of each segment:31 | WIRE_ROUTED. rest: fragment field:16 | protocol:8 | hdr:10 |
 * packets:11 | IPv6:1 | expect:2 | the port's flags:14 | partial:1. */
struct wire {
	__u64 bits_len;
	__u64 tags;
	__u64 rest;
};

/* The packet came in by some interface and now leaves. */
#define WIRE_ROUTED (1ULL << 63)
#define WIRE_PARTIAL (1ULL << 62)
#define WIRE_FLAGS(rest) ((rest) >> 48 & 0x3fff)

static __always_inline struct packet unpack_wire(__u64 bits_len, __u64 tags, __u64 rest)
{
	struct packet p = {
		.bits.word = bits_len,
		.len = bits_len >> 32 & 0x7fffffff,
		.gso_size = bits_len >> 32 & 0x7fffffff,
		.tag = tags,
		.tag2 = tags >> 32,
		.frag = rest,
		.proto = rest >> 16,
		.l4 = rest >> 24 & 0x3ff,
		.n = rest >> 34 & 0x7ff,
		.v6 = rest >> 45 & 1,
		.true_link = is_true_link(WIRE_FLAGS(rest), rest >> 45 & 1),
		.partial = !!(rest & WIRE_PARTIAL),
		.flow = tags,
	};

	return p;
}

/* find_on_wire() and find_lowered() in separate calls, because of the verifier's limits; at
 * egress most packets need neither. */
GLOBAL __u64 wire_by_bits(__u64 bits_len, __u64 tags, __u64 rest, __u64 now)
{
	struct packet p = unpack_wire(bits_len, tags, rest);
	struct rdr_port port = { .flags = WIRE_FLAGS(rest) };
	struct found f = { .id_rule = p.v6 ? ID_SHARED : ID_COUNTS };

	if (!may_carry(&p))
		return 0;
	if (!((bits_len & WIRE_ROUTED) && find_lowered(&p, &port, now, &f)) &&
	    !find_by_bits(&p, p.bits, now, rest >> 46 & 3, &f))
		return (__u64)f.missed << FOUND_MISSED_SHIFT;
	return pack_found(&f);
}

/* id_len: ID:16 | bytes as in bits_len:16 | flow hash:32. */
GLOBAL __u64 wire_by_key(__u64 id_len, __u64 tags, __u64 addrs, __u64 rest, __u64 now)
{
	struct packet p = unpack_wire((id_len & 0xffff) | (id_len & 0xffff0000) << 16, tags, rest);
	struct found f = { .id_rule = p.v6 ? ID_SHARED : ID_COUNTS };

	p.saddr = addrs;
	p.daddr = addrs >> 32;
	return find_by_key(&p, id_len >> 32, now, &f) ? pack_found(&f) : 0;
}

/* Whether a node that carries the header may have restored this packet for itself (a member of
 * the group, a band that is used up) and now sends a copy on, which therefore has a key. */
static __always_inline bool may_be_shown(const struct packet *p, __u32 flags)
{
	return p->group && !p->v6 && carries_header(flags);
}

/* flags: the port's. */
static __always_inline struct wire pack_wire(const struct packet *p, __u32 flags, __u32 expect)
{
	__u32 size = by_number(p->n, p->len, p->gso_size);
	__u32 hdr = repeated_hdr(p) & 0x3ff, n = p->n < 0x7ff ? p->n : 0x7ff;
	struct wire w = {
		.bits_len = p->bits.word | (__u64)size << 32,
		.tags = p->partial ? p->flow : p->tag | (__u64)p->tag2 << 32,
		.rest = p->frag | (__u64)p->proto << 16 | (__u64)hdr << 24 | (__u64)n << 34 |
			(__u64)p->v6 << 45 | (__u64)(expect & 3) << 46 |
			(__u64)(flags & 0x3fff) << 48 | (p->partial ? WIRE_PARTIAL : 0),
	};

	return w;
}

/* routed: the packet came in by some interface and leaves by this port. */
static __always_inline __u64 found_packed(const struct wire *w, const struct packet *p, __u32 flags,
					  __u32 expect, bool routed, __u64 now)
{
	__u64 r = wire_by_bits(w->bits_len | (routed ? WIRE_ROUTED : 0), w->tags, w->rest, now),
	      by_key;

	if (r & FOUND && overruns(r, p))
		r = (__u64)RDR_C_FOREIGN << FOUND_MISSED_SHIFT;
	if (r & FOUND || expect == EXPECT_STRAY ||
	    (!wants_key(p, p->bits.ttl) && !may_be_shown(p, flags)))
		return r;
	by_key = wire_by_key(p->bits.id | (w->bits_len >> 32 & 0xffff) << 16 |
				     (__u64)flow_hash(p) << 32,
			     w->tags, packet_addrs(p), w->rest, now);
	return by_key ? by_key : r;
}

/* flags: the port's. */
static __always_inline __u64 found_on_wire(const struct packet *p, __u32 flags, __u32 expect,
					   __u64 now)
{
	struct wire w = pack_wire(p, flags, expect);

	return found_packed(&w, p, flags, expect, false, now);
}

#endif
