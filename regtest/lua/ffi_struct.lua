-- SPDX-License-Identifier: GPL-2.0-or-later
local ffi = require "ffi"
ffi.cdef [[
struct node { struct node *next; int value; };
union both { uint32_t u; float f; uint8_t b[4]; };
typedef enum { RED, GREEN = 5, BLUE } colour;
struct bits { unsigned a : 3, b : 5, c : 8; };
struct flex { int n; char data[?]; };
]]
local nodes, head = {}, nil
for i = 1, 100 do nodes[i] = ffi.new("struct node", head, i) head = nodes[i] end
local n, sum, at = 0, 0, head
while at ~= nil do n = n + 1 sum = sum + at.value at = at.next end
print(n, sum)
local u = ffi.new("union both") u.f = 1
print(string.format("%08x", u.u), u.b[3], u.b[2])
print(tonumber(ffi.cast("colour", "BLUE")), ffi.C.GREEN)
local bits = ffi.new("struct bits", 9, 31, 300) print(bits.a, bits.b, bits.c)
local f = ffi.new("struct flex", 5) ffi.copy(f.data, "abcd") print(ffi.string(f.data), ffi.sizeof(f))
local m = ffi.new("int[3][4]") m[2][3] = 9 print(m[2][3], m[0][0], ffi.sizeof(m))
