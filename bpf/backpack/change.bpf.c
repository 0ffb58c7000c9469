// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Interfaces that come and go, seen by their queueing disciplines at the moment when it
 * happens: change.h. These programs run when any interface of the machine gets or loses
 * one, and then look into up to three maps.
 */
#include "change.h"

#define IFF_UP 1
#define CLSACT_HANDLE 0xffff0000 /* TC_H_CLSACT's major number: ingress and clsact */

static __always_inline struct rdr_dev device(struct net_device *dev)
{
	struct rdr_dev d = { .netns_inum = dev->nd_net.net->ns.inum, .ifindex = dev->ifindex };

	return d;
}

/* The first one of an interface comes when it is set up, before it can send. */
SEC("tp_btf/qdisc_create")
int radar_qdisc_create(__u64 *ctx)
{
	struct rdr_dev dev = device((void *)ctx[1]);

	interface_comes(&dev, bpf_ktime_get_ns());
	return 0;
}

/*
 * The last one goes when the interface is down and leaves its namespace, or ends. It may also
 * be replaced while the interface is down: then nothing can be sent there until user space,
 * which learns of it, has looked.
 */
SEC("tp_btf/qdisc_destroy")
int radar_qdisc_destroy(__u64 *ctx)
{
	struct Qdisc *q = (void *)ctx[0];
	struct net_device *at = q->dev_queue->dev;
	struct rdr_dev dev;

	if (at->flags & IFF_UP || q->handle == CLSACT_HANDLE)
		return 0;
	dev = device(at);
	interface_leaves(&dev, bpf_ktime_get_ns());
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
