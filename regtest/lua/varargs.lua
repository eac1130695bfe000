-- SPDX-License-Identifier: GPL-2.0-or-later
local function f(...)
    local a, b = ...
    return select("#", ...), a, b, ...
end
print(f()) print(f(nil)) print(f(nil, nil)) print((f(1, 2, 3)))
print(select(-1, "a", "b", "c"), select(2, "a", "b", "c"))
print(pcall(select, 0, 1))
local function pack2(...) return { n = select("#", ...), ... } end
local p = pack2(1, nil, 3, nil)
print(p.n, p[1], p[2], p[3], unpack(p, 1, p.n))
local function deep(n, ...) if n == 0 then return select("#", ...) end return deep(n - 1, n, ...) end
print(deep(100))
print((string.format("%s", "x", "unused")))
