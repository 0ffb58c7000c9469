/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What every attached system has: a control page with its lease, and counters. Its maps stay its own:
 * the macros here make them. What it watches: watched.h.
 */
#ifndef LIB_SYSTEM_H
#define LIB_SYSTEM_H

#include "base.h"

/* A map of one element, which user space maps, too. */
#define SHARED_PAGE(name, of)                      \
	struct {                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);  \
		__uint(map_flags, BPF_F_MMAPABLE); \
		__uint(max_entries, 1);            \
		__type(key, __u32);                \
		__type(value, of);                 \
	} name SEC(".maps")

/* A map of one element for each CPU. */
#define CPU_PAGE(name, of)                               \
	struct {                                         \
		__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY); \
		__uint(max_entries, 1);                  \
		__type(key, __u32);                      \
		__type(value, of);                       \
	} name SEC(".maps")

/* A number for each CPU and each of n counters. */
#define COUNTERS(name, n)                                \
	struct {                                         \
		__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY); \
		__uint(max_entries, n);                  \
		__type(key, __u32);                      \
		__type(value, __u64);                    \
	} name SEC(".maps")

/* The element of a map that has one, or the first. */
static __always_inline void *page(void *map)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(map, &zero);
}

/* Adds n to a counter. Not atomic: a program that a hard interrupt runs may cost a count. The atomic
 * add would cost 5 ns on every packet. */
static __always_inline void add_count(void *counters, __u32 which, __u64 n)
{
	__u64 *value = bpf_map_lookup_elem(counters, &which);

	if (value)
		*value += n;
}

/* Whether sources may begin to measure packets. lease_ns: of the control page (pkg/system.Lease). */
static __always_inline bool is_leased(const __u64 *lease_ns, __u64 now)
{
	return now < READ_ONCE(*lease_ns);
}

#endif
