-- SPDX-License-Identifier: GPL-2.0-or-later
local t = {}
for i = 1, 1000 do t[i] = i * i end
print(#t, t[1], t[500], t[1000])
for i = 1000, 501, -1 do t[i] = nil end
print(#t)
table.insert(t, "end") table.insert(t, 1, "start")
print(#t, t[1], t[2], t[#t], table.remove(t), table.remove(t, 1), #t)
print(table.remove({}), table.remove({ 1 }, 1))
local u = { n = 1, [1] = "a", "b", [3] = "c", [2] = "d" }
print(u[1], u[2], u[3], u.n)
print(table.maxn { [1] = 1, [7.5] = 2, [3] = 3 })
local holes = { 1, 2, nil, 4 }
print(holes[4], select("#", unpack(holes, 1, 4)))
