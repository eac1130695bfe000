-- SPDX-License-Identifier: GPL-2.0-or-later
local n = 30000
local flags = {}
for i = 2, n do flags[i] = true end
for i = 2, math.floor(math.sqrt(n)) do
    if flags[i] then for j = i * i, n, i do flags[j] = false end end
end
local count, last = 0, 0
for i = 2, n do if flags[i] then count, last = count + 1, i end end
print(count, last)
