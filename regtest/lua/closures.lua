-- SPDX-License-Identifier: GPL-2.0-or-later
local function counter(step)
    local n = 0
    return function() n = n + step return n end, function() return n end
end
local up, see = counter(3)
up() up()
print(see(), up(), see())
local fs = {}
for i = 1, 4 do local j = i * 10 fs[i] = function(d) j = j + d return i + j end end
print(fs[1](1), fs[1](1), fs[2](0), fs[4](5))
local a, b
do local shared = 1 a = function() shared = shared * 2 return shared end b = function() return shared end end
a() a() a()
print(b())
