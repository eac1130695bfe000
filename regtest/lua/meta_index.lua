-- SPDX-License-Identifier: GPL-2.0-or-later
local log = {}
local t = setmetatable({}, {
    __index = function(_, k) log[#log + 1] = "get " .. tostring(k) return k == "missing" and nil or k end,
    __newindex = function(t, k, v) log[#log + 1] = "set " .. tostring(k) rawset(t, k, v) end })
print(t.a, t[1], t.missing)
t.a = 5 t.a = 6
print(t.a, rawget(t, "b"))
print(table.concat(log, "; "))
local base = { greet = function() return "hello" end }
local chain = base
for _ = 1, 50 do chain = setmetatable({}, { __index = chain }) end
print(chain.greet(), chain.nothing)
print(pcall(function() local loop = {} setmetatable(loop, { __index = loop }) return loop.x end))
