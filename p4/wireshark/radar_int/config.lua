-- SPDX-License-Identifier: Apache-2.0
-- What the operator chooses: preferences, and what they say.

return function(bytes, profiles)
	local M = { by_form = true, look = true }
	local sets = {}

	-- numbers is the set that a range such as "5,7-9" spells.
	local function numbers(text)
		local s = {}
		for part in tostring(text):gmatch("[^,%s]+") do
			local from, to = part:match("^(%w+)%-?(%w*)$")
			from, to = tonumber(from), tonumber(to)
			for v = from or 1, to or from or 0 do s[v] = true end
		end
		return s
	end

	local function has(name) return function(v) return sets[name] ~= nil and sets[name][v] == true end end

	M.int_port = has("ports")
	M.report_port = has("report_ports")
	M.gre_protocol = has("gre")
	M.vxlan_code = has("vxlan")
	M.geneve_class = has("geneve")

	function M.is_dscp(dscp) return M.dscps[dscp] == true end

	-- is_marker says whether eight bytes, high and low, are the probe marker: any, if none is set.
	function M.is_marker(high, low)
		local m = M.marker
		return not m or high == m[1] and low == m[2]
	end

	-- dscps are all values that agree with one of the list in the bits of the mask.
	local function dscps(list, mask)
		local s = {}
		for v in pairs(numbers(list)) do
			for d = 0, 63 do
				local agrees = true
				for n = 0, 5 do agrees = agrees and (not bytes.bit(mask, n) or bytes.bit(v, n) == bytes.bit(d, n)) end
				if agrees then s[d] = true end
			end
		end
		return s
	end

	local function marker(text)
		local high, low = text:gsub("[^%x]", ""):match("^(%x%x%x%x%x%x%x%x)(%x%x%x%x%x%x%x%x)$")
		return high and { tonumber(high, 16), tonumber(low, 16) }
	end

	local unit = { [0] = nil, 1, 1000, 1000000 }
	local units = { { 1, "as the source is known to have", 0 }, { 2, "ns", 1 }, { 3, "us", 2 }, { 4, "ms", 3 } }

	-- register gives the protocols their preferences.
	function M.register(int, report)
		local sources = { { 1, "recognised", 0 } }
		for i, p in ipairs(profiles.list) do sources[i + 1] = { i + 1, p.name, i } end
		local p = int.prefs
		p.source = Pref.enum("Source", 0, "What writes the INT and the reports: a version of the texts, or a program that differs "
			.. "from them. Then nothing is guessed. radar int decode --help says what each is.", sources, false)
		p.dscp = Pref.range("INT DSCP", "1,23,32", "DSCP values that mark INT over TCP and UDP", 63)
		p.dscp_mask = Pref.uint("INT DSCP mask", 63, "Bits of the DSCP that are compared: 63 all of them, 32 the highest alone")
		p.ports = Pref.range("INT UDP ports", "555,5000,17768,33122", "UDP destination ports that mark INT", 65535)
		p.marker = Pref.string("INT probe marker", "", "The 64 bits before INT, as 16 hex digits. Empty: any, before a header that "
			.. "is right in every respect")
		p.gre = Pref.range("GRE protocol types", "17769", "GRE protocol types that mark INT", 65535)
		p.vxlan = Pref.range("VXLAN-GPE next protocols", "8,128,130", "VXLAN-GPE next protocols that mark INT", 255)
		p.geneve = Pref.range("Geneve option classes", "259", "Classes of Geneve options that mark INT", 65535)
		p.by_form = Pref.bool("Recognise INT and reports without a mark", true, "Headers that are right in every respect, under "
			.. "any DSCP and port")
		p.look = Pref.bool("Look into TCP, UDP and GRE", true, "Look for INT and reports before other dissectors do. Otherwise "
			.. "only at the UDP ports of INT and reports, and by Decode As")
		p.latency_unit = Pref.enum("Unit of hop latencies", 0, "INT leaves it to the device", units, false)
		p.time_unit = Pref.enum("Unit of ingress and egress times", 0, "INT leaves it to the device", units, false)
		report.prefs.ports = Pref.range("Telemetry report UDP ports", "556,1234,5900,6000,8090,32766,54321",
			"UDP destination ports of telemetry reports", 65535)
	end

	-- read takes over what the preferences say now.
	function M.read(int, report)
		local p = int.prefs
		sets = { report_ports = numbers(report.prefs.ports) }
		for _, name in ipairs({ "ports", "gre", "vxlan", "geneve" }) do sets[name] = numbers(p[name]) end
		M.ports, M.report_ports = tostring(p.ports), tostring(report.prefs.ports)
		M.dscps = dscps(p.dscp, p.dscp_mask)
		M.marker = marker(p.marker)
		M.profile = profiles.list[p.source]
		M.by_form, M.look = p.by_form, p.look
		M.latency_unit, M.time_unit = unit[p.latency_unit], unit[p.time_unit]
	end

	return M
end
