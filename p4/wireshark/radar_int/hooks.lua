-- SPDX-License-Identifier: Apache-2.0
-- Brings what find.lua finds into Wireshark: looks at what TCP, UDP and GRE carry before their dissectors do, shows INT
-- and reports, and gives what is behind them, or inside, to Wireshark's own dissectors.
--
-- IP asks table ip.proto for TCP, UDP and GRE. A dissector of ours stands in their place there and calls them. What it has
-- found it leaves in state.found, and claims the entries of tables that UDP, GRE or VXLAN will look at next: those then
-- call the protocol int (or int_report), before all others, once. So every header is shown as it is on the wire. Of TCP
-- that would not do: it counts INT's bytes as its own, takes most segments for retransmissions, and shows nobody their
-- contents. TCP gets the segment without INT.

return function(m)
	local M = {}
	local bytes, config, find, show, int, report = m.bytes, m.config, m.find, m.show, m.int, m.report
	local unpack = table.unpack or unpack -- Lua 5.4, Lua 5.1

	-- most is how many packets may lie in each other: quotes, tunnels, INT behind INT. Lua has room for few calls to C and back.
	local most = 16

	-- state is of the frame that is being dissected: depth, quoted (the report around), found or report (for the next
	-- dissector), release (gives the claimed entries back), before (dissectors of claimed ports), titles (of INT).
	local state = { depth = 0 }

	local function optional(get, name)
		local ok, v = pcall(get, name)
		return ok and v or nil
	end

	local tables = {}
	for key, name in pairs({ udp = "udp.port", ip = "ip.proto", gre = "gre.proto", vxlan = "vxlan.next_proto" }) do
		tables[key] = optional(DissectorTable.get, name)
	end
	local data = Dissector.get("data")
	local vxlan_gpe = optional(Dissector.get, "vxlan_gpe") or tables.udp:get_dissector(4790) -- Wireshark 4.0 gives it no name

	local function nothing() end
	local dscp4, dscp6 = optional(Field.new, "ip.dsfield.dscp") or nothing, optional(Field.new, "ipv6.tclass.dscp") or nothing
	local length4, length6 = optional(Field.new, "ip.len") or nothing, optional(Field.new, "ipv6.plen") or nothing

	-- last is the last of a field so far, that of the innermost header, and how many there are.
	local function last(field)
		local list = { field() }
		return list[#list], #list
	end

	-- begin forgets the last frame. An exception may have ended it anywhere.
	local function begin(pinfo)
		local number = pinfo.number
		if state.depth > 0 and state.frame == number then return end
		if state.used or state.depth > 0 then state = { depth = 0 } end
		state.frame = number
	end

	-- call calls a dissector. What it throws has been shown by then.
	local invoke = Dissector.call
	local function call(dissector, tvb, pinfo, tree)
		local ok, n = pcall(invoke, dissector, tvb, pinfo, tree)
		return ok and n or tvb:len()
	end

	local function try(t, pattern, tvb, pinfo, tree)
		if not t then return call(data, tvb, pinfo, tree) end
		local ok, n = pcall(t.try, t, pattern, tvb, pinfo, tree)
		return ok and n or tvb:len()
	end

	local function too_deep(tvb, pinfo, tree)
		M.say(tvb, tree, { { "too_deep", most } })
		return call(data, tvb, pinfo, tree)
	end

	-- deeper calls f, one packet further in, or says that there are too many.
	local function deeper(tvb, pinfo, tree, f)
		if state.depth >= most then return too_deep(tvb, pinfo, tree) end
		state.depth = state.depth + 1
		local n = f()
		state.depth = state.depth - 1
		return n
	end

	-- say shows what is odd where there is no INT.
	function M.say(tvb, tree, notes)
		if #notes == 0 then return end
		local item = tree:add(m.protos.int, tvb(0, 0))
		item:append_text(": none")
		for _, note in ipairs(notes) do show.note(item, "int", unpack(note)) end
	end

	-- marked says whether a DSCP outside of all tunnels marks INT: a glance, for each packet.
	local function marked()
		local dscp = dscp4() or dscp6()
		return dscp and config.is_dscp(dscp.value)
	end

	-- place is what is known where TCP, UDP or GRE begins (see find.lua).
	local function place(pinfo)
		state.used = true
		local six = tostring(pinfo.net_src):find(":", 1, true)
		local dscp, n = last(six and dscp6 or dscp4)
		if n == state.marked then dscp = nil end -- it has marked INT already, and this is behind it
		return { dscp = dscp and dscp.value, dscps = n, quoted = state.quoted, fragment = pinfo.fragmented, six = six, notes = {} }
	end

	-- wanted is how many bytes there should be behind the IP header. A quoted packet may be cut: then only its header says.
	local function wanted(p, tvb)
		if not p.quoted then return tvb:reported_len() end
		local f = last(p.six and length6 or length4)
		if not f or f.value == 0 then return tvb:len() end
		local behind = tvb:offset() - f.offset -- the length field, and what of IP's header follows it
		return math.max(p.six and f.value + 36 - behind or f.value - behind - 2, 0)
	end

	-- claim puts dissectors first in tables, until release: a list of { table, pattern, dissector }.
	local function claim(claims)
		local before, udp, done = {}, {}, false
		for i, c in ipairs(claims) do
			before[i] = c[1]:get_dissector(c[2]) or false
			if c[1] == tables.udp then udp[c[2]] = before[i] end
			c[1]:add(c[2], c[3])
		end
		state.before = udp
		state.release = function()
			if done then return end
			done = true
			for i = #claims, 1, -1 do
				local c = claims[i]
				if before[i] then c[1]:add(c[2], before[i]) else c[1]:remove(c[2], c[3]) end
			end
		end
		return state.release
	end

	-- ports claims both ports of a datagram: which one UDP looks at first depends on both.
	local function ports(tvb, who)
		local src, dst = tvb(0, 2):uint(), tvb(2, 2):uint()
		local claims = { { tables.udp, dst, who } }
		if src ~= dst and src > 0 then claims[2] = { tables.udp, src, who } end
		return claims
	end

	-- taken is what was left for a protocol's dissector; nil: nothing.
	local function taken(key)
		local v = state[key]
		state[key] = nil
		if v and state.release then state.release() end
		return v
	end

	-- again looks for INT and reports at a port that they have by Decode As, or by the preferences if nobody looks before.
	local function again(tvb, pinfo, for_what)
		begin(pinfo)
		local p = place(pinfo)
		p.dport, p.asked = pinfo.dst_port, for_what
		return find.udp(p, tvb:raw(), tvb:reported_len()) or {}
	end

	-- udp_payload gives what is behind INT over UDP to the dissector that it had before.
	local function udp_payload(tvb, pinfo, tree, shim)
		if shim.npt == 2 then return try(tables.ip, shim.ip_proto, tvb, pinfo, tree) end
		if shim.npt == 1 then
			local port = pinfo.dst_port
			pinfo.dst_port = shim.orig_dst_port
			local n = try(tables.udp, shim.orig_dst_port, tvb, pinfo, tree)
			pinfo.dst_port = port
			return n
		end
		local before = state.before or {}
		local low, high = math.min(pinfo.src_port, pinfo.dst_port), math.max(pinfo.src_port, pinfo.dst_port)
		for _, port in ipairs({ low, high }) do
			local n = before[port] and call(before[port], tvb, pinfo, tree) or 0
			if n ~= 0 then return n end
		end
		return call(data, tvb, pinfo, tree)
	end

	local function behind(tvb, pinfo, tree, found, shim)
		return deeper(tvb, pinfo, tree, function()
			if found.carrier == "udp" then return udp_payload(tvb, pinfo, tree, shim) end
			return try(found.carrier == "gre" and tables.gre or tables.vxlan, shim.next_protocol, tvb, pinfo, tree)
		end)
	end

	-- columns says in the list of packets that there is INT, behind what others say of the packet.
	local function columns(pinfo, title)
		if state.quoted then return end
		pinfo.cols.protocol = "INT"
		pinfo.cols.info:append(" [" .. title .. "]")
	end

	-- dissect_int is the dissector of the protocol int. alone: others call what is behind.
	function M.dissect_int(tvb, pinfo, tree)
		local list = taken("found") or again(tvb, pinfo, "int").int
		if not list then return 0 end
		local stop, shim, titles = 0, nil, {}
		local into = list.tree or tree -- UDP gives the frame's tree, not that of a quoted packet
		for i, found in ipairs(list) do
			local root
			root, stop, shim, titles[i] = int.read(tvb:raw(0, found.limit or tvb:len()), found)
			show.show(into, tvb, root, nil, found.profile)
		end
		state.stop, state.title = stop, table.concat(titles, ", ")
		if state.quoted and state.titles then table.insert(state.titles, state.title) end
		if not list.alone then
			local title = state.title
			if stop < tvb:len() then behind(tvb(stop):tvb(), pinfo, into, list[#list], shim) end
			columns(pinfo, title)
		end
		return tvb:len()
	end

	-- A quoted packet changes neither the addresses nor the ports of the one around it.
	local kept = { "dl_src", "dl_dst", "net_src", "net_dst", "src", "dst", "src_port", "dst_port", "can_desegment" }
	local frames = { [m.reports.ethernet] = "eth_withoutfcs", [m.reports.ipv4] = "ip", [m.reports.ipv6] = "ipv6" }

	-- quote gives a quoted packet to its dissector.
	local function quote(tvb, pinfo, item, n)
		local before, outer = {}, state.quoted
		for _, name in ipairs(kept) do before[name] = pinfo[name] end
		pinfo.can_desegment = 0
		state.quoted = { traits = n.packet.traits, f = n.packet.f }
		local packet = tvb(n.off, n.len):tvb()
		deeper(packet, pinfo, item, function()
			return call(optional(Dissector.get, frames[n.packet.inner] or "data") or data, packet, pinfo, item)
		end)
		state.quoted = outer
		for _, name in ipairs(kept) do pinfo[name] = before[name] end
	end

	-- dissect_report is the dissector of the protocol int_report.
	function M.dissect_report(tvb, pinfo, tree)
		if state.quoted and state.frame == pinfo.number and state.depth > 0 then return 0 end -- quoted, a report is data
		local found = taken("report") or again(tvb, pinfo, "report").report
		if not found then return 0 end
		state.titles = {}
		local root, title = report.read(tvb:raw(), found)
		show.show(tree, tvb, root, nil, found.profile, function(item, n) quote(tvb, pinfo, item, n) end)
		pinfo.cols.protocol = "INT_REPORT"
		pinfo.cols.info:clear_fence()
		pinfo.cols.info = table.concat({ title, unpack(state.titles) }, "; ")
		state.titles = nil
		return tvb:len()
	end

	-- leave gives what was found to the dissectors that claims put first, while f runs. If none of them was called, since
	-- UDP's header is malformed or a conversation has a dissector, otherwise is.
	local function leave(key, what, claims, f, otherwise)
		state[key] = what
		local release = claim(claims)
		local n = f()
		release()
		if state[key] == what and otherwise then otherwise() end
		state[key] = nil
		return n
	end

	-- The next three say how TCP, UDP or GRE is called, if not as always. original is its dissector.

	local function in_tcp(original, tvb, pinfo, tree)
		local n = tvb:len()
		if n < 20 then return nil end
		local first = tvb:raw(0, math.min(n, 36))
		local head = math.max(4 * math.floor(bytes.u8(first, 12) / 16), 20)
		local behind = first:sub(21)
		local behind_options = head > 20 and head < n and tvb:raw(head, math.min(n - head, 16)) or behind
		if not find.may_tcp(behind, behind_options) and not marked() then return nil end
		if pinfo.in_error_pkt then return nil end -- what an ICMP error quotes is cut
		local p = place(pinfo)
		local found = find.tcp(p, tvb:raw(), wanted(p, tvb), head)
		if not found then return M.say(tvb, tree, p.notes) end
		return function()
			state.found = { found, alone = true }
			if call(m.handles.int, tvb, pinfo, tree) == 0 then return call(original, tvb, pinfo, tree) end
			local title = state.title
			local without = tvb(0, found.marker and found.at - 8 or found.at):bytes()
			if state.stop < tvb:len() then without = without .. tvb(state.stop):bytes() end
			local n = call(original, without:tvb("TCP segment without INT"), pinfo, tree)
			columns(pinfo, title)
			return n
		end
	end

	local function in_udp(original, tvb, pinfo, tree)
		local here = tvb:len()
		if here < 8 then return nil end
		local first = tvb:raw(0, math.min(here, 24))
		local dport, length = bytes.u16(first, 2), bytes.u16(first, 4)
		if not find.may_udp(dport, first:sub(9)) and not marked() then return nil end
		if pinfo.in_error_pkt then return nil end
		local p = place(pinfo)
		p.dport = dport
		local want = wanted(p, tvb)
		if length >= 8 and length <= want then want, here = length, math.min(length, here) end
		local what = find.udp(p, tvb:raw(8, here - 8), want - 8)
		if not what then return M.say(tvb, tree, p.notes) end
		local function udp() return call(original, tvb, pinfo, tree) end
		if what.int then what.int.tree, state.marked = tree, p.dscps end
		local function payload(handle) return here > 8 and call(handle, tvb(8, here - 8):tvb(), pinfo, tree) end
		if what.report then
			return function()
				return leave("report", what.report, ports(tvb, m.protos.int_report), udp, function() payload(m.handles.int_report) end)
			end
		elseif what.via == "geneve" then -- its options have no table
			for _, f in ipairs(what.int) do f.at, f.limit = f.at + 8, f.limit + 8 end
			what.int.alone = true
			return function()
				state.found = what.int
				call(m.handles.int, tvb, pinfo, tree)
				local title, taken_now = state.title, state.found == nil
				state.found = nil
				local n = udp()
				if taken_now then columns(pinfo, title) end
				return n
			end
		elseif what.via == "vxlan" and vxlan_gpe then
			local claims = ports(tvb, vxlan_gpe)
			table.insert(claims, { tables.vxlan, what.int[1].next, m.protos.int })
			for _, f in ipairs(what.int) do f.at = f.at - 8 end
			return function() return leave("found", what.int, claims, udp) end
		end
		local function alone()
			what.int.alone = true
			payload(m.handles.int)
		end
		return function() return leave("found", what.int, ports(tvb, m.protos.int), udp, alone) end
	end

	local function in_gre(original, tvb, pinfo, tree)
		if pinfo.in_error_pkt then return nil end
		local p = place(pinfo)
		local list, kind = find.gre(p, tvb:raw(), wanted(p, tvb))
		if not list then return nil end
		list.tree = tree
		return function()
			local function gre() return call(original, tvb, pinfo, tree) end
			return leave("found", list, { { tables.gre, kind, m.protos.int } }, gre)
		end
	end

	-- look is what stands in the place of a dissector. Nearly all packets pass it, so it does little for most.
	local function look(original, decide)
		return function(tvb, pinfo, tree)
			begin(pinfo)
			if state.depth >= most then return too_deep(tvb, pinfo, tree) end
			local as_found = decide(original, tvb, pinfo, tree)
			state.depth = state.depth + 1
			local n = as_found and as_found() or call(original, tvb, pinfo, tree)
			state.depth = state.depth - 1
			return n
		end
	end

	-- install puts ours in the place of TCP, UDP and GRE, or them back.
	local places = { tcp = { 6, in_tcp }, udp = { 17, in_udp }, gre = { 47, in_gre } }
	local originals = {}
	for name, p in pairs(places) do
		originals[name] = tables.ip:get_dissector(p[1])
		if originals[name] then m.protos["int_" .. name].dissector = look(originals[name], p[2]) end
	end

	for _, proto in ipairs({ m.protos.int, m.protos.int_report }) do
		if tables.udp.add_for_decode_as then tables.udp:add_for_decode_as(proto) end
	end

	local looking = false
	function M.install(wanted_now)
		if wanted_now == looking then return end
		looking = wanted_now
		for name, p in pairs(places) do
			if originals[name] then tables.ip:add(p[1], looking and m.protos["int_" .. name] or originals[name]) end
		end
	end

	-- at_ports has UDP call int and int_report at ranges of ports, where nobody looks before. What Decode As has set stays.
	local at = {}
	function M.at_ports(ranges)
		for _, name in ipairs({ "int", "int_report" }) do
			if at[name] then tables.udp:remove(at[name], m.protos[name]) end
			at[name] = ranges[name] ~= "" and ranges[name] or nil
			if at[name] then tables.udp:add(at[name], m.protos[name]) end
		end
	end

	function M.reset() state = { depth = 0 } end

	return M
end
