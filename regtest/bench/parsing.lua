-- parsing.lua - benchmark: parsing. A recursive-descent reader of JSON, byte by byte, over a text made
-- here, and a writer that gives the text back. Argument: records in the text (default 9000).
-- SPDX-License-Identifier: GPL-2.0-or-later
local records = tonumber(arg and arg[1]) or 9000
local byte, sub, find, concat = string.byte, string.sub, string.find, table.concat

local function make_text()
  local parts = {}
  for i = 1, records do
    parts[i] = ('{"id":%d,"name":"item %d","tags":["a%d","b%d"],"price":%g,"old":%s}'):format(
      i, i % 97, i % 13, i % 7, i / 4, i % 2 == 0 and "true" or "null")
  end
  return "[" .. concat(parts, ", ") .. "]"
end

local value
local function skip(s, i) return find(s, "%S", i) end

local function array(s, i)
  local out = {}
  i = skip(s, i + 1)
  while byte(s, i) ~= 93 do
    out[#out + 1], i = value(s, i)
    i = skip(s, i)
    if byte(s, i) == 44 then i = skip(s, i + 1) end
  end
  return out, i + 1
end

local function object(s, i)
  local out, key = {}, nil
  i = skip(s, i + 1)
  while byte(s, i) ~= 125 do
    key, i = value(s, i)
    out[key], i = value(s, skip(s, skip(s, i) + 1))
    i = skip(s, i)
    if byte(s, i) == 44 then i = skip(s, i + 1) end
  end
  return out, i + 1
end

local function text(s, i)
  local last = i + 1
  while byte(s, last) ~= 34 do last = last + 1 end
  return sub(s, i + 1, last - 1), last + 1
end

local words = { ["true"] = true, ["false"] = false }
local function word(s, i)
  local _, last = find(s, "^[%w.+-]+", i)
  local w = sub(s, i, last)
  if words[w] ~= nil then return words[w], last + 1 end
  return tonumber(w), last + 1
end

local readers = { [91] = array, [123] = object, [34] = text }
function value(s, i) return (readers[byte(s, i)] or word)(s, i) end

local order = { "id", "name", "tags", "price", "old" }
local function show(v)
  if type(v) == "string" then return '"' .. v .. '"' end
  if type(v) ~= "table" then return v == nil and "null" or tostring(v) end
  local parts = {}
  if v[1] then
    for i, item in ipairs(v) do parts[i] = show(item) end
    return "[" .. concat(parts, ",") .. "]"
  end
  for i, key in ipairs(order) do parts[i] = '"' .. key .. '":' .. show(v[key]) end
  return "{" .. concat(parts, ",") .. "}"
end

local source = make_text()
local first = value(source, 1)
local second = value(show(first), 1)
print(#first, #source, show(first) == show(second), first[records].name, second[records].price)
