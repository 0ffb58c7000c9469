-- SPDX-License-Identifier: Apache-2.0
-- Finds INT and reports in what TCP, UDP and GRE carry. A header that is right in every respect is INT under any mark.
-- A header that is wrong is INT if the preferences have its mark: what is wrong with it is shown.
--
-- A place (p) is what is known of the headers so far: dscp (nil: no IP), dport, and quoted: the report around it, with its
-- traits and f, its flag that says that there may be INT. asked: the user has said that int, or report, is there.

return function(bytes, engine, grades, reports, profiles, config)
	local M = {}
	local u8, u16, u32, bits = bytes.u8, bytes.u16, bytes.u32, bytes.bits
	local strict, shaped, touches, no = grades.strict, grades.shaped, grades.touches, grades.no

	local vxlan, vxlan_gpe, geneve = 4789, 4790, 6081
	local foreign_high, foreign_low = 0xaaaaaaaa, 0xbbbbbbbb

	local function only() return config.profile and config.profile.int end

	local function report_around(p) return p.quoted and p.quoted.traits end

	local function tunnel(port) return port == vxlan or port == vxlan_gpe or port == geneve end

	local function note(p, ...) table.insert(p.notes, { ... }) end

	-- lower is the DSCP of an ordinary class that some INT programs use: it marks only what is right in every respect.
	local lower = 1

	local function listed(p) return p.dscp and config.is_dscp(p.dscp) end

	-- ordinary says whether a DSCP is a class of traffic that any packet may have (RFC 2474, 2597, 3246, 5865).
	local function ordinary(dscp)
		if config.is_dscp(dscp) then return false end
		if dscp % 8 == 0 or dscp == 46 or dscp == 44 then return true end
		return dscp >= 10 and dscp <= 38 and dscp % 2 == 0
	end

	-- new is what was found: its mark, traits and profile.
	local function new(p, carrier, mark, at, want, t)
		local found = { carrier = carrier, mark = mark, at = at, want = want, notes = {}, quoted = p.quoted, fragment = p.fragment }
		if config.profile then
			found.profile, found.traits = config.profile, config.profile.int
			return found
		end
		local profile = profiles.of(t, report_around(p))
		if profiles.same_int(profile.int, t) then t.even_queues = profile.int.even_queues end
		found.profile, found.traits = profile, t
		return found
	end

	local function fits(layout) return not config.profile or config.profile.int.layout == layout end

	-- mark_of returns what marks INT at b[at], and how right it must be.
	local function mark_of(p, carrier, at, npt)
		local over_udp = carrier == "udp"
		if config.profile then return "profile", touches end
		if at == 8 then return "marker", strict end
		if listed(p) and p.dscp ~= lower then return "dscp", touches end
		if over_udp and (config.int_port(p.dport) or p.asked == "int") then return "port", touches end
		if p.quoted and p.quoted.f then return "report", shaped end
		if listed(p) then return "dscp", strict end
		return npt and "port" or "form", strict
	end

	-- take returns INT at b[at] if its mark suffices for its grade.
	local function take(p, carrier, b, want, at, g, t)
		local npt = t.layout == "2.x" and carrier == "udp" and bits(u8(b, at), 2, 2) ~= 0
		local mark, need = mark_of(p, carrier, at, npt)
		if g < need then return nil end
		local by_form = mark == "form" or mark == "marker" and not config.marker or mark == "port" and not config.int_port(p.dport)
		if by_form and not config.by_form and not p.quoted then return nil end
		if mark == "form" and t.layout ~= "2.x" and p.dscp and not p.quoted and ordinary(p.dscp) then
			note(p, "ordinary_class", p.dscp)
			p.noted = true
			return nil
		end
		local found = new(p, carrier, mark, at, want - at, t)
		found.notes = p.notes
		if mark == "form" and not p.quoted then table.insert(found.notes, { "unknown_mark", p.dscp or 0, p.dport or 0 }) end
		if at == 8 then
			found.marker = true
			if u32(b, 0) == foreign_high and u32(b, 4) == foreign_low then table.insert(found.notes, { "foreign_marker" }) end
		end
		return found
	end

	-- best looks for INT in b and behind the eight bytes of a probe marker, and returns where the better one begins.
	local function best(p, b, want, port)
		local g, t = grades.int(b, want, port, only(), report_around(p))
		if g < strict and #b >= 12 and not tunnel(port) and (u32(b, 0) ~= 0 or u32(b, 4) ~= 0) and config.is_marker(u32(b, 0), u32(b, 4)) then
			local g8, t8 = grades.int(b:sub(9), want - 8, port, only(), report_around(p))
			if g8 == strict and t8.layout ~= "0.5" then return 8, g8, t8 end -- 0.5 knows none
		end
		return 0, g, t
	end

	-- gpe returns the INT headers in VXLAN-GPE behind its own header, one behind the other.
	local function gpe(p, b, want, code, here)
		local list, at = {}, 8
		local known = config.vxlan_code(code)
		while #b - at >= 4 do
			local old = code == 0x08 or u8(b, at) < 16
			local t, g = { layout = "2.x", ver = 2 }, no
			local kind, length, form = bits(u8(b, at), 4, 4), u8(b, at + 1), "2.x vxlan"
			local size = 4 * length
			if old then
				kind, length, form = u8(b, at), u8(b, at + 2), "1.0 vxlan"
				size = 4 * length - 4
				g, t = grades.old(b:sub(at + 1), want - at, nil)
			elseif #b - at >= 16 and size >= 12 and 4 + size <= want - at then
				g = grades.header20(b, at + 4, kind, length - 3, false)
			end
			local typed = kind == grades.md or kind == grades.mx
			if not fits(t.layout) or g < strict and not (here and known and typed) then
				if #list == 0 and here and known then
					if fits(t.layout) then note(p, "bad_type", kind) else note(p, "not_the_profile", u32(b, at)) end
				end
				break
			end
			local found = new(p, "vxlan-gpe", "carrier", at, want - at, t)
			if #list > 0 then table.insert(found.notes, { "another_int" }) end
			found.form, found.next = form, code
			list[#list + 1] = found
			if u8(b, at + 3) ~= code or size < 4 or #b - at < 4 + size then break end
			at = at + 4 + size
		end
		return #list > 0 and list or nil
	end

	-- in_vxlan returns INT in VXLAN-GPE (INT 1.0 and 2.x "INT over VXLAN GPE"). What is in plain VXLAN comes here by itself.
	local function in_vxlan(p, b, want)
		local here = p.dport == vxlan or p.dport == vxlan_gpe
		if #b < 8 then return nil end
		local flags, code = u8(b, 0), u8(b, 3)
		if not here and (flags ~= 0x04 and flags ~= 0x0c or u16(b, 1) ~= 0 or u8(b, 7) ~= 0) then return nil end
		if not bytes.bit(flags, 2) or code < 4 then return nil end
		return gpe(p, b, want, code, here)
	end

	-- geneve_grade is how much an option's contents look like INT.
	local function geneve_grade(b, at, n, kind)
		if kind ~= grades.md and kind ~= grades.mx then return no, { layout = "2.x", ver = 2 } end
		if n >= 12 and bits(u8(b, at), 4, 4) == 2 then
			return (grades.header20(b, at, kind, math.floor(n / 4) - 3, false)), { layout = "2.x", ver = 2 }
		elseif kind == grades.md and n >= 8 and bits(u8(b, at), 4, 4) == 1 then
			local right = engine.words("1.0", u16(b, at + 4)) == u8(b, at + 2) % 32
			return right and strict or no, { layout = "1.0", ver = 1 }
		end
		return no, { layout = "2.x", ver = 2 }
	end

	-- in_geneve returns INT in the options of Geneve (RFC 8926; INT 2.x "INT over Geneve").
	local function in_geneve(p, b)
		if #b < 8 or u8(b, 0) >= 0x40 or u8(b, 1) % 0x40 ~= 0 or u8(b, 7) ~= 0 then return nil end
		local inner = u16(b, 2)
		if inner ~= 0x6558 and inner ~= 0x0800 and inner ~= 0x86dd then return nil end
		local list, at, stop = {}, 8, math.min(8 + 4 * (u8(b, 0) % 64), #b)
		while stop - at >= 4 do
			local class, kind, size = u16(b, at), u8(b, at + 2) % 0x80, 4 * (u8(b, at + 3) % 32)
			local g, t = geneve_grade(b, at + 4, math.min(size, stop - at - 4), kind)
			local known = config.geneve_class(class)
			if fits(t.layout) and (g == strict or known and (kind == grades.md or kind == grades.mx)) then
				local found = new(p, "geneve", known and "carrier" or "form", at, 4 + size, t)
				if #list > 0 then table.insert(found.notes, { "another_int" }) end
				if not known then table.insert(found.notes, { "unknown_mark", p.dscp or 0, class }) end
				found.form, found.limit = "geneve", stop
				list[#list + 1] = found
			end
			at = at + 4 + size
		end
		return #list > 0 and list or nil
	end

	-- gre returns INT in GRE (RFC 2784, 2890; INT 2.x "INT over GRE"), and the protocol type that says so.
	function M.gre(p, b, want)
		if #b < 4 then return nil end
		local head, kind = 4, u16(b, 2)
		for _, flag in ipairs({ 7, 5, 4 }) do -- checksum, key, sequence number
			if bytes.bit(u8(b, 0), flag) then head = head + 4 end
		end
		if kind == 0x0800 or kind == 0x86dd or kind == 0x6558 or kind == 0x8100 or kind == 0x8847 or #b - head < 4 then return nil end
		local mark, need = "form", strict
		if config.gre_protocol(kind) then mark, need = "carrier", touches end
		if config.profile then mark, need = "profile", touches end
		if mark == "form" and not config.by_form and not p.quoted then return nil end
		local first, words, g = u8(b, head), u8(b, head + 1), no
		local type = bits(first, 4, 4)
		if first % 8 == 0 and (type == grades.md or type == grades.mx) then
			g = touches
			if #b - head >= 16 and 4 + 4 * words <= want - head and words >= 3 then g = grades.header20(b, head + 4, type, words - 3, false) end
		end
		if g < need or not fits("2.x") then return nil end
		local found = new(p, "gre", mark, 0, want - head, { layout = "2.x", ver = 2 })
		if mark == "form" and not p.quoted then table.insert(found.notes, { "unknown_mark", p.dscp or 0, 0 }) end
		found.form, found.gre_protocol = "2.x gre", kind
		return { found }, kind
	end

	-- report says whether b is a report, and of which traits.
	local function report(p, b, want)
		local mark, need = "form", strict
		local known = config.report_port(p.dport) or p.asked == "report"
		if config.profile then
			mark, need = "profile", known and touches or shaped
		elseif known then
			mark, need = "port", touches
		end
		if mark == "form" and not config.by_form then return nil end
		local g, t = reports.report(b, want, config.profile and config.profile.report)
		if g < need then return nil end
		local r = { mark = mark, traits = t, notes = {}, profile = config.profile or profiles.of(nil, t) }
		if mark == "form" then table.insert(r.notes, { "unknown_mark", p.dscp or 0, p.dport }) end
		if g < shaped then table.insert(r.notes, { "weak_report" }) end
		return r
	end

	-- may_be_right says whether INT could begin at b[at] that is right in every respect, by bytes that all of it have.
	local function may_be_right(b, at)
		local kind, version = u8(b, at), u8(b, at + 4)
		if kind >= 0x10 then -- 2.x
			return (kind < 0x20 or kind >= 0x30 and kind < 0x40) and kind % 4 == 0 and version >= 0x20 and version < 0x30 and u8(b, at + 1) >= 3
		end
		if kind ~= 1 and kind ~= 3 or version >= 0x20 or u8(b, at + 2) < 3 then return false end
		local count = u8(b, at + 5)
		return version < 0x10 and count < 0x20 and u8(b, at + 9) == 0 -- 0.5
			or count % 0x80 == 0 and u8(b, at + 1) == 0 and u8(b, at + 6) < 0x20 -- 1.0
	end

	-- may_report says the same of a report.
	local function may_report(b)
		local first = u8(b, 0)
		if first >= 0x30 then return false end
		local new = u8(b, 8) < 0x30 and u8(b, 8) % 16 <= 5
		if first >= 0x20 then return new end
		if first >= 0x10 then return first <= 0x1a and u8(b, 1) < 0x60 or first < 0x14 and new end
		return first <= 4
	end

	-- may_gpe: of VXLAN-GPE at a port of others.
	local function may_gpe(b) return (u8(b, 0) == 0x04 or u8(b, 0) == 0x0c) and u16(b, 1) == 0 and u8(b, 7) == 0 end

	-- may_udp and may_tcp tell what is certainly neither INT nor a report, if no DSCP marks it: by the first 20 bytes of a
	-- datagram's payload, of those behind the fixed header of TCP, and of those behind its options.
	function M.may_udp(port, b, quoted)
		return quoted or config.profile or tunnel(port) or config.int_port(port) or config.report_port(port)
			or may_be_right(b, 0) or may_be_right(b, 8) or may_report(b) or may_gpe(b)
	end

	function M.may_tcp(b, behind, quoted)
		return quoted or config.profile or may_be_right(b, 0) or may_be_right(b, 8)
			or behind and (may_be_right(behind, 0) or may_be_right(behind, 8))
	end

	-- nothing notes what could have been expected, unless the packet is cut before that.
	local function nothing(p, b, want)
		if p.quoted or p.noted or #b < math.min(4, want) then return end
		local word = #b >= 4 and u32(b, 0) or 0
		if config.profile and (listed(p) or p.dport and (config.int_port(p.dport) or config.report_port(p.dport))) then
			note(p, "not_the_profile", word)
		elseif listed(p) and p.dscp ~= lower and p.dscp % 8 ~= 0 then
			note(p, "marked_not_int", p.dscp, word)
		end
	end

	-- udp says what the payload b of a datagram is, which should have want bytes: { int = list, via = how it is carried } or
	-- { report = }; nil: neither.
	function M.udp(p, b, want)
		local list
		if p.dport == vxlan or p.dport == vxlan_gpe then
			list = in_vxlan(p, b, want)
			if list then return { int = list, via = "vxlan" } end
		elseif p.dport == geneve then
			list = in_geneve(p, b)
			if list then return { int = list, via = "geneve" } end
		end
		local at, g, t = best(p, b, want, p.dport)
		local found = g == strict and take(p, "udp", b, want, at, g, t)
		if found then return { int = { found } } end
		local r = not p.quoted and p.asked ~= "int" and report(p, b, want)
		if r then
			for _, n in ipairs(p.notes) do table.insert(r.notes, n) end
			return { report = r }
		end
		found = g ~= strict and g ~= no and take(p, "udp", b, want, at, g, t)
		if found then return { int = { found } } end
		if p.dport ~= vxlan and p.dport ~= vxlan_gpe and #b >= 12 and u8(b, 3) ~= 0 then
			list = in_vxlan(p, b, want)
			if list then return { int = list, via = "vxlan" } end
		end
		nothing(p, b, want)
	end

	-- tcp returns INT in a segment b, head bytes of which are header and options, and whether it lies before the options, as
	-- Host-INT and NoviFlow insert it. Offsets are from the segment's beginning.
	function M.tcp(p, b, want, head)
		if #b < head then return nil end -- cut in the options
		local body = b:sub(head + 1)
		local at, g, t = best(p, body, want - head, 0)
		local early, e, et
		if head > 20 and g ~= strict then
			local behind = b:sub(21)
			early, e, et = best(p, behind, want - 20, 0)
			local found = e == strict and take(p, "tcp", behind, want - 20, early, e, et)
			if found then
				table.insert(found.notes, { "past_options" })
				found.at = found.at + 20
				return found, true
			end
		end
		local found = g ~= no and take(p, "tcp", body, want - head, at, g, t)
		if found then
			found.at = found.at + head
			return found, false
		end
		nothing(p, body, want - head)
	end

	return M
end
