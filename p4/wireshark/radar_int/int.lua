-- SPDX-License-Identifier: Apache-2.0
-- Reads an INT header and what belongs to it into nodes.
--
-- What was found of it (see find.lua): carrier, mark, at (the offset of its shim), want (bytes that there should be from
-- there on), form (of the shim, in formats.lua), traits, profile, and by the mark: marker. quoted: the report around it.

return function(bytes, formats, engine, grades, units)
	local M = {}
	local u8, u16, u32, bits = bytes.u8, bytes.u16, bytes.u32, bytes.bits
	local md, mx = grades.md, grades.mx

	-- counts_shim says whether the shim's length of 2.x counts the shim: only over TCP and UDP some do.
	local function counts_shim(found) return found.traits.counts_shim and not found.form end

	-- size is how many bytes follow the shim, by its length.
	local function size(found, shim)
		local counts = found.traits.layout ~= "2.x" and found.carrier ~= "geneve" or counts_shim(found)
		return 4 * (shim.length_words or shim.option_length_words) - (counts and 4 or 0)
	end

	local function shim_form(found, s)
		if found.form then return found.form end
		if found.traits.layout ~= "2.x" then return found.traits.layout end
		local npt = bits(u8(s, found.at), 2, 2)
		return ("2.x npt %d%s"):format(npt, npt == 2 and found.traits.high_proto and " high" or "")
	end

	local function read_shim(x, s)
		local form = shim_form(x.found, s)
		local n = engine.add(x.root, x.found.carrier == "geneve" and "int.option" or "int.shim", x.found.at, 4)
		local shim = engine.header(n, x.found.carrier == "geneve" and "int." or "int.shim.", formats.shim[form], s, x.found.at)
		if shim.npt == 3 then -- these two bits are, too
			shim.reserved = shim.reserved + 0x0c000000
			if n.sub[#n.sub].name ~= "int.shim.reserved" then engine.add(n, "int.shim.reserved", x.found.at, 4) end
			n.sub[#n.sub].value = shim.reserved
		end
		if x.found.carrier == "geneve" then
			shim.type = shim.option_type
		end
		x.shim, x.shim_node = shim, n
		if shim.type ~= md and shim.type ~= mx and not x.found.traits.flow_sequence then engine.note(n, "bad_type", shim.type) end
		if counts_shim(x.found) then engine.note(n, "shim_in_length", shim.length_words) end
		if form == "2.x npt 2 high" then engine.note(n, "high_proto", shim.ip_proto) end
	end

	-- check_header notes what is odd about any header.
	local function check_header(x, n, version)
		local h, shim = x.header, x.shim
		if h.version ~= version then engine.note(n, "bad_version", h.version, version) end
		local reserved = h.reserved ~= 0 and h.reserved or h.reserved16 or 0
		if shim.reserved ~= 0 or reserved ~= 0 then engine.note(n, "reserved_bits", shim.reserved, reserved) end
		if h.instruction_bitmap == 0 and (h.ds_instruction or 0) == 0 then engine.note(n, "empty_bitmap") end
		x.incomplete = x.incomplete or h.e == 1 or h.m == 1
	end

	local function read_header(x, s, at)
		local t, layout = x.found.traits, x.found.traits.layout
		local form, words = layout, 2
		if layout == "2.x" then
			form, words = "2.x " .. (x.shim.type == mx and "mx" or "md") .. (t.late_flags and " late" or ""), 3
		end
		local n = engine.add(x.root, "int.header", at, 4 * words)
		local h = engine.header(n, "int.", formats.header[form], s, at)
		x.header, x.header_node = h, n
		if layout == "2.x" then
			check_header(x, n, 2)
			if x.shim.type == mx and h.instruction_bitmap % 2 == 1 then engine.note(n, "complement_in_mx") end
			if h.domain_specific_id == 0 and (h.ds_instruction ~= 0 or h.ds_flags ~= 0) then
				engine.note(n, "no_domain", h.ds_instruction, h.ds_flags)
			end
			M.check_domain(n, h.domain_specific_id, h.ds_instruction)
		else
			local version = layout == "1.0" and 1 or 0
			if version == 1 and t.ver == 0 and h.version == 0 then
				engine.note(n, "ver_of_other", 0)
				version = 0
			end
			check_header(x, n, version)
		end
		for _, f in ipairs(n.sub) do
			if f.name == "int.instruction_bitmap" then f.append = " (" .. engine.meaning(layout, f.value) .. ")" end
		end
		return 4 * words
	end

	function M.check_domain(n, domain, instructions)
		if domain ~= 0 and domain ~= grades.domain_ts and instructions ~= 0 then engine.note(n, "unknown_domain", domain, instructions) end
	end

	-- hop reads one node's block of n bytes at s[at]. number: from the source, which is 1.
	local function hop(x, p, s, at, n, number)
		local h = engine.add(x.stack, "int.hop", at, n, number)
		engine.metadata(h, p, s, at, n, true)
		local baseline = 4 * p.words
		if n > baseline then
			local from = p.last and baseline - 4 or baseline
			engine.add(h, "int.ds_metadata", at + from, n - baseline)
		end
		local id = h.values and h.values.node_id
		if id then h.append = (", node %d"):format(id.low) end
		x.hops = x.hops + 1
		x.path[#x.path + 1] = id and ("%d"):format(id.low) or "?"
		return h
	end

	-- blocks divides a stack of n bytes at s[at] into hops of words words, the newest first. here: bytes that are here. source:
	-- how many behind them the source alone has added.
	local function blocks(x, s, at, here, n, words, source)
		local h, stride, hops = x.header, 4 * words, {}
		local p = engine.plan(x.found.traits.layout, h.instruction_bitmap, x.found.traits)
		if p.reserved > 0 then engine.note(x.header_node, "reserved_instruction", p.reserved_bits) end
		local whole = stride > 0 and math.floor(here / stride) or 0
		x.stack = engine.add(x.root, "int.hops", at, whole * stride, whole)
		for i = 1, whole do
			hops[i] = hop(x, p, s, at + (i - 1) * stride, stride, math.floor(n / stride) - i + 1)
		end
		local stop = at + whole * stride
		here, n = here - whole * stride, n - whole * stride
		if n == 0 then -- all is read
		elseif here < n then -- cut, which has been noted
			if here > 0 then engine.add(x.root, "int.rest", stop, here) end
		elseif (h.domain_specific_id or 0) ~= 0 then
			engine.add(x.root, "int.source_words", stop, here + (source or 0))
			engine.note(x.stack, "source_words", here, h.domain_specific_id)
			source = nil
		else
			engine.add(x.root, "int.rest", stop, here)
			x.incomplete = true
			engine.note(x.stack, "left_over", here, stride)
		end
		if source and source > 0 then engine.add(x.root, "int.source_words", at + whole * stride + here, source) end
		return hops
	end

	-- domain_words is how many words the source alone adds, of a domain that is known: transparent-security's bit 0 is the
	-- source device, 6 bytes of address and 2 of padding.
	local function domain_words(domain, instruction)
		return domain == grades.domain_ts and instruction >= 0x8000 and 2 or 0
	end

	-- stack_md reads a stack whose stride is Hop ML.
	local function stack_md(x, s, at, here, n)
		local h, t = x.header, x.found.traits
		if h.hop_ml == 0 then
			engine.note(x.header_node, "no_hop_ml", math.floor(n / 4))
			if here > 0 then engine.add(x.root, "int.rest", at, here) end
			x.incomplete = x.incomplete or n > 0
			return {}
		end
		local words = engine.words(t.layout, h.instruction_bitmap)
		local own = { long_times = t.long_times, short_l2 = t.short_l2 }
		if next(own) and engine.words(t.layout, h.instruction_bitmap, own) == h.hop_ml then
			engine.note(x.header_node, "traits_by_hop_ml", h.hop_ml, words)
		elseif h.hop_ml < words or h.hop_ml > words and (h.ds_instruction or 0) == 0 and (h.domain_specific_id or 0) == 0 then
			engine.note(x.header_node, "other_hop_ml", h.hop_ml, words)
		end
		local source = 4 * domain_words(h.domain_specific_id or 0, h.ds_instruction or 0)
		if here < n or n < source then source = 0 end
		return blocks(x, s, at, here - source, n - source, h.hop_ml, source)
	end

	local function stack_mx(x, s, at, here, n)
		if not x.found.traits.sink_stack or here == 0 then
			if here > 0 then
				engine.add(x.root, "int.source_words", at, here)
				engine.note(x.header_node, "source_words", here, x.header.domain_specific_id)
			end
			return {}
		end
		engine.note(x.header_node, "stack_behind_mx", here)
		return blocks(x, s, at, here, n, engine.words("2.x", x.header.instruction_bitmap))
	end

	-- stack_05 reads the stack of 0.5, whose header counts the hops, what is behind it, and the tail header.
	local function stack_05(x, s, at, here, n)
		local h, quoted = x.header, x.found.quoted
		local words = engine.words("0.5", h.instruction_bitmap)
		if h.ins_cnt ~= bytes.count(h.instruction_bitmap) then
			engine.note(x.header_node, "bad_ins_count", h.ins_cnt, bytes.count(h.instruction_bitmap))
			words = h.ins_cnt
		end
		local stack = 4 * words * h.total_hop
		if stack > n then
			engine.note(x.header_node, "bad_hop_count", h.total_hop, math.floor(n / math.max(4 * words, 1)))
			x.incomplete = true
			stack = words > 0 and n - n % (4 * words) or n
		end
		local cut = math.min(stack, here)
		local hops = blocks(x, s, at, cut, stack, words)
		at, here, n = at + cut, here - cut, n - stack
		if here < n then
			if here > 0 then engine.add(x.root, "int.rest", at, here) end
			return hops
		end
		if x.found.traits.flow_sequence and here >= 4 then
			engine.add(x.root, "int.flow_sequence", at, 4)
			at, here = at + 4, here - 4
		end
		if here == 4 then
			local tail = engine.add(x.root, "int.tail", at, 4)
			local t = engine.header(tail, "int.", formats.tail, s, at)
			if t["tail.ip_proto"] == 17 then x.shim.tail_port = t["tail.orig_dst_port"] end
		elseif here > 4 then
			engine.add(x.root, "int.rest", at, here)
			engine.note(x.header_node, "left_over", here, 4 * words)
		elseif not quoted then -- sinks remove it before they report
			engine.note(x.shim_node, "no_tail", x.shim.length_words, x.shim.length_words + 1)
		end
		return hops
	end

	-- behind_shim reads header and stack.
	local function behind_shim(x, s)
		local found = x.found
		local at, want, n = found.at + 4, found.want - 4, size(found, x.shim)
		local least = found.traits.layout == "2.x" and 12 or 8
		local words = x.shim.length_words or x.shim.option_length_words
		if found.carrier == "geneve" then words = 0 end
		if n < least then
			engine.note(x.shim_node, "bad_length", words, least / 4)
			n = math.max(n, 0)
		elseif n > want then
			engine.note(x.shim_node, "length_past_packet", words, math.floor(math.max(want, 0) / 4))
			n, x.incomplete = math.max(want, 0), true
		end
		local here = #s - at
		if n > here then
			engine.note(x.shim_node, "cut_int", here, n)
			x.incomplete = true
		end
		x.stop = math.min(at + n, #s)
		here = math.min(n, here)
		if here < least then
			if here > 0 then engine.add(x.root, "int.rest", at, here) end
			x.incomplete = true
			return
		end
		local head = read_header(x, s, at)
		at, here, n = at + head, here - head, n - head
		local stack = x.shim.type == mx and stack_mx or stack_md
		if found.traits.layout == "1.0" then stack = stack_md end
		if found.traits.layout == "0.5" then stack = stack_05 end
		x.blocks = stack(x, s, at, here, n)
	end

	-- check_report notes what does not go with the report around it.
	local function check_report(x)
		local q, layout = x.found.quoted, x.found.traits.layout
		if not q or q.checked then return end
		q.checked = true
		if not q.f then engine.note(x.root, "int_without_f") end
		local report = q.traits.layout
		local goes = { ["0.5"] = "0.5", ["1.0"] = "1.0", ["2.x"] = "2.0" }
		if goes[layout] ~= report then
			engine.note(x.root, "report_versions", layout, report)
		end
	end

	-- title is a line about all of it.
	local function title(x)
		local mode = x.shim.type == mx and "MX" or x.shim.type == md and "MD" or ("type %d"):format(x.shim.type)
		if x.found.traits.layout == "0.5" then mode = "MD" end
		local path = ""
		if x.hops > 0 then
			path = (", %d hop%s: %s"):format(x.hops, x.hops == 1 and "" or "s", table.concat(x.path, " < "))
		end
		return ("INT-%s %s%s%s"):format(mode, x.found.traits.layout, path, x.incomplete and " (incomplete)" or "")
	end

	-- read returns the root node, where INT ends, its shim's values, and a line about it.
	function M.read(s, found)
		local from = found.marker and found.at - 8 or found.at
		local x = { found = found, hops = 0, path = {}, incomplete = found.fragment or false }
		x.root = engine.node(nil, from, 0, { proto = "int", notes = found.notes or {} })
		engine.generated(x.root, "int.profile", from, found.profile.name)
		engine.generated(x.root, "int.found_by", from, found.mark)
		engine.generated(x.root, "int.carrier", from, found.carrier)
		if found.gre_protocol then engine.generated(x.root, "int.gre_protocol", from, found.gre_protocol) end
		if found.next then engine.generated(x.root, "int.vxlan_next_protocol", from, found.next) end
		if found.marker then engine.add(x.root, "int.probe_marker", from, 8) end
		read_shim(x, s)
		x.stop = math.min(found.at + 4, #s)
		behind_shim(x, s)
		if x.incomplete then
			engine.generated(x.root, "int.incomplete", from, true)
		else
			units.check(x.root, x.blocks, found.profile, found.traits.layout ~= "2.x" and not found.traits.long_times)
		end
		check_report(x)
		x.root.len = math.max(x.stop - from, 0)
		x.title = title(x)
		x.root.append = ": " .. x.title
		return x.root, x.stop, x.shim, x.title
	end

	return M
end
