/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The kernel's own structures, as far as radar reads them; libbpf's relocations
 * find the fields in the running kernel. */
#ifndef LIB_KERNEL_H
#define LIB_KERNEL_H

#include "base.h"

#include <bpf/bpf_core_read.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct sock_common {
	possible_net_t skc_net;
};

struct sock {
	struct sock_common __sk_common;
	__u8 sk_kern_sock : 1;
};

struct Qdisc_ops {
	char id[16];
};

struct netdev_queue;

struct Qdisc {
	const struct Qdisc_ops *ops;
	__u32 handle;
	struct netdev_queue *dev_queue;
};

struct list_head {
	struct list_head *next;
};

struct net_device {
	int ifindex;
	struct list_head ptype_all;
	unsigned int flags;
	possible_net_t nd_net;
	struct Qdisc *qdisc;
};

struct dst_entry {
	struct net_device *dev;
};

struct netdev_queue {
	struct net_device *dev;
};

struct sk_buff {
	struct sk_buff *next;
	struct sock *sk;
	struct net_device *dev;
	unsigned long _skb_refdst;
	unsigned int len;
	unsigned int data_len;
	__u32 mark;
	int skb_iif;
	__u8 pkt_type : 3;
	__be16 protocol;
	__u16 network_header;
	unsigned int tail;
	unsigned int end;
	unsigned char *head;
	unsigned char *data;
};

struct skb_shared_info {
	unsigned short gso_size;
	unsigned short gso_segs;
	struct sk_buff *frag_list;
};

struct nf_hook_state {
	struct net *net;
};

struct bpf_nf_ctx {
	const struct nf_hook_state *state;
	struct sk_buff *skb;
};

#pragma clang attribute pop

#endif
