-- SPDX-License-Identifier: GPL-2.0-or-later
local function f(a, b, ...) local c = a; return debug.getinfo(1, "nSlu") end
local i = f(1, 2)
print(i.what, i.linedefined, i.currentline, i.nups, i.short_src ~= nil)
local function g() local x, y = 10, 20; local n, v = debug.getlocal(1, 2); debug.setlocal(1, 1, 99); return x, n, v end
print(g())
local up = 5
local function h() return up end
print(debug.getupvalue(h, 1), debug.setupvalue(h, 1, 6), h())
print(debug.getinfo(print).what, debug.getinfo(100))
local lines = {}
debug.sethook(function(_, l) lines[#lines + 1] = l end, "l")
local a = 1
a = a + 1
debug.sethook()
print(#lines >= 2, debug.gethook())
print(#debug.traceback("message"):gsub("[^\n]", "") > 1, debug.traceback("m"):match("^m\nstack traceback:"))
print(debug.getmetatable("").__index == string, debug.getregistry() ~= nil)
