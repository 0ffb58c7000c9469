/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Packets that one node's interface hands to another node's, which stands on it. */
#ifndef BACKPACK_HANDED_H
#define BACKPACK_HANDED_H

#include "group.h"
#include "mark.h"
#include "train.h"

/*
 * r: what found_by_mark() has found for a packet that comes in by that port. Returns r if the packet
 * came to another node last, and has not left it: this port is an interface that stands on one of that
 * node's (macvlan, ipvlan), and takes the skb as it is. Else 0. form: run_of().
 */
GLOBAL __u64 sift_handed(__u64 r, __u32 port_no, __u32 form)
{
	const struct rdr_port *here = bpf_map_lookup_elem(&ports, &port_no), *came;
	struct rdr_slot *s = slot_at(r & (cfg_slots - 1));
	__u32 n = form & 0xffff, entrance;
	__u64 cell;

	if (!r || !s || !here || is_tree(s) || (n > 1 && !is_run(r, form)))
		return 0;
	cell = last_event(s);
	entrance = cell_port(cell);
	came = bpf_map_lookup_elem(&ports, &entrance);
	return cell_kind(cell) == RDR_EV_INGRESS && came && came->node != here->node ? r : 0;
}

#endif
