-- SPDX-License-Identifier: GPL-2.0-or-later
local function three() return 1, 2, 3 end
local a, b, c, d = three()
print(a, b, c, d)
local t = { three(), three() }
print(#t, t[4], ({ (three()) })[2])
a, b = b, a
print(a, b)
local i, list = 1, {}
i, list[i] = i + 1, "set"
print(i, list[1], list[2])
print((three()))
print(three(), 10, (three()))
