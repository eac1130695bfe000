-- SPDX-License-Identifier: GPL-2.0-or-later
local ok, buffer = pcall(require, "string.buffer")
if not ok then print("no string.buffer here") return end
local ffi = require "ffi"
local value = {1, -2, 3.5, "text", true, false, {nested = {deep = {1, 2}}}, [100] = "sparse", key = ("long"):rep(500), n = 2 ^ 40, u = 1ULL, i = -1LL}
local code = buffer.encode(value) local back = buffer.decode(code)
print(back[3], back[7].nested.deep[2], back[100], #back.key, back.n, back.u, back.i, back[5], back[6])
local options = {dict = {"key", "n"}, metatable = {{__index = {kind = "known"}}}}
setmetatable(value, options.metatable[1])
local b = buffer.new(100, options) b:encode(value) b:encode(nil) b:encode("second")
local first = b:decode() print(first.kind, #first.key, b:decode(), b:decode(), #b)
b:put("abc", 1, 2.5):putf("%05d|%s", 42, "x") print(tostring(b), #b, b:get(3), b:get(1, 3), b:skip(1):tostring())
b:reset():set("shown, not copied") print(b:get(5), #b) b:put("!") print(tostring(b)) b:free()
local p, n = b:reserve(1000) ffi.fill(p, 1000, 65) b:commit(10) print(tostring(b), n >= 1000, pcall(b.commit, b, 10000) == false)
local q, m = b:ref() print(ffi.string(q, m), m)
print(pcall(buffer.decode, "\255\255") == false, pcall(buffer.encode, print) == false, pcall(b.put, b, {}) == false)
local all = buffer.new() for i = 1, 3000 do all:put(i, ",") if i % 100 == 0 then all:skip(50) end end
local sum = 0 for x in tostring(all):gmatch("%d+") do sum = sum + x end print(#all, sum)
local joined = buffer.new():put(all, ("-"):rep(10)):get() print(#joined == #all + 10, buffer.new():putcdata(ffi.new("char[3]", 65, 66, 67), 3):get())
