-- SPDX-License-Identifier: GPL-2.0-or-later
local ffi = require "ffi"
ffi.cdef "typedef struct { double re, im; } cplx;"
local C
C = ffi.metatype("cplx", {
    __add = function(a, b) return C(a.re + b.re, a.im + b.im) end,
    __mul = function(a, b) return C(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re) end,
    __eq = function(a, b) return a.re == b.re and a.im == b.im end,
    __tostring = function(a) return string.format("%g%+gi", a.re, a.im) end,
    __len = function() return 2 end,
    __index = { abs2 = function(a) return a.re * a.re + a.im * a.im end } })
local z = C(1, 2)
print(tostring(z + C(1, 1)), tostring(z * z), z == C(1, 2), #z, z:abs2())
local acc = C(0, 0)
for i = 1, 5000 do acc = acc + C(i, -i) * C(0.5, 0) end
print(tostring(acc))
local inside = 0
for py = -10, 10 do for px = -20, 10 do
    local c, w = C(px / 10, py / 10), C(0, 0)
    local k = 0
    while k < 30 and w:abs2() < 4 do w = w * w + c k = k + 1 end
    if k == 30 then inside = inside + 1 end
end end
print(inside)
