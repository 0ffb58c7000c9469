/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Packets whose IP header a process has written itself. */
#ifndef BACKPACK_HANDMADE_H
#define BACKPACK_HANDMADE_H

#include "lib/base.h"

#define AF_PACKET 17
#define SOCK_RAW 3

/* The kind of socket by which a program sent a packet whose IP header it wrote itself. */
#define BY_RAW 1
#define BY_PACKET 2

/* BY_RAW, BY_PACKET; 0: the kernel has written the header, or the socket is not known. */
GLOBAL int is_handmade(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;

	if (!sk)
		return 0;
	if (sk->family == AF_PACKET)
		return BY_PACKET;
	sk = bpf_sk_fullsock(sk);
	return sk && sk->type == SOCK_RAW ? BY_RAW : 0;
}

#endif
