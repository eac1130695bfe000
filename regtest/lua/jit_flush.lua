-- Machine code made, thrown away and made anew in the same place: results must be those of the newest code.
-- SPDX-License-Identifier: GPL-2.0-or-later
local function sum_of(step)
  local source = ("local s = 0 for i = 1, 60 do s = s + i * %d end return s"):format(step)
  return loadstring(source)
end

local wrong = 0
for round = 1, 120 do
  local sum = sum_of(round)
  for _ = 1, 3 do
    if sum() ~= 1830 * round then wrong = wrong + 1 end
  end
  if jit and round % 3 == 0 then jit.flush() end
  if jit and round % 7 == 0 then jit.flush(sum, true) end
end
print("wrong sums", wrong)

local function count(limit, add)
  local n = 0
  for i = 1, limit do
    n = n + add
    if i % 50 == 0 and jit then jit.flush() end
  end
  return n
end
for add = 1, 5 do print("count", add, count(400, add)) end
