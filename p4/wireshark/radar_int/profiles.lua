-- SPDX-License-Identifier: Apache-2.0
-- How programs write INT and reports, where they differ from the texts. "radar int decode" knows the same ones
-- (docs/int/formats.md says more about each).
--
-- int: layout, ver (of the header), and what differs:
--   counts_shim     2.x: the shim's Length counts the shim
--   late_flags      2.x: two reserved bits before D, E, M
--   flow_sequence   0.5: shim type 3, and a word with the flow's sequence number behind the stack
--   sink_stack      2.x: the reporting node's metadata lie behind an MX header
--   high_proto      2.x, NPT 2: the IP protocol is in the shim's third byte
--   long_times, short_l2, even_queues: rows of formats.lua
-- report: layout, ver, and what differs:
--   flags_first     1.0: D, Q, F before the reserved bits
--   free_length     1.0: Length says nothing
--   small_hw_id     2.0: 4 bits of hw_id, 24 of sequence number
--   short_seq       2.0: 16 bits of sequence number
--   main_always     2.0: main contents although the type is 0
--   ethernet2       2.0: inner type 2 is Ethernet
--   loose           2.0: length 0 reaches to the end, the inner type says nothing
--   host_nprotos    0.5: next protocol 3 is a summary of drops, 4 an IPv4 packet
-- latency, time: units, ns; nil: not known. From the fourth on a profile has a name of its own.

local M = {}

M.list = {
	{
		name = "spec-2.1",
		int = { layout = "2.x", ver = 2 },
		report = { layout = "2.0", ver = 2 },
	},
	{
		name = "spec-1.0",
		int = { layout = "1.0", ver = 1 },
		report = { layout = "1.0", ver = 1 },
	},
	{
		name = "spec-0.5",
		int = { layout = "0.5", ver = 0 },
		report = { layout = "0.5", ver = 0 },
	},
	{
		name = "onos-basic",
		int = { layout = "1.0", ver = 0 },
		report = { layout = "1.0", ver = 1, flags_first = true },
		latency = 1000,
	},
	{
		name = "geant",
		int = { layout = "1.0", ver = 1, long_times = true, short_l2 = true },
		report = { layout = "1.0", ver = 1 },
		latency = 1000, time = 1,
	},
	{
		name = "intcollector",
		int = { layout = "1.0", ver = 0, short_l2 = true, even_queues = true },
		report = { layout = "1.0", ver = 1, free_length = true },
	},
	{
		name = "host-int",
		int = { layout = "0.5", ver = 0, flow_sequence = true },
		report = { layout = "0.5", ver = 0, host_nprotos = true },
	},
	{
		name = "fabric-tna",
		int = { layout = "0.5", ver = 0 },
		report = { layout = "0.5", ver = 0 },
		latency = 1, time = 1,
	},
	{
		name = "switch-p4-16",
		int = { layout = "2.x", ver = 2 },
		report = { layout = "2.0", ver = 2, small_hw_id = true },
		latency = 1, time = 1,
	},
	{
		name = "tps",
		int = { layout = "2.x", ver = 2, counts_shim = true, late_flags = true },
		report = { layout = "2.0", ver = 2, short_seq = true, main_always = true, ethernet2 = true },
		latency = 1000,
	},
	{
		name = "p4int-laofan",
		int = { layout = "2.x", ver = 2, sink_stack = true },
		report = { layout = "2.0", ver = 1, loose = true },
		latency = 1000, time = 1000,
	},
	{
		name = "p4int",
		int = { layout = "2.x", ver = 2 },
		report = { layout = "2.0", ver = 2, loose = true },
		latency = 1000, time = 1000,
	},
	{
		name = "scapy-4230",
		int = { layout = "2.x", ver = 2, high_proto = true },
		report = { layout = "2.0", ver = 2 },
	},
	{
		name = "radar",
		int = { layout = "2.x", ver = 2 },
		report = { layout = "2.0", ver = 2 },
		latency = 1, time = 1,
	},
}

local spec = 3 -- how many profiles of the texts begin the list

-- What no packet shows is not compared: even_queues, small_hw_id.
local int_traits = { "layout", "ver", "counts_shim", "late_flags", "flow_sequence", "sink_stack", "high_proto", "long_times", "short_l2" }
local report_traits = { "layout", "ver", "flags_first", "free_length", "short_seq", "main_always", "ethernet2", "loose", "host_nprotos" }

local function same(traits, a, b)
	for _, name in ipairs(traits) do
		if (a[name] or false) ~= (b[name] or false) then return false end
	end
	return true
end

function M.same_int(a, b) return same(int_traits, a, b) end

local function of_layout(kind, layout)
	for i = 1, spec do
		if M.list[i][kind].layout == layout then return M.list[i] end
	end
end

-- score is how well a profile explains what was observed. One that explains what the texts do not gets more.
local function score(i, kind, traits, observed)
	if not observed or not same(traits, M.list[i][kind], observed) then return 0 end
	local rare = i > spec and not same(traits, of_layout(kind, observed.layout)[kind], observed)
	return rare and 3 or 2
end

-- of returns the profile with the observed traits; either may be nil. The first of equals wins.
function M.of(int, report)
	local best, most = nil, 0
	for i = 1, #M.list do
		local n = score(i, "int", int_traits, int) + score(i, "report", report_traits, report)
		if n > most then best, most = M.list[i], n end
	end
	if best then return best end
	if report then return of_layout("report", report.layout) end
	return of_layout("int", int.layout)
end

return M
