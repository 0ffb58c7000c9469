-- SPDX-License-Identifier: Apache-2.0
-- The formats, as data. A string is a word of 32 bits, from its most significant bit on: "name:bits name:bits". "-" is
-- reserved. Names are those of display filters, without "int." and "int_report.".

local M = {}

-- The shim in front of an INT header: one word. (INT 2.1 "INT over TCP/UDP", "INT over GRE", "INT over VXLAN GPE"; INT
-- 1.0 and 0.5 the same.) In Geneve the option's header takes its place.
M.shim = {
	["0.5"] = "type:8 -:8 length_words:8 -:8",
	["1.0"] = "type:8 -:8 length_words:8 orig_dscp:6 -:2",
	["2.x npt 0"] = "type:4 npt:2 -:2 length_words:8 -:8 orig_dscp:6 -:2",
	["2.x npt 1"] = "type:4 npt:2 -:2 length_words:8 orig_dst_port:16",
	["2.x npt 2"] = "type:4 npt:2 -:2 length_words:8 -:8 ip_proto:8",
	["2.x npt 2 high"] = "type:4 npt:2 -:2 length_words:8 ip_proto:8 -:8", -- the layers proposed for scapy
	["2.x npt 3"] = "type:4 npt:2 -:2 length_words:8 -:16",
	["2.x gre"] = "type:4 g:1 -:3 length_words:8 next_protocol:16",
	["1.0 vxlan"] = "type:8 -:8 length_words:8 next_protocol:8",
	["2.x vxlan"] = "type:4 -:4 length_words:8 g:1 -:7 next_protocol:8",
	["geneve"] = "option_class:16 option_critical:1 option_type:7 option_reserved:3 option_length_words:5",
}

-- The INT header. (INT 2.1 "INT-MD Metadata Header", "INT-MX Header"; INT 1.0 and 0.5 "INT Hop-by-Hop Metadata
-- Header".) Its bits are those of transparent-security where it says late.
M.header = {
	["0.5"] = {
		"version:4 rep:2 c:1 e:1 -:3 ins_cnt:5 max_hop:8 total_hop:8",
		"instruction_bitmap:16 reserved16:16",
	},
	["1.0"] = {
		"version:4 rep:2 c:1 e:1 m:1 -:10 hop_ml:5 remaining_hop_count:8",
		"instruction_bitmap:16 reserved16:16",
	},
	["2.x md"] = {
		"version:4 d:1 e:1 m:1 -:12 hop_ml:5 remaining_hop_count:8",
		"instruction_bitmap:16 domain_specific_id:16",
		"ds_instruction:16 ds_flags:16",
	},
	["2.x mx"] = {
		"version:4 d:1 -:27",
		"instruction_bitmap:16 domain_specific_id:16",
		"ds_instruction:16 ds_flags:16",
	},
	["2.x md late"] = {
		"version:4 -:2 d:1 e:1 m:1 -:10 hop_ml:5 remaining_hop_count:8",
		"instruction_bitmap:16 domain_specific_id:16",
		"ds_instruction:16 ds_flags:16",
	},
	["2.x mx late"] = {
		"version:4 -:2 d:1 -:25",
		"instruction_bitmap:16 domain_specific_id:16",
		"ds_instruction:16 ds_flags:16",
	},
}

M.tail = "tail.ip_proto:8 tail.orig_dst_port:16 tail.orig_dscp:8" -- INT 0.5 "INT Tail Header"

-- Telemetry reports. (TR 0.5 "Telemetry Report Fixed Header", TR 1.0 "Telemetry Report Header", TR 2.0 "Telemetry Report
-- Group Header", "Individual Report Header", "TLV".)
M.report = {
	["0.5"] = {
		"version:4 nproto:4 d:1 q:1 f:1 reserved:15 hw_id:6",
		"seq:32",
		"ingress_ts:32",
	},
	["1.0"] = {
		"version:4 length_words:4 nproto:3 rep_md_bits:6 reserved:6 d:1 q:1 f:1 hw_id:6",
		"node_id:32",
		"seq:32",
		"ingress_ts:32",
	},
	["1.0 flags first"] = { -- ONOS pipelines/basic
		"version:4 length_words:4 nproto:3 rep_md_bits:6 d:1 q:1 f:1 reserved:6 hw_id:6",
		"node_id:32",
		"seq:32",
		"ingress_ts:32",
	},
	["0.5 gap"] = { -- Host-INT's summary of drops
		"gap_source_id:32",
		"node_id:32",
		"l1_in:16 l1_out:16",
		"gap_ts:32",
		"gap_seq:32",
		"gap_count:32",
	},
	["0.5 sink"] = { "node_id:32" }, -- Host-INT
	["2.0 group"] = { "version:4 hw_id:6 seq:22", "node_id:32" },
	["2.0 group small hw_id"] = { "version:4 hw_id:4 seq:24", "node_id:32" }, -- switch-p4-16
	["2.0 group short seq"] = { "version:4 hw_id:6 seq:16 padding_bits:6", "node_id:32" }, -- transparent-security
	["2.0 single"] = { "rep_type:4 in_type:4 report_length:8 md_length:8 d:1 q:1 f:1 i:1 reserved:4" },
	["2.0 main"] = { "rep_md_bits:16 domain:16", "ds_md_bits:16 ds_md_status:16" },
	["2.0 tlv"] = { "tlv.type:4 tlv.reserved:4 tlv.length:8 tlv.template:16" },
}

-- Metadata that bits of a bitmap ask for, bit 0 is the most significant of 16. Bits without a row are reserved: a word
-- each, if a node fills them. (INT 0.5 to 2.1 "Metadata Instructions", TR 1.0 and 2.0 "RepMdBits".)
M.metadata = {
	["0.5"] = {
		[0] = "node_id:32",
		[1] = "l1_in:16 l1_out:16",
		[2] = "hop_latency:32",
		[3] = "queue_id:8 queue_occ:24",
		[4] = "ingress_ts:32",
		[5] = "egress_ts:32",
		[6] = "congestion_queue_id:8 queue_congestion:24",
		[7] = "egress_tx_util:32",
	},
	["1.0"] = {
		[0] = "node_id:32",
		[1] = "l1_in:16 l1_out:16",
		[2] = "hop_latency:32",
		[3] = "queue_id:8 queue_occ:24",
		[4] = "ingress_ts:32",
		[5] = "egress_ts:32",
		[6] = "l2_in:32 l2_out:32",
		[7] = "egress_tx_util:32",
		[15] = "checksum_complement:32",
	},
	["2.x"] = {
		[0] = "node_id:32",
		[1] = "l1_in:16 l1_out:16",
		[2] = "hop_latency:32",
		[3] = "queue_id:8 queue_occ:24",
		[4] = "ingress_ts:64",
		[5] = "egress_ts:64",
		[6] = "l2_in:32 l2_out:32",
		[7] = "egress_tx_util:32",
		[8] = "buffer_id:8 buffer_occ:24",
		[15] = "checksum_complement:32",
	},
	["report 1.0"] = { -- its six bits, moved up
		[0] = "l1_in:16 l1_out:16",
		[1] = "hop_latency:32",
		[2] = "queue_id:8 queue_occ:24",
		[3] = "egress_ts:32",
		[4] = "drop_queue_id:8 drop_reason:8 -:16",
		[5] = "egress_tx_util:32",
	},
	["report 2.0"] = {
		[1] = "l1_in:16 l1_out:16",
		[2] = "hop_latency:32",
		[3] = "queue_id:8 queue_occ:24",
		[4] = "ingress_ts:64",
		[5] = "egress_ts:64",
		[6] = "l2_in:32 l2_out:32",
		[7] = "egress_tx_util:32",
		[8] = "buffer_id:8 buffer_occ:24",
		[15] = "drop_queue_id:8 drop_reason:8 -:16",
	},
	-- These two are whole headers: every row is there. (TR 0.5 "Drop Report Header", "Switch Local Report Header".)
	["report 0.5 drop"] = {
		[1] = "l1_in:16 l1_out:16",
		[2] = "drop_queue_id:8 drop_reason:8 -:16",
	},
	["report 0.5 local"] = {
		[1] = "l1_in:16 l1_out:16",
		[2] = "queue_id:8 queue_occ:24",
		[3] = "egress_ts:32",
	},
}

-- Rows that some programs use in place of the text's, by the format.
M.variant = {
	long_times = { ["0.5"] = { [4] = "ingress_ts:64", [5] = "egress_ts:64" }, ["1.0"] = { [4] = "ingress_ts:64", [5] = "egress_ts:64" } },
	short_l2 = { ["1.0"] = { [6] = "l2_in:16 l2_out:16" } },
	even_queues = { ["0.5"] = { [3] = "queue_id:16 queue_occ:16" }, ["1.0"] = { [3] = "queue_id:16 queue_occ:16" } },
}

-- What a bit stands for.
M.meaning = {
	node_id = "node id",
	l1_in = "level-1 ports",
	hop_latency = "hop latency",
	queue_id = "queue",
	ingress_ts = "ingress time",
	egress_ts = "egress time",
	congestion_queue_id = "queue congestion",
	l2_in = "level-2 ports",
	egress_tx_util = "egress utilization",
	buffer_id = "buffer",
	checksum_complement = "checksum complement",
	drop_queue_id = "drop reason",
}

return M
