-- coroutines.lua - benchmark: coroutines. Generators chained into a pipeline, and many short-lived
-- sessions, so that Lua stacks are made, switched between and dropped. Argument: numbers in the pipeline
-- (default 360000).
-- SPDX-License-Identifier: GPL-2.0-or-later
local count = tonumber(arg and arg[1]) or 360000
local wrap, yield = coroutine.wrap, coroutine.yield

local function numbers(n)
  return wrap(function() for i = 1, n do yield(i) end end)
end

local function filter(source, divisor)
  return wrap(function()
    for x in source do if x % divisor ~= 0 then yield(x) end end
  end)
end

local function drain(source)
  local items, sum = 0, 0
  for x in source do items, sum = items + 1, sum + x end
  return items, sum
end

local function sessions(n)
  local sum = 0
  for i = 1, n do
    local talk = wrap(function(a) sum = sum + a + yield(a + 1) end)
    talk(talk(i) and i)
  end
  return sum
end

local pipeline = numbers(count)
for _, divisor in ipairs { 2, 3, 5, 7 } do pipeline = filter(pipeline, divisor) end
local items, sum = drain(pipeline)
print(items, sum, sessions(count / 4))
