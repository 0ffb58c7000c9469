-- SPDX-License-Identifier: Apache-2.0
-- Reads a telemetry report into nodes. Packets that it quotes are nodes with packet: the version of the quoted packet
-- (reports.ethernet, ipv4, ipv6), and f, the flag that says that there may be INT in it.

return function(bytes, formats, engine, reports, units, check_domain)
	local M = {}
	local u8, u16, bits = bytes.u8, bytes.u16, bytes.bits

	-- node_id makes the id of the reporting node found as that of a hop, too.
	local function node_id(parent, at, id) engine.add(parent, "int.node_id", at, 4, id, { hidden = true }) end

	-- quote adds a quoted packet of n bytes at s[at].
	local function quote(x, parent, s, at, n, inner, f)
		if n <= 0 then return end
		local name = ({ [reports.ethernet] = "Ethernet", [reports.ipv4] = "IPv4", [reports.ipv6] = "IPv6" })[inner]
		if inner ~= reports.ethernet then -- the first nibble decides, as everywhere
			local version = bits(u8(s, at), 4, 4)
			inner = version == 4 and reports.ipv4 or version == 6 and reports.ipv6 or nil
		end
		local p = { inner = inner, f = f, traits = x.found.traits }
		engine.add(parent, "int_report.inner", at, n, nil, { text = ("Quoted packet (%s, %d bytes)"):format(name, n), packet = p })
	end

	local function rest(parent, at, n)
		if n > 0 then engine.add(parent, "int_report.inner", at, n) end
	end

	-- cut says whether s lacks some of n bytes at s[at], and notes it as the report's whole length.
	local function cut(node, s, at, n)
		if #s - at >= n then return false end
		engine.note(node, "cut_report", #s, at + n)
		return true
	end

	local function check(root, h, version)
		if h.version ~= version then engine.note(root, "bad_report_ver", h.version, version) end
		if (h.reserved or 0) ~= 0 then engine.note(root, "report_reserved", h.reserved) end
	end

	local flags = { { "d", "dropped" }, { "q", "congested queue" }, { "f", "tracked flow" }, { "i", "intermediate" } }

	-- why is what a report is about, by its flags.
	local function why(h)
		local list = {}
		for _, f in ipairs(flags) do
			if h[f[1]] == 1 then list[#list + 1] = f[2] end
		end
		return #list > 0 and table.concat(list, ", ") or "no flag set"
	end

	-- head05 reads one of the headers of 0.5 behind the first, and returns how long it is.
	local function head05(root, s, at, kind, bitmap, n)
		if cut(root, s, at, n) then return nil end
		local values = engine.add(root, "int_report.metadata", at, n)
		engine.header(values, "int_report.", { "node_id:32" }, s, at)
		node_id(values, at, bytes.u32(s, at))
		engine.metadata(values, engine.plan(kind, bitmap), s, at + 4, n - 4, false) -- the text has no "not available"
		return n
	end

	-- gap05 is Host-INT's summary of drops.
	local function gap05(root, s, at)
		if cut(root, s, at, 24) then return end
		local values = engine.add(root, "int_report.metadata", at, 24)
		local words = formats.report["0.5 gap"]
		engine.header(values, "int_report.", { words[1], words[2] }, s, at)
		node_id(values, at + 4, bytes.u32(s, at + 4))
		engine.header(values, "int.", { words[3] }, s, at + 8)
		engine.header(values, "int_report.", { words[4], words[5], words[6] }, s, at + 12)
		rest(root, at + 24, #s - at - 24)
	end

	local function report05(x, s)
		local root, t = x.root, x.found.traits
		if cut(root, s, 0, 12) then return end
		local h = engine.header(root, "int_report.", formats.report["0.5"], s, 0)
		check(root, h, 0)
		x.line = ("seq %d, %s"):format(h.seq, why(h))
		local at, inner = 12, reports.ethernet
		if h.nproto == 1 then
			at = head05(root, s, 12, "report 0.5 drop", 0x6000, 12)
		elseif h.nproto == 2 then
			at = head05(root, s, 12, "report 0.5 local", 0x7000, 16)
		elseif h.nproto == 3 and t.host_nprotos then
			return gap05(root, s, 12)
		elseif h.nproto == 4 and t.host_nprotos then
			-- By the text of Host-INT's page the packet is here; by its figure the sink's node id is first.
			inner = reports.ipv4
			if not reports.is_ip(s, 12, 4) and #s > 16 and reports.is_ip(s, 16, 4) then
				engine.header(root, "int_report.", formats.report["0.5 sink"], s, 12)
				node_id(root, 12, bytes.u32(s, 12))
				at = 16
			end
		elseif h.nproto ~= 0 then
			engine.note(root, "bad_nproto", h.nproto)
			return rest(root, 12, #s - 12)
		end
		if not at then return end
		if h.nproto == 1 or h.nproto == 2 then at = 12 + at end
		quote(x, root, s, at, #s - at, inner, h.f == 1)
	end

	local function report10(x, s)
		local root, t = x.root, x.found.traits
		if cut(root, s, 0, 16) then return end
		local h = engine.header(root, "int_report.", formats.report[t.flags_first and "1.0 flags first" or "1.0"], s, 0)
		node_id(root, 4, h.node_id)
		if t.flags_first then engine.note(root, "flags_moved", bytes.u32(s, 0)) end
		check(root, h, 1)
		x.line = ("node %d, seq %d, %s"):format(h.node_id, h.seq, why(h))
		local n = bytes.count(h.rep_md_bits)
		if h.length_words ~= 4 + n then engine.note(root, "bad_report_length", h.length_words, 4 + n) end
		local short = cut(root, s, 16, 4 * n)
		if short then n = math.floor((#s - 16) / 4) end
		if n > 0 then
			local values = engine.add(root, "int_report.metadata", 16, 4 * n)
			engine.metadata(values, engine.plan("report 1.0", h.rep_md_bits * 1024), s, 16, 4 * n, false)
		end
		if short then return end
		local at = 16 + 4 * n
		if h.nproto > 2 then
			engine.note(root, "bad_nproto", h.nproto)
			return rest(root, at, #s - at)
		end
		local inner = h.nproto + reports.ethernet
		if #s > at and not reports.is(s, at, inner) then engine.note(root, "other_contents", h.nproto) end
		quote(x, root, s, at, #s - at, inner, h.f == 1)
	end

	-- tlvs reads a list of TLVs (TR 2.0 "TLV") in s[at] to s[stop].
	local function tlvs(x, node, s, at, stop, f)
		while stop - at >= 4 do
			local n = 4 * u8(s, at + 1)
			local here = math.min(n, stop - at - 4)
			local tlv = engine.add(node, "int_report.tlv", at, 4 + here)
			local h = engine.header(tlv, "int_report.", formats.report["2.0 tlv"], s, at)
			if here < n then engine.note(tlv, "cut_tlv", here, n) end
			local kind = h["tlv.type"]
			engine.add(tlv, "int_report.tlv.data", at + 4, here)
			if kind >= 1 and kind <= 3 then quote(x, tlv, s, at + 4, here, kind - 1 + reports.ethernet, f) end
			at = at + 4 + here
		end
		if stop > at then
			rest(node, at, stop - at)
			engine.note(node, "rest_of_report", stop - at)
		end
	end

	-- inner20 reads what a report quotes, s[at] to s[stop].
	local function inner20(x, node, s, at, stop, h)
		local t, inner = x.found.traits, h.in_type
		if t.ethernet2 and inner == reports.domain then inner = reports.ethernet end
		if inner == reports.tlv then return tlvs(x, node, s, at, stop, h.f == 1) end
		if inner >= reports.ethernet and inner <= reports.ipv6 then
			local window = s:sub(1, stop)
			if stop > at and not reports.is(window, at, inner) and reports.is_ethernet(window, at) then
				engine.note(node, "other_contents", inner)
				inner = reports.ethernet
			end
			return quote(x, node, s, at, stop - at, inner, h.f == 1 or t.loose or false)
		end
		rest(node, at, stop - at)
		if inner > reports.ipv6 then
			engine.note(node, "bad_in_type", inner)
		elseif inner == reports.none and stop > at then
			engine.note(node, "rest_of_report", stop - at)
		end
	end

	-- main20 reads the main contents of a report of type 1, and returns where they end; nil: nothing follows.
	local function main20(x, node, s, at, stop, h)
		local least = 2 + h.md_length
		if h.report_length ~= 255 and h.report_length < least and not x.found.traits.loose then
			engine.note(node, "short_inner", h.report_length, least)
		end
		if stop - at < 8 then
			engine.note(node, "cut_report", stop - at, 8)
			rest(node, at, stop - at)
			return nil
		end
		local m = engine.header(node, "int_report.", formats.report["2.0 main"], s, at)
		check_domain(node, m.domain, m.ds_md_bits)
		at = at + 8
		local n = 4 * h.md_length
		if n > stop - at then
			engine.note(node, "cut_report", stop - at, n)
			n = stop - at
		end
		local bitmap = m.rep_md_bits % 0x8000
		if bitmap ~= m.rep_md_bits then engine.note(node, "node_id_bit") end
		local p = engine.plan("report 2.0", bitmap)
		if h.md_length < p.words or h.md_length > p.words and m.ds_md_bits == 0 and m.domain == 0 then
			engine.note(node, "bad_md_length", h.md_length, p.words)
		end
		if p.reserved > 0 then engine.note(node, "reserved_md", p.reserved_bits) end
		if n > 0 then
			local values = engine.add(node, "int_report.metadata", at, n)
			engine.metadata(values, p, s, at, n, true)
			units.check(node, { values }, x.found.profile, false)
			if n > 4 * p.words then engine.add(values, "int_report.ds_metadata", at + 4 * p.words, n - 4 * p.words) end
		end
		for _, f in ipairs(node.sub) do
			if f.name == "int_report.rep_md_bits" then f.append = " (" .. engine.meaning("report 2.0", bitmap) .. ")" end
		end
		return at + n
	end

	-- extent is where the report at s[at] ends.
	local function extent(x, node, s, at, h)
		local stop, left = at + 4 + 4 * h.report_length, #s - at
		if h.report_length == 255 then return #s end
		if x.found.traits.loose and h.report_length == 0 then
			engine.note(node, "no_report_length", left - 4)
			return #s
		elseif stop > #s then
			engine.note(node, "cut_report", left, 4 + 4 * h.report_length)
			return #s
		elseif stop < #s and #s - stop < 4 then -- the length was rounded down
			engine.note(node, "tail_bytes", #s - stop)
			return #s
		end
		return stop
	end

	-- single reads one report of a group, and returns where it ends; nil: no other can follow.
	local function single(x, s, at)
		local t = x.found.traits
		if #s - at < 4 then
			engine.note(x.root, "cut_report", #s - at, 4)
			return nil
		end
		x.reports = x.reports + 1
		local node = engine.add(x.root, "int_report.report", at, 4, x.reports)
		local h = engine.header(node, "int_report.", formats.report["2.0 single"], s, at)
		if h.reserved ~= 0 and not t.small_hw_id then engine.note(node, "report_reserved", h.reserved) end
		local stop = extent(x, node, s, at, h)
		node.len, node.append = stop - at, ": " .. why(h)
		x.line = x.line or why(h)
		local body = at + 4
		if h.rep_type == 1 or h.rep_type == 0 and t.main_always then
			if h.rep_type == 0 then engine.note(node, "main_in_type_0") end
			body = main20(x, node, s, body, stop, h)
		elseif h.rep_type ~= 0 then
			engine.note(node, "bad_rep_type", h.rep_type)
			rest(node, body, stop - body)
			return stop
		end
		if body then inner20(x, node, s, body, stop, h) end
		return stop
	end

	-- zeros is how many bytes of padding begin at s[at]: whole words of zeros, or all that is left.
	local function zeros(s, at)
		local n = #s:match("^\0*", at + 1)
		return at + n < #s and n - n % 4 or n
	end

	local function report20(x, s)
		local t = x.found.traits
		if cut(x.root, s, 0, 8) then return end
		local form = t.small_hw_id and "2.0 group small hw_id" or t.short_seq and "2.0 group short seq" or "2.0 group"
		local g = engine.header(x.root, "int_report.", formats.report[form], s, 0)
		node_id(x.root, 4, g.node_id)
		if g.version ~= 2 then engine.note(x.root, "bad_report_ver", g.version, 2) end
		x.reports = 0
		local at = 8
		while at and at < #s do
			local n = zeros(s, at)
			if n > 0 then
				engine.note(x.root, "zero_words", n)
				engine.add(x.root, "int_report.padding", at, n)
				at = at + n
			else
				at = single(x, s, at)
			end
		end
		x.line = ("node %d, seq %d, %s"):format(g.node_id, g.seq, x.line or "no report")
		if x.reports > 1 then x.line = ("%s and %d more"):format(x.line, x.reports - 1) end
	end

	local layouts = { ["0.5"] = report05, ["1.0"] = report10, ["2.0"] = report20 }

	-- read returns the root node of a report, and a line about it. s is the payload of a datagram.
	function M.read(s, found)
		local x = { found = found, root = engine.node(nil, 0, #s, { proto = "int_report", notes = found.notes }) }
		engine.generated(x.root, "int_report.profile", 0, found.profile.name)
		engine.generated(x.root, "int_report.found_by", 0, found.mark)
		layouts[found.traits.layout](x, s)
		local title = ("Telemetry Report %s, %s"):format(found.traits.layout, x.line or "cut")
		x.root.append = ": " .. title
		return x.root, title
	end

	return M
end
