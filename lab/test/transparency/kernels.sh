#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the cases in machines of lab/test/kernels, whose kernels have what this machine's may
# lack: netem, VLAN devices, tunnels, WireGuard.
#
#   KERNELS="6.12 5.10" CASE=tunnel MODE=mark lab/test/transparency/kernels.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

# A shell and an nsenter of their own: busybox's would call its own ip and tc.
tools="sh nsenter ip bridge tc nft ping iptables ip6tables ethtool"
if command -v wg >/dev/null; then
	tools+=" wg"
fi
export PACKAGES=./lab/test/transparency COMMANDS=./cmd/radar TOOLS=$tools
export MORE_MODULES="sch_fq sch_fq_codel sch_prio sch_sfq sch_cake act_mirred act_skbedit act_gact cls_u32 cls_fw cls_flower cls_matchall ifb dummy macvlan vrf
	ip_gre ip6_gre ipip sit ip6_tunnel wireguard vxlan geneve tun
	nf_nat nf_conntrack nft_redir nft_fib_inet nft_reject_inet nft_reject_ipv4 nft_reject_ipv6 nft_log nft_limit nft_queue
	nft_compat nf_tables_set nf_conntrack_bridge br_netfilter
	xt_mark xt_connmark xt_conntrack xt_nat xt_MASQUERADE xt_REDIRECT xt_DSCP xt_dscp xt_HL xt_hl xt_tcpudp xt_TCPMSS
	xt_addrtype ipt_REJECT ip6t_REJECT xt_CONNSECMARK xt_statistic"
MORE_MODULES=$(tr -s '[:space:]' ' ' <<<"$MORE_MODULES")
export TEST_RUN="TestCases/${CASE:-}" # the others look at this repository
export TEST_ENV="RADAR_TIER=nightly RADAR_BIN=/tools/radar RADAR_MODE=${MODE:-} RADAR_MARKDOWN=${MARKDOWN:-} RADAR_PATIENCE=8"
export KERNEL_TIMEOUT=${KERNEL_TIMEOUT:-5400} KERNEL_MEMORY=${KERNEL_MEMORY:-1536}
exec lab/test/kernels/run.sh
