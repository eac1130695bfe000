-- SPDX-License-Identifier: GPL-2.0-or-later
local ffi = require "ffi"
ffi.cdef [[
int open(const char *path, int flags); double pow(double, double); double cabs(double complex);
typedef struct { int quot, rem; } div_pair; div_pair div(int, int);
int snprintf(char *to, size_t size, const char *form, ...); size_t strlen(const char *); int toupper(int);
void qsort(void *, size_t, size_t, int (*)(const void *, const void *)); void *malloc(size_t); void free(void *); char *getenv(const char *);
]]
print(ffi.os, ffi.abi("64bit"), ffi.abi("le"), ffi.abi("nonsense"))
print(ffi.C.open("/no/such/file", 0), ffi.errno(), ffi.errno(7), ffi.errno())
local m = ffi.load("m") print(m.pow(2, 10), pcall(ffi.load, "no_such_library_here") == false, pcall(function() return ffi.C.no_such_symbol end) == false)
local d = ffi.C.div(17, 5) print(d.quot, d.rem)
local buffer = ffi.new("char[64]") print(ffi.C.snprintf(buffer, 64, "%d %s %.2f %lld", ffi.new("int", 5), "text", 1.5, 1LL), ffi.string(buffer))
local z = ffi.new("complex", 3, 4) print(z.re, z.im, z, ffi.sizeof(z), ffi.new("complex float", 1, -2).im)
local p = ffi.gc(ffi.C.malloc(4000), ffi.C.free) local ints = ffi.cast("int *", p)
for i = 0, 999 do ints[i] = (i * 7919) % 1000 end
local compare = ffi.cast("int (*)(const void *, const void *)", function(a, b) return ffi.cast("const int *", a)[0] - ffi.cast("const int *", b)[0] end)
ffi.C.qsort(p, 1000, 4, compare) compare:free()
local ordered = true for i = 1, 999 do ordered = ordered and ints[i - 1] <= ints[i] end print(ordered, ints[0], ints[999])
ffi.fill(p, 4000, 1) print(ints[5] == 0x01010101, ffi.istype("int *", ints), ffi.typeof("int[4]") == ffi.typeof("int[4]"))
print(ffi.offsetof("div_pair", "rem"), ffi.alignof("div_pair"), tostring(ffi.typeof("div_pair *")):match("^ctype<struct %d+ %*>$") ~= nil)
local text = {} for c in ("letters"):gmatch "." do text[#text + 1] = string.char(ffi.C.toupper(c:byte())) end print(table.concat(text))
local v = ffi.new("float __attribute__((vector_size(16)))", 1, 2, 3, 4) print(v[0] + v[3], ffi.sizeof(v))
local bits = ffi.new("struct { unsigned a : 3; int b : 5; bool c : 1; }", 5, -3, true) print(bits.a, bits.b, bits.c)
local total = 0 for i = 1, 500 do total = total + tonumber(ffi.C.strlen(("x"):rep(i % 50))) end print(total)
print(pcall(ffi.cdef, "struct {") == false, pcall(ffi.new, "no_type") == false, pcall(ffi.cast, "int", {}) == false)
