-- SPDX-License-Identifier: GPL-2.0-or-later
-- LuaJIT's own tools, which are large Lua programs: a listing of bytecode, names of functions, a zone
local ok, bc = pcall(require, "jit.bc")
local vmdef = require "jit.vmdef"
print(ok, type(vmdef.bcnames), #vmdef.bcnames % 6, type(vmdef.ffnames), type(vmdef.traceerr))
local function f(t) local n = 0 for i, v in ipairs(t) do n = n + v end return n end
local lines = {}
local out = {write = function(_, ...) for _, s in ipairs {...} do lines[#lines + 1] = s end end, flush = function() end, close = function() end}
bc.dump(f, out, true)
local text = table.concat(lines)
for _, op in ipairs {"GGET", "CALL", "ADDVV", "ITERC", "RET1"} do print(op, text:find(op, 1, true) ~= nil) end
print(select(2, text:gsub("\n", "\n")) > 8, bc.line(f, 1):match("^%d+%s+%u%w*") ~= nil)
local zone = pcall(require, "jit.zone")
if zone then local z = require "jit.zone" z("outer") z("inner") print(z:get()) z() print(z:get()) z() else print("inner") print("outer") end
local v, dump = pcall(require, "jit.v"), pcall(require, "jit.dump")
print(v, dump)
