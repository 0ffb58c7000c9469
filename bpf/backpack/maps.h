/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* All maps. Their names are their pin names; sizes marked "load" are set by
 * user space before loading. */
#ifndef BACKPACK_MAPS_H
#define BACKPACK_MAPS_H

#include "abi.h"
#include "lib/system.h"

/* One element a slot; value size and number are set at load. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 4096); /* load */
	__uint(key_size, sizeof(__u32));
	__uint(value_size, RDR_LINE *RDR_MAX_SLOT_LINES); /* load */
} ring SEC(".maps");

/* Notes about slots in flight, ring.h. One element for RDR_WINDOW slots. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4096 / RDR_WINDOW); /* load */
	__type(key, __u32);
	__type(value, __u64);
} busy SEC(".maps");

/* A bit for each slot: a train has left it unfilled, as a member (members.h). One element: words
 * of 16 bits. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, 4096 / 8); /* load */
} members SEC(".maps");

SHARED_PAGE(control, struct rdr_control);

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rdr_cursor);
} cursor SEC(".maps");

CPU_PAGE(alloc, struct rdr_alloc);

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RDR_MAX_PORTS);
	__type(key, __u32);
	__type(value, struct rdr_port);
} ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RDR_MAX_PORTS);
	__type(key, struct rdr_dev);
	__type(value, __u32); /* port number */
} devs SEC(".maps");

/* Which port becomes an edge if an interface moves away: that at its other end. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RDR_MAX_PORTS);
	__type(key, struct rdr_dev);
	__type(value, __u32);
} ends SEC(".maps");

/* What has changed at each port. Index = port number. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, RDR_MAX_PORTS);
	__type(key, __u32);
	__type(value, struct rdr_shift);
} shifts SEC(".maps");

/* Nodes that carry the header: number of the namespace -> node. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RDR_MAX_NODES);
	__type(key, __u32);
	__type(value, __u32);
} homes SEC(".maps");

/* What has changed at such nodes. Index = node. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, RDR_MAX_NODES);
	__type(key, __u32);
	__type(value, struct rdr_guard);
} guards SEC(".maps");

/* 1 + the next port of the same node; 0: there is none. Index = port. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RDR_MAX_PORTS);
	__type(key, __u32);
	__type(value, __u32);
} siblings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct rdr_local);
	__type(value, __u8);
} locals SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct rdr_local6);
	__type(value, __u8);
} locals6 SEC(".maps");

/* IPv4 addresses of nodes with few of them: a lookup in a hash map costs 30 to 48 ns. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RDR_MAX_NODES);
	__type(key, __u32);
	__type(value, struct rdr_node);
} nodes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RDR_MAX_NODES);
	__type(key, __u32);
	__type(value, struct rdr_node);
} nodes6 SEC(".maps");

/* Packets whose bits stay as they are: key -> ring position. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536); /* load */
	__type(key, struct rdr_key);
	__type(value, __u64);
} keys SEC(".maps");

COUNTERS(counters, RDR_C_MAX);

/* Packets that were freed before they were sent. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RDR_MAX_UNSENT);
	__type(key, struct rdr_unsent_key);
	__type(value, struct rdr_unsent);
} unsent SEC(".maps");

/* Late packets whose slots other packets have. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, RDR_MAX_SPELLED);
	__type(key, struct rdr_spelled_key);
	__type(value, struct rdr_spelled);
} spelled SEC(".maps");

/* Packets whose slots others of their flows have taken, by their bits, while they were in flight. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, RDR_MAX_SPELLED);
	__type(key, struct rdr_spelled_key);
	__type(value, struct rdr_spelled);
} replaced SEC(".maps");

/* Packets that came to a node with bits of their own that spell an index. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, RDR_MAX_SPELLED);
	__type(key, struct rdr_own_key);
	__type(value, __u64); /* CLOCK_MONOTONIC */
} own_headers SEC(".maps");

/* What the ports' stubs jump to. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, RDR_PROG_MAX);
	__type(key, __u32);
	__type(value, __u32);
} progs SEC(".maps");

#endif
