-- SPDX-License-Identifier: Apache-2.0
-- How much the payload of a UDP datagram looks like a telemetry report, and in which variant. A report is recognised by
-- its lengths, and by what it quotes.

return function(bytes, engine, grades)
	local M = {}
	local u8, u16, u32, bits = bytes.u8, bytes.u16, bytes.u32, bytes.bits

	-- What a report says that follows it (TR 2.0 "InType"). Next protocols of 1.0 are these less ethernet.
	M.none, M.tlv, M.domain, M.ethernet, M.ipv4, M.ipv6 = 0, 1, 2, 3, 4, 5

	local function set(list)
		local s = {}
		for _, v in ipairs(list) do s[v] = true end
		return s
	end

	-- VLAN, QinQ, MPLS, ARP, RARP, LACP, PPPoE, EAP, LLDP, MACsec, PBB, PTP, FCoE, RoCE, NSH and others that switches send.
	local ethertypes = set({ 0x8100, 0x88a8, 0x9100, 0x8847, 0x8848, 0x0806, 0x8035, 0x8809, 0x8863, 0x8864, 0x887e, 0x888e,
		0x88cc, 0x88e5, 0x88e7, 0x88f7, 0x8906, 0x8915, 0x894f, 0x9000 })
	-- IP protocols, and IPv6 extension headers, that are in use.
	local protocols = set({ 0, 1, 2, 4, 6, 17, 33, 41, 43, 44, 47, 50, 51, 58, 60, 88, 89, 103, 112, 115, 132, 136, 137 })

	-- These say whether b begins at off like a packet.
	function M.is_ip(b, off, version)
		if #b <= off or bits(u8(b, off), 4, 4) ~= version then return false end
		return version == 6 or u8(b, off) % 16 >= 5 and (#b - off < 4 or u16(b, off + 2) >= 20)
	end

	function M.is_ethernet(b, off)
		if #b - off < 14 then return false end
		local kind = u16(b, off + 12)
		if kind == 0x0800 then return #b - off == 14 or M.is_ip(b, off + 14, 4) end
		if kind == 0x86dd then return #b - off == 14 or M.is_ip(b, off + 14, 6) end
		return ethertypes[kind] or false
	end

	function M.is(b, off, inner)
		if inner == M.ethernet then return M.is_ethernet(b, off) end
		if inner == M.ipv4 then return M.is_ip(b, off, 4) end
		return inner == M.ipv6 and M.is_ip(b, off, 6)
	end

	-- is_any: of any kind, with a protocol that exists.
	local function is_any(b, off)
		if M.is_ethernet(b, off) then
			local kind = u16(b, off + 12)
			if kind ~= 0x0800 and kind ~= 0x86dd then return true end
			off = off + 14
		end
		if M.is_ip(b, off, 4) and #b - off >= 20 then return protocols[u8(b, off + 9)] or false end
		return M.is_ip(b, off, 6) and #b - off >= 40 and protocols[u8(b, off + 6)] or false
	end

	-- quote grades a report that quotes b from off on. right: its own header is.
	local function quote(b, off, inner, right)
		if right and M.is(b, off, inner) then return grades.strict end
		return is_any(b, off) and grades.shaped or grades.touches
	end

	local function report05(b, _, t)
		local w, nproto, few = u32(b, 0), u8(b, 0) % 16, 2
		local head = ({ [0] = 12, 24, 28, 36, 12 })[nproto]
		if nproto > 2 and not (t.host_nprotos and nproto <= 4) or #b < head then return grades.touches end
		local reserved, inner = bytes.count(bits(w, 6, 15)), M.ethernet
		if nproto == 3 then -- a summary of drops
			return (#b - head > 3 or bits(w, 23, 1) == 0 or reserved > 0) and grades.touches or grades.strict
		elseif nproto == 4 then
			inner = M.ipv4
			if not M.is_ip(b, head, 4) and #b - head > 4 then head = head + 4 end
		end
		if reserved > few then return grades.touches end -- of 15: a program of a later draft may set so many
		return quote(b, head, inner, reserved == 0)
	end

	local function report10(b, _, t)
		local w, nproto = u32(b, 0), bits(u8(b, 1), 5, 3)
		local extra = bytes.count(bits(w, 15, 6))
		local head = 16 + 4 * extra
		if nproto > 2 or #b < head or u8(b, 0) % 16 ~= 4 + extra and not t.free_length then return grades.touches end
		local reserved = bits(w, t.flags_first and 6 or 9, 6)
		if t.free_length and reserved ~= 0 then return grades.touches end -- too much is wrong
		if not t.free_length and reserved == 0 and #b == head then return grades.shaped end -- it quotes no packet
		return quote(b, head, nproto + M.ethernet, reserved == 0)
	end

	-- main20 looks at main contents: where what follows them begins, whether they are right, whether bits ask for values.
	local function main20(b, t, kind, md)
		local bitmap, domain = u16(b, 12), u16(b, 14)
		local need = engine.words("report 2.0", bitmap % 0x8000)
		local odd = md < need or md > need and domain == 0 and bitmap < 0x8000
		if t.main_always then odd = odd or kind ~= 0 or domain ~= 0x5453 end
		return math.min(20 + 4 * md, #b), not odd, bitmap ~= 0
	end

	-- grade20 is what a first report of a group is worth whose contents begin at body.
	local function grade20(b, want, t, inner, words, body, right, said, main)
		if t.ethernet2 and inner == M.domain then inner = M.ethernet end
		if inner >= M.ethernet or t.loose then
			local g = quote(b, body, inner, right)
			if t.loose and right and M.is_ethernet(b, body) then g = grades.strict end
			if main and right then g = math.max(g, grades.shaped) end -- it may quote something else than IP
			return g
		end
		if not right then return grades.touches end
		local tlv = inner == M.tlv and #b - body >= 4 and bits(u8(b, body), 4, 4) <= 3 and 4 + 4 * u8(b, body + 1) <= #b - body
		if said or tlv then return grades.strict end
		local shaped = main or inner == M.none and words == 0 and u8(b, 11) ~= 0 or inner == M.domain and 12 + 4 * words + 3 >= want
		return shaped and grades.shaped or grades.touches
	end

	local function report20(b, want, t)
		if #b < 12 then return grades.touches end
		local kind, inner, words, md = bits(u8(b, 8), 4, 4), u8(b, 8) % 16, u8(b, 9), u8(b, 10)
		local main = kind == 1 or t.main_always and kind == 0
		if kind > 2 or inner > M.ipv6 then return grades.touches end
		local body, right, said = 12, u8(b, 11) % 16 == 0 or t.small_hw_id, false
		local past = words ~= 255 and not t.loose and 12 + 4 * words > want
		if past or kind == 2 then
			if not right then return grades.touches end -- two things are wrong
			right = not past
		end
		if main then
			if #b < 20 or words < 2 + md and not t.loose then return grades.touches end
			local main_right
			body, main_right, said = main20(b, t, kind, md)
			right = right and main_right
		end
		return grade20(b, want, t, inner, words, body, right, said, main)
	end

	local layouts = { ["0.5"] = report05, ["1.0"] = report10, ["2.0"] = report20 }

	local function first10(b, want)
		local t, w = { layout = "1.0", ver = 1 }, u32(b, 0)
		if u8(b, 0) % 16 < 4 then
			local loose = { layout = "2.0", ver = 1, loose = true }
			if report20(b, want, loose) == grades.strict then return grades.strict, loose end
			t.free_length = true
		end
		t.flags_first = bits(w, 12, 3) ~= 0 and bits(w, 6, 6) == 0
		return report10(b, want, t), t
	end

	local function first20(b, want)
		local t = { layout = "2.0", ver = 2 }
		local g = report20(b, want, t)
		if g < grades.strict then
			local loose = { layout = "2.0", ver = 2, loose = true }
			if u8(b, 9) == 0 and report20(b, want, loose) == grades.strict then return grades.strict, loose end
			local tps = { layout = "2.0", ver = 2, short_seq = true, main_always = true, ethernet2 = true }
			if u8(b, 8) < 16 and report20(b, want, tps) == grades.strict then return grades.strict, tps end
		end
		return g, t
	end

	-- report returns how much b looks like a report, and its traits. only: those of the source, if they are known.
	function M.report(b, want, only)
		if #b < 4 then return grades.no, {} end
		local ver = bits(u8(b, 0), 4, 4)
		if only then
			if ver ~= only.ver then return grades.no, only end
			return layouts[only.layout](b, want, only), only
		end
		if ver == 0 then
			local n = u8(b, 0) % 16
			local t = { layout = "0.5", ver = 0, host_nprotos = n == 3 or n == 4 }
			return report05(b, want, t), t
		elseif ver == 1 then
			return first10(b, want)
		elseif ver == 2 then
			return first20(b, want)
		end
		return grades.no, {}
	end

	return M
end
