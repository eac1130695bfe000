-- strings.lua - benchmark: strings. Makes text, splits it, counts and joins words: interning, hash tables,
-- buffers, C functions of the string library. In density between the others. Argument: rounds (default
-- 90).
-- SPDX-License-Identifier: GPL-2.0-or-later
local rounds = tonumber(arg and arg[1]) or 90

local function make_text(words, seed)
  local parts = {}
  for i = 1, words do
    seed = (seed * 16807) % 2147483647
    parts[i] = "w" .. seed % 60013
  end
  return table.concat(parts, " ")
end

local function count_words(text, count)
  for word in text:gmatch("%w+") do count[word] = (count[word] or 0) + 1 end
end

local count, length = {}, 0
for round = 1, rounds do
  local text = make_text(3000, round)
  count_words(text, count)
  length = length + #text:upper():gsub("W", "word-"):reverse()
end
local distinct = 0
for _ in pairs(count) do distinct = distinct + 1 end
print(length, distinct)
