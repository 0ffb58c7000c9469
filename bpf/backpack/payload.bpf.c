// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Payload of packets at chosen ports, for captures. A process that captures loads the program,
 * and puts it beside the domain's own at these ports, for as long as it runs. It changes no
 * packet and leaves every decision to others.
 */
#include "payload.h"

#define PASS (-1)

SEC("tc")
int radar_payload(struct __sk_buff *skb)
{
	__u32 where = skb->cb[0], no = where & 0xffff;
	const struct rdr_port *port;
	struct packet p = {};

	skb->cb[0] = 0;
	port = bpf_map_lookup_elem(&ports, &no);
	if (!port)
		return PASS;
	/* The domain's program, which comes next, would do the same. */
	if (where & RDR_PAYLOAD_BEFORE)
		pull_headers(skb, !(port->flags & RDR_PF_L3));
	switch (parse_link(skb, port->flags & RDR_PF_L3, &p)) {
	case PARSE_IPV4:
		p.true_link = is_true_link(port->flags, false);
		take_payload(skb, port, &p, where);
		break;
	case PARSE_IPV6: {
		struct packet p6 = {
			.v6 = 1,
			.l3 = p.l3,
			.vlan = p.vlan,
			.group = p.group,
		};

		p6.true_link = is_true_link(port->flags, true);
		if (cfg_ip6)
			take_payload(skb, port, &p6, where);
		break;
	}
	default:
		break;
	}
	return PASS;
}

/* Types that no map names, kept in the BTF for user space. */
const struct rdr_payload *abi_payload __attribute__((unused));
const enum rdr_payload_where *abi_payload_where __attribute__((unused));
const enum rdr_payload_count *abi_payload_count __attribute__((unused));

char LICENSE[] SEC("license") = "Dual BSD/GPL";
