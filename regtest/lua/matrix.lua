-- SPDX-License-Identifier: GPL-2.0-or-later
local function make(n, f) local m = {} for i = 1, n do m[i] = {} for j = 1, n do m[i][j] = f(i, j) end end return m end
local function mul(a, b)
    local n = #a
    return make(n, function(i, j) local s = 0 for k = 1, n do s = s + a[i][k] * b[k][j] end return s end)
end
local a, b = make(24, function(i, j) return i - j end), make(24, function(i, j) return (i * j) % 5 end)
local c = mul(mul(a, b), a)
local trace, sum = 0, 0
for i = 1, 24 do trace = trace + c[i][i] for j = 1, 24 do sum = sum + c[i][j] end end
print(trace, sum)
