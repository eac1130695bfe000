-- SPDX-License-Identifier: GPL-2.0-or-later
local t = {}
for i = 1, 500 do t["key" .. i] = i t[i + 0.5] = -i t[-i] = "n" .. i end
local n, sum = 0, 0
for k, v in pairs(t) do n = n + 1 if type(v) == "number" then sum = sum + v end end
print(n, sum, t.key77, t[77.5], t[-77])
for i = 1, 500, 2 do t["key" .. i] = nil end
n = 0
for k in pairs(t) do n = n + 1 end
print(n, t.key77, t.key78, next({}))
print(pcall(function() t[nil] = 1 end), pcall(function() t[0 / 0] = 1 end), t[nil])
t[2 ^ 53] = "big" t[true] = "yes" t[print] = "function"
print(t[9007199254740992], t[true], t[print])
for k in pairs { a = 1 } do print(k, pcall(next, {}, "no such key")) end
