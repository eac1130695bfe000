-- SPDX-License-Identifier: GPL-2.0-or-later
local n, solutions = 7, 0
local cols, d1, d2 = {}, {}, {}
local function place(row)
    if row > n then solutions = solutions + 1 return end
    for c = 1, n do
        if not cols[c] and not d1[row + c] and not d2[row - c] then
            cols[c], d1[row + c], d2[row - c] = true, true, true
            place(row + 1)
            cols[c], d1[row + c], d2[row - c] = nil, nil, nil
        end
    end
end
place(1)
print(solutions)
