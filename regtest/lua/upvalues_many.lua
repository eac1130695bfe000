-- SPDX-License-Identifier: GPL-2.0-or-later
local fs = {}
for i = 1, 200 do
    local a, b, c = i, i * 2, i * 3
    fs[i] = { get = function() return a + b + c end, set = function(x) a = x b = x c = x end, both = function() return function() a = a + 1 return a end end }
end
local s = 0
for i = 1, 200 do if i % 3 == 0 then fs[i].set(1) end s = s + fs[i].get() + fs[i].both()() end
print(s)
local chain = function(x) return x end
for i = 1, 100 do local inner = chain chain = function(x) return inner(x) + 1 end end
print(chain(0))
