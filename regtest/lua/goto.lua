-- SPDX-License-Identifier: GPL-2.0-or-later
for i = 1, 6 do
    if i % 2 == 0 then goto continue end
    io.write(i, " ")
    ::continue::
end
print()
local tries = 0
::again::
tries = tries + 1
if tries < 4 then goto again end
print(tries)
local fns = {}
do
    local k = 0
    ::top::
    local seen = k
    fns[#fns + 1] = function() return seen end
    k = k + 1
    if k < 3 then goto top end
end
for _, f in ipairs(fns) do io.write(f(), " ") end
print()
print(loadstring("goto nowhere"))
