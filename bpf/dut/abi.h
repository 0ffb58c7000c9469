/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the programs of radar dut share with user space: the mark in a test packet, the stamps of
 * a packet, and what is counted. bpf2go turns these types into Go (pkg/bpfobj).
 *
 * Rules: fixed-width types, named padding, no bit fields, no packed structs.
 */
#ifndef DUT_ABI_H
#define DUT_ABI_H

#include "lib/base.h"

/* The first bytes of the UDP payload, in network byte order. */
struct dut_mark {
	__be32 magic; /* DUT_MAGIC */
	__be32 run;
	__be32 trial;
	__be32 seq;
};

enum dut_magic {
	DUT_MAGIC = 0x72647574, /* "rdut" */
};

/* Where a packet is stamped, in the order in which it comes there. */
enum dut_point {
	DUT_POINT_SENT,	    /* egress of the port that sends */
	DUT_POINT_RECEIVED, /* ingress of the port that receives */
	DUT_POINT_RETURNED, /* egress of that port, where it sends packets back */
	DUT_POINT_BACK,	    /* ingress of the first port */
	DUT_POINTS,
};

/* One packet of a trial: a cache line. */
struct dut_stamps {
	__u64 at_ns[DUT_POINTS]; /* CLOCK_MONOTONIC; 0: it was not seen there */
	__u32 seen[DUT_POINTS];	 /* how often */
	__u64 pad[2];
};

/* What came of a trial's packets as a whole, and what else the programs met. */
struct dut_tally {
	__u64 first[DUT_POINTS]; /* packets that came to a point for the first time */
	__u64 again[DUT_POINTS]; /* the same ones once more */
	__u64 resized;		 /* packets of another length than the trial's */
	__u64 late;		 /* packets of an earlier trial */
	__u64 stray;		 /* packets whose number the trial does not have */
	__u64 stuck;		 /* packets that could not be sent back */
};

/* What user space says of the trial that runs. */
struct dut_trial {
	__u32 trial;
	__u32 packets;
	__u32 payload; /* bytes of UDP payload */
	__u32 pad;
};

#endif
