-- SPDX-License-Identifier: GPL-2.0-or-later
local t = setmetatable({}, { __metatable = "locked" })
print(getmetatable(t), pcall(setmetatable, t, {}))
print(getmetatable("").__index == string, ("x"):rep(3))
local ro = setmetatable({}, { __index = { a = 1 }, __newindex = function() error("read only", 2) end })
print(ro.a, pcall(function() ro.b = 1 end))
local d = setmetatable({}, { __index = function(t, k) local v = k * k rawset(t, k, v) return v end })
print(d[9], rawget(d, 9), rawget(d, 8))
