/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Loops whose end the verifier need not walk to: docs/design/0049-verifier.md. From Linux 6.4 on a
 * loop over numbers is an open-coded iterator (Documentation/bpf/bpf_iterators.rst): the verifier
 * looks at its body until it finds no new state, two or three times. On older kernels it is bounded by
 * a constant, and the verifier looks at each turn.
 */
#ifndef BACKPACK_LOOP_H
#define BACKPACK_LOOP_H

#include "config.h"

struct bpf_iter_num {
	__u64 state;
} __attribute__((aligned(8)));

/* Weak: where the kernel lacks them, the loader puts calls there that the verifier never reaches. */
extern int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end) __weak __ksym;
extern int *bpf_iter_num_next(struct bpf_iter_num *it) __weak __ksym;
extern void bpf_iter_num_destroy(struct bpf_iter_num *it) __weak __ksym;

/* The end of a turn of an iterator. 5.10 looks at code that it never runs, too: only a jump may lead back
 * there, and code that falls through to where it has been is refused ("back-edge"). So there is a jump.
 * Its condition is never true, and the verifier removes it. */
/* clang-format off */
#define BACK_JUMP()                                                                                \
	({                                                                                         \
		__label__ again;                                                                   \
		asm volatile goto("if %[one] == 2 goto %l[again]" : : [one] "r"(1) : : again);     \
	again:;                                                                                    \
	})

/*
 * for (k = from; k < end && k < most; k++) { what follows }. k is a __u32, and end must not change. most: a
 * bound that the verifier of older kernels knows. (Two loops: one for both needs too much of the stack.)
 */
#define FOR_RANGE(k, from, end, most, ...)                                                         \
	do {                                                                                       \
		if (cfg_iterators) {                                                               \
			struct bpf_iter_num it_ __attribute__((cleanup(bpf_iter_num_destroy)));    \
			int *at_;                                                                  \
			bpf_iter_num_new(&it_, from, (end) < (most) ? (end) : (most));             \
			while ((at_ = bpf_iter_num_next(&it_))) {                                  \
				(k) = *at_;                                                        \
				__VA_ARGS__                                                        \
				BACK_JUMP();                                                       \
			}                                                                          \
		} else {                                                                           \
			for ((k) = (from); (k) < (most) && (k) < (end); (k)++) {                   \
				__VA_ARGS__                                                        \
			}                                                                          \
		}                                                                                  \
	} while (0)

/* while (k < n) k += step, at most so many times. */
#define FOR_STEPS(k, n, most, step)                                                                \
	do {                                                                                       \
		__u32 i_;                                                                          \
		if (cfg_iterators) {                                                               \
			FOR_RANGE(i_, 0, most, most, {                                             \
				if ((k) >= (n))                                                    \
					break;                                                     \
				(k) += step;                                                       \
			});                                                                        \
		} else {                                                                           \
			for (i_ = 0; i_ < (most) && (k) < (n); i_++)                               \
				(k) += step;                                                       \
		}                                                                                  \
	} while (0)
/* clang-format on */

#endif
