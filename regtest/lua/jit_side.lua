-- SPDX-License-Identifier: GPL-2.0-or-later
local function classify(i)
    if i % 15 == 0 then return "fizzbuzz" elseif i % 5 == 0 then return "buzz" elseif i % 3 == 0 then return "fizz" end
    return i
end
local n = { fizz = 0, buzz = 0, fizzbuzz = 0, other = 0 }
for i = 1, 30000 do local c = classify(i) local k = n[c] and c or "other" n[k] = n[k] + 1 end
print(n.fizz, n.buzz, n.fizzbuzz, n.other)
local mixed, total = { 1, "2", 3.5, "4", 5 }, 0
for i = 1, 20000 do total = total + mixed[i % 5 + 1] end
print(total)
local function poly(o) return o.v and o.v or o[1] end
local s = 0
for i = 1, 20000 do s = s + poly(i % 3 == 0 and { v = i } or { i }) end
print(s)
