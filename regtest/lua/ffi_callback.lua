-- SPDX-License-Identifier: GPL-2.0-or-later
local ffi = require "ffi"
ffi.cdef "void qsort(void *, size_t, size_t, int (*)(const int *, const int *)); "
local n = 40
local a = ffi.new("int[?]", n)
for i = 0, n - 1 do a[i] = (i * 37 + 11) % 101 end
local calls = 0
local cb = ffi.cast("int (*)(const int *, const int *)", function(x, y) calls = calls + 1 return x[0] - y[0] end)
ffi.C.qsort(a, n, 4, cb)
local t = {}
for i = 0, n - 1 do t[#t + 1] = a[i] end
print(table.concat(t, " ")) print(calls > n)
cb:set(function(x, y) return y[0] - x[0] end)
ffi.C.qsort(a, n, 4, cb) print(a[0], a[n - 1])
cb:free()
