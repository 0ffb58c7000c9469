-- SPDX-License-Identifier: Apache-2.0
-- How much bytes look like INT, and in which variant. Nothing marks INT for certain: DSCP, ports and protocol numbers are
-- the operator's. So the form is looked at, and a mark only decides how right it must be.

return function(bytes, engine)
	local M = {}
	local u8, u16, u32, bits = bytes.u8, bytes.u16, bytes.u32, bytes.bits

	-- Grades.
	M.no = 0
	M.touches = 1 -- type and version are right
	M.shaped = 2 -- lengths are too
	M.strict = 3 -- everything is

	M.md, M.mx = 1, 3 -- types of INT headers (INT 2.1 "INT Header Types")
	M.domain_ts = 0x5453 -- transparent-security

	local function copy(t)
		local c = {}
		for k, v in pairs(t) do c[k] = v end
		return c
	end

	-- begins says whether a header of an IP protocol begins at b[off], in a packet of want bytes; nil: its bytes are not there.
	local function begins(b, off, want, proto)
		local room, here = want - off, #b - off
		if proto == 6 and here >= 13 then -- TCP's data offset
			local head = 4 * bits(u8(b, off + 12), 4, 4)
			return head >= 20 and head <= room and bits(u8(b, off + 12), 1, 3) == 0
		elseif proto == 17 and here >= 6 then
			return u16(b, off + 4) == room
		elseif proto == 4 and here >= 4 then
			return bits(u8(b, off), 4, 4) == 4 and u8(b, off) % 16 >= 5 and u16(b, off + 2) == room
		elseif proto == 41 and here >= 6 then
			return bits(u8(b, off), 4, 4) == 6 and 40 + u16(b, off + 4) == room
		end
	end

	-- like_ts tells a header of domain 0x5453 that transparent-security sends, whose shim counts itself and whose flags are
	-- two bits further, from one by the text. What follows the stack decides; if it is not known, the text wins if it fits.
	local function like_ts(b, want, port, report)
		local w0, stop = u32(b, 4), 4 + 4 * u8(b, 1)
		if bits(w0, 23, 2) ~= 0 then return true end -- their E or M, where the text has reserved bits
		if bits(w0, 26, 2) ~= 0 then return false end -- D or E of the text
		if stop > want then return true end
		if bits(u8(b, 0), 2, 2) == 2 then
			local text, theirs = begins(b, stop, want, u8(b, 3)), begins(b, stop - 4, want, u8(b, 3))
			if text or theirs then return not text end
			if text == false or theirs == false then return theirs ~= false end
		end
		return (report and report.main_always or false) or port == 555
	end

	-- header20 looks at the 12 bytes of a 2.x header at b[at]. stack: words behind it. late: two reserved bits before D, E, M.
	-- The second result: metadata of a hop lie behind an MX header.
	function M.header20(b, at, kind, stack, late)
		local w0, bitmap = u32(b, at), u16(b, at + 4)
		local domain, instruction, flags = u16(b, at + 6), u16(b, at + 8), u16(b, at + 10)
		if bits(w0, 28, 4) ~= 2 then return M.no, false end
		local words = engine.words("2.x", bitmap)
		if kind == M.mx then
			local sink = stack > 0 and domain == 0 and words > 0 and stack % words == 0
			local odd = bits(w0, 0, 27) ~= 0 or bitmap % 2 == 1 or bitmap == 0 and instruction == 0 or domain == 0 and stack ~= 0 and not sink
			return odd and M.shaped or M.strict, sink
		end
		local hop_ml = bits(w0, 8, 5)
		if hop_ml == 0 then return stack == 0 and bitmap == 0 and M.shaped or M.touches, false end
		local odd = bits(w0, 13, 12) ~= 0 and not late or bitmap == 0 and instruction == 0 or hop_ml < words
		if domain == 0 then odd = odd or hop_ml ~= words or stack % hop_ml ~= 0 or instruction ~= 0 or flags ~= 0 end
		return odd and M.shaped or M.strict, false
	end

	local function shim20_right(b, npt, t, only)
		local third, fourth = u8(b, 2), u8(b, 3)
		local right = u8(b, 0) % 4 == 0 and npt <= 2
		if npt == 0 then return right and third == 0 and fourth % 4 == 0 end
		if npt == 2 and third ~= 0 then
			if not only and fourth == 0 then t.high_proto = true end
			return right and t.high_proto
		end
		return right
	end

	-- int20 looks for INT 2.x behind a shim for TCP and UDP.
	local function int20(b, want, port, only, report)
		local t = only and copy(only) or { layout = "2.x", ver = 2 }
		local kind, npt, words = bits(u8(b, 0), 4, 4), bits(u8(b, 0), 2, 2), u8(b, 1)
		if kind ~= M.md and kind ~= M.mx then return M.no, t end
		local right = shim20_right(b, npt, t, only)
		if #b < 16 then -- cut: what is there decides
			return (#b < 8 or bits(u8(b, 4), 4, 4) == 2) and M.touches or M.no, t
		end
		if not only and kind == M.md and u16(b, 10) == M.domain_ts and like_ts(b, want, port, report) then
			t.counts_shim, t.late_flags = true, true
		end
		if t.counts_shim then words = words - 1 end
		local fits = words >= 3 and 4 + 4 * words <= want
		if bits(u8(b, 4), 4, 4) ~= 2 then -- only the version is wrong
			return fits and right and bits(u32(b, 4), 13, 12) == 0 and M.touches or M.no, t
		end
		if not fits then return M.touches, t end
		local grade, sink = M.header20(b, 4, kind, words - 3, t.late_flags)
		if sink and not only then t.sink_stack = true end
		return right and grade or math.min(grade, M.shaped), t
	end

	-- widths finds rows with which a bitmap of 1.0 asks for so many words; none if it does by the text.
	local function widths(bitmap, words)
		for _, o in ipairs({ {}, { short_l2 = true }, { long_times = true }, { long_times = true, short_l2 = true } }) do
			if engine.words("1.0", bitmap, o) == words then return o end
		end
	end

	-- like_05 tells 0.5 from 1.0 whose Ver is 0: where 0.5 has the instruction count, 1.0 has reserved bits.
	local function like_05(w0, bitmap)
		local count = bits(w0, 16, 5)
		if count == 0 or count == bytes.count(bitmap) then return count ~= 0 end
		return not widths(bitmap, bits(w0, 8, 5))
	end

	local function int05(w0, bitmap, stack, flow)
		local count, most, total = bits(w0, 16, 5), bits(w0, 8, 8), bits(w0, 0, 8)
		if count == 0 or count ~= bytes.count(bitmap) then return M.touches end
		local behind, extra = stack - count * total, flow and 1 or 0 -- the tail, and the flow's sequence number
		local odd = bits(w0, 21, 3) ~= 0 or total > most or bitmap % 256 ~= 0 or behind ~= extra and behind ~= extra + 1
		return odd and M.shaped or M.strict
	end

	local function int10(b, t, only)
		local w0, bitmap, stack = u32(b, 4), u16(b, 8), u8(b, 2) - 3
		local hop_ml, odd = bits(w0, 8, 5), false
		if hop_ml == 0 then return M.touches, t end
		if only then
			odd = engine.words("1.0", bitmap, t) ~= hop_ml
		else
			local o = widths(bitmap, hop_ml)
			odd = not o
			t.long_times, t.short_l2 = o and o.long_times, o and o.short_l2
		end
		-- Only programs with rows of their own use the reserved half of the second word.
		local own = t.long_times or t.short_l2 or t.even_queues
		odd = odd or u8(b, 1) ~= 0 or bits(w0, 13, 10) ~= 0 or u16(b, 10) ~= 0 and not own or bitmap == 0 or stack % hop_ml ~= 0
		return odd and M.shaped or M.strict, t
	end

	-- old looks for INT 0.5 and 1.0 behind a shim for TCP and UDP.
	function M.old(b, want, only)
		local t = only and copy(only) or { layout = "1.0", ver = 1 }
		local kind, words = u8(b, 0), u8(b, 2)
		if kind == 3 and not only then t = { layout = "0.5", ver = 0, flow_sequence = true } end -- Host-INT's
		if kind ~= M.md and not (kind == 3 and t.flow_sequence) then return M.no, t end
		if #b < 12 then return (#b < 8 or bits(u8(b, 4), 4, 4) <= 1) and M.touches or M.no, t end
		local w0, bitmap = u32(b, 4), u16(b, 8)
		local ver, fits = bits(w0, 28, 4), words >= 3 and 4 * words <= want
		if ver > 1 then return (only or fits and u8(b, 1) == 0) and M.touches or M.no, t end
		if t.layout == "0.5" or not only and ver == 0 and like_05(w0, bitmap) then
			if not only then t.layout, t.ver = "0.5", 0 end
			return fits and ver == 0 and int05(w0, bitmap, words - 3, t.flow_sequence) or M.touches, t
		end
		if not only then t.ver = ver end
		if not fits or ver ~= t.ver then return M.touches, t end
		return int10(b, t, only)
	end

	-- int returns how much b looks like INT over TCP or UDP, and its traits. want: bytes that there should be, more than #b if
	-- the packet is cut. port: of UDP. only: traits of the source, if they are known. report: those of the report around it.
	function M.int(b, want, port, only, report)
		if #b < 4 then return M.no, {} end
		local new = u8(b, 0) >= 16
		if only and (only.layout == "2.x") ~= new then return M.no, only end
		if new then return int20(b, want, port, only, report) end
		return M.old(b, want, only)
	end

	return M
end
