-- hashing.lua - benchmark: hash tables. Sparse integer keys, string keys and pairs of numbers are put in,
-- looked up, taken out; the tables grow by rehashing. Argument: keys (default 120000).
-- SPDX-License-Identifier: GPL-2.0-or-later
local keys = tonumber(arg and arg[1]) or 120000

local function sparse(n)
  local t, seed, hits = {}, 7, 0
  for i = 1, n do
    seed = (seed * 16807) % 2147483647
    t[seed] = i
  end
  seed = 7
  for _ = 1, 2 * n do
    seed = (seed * 16807) % 2147483647
    if t[seed] then hits = hits + 1 end
  end
  return hits
end

local function named(n)
  local t, sum = {}, 0
  for i = 1, n do t["key" .. i % 5000] = i end
  for i = 1, 5000 do sum = sum + (t["key" .. i] or 0) end
  return sum
end

-- visit squares of a board once each; the visited ones are keys
local function walk(n)
  local seen, x, y, fresh = {}, 0, 0, 0
  for i = 1, n do
    x, y = (x * 31 + i) % 199, (y * 17 + x) % 211
    local at = x * 1000 + y
    if seen[at] then seen[at] = nil else seen[at], fresh = true, fresh + 1 end
  end
  return fresh
end

print(sparse(keys), named(keys), walk(keys * 4))
