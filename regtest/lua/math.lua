-- SPDX-License-Identifier: GPL-2.0-or-later
local function r(x) return string.format("%.10f", x) end
print(r(math.sin(1)), r(math.cos(1)), r(math.tan(1)), r(math.asin(0.5)), r(math.acos(0.5)), r(math.atan(1)))
print(r(math.atan2(1, -1)), r(math.sqrt(2)), r(math.exp(1)), r(math.log(10)), r(math.log10(1000)), r(math.pow(2, 0.5)))
print(r(math.sinh(1)), r(math.cosh(1)), r(math.tanh(1)), math.deg(math.pi), r(math.rad(180)))
print(math.frexp(8), math.ldexp(0.5, 4))
math.randomseed(42)
local a = { math.random(100), math.random(5, 10), math.random() }
math.randomseed(42)
print(a[1] == math.random(100), a[2] == math.random(5, 10), a[3] == math.random())
print(pcall(math.random, 2, 1), pcall(math.floor, "x"))
local inside, seed = 0, 1
for _ = 1, 20000 do
    seed = seed * 16807 % 2147483647
    local x = seed / 2147483647
    seed = seed * 16807 % 2147483647
    local y = seed / 2147483647
    if x * x + y * y <= 1 then inside = inside + 1 end
end
print(inside)
