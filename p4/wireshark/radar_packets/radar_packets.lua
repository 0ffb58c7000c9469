-- SPDX-License-Identifier: Apache-2.0
-- What radar knows of each packet of a capture that it has written (radar capture, radar packets -w): the comments of frames
-- become fields. This file is the plugin; those beside it are its parts, which are in one file with it where it is installed.

local file = debug.getinfo(1, "S").source:gsub("^@", "")

-- It may be installed twice, for everyone and for a user: the first one is taken, or the one that RADAR_PACKETS_PLUGIN names.
local only = os.getenv("RADAR_PACKETS_PLUGIN")
if _G.radar_packets_loaded or only and only ~= file then return end
_G.radar_packets_loaded = true

set_plugin_info({ version = "1.0", author = "radar", description = "radar's records of packets" })

local here = file:match("^(.*[/\\])") or ""
local function part(name, ...)
	local load = package.preload["radar_packets." .. name] or assert(loadfile(here .. name .. ".lua"))
	local made = load()
	return type(made) == "function" and made(...) or made
end

local fields = part("fields")
local comment = part("comment", part("json"), fields)

local proto = Proto("radar", "radar")
local of, kind = {}, {}
for _, f in ipairs(fields) do
	local name, label = f[2], f[4]
	kind[name] = f[3]
	if f[3] == "text" then
		of[name] = ProtoField.string(name, label)
	elseif f[3] == "count" then
		of[name] = ProtoField.uint32(name, label)
	elseif f[3] == "ns" then
		of[name] = ProtoField.uint64(name, label .. " (ns)")
	else
		of[name] = ProtoField.bool(name, label)
	end
end
proto.fields = of

local comments = Field.new("frame.comment")

local function add(tree, name, v)
	if kind[name] == "ns" then v = UInt64.new(v % 2 ^ 32, math.floor(v / 2 ^ 32)) end
	tree:add(of[name], v):set_generated()
end

function proto.dissector(buffer, _, root)
	for _, info in ipairs({ comments() }) do
		local list = comment.read(tostring(info.value))
		if list then
			local tree = root:add(proto, buffer(0, 0))
			for _, f in ipairs(list) do add(tree, f[1], f[2]) end
			return -- one is enough
		end
	end
end
register_postdissector(proto)

-- In windows of Wireshark newer than 4.0: a menu that shows one packet on its whole path.
if gui_enabled() and register_packet_menu then
	register_packet_menu("radar/Follow this packet", function(...)
		for _, info in ipairs({ ... }) do
			if info.name == "radar.id" then
				set_filter(string.format("radar.id == %q", tostring(info.value)))
				return apply_filter()
			end
		end
	end, "radar.id")
end
