-- SPDX-License-Identifier: GPL-2.0-or-later
local order = {}
for i = 1, 5 do
    local u = newproxy(true)
    getmetatable(u).__gc = function() order[#order + 1] = i end
end
collectgarbage() collectgarbage()
table.sort(order)
print(table.concat(order, " "))
local kept = newproxy(true)
getmetatable(kept).__gc = function() error("in finaliser") end
kept = nil
print(pcall(collectgarbage))
print(collectgarbage("count") > 0)
