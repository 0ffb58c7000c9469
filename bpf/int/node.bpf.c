// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "maps.h"

/*
 * Which entry of the watchlist the packet matches, whose IP header begins at l3, counted from 1;
 * 0: none. len: of the IP packet. User space replaces the body by the compiled expressions when it
 * loads the programs, so the compiler must not know the result.
 */
GLOBAL int watched(struct __sk_buff *skb, __u32 l3, __u32 len)
{
	int verdict = 1;

	asm volatile("" : "+r"(verdict) : "r"(skb), "r"(l3), "r"(len));
	return verdict;
}

SEC("tc")
int radar_int_ingress(struct __sk_buff *skb)
{
	__u32 slot = skb->ifindex & cfg_port_mask;
	struct int_port *port = bpf_map_lookup_elem(&ports, &slot);

	return port && port->flags ? -1 : -1;
}

SEC("tc")
int radar_int_egress(struct __sk_buff *skb)
{
	__u32 zero = 0;
	struct int_control *ctl = bpf_map_lookup_elem(&control, &zero);
	struct int_counters *n = bpf_map_lookup_elem(&counters, &zero);
	struct work *w = bpf_map_lookup_elem(&works, &zero);
	__u32 e = cfg_entries & (INT_MAX_ENTRIES - 1);

	if (ctl && n && w && ctl->lease_ns && watched(skb, 14 + cfg_dscp + cfg_dscp_mask + cfg_port + cfg_report_port + cfg_quote + cfg_host_source + cfg_reports + cfg_watchlist[e].sample + cfg_node + cfg_index, skb->len))
		bpf_ringbuf_output(&reports, &w->report, sizeof(w->report), 0);
	return -1;
}

/* Enumerations that no program names as a type: user space needs them. */
const enum int_port_flag *abi_port_flag __attribute__((unused));
const enum int_mode *abi_mode __attribute__((unused));
const enum int_skip *abi_skip __attribute__((unused));
const enum int_done *abi_done __attribute__((unused));
const enum int_report_flag *abi_report_flag __attribute__((unused));

char LICENSE[] SEC("license") = "Dual BSD/GPL";
