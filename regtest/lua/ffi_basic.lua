-- SPDX-License-Identifier: GPL-2.0-or-later
local ffi = require "ffi"
ffi.cdef [[ typedef struct { int x, y; double w; } point; int abs(int); size_t strlen(const char *); ]]
local p = ffi.new("point", 3, 4, 1.5)
print(p.x, p.y, p.w, ffi.sizeof("point"), ffi.alignof("point"), ffi.offsetof("point", "w"))
p.x = 7.9 print(p.x)
print(ffi.C.abs(-5), tonumber(ffi.C.strlen("hello")))
local a = ffi.new("int[10]")
for i = 0, 9 do a[i] = i * i end
local sum = 0
for i = 0, 9 do sum = sum + a[i] end
print(sum, ffi.sizeof(a), a[9])
print(ffi.typeof(p) == ffi.typeof("point"), ffi.istype("point", p), ffi.istype("int", p))
print(pcall(function() return p.z end), pcall(ffi.cdef, "syntax %"), pcall(ffi.new, "no_such_type"))
print(ffi.string(ffi.new("char[6]", "hello")), ffi.string("abc", 2), ffi.os, ffi.arch ~= nil)
