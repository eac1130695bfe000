-- SPDX-License-Identifier: GPL-2.0-or-later
local n = 0
for i = 1, 20000 do
    local s = "item" .. i % 100
    if s:sub(-2) == "42" then n = n + #s end
    if s:byte(5) == 57 then n = n + 1 end
end
print(n)
local parts = {}
for i = 1, 3000 do parts[#parts + 1] = tostring(i * 0.5) end
local s = table.concat(parts, ";")
print(#s, s:sub(1, 15))
local up = 0
for w in s:gmatch("%d+%.5") do up = up + 1 end
print(up, tonumber(parts[2999]) + 1)
local rev = {}
for i = 1, 2000 do rev[i] = ("%05d"):format(i):reverse() end
table.sort(rev)
print(rev[1], rev[2000])
