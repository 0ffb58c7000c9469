/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* VLAN tags. */
#ifndef LIB_VLAN_H
#define LIB_VLAN_H

#include "base.h"

#include <linux/if_ether.h>

/* What follows an Ethernet header whose type is a VLAN tag. */
struct vlan_tag {
	__be16 tci;
	__be16 proto; /* of what follows the tag */
};

static __always_inline bool is_vlan(__be16 proto)
{
	return proto == bpf_htons(ETH_P_8021Q) || proto == bpf_htons(ETH_P_8021AD);
}

#endif
