-- SPDX-License-Identifier: GPL-2.0-or-later
local a, b = {1}, {2}
local function f() return a end
local function g() return a, b end
print(debug.upvalueid(f, 1) == debug.upvalueid(g, 1), debug.upvalueid(g, 1) == debug.upvalueid(g, 2))
-- assigned to, or traces would take x for a constant
local function other() local x = "joined" return function(new) x = new or x return x end end
local h = other()
debug.upvaluejoin(f, 1, h, 1) print(f(), g() == a)
print(debug.getupvalue(f, 1), debug.getupvalue(f, 2), debug.setupvalue(h, 1, "set"), f(), h())
debug.setmetatable(0, {__index = {half = function(n) return n / 2 end}, __call = function(n, m) return n * m end})
print((8).half(8), (7)(6)) debug.setmetatable(0, nil) print(pcall(function() return (1)(2) end) == false)
debug.setmetatable(nil, {__index = function(_, k) return k end}) print((nil).key) debug.setmetatable(nil, nil)
debug.setmetatable(print, {__index = {doc = "of functions"}, __concat = function(x, y) return type(x) .. type(y) end})
print(print.doc, print .. print) debug.setmetatable(print, nil)
local p = newproxy() debug.setmetatable(p, {__len = function() return 9 end}) print(#p, debug.getmetatable(p).__len ~= nil)
local e = {} debug.setfenv(p, e) print(debug.getfenv(p) == e, debug.getfenv(f) == _G)
local hits = {call = 0, line = 0, count = 0, ["return"] = 0, ["tail return"] = 0, ["tail call"] = 0}
debug.sethook(function(what) hits[what] = hits[what] + 1 end, "crl", 0)
local n = 0
for i = 1, 10 do
  n = n + #tostring(i)
end
debug.sethook()
print(n, hits.line >= 20, hits.call >= 10, debug.gethook())
local co = coroutine.create(function(x) local y = x * 2 coroutine.yield(y) error("end") end)
coroutine.resume(co, 21) print(debug.getlocal(co, 1, 1), debug.getlocal(co, 1, 2)) debug.setlocal(co, 1, 2, "changed")
print(select(2, debug.getlocal(co, 1, 2)), debug.getinfo(co, 1, "l").currentline, coroutine.resume(co))
print((debug.traceback(co):gsub("%S*/", ""):gsub("\n%s*", " ")))
