/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Load-time configuration. The verifier sees constants, so it removes code for what is off.
 * pkg/vnet/datapath sets all of them (and fails on a name that is not here). */
#ifndef BACKPACK_CONFIG_H
#define BACKPACK_CONFIG_H

#include "abi.h"

/* Slots of the ring, a power of two; index = position & (cfg_slots - 1). */
const volatile __u32 cfg_slots = 4096;
/* Cells of a slot: RDR_CELLS(its cache lines). */
const volatile __u32 cfg_cells = RDR_CELLS(RDR_MAX_SLOT_LINES);
/* Positions a CPU takes at once: a power of two, at most 1,024 and slots / 4. */
const volatile __u32 cfg_block = 64;
/* Longest train that is measured. */
const volatile __u32 cfg_max_segs = RDR_MAX_SEGS;
/* Packets that GRO may have joined to one skb. */
const volatile __u32 cfg_max_run = RDR_MAX_RUN;

/* A slot in flight and younger than this is never reused, and a packet whose
 * slot is older is not ours. */
const volatile __u64 cfg_timeout_ns = 10000000000ULL;
/* A finished slot is not reused before this age: duplicates, late segments. */
const volatile __u64 cfg_min_age_ns = 10000000ULL;

/* A packet lost inside a node may live on as a copy (a forwarder in user space
 * reads a tap, the kernel drops its own): its slot is kept this long. */
const volatile __u64 cfg_loss_hold_ns = 2000000000ULL;

/*
 * The GUID's layout on the wire, from least to most significant bit of the slot
 * index: IP ID (16), cfg_dscp_bits low bits of the DSCP, TTL band.
 * cfg_ttl_band[ttl] is 1 + band, or 0 if the TTL is in none. cfg_band_top[band] is
 * the TTL that a band is written with. cfg_ttl_width is the number of TTLs in a
 * band: cfg_ttl_width - 1 decrements are visible.
 */
const volatile __u32 cfg_dscp_bits = 0;
const volatile __u32 cfg_ttl_width = 8;
const volatile __u8 cfg_ttl_band[256] = {};
const volatile __u8 cfg_band_top[256] = {};

/* These bits of skb->mark have index + 1 inside a node (--carry mark); mask 0: the
 * GUID stays in the header (--carry header). */
const volatile __u32 cfg_mark_mask = 0;
const volatile __u32 cfg_mark_shift = 0;

/* How IPv6 is measured: a value of enum rdr_ip6. */
const volatile __u8 cfg_ip6 = 1;

/* Keys of hashes, hash.h: the domain's secret. These are for tests. */
const volatile __u64 cfg_hash[RDR_HASH_KEYS] = {
	0x9e3779b97f4a7c15ULL, 0xc2b2ae3d27d4eb4fULL, 0x165667b19e3779f9ULL, 0x27d4eb2f165667c5ULL,
	0x85ebca77c2b2ae63ULL, 0xd6e8feb86659fd93ULL, 0xa0761d6478bd642fULL,
};

/* Only packets that watched() lets through are measured. */
const volatile __u8 cfg_watch = 0;

/* What the kernel offers. */
const volatile __u8 cfg_has_reason = 0; /* kfree_skb has a drop reason (5.17) */
const volatile __u8 cfg_has_coarse = 0; /* bpf_ktime_get_coarse_ns (5.11) */
const volatile __u8 cfg_iterators = 0;	/* bpf_iter_num_new and its like (6.4), loop.h */
/* Bits of struct sk_buff, as byte << 8 | mask: redirected, tc_skip_classify. 0: not known. */
const volatile __u32 cfg_skb_redirected = 0;
const volatile __u32 cfg_skb_again = 0;

/* kfree_skb from these functions is no loss: packet taps, ping sockets, queues that
 * free a train after its segments. */
struct rdr_range {
	__u64 from;
	__u64 to; /* exclusive */
};
#define RDR_MAX_IGNORE 16
const volatile struct rdr_range cfg_ignore[RDR_MAX_IGNORE] = {};

/* Here the kernel frees echo replies that no ping socket wanted, from Linux 5.18 to 6.12, with
 * that reason: what it frees here for another reason is dropped. 0: no such reason. */
#define RDR_MAX_PING 2
const volatile struct rdr_range cfg_ping[RDR_MAX_PING] = {};
const volatile __u32 cfg_no_socket = 0;

/* Here the kernel frees fragments that were joined to one packet, with that packet. */
#define RDR_MAX_JOINED 8
const volatile struct rdr_range cfg_joined[RDR_MAX_JOINED] = {};

/* Here the kernel frees frames for another host, which a bridge flooded. */
#define RDR_MAX_UNWANTED 12
const volatile struct rdr_range cfg_other_host[RDR_MAX_UNWANTED] = {};

/* Here it also frees packets for groups that the node is no member of. */
const volatile struct rdr_range cfg_non_member[RDR_MAX_UNWANTED] = {};

#endif
