-- sorting.lua - benchmark: sorting. The library's sort with and without a comparison of our own, a merge
-- sort that makes new tables, and a heap sort in place. Argument: items (default 45000).
-- SPDX-License-Identifier: GPL-2.0-or-later
local n = tonumber(arg and arg[1]) or 45000

local function numbers(seed)
  local t = {}
  for i = 1, n do
    seed = (seed * 16807) % 2147483647
    t[i] = seed
  end
  return t
end

local function merge(a, b)
  local out, i, j = {}, 1, 1
  for k = 1, #a + #b do
    if not b[j] or (a[i] and a[i] <= b[j]) then
      out[k], i = a[i], i + 1
    else
      out[k], j = b[j], j + 1
    end
  end
  return out
end

local function merge_sort(t, from, to)
  if from == to then return { t[from] } end
  local middle = math.floor((from + to) / 2)
  return merge(merge_sort(t, from, middle), merge_sort(t, middle + 1, to))
end

local function sift(t, at, last)
  while 2 * at <= last do
    local child = 2 * at
    if child < last and t[child] < t[child + 1] then child = child + 1 end
    if t[at] >= t[child] then return end
    t[at], t[child], at = t[child], t[at], child
  end
end

local function heap_sort(t)
  for at = math.floor(#t / 2), 1, -1 do sift(t, at, #t) end
  for last = #t, 2, -1 do
    t[1], t[last] = t[last], t[1]
    sift(t, 1, last - 1)
  end
  return t
end

local by_library, downwards = numbers(1), numbers(1)
table.sort(by_library)
table.sort(downwards, function(a, b) return a > b end)
local merged, heaped = merge_sort(numbers(1), 1, n), heap_sort(numbers(1))
for i = 1, n do
  assert(by_library[i] == merged[i] and merged[i] == heaped[i] and heaped[i] == downwards[n + 1 - i])
end
print(by_library[1], by_library[n])
