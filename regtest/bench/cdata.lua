-- cdata.lua - benchmark: FFI arrays. A matrix product over doubles and a running sum over int32: loops
-- compiled to a few instructions that do little but load and store. Hardly any News. Argument: matrix
-- order (default 380).
-- SPDX-License-Identifier: GPL-2.0-or-later
local ffi = require "ffi"
local n = tonumber(arg and arg[1]) or 380

local function matrix(seed)
  local m = ffi.new("double[?]", n * n)
  for i = 0, n * n - 1 do m[i] = (i * seed) % 17 end
  return m
end

local function multiply(a, b)
  local c = ffi.new("double[?]", n * n)
  for i = 0, n - 1 do
    for j = 0, n - 1 do
      local sum = 0
      for k = 0, n - 1 do sum = sum + a[i * n + k] * b[k * n + j] end
      c[i * n + j] = sum
    end
  end
  return c
end

local function running_sums(count, rounds)
  local a = ffi.new("int32_t[?]", count)
  for i = 0, count - 1 do a[i] = i % 3 end
  for _ = 1, rounds do
    for i = 1, count - 1 do a[i] = (a[i] + a[i - 1]) % 1000 end
  end
  return a[count - 1]
end

local c = multiply(matrix(3), matrix(5))
print(c[0], c[n * n - 1], running_sums(n * 100, 20))
