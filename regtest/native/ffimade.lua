-- ffimade.lua - machine code that changes as LuaJIT's does: by mprotect, called from LuaJIT's own code (the
-- FFI's), in all the ways that an area may be opened, written, and closed again. Arguments: the ways, each of which
-- uses memory of its own. Prints for each how many calls did not run the newest code.
-- SPDX-License-Identifier: GPL-2.0-or-later
local ffi = require "ffi"
ffi.cdef[[
void *mmap(void *, size_t, int, int, int, long);
void *mremap(void *, size_t, size_t, int, void *);
int mprotect(void *, size_t, int);
int munmap(void *, size_t);
int madvise(void *, size_t, int);
]]
local C, PAGE = ffi.C, 4096
local R, RW, RX, RWX = 1, 3, 5, 7
local PRIVATE, FIXED, MOVE = 0x22, 0x32, 3
local wrong = 0

local function map(pages, at)
  return ffi.cast("uint8_t *", C.mmap(at, pages * PAGE, RW, at and FIXED or PRIVATE, -1, 0))
end

local function put(at, number) -- mov $number, %eax; ret
  at[0], at[5] = 0xb8, 0xc3
  ffi.cast("int32_t *", at + 1)[0] = number
end

local function expect(at, number)
  for _ = 1, 2 do
    if ffi.cast("int (*)(void)", at)() ~= number then wrong = wrong + 1 end
  end
end

local function protect(at, pages, prot) assert(C.mprotect(at, pages * PAGE, prot) == 0) end

-- two pages with a function in each, both run once
local function made()
  local a = map(2)
  put(a, 1) put(a + PAGE, 2) protect(a, 2, RX) expect(a, 1) expect(a + PAGE, 2)
  return a, a + PAGE
end

local ways = {}

function ways.whole()
  local a, b = made()
  for i = 3, 20 do
    protect(a, 2, RW) put(a, i) protect(a, 2, RX) expect(a, i) expect(b, 2)
  end
  protect(a, 2, RW) put(a, 21) put(b, 22) put(b + 4000, 23) protect(a, 2, RX)
  expect(a, 21) expect(b, 22) expect(b + 4000, 23)
end

function ways.opened_twice()
  local a, b = made()
  protect(a, 2, RW) put(a, 3) protect(a, 2, RW) put(b, 4) protect(a, 2, R) protect(a, 2, RX)
  expect(a, 3) expect(b, 4)
end

function ways.closed_in_parts()
  local a, b = made()
  protect(a, 2, RW) put(a, 3) put(b, 4) protect(a, 1, RX) expect(a, 3) protect(b, 1, RX) expect(b, 4)
end

function ways.opened_in_parts()
  local a, b = made()
  protect(a, 1, RW) put(a, 3) protect(b, 1, RW) put(b, 4) protect(a, 2, RX) expect(a, 3) expect(b, 4)
end

function ways.opened_wider()
  local a, b = made()
  protect(a, 1, RW) put(a, 3) protect(a, 2, RW) put(b, 4) protect(a, 2, RX) expect(a, 3) expect(b, 4)
end

function ways.writable_all_the_time()
  local a, b = made()
  protect(a, 2, RW) put(a, 3) protect(a, 2, RWX) expect(a, 3) put(a, 4) expect(a, 4) put(b, 5) expect(b, 5)
  protect(a, 2, RX) expect(a, 4)
  protect(a, 2, RWX) put(a, 6) expect(a, 6) protect(a, 2, RW) put(b, 7) protect(a, 2, RX) expect(a, 6) expect(b, 7)
end

function ways.not_readable()
  local a, b = made()
  protect(a, 2, 0) protect(a, 2, RW) put(a, 3) protect(a, 2, 0) protect(a, 2, RX) expect(a, 3) expect(b, 2)
end

function ways.mapped_over()
  local a, b = made()
  protect(a, 2, RW) map(1, a) put(a, 3) protect(a, 2, RX) expect(a, 3) expect(b, 2)
end

function ways.unmapped()
  local a, b = made()
  protect(a, 2, RW) put(a, 3) C.munmap(b, PAGE) map(1, b) put(b, 4) protect(a, 2, RX) expect(a, 3) expect(b, 4)
end

function ways.moved_over()
  local a, b = made()
  local c = map(1)
  put(c, 3) protect(a, 2, RW) C.mremap(c, PAGE, PAGE, MOVE, b) protect(a, 2, RX) expect(a, 1) expect(b, 3)
end

function ways.moved_over_all()
  local a, b = made()
  local c, d = made()
  protect(c, 2, RW) put(c, 3) put(d, 4) protect(c, 2, RX)
  protect(a, 2, RW) C.mremap(c, 2 * PAGE, 2 * PAGE, MOVE, a) expect(a, 3) expect(b, 4)
  protect(a, 2, RW) put(a, 1) put(b, 2) protect(a, 2, RX) expect(a, 1) expect(b, 2)
end

function ways.emptied()
  local a, b = made()
  protect(a, 2, RW) C.madvise(b, PAGE, 4) put(b + 16, 3) protect(a, 2, RX) expect(a, 1) expect(b + 16, 3)
end

function ways.many_at_once()
  local all = {}
  for i = 1, 20 do all[i] = made() end
  for _, a in ipairs(all) do protect(a, 2, RW) end
  for i, a in ipairs(all) do put(a, 100 + i) end
  for _, a in ipairs(all) do protect(a, 2, RX) end
  for i, a in ipairs(all) do expect(a, 100 + i) expect(a + PAGE, 2) end
end

assert(arg[1], "no way")
for _, way in ipairs(arg) do
  wrong = 0
  assert(ways[way], "no such way")()
  print(way .. ": " .. wrong .. " wrong")
end
