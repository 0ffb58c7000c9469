-- SPDX-License-Identifier: Apache-2.0
-- Reads what formats.lua describes, into nodes. A node is an item of the tree to be:
--
--   name       of its field; or proto
--   off, len   bytes, from the beginning of the buffer
--   value      nil: the bytes say it
--   pattern    its bits among those around, where it is not whole bytes
--   text       instead of the field's own label; append: behind it
--   sub        nodes below it
--   notes      what is odd about it: { code, numbers }
--   generated  it is no bytes of the packet; hidden: only filters see it
--   packet     it is a packet, which other dissectors take

return function(bytes, formats)
	local M = {}
	local u32, bits = bytes.u32, bytes.bits

	function M.node(name, off, len, more)
		local n = more or {}
		n.name, n.off, n.len = name, off, len
		n.sub, n.notes = n.sub or {}, n.notes or {}
		return n
	end

	function M.add(parent, name, off, len, value, more)
		local n = M.node(name, off, len, more)
		n.value = value
		table.insert(parent.sub, n)
		return n
	end

	function M.generated(parent, name, off, value) return M.add(parent, name, off, 0, value, { generated = true }) end

	function M.note(n, code, ...) table.insert(n.notes, { code, ... }) end

	-- fields turns "name:bits name:bits" into a list, once.
	local parsed = {}
	local function fields(text)
		if not parsed[text] then
			local list, at = {}, 0
			for name, n in text:gmatch("(%S+):(%d+)") do
				n = tonumber(n)
				list[#list + 1] = { name = name, at = at, bits = n }
				at = at + n
			end
			list.bits = at
			parsed[text] = list
		end
		return parsed[text]
	end

	-- header reads words at s[at] into sub nodes of parent, and returns their values by name. Reserved bits are one value,
	-- in their places, which has a node if it is not 0.
	function M.header(parent, prefix, words, s, at)
		local values = { reserved = 0 }
		for i, text in ipairs(type(words) == "string" and { words } or words) do
			local word, off, reserved = u32(s, at + 4 * i - 4), at + 4 * i - 4, 0
			for _, f in ipairs(fields(text)) do
				local shift = 32 - f.at - f.bits
				local v = bits(word, shift, f.bits)
				if f.name == "-" then
					reserved = reserved + v * 2 ^ shift
				else
					local first, last = math.floor(f.at / 8), math.floor((f.at + f.bits - 1) / 8)
					local n = M.add(parent, prefix .. f.name, off + first, last - first + 1, v)
					if f.bits % 8 ~= 0 then n.pattern = { v, f.at - 8 * first, f.bits, 8 * (last + 1) - f.at - f.bits } end
					values[f.name] = v
				end
			end
			if reserved ~= 0 then M.add(parent, prefix .. "reserved", off, 4, reserved) end
			values.reserved = values.reserved + reserved
		end
		return values
	end

	-- row is what a bit of a format asks for; nil: the bit is reserved.
	local function row(format, bit, options)
		for name, formats_of in pairs(formats.variant) do
			local other = options and options[name] and formats_of[format]
			if other and other[bit] then return fields(other[bit]) end
		end
		local text = formats.metadata[format][bit]
		return text and fields(text)
	end

	-- plan is where each row of a bitmap lies in a block, and how many words the block has. Plans are kept, few enough of
	-- them that no capture fills the memory.
	local plans, kept = {}, 0
	function M.plan(format, bitmap, options)
		options = options or {}
		local key = table.concat({ format, ("%d"):format(bitmap), options.long_times and "t" or "", options.short_l2 and "l" or "",
			options.even_queues and "q" or "" }, "/")
		if plans[key] then return plans[key] end
		if kept == 256 then plans, kept = {}, 0 end
		local p = { rows = {}, words = 0, reserved = 0, reserved_bits = 0 }
		for bit = 0, 15 do
			if bytes.bit(bitmap, 15 - bit) then
				local r = row(format, bit, options)
				if not r then
					p.reserved_at = p.reserved_at or 4 * p.words
					p.reserved, p.reserved_bits = p.reserved + 4, p.reserved_bits + 2 ^ (15 - bit)
					p.words = p.words + 1
				elseif r[1].name == "checksum_complement" then -- behind domain-specific words
					p.last = r
					p.words = p.words + 1
				else
					table.insert(p.rows, { at = 4 * p.words, bytes = r.bits / 8, fields = r })
					p.words = p.words + r.bits / 32
				end
			end
		end
		plans[key], kept = p, kept + 1
		return p
	end

	function M.words(format, bitmap, options) return M.plan(format, bitmap, options).words end

	local ones = 2 ^ 32 - 1

	-- unavailable says whether a field of a row is: all of its word is ones, or all of the field if it has 32 bits or more.
	local function unavailable(s, at, r, f)
		if f.bits == 64 then return u32(s, at) == ones and u32(s, at + 4) == ones end
		if r.bits == 64 then return u32(s, at + f.at / 8) == ones end
		return u32(s, at) == ones
	end

	local function value(parent, s, at, r, f, all_ones)
		local off, len = at + f.at / 8, f.bits / 8
		if all_ones and unavailable(s, at, r, f) then
			M.add(parent, "int.unavailable", off, len, f.name)
			return
		end
		local n = M.add(parent, "int." .. f.name, off, len)
		if f.bits == 64 then
			n.high, n.low = u32(s, off), u32(s, off + 4)
		else
			n.high, n.low = 0, bits(u32(s, at + 4 * math.floor(f.at / 32)), 32 - f.at % 32 - f.bits, f.bits)
			n.value = n.low
		end
		parent.values = parent.values or {}
		parent.values[f.name] = n
	end

	-- metadata reads a block of n bytes at s[at] into sub nodes of parent, whose values are there by name too. Rows that the
	-- block lacks are left out. all_ones: values of all ones are not available.
	function M.metadata(parent, p, s, at, n, all_ones)
		for _, r in ipairs(p.rows) do
			if r.at + r.bytes <= n then
				for _, f in ipairs(r.fields) do
					if f.name ~= "-" then value(parent, s, at + r.at, r.fields, f, all_ones) end
				end
			end
		end
		if p.reserved > 0 and p.reserved_at + p.reserved <= n then
			M.add(parent, "int.reserved_words", at + p.reserved_at, p.reserved)
		end
		if p.last and n >= 4 * p.words then
			-- All ones have a meaning of their own here.
			value(parent, s, at + n - n % 4 - 4, p.last, p.last[1], false)
		end
	end

	-- meaning is what the bits of a bitmap ask for, as text.
	function M.meaning(format, bitmap)
		local list = {}
		for bit = 0, 15 do
			if bytes.bit(bitmap, 15 - bit) then
				local r = row(format, bit)
				list[#list + 1] = r and formats.meaning[r[1].name] or ("reserved bit %d"):format(bit)
			end
		end
		return #list > 0 and table.concat(list, ", ") or "none"
	end

	return M
end
