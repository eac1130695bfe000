-- trees.lua - benchmark: allocation first. Binary trees are built, walked and dropped, and one stays, so
-- that the collector has work. Many News and Frees, few accesses for each. Argument: depth (default 15).
-- SPDX-License-Identifier: GPL-2.0-or-later
local depth = tonumber(arg and arg[1]) or 15

local function build(d)
  if d == 0 then return {} end
  return { build(d - 1), build(d - 1) }
end

local function walk(t)
  if not t[1] then return 1 end
  return 1 + walk(t[1]) + walk(t[2])
end

local lasting, nodes = build(depth), 0
for d = 4, depth, 3 do
  for _ = 1, 2 ^ (depth - d + 1) do nodes = nodes + walk(build(d)) end
end
print(nodes, walk(lasting))
