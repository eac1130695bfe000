-- SPDX-License-Identifier: GPL-2.0-or-later
local live, sum = {}, 0
for i = 1, 60000 do
    local slot = i * 7919 % 101 + 1
    live[slot] = { i, tostring(i), { i } }
    local other = live[i * 31 % 101 + 1]
    if other then sum = (sum + other[1] + #other[2] + other[3][1]) % 1000003 end
end
print(sum)
