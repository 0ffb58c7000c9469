/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The Internet checksum (RFC 1071), and its update (RFC 1624): sums of 16-bit words in one's
 * complement. Words are taken as they are in the packet. A sum has 32 bits, and is folded at the
 * end.
 */
#ifndef LIB_CHECKSUM_H
#define LIB_CHECKSUM_H

#include "base.h"

/* The sum in 16 bits; of at most 2^16 words. */
static __always_inline __u32 sum_fold(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

/* What a word that changes adds to the sum (RFC 1624, equation 3). */
static __always_inline __u32 sum_change(__u16 old, __u16 new)
{
	return (__u16)~old + new;
}

/*
 * The checksum for that sum. A zero checksum has two forms, 0 and 0xffff, which mean the same.
 * minus_zero selects the one that is written: 1 for 0xffff, 0 for 0. (Without a branch, for the
 * verifier.)
 */
static __always_inline __u32 sum_to_check(__u32 sum, __u32 minus_zero)
{
	__u32 check = (__u16)~sum_fold(sum);

	/* All ones if check is 0. */
	check |= ((check - 1) >> 16) & -minus_zero;
	return check;
}

#endif
