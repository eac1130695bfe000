-- closures.lua - benchmark: closures. Functions that make functions: curried sums, lazy lists, memory in
-- upvalues; the News are functions and upvalues. Argument: rounds (default 240000).
-- SPDX-License-Identifier: GPL-2.0-or-later
local rounds = tonumber(arg and arg[1]) or 240000

local function adder(a)
  return function(b) return function(c) return a + b * c end end
end

local function counter()
  local n = 0
  return { up = function(by) n = n + by end, get = function() return n end }
end

-- a lazy list: a function that gives a value and the function of the rest
local function from(n) return function() return n, from(n + 1) end end
local function map(list, f)
  return function()
    local value, rest = list()
    return f(value), map(rest, f)
  end
end
local function take(list, n)
  local sum = 0
  for _ = 1, n do
    local value, rest = list()
    sum, list = sum + value, rest
  end
  return sum
end

local sum, counters = 0, {}
for i = 1, rounds do
  sum = sum + adder(i)(2)(3)
  local c = counters[i % 100] or counter()
  counters[i % 100] = c
  c.up(i)
end
local function square(x) return x * x end
local function half(x) return x / 2 end
print(sum, counters[7].get(), take(map(map(from(1), square), half), rounds / 2))
