-- SPDX-License-Identifier: Apache-2.0
-- From the comment of a frame to values of fields. Knows no Wireshark.

return function(json, fields)

local M = {}

M.longest_text = 1024 -- bytes of a value

local kinds = {
	text = function(v) return type(v) == "string" and #v <= M.longest_text and v or nil end,
	yes = function(v) return v == true or nil end,
}

local function number(most)
	return function(v)
		return type(v) == "number" and v >= 0 and v <= most and v == math.floor(v) and v or nil
	end
end
kinds.count = number(2 ^ 32 - 1)
kinds.ns = number(2 ^ 53) -- what Lua 5.2 keeps exactly

-- read returns a list of { field, value }, nil if the comment is not one of radar's.
function M.read(text)
	if text:sub(1, 9) ~= '{"radar":' then return nil end
	local t = json.read(text)
	if not t or type(t.radar) ~= "number" or type(t.id) ~= "string" then return nil end
	local list = {}
	for _, f in ipairs(fields) do
		local from, key = t, f[1]
		local outer, inner = key:match("^(%w+)%.(.+)$")
		if outer then from, key = t[outer], inner end
		local v = type(from) == "table" and from[key]
		for i, one in ipairs(type(v) == "table" and v or { v }) do -- a list has its field several times
			one = kinds[f[3]](one)
			if one ~= nil and i <= 16 then list[#list + 1] = { f[2], one } end
		end
	end
	return list
end

return M

end
