-- SPDX-License-Identifier: GPL-2.0-or-later
local function range(n) local i = 0 return function() i = i + 1 if i <= n then return i, i * i end end end
for i, sq in range(4) do io.write(i, "=", sq, " ") end print()
local function stateless(s, i) if i < s.n then return i + 1, s[i + 1] end end
for i, v in stateless, { n = 3, "a", "b", "c" }, 0 do io.write(i, v, " ") end print()
local co = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i, -i) end end)
for a, b in co do io.write(a, b, " ") end print()
for i, v in ipairs { 1, 2, nil, 4 } do io.write(i, " ") end print()
print(pcall(function() for _ in 5 do end end))
local t, n = { a = 1, b = 2, c = 3 }, 0
for k in pairs(t) do t[k] = nil n = n + 1 end
print(n, next(t))
