-- SPDX-License-Identifier: Apache-2.0
-- Brings what find.lua finds into Wireshark: looks at what TCP, UDP and GRE carry before their dissectors do, shows INT
-- and reports, and gives what is behind them, or inside, to Wireshark's own dissectors.
--
-- IP asks a heuristic of ours about each packet before it calls TCP, UDP or GRE. The heuristic only looks, and says no. It
-- leaves what it has found in state.left, and claims the entries of tables that IP, UDP, GRE or VXLAN will look at next: those
-- then call the protocol int (or int_report), before all others, once. So every header is shown as it is on the wire, and
-- what carries no INT is dissected as without this plugin.
--
-- No function of Lua may be running while Wireshark dissects what the capture has cut. The exception that ends such a packet
-- leaves Lua's stack as it is (Wireshark 4.0), and after 200 of them Lua works no more. So the dissectors that are called
-- from here get only bytes that are there, as if the packet ended with them: then the exception is another one, which is
-- caught.

return function(m)
	local M = {}
	local bytes, config, find, show, int, report = m.bytes, m.config, m.find, m.show, m.int, m.report
	local unpack = table.unpack or unpack -- Lua 5.4, Lua 5.1

	-- most is how many packets may lie in each other: quotes, tunnels, INT behind INT. Lua has room for few calls to C and back.
	local most = 16

	-- many is how many packets of a frame are looked at before quotes are left as bytes. Wireshark has room for 500 layers,
	-- some four for each of these.
	local many = 100

	-- state is of the frame that is being dissected: depth, packets (how many were looked at), quoted (the report around), cut
	-- (the capture lacks the packet's end), left (for the next dissector), titles (of INT in a report), last (for the columns).
	local function new() return { depth = 0, packets = 0, last = {} } end
	local state = new()

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
	local proto4, proto6 = optional(Field.new, "ip.proto") or nothing, optional(Field.new, "ipv6.nxt") or nothing

	-- Headers between IPv6 and what it carries say what follows them.
	local behind6 = {}
	for number, name in pairs({ [0] = "ipv6.hopopts.nxt", [43] = "ipv6.routing.nxt", [44] = "ipv6.fraghdr.nxt",
		[51] = "ah.next_header", [60] = "ipv6.dstopts.nxt" }) do
		behind6[number] = optional(Field.new, name)
	end

	local function pick(...)
		local n = select("#", ...)
		if n > 0 then return (select(n, ...)), n end
		return nil, 0
	end

	-- last is the last of a field so far, that of the innermost header, and how many there are.
	local function last(field) return pick(field()) end

	local function is_six(pinfo) return tostring(pinfo.net_src):find(":", 1, true) end

	-- protocol is what the innermost IP header says that it carries.
	local function protocol(pinfo)
		local four, six = last(proto4), last(proto6)
		if four and (not six or not is_six(pinfo)) then return four.value end
		local number = six and six.value
		for _ = 1, 8 do
			local following = behind6[number]
			if not following then break end
			local header = last(following)
			number = header and header.value
		end
		return number
	end

	-- release gives claimed entries back.
	local function release(left)
		for i = #left.claims, 1, -1 do
			local c, before = left.claims[i], left.before[i]
			if before then c[1]:add(c[2], before) else c[1]:remove(c[2], c[3]) end
		end
	end

	function M.reset()
		if state.left then release(state.left) end
		state = new()
	end

	-- begin forgets the last frame. An exception may have ended it anywhere.
	local function begin(pinfo)
		local number = pinfo.number
		if state.frame == number then return end
		if state.used then M.reset() end
		state.frame, state.packets = number, 0
	end

	-- leave leaves what was found to the dissectors that claims put first: { table, pattern, dissector }. otherwise shows it
	-- if none of them is called, since UDP's header is malformed or a conversation has a dissector.
	local function leave(key, what, claims, otherwise)
		local left = { claims = claims, before = {}, otherwise = otherwise, [key] = what }
		for i, c in ipairs(claims) do
			left.before[i] = c[1]:get_dissector(c[2]) or false
			c[1]:add(c[2], c[3])
		end
		state.left = left
	end

	-- taken is what was left for a protocol's dissector, and with what; nil: nothing.
	local function taken(key)
		local left = state.left
		if not left or not left[key] then return nil end
		state.left = nil
		release(left)
		return left[key], left
	end

	-- settle shows what was left and not taken.
	local function settle()
		local left = state.left
		if not left then return end
		state.left = nil
		release(left)
		if left.otherwise then left.otherwise() end
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
		settle()
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
		local six = is_six(pinfo)
		local dscp, n = last(six and dscp6 or dscp4)
		if n == state.marked then dscp = nil end -- it has marked INT already, and this is behind it
		return { dscp = dscp and dscp.value, dscps = n, quoted = state.quoted, fragment = pinfo.fragmented, six = six, notes = {} }
	end

	-- wanted is how many bytes there should be behind the IP header. Where a packet is quoted, or lies in one that is cut, only
	-- its header says.
	local function wanted(p, tvb)
		if not p.quoted and not state.cut then return tvb:reported_len() end
		local f = last(p.six and length6 or length4)
		if not f or f.value == 0 then return tvb:len() end
		local behind = tvb:offset() - f.offset -- the length field, and what of IP's header follows it
		return math.max(p.six and f.value + 36 - behind or f.value - behind - 2, 0)
	end

	-- ports claims both ports of a datagram: which one UDP looks at first depends on both.
	local function ports(tvb, who)
		local src, dst = tvb(0, 2):uint(), tvb(2, 2):uint()
		local claims = { { tables.udp, dst, who } }
		if src ~= dst and src > 0 then claims[2] = { tables.udp, src, who } end
		return claims
	end

	-- again looks for INT and reports at a port that they have by Decode As, or by the preferences if nobody looks before.
	local function again(tvb, pinfo, for_what)
		local p = place(pinfo)
		p.dport, p.asked = pinfo.dst_port, for_what
		return find.udp(p, tvb:raw(), tvb:reported_len()) or {}
	end

	local look -- below

	-- before_in is the dissector that an entry had before it was claimed.
	local function before_in(left, t, pattern)
		for i, c in ipairs(left and left.claims or {}) do
			if c[1] == t and c[2] == pattern then return left.before[i] end
		end
	end

	-- udp_payload gives what is behind INT over UDP to the dissector that it had before.
	local function udp_payload(tvb, pinfo, tree, shim, left)
		if shim.npt == 2 then
			look(shim.ip_proto, tvb, pinfo, tree)
			return try(tables.ip, shim.ip_proto, tvb, pinfo, tree)
		end
		local original = shim.npt == 1 and shim.orig_dst_port or shim.tail_port ~= pinfo.dst_port and shim.tail_port
		if original then
			local port = pinfo.dst_port
			pinfo.dst_port = original
			local n = try(tables.udp, original, tvb, pinfo, tree)
			pinfo.dst_port = port
			return n
		end
		local low, high = math.min(pinfo.src_port, pinfo.dst_port), math.max(pinfo.src_port, pinfo.dst_port)
		for _, port in ipairs({ low, high }) do
			local before = before_in(left, tables.udp, port)
			local n = before and call(before, tvb, pinfo, tree) or 0
			if n ~= 0 then return n end
		end
		return call(data, tvb, pinfo, tree)
	end

	-- segment gives TCP the segment without INT. It would count INT's bytes as its own, take most segments for
	-- retransmissions, and show nobody their contents.
	local function segment(tvb, pinfo, tree, found, stop, left)
		local without = tvb(0, found.marker and found.at - 8 or found.at):bytes()
		if stop < tvb:len() then without = without .. tvb(stop):bytes() end
		return call(before_in(left, tables.ip, 6) or data, without:tvb("TCP segment without INT"), pinfo, tree)
	end

	-- behind gives what is behind INT to its dissector.
	local function behind(tvb, pinfo, tree, found, stop, shim, left)
		local payload, cut = stop < tvb:len() and tvb(stop):tvb(), state.cut
		if not payload and found.carrier ~= "tcp" then return end
		state.cut = cut or tvb:len() < tvb:reported_len()
		deeper(payload or tvb, pinfo, tree, function()
			if found.carrier == "tcp" then return segment(tvb, pinfo, tree, found, stop, left) end
			if found.carrier == "udp" then return udp_payload(payload, pinfo, tree, shim, left) end
			return try(found.carrier == "gre" and tables.gre or tables.vxlan, shim.next_protocol, payload, pinfo, tree)
		end)
		state.cut = cut
	end

	-- columns says in the list of packets that there is INT, behind what others say of the packet.
	local function columns(pinfo, title)
		if state.quoted then return end
		pinfo.cols.protocol = "INT"
		pinfo.cols.info:append(" [" .. title .. "]")
	end

	-- note_cut says that the capture lacks the end of what tvb is of.
	local function note_cut(root, tvb)
		local here, sent = tvb:len(), tvb:reported_len()
		if here < sent then table.insert(root.notes, { "cut_packet", here, sent }) end
	end

	-- show_int shows INT headers, and returns where the last one ends, its shim, and a line about them.
	local function show_int(list, tvb, tree)
		local stop, shim, titles = 0, nil, {}
		for i, found in ipairs(list) do
			local root
			root, stop, shim, titles[i] = int.read(tvb:raw(0, found.limit or tvb:len()), found)
			if i == 1 then note_cut(root, tvb) end
			show.show(tree, tvb, root, nil, found.profile)
		end
		local title = table.concat(titles, ", ")
		if state.quoted and state.titles then table.insert(state.titles, title) end
		return stop, shim, title
	end

	-- dissect_int is the dissector of the protocol int.
	function M.dissect_int(tvb, pinfo, tree)
		begin(pinfo)
		local list, left = taken("found")
		list = list or again(tvb, pinfo, "int").int
		if not list then return 0 end
		local into = list.tree or tree -- UDP gives the frame's tree, not that of a quoted packet
		local stop, shim, title = show_int(list, tvb, into)
		behind(tvb, pinfo, into, list[#list], stop, shim, left)
		columns(pinfo, title)
		return tvb:len()
	end

	-- A quoted packet changes neither the addresses nor the ports of the one around it.
	local kept = { "dl_src", "dl_dst", "net_src", "net_dst", "src", "dst", "src_port", "dst_port", "can_desegment" }
	local frames = { [m.reports.ethernet] = "eth_withoutfcs", [m.reports.ipv4] = "ip", [m.reports.ipv6] = "ipv6" }

	-- quote gives a quoted packet to its dissector.
	local function quote(tvb, pinfo, item, n)
		if state.packets >= many then return show.note(item, "int_report", "many_packets", many) end
		state.packets = state.packets + 1
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

	local function show_report(found, tvb, pinfo, tree)
		state.titles = {}
		local root, title = report.read(tvb:raw(), found)
		note_cut(root, tvb)
		show.show(tree, tvb, root, nil, found.profile, function(item, n) quote(tvb, pinfo, item, n) end)
		pinfo.cols.protocol = "INT_REPORT"
		pinfo.cols.info:clear_fence()
		pinfo.cols.info = table.concat({ title, unpack(state.titles) }, "; ")
		state.titles = nil
	end

	-- dissect_report is the dissector of the protocol int_report.
	function M.dissect_report(tvb, pinfo, tree)
		begin(pinfo)
		if state.quoted then return 0 end -- quoted, a report is data
		local found = taken("report") or again(tvb, pinfo, "report").report
		if not found then return 0 end
		show_report(found, tvb, pinfo, tree)
		return tvb:len()
	end

	-- The next three look into TCP, UDP or GRE, and leave what they find.

	local function in_tcp(tvb, pinfo, tree)
		local n = tvb:len()
		if n < 20 then return end
		local first = tvb:raw(0, math.min(n, 40))
		local head = math.max(4 * math.floor(bytes.u8(first, 12) / 16), 20)
		local behind_options = head > 20 and head < n and tvb:raw(head, math.min(n - head, 20))
		if not find.may_tcp(first:sub(21), behind_options, state.quoted) and not marked() then return end
		if pinfo.in_error_pkt then return end -- what an ICMP error quotes is cut
		local p = place(pinfo)
		local found = find.tcp(p, tvb:raw(), wanted(p, tvb), head)
		if not found then return M.say(tvb, tree, p.notes) end
		leave("found", { found, tree = tree }, { { tables.ip, 6, m.protos.int } })
	end

	-- geneve shows INT in options, which have no table.
	local function geneve(list, tvb, tree)
		for _, f in ipairs(list) do f.at, f.limit = f.at + 8, f.limit + 8 end
		local _, _, title = show_int(list, tvb, tree)
		if not state.quoted then table.insert(state.last, 1, title) end
	end

	local function in_udp(tvb, pinfo, tree)
		local here = tvb:len()
		if here < 8 then return end
		local first = tvb:raw(0, math.min(here, 28))
		local dport, length = bytes.u16(first, 2), bytes.u16(first, 4)
		if not find.may_udp(dport, first:sub(9), state.quoted) and not marked() then return end
		if pinfo.in_error_pkt then return end
		local p = place(pinfo)
		p.dport = dport
		local want = wanted(p, tvb)
		if length >= 8 and length <= want then want, here = length, math.min(length, here) end
		local what = find.udp(p, tvb:raw(8, here - 8), want - 8)
		if not what then return M.say(tvb, tree, p.notes) end
		if what.int then what.int.tree, state.marked = tree, p.dscps end
		local function payload() return tvb(8, here - 8):tvb() end
		if what.report then
			local function alone() if here > 8 then show_report(what.report, payload(), pinfo, tree) end end
			leave("report", what.report, ports(tvb, m.protos.int_report), alone)
		elseif what.via == "geneve" then
			geneve(what.int, tvb, tree)
		elseif what.via == "vxlan" and vxlan_gpe then
			local claims = ports(tvb, vxlan_gpe)
			table.insert(claims, { tables.vxlan, what.int[1].next, m.protos.int })
			for _, f in ipairs(what.int) do f.at = f.at - 8 end
			leave("found", what.int, claims)
		else
			leave("found", what.int, ports(tvb, m.protos.int), function() show_int(what.int, payload(), tree) end)
		end
	end

	local function in_gre(tvb, pinfo, tree)
		if pinfo.in_error_pkt then return end
		local p = place(pinfo)
		local list, kind = find.gre(p, tvb:raw(), wanted(p, tvb))
		if not list then return end
		list.tree = tree
		leave("found", list, { { tables.gre, kind, m.protos.int } })
	end

	local carriers = { [6] = in_tcp, [17] = in_udp, [47] = in_gre }

	-- unwrap skips authentication headers (RFC 4302), which are a protocol to IPv4.
	local function unwrap(number, tvb)
		local at = 0
		while number == 51 and tvb:len() - at > 12 do
			number, at = tvb(at, 1):uint(), at + 4 * tvb(at + 1, 1):uint() + 8
		end
		if at < tvb:len() then return number, tvb(at):tvb() end
	end

	-- look looks into what a protocol carries. Nearly all packets pass it, so it does little for most.
	function look(number, tvb, pinfo, tree)
		settle()
		local cut = state.cut
		if number == 51 then
			state.cut = cut or tvb:len() < tvb:reported_len()
			number, tvb = unwrap(number, tvb)
		end
		local carrier = carriers[number]
		if carrier then
			state.packets = state.packets + 1
			carrier(tvb, pinfo, tree)
		end
		state.cut = cut
	end

	local looking = false

	-- heuristic is what IP asks first.
	function M.heuristic(tvb, pinfo, tree)
		if not looking then return false end
		begin(pinfo)
		look(protocol(pinfo), tvb, pinfo, tree)
		return false
	end

	-- finish ends a frame, behind all other dissectors: only then a line about options of Geneve can be added.
	function M.finish(_, pinfo)
		if state.depth > 0 then return 0 end
		if state.used and state.frame == pinfo.number then
			settle()
			for _, title in ipairs(state.last) do columns(pinfo, title) end
			state = new()
		end
		state.frame = nil -- it may be dissected again
		return 0
	end

	for _, proto in ipairs({ m.protos.int, m.protos.int_report }) do
		if tables.udp.add_for_decode_as then tables.udp:add_for_decode_as(proto) end
	end

	-- IP asks heuristics before others only if these preferences say so. Whoever needs them otherwise sets int.look.
	local firsts, changed = { "ip.try_heuristic_first", "ipv6.try_heuristic_first" }, {}

	-- install begins to look, or stops. Wireshark reads preferences after it has loaded this plugin: so each capture
	-- that is opened calls it.
	function M.install(wanted_now)
		looking = wanted_now
		for _, name in ipairs(firsts) do
			if looking and get_preference(name) == false then
				changed[name] = set_preference(name, true)
			elseif not looking and changed[name] then
				changed[name] = nil
				set_preference(name, false)
			end
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

	return M
end
