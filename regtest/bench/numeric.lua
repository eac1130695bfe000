-- numeric.lua - benchmark: access first. A matrix product over FFI doubles and a sieve over a Lua array:
-- loops that do little but load and store. Few News. Argument: matrix order (default 280).
-- SPDX-License-Identifier: GPL-2.0-or-later
local ffi = require "ffi"
local n = tonumber(arg and arg[1]) or 280

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

local function sieve(limit)
  local composite, primes = {}, 0
  for i = 1, limit do composite[i] = false end
  for i = 2, limit do
    if not composite[i] then
      primes = primes + 1
      for j = i * i, limit, i do composite[j] = true end
    end
  end
  return primes
end

local c = multiply(matrix(3), matrix(5))
print(c[0], c[n * n - 1], sieve(n * 9000))
