-- SPDX-License-Identifier: GPL-2.0-or-later
-- what the compiler tells of functions and traces: the parts that are the same on and off
local util = require "jit.util"
local function f(a, b, ...) local c = a + b return c, function() return c end end
local info = util.funcinfo(f)
print(info.params, info.isvararg, info.upvalues, info.children, info.linedefined, info.lastlinedefined, info.gcconsts)
print(info.stackslots >= 3, info.bytecodes > 4, info.nconsts, (info.source:gsub("^@.*/", "@")))
for pc = 0, 3 do print(pc, util.funcbc(f, pc) ~= nil) end
print(util.funck(f, -1) ~= nil, util.funcuvname(select(2, f(1, 2)), 0))
print(util.funcinfo(print).ffid ~= nil, util.funcinfo(print).addr ~= nil, util.traceinfo(1000000), util.funcbc(f, 100000))
local lines = {}
for pc = 1, info.bytecodes - 1 do lines[util.funcinfo(f, pc).currentline] = true end
for line in pairs(lines) do print("line", line) end
local was = jit.status()
local n = 0
for i = 1, 300 do n = n + #{i} end
if was then
  local t = util.traceinfo(1)
  print(t == nil or (t.nins > 0 and t.nk > 0 and t.nexit >= 0))
else
  print(util.traceinfo(1) == nil)
end
print(n, pcall(util.funcinfo, 1) == false)
