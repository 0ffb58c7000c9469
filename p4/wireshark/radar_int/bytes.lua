-- SPDX-License-Identifier: Apache-2.0
-- Numbers in a string of bytes, and bits in a number. Bytes behind the end read as 0, so nothing here can fail: whoever
-- decides by a value compares lengths first. There is no operator for bits that Lua 5.2 and 5.4 both have.

local M = {}
local byte, floor = string.byte, math.floor

local power = { [0] = 1 }
for i = 1, 32 do power[i] = power[i - 1] * 2 end

function M.u8(b, at) return byte(b, at + 1) or 0 end

function M.u16(b, at)
	local x, y = byte(b, at + 1, at + 2)
	return (x or 0) * 256 + (y or 0)
end

function M.u32(b, at)
	local w, x, y, z = byte(b, at + 1, at + 4)
	return (((w or 0) * 256 + (x or 0)) * 256 + (y or 0)) * 256 + (z or 0)
end

-- bits returns width bits of v, those above the shift lowest ones.
function M.bits(v, shift, width) return floor(v / power[shift]) % power[width] end

-- bit says whether a bit of v is set, 0 is the lowest.
function M.bit(v, n) return floor(v / power[n]) % 2 == 1 end

function M.count(v)
	local n = 0
	while v > 0 do
		n = n + v % 2
		v = floor(v / 2)
	end
	return n
end

-- binary writes n bits of v, with dots for the bits around them up to whole bytes: "..10 ....".
function M.binary(v, before, n, after)
	local t = {}
	for i = 1, before + n + after do
		local in_it = i > before and i <= before + n
		t[#t + 1] = in_it and (M.bit(v, n - (i - before)) and "1" or "0") or "."
		if i % 4 == 0 and i < before + n + after then t[#t + 1] = " " end
	end
	return table.concat(t)
end

return M
