/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The collector's maps, and what user space sets before it loads the programs. */
#ifndef COLLECT_MAPS_H
#define COLLECT_MAPS_H

#include "abi.h"
#include "lib/system.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 16);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, struct collect_small);
} small_templates SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 12);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, struct collect_large);
} large_templates SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << 16);
	__type(key, __u32);
	__type(value, struct collect_shared_band);
} bands SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, 4);
} up SEC(".maps");

/*
 * For each key, and others that share its slot, the number of the last report that went up. A
 * template holds only if it was made after that report. Entry 0 counts the reports that went up.
 */
COUNTERS(ups, SLOTS + 1);

/* Reports that user space had no room for. */
COUNTERS(shed, 1);

/* Looked at if cfg_allowed_count is not 0. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct collect_allowed);
	__type(value, __u32);
} allowed SEC(".maps");

/* Reports of others than these. */
COUNTERS(refused, 1);

CPU_PAGE(work, struct collect_work);

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} more SEC(".maps");

const volatile __u16 cfg_ports[PORTS] = { 32766 };
const volatile __u32 cfg_port_count = 1;
/* Addresses that reports are sent to, as in struct tuple. Packets to others are not for us. */
const volatile struct {
	__u64 a, b;
} cfg_locals[LOCALS];
const volatile __u32 cfg_local_count = 0;
const volatile __u32 cfg_allowed_count = 0;
/* A packet that is longer, from the IP header on, is a GSO train that the stack will cut. */
const volatile __u32 cfg_mtu = 1500;

#endif
