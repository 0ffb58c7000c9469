-- SPDX-License-Identifier: Apache-2.0
-- Makes nodes (see engine.lua) items of Wireshark's tree.

return function(bytes, fields, notes, units)
	local M = {}

	local severity = { error = expert.severity.ERROR, warn = expert.severity.WARN, note = expert.severity.NOTE }
	local group = { error = expert.group.MALFORMED, warn = expert.group.PROTOCOL, note = expert.group.ASSUMPTION }

	-- Of each protocol: its fields, expert infos, units and labels of fields.
	local all, experts, unit, label = {}, { int = {}, int_report = {} }, {}, {}

	-- register gives the protocols their fields and expert infos.
	function M.register(protos)
		M.protos = protos
		for name, list in pairs({ int = fields.int, int_report = fields.report }) do
			local by_name, as_list, units_of, labels = fields.make(name .. ".", list)
			for k, f in pairs(by_name) do all[k], unit[k], label[k] = f, units_of[k], labels[k] end
			protos[name].fields = as_list
			local infos = {}
			for code, n in pairs(notes) do
				local e = ProtoExpert.new(name .. ".expert." .. code, (n[2]:gsub("%%0?%d?%.?0?[dxsf]", "...")), group[n[1]], severity[n[1]])
				experts[name][code] = e
				infos[#infos + 1] = e
			end
			protos[name].experts = infos
		end
	end

	local function say(item, proto, note)
		item:add_proto_expert_info(experts[proto][note[1]], notes[note[1]][2]:format((table.unpack or unpack)(note, 2)))
	end

	-- note adds an expert info to an item, without a node.
	function M.note(item, proto, ...) say(item, proto, { ... }) end

	-- unit_text is a time or latency in the unit that it is known to have.
	local function unit_text(n, profile)
		local kind = unit[n.name]
		local ns = kind and profile and units[kind](profile)
		return ns and n.high and units.text(n.high * 2 ^ 32 + n.low, ns) or ""
	end

	local function add(tree, tvb, n)
		local room = math.max(tvb:len() - n.off, 0)
		local range = tvb(math.min(n.off, tvb:len()), math.min(n.len, room))
		if n.proto then return tree:add(M.protos[n.proto], range) end
		local f = all[n.name]
		if n.name == "int.unavailable" then
			local item = tree:add(f, range, n.value)
			item:set_text(label["int." .. n.value] .. ": not available")
			return item
		end
		local value = n.value
		if n.high and n.len > 4 then value = nil end -- 64 bits: from the bytes
		if unit[n.name] == "time" and value then value = UInt64.new(value) end
		if value == nil then return tree:add(f, range) end
		return tree:add(f, range, value)
	end

	-- show adds a node and those below it. packet(item, node) dissects a packet that is quoted.
	function M.show(tree, tvb, n, proto, profile, packet)
		proto = n.proto or proto
		local item = add(tree, tvb, n)
		if n.text then item:set_text(n.text) end
		if n.pattern then item:prepend_text(bytes.binary(n.pattern[1], n.pattern[2], n.pattern[3], n.pattern[4]) .. " = ") end
		local append = (n.append or "") .. unit_text(n, profile)
		if append ~= "" then item:append_text(append) end
		if n.generated then item:set_generated() end
		if n.hidden then item:set_hidden() end
		for _, note in ipairs(n.notes) do say(item, proto, note) end
		for _, below in ipairs(n.sub) do M.show(item, tvb, below, proto, profile, packet) end
		if n.packet then packet(item, n) end
	end

	return M
end
