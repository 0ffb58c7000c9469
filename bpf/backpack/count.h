/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Named counters: every packet that is not measured has one. */
#ifndef BACKPACK_COUNT_H
#define BACKPACK_COUNT_H

#include "maps.h"

static __always_inline void count(enum rdr_counter which, __u64 n)
{
	add_count(&counters, which, n);
}

#endif
