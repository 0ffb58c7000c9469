/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The layout that the collector's programs share with user space: templates, and what goes before
 * each packet that goes up. bpf2go turns these types into Go (pkg/bpfobj).
 *
 * Rules: fixed-width types, named padding, no bit fields, no packed structs.
 */
#ifndef COLLECT_ABI_H
#define COLLECT_ABI_H

#include "lib/base.h"

#define PORTS 64
#define LOCALS 16
#define SMALL_WORDS 56
#define SMALL_BANDS 32
#define WORDS 160
#define BANDS 192

/* A band's field is the masked 4 bytes at an offset into the payload, of network byte order. */
struct collect_band {
	__u16 off;
	__u16 flags;
	__u32 mask;
	__u32 lo;     /* COLLECT_BAND_SHARED: index in bands */
	__u32 span;   /* highest less lowest */
	__u32 summed; /* all ones: the field is a part of the sum; else 0 */
	__u32 pad;
};

enum collect_band_flag {
	COLLECT_BAND_SHARED = 1,
};

struct collect_shared_band {
	__u32 lo;
	__u32 span;
};

/* A prefix whose reports are accepted. IPv4 is written as in IPv6, ::ffff:a.b.c.d. */
struct collect_allowed {
	__u32 bits;
	__u32 addr[4]; /* network byte order */
};

struct collect_template_head {
	__u64 taken;
	__u64 after;  /* number of the report it was made after; see ups */
	__u64 sum_lo; /* of the summed bands' fields */
	__u64 sum_span;
	__u16 words; /* of 8 bytes */
	__u16 bands;
	__u8 single; /* the length of a report of TR 2.0 must reach to the payload's end */
	__u8 last;   /* which of the two buffers has the last one that fitted */
	__u16 tail; /* offset of one word more, in the last place of the arrays: the payload has that */
	__u32 flow; /* index in bands of its flow's generation, which must be this */
	__u32 generation;
	__u32 has_flow; /* all ones, or 0 */
	__u32 max_len;	/* of the payload, bytes */
};

struct collect_small {
	struct collect_template_head head;
	__u64 mask[SMALL_WORDS];
	__u64 value[SMALL_WORDS];
	__u64 last[2 * SMALL_WORDS];
	struct collect_band band[SMALL_BANDS];
};

struct collect_large {
	struct collect_template_head head;
	__u64 mask[WORDS];
	__u64 value[WORDS];
	__u64 last[2 * WORDS];
	struct collect_band band[BANDS];
};

/* Before each packet that goes up. */
struct collect_up {
	__u64 at_ns; /* CLOCK_MONOTONIC */
	__u64 key;
	__u64 number; /* of the report among those of this CPU that went up */
	__u32 ip;     /* offset of the IP header */
	__u32 pad;
};

/* What the first of the two programs passes on. */
struct collect_work {
	__u64 key;
	__u32 payload; /* offset */
	__u32 len;     /* of the payload, bytes */
	__u32 ip;
	__u32 pad;
};

#define SLOTS (1 << 16)

#endif
