-- SPDX-License-Identifier: Apache-2.0
-- Prints what the parts of the Wireshark plugin that know no Wireshark make of payloads: lua dump.lua FOLDER FILE. Each line
-- of the file is a UDP port, a DSCP and hex digits.

local folder, file = ...
local unpack = table.unpack or unpack

local function part(name, ...)
	local made = assert(loadfile(folder .. "/" .. name .. ".lua"))()
	return type(made) == "function" and made(...) or made
end

local bytes, formats, profiles, notes = part("bytes"), part("formats"), part("profiles"), part("notes")
local engine = part("engine", bytes, formats)
local grades = part("recognise_int", bytes, engine)
local reports = part("recognise_report", bytes, engine, grades)
local config = part("config", bytes, profiles)
local units = part("units", engine, config)
local int = part("int", bytes, formats, engine, grades, units)
local find = part("find", bytes, engine, grades, reports, profiles, config)
local report = part("report", bytes, formats, engine, reports, units, int.check_domain)

config.read({ prefs = { ports = "5000", gre = "17769", vxlan = "8,128,130", geneve = "259", dscp = "1,23,32", dscp_mask = 63, marker = "",
	source = 0, by_form = true, look = true, latency_unit = 2, time_unit = 1 } }, { prefs = { ports = "32766" } })

-- dump prints a node. A number that is not whole, which Wireshark would refuse, is an error in Lua 5.4.
local function dump(n, depth)
	local v = type(n.value) == "number" and ("%d"):format(n.value) or tostring(n.value)
	local pattern = n.pattern and bytes.binary(unpack(n.pattern)) or ""
	local long = n.high and units.text(n.high * 2 ^ 32 + n.low, 1000) or ""
	print((" "):rep(depth) .. (n.name or n.proto), ("%d %d"):format(n.off, n.len), v, pattern, n.text or "", n.append or "", long)
	for _, note in ipairs(n.notes) do print((" "):rep(depth) .. note[1], notes[note[1]][2]:format(unpack(note, 2))) end
	for _, below in ipairs(n.sub) do dump(below, depth + 1) end
end

for line in io.lines(file) do
	local port, dscp, hex = line:match("(%d+) (%d+) (%x*)")
	local b = hex:gsub("%x%x", function(h) return string.char(tonumber(h, 16)) end)
	print("= " .. line:sub(1, 40))
	local what = find.udp({ dport = tonumber(port), dscp = tonumber(dscp), notes = {} }, b, #b) or {}
	for _, found in ipairs(what.int or {}) do
		local root, stop, _, title = int.read(b, found)
		dump(root, 0)
		print(("%d %s"):format(stop, title))
	end
	if what.report then
		local root, title = report.read(b, what.report)
		dump(root, 0)
		print(title)
	end
end
