-- SPDX-License-Identifier: GPL-2.0-or-later
local words = { "", "a", "A", "ab", "b", "10", "9", "a\0b", "a\0c" }
for i = 1, #words do
    local row = {}
    for j = 1, #words do
        row[j] = words[i] < words[j] and "<" or words[i] == words[j] and "=" or ">"
    end
    print(table.concat(row))
end
print(1 == 1.0, "1" == 1, nil == false, 0 == -0, math.huge > 1e308)
print(pcall(function() return 1 < "2" end))
print(pcall(function() return {} < {} end))
