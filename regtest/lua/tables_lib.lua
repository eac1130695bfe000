-- SPDX-License-Identifier: GPL-2.0-or-later
print(table.concat({ 1, 2.5, "x" }, ", "), table.concat({}, "x"), table.concat({ 1, 2, 3 }, "-", 2, 3))
print(pcall(table.concat, { 1, {}, 3 }))
local t = { 5, 2, 8, 1, 9, 3 }
table.sort(t) print(unpack(t))
table.sort(t, function(a, b) return a % 3 < b % 3 or a % 3 == b % 3 and a < b end) print(unpack(t))
local seed, r = 42, {}
for i = 1, 500 do seed = (seed * 1103515245 + 12345) % 2 ^ 31 r[i] = seed end
table.sort(r)
local ok = true
for i = 2, #r do ok = ok and r[i - 1] <= r[i] end
print(ok, #r)
table.foreachi({ "a", "b" }, print)
print(pcall(table.sort, { 1, "x" }))
local w = { "pear", "Apple", "fig" }
table.sort(w) print(table.concat(w, " "))
