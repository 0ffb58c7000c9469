-- SPDX-License-Identifier: Apache-2.0
-- INT leaves the units of times and latencies to the device (INT 2.1 "INT Metadata"). Preferences say what they are, or
-- the profile does. If a hop's latency is not its egress less its ingress time, they are others.

return function(engine, config)
	local M = {}

	-- latency and time are how many ns a unit has; nil: it is not known.
	function M.latency(profile) return config.latency_unit or profile.latency end

	function M.time(profile) return config.time_unit or profile.time end

	-- alike: nodes take times at different places, and round.
	local function alike(a, b, grain)
		local factor = 16
		return math.max(a, b) <= factor * (math.min(a, b) + grain)
	end

	local function agree(values, profile, short)
		local latency, from, to = values.hop_latency, values.ingress_ts, values.egress_ts
		if not (latency and from and to) then return true end
		local between = (to.high - from.high) * 2 ^ 32 + (to.low - from.low)
		if short then
			between = between % 2 ^ 32
		elseif between < 0 then -- a clock of fewer bits has wrapped
			return true
		end
		between = math.min(between, 2 ^ 42)
		local l, t = M.latency(profile), M.time(profile)
		if t then return alike(latency.low * (l or 1), between * t, math.max(l or 1, t)), latency.low, between end
		if not l then return alike(latency.low, between, 1), latency.low, between end
		for _, unit in ipairs({ 1, 1e3, 1e6 }) do
			if alike(latency.low * l, between * unit, math.max(l, unit)) then return true end
		end
		return false, latency.low, between
	end

	-- check notes the first hop of which they are others. short: times have 32 bits, and wrap.
	function M.check(root, hops, profile, short)
		for _, h in ipairs(hops or {}) do
			local ok, latency, between = agree(h.values or {}, profile, short)
			if not ok then
				engine.note(root, "other_units", latency, math.min(between, 2 ^ 32 - 1))
				return
			end
		end
	end

	-- text is what a number of a unit of so many ns is: " (1.5 us)".
	function M.text(n, unit)
		local ns = n * unit
		for _, u in ipairs({ { 1e9, "%.9f", "s" }, { 1e6, "%.6f", "ms" }, { 1e3, "%.3f", "us" } }) do
			if ns >= u[1] then return (" (%s %s)"):format(u[2]:format(ns / u[1]):gsub("%.?0*$", ""), u[3]) end
		end
		return (" (%d ns)"):format(ns)
	end

	return M
end
