/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What every program includes first: helpers, and declarations for compiler and verifier.
 *
 * The headers of bpf/lib serve programs of all systems. They have no map (system.h has macros for a
 * system's), no constant that user space sets, and no packet of a system's own.
 */
#ifndef LIB_BASE_H
#define LIB_BASE_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

/*
 * A function that the verifier checks once, by itself, instead of once for every
 * state of every caller. 5.10 allows such functions a context and scalars only.
 */
#define GLOBAL __attribute__((noinline))

#define READ_ONCE(x) (*(const volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, v) (*(volatile typeof(x) *)&(x) = (v))

/* 0, which the verifier does not know: x is read twice. Added to a value, it hides from the
 * verifier what that knew of the value, and so makes one state of many. */
#define HIDDEN_ZERO(x)                                                                             \
	({                                                                                         \
		__u64 once = *(const volatile __u32 *)&(x), again = *(const volatile __u32 *)&(x); \
		asm volatile("%0 ^= %1" : "+r"(once) : "r"(again));                                \
		(__u32) once;                                                                      \
	})

/* x, of which the verifier then knows nothing. A function, so that what it needs of the stack is free again. */
static __always_inline __u32 hide(__u32 x)
{
	return x + HIDDEN_ZERO(x);
}

/* many if n > 1, else one; without a branch, for the verifier. */
static __always_inline __u32 by_number(__u32 n, __u32 one, __u32 many)
{
	__u64 mask = 1 - (__u64)n;

	asm volatile("%0 s>>= 63" : "+r"(mask));
	return one ^ ((one ^ many) & mask);
}

#endif
