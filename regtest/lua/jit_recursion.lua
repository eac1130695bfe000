-- SPDX-License-Identifier: GPL-2.0-or-later
local function tree(d) if d == 0 then return {} end return { tree(d - 1), tree(d - 1) } end
local function check(t) if t[1] then return 1 + check(t[1]) + check(t[2]) end return 1 end
for d = 2, 10, 2 do
    local s = 0
    for _ = 1, 2 ^ (10 - d) do s = s + check(tree(d)) end
    print(d, s)
end
local function tak(x, y, z) if y >= x then return z end return tak(tak(x - 1, y, z), tak(y - 1, z, x), tak(z - 1, x, y)) end
print(tak(12, 8, 4))
