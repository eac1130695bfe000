-- SPDX-License-Identifier: GPL-2.0-or-later
local ffi = require "ffi"
local a, b = 2 ^ 53 + 0LL, 3LL
print(a + b, a * b, a / b, a % b, -a, a > b, a == a + 0LL, 1LL == 1)
print(0xffffffffffffffffULL, 0xffffffffffffffffULL + 1ULL, -1LL, ffi.cast("uint64_t", -1LL))
print(tonumber(5LL), tostring(7ULL), 1LL + 0.5, 5LL ^ 2LL)
local h = 14695981039346656037ULL
for c in ("fnv"):gmatch(".") do h = (bit.bxor(h, c:byte())) * 1099511628211ULL end
print(h)
local s = 0LL
for i = 1, 10000 do s = s + i * i end
print(s, bit.lshift(1ULL, 63), bit.rshift(0xff00ULL, 8), bit.tohex(255LL))
print(pcall(function() return 1LL + "x" end))
