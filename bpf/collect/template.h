/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Whether a report fits its flow's template. */
#ifndef COLLECT_TEMPLATE_H
#define COLLECT_TEMPLATE_H

#include "maps.h"

static __always_inline bool fits(struct collect_template_head *t, const __u64 *mask,
				 const __u64 *value, __u64 *last, const struct collect_band *band,
				 const __u32 max_words, const __u32 max_bands, struct xdp_md *ctx,
				 __u32 payload, __u32 len)
{
	const __u8 *p = (void *)(long)ctx->data + payload;
	void *end = (void *)(long)ctx->data_end;
	__u32 next = (~t->last & 1) * max_words;
	__u64 wrong = 0, sum = 0;
	__u32 n = t->words, m = t->bands;

	if (t->tail + 8u > len || len > t->max_len)
		return false;
	for (__u32 i = 0; i < max_words; i++) {
		const __u64 *w = (const void *)(p + 8 * i);

		if (i >= n)
			break;
		if ((void *)(w + 1) > end)
			return false;
		__u64 x = *w;
		wrong |= (x ^ value[i]) & mask[i];
		last[next + i] = x;
	}
	/* Anew, so that the verifier forgets how many words there were. */
	p = (void *)(long)*(volatile __u32 *)&ctx->data + payload;
	end = (void *)(long)*(volatile __u32 *)&ctx->data_end;
	/* If the last word is not a whole one, it is compared as one that overlaps the word before it.
	 * Else its mask is 0. */
	const __u8 *w = p + (t->tail & 0x7ff);
	if ((void *)(w + 8) > end)
		return false;
	__u64 x = *(const __u64 *)w;
	wrong |= (x ^ value[max_words - 1]) & mask[max_words - 1];
	if (wrong)
		return false;
	last[next + max_words - 1] = x;
	m = *(volatile __u16 *)&t->bands;
	for (__u32 i = 0; i < max_bands; i++) {
		const struct collect_band *b = &band[i];
		__u32 lo = b->lo, span = b->span, v;
		const __u8 *at;

		if (i >= m)
			break;
		at = p + (b->off & 0x7ff);
		if ((void *)(at + 4) > end)
			return false;
		v = bpf_ntohl(*(const __be32 *)at) & b->mask;
		sum += v & b->summed; /* no branch: the verifier would follow each */
		if (b->flags & COLLECT_BAND_SHARED) {
			struct collect_shared_band *s = bpf_map_lookup_elem(&bands, &lo);

			if (!s || v == b->mask) /* all ones: no value */
				return false;
			lo = s->lo;
			span = s->span;
		}
		if (v - lo > span)
			return false;
	}
	if (t->single) {
		p = (void *)(long)*(volatile __u32 *)&ctx->data + payload;
		end = (void *)(long)*(volatile __u32 *)&ctx->data_end;
		if ((void *)(p + 10) > end || (p[9] != 255 && 15 + 4 * (__u32)p[9] < len))
			return false;
	}
	return sum - t->sum_lo <= t->sum_span;
}

static __always_inline __u32 slot_of(__u64 key)
{
	return 1 + (key & (SLOTS - 1));
}

static __always_inline bool is_fresh(const struct collect_template_head *t, __u64 key)
{
	__u32 slot = slot_of(key), index = t->flow;
	struct collect_shared_band *s = bpf_map_lookup_elem(&bands, &index);
	__u64 *last = bpf_map_lookup_elem(&ups, &slot);

	/* No further branch: the verifier would look at all that follows once more. */
	return s && last && *last <= t->after && !((s->lo ^ t->generation) & t->has_flow);
}

#endif
