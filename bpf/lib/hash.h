/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Hashes. Nobody can choose inputs for those with keys without knowing the keys: multilinear
 * hashing (Lemire and Kaser, "Strongly universal string hashing is fast", The Computer Journal
 * 57(11), 2014, section 2). Any two inputs that differ have the same hash with a chance of 2^-32.
 */
#ifndef LIB_HASH_H
#define LIB_HASH_H

#include "base.h"

/* The hash of three words, with three keys. */
static __always_inline __u32 hash_words(const volatile __u64 *keys, __u32 a, __u32 b, __u32 c)
{
	return (a * keys[0] + b * keys[1] + c * keys[2]) >> 32;
}

/* The hash of an IPv6 address, two words as they are in the packet, with four keys. */
static __always_inline __u32 hash_addr6(const volatile __u64 *keys, const __u64 *a)
{
	return ((__u32)a[0] * keys[0] + (a[0] >> 32) * keys[1] + (__u32)a[1] * keys[2] +
		(a[1] >> 32) * keys[3]) >>
	       32;
}

/* Takes one more word into hash h. No keys: whoever chooses the words chooses the hash. */
static __always_inline __u64 hash_mix(__u64 h, __u64 v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15ULL;
	return h ^ h >> 29;
}

#endif
