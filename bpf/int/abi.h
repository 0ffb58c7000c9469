/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The layout that the programs of an INT node share with user space. bpf2go turns these types into
 * Go (pkg/bpfobj).
 *
 * Rules: fixed-width types, named padding, no bit fields, no packed structs. Numbers are of the
 * machine's byte order.
 */
#ifndef INT_ABI_H
#define INT_ABI_H

#include "lib/base.h"

#define INT_MAX_ENTRIES 16
#define INT_MAX_WORDS 31 /* of a hop; Hop ML has five bits */
#define INT_MAX_QUOTE 1280

/* What is behind a port. A port with neither of the first three has no role. */
enum int_port_flag {
	INT_PORT_SOURCE = 1,	   /* the outside: what comes in is compared with the watchlist */
	INT_PORT_SINK = 2,	   /* the outside */
	INT_PORT_INSIDE = 4,	   /* another node of the INT domain */
	INT_PORT_DROP_FOREIGN = 8, /* what comes in with INT is dropped, else it gets a cover */
	INT_PORT_HOST = 16, /* the node itself is an end: INT is removed from what it gets here */
};

#define INT_PORT_EDGE (INT_PORT_SOURCE | INT_PORT_SINK)

/*
 * A port that is INSIDE and SINK opens or closes: what comes in with INT is ours, and INT is taken from
 * what leaves. So both ends of a link take what the other one sends before it sends anything.
 */

/* An interface of the node. Element (ifindex & cfg_port_mask) of `ports`. */
struct int_port {
	__u32 ifindex; /* 0: none */
	__u32 flags;
	__u32 mtu;	    /* bytes of an IP packet */
	__u32 l2;	    /* its level-2 number; all ones: none */
	__u32 utilisation;  /* kbit/s sent; all ones: not known. User space writes it */
	__u32 congested_at; /* packets in the queue; 0: no reports of congestion */
	__u16 id;	    /* its level-1 number */
	__u16 pad;
	__u32 pad2;
	__u64 queue_report_ns; /* when congestion was reported last, 0: it has ended */
};

/* The numbers of modes are those of p4/include/int/constants.p4. */
enum int_mode {
	INT_MODE_NONE = 0, /* an exception before a wider entry */
	INT_MODE_MD = 1,
	INT_MODE_MX = 2,
	INT_MODE_XD = 3,
	INT_MODE_MD10 = 4,
};

/* An entry of the watchlist. Its expression is in watched(). */
struct int_entry {
	__u16 instructions;
	__u16 domain;
	__u8 mode;
	__u8 remaining; /* nodes that may add, the source among them; of MD. 0: none, as in a cover */
	__u8 words;	/* that a hop adds, by the bitmap */
	__u8 pad;
	__u32 sample; /* one packet in so many; 0 and 1: all */
};

struct int_control {
	__u64 lease_ns; /* CLOCK_MONOTONIC up to which sources mark and transits add */
	/* What is added to CLOCK_MONOTONIC for the times in packets, modulo 2^64: they are Unix time,
	 * as in all of radar's reports. Times of struct int_report are without it. User space writes
	 * it, and changes it only when the wall clock was set. */
	__u64 wall_ns;
};

/*
 * Why a packet at a port with a role got nothing from this node. The first twenty are those of
 * p4/include/int/constants.p4 (SKIP_...). A number is never reused.
 */
enum int_skip {
	INT_SKIP_NONE = 0,
	INT_SKIP_NOT_WATCHED = 1,
	INT_SKIP_NOT_SAMPLED = 2,
	INT_SKIP_NOT_IP = 3,
	INT_SKIP_NOT_TCP_UDP = 4,
	INT_SKIP_FRAGMENT = 5,
	INT_SKIP_EXTENSION = 6,
	INT_SKIP_TOO_SHORT = 7,
	INT_SKIP_BAD_LENGTH = 8,
	INT_SKIP_BAD_CHECKSUM = 9,
	INT_SKIP_REPORT = 10,
	INT_SKIP_FOREIGN = 11,
	INT_SKIP_NOT_INT = 12,
	INT_SKIP_MTU = 13,
	INT_SKIP_HOPS = 14,
	INT_SKIP_HOP_ML = 15,
	INT_SKIP_STACK_FULL = 16,
	INT_SKIP_NO_ROLE = 17,
	INT_SKIP_NOT_SOURCE = 18,
	INT_SKIP_NO_INSTRUCTION = 19,
	INT_SKIP_NO_DSCP = 20,
	INT_SKIP_GSO = 21,	/* a GSO packet: its segments would be longer by themselves */
	INT_SKIP_LEASE = 22,	/* nobody renews the lease */
	INT_SKIP_NO_ROOM = 23,	/* the kernel could not make the packet longer or shorter */
	INT_SKIP_LONG = 24,	/* more payload than can be moved */
	INT_SKIP_TCP_PORT = 25, /* TCP cannot be marked by a port here */
	INT_SKIP_QUOTE = 26, /* an ICMP error quotes INT that cannot be taken out, or not known */
	INT_SKIPS = 32,
};

/* What the node did. The first nine are those of p4/include/int/constants.p4 (DONE_...). */
enum int_done {
	INT_DONE_SOURCE = 0,
	INT_DONE_TRANSIT = 1,
	INT_DONE_SINK = 2,
	INT_DONE_FLOW = 3,
	INT_DONE_QUEUE = 4,
	INT_DONE_SUPPRESSED = 5,
	INT_DONE_DISCARDED = 6,
	INT_DONE_SENT = 7, /* reports handed to user space */
	INT_DONE_NO_COLLECTOR = 8,
	INT_DONE_REPORT_LOST = 9, /* user space did not take them in time */
	INT_DONE_FOREIGN_DROPPED = 10,
	INT_DONE_NO_TIME = 11,	 /* hops without latency: it is not known when the packet came in */
	INT_DONE_COVERED = 12,	 /* foreign INT got a cover */
	INT_DONE_UNCOVERED = 13, /* and lost it again */
	INT_DONE_QUOTE = 14,	 /* ICMP errors that quoted INT, which was taken out */
	INT_DONES = 32,
};

struct int_counters {
	__u64 skipped[INT_SKIPS];
	__u64 done[INT_DONES];
};

enum int_report_flag { /* TR 2.0's bits */
	INT_REPORT_DROPPED = 0x80,
	INT_REPORT_QUEUE = 0x40,
	INT_REPORT_FLOW = 0x20,
	INT_REPORT_INTERMEDIATE = 0x10,
};

/* What a node reports about a packet; the first quote_len bytes of it follow, from the IP header
 * on, as it came to the node. Values whose bit is not in `bits` are not known. */
struct int_report {
	__u64 ingress_ns; /* CLOCK_MONOTONIC */
	__u64 egress_ns;
	__u32 node;  /* its number */
	__u32 index; /* cfg_index */
	__u32 latency;
	__u32 queue; /* queue id:8 | packets in it:24 */
	__u32 l2_in;
	__u32 l2_out;
	__u32 utilisation;
	__u16 port_in;
	__u16 port_out;
	__u16 bits; /* of the bitmap */
	__u16 domain;
	__u16 quote_len;
	__u8 flags;
	__u8 mode; /* of the packet's INT; XD: it has none */
	__u8 ip;   /* 4 or 6 */
	__u8 pad[3];
	__u32 pad2;
};

#endif
