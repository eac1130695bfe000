-- SPDX-License-Identifier: GPL-2.0-or-later
local x = 1
do local x = x + 1; do local x = x + 1; print(x) end print(x) end
print(x)
local function f(x) x = x * 10 return x end
print(f(x), x)
y = 5
local function g() y = y + 1 local y = 100 return y end
print(g(), y)
y = nil
for x = 1, 2 do local x = x * 2 io.write(x, " ") end
print(x)
