-- SPDX-License-Identifier: Apache-2.0
-- The fields, by their names in display filters: what they are called in the tree, their type, and names of values.
-- Names are those of "radar int decode -o json" (docs/int/decode.md), in lower case.

local dec, hex, none = base.DEC, base.HEX, base.NONE

local types = { [1] = "MD", [2] = "destination", [3] = "MX" }
local npts = { [0] = "original payload", [1] = "original UDP destination port", [2] = "original IP protocol" }
local reps = { [0] = "none", [1] = "port level", [2] = "next-hop level", [3] = "port and next-hop level" }
local rep_types = { [0] = "inner only", [1] = "INT", [2] = "IOAM" }
local in_types = { [0] = "none", [1] = "TLV", [2] = "domain-specific data", [3] = "Ethernet", [4] = "IPv4", [5] = "IPv6" }
local tlv_types = { [0] = "domain-specific data", [1] = "Ethernet", [2] = "IPv4", [3] = "IPv6" }

local int = {
	-- How it was found. These are no bytes of the packet.
	{ "profile", "Written by", "string" },
	{ "found_by", "Found by", "string" },
	{ "carrier", "Carried by", "string" },
	{ "incomplete", "Nodes are missing, or may be", "bool" },
	{ "gre_protocol", "GRE protocol type", "uint16", hex },
	{ "vxlan_next_protocol", "VXLAN-GPE next protocol", "uint8", hex },

	{ "probe_marker", "Probe marker", "uint64", hex },
	{ "shim", "Shim", "none" },
	{ "shim.type", "Type", "uint8", dec, types },
	{ "shim.npt", "Next protocol type (NPT)", "uint8", dec, npts },
	{ "shim.length_words", "Length, words", "uint8", dec },
	{ "shim.orig_dscp", "Original DSCP", "uint8", dec },
	{ "shim.orig_dst_port", "Original destination port", "uint16", dec },
	{ "shim.ip_proto", "Original IP protocol", "uint8", dec },
	{ "shim.g", "Added by the source (G)", "bool" },
	{ "shim.next_protocol", "Next protocol", "uint16", hex },
	{ "shim.reserved", "Reserved bits", "uint32", hex },
	{ "option", "Geneve option", "none" },
	{ "option_class", "Option class", "uint16", hex },
	{ "option_critical", "Critical", "bool" },
	{ "option_type", "Option type", "uint8", dec, types },
	{ "option_reserved", "Reserved", "uint8", hex },
	{ "option_length_words", "Length, words", "uint8", dec },

	{ "header", "Header", "none" },
	{ "version", "Version", "uint8", dec },
	{ "rep", "Replication", "uint8", dec, reps },
	{ "c", "Copy (C)", "bool" },
	{ "d", "Discard after extracting (D)", "bool" },
	{ "e", "Max hop count exceeded (E)", "bool" },
	{ "m", "MTU exceeded (M)", "bool" },
	{ "hop_ml", "Hop ML, words", "uint8", dec },
	{ "remaining_hop_count", "Remaining hop count", "uint8", dec },
	{ "ins_cnt", "Instruction count", "uint8", dec },
	{ "max_hop", "Max hop count", "uint8", dec },
	{ "total_hop", "Total hop count", "uint8", dec },
	{ "instruction_bitmap", "Instruction bitmap", "uint16", hex },
	{ "domain_specific_id", "Domain specific id", "uint16", hex },
	{ "ds_instruction", "Domain specific instruction", "uint16", hex },
	{ "ds_flags", "Domain specific flags", "uint16", hex },
	{ "reserved", "Reserved bits", "uint32", hex },
	{ "reserved16", "Reserved", "uint16", hex },

	{ "hops", "Hops, the newest first", "uint16", dec },
	{ "hop", "Hop", "uint16", dec },
	{ "node_id", "Node id", "uint32", dec },
	{ "l1_in", "Level-1 ingress port", "uint16", dec },
	{ "l1_out", "Level-1 egress port", "uint16", dec },
	{ "hop_latency", "Hop latency", "uint32", dec, nil, "latency" },
	{ "queue_id", "Queue id", "uint16", dec },
	{ "queue_occ", "Queue occupancy", "uint32", dec },
	{ "ingress_ts", "Ingress time", "uint64", dec, nil, "time" },
	{ "egress_ts", "Egress time", "uint64", dec, nil, "time" },
	{ "l2_in", "Level-2 ingress port", "uint32", dec },
	{ "l2_out", "Level-2 egress port", "uint32", dec },
	{ "congestion_queue_id", "Congestion: queue id", "uint8", dec },
	{ "queue_congestion", "Queue congestion", "uint32", dec },
	{ "egress_tx_util", "Egress utilization", "uint32", dec },
	{ "buffer_id", "Buffer id", "uint8", dec },
	{ "buffer_occ", "Buffer occupancy", "uint32", dec },
	{ "checksum_complement", "Checksum complement", "uint32", hex },
	{ "drop_queue_id", "Drop: queue id", "uint8", dec },
	{ "drop_reason", "Drop reason", "uint8", dec },
	{ "unavailable", "Not available", "string" }, -- which value: all ones were sent
	{ "reserved_words", "Words of reserved instructions", "bytes", none },
	{ "ds_metadata", "Domain specific metadata", "bytes", none },
	{ "source_words", "Words of the source", "bytes", none },
	{ "rest", "Rest of the stack", "bytes", none },
	{ "flow_sequence", "Flow sequence number", "uint32", dec },
	{ "tail", "Tail", "none" },
	{ "tail.ip_proto", "Original IP protocol", "uint8", dec },
	{ "tail.orig_dst_port", "Original destination port", "uint16", dec },
	{ "tail.orig_dscp", "Original DSCP", "uint8", dec },
}

local report = {
	{ "profile", "Written by", "string" },
	{ "found_by", "Found by", "string" },

	{ "version", "Version", "uint8", dec },
	{ "length_words", "Length, words", "uint8", dec },
	{ "nproto", "Next protocol", "uint8", dec },
	{ "rep_md_bits", "Metadata bits", "uint16", hex },
	{ "d", "Dropped (D)", "bool" },
	{ "q", "Congested queue (Q)", "bool" },
	{ "f", "Tracked flow (F)", "bool" },
	{ "i", "Intermediate report (I)", "bool" },
	{ "reserved", "Reserved bits", "uint32", hex },
	{ "hw_id", "Hardware id", "uint8", dec },
	{ "seq", "Sequence number", "uint32", dec },
	{ "padding_bits", "Padding", "uint8", hex },
	{ "node_id", "Node id", "uint32", dec },
	{ "ingress_ts", "Ingress time, ns", "uint32", dec },
	{ "gap_source_id", "Gap: source node id", "uint32", dec },
	{ "gap_ts", "Gap: time", "uint32", dec },
	{ "gap_seq", "Gap: first flow sequence number", "uint32", dec },
	{ "gap_count", "Gap: packets", "uint32", dec },

	{ "report", "Report", "uint16", dec },
	{ "rep_type", "Report type", "uint8", dec, rep_types },
	{ "in_type", "Inner type", "uint8", dec, in_types },
	{ "report_length", "Report length, words", "uint8", dec },
	{ "md_length", "Metadata length, words", "uint8", dec },
	{ "domain", "Domain specific id", "uint16", hex },
	{ "ds_md_bits", "Domain specific metadata bits", "uint16", hex },
	{ "ds_md_status", "Domain specific metadata status", "uint16", hex },
	{ "metadata", "Metadata", "none" },
	{ "ds_metadata", "Domain specific metadata", "bytes", none },
	{ "tlv", "TLV", "none" },
	{ "tlv.type", "Type", "uint8", dec, tlv_types },
	{ "tlv.reserved", "Reserved", "uint8", hex },
	{ "tlv.length", "Length, words", "uint8", dec },
	{ "tlv.template", "Template", "uint16", dec },
	{ "tlv.data", "Data", "bytes", none },
	{ "inner", "Inner contents", "bytes", none },
	{ "padding", "Padding", "bytes", none },
}

-- make returns the fields of a protocol, by name and as a list for it, and what kind of unit the numbers have.
local function make(prefix, list)
	local by_name, all, unit, label = {}, {}, {}, {}
	for _, d in ipairs(list) do
		local name, text, kind = prefix .. d[1], d[2], d[3]
		local f
		if kind == "bool" then
			f = ProtoField.bool(name, text, none, { "set", "not set" })
		elseif kind == "string" or kind == "none" then
			f = ProtoField[kind](name, text)
		elseif kind == "bytes" then
			f = ProtoField.bytes(name, text)
		else
			f = ProtoField[kind](name, text, d[4], d[5])
		end
		by_name[name], all[#all + 1], unit[name], label[name] = f, f, d[6], text
	end
	return by_name, all, unit, label
end

return { int = int, report = report, make = make }
