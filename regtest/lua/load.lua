-- SPDX-License-Identifier: GPL-2.0-or-later
print(loadstring("return 1 + 1")())
print(loadstring("syntax error here"))
print(loadstring("x =", "=name"))
local parts = { "return ", "...", " , 2" }
local i = 0
print(load(function() i = i + 1 return parts[i] end)("one"))
print(load("return a", "chunk", "t", { a = "from env" })())
local f = loadstring(string.dump(function(a, b) return a * b end))
print(f(6, 7))
print(loadstring("local a <const> = 1"))
local long = {}
for k = 1, 300 do long[k] = "local v" .. k .. " = " .. k end
print(loadstring(table.concat(long, "\n")))
local sum = {}
for k = 1, 2000 do sum[k] = tostring(k) end
print(loadstring("return " .. table.concat(sum, "+"))())
