-- SPDX-License-Identifier: GPL-2.0-or-later
local calls = 0
local f = setmetatable({}, { __call = function(self, ...) calls = calls + 1 return calls, select("#", ...), ... end })
print(f()) print(f(1, nil)) print(pcall(f, "x"))
local sorted = { 3, 1, 2 }
table.sort(sorted, setmetatable({}, { __call = function(_, a, b) return a > b end }) and function(a, b) return a > b end)
print(table.concat(sorted, " "))
for w in setmetatable({ 3 }, { __call = function(s) s[1] = s[1] - 1 return s[1] > 0 and s[1] or nil end }) do io.write(w, " ") end
print()
print(pcall(setmetatable({}, { __call = 5 })))
