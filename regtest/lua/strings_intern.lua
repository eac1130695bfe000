-- SPDX-License-Identifier: GPL-2.0-or-later
local seen = {}
for i = 1, 20000 do
    local s = "s" .. i % 4000
    seen[s] = (seen[s] or 0) + 1
end
local n, all = 0, true
for _, c in pairs(seen) do n = n + 1 all = all and c == 5 end
print(n, all)
local long = {}
for i = 1, 50 do long[i] = string.rep(string.char(97 + i % 26), i * 100) end
local joined = table.concat(long)
print(#joined, joined:sub(1, 3), joined:sub(-3))
local s = ""
for i = 1, 500 do s = s .. i end
print(#s, s:sub(-6))
