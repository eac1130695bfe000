-- SPDX-License-Identifier: GPL-2.0-or-later
local depth = 0
local function handler(m) depth = depth + 1 if depth < 3 then error("again", 0) end return "gave up on " .. tostring(m) end
local ok, what = xpcall(error, handler, "first")
print(ok, type(what), depth > 0)
print(xpcall(function() return string.rep("x", -1) end, print))
local log = {}
local function level3() error("deep") end
local function level2() local ok, e = pcall(level3) log[#log + 1] = e:match("[^:]+$") error(e, 0) end
local ok2, e2 = pcall(level2)
print(ok2, e2:match("[^:]+$"), log[1])
local co = coroutine.create(function() local ok, v = pcall(coroutine.yield, 1) print(ok, v) error("end", 0) end)
print(coroutine.resume(co)) print(coroutine.resume(co, "back")) print(coroutine.resume(co))
