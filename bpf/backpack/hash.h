/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Hashes of addresses and ports, with the domain's keys. A host outside sees no hash, so it learns
 * no key. */
#ifndef BACKPACK_HASH_H
#define BACKPACK_HASH_H

#include "config.h"
#include "lib/hash.h"

/* The hash of addresses and ports: it shows NAT, and separates flows. */
static __always_inline __u32 tuple_hash(__u32 saddr, __u32 daddr, __u32 ports)
{
	return hash_words(cfg_hash, saddr, daddr, ports);
}

/* The hash of an IPv6 address: keys and flow hashes have it instead of the address. */
static __always_inline __u32 fold_addr(const __u64 *a)
{
	return hash_addr6(cfg_hash + 3, a);
}

#endif
