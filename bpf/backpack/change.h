/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Nodes that change: docs/design/0014-nodes-that-change.md. User space notices some time
 * later that an interface came or went, while packets go on. Until then these functions
 * change what the ports' programs do, so that no packet leaves the domain with our bits.
 *
 * The kernel gives every interface its queueing discipline when it is first set up, before it
 * can send. It takes the discipline away when the interface leaves its namespace, while it is
 * down. Both happen under the lock of network configuration (RTNL), so never at the same time.
 */
#ifndef BACKPACK_CHANGE_H
#define BACKPACK_CHANGE_H

#include "count.h"
#include "lib/kernel.h"
#include "maps.h"

/* A port's flags while its other end is outside; pkg/vnet/datapath/tables/ports.go has the same. */
static __always_inline __u16 flags_without_peer(__u16 flags)
{
	if (!(flags & RDR_PF_INTERNAL) || flags & RDR_PF_CLOSING)
		return flags;
	flags &= ~(RDR_PF_INTERNAL | RDR_PF_TUNNEL);
	/* Not while the domain is detached: sources are off. */
	return flags & RDR_PF_SOURCE_OUT ? flags | RDR_PF_SOURCE_IN : flags;
}

/* A port's flags while its own interface is outside and still has its programs: packets that
 * come in are restored, and nothing gets a mark. */
static __always_inline __u16 flags_outside(__u16 flags)
{
	return (flags & RDR_PF_L3) | RDR_PF_BRIDGE;
}

/* An interface leaves its namespace. */
static __always_inline void interface_leaves(const struct rdr_dev *dev, __u64 now)
{
	struct rdr_shift *shift;
	struct rdr_port *port;
	__u32 *no;

	no = bpf_map_lookup_elem(&ends, dev);
	if (no) {
		shift = bpf_map_lookup_elem(&shifts, no);
		port = bpf_map_lookup_elem(&ports, no);
		if (shift && port) {
			if (!shift->peer_ns) /* else it was not followed yet */
				count(RDR_C_NODE_CHANGED, 1);
			/* The time before the flags: whoever writes the port reads the time. */
			WRITE_ONCE(shift->peer_ns, now);
			WRITE_ONCE(port->flags, flags_without_peer(port->flags));
		}
	}
	no = bpf_map_lookup_elem(&devs, dev);
	if (!no)
		return;
	shift = bpf_map_lookup_elem(&shifts, no);
	port = bpf_map_lookup_elem(&ports, no);
	/* devs also has bridge members, which count as another port. */
	if (!shift || !port || port->ifindex != dev->ifindex || port->flags & RDR_PF_CLOSING)
		return;
	WRITE_ONCE(shift->gone_ns, now);
	WRITE_ONCE(port->flags, flags_outside(port->flags));
}

/* Whether an interface has its programs: another one may have its number by now. */
static __always_inline bool is_attached(const struct rdr_dev *dev)
{
	__u32 *no = bpf_map_lookup_elem(&devs, dev);
	struct rdr_shift *shift = no ? bpf_map_lookup_elem(&shifts, no) : NULL;

	return shift && !shift->gone_ns;
}

/* Sets a port apart if it is one of node: the node then carries nothing. Returns 1 + the next
 * port of that node, or 0. A call makes one verifier state of many. */
GLOBAL __u32 set_apart(__u32 no, __u32 node)
{
	struct rdr_port *port = bpf_map_lookup_elem(&ports, &no);
	const __u32 *next = bpf_map_lookup_elem(&siblings, &no);

	if (port && port->node == node && !(port->flags & RDR_PF_CLOSING))
		WRITE_ONCE(port->flags, port->flags | RDR_PF_HEADER | RDR_PF_APART);
	return next ? *next : 0;
}

/* Ports that are set apart in one call; as many calls reach all possible ports. (The verifier
 * follows 8,192 branches at most.) */
#define PORTS_AT_ONCE 128
_Static_assert(PORTS_AT_ONCE *PORTS_AT_ONCE >= RDR_MAX_PORTS, "set_all_apart()");

GLOBAL __u32 set_some_apart(__u32 next, __u32 node)
{
	for (int i = 0; i < PORTS_AT_ONCE && next; i++)
		next = set_apart(next - 1, node);
	return next;
}

static __always_inline void set_all_apart(__u32 next, __u32 node)
{
	for (int i = 0; i < PORTS_AT_ONCE && next; i++)
		next = set_some_apart(next, node);
}

/* An interface of a namespace is about to be able to send. It has no programs, so packets leave
 * by it as they are: its node must see true bits. */
static __always_inline void interface_comes(const struct rdr_dev *dev, __u64 now)
{
	__u32 *node = bpf_map_lookup_elem(&homes, &dev->netns_inum);
	struct rdr_guard *guard;

	if (!node || is_attached(dev))
		return;
	guard = bpf_map_lookup_elem(&guards, node);
	if (!guard)
		return;
	if (!guard->since_ns) /* else it was not followed yet; every queue causes one */
		count(RDR_C_NODE_CHANGED, 1);
	WRITE_ONCE(guard->since_ns, now);
	set_all_apart(guard->first, *node);
}

#endif
