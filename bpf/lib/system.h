/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What every attached system has: a control page with its lease, the expression of what it watches,
 * counters. Its maps stay its own: the macros here make them.
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

/* The element of a map that has one. */
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

/*
 * What the system is told to watch: whether, or by which of its expressions, counted from 1, it
 * watches the packet whose IP header begins at l3; 0: it does not. len: the packet's length for the
 * expressions. User space replaces the body by the compiled expressions when it loads the programs, so
 * the compiler must not know the result.
 */
GLOBAL int watched(struct __sk_buff *skb, __u32 l3, __u32 len)
{
	int verdict = 1;

	asm volatile("" : "+r"(verdict) : "r"(skb), "r"(l3), "r"(len));
	return verdict;
}

#endif
