-- SPDX-License-Identifier: GPL-2.0-or-later
local ffi = require "ffi"
ffi.cdef "void *malloc(size_t); void free(void *); void *realloc(void *, size_t);"
local freed = 0
for i = 1, 200 do
    local block = ffi.gc(ffi.C.malloc(i * 8), function(p) freed = freed + 1 ffi.C.free(p) end)
    ffi.fill(block, i * 8, i % 256)
end
collectgarbage() collectgarbage()
print(freed)
local q = ffi.gc(ffi.cast("char *", ffi.C.malloc(10)), ffi.C.free)
ffi.copy(q, "owned") print(ffi.string(q))
q = ffi.gc(q, nil)
q = ffi.cast("char *", ffi.C.realloc(q, 1000)) print(ffi.string(q)) ffi.C.free(q)
local big = {}
for i = 1, 100 do big[i] = ffi.new("uint8_t[?]", 5000) big[i][4999] = i end
print(big[100][4999], big[1][0])
