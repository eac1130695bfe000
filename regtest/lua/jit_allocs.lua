-- SPDX-License-Identifier: GPL-2.0-or-later
local function pair(a, b) return { a, b } end
local sum = 0
for i = 1, 40000 do local p = pair(i, i + 1) sum = (sum + p[1] * p[2]) % 1000003 end
print(sum)
local kept = {}
for i = 1, 20000 do kept[i % 64 + 1] = { id = i, name = "n" .. i, f = function() return i end } end
local check = 0
for i = 1, 64 do check = check + kept[i].f() + #kept[i].name end
print(check)
local list = nil
for i = 1, 10000 do list = { next = list, value = i } end
local total = 0
while list do total = total + list.value list = list.next end
print(total)
