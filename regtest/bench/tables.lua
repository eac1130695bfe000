-- tables.lua - benchmark: numbers in Lua tables. A sieve, and the heat equation on a grid of rows: array
-- reads and writes with their bounds checks. Few News, large ones. Argument: grid order (default 340).
-- SPDX-License-Identifier: GPL-2.0-or-later
local n = tonumber(arg and arg[1]) or 340

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

local function grid(value)
  local rows = {}
  for i = 1, n do
    rows[i] = {}
    for j = 1, n do rows[i][j] = i == 1 and value or 0 end
  end
  return rows
end

local function step(from, to)
  for i = 2, n - 1 do
    local above, row, below, out = from[i - 1], from[i], from[i + 1], to[i]
    for j = 2, n - 1 do out[j] = (above[j] + below[j] + row[j - 1] + row[j + 1]) * 0.25 end
  end
end

local a, b = grid(100), grid(100)
for _ = 1, 120 do
  step(a, b)
  a, b = b, a
end
print(sieve(n * 3000), ("%.6f %.6f"):format(a[2][n / 2], a[n / 2][n / 2]))
