/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Hashes of addresses and ports that nobody can steer who does not know the domain's keys:
 * multilinear hashing (Lemire and Kaser, "Strongly universal string hashing is fast", The
 * Computer Journal 57(11), 2014, section 2). Two inputs that differ have the same hash with a
 * chance of 2^-32, whatever they are. A host outside sees no hash, so it learns no key.
 */
#ifndef RADAR_HASH_H
#define RADAR_HASH_H

#include "base.h"
#include "config.h"

/* Of addresses and ports: tells whether NAT changed them, and flows from each other. */
static __always_inline __u32 tuple_hash(__u32 saddr, __u32 daddr, __u32 ports)
{
	return (saddr * cfg_hash[0] + daddr * cfg_hash[1] + ports * cfg_hash[2]) >> 32;
}

/* Of an IPv6 address: what keys and flow hashes hold of it. */
static __always_inline __u32 fold_addr(const __u64 *a)
{
	return ((__u32)a[0] * cfg_hash[3] + (a[0] >> 32) * cfg_hash[4] +
		(__u32)a[1] * cfg_hash[5] + (a[1] >> 32) * cfg_hash[6]) >> 32;
}

#endif
