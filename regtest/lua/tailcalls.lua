-- SPDX-License-Identifier: GPL-2.0-or-later
local function loop(n, acc) if n == 0 then return acc end return loop(n - 1, acc + n) end
print(loop(200000, 0))
local odd
local function even(n) if n == 0 then return true end return odd(n - 1) end
function odd(n) if n == 0 then return false end return even(n - 1) end
print(even(100001), odd(100001))
local t = setmetatable({}, { __call = function(self, n) if n == 0 then return "end" end return self(n - 1) end })
print(t(50000))
