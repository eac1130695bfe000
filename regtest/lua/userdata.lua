-- SPDX-License-Identifier: GPL-2.0-or-later
local a, b = newproxy(), newproxy(true)
print(type(a), getmetatable(a), type(getmetatable(b)))
local mt = getmetatable(b)
mt.__index = function(_, k) return "field " .. k end
mt.__len = function() return 42 end
mt.__call = function(_, x) return x end
mt.__tostring = function() return "a proxy" end
mt.__eq = function() return true end
local c = newproxy(b)
print(b.x, #b, b(9), tostring(b), b == c, getmetatable(c) == mt)
print(pcall(function() return a.x end))
print(tostring(io.stdout):match("^file") , io.type(io.stdout), io.type(5))
