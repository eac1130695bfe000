-- SPDX-License-Identifier: GPL-2.0-or-later
local t = {}
for i = 1, 1000 do t[i] = i end
local function sum(t, n) local s = 0 for i = 1, n do s = s + (t[i] or 0) end return s end
for _ = 1, 50 do sum(t, 1000) end
print(sum(t, 1000), sum(t, 1100), sum({ 1, 2, 3 }, 10))
t[500] = 0.5 print(sum(t, 1000)) t[500] = "7" print(sum(t, 1000)) t[500] = nil print(sum(t, 1000))
print(pcall(function() t[500] = {} return sum(t, 1000) end))
local mt = setmetatable({}, { __index = function(_, i) return i end })
print(sum(mt, 2000))
local ok, e = pcall(function() local x for i = 1, 5000 do if i == 4000 then x.y = 1 end end end)
print(ok, e:match("index"))
