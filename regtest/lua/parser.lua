-- SPDX-License-Identifier: GPL-2.0-or-later
local source = { "local t = {" }
for i = 1, 500 do source[#source + 1] = ("  f%d = function(a, b) if a > b then return a - %d else return {a, b, %d} end end,"):format(i, i, i) end
source[#source + 1] = "} return t"
local t = assert(loadstring(table.concat(source, "\n")))()
print(t.f10(20, 5), #t.f500(1, 2), t.f500(1, 2)[3])
local deep = string.rep("(", 150) .. "7" .. string.rep(")", 150)
print(loadstring("return " .. deep)())
print((select(2, loadstring("return " .. string.rep("(", 1000) .. "1" .. string.rep(")", 1000))):match("[^:]+$")))
print(loadstring("return [==[ ]] ]=] ]==], '\\x41\\z   \\65', 0x.8p1, 1e-2 --[[ c ]] --[=[ d\n]=]")())
print(loadstring("x = = 1"), loadstring("for"), loadstring("'unfinished"))
