-- SPDX-License-Identifier: GPL-2.0-or-later
local source = [[
local t = {}
for i = 1, 5 do t[i] = function(x) return x + i end end
return function(k, x) return t[k](x) end ]]
local direct = assert(loadstring(source))()
local code = string.dump(assert(loadstring(source)), true)
local again = assert(loadstring(code))()
for k = 1, 5 do io.write(direct(k, 10), "=", again(k, 10), " ") end
print()
print(#code > 0, code:sub(1, 3) == "\27LJ", pcall(string.dump, print))
print(loadstring(code:sub(1, 20)) == nil)
