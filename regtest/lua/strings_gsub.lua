-- SPDX-License-Identifier: GPL-2.0-or-later
print(("hello world"):gsub("o", "0"), ("hello world"):gsub("o", "0", 1))
print(("abc"):gsub("%w", "%0%0"), ("abc"):gsub("", "-"))
print(("$name is $age"):gsub("%$(%w+)", { name = "Lua", age = 30 }))
print(("1 2 3"):gsub("%d", function(d) return d * 2 end))
print(("keep drop"):gsub("%w+", function(w) if w == "drop" then return "" end end))
local text = string.rep("the quick brown fox jumps over the lazy dog ", 60)
local counts = {}
local total = select(2, text:gsub("%a+", function(w) counts[w] = (counts[w] or 0) + 1 end))
local names = {}
for w, n in pairs(counts) do names[#names + 1] = w .. n end
table.sort(names)
print(total, table.concat(names, " "))
print(#text:gsub("%s+", ""), #text:gsub("[aeiou]", ""))
