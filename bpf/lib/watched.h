/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The expressions of what a system watches. (Not in system.h: most programs watch nothing.) */
#ifndef LIB_WATCHED_H
#define LIB_WATCHED_H

#include "base.h"

/*
 * What the system shall watch: whether, or by which of its expressions, counted from 1, it
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
