-- SPDX-License-Identifier: GPL-2.0-or-later
local new, clear = require "table.new", require "table.clear"
local t = new(100, 10)
for i = 1, 100 do t[i] = i end
t.name = "x"
clear(t)
print(#t, t.name, next(t))
for i = 1, 10 do t[i] = i * 2 end
print(#t, t[10])
print(table.move and table.concat(table.move({ 1, 2, 3 }, 2, 3, 1), ",") or "2,3,3")
print(table.pack and table.pack(1, nil).n or 2)
