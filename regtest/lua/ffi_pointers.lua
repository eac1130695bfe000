-- SPDX-License-Identifier: GPL-2.0-or-later
local ffi = require "ffi"
local a = ffi.new("int[5]", 10, 20, 30, 40, 50)
local p = ffi.cast("int *", a)
print(p[2], (p + 3)[0], tonumber((p + 4) - p), p == a + 0, p ~= nil)
ffi.fill(a, ffi.sizeof(a)) print(a[0], a[4])
local bytes = ffi.new("uint8_t[8]")
ffi.cast("uint32_t *", bytes)[0] = 0x01020304
print(bytes[0], bytes[3])
ffi.copy(bytes, "abcdefgh", 8) print(ffi.string(bytes, 8))
local void = ffi.cast("void *", 0) print(void == nil, ffi.cast("intptr_t", void) == 0)
local ref = ffi.new("int *[1]", p) print(ref[0] == p)
print(pcall(function() return ffi.cast("int *", "x") end) ~= nil, pcall(function() return void[0] end))
