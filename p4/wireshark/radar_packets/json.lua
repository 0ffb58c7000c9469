-- SPDX-License-Identifier: Apache-2.0
-- JSON, as far as comments of frames need it. A capture can come from anybody: what is too long or too deep, or is not
-- JSON, is nil, and nothing raises an error.

local M = {}

M.longest = 16384 -- bytes
M.deepest = 8 -- tables in one another

local plain = { ['"'] = '"', ["\\"] = "\\", ["/"] = "/", b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }
local words = { ["true"] = true, ["false"] = false }

-- utf8 writes a code point.
local function utf8(n)
	local floor = math.floor
	if n < 0x80 then return string.char(n) end
	if n < 0x800 then return string.char(0xc0 + floor(n / 64), 0x80 + n % 64) end
	return string.char(0xe0 + floor(n / 4096), 0x80 + floor(n / 64) % 64, 0x80 + n % 64)
end

-- Each reader gets where its value begins, and returns it and where it ends; nil: there is none.
local value

local function text(s, at)
	local parts = {}
	at = at + 1
	while true do
		local stop = s:find('["\\]', at)
		if not stop then return nil end
		parts[#parts + 1] = s:sub(at, stop - 1)
		if s:sub(stop, stop) == '"' then return table.concat(parts), stop + 1 end
		local c = s:sub(stop + 1, stop + 1)
		local hex = c == "u" and s:match("^%x%x%x%x", stop + 2)
		if hex then
			parts[#parts + 1] = utf8(tonumber(hex, 16))
			at = stop + 6
		elseif plain[c] then
			parts[#parts + 1] = plain[c]
			at = stop + 2
		else
			return nil
		end
	end
end

local function skip(s, at) return s:find("[^ \t\r\n]", at) or #s + 1 end

-- members reads what is between brackets; add takes one of them.
local function members(s, at, close, add)
	at = skip(s, at + 1)
	if s:sub(at, at) == close then return at + 1 end
	while true do
		at = add(at)
		if not at then return nil end
		at = skip(s, at)
		local c = s:sub(at, at)
		if c == close then return at + 1 end
		if c ~= "," then return nil end
		at = skip(s, at + 1)
	end
end

local function object(s, at, deep)
	local t = {}
	at = members(s, at, "}", function(at)
		if s:sub(at, at) ~= '"' then return nil end
		local key, v
		key, at = text(s, at)
		if not key then return nil end
		at = skip(s, at)
		if s:sub(at, at) ~= ":" then return nil end
		v, at = value(s, skip(s, at + 1), deep)
		if v ~= nil and at then t[key] = v end
		return at
	end)
	if at then return t, at end
end

local function array(s, at, deep)
	local t = {}
	at = members(s, at, "]", function(at)
		local v
		v, at = value(s, at, deep)
		if v ~= nil and at then t[#t + 1] = v end
		return at
	end)
	if at then return t, at end
end

function value(s, at, deep)
	if deep > M.deepest then return nil end
	local c = s:sub(at, at)
	if c == '"' then return text(s, at) end
	if c == "{" then return object(s, at, deep + 1) end
	if c == "[" then return array(s, at, deep + 1) end
	local digits = s:match("^-?%d[%d.eE+-]*", at)
	if digits and #digits < 32 then
		local n = tonumber(digits)
		if n then return n, at + #digits end
		return nil
	end
	local word = s:match("^%l+", at)
	if word == "null" then return nil, at + 4 end
	if words[word] ~= nil then return words[word], at + #word end
	return nil
end

-- read returns the object that a text is, nil if it is none.
function M.read(s)
	if #s > M.longest or s:sub(1, 1) ~= "{" then return nil end
	local t, at = object(s, 1, 1)
	if t and at == #s + 1 then return t end
	return nil
end

return M
