// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "radar/base.h"
#include "radar/maps.h"

SEC("tc") int radar_ingress(struct __sk_buff *skb) { return -1; }
SEC("tc") int radar_egress(struct __sk_buff *skb) { return -1; }

/* Types that no map names, kept in the BTF for user space. */
const struct rdr_slot *abi_slot __attribute__((unused));
const enum rdr_event *abi_event __attribute__((unused));
const enum rdr_event_flag *abi_event_flag __attribute__((unused));
const enum rdr_state *abi_state __attribute__((unused));
const enum rdr_cut *abi_cut __attribute__((unused));
const enum rdr_slot_flag *abi_slot_flag __attribute__((unused));
const enum rdr_port_flag *abi_port_flag __attribute__((unused));
const enum rdr_prog *abi_prog __attribute__((unused));
const enum rdr_counter *abi_counter __attribute__((unused));
char LICENSE[] SEC("license") = "Dual BSD/GPL";
