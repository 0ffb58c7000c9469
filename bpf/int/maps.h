/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Maps of an INT node, and what user space sets before it loads its programs. */
#ifndef INT_MAPS_H
#define INT_MAPS_H

#include "abi.h"
#include "lib/system.h"

/* Mapped: user space writes single fields while programs write others. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 256); /* load: cfg_port_mask + 1 */
	__type(key, __u32);
	__type(value, struct int_port);
} ports SEC(".maps");

/* One for all nodes of a host. */
SHARED_PAGE(control, struct int_control);

CPU_PAGE(counters, struct int_counters);

/* struct int_report and a quote, to user space. One for all nodes of a host. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22); /* load */
} reports SEC(".maps");

const volatile __u32 cfg_node = 1;  /* its number in INT */
const volatile __u32 cfg_index = 0; /* its number in user space */
const volatile __u32 cfg_port_mask = 255;
const volatile __u8 cfg_dscp = 0x17;	      /* marks a packet, under cfg_dscp_mask */
const volatile __u8 cfg_dscp_mask = 0x3f;     /* 0: the port does */
const volatile __u16 cfg_port = 0;	      /* UDP's destination port that marks; 0: none */
const volatile __u16 cfg_report_port = 32766; /* packets to it are reports */
const volatile __u16 cfg_quote = 128;	      /* bytes of a packet in a report */
const volatile __u8 cfg_host_source = 0;      /* what the node itself sends is compared, too */
const volatile __u8 cfg_times = 1;   /* skb->tstamp can carry a time through the node (5.18) */
const volatile __u8 cfg_queues = 1;  /* the kernel's own skb can be read (6.2) */
const volatile __u8 cfg_reports = 1; /* somebody takes reports */
const volatile __u32 cfg_entries = 0;
const volatile struct int_entry cfg_watchlist[INT_MAX_ENTRIES] = {};

#endif
