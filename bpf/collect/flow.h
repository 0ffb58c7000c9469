/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The flow of a report, by the packet that it quotes. A wrong guess only costs time. */
#ifndef COLLECT_FLOW_H
#define COLLECT_FLOW_H

#include "lib/hash.h"
#include "lib/vlan.h"

/* Where the quoted packet's Ethernet or IP header is, by the report's own header; 0: not known. */
static __always_inline __u32 quoted_at(const __u8 *p, void *end, bool *ethernet)
{
	const __be32 *w = (const void *)p;
	__u32 first, at;

	if ((void *)(p + 16) > end)
		return 0;
	first = bpf_ntohl(w[0]);
	switch (first >> 28) {
	case 0:
		*ethernet = (first >> 24 & 15) != 4;
		switch (first >> 24 & 15) {
		case 0:
		case 4:
			return 12;
		case 1:
			return 24;
		case 2:
			return 28;
		}
		return 0;
	case 1: {
		__u32 bits = first >> 15 & 0x3f;

		bits = (bits & 0x15) + (bits >> 1 & 0x15);
		bits = (bits & 3) + (bits >> 2 & 3) + (bits >> 4 & 3);
		*ethernet = (first >> 21 & 7) == 0;
		return 16 + 4 * (bits & 7);
	}
	case 2:
		first = bpf_ntohl(w[2]);
		*ethernet = (first >> 24 & 15) == 3;
		at = 12;
		if (first >> 28 == 1)
			at += 8 + 4 * (first >> 8 & 0xff);
		return at;
	}
	return 0;
}

/* The key of a flow: the header of the quoted packet, or without it the report's node. */
static __always_inline __u64 key_of(const __u8 *p, void *end, __u64 from)
{
	__u32 version = p[0] >> 4;
	/* The node, of 1.0 and 2.0; 0.5 has its sequence number there. */
	__u64 h = hash_mix(from, version == 1 || version == 2 ? *(const __be32 *)(p + 4) : 0);
	bool ethernet = false;
	__u32 at = quoted_at(p, end, &ethernet);
	const __u8 *q = p + (at & 0x7ff);
	__be16 type;

	if (at == 0 || (void *)(q + 34) > end)
		return h;
	if (ethernet) {
		type = *(const __be16 *)(q + 12);
		q += 14;
		for (int i = 0; i < 2; i++) {
			if (!is_vlan(type))
				break;
			if ((void *)(q + 4) > end)
				return h;
			type = *(const __be16 *)(q + 2);
			q += 4;
		}
	}
	if ((void *)(q + 24) > end)
		return h;
	if (q[0] == 0x45) {
		const __be32 *w = (const void *)q;

		h = hash_mix(h, (__u64)w[3] << 32 | w[4]);
		return hash_mix(h, (__u64)w[5] << 8 | q[9]);
	}
	if (q[0] >> 4 == 6 && (void *)(q + 44) <= end) {
		const __u64 *w = (const void *)(q + 8);

		h = hash_mix(h, w[0]);
		h = hash_mix(h, w[1]);
		h = hash_mix(h, w[2]);
		h = hash_mix(h, w[3]);
		return hash_mix(h, (__u64) * (const __be32 *)(q + 40) << 8 | q[6]);
	}
	return h;
}

#endif
