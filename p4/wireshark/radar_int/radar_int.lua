-- SPDX-License-Identifier: Apache-2.0
-- In-band network telemetry (INT 0.5, 1.0, 2.0, 2.1) and telemetry reports (0.5, 1.0, 2.0) in Wireshark. This file is the
-- plugin; those beside it are its parts, which are in one file with it where it is installed. ../README.md says how that is
-- done, and what it shows.

local file = debug.getinfo(1, "S").source:gsub("^@", "")

-- It may be installed twice, for everyone and for a user: the first one is taken, or the one that RADAR_INT_PLUGIN names.
local only = os.getenv("RADAR_INT_PLUGIN")
if _G.radar_int_loaded or only and only ~= file then return end
_G.radar_int_loaded = true

set_plugin_info({ version = "1.0", author = "radar", description = "In-band network telemetry (INT)" })

local here = file:match("^(.*[/\\])") or ""
local function part(name, ...)
	local load = package.preload["radar_int." .. name] or assert(loadfile(here .. name .. ".lua"))
	local made = load()
	return type(made) == "function" and made(...) or made
end

local bytes, formats = part("bytes"), part("formats")
local fields, notes, profiles = part("fields"), part("notes"), part("profiles")
local engine = part("engine", bytes, formats)
local grades = part("recognise_int", bytes, engine)
local reports = part("recognise_report", bytes, engine, grades)
local config = part("config", bytes, profiles)
local units = part("units", engine, config)
local int = part("int", bytes, formats, engine, grades, units)

local protos = {
	int = Proto("int", "In-band Network Telemetry"),
	int_report = Proto("int_report", "INT Telemetry Report"),
	int_end = Proto("int_end", "End of a frame with INT"), -- called behind all others
}

local show = part("show", bytes, fields, notes, units)
show.register(protos)
config.register(protos.int, protos.int_report)

local hooks = part("hooks", {
	bytes = bytes,
	config = config,
	protos = protos,
	show = show,
	int = int,
	reports = reports,
	find = part("find", bytes, engine, grades, reports, profiles, config),
	report = part("report", bytes, formats, engine, reports, units, int.check_domain),
})

protos.int.dissector = hooks.dissect_int
protos.int_report.dissector = hooks.dissect_report
protos.int_end.dissector = hooks.finish
protos.int:register_heuristic("ip", hooks.heuristic) -- IPv6 asks it, too
register_postdissector(protos.int_end)

local function changed()
	config.read(protos.int, protos.int_report)
	hooks.install(config.look)
	hooks.at_ports(config.look and {} or { int = config.ports, int_report = config.report_ports })
end

protos.int.prefs_changed = changed
protos.int_report.prefs_changed = changed

function protos.int.init()
	hooks.reset()
	hooks.install(config.look)
end

config.read(protos.int, protos.int_report)
