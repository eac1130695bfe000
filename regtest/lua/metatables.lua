-- SPDX-License-Identifier: GPL-2.0-or-later
local V = {}
V.__index = V
local function v(x, y) return setmetatable({ x = x, y = y }, V) end
V.__add = function(a, b) return v(a.x + b.x, a.y + b.y) end
V.__mul = function(a, b) return type(a) == "number" and v(a * b.x, a * b.y) or type(b) == "number" and v(a.x * b, a.y * b) or a.x * b.x + a.y * b.y end
V.__unm = function(a) return v(-a.x, -a.y) end
V.__eq = function(a, b) return a.x == b.x and a.y == b.y end
V.__lt = function(a, b) return a.x < b.x end
V.__le = function(a, b) return a.x <= b.x end
V.__len = function(a) return 2 end
V.__concat = function(a, b) return tostring(a) .. "|" .. tostring(b) end
V.__tostring = function(a) return "(" .. a.x .. "," .. a.y .. ")" end
local a, b = v(1, 2), v(3, 4)
print(tostring(a + b), tostring(2 * a), tostring(a * 2), a * b, tostring(-a))
print(a == v(1, 2), a ~= b, a < b, a >= b, a .. b, "s" .. a)
print(getmetatable(a) == V, rawequal(a, v(1, 2)))
